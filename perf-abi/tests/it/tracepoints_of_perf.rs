//! Tracepoints as perf prints them.

use std::fs::File;
use std::process::Command;
use std::sync::Arc;

use memwide_perf_abi::tracepoint::{EventReader, TracepointEvent};
use memwide_perf_abi::{PerfFile, SampleView, attr_kind};

use crate::corpus::folder;
use crate::perf_script::perf_exists;

/// The part of perf's line that says what the event says, in perf's words.
fn in_perfs_words(event: &TracepointEvent<'_>) -> Vec<String> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match event {
        TracepointEvent::Alloc(alloc) => vec![
            format!("ptr={:#x} ", alloc.ptr),
            format!(
                "bytes_req={} bytes_alloc={} ",
                alloc.bytes_requested, alloc.bytes_allocated
            ),
        ],
        TracepointEvent::Free(free) => vec![if free.ptr == 0 {
            "ptr=(nil)".to_owned()
        } else {
            format!("ptr={:#x}", free.ptr)
        }],
        TracepointEvent::PageAlloc(pages) => vec![
            format!("pfn=0x{:x} ", pages.pfn.unwrap()),
            format!("order={} ", pages.order),
        ],
        TracepointEvent::PageFree(pages) => vec![
            format!("pfn=0x{:x} ", pages.pfn.unwrap()),
            format!("order={}", pages.order),
        ],
        TracepointEvent::RssStat(stat) => vec![
            format!("mm_id={} ", stat.mm_id.unwrap()),
            format!("size={}B", stat.bytes),
        ],
        TracepointEvent::Switch(switch) => vec![
            format!(
                "prev_comm={} prev_pid={} prev_prio={} ",
                text(switch.prev_comm),
                switch.prev_tid,
                switch.prev_prio
            ),
            format!(
                "next_comm={} next_pid={} next_prio={}",
                text(switch.next_comm),
                switch.next_tid,
                switch.next_prio
            ),
        ],
        TracepointEvent::SyscallEnter(call) => vec![match call.memory.unwrap() {
            memwide_perf_abi::tracepoint::MemoryCall::Map { addr, len, .. } => {
                format!("addr: 0x{addr:08x}, len: 0x{len:08x}")
            }
            memwide_perf_abi::tracepoint::MemoryCall::Break { end } => format!("brk: 0x{end:08x}"),
            other => panic!("{other:?} was not asked for"),
        }],
        TracepointEvent::SyscallExit(exit) => vec![format!("0x{:x}", exit.result)],
        TracepointEvent::PageFault(fault) => vec![format!("error_code=0x{:x}", fault.error_code)],
        TracepointEvent::DamonRegion(region) => vec![
            format!("target_id={} nr_regions={} ", region.target, region.regions),
            format!("{}-{}: {}", region.start, region.end, region.accesses),
        ],
        TracepointEvent::Exec(exec) => {
            vec![format!("filename={} pid={}", text(exec.filename), exec.tid)]
        }
        other => vec![format!("{other:?}")],
    }
}

/// Samples that differ, as text; the number of samples compared.
fn compare(path: &std::path::Path) -> (Vec<String>, usize) {
    let output = Command::new("perf")
        .args(["script", "-F", "trace", "--no-itrace", "-f", "-i"])
        .arg(path)
        .output()
        .unwrap();
    let theirs = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut theirs = theirs.lines();
    let mut file = PerfFile::open(File::open(path).unwrap()).unwrap();
    let tracing = Arc::clone(file.tracing_data().unwrap());
    let events = Arc::clone(file.events());
    let mut records = file.sorted().unwrap();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    while let Some(item) = records.next().unwrap() {
        let Some(event) = item.event.and_then(|event| events.get(event)) else {
            continue;
        };
        if !item.record.is_sample() || event.attr.kind != attr_kind::TRACEPOINT {
            continue;
        }
        let line = theirs.next().unwrap_or("perf has fewer");
        let view = SampleView::parse(item.record.body(), event.layout.as_ref().unwrap()).unwrap();
        let tracepoint = tracing.tracepoint(event.attr.config).unwrap();
        let reader = EventReader::new(tracepoint).unwrap();
        let ours = reader.read(view.raw().unwrap()).unwrap();
        let parts = in_perfs_words(&ours);
        if !parts.iter().all(|part| line.contains(part.as_str())) {
            wrong.push(format!("{parts:?} is not in {line:?}"));
        }
        compared += 1;
    }
    (wrong, compared)
}

#[test]
fn tracepoints_of_the_collection_say_what_perf_prints() {
    let Some(folder) = folder() else { return };
    if !perf_exists() {
        return;
    }
    let (wrong, compared) = compare(&folder.join("tp-damon_aggregated.data"));
    assert_eq!(wrong, [""; 0], "{:?}", wrong.first());
    assert!(compared > 1000, "{compared}");
}

#[test]
fn tracepoints_of_this_machine_say_what_perf_prints() {
    if !perf_exists() {
        return;
    }
    let path =
        std::env::temp_dir().join(format!("memwide-tracepoints-{}.data", std::process::id()));
    let events = "kmem:kmalloc,kmem:kfree,kmem:mm_page_alloc,kmem:mm_page_free,kmem:rss_stat,sched:sched_switch,\
                  sched:sched_process_exec,syscalls:sys_enter_mmap,syscalls:sys_exit_mmap,syscalls:sys_enter_brk,\
                  exceptions:page_fault_user";
    let output = Command::new("perf")
        .args(["record", "-q", "-o"])
        .arg(&path)
        .args(["-e", events, "--", "ls", "/usr/lib"])
        .output()
        .unwrap();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        eprintln!("skipped: perf record of tracepoints: {why}");
        return;
    }
    let (wrong, compared) = compare(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {compared}: {:?}",
        wrong.len(),
        wrong.first()
    );
    assert!(compared > 100, "{compared}");
}

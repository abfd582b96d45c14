//! Several threads say what one says.

use crate::files::{self, ANON, APP, KERNEL, L3, REMOTE, STORE};
use crate::run::{fine, memwide};
use memwide_perf_abi::file::Features;
use memwide_perf_abi::{
    Comm, FileId, FileWriter, Mmap2, Record, SampleFields, SampleId, SampleLayout, Weight, encode,
    misc,
};
use std::fs::File;
use std::path::Path;

/// Enough for several chunks of records a worker.
const SAMPLES: u64 = 30_000;

/// Samples of four processes whose names and mappings change all the time.
fn write(to: &Path) {
    let events = &files::events()[..2];
    let layouts: Vec<_> = events
        .iter()
        .map(|event| SampleLayout::new(&event.attr).unwrap())
        .collect();
    let mut writer = FileWriter::new(File::create(to).unwrap(), events).unwrap();
    let mut batch = Vec::new();
    for at in 0..SAMPLES {
        let time = 1_000_000_001 + at;
        let pid = 100 + u32::try_from(at % 4).unwrap();
        if at % 97 < 4 {
            side_band(&mut batch, &layouts[0], pid, at, time);
        }
        let chain = [
            128_u64.wrapping_neg(),
            KERNEL + 0x1010 + at % 3 * 0x1000,
            512_u64.wrapping_neg(),
            APP + at % 7 * 16,
        ];
        let kernel = at % 5 == 0;
        let fields = SampleFields {
            id: events[usize::from(at % 3 == 0)].ids[0],
            time,
            pid,
            tid: pid,
            cpu: u32::try_from(at % 2).unwrap(),
            period: 1 + at % 11,
            ip: if kernel { chain[1] } else { APP + at % 13 * 8 },
            addr: ANON + at % 29 * 40,
            data_src: [L3, REMOTE, STORE][usize::try_from(at % 31 % 3).unwrap()],
            weight: Weight {
                weight: at % 400,
                ..Weight::default()
            },
            callchain: if kernel { &chain } else { &chain[2..] },
            ..SampleFields::default()
        };
        let mode = if kernel { misc::KERNEL } else { misc::USER };
        let layout = &layouts[usize::from(at % 3 == 0)];
        encode::sample(&mut batch, &fields, mode, layout).unwrap();
        if at % 1000 == 999 {
            writer.write_records(&batch).unwrap();
            writer.finish_round().unwrap();
            batch.clear();
        }
    }
    writer.write_records(&batch).unwrap();
    writer.finish(&Features::default()).unwrap();
}

fn side_band(batch: &mut Vec<u8>, layout: &SampleLayout, pid: u32, at: u64, time: u64) {
    let id = SampleId {
        pid: Some(pid),
        tid: Some(pid),
        time: Some(time),
        id: Some(10),
        cpu: Some(0),
        ..SampleId::default()
    };
    let comm = format!("worker {}", at / 97 % 5);
    let path = format!("/nowhere/app{}", at / 97 % 3);
    let map = |addr, len, filename, prot| {
        Record::Mmap2(Mmap2 {
            pid,
            tid: pid,
            addr,
            len,
            pgoff: 0,
            file: FileId::Inode {
                maj: 8,
                min: 1,
                ino: at,
                generation: 0,
            },
            prot,
            flags: 2,
            filename,
            data: false,
        })
    };
    let records = [
        Record::Comm(Comm {
            pid,
            tid: pid,
            comm: comm.as_bytes(),
            exec: at.is_multiple_of(97),
        }),
        map(APP, 0x1000 + at / 97 % 2 * 0x1000, path.as_bytes(), 5),
        map(ANON, 0x1000, b"//anon", 3),
    ];
    for record in records {
        encode::record(batch, &record, misc::USER, Some((layout.trailer(), &id))).unwrap();
    }
}

#[test]
fn several_threads_say_what_one_says() {
    let folder = tempfile::tempdir().unwrap();
    let (file, kallsyms) = (folder.path().join("a.data"), files::kallsyms(folder.path()));
    write(&file);
    let every_key = "symbol,dso,comm,pid,cpu,mem,snoop,tlb,symbol_daddr,dso_daddr,dcacheline";
    let coded = "context,op,level,outcome,locality,region,local_weight";
    let questions: [&[&str]; 9] = [
        &["script"],
        &["script", "--format", "ndjson"],
        &["report"],
        &["report", "--sort", every_key],
        &["report", "--sort", coded, "--by", "period"],
        &["report", "--sort", "symbol", "-g", "--filter", "cpu=1"],
        &[
            "report", "--sort", "symbol", "-g", "caller", "--format", "json",
        ],
        &["report", "--sort", "comm,symbol", "--children"],
        &["report", "--sort", "dso,symbol", "--hierarchy"],
    ];
    for question in questions {
        let ask = |threads| {
            let with = ["--kallsyms", kallsyms.to_str().unwrap(), "-j", threads];
            fine(question[0], &file, &[&question[1..], &with].concat())
        };
        let alone = ask("1");
        assert!(alone.out.lines().count() > 3, "{question:?}: {}", alone.out);
        for threads in ["2", "3", "5"] {
            let several = ask(threads);
            assert_eq!(
                several.out, alone.out,
                "{question:?} with {threads} threads"
            );
            assert_eq!(
                several.err, alone.err,
                "{question:?} with {threads} threads"
            );
        }
    }
}

#[test]
fn a_file_that_is_cut_is_told_alike_by_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (file, cut) = (folder.path().join("a.data"), folder.path().join("b.data"));
    write(&file);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let [one, several] = ["1", "3"].map(|threads| memwide("report", &cut, &["-j", threads]));
    assert_eq!(one.code, Some(65));
    assert_eq!(
        (several.code, &several.out, &several.err),
        (Some(65), &one.out, &one.err)
    );
}

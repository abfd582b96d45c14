//! Tracepoints: typed events whatever the kernel's layout and the machine's byte order.

use memwide_perf_abi::file::{Tracepoint, TracingData};
use memwide_perf_abi::tracepoint::{EventReader, FieldReader, FieldValue};
use memwide_perf_abi::{PerfFile, attr_kind};

use crate::foreign::Out;

/// A field of a tracepoint made here.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// So many bytes, signed or not.
    Number(usize, bool, i64),
    /// `char name[16]`.
    Name(&'static str),
    /// `__data_loc char[]`.
    Dynamic(&'static str),
    /// `__rel_loc char[]`.
    Relative(&'static str),
}

const fn long(value: i64) -> Value {
    Value::Number(8, false, value)
}

const fn int(value: i64) -> Value {
    Value::Number(4, true, value)
}

type Fields = [(&'static str, Value)];

/// Format text and raw data with the fields in this order.
fn lay_out(name: &str, fields: &[(&str, Value)], print_fmt: &str, big: bool) -> (String, Vec<u8>) {
    let mut text = format!(
        "name: {name}\nID: 77\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let size = |value: &Value| match value {
        Value::Number(size, ..) => *size,
        Value::Name(_) => 16,
        Value::Dynamic(_) | Value::Relative(_) => 4,
    };
    let mut places = Vec::new();
    let mut at: usize = 8;
    for (_, value) in fields {
        at = at.next_multiple_of(size(value).min(8));
        places.push(at);
        at += size(value);
    }
    let mut raw = Out::new(big);
    raw.u16(77).u16(0).u32(100);
    let mut tail = Vec::new();
    for ((name, value), place) in fields.iter().zip(&places) {
        raw.bytes.resize(*place, 0);
        let len = size(value);
        let (declared, signed) = match value {
            Value::Number(_, signed, number) => {
                let bits = number.cast_unsigned();
                match len {
                    4 => raw.u32(u32::try_from(bits & 0xffff_ffff).unwrap()),
                    8 => raw.u64(bits),
                    _ => panic!("no number of {len} bytes"),
                };
                (format!("some_t {name}"), *signed)
            }
            Value::Name(text) => {
                raw.fixed(text, 16);
                (format!("char {name}[16]"), false)
            }
            Value::Dynamic(text) | Value::Relative(text) => {
                let relative = matches!(value, Value::Relative(_));
                let from = at + tail.len() - if relative { place + 4 } else { 0 };
                let word = (text.len() + 1) << 16 | from;
                raw.u32(u32::try_from(word).unwrap());
                tail.extend_from_slice(text.as_bytes());
                tail.push(0);
                let kind = if relative { "__rel_loc" } else { "__data_loc" };
                (format!("{kind} char[] {name}"), true)
            }
        };
        text += &format!(
            "\tfield:{declared};\toffset:{place};\tsize:{len};\tsigned:{};\n",
            u8::from(signed)
        );
    }
    raw.raw(&tail);
    text += &format!("\nprint fmt: {print_fmt}\n");
    (text, raw.bytes)
}

/// The tracepoint as a file's tracing data of either byte order describes it.
fn described(system: &str, text: &str, big: bool) -> Tracepoint {
    let mut out = Out::new(big);
    out.raw(b"\x17\x08\x44tracing0.6\0");
    out.raw(&[u8::from(big), 8]).u32(4096);
    out.raw(b"header_page\0").u64(0);
    out.raw(b"header_event\0").u64(0);
    out.u32(0).u32(1);
    out.raw(system.as_bytes()).raw(b"\0").u32(1);
    out.u64(u64::try_from(text.len()).unwrap())
        .raw(text.as_bytes());
    let data = TracingData::parse(&out.bytes).unwrap();
    data.tracepoint(77).unwrap().clone()
}

/// The event is the same in any order of fields, with numbers of either size, in either byte order.
#[track_caller]
fn check(system: &str, name: &str, fields: &Fields, expected: &str) {
    let reversed: Vec<_> = fields.iter().rev().copied().collect();
    let small = |(name, value): &(&'static str, Value)| match value {
        Value::Number(8, signed, number) if i32::try_from(*number).is_ok() => {
            (*name, Value::Number(4, *signed || *number < 0, *number))
        }
        other => (*name, *other),
    };
    let small: Vec<_> = fields.iter().map(small).collect();
    for fields in [fields, &reversed, &small] {
        for big in [false, true] {
            let (text, raw) = lay_out(name, fields, "", big);
            let tracepoint = described(system, &text, big);
            let reader = EventReader::new(&tracepoint).unwrap();
            let event = reader.read(&raw).unwrap();
            assert_eq!(
                format!("{event:?}"),
                expected,
                "{name}, big {big}, {fields:?}"
            );
            // Cut anywhere it is no event, or the same one.
            for cut in 0..raw.len() {
                let _ = reader.read(&raw[..cut]);
            }
            assert_eq!(reader.read(&raw[..8]), None);
        }
    }
}

#[test]
fn memory_tracepoints_are_read_whatever_their_layout() {
    let alloc = [
        ("call_site", long(0x1000)),
        ("ptr", long(0x2000)),
        ("bytes_req", long(100)),
        ("bytes_alloc", long(128)),
        ("gfp_flags", long(0xcc0)),
        ("node", int(-1)),
    ];
    let expected = "Alloc(Alloc { call_site: 4096, ptr: 8192, bytes_requested: 100, bytes_allocated: 128, gfp_flags: 3264, \
                    node: None })";
    for name in ["kmalloc", "kmalloc_node", "kmem_cache_alloc"] {
        check("kmem", name, &alloc, expected);
    }
    check("kmem", "kmalloc", &alloc[..5], expected);
    let free = [
        ("call_site", long(0x1000)),
        ("ptr", long(0x2000)),
        ("name", Value::Dynamic("dentry")),
    ];
    check(
        "kmem",
        "kfree",
        &free[..2],
        "Free(Free { call_site: 4096, ptr: 8192, cache: None })",
    );
    let cache =
        "Free(Free { call_site: 4096, ptr: 8192, cache: Some([100, 101, 110, 116, 114, 121]) })";
    check("kmem", "kmem_cache_free", &free, cache);
    let relative = [free[0], free[1], ("name", Value::Relative("dentry"))];
    check("kmem", "kmem_cache_free", &relative, cache);
    let pages = [
        ("pfn", long(77)),
        ("order", int(3)),
        ("gfp_flags", long(5)),
        ("migratetype", int(1)),
    ];
    check(
        "kmem",
        "mm_page_alloc",
        &pages,
        "PageAlloc(PageAlloc { pfn: Some(77), order: 3, gfp_flags: 5, migrate_type: Some(1) })",
    );
    check(
        "kmem",
        "mm_page_free",
        &pages[..2],
        "PageFree(PageFree { pfn: Some(77), order: 3 })",
    );
    check(
        "kmem",
        "mm_page_free",
        &[("pfn", long(-1)), ("order", int(0))],
        "PageFree(PageFree { pfn: None, order: 0 })",
    );
    check(
        "kmem",
        "mm_page_free",
        &[("page", long(0x1234)), ("order", int(0))],
        "PageFree(PageFree { pfn: None, order: 0 })",
    );
    check(
        "kmem",
        "rss_stat",
        &[
            ("mm_id", int(9)),
            ("curr", int(1)),
            ("member", int(1)),
            ("size", Value::Number(8, true, -4096)),
        ],
        "RssStat(RssStat { mm_id: Some(9), current: Some(true), member: Anonymous, bytes: -4096 })",
    );
    check(
        "exceptions",
        "page_fault_user",
        &[
            ("address", long(0x7f00)),
            ("ip", long(0x40)),
            ("error_code", long(6)),
        ],
        "PageFault(PageFault { user: true, address: 32512, ip: 64, error_code: 6 })",
    );
    check(
        "damon",
        "damon_aggregated",
        &[
            ("target_id", long(1)),
            ("nr_regions", int(8)),
            ("start", long(4096)),
            ("end", long(8192)),
            ("nr_accesses", int(5)),
            ("age", int(2)),
        ],
        "DamonRegion(DamonRegion { target: 1, regions: 8, start: 4096, end: 8192, accesses: 5, age: Some(2) })",
    );
}

#[test]
fn scheduling_tracepoints_are_read_whatever_their_layout() {
    check(
        "sched",
        "sched_switch",
        &[
            ("prev_comm", Value::Name("a")),
            ("prev_pid", int(1)),
            ("prev_prio", int(120)),
            ("prev_state", Value::Number(8, true, 2)),
            ("next_comm", Value::Name("b")),
            ("next_pid", int(2)),
            ("next_prio", int(-1)),
        ],
        "Switch(Switch { prev_comm: [97], prev_tid: 1, prev_prio: 120, prev_state: 2, next_comm: [98], next_tid: 2, \
         next_prio: -1 })",
    );
    let task = [
        ("comm", Value::Name("a")),
        ("pid", int(1)),
        ("prio", int(120)),
        ("target_cpu", int(3)),
    ];
    check(
        "sched",
        "sched_wakeup",
        &task,
        "Wakeup(Wakeup { comm: [97], tid: 1, prio: 120, target_cpu: Some(3) })",
    );
    check(
        "sched",
        "sched_process_exit",
        &task[..3],
        "Exit(Exit { comm: [97], tid: 1, prio: 120 })",
    );
    for comm in [Value::Name, Value::Dynamic] {
        check(
            "sched",
            "sched_process_fork",
            &[
                ("parent_comm", comm("a")),
                ("parent_pid", int(1)),
                ("child_comm", comm("b")),
                ("child_pid", int(2)),
            ],
            "Fork(Fork { parent_comm: [97], parent_tid: 1, child_comm: [98], child_tid: 2 })",
        );
    }
    check(
        "sched",
        "sched_process_exec",
        &[
            ("filename", Value::Dynamic("/b")),
            ("pid", int(1)),
            ("old_pid", int(1)),
        ],
        "Exec(Exec { filename: [47, 98], tid: 1, old_tid: 1 })",
    );
}

#[test]
fn system_calls_about_memory_are_read_whatever_their_layout() {
    let calls: [(&str, &Fields, &str); 6] = [
        (
            "mmap",
            &[
                ("addr", long(1)),
                ("len", long(2)),
                ("prot", long(3)),
                ("flags", long(0x22)),
                ("fd", long(0xffff_ffff)),
                ("off", long(4)),
            ],
            "Map { addr: 1, len: 2, prot: 3, flags: 34, fd: -1, offset: 4 }",
        ),
        (
            "munmap",
            &[("addr", long(1)), ("len", long(2))],
            "Unmap { addr: 1, len: 2 }",
        ),
        ("brk", &[("brk", long(1))], "Break { end: 1 }"),
        (
            "madvise",
            &[
                ("start", long(1)),
                ("len_in", long(2)),
                ("behavior", long(4)),
            ],
            "Advise { addr: 1, len: 2, advice: 4 }",
        ),
        (
            "mremap",
            &[
                ("addr", long(1)),
                ("old_len", long(2)),
                ("new_len", long(3)),
                ("flags", long(1)),
                ("new_addr", long(5)),
            ],
            "Remap { addr: 1, old_len: 2, new_len: 3, flags: 1, new_addr: 5 }",
        ),
        (
            "mprotect",
            &[("start", long(1)), ("len", long(2)), ("prot", long(5))],
            "Protect { addr: 1, len: 2, prot: 5 }",
        ),
    ];
    for (name, arguments, expected) in calls {
        for number in ["__syscall_nr", "nr"] {
            let fields: Vec<_> = [(number, int(9))]
                .iter()
                .chain(arguments)
                .copied()
                .collect();
            let expected =
                format!("SyscallEnter(SyscallEnter {{ number: 9, memory: Some({expected}) }})");
            check("syscalls", &format!("sys_enter_{name}"), &fields, &expected);
        }
    }
    let fields = [
        ("__syscall_nr", int(9)),
        ("ret", Value::Number(8, true, -12)),
    ];
    let expected = "SyscallExit(SyscallExit { number: 9, result: -12 })";
    check("syscalls", "sys_exit_mmap", &fields, expected);
    let other = [("__syscall_nr", int(0)), ("fd", long(1))];
    check(
        "syscalls",
        "sys_enter_read",
        &other,
        "SyscallEnter(SyscallEnter { number: 0, memory: None })",
    );
}

#[test]
fn the_kernels_own_names_of_a_counter_win() {
    let print = "\"%s\", __print_symbolic(REC->member, {0, \"MM_ANONPAGES\"}, {7, \"MM_NEW\"})";
    for (member, expected) in [
        (0, "member: Anonymous"),
        (7, "member: Other(7)"),
        (2, "member: Swap"),
    ] {
        let fields = [("member", int(member)), ("size", Value::Number(8, true, 1))];
        let (text, raw) = lay_out("rss_stat", &fields, print, false);
        let tracepoint = Tracepoint::parse("kmem", &text).unwrap();
        let event = EventReader::new(&tracepoint).unwrap().read(&raw).unwrap();
        assert!(format!("{event:?}").contains(expected), "{event:?}");
    }
}

#[test]
fn arrays_and_bitmasks_are_numbers_of_the_recording_machines_size() {
    let text = "name: x\nID: 77\nformat:\n\tfield:unsigned long args[2];\toffset:8;\tsize:16;\tsigned:0;\n\
                \tfield:__data_loc cpumask_t mask;\toffset:24;\tsize:4;\tsigned:0;\n\
                \tfield:__data_loc s16[] list;\toffset:28;\tsize:4;\tsigned:0;\n";
    for big in [false, true] {
        let tracepoint = described("a", text, big);
        let mut raw = Out::new(big);
        raw.u64(0).u64s(&[1, u64::MAX]);
        raw.u32(0x0010_0020).u32(0x0004_0030);
        raw.u64s(&[0xff00, 1]).u16(3).u16(0xffff);
        let numbers = |name| {
            let reader = FieldReader::new(tracepoint.field(name).unwrap());
            match reader.value(&raw.bytes).unwrap() {
                FieldValue::Numbers(numbers) => numbers.iter().collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            }
        };
        let unsigned = FieldValue::Unsigned;
        assert_eq!(numbers("args"), [unsigned(1), unsigned(u64::MAX)]);
        assert_eq!(numbers("mask"), [unsigned(0xff00), unsigned(1)]);
        assert_eq!(
            numbers("list"),
            [FieldValue::Signed(3), FieldValue::Signed(-1)]
        );
    }
}

/// Tracing data of one tracepoint.
fn tracing_bytes(big: bool) -> Vec<u8> {
    let (text, _) = lay_out(
        "kfree",
        &[("call_site", long(1)), ("ptr", long(2))],
        "",
        big,
    );
    let mut out = Out::new(big);
    out.raw(b"\x17\x08\x44tracing0.5\0");
    out.raw(&[u8::from(big), 8]).u32(4096);
    out.raw(b"header_page\0").u64(0);
    out.raw(b"header_event\0").u64(0);
    out.u32(0).u32(1).raw(b"kmem\0").u32(1);
    out.u64(u64::try_from(text.len()).unwrap());
    out.raw(text.as_bytes());
    out.bytes
}

#[test]
fn tracing_data_among_the_records_names_the_events() {
    let tracing = tracing_bytes(false);
    let len = u32::try_from(tracing.len()).unwrap();
    // As a record that holds it; as one of simpleperf's own; in pieces.
    let mut plain = Out::new(false);
    plain.record(66, 0, |out| {
        out.u32(len).raw(&tracing);
    });
    let mut own = Out::new(false);
    own.record(0x8009, 0, |out| {
        out.u32(len).raw(&tracing);
    });
    let mut pieces = Out::new(false);
    for piece in own.bytes.chunks(100) {
        pieces.record(0x8004, 0, |out| {
            out.raw(piece);
        });
    }
    pieces.record(0x8005, 0, |_| {});
    for records in [plain, own, pieces] {
        let event = memwide_perf_abi::file::EventSpec {
            attr: memwide_perf_abi::Attr {
                kind: attr_kind::TRACEPOINT,
                config: 77,
                sample_type: memwide_perf_abi::sample::RAW,
                ..memwide_perf_abi::Attr::default()
            },
            name: String::new(),
            ids: vec![1],
        };
        let mut bytes = std::io::Cursor::new(Vec::new());
        // Never finished: the header describes nothing.
        let mut writer = memwide_perf_abi::FileWriter::new(&mut bytes, &[event]).unwrap();
        writer.write_records(&records.bytes).unwrap();
        drop(writer);
        let file = PerfFile::open(bytes).unwrap();
        assert_eq!(file.events().events()[0].name, "kmem:kfree");
    }
}

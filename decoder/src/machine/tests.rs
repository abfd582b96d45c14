use super::*;
use crate::table::Loaded;
use memwide_objects::{
    Flags, Segment, Segments, Source, Symbol, SymbolTable, Symbols, SymbolsBuilder,
};
use memwide_perf_abi::{Comm, FileId, Ksymbol, Task as TaskRecord};
use std::sync::Arc;

const KERNEL_START: u64 = 0xffff_ffff_8100_0000;

fn symbols(list: &[(u64, u64, &str)]) -> Symbols {
    let mut builder = SymbolsBuilder::with_capacity(list.len());
    for (start, size, name) in list {
        builder.push(Symbol {
            start: *start,
            size: *size,
            name,
            source: Source::SymTab,
            flags: Flags::NONE,
        });
    }
    builder.finish()
}

/// Code at vaddr 0x2000 from offset 0x1000, data at 0x5000 from offset 0x3000 with 0x1800 bytes of `.bss` behind 0x800.
fn program() -> SymbolTable {
    let segment = |vaddr, offset, file_size, mem_size, flags| Segment {
        vaddr,
        offset,
        file_size,
        mem_size,
        flags,
    };
    SymbolTable::from_parts(
        Segments::new(vec![
            segment(0x2000, 0x1000, 0x1000, 0x1000, 5),
            segment(0x5000, 0x3000, 0x800, 0x2000, 6),
        ]),
        symbols(&[(0x2100, 0x80, "_ZN3lib4workEv")]),
        symbols(&[(0x5010, 0x10, "counter"), (0x6200, 0x100, "table")]),
    )
}

fn mmap(pid: u32, addr: u64, pgoff: u64, exec: bool, name: &'static str) -> Record<'static> {
    let inode = FileId::Inode {
        maj: 8,
        min: 1,
        ino: 7,
        generation: 0,
    };
    Record::Mmap2(Mmap2 {
        pid,
        tid: pid,
        addr,
        len: 0x1000,
        pgoff,
        file: inode,
        prot: if exec { 5 } else { 3 },
        flags: 2,
        filename: name.as_bytes(),
        data: !exec,
    })
}

fn machine() -> Machine {
    let mut machine = Machine::new(Policy::KERNEL);
    let user = [
        mmap(10, 0x7000_0000, 0x1000, true, "/bin/prog"),
        mmap(10, 0x7000_1000, 0x3000, false, "/bin/prog"),
        mmap(10, 0x7000_2000, 0, false, "//anon"),
        mmap(10, 0x8000_0000, 0, false, "[heap]"),
        mmap(10, 0x9000_0000, 0, true, "//anon"),
    ];
    for (time, record) in (1..).zip(&user) {
        machine.apply(record, misc::USER, time);
    }
    let kernel = Record::Mmap(Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: KERNEL_START + 0x100,
        len: 0x10_0000,
        pgoff: KERNEL_START,
        filename: b"[kernel.kallsyms]_text",
        data: false,
    });
    machine.apply(&kernel, misc::KERNEL, 1);
    let tables: Vec<_> = machine
        .objects()
        .iter()
        .filter(|(_, object)| matches!(object.what, What::File | What::Kernel))
        .map(|(_, object)| (object.mapping, object.identity.kind))
        .collect();
    for (mapping, kind) in tables {
        let table = if kind == Kind::Kernel {
            SymbolTable::from_parts(
                Segments::default(),
                symbols(&[(0x200, 0x100, "do_syscall_64")]),
                Symbols::default(),
            )
        } else {
            program()
        };
        let loaded = Arc::new(Loaded::new(table, mapping, kind));
        machine.set_table(mapping, TableState::Present(loaded));
    }
    machine
}

fn shown(machine: &Machine, place: &Place) -> (String, String) {
    let objects = machine.objects();
    let dso = place.object.and_then(|object| objects.get(object));
    let name = place.object.zip(place.symbol).map(|(object, symbol)| {
        let table = objects.table(object);
        table.map_or_else(String::new, |table| {
            table.shown_name(symbol, place.variable).to_owned()
        })
    });
    (
        name.unwrap_or_default(),
        dso.map_or("[unknown]", |object| object.dso()).to_owned(),
    )
}

#[test]
fn code_addresses_become_functions_by_the_files_own_addresses() {
    let mut machine = machine();
    for (mode, ip, address, name, dso) in [
        (Mode::User, 0x7000_0100, 0x2100, "lib::work", "/bin/prog"),
        (Mode::User, 0x7000_0180, 0x2180, "", "/bin/prog"),
        (Mode::User, 0x6000_0000, 0x6000_0000, "", "[unknown]"),
        (Mode::User, 0x9000_0010, 0x9000_0010, "", "/tmp/perf-10.map"),
        (
            Mode::Kernel,
            KERNEL_START + 0x210,
            0x210,
            "do_syscall_64",
            "[kernel.kallsyms]",
        ),
        (
            Mode::Guest,
            KERNEL_START + 0x210,
            KERNEL_START + 0x210,
            "",
            "[unknown]",
        ),
    ] {
        let place = machine.code(mode, 10, ip, 100);
        assert_eq!(place.address, address, "{ip:#x}");
        assert_eq!(
            shown(&machine, &place),
            (name.into(), dso.into()),
            "{ip:#x}"
        );
    }
}

#[test]
fn data_addresses_become_variables_also_in_bss() {
    let mut machine = machine();
    let place = machine.data(Mode::User, 10, 0x7000_1018, 100);
    assert_eq!(
        shown(&machine, &place),
        ("counter".into(), "/bin/prog".into())
    );
    let anonymous = machine.data(Mode::User, 10, 0x7000_2210, 100);
    assert_eq!(
        shown(&machine, &anonymous),
        (String::new(), "//anon".into())
    );
    let place = machine.bss(10, 0x7000_2210, 100).unwrap();
    assert_eq!(
        shown(&machine, &place),
        ("table".into(), "/bin/prog".into())
    );
    assert_eq!(machine.bss(10, 0x8000_0010, 100), None);
}

#[test]
fn kernel_symbols_come_and_go() {
    let mut machine = machine();
    let at = 0xffff_ffff_c000_0000;
    let ksymbol = |flags| {
        Record::Ksymbol(Ksymbol {
            addr: at,
            len: 0x40,
            ksym_type: 1,
            flags,
            name: b"bpf_prog_1234_drop",
        })
    };
    machine.apply(&ksymbol(0), misc::KERNEL, 10);
    machine.apply(&ksymbol(1), misc::KERNEL, 20);
    for (time, dso) in [
        (9, "[unknown]"),
        (15, "bpf_prog_1234_drop"),
        (20, "[unknown]"),
    ] {
        let place = machine.code(Mode::Kernel, 0, at + 8, time);
        assert_eq!(shown(&machine, &place).1, dso, "at {time}");
    }
}

#[test]
fn a_build_id_from_the_header_names_the_mapping() {
    let mut machine = Machine::new(Policy::PERF);
    let id = BuildId::new([9; 20], 20);
    machine.set_build_id("/bin/prog", id, misc::USER);
    machine.apply(&mmap(3, 0x1000, 0, true, "/bin/prog"), misc::USER, 1);
    let (_, object) = machine.objects().iter().next().unwrap();
    assert_eq!(
        (object.identity.kind, object.build_id()),
        (Kind::BuildId, Some(&[9; 20][..]))
    );
}

#[test]
fn kernel_threads_are_known_by_their_parent() {
    let mut machine = machine();
    let start = TaskRecord {
        pid: 77,
        ppid: 2,
        tid: 77,
        ptid: 2,
        time: 5,
    };
    machine.apply(&Record::Fork(start), 0, 5);
    let comm = Comm {
        pid: 77,
        tid: 77,
        comm: b"kworker/0:1",
        exec: false,
    };
    machine.apply(&Record::Comm(comm), 0, 6);
    let of = |pid| machine.context(Mode::Kernel, pid, false, None);
    assert_eq!(
        (of(77), of(0), of(10)),
        (Context::Kthread, Context::Idle, Context::Kernel)
    );
}

use super::*;
use memwide_model::{
    BootId, Context, HostId, Level, Locality, MemRegion, Region, Suspect, TAXONOMY,
};
use memwide_objects::{
    Flags, Segments, Source as SymbolSource, Symbol, SymbolTable, Symbols, SymbolsBuilder,
};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, FileId, Mmap, Mmap2, SampleFields, SampleId, SampleLayout, Task, encode,
    misc, sample,
};
use xxhash_rust::xxh3::xxh3_64;

const KERNEL: u64 = 0xffff_ffff_8100_0000;
const ID: u64 = 77;

fn attr() -> Attr {
    let fields = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU;
    let more = sample::ADDR | sample::PERIOD | sample::WEIGHT_STRUCT | sample::DATA_SRC;
    Attr {
        sample_type: fields | more | sample::PHYS_ADDR | sample::CALLCHAIN,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

fn layout() -> SampleLayout {
    SampleLayout::new(&attr()).unwrap()
}

fn side_band(records: &[(u64, u16, Record<'_>)]) -> v1::Section {
    let layout = layout();
    let mut raw = Vec::new();
    for (time, record_misc, record) in records {
        let id = SampleId {
            time: Some(*time),
            id: Some(ID),
            cpu: Some(0),
            ..SampleId::default()
        };
        encode::record(
            &mut raw,
            record,
            *record_misc,
            Some((layout.trailer(), &id)),
        )
        .unwrap();
    }
    section(raw, records.len())
}

fn section(raw: Vec<u8>, records: usize) -> v1::Section {
    v1::Section {
        encoding: v1::section::Encoding::Raw.into(),
        raw_bytes: raw.len() as u64,
        records: u32::try_from(records).unwrap(),
        checksum: xxh3_64(&raw),
        data: raw.into(),
    }
}

fn samples(fields: &[(u16, SampleFields<'_>)]) -> v1::Section {
    let layout = layout();
    let mut raw = Vec::new();
    for (record_misc, fields) in fields {
        encode::sample(&mut raw, fields, *record_misc, &layout).unwrap();
    }
    section(raw, fields.len())
}

fn facts() -> v1::HostFacts {
    v1::HostFacts {
        hostname: "host".into(),
        arch: "x86_64".into(),
        cpu_vendor: "GenuineIntel".into(),
        cpuid: "GenuineIntel,6,63,2".into(),
        os_release: "6.18".into(),
        nodes: vec![v1::Node {
            node: 0,
            cpus: vec![0],
            ..v1::Node::default()
        }],
        memory: vec![v1::MemoryRange {
            start: 0x1000,
            end: 0x2000,
            node: 1,
        }],
        ..v1::HostFacts::default()
    }
}

fn mmap(pid: u32, start: u64, name: &'static str) -> Record<'static> {
    Record::Mmap2(Mmap2 {
        pid,
        tid: pid,
        addr: start,
        len: 0x1000,
        pgoff: 0,
        file: FileId::BuildId(memwide_perf_abi::BuildId::new([5; 20], 20)),
        prot: 5,
        flags: 2,
        filename: name.as_bytes(),
        data: false,
    })
}

fn comm(pid: u32, comm: &'static str, exec: bool) -> Record<'static> {
    Record::Comm(Comm {
        pid,
        tid: pid,
        comm: comm.as_bytes(),
        exec,
    })
}

/// A process that runs `/bin/prog` from time 10 on, and becomes `/bin/next` at time 50.
fn first_batch() -> v1::Batch {
    let kernel = Record::Mmap(Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: KERNEL,
        len: 0x10_0000,
        pgoff: KERNEL,
        filename: b"[kernel.kallsyms]_text",
        data: false,
    });
    v1::Batch {
        number: 1,
        closed_wall_ns: 9_000,
        anchors: vec![v1::ClockAnchor {
            perf_ns: 0,
            wall_ns: 1_000_000,
            uncertainty_ns: 1,
        }],
        events: vec![v1::EventDesc {
            ordinal: 0,
            name: "mem-loads".into(),
            pmu: "cpu".into(),
            attr: attr().encode(144),
            ids: vec![ID],
            tier: "precise".into(),
            ..v1::EventDesc::default()
        }],
        facts: Some(facts()),
        side_band: Some(side_band(&[
            (0, misc::KERNEL, kernel),
            // Out of order, as rings of two CPUs are drained.
            (50, misc::USER, comm(10, "next", true)),
            (55, misc::USER, mmap(10, 0x40_0000, "/bin/next")),
            (10, misc::USER, comm(10, "prog", true)),
            (11, misc::USER, mmap(10, 0x40_0000, "/bin/prog")),
        ])),
        samples: Some(samples(&[
            (misc::USER, user(20)),
            (misc::USER, user(60)),
            (misc::KERNEL, in_kernel(30)),
        ])),
        counts: vec![v1::EventCount {
            event: 0,
            produced: 3,
            lost: 2,
            ..v1::EventCount::default()
        }],
        ..v1::Batch::default()
    }
}

fn user(time: u64) -> SampleFields<'static> {
    SampleFields {
        id: ID,
        ip: 0x40_0110,
        pid: 10,
        tid: 10,
        time,
        addr: 0x7fff_0000,
        period: 100,
        // Load, L1 hit.
        data_src: 0x2_6810_0142,
        phys_addr: 0x1800,
        ..SampleFields::default()
    }
}

const CHAIN: &[u64] = &[128_u64.wrapping_neg(), KERNEL + 0x10, KERNEL + 0x210];

fn in_kernel(time: u64) -> SampleFields<'static> {
    SampleFields {
        ip: KERNEL + 0x10,
        callchain: CHAIN,
        data_src: 0,
        ..user(time)
    }
}

fn table(list: &[(u64, &str)]) -> SymbolTable {
    let mut builder = SymbolsBuilder::default();
    for (start, name) in list {
        builder.push(Symbol {
            start: *start,
            size: 0x80,
            name,
            source: SymbolSource::SymTab,
            flags: Flags::NONE,
        });
    }
    SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default())
}

fn session() -> Session {
    let source = Source {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        epoch: 3,
    };
    Session::new(&source, "host")
}

/// Gives every table that is wanted.
fn settle(session: &mut Session, wants: &[Want]) {
    for want in wants {
        let kind = Kind::of_wire(want.identity.kind);
        let symbols = match kind {
            Kind::Kernel => table(&[(0x0, "clear_page"), (0x200, "asm_exc_page_fault")]),
            _ => table(&[(0x100, "_ZN3lib4workEv")]),
        };
        session.table_arrived(want.mapping, symbols, None);
    }
}

fn decoded() -> (Session, Decoded) {
    let mut session = session();
    let waiting = session.decode(&first_batch(), &Sent::default());
    settle(&mut session, &waiting.wants);
    let decoded = session.decode(&first_batch(), &Sent::default());
    (session, decoded)
}

#[test]
fn rows_say_what_is_known_against_them_and_who_made_them() {
    let mut batch = first_batch();
    let mut load_latency = attr();
    load_latency.config = 0x1cd;
    batch.events[0].attr = load_latency.encode(144);
    // Memory region 1 of newer CPUs, and a bit nobody has named.
    let region = 9 << 46;
    let unnamed = 1 << 60;
    batch.samples = Some(samples(&[
        (misc::USER, user(20)),
        (
            misc::USER,
            SampleFields {
                data_src: user(30).data_src | region | unnamed,
                ..user(30)
            },
        ),
    ]));
    let decoded = session().decode(&batch, &Sent::default()).batch;
    let block = decoded.accesses.unwrap();
    let names: Vec<_> = block
        .suspect
        .iter()
        .map(|code| Suspect::from_code(*code).unwrap())
        .collect();
    assert_eq!(names, [Suspect::Erratum, Suspect::UnnamedBits]);
    assert_eq!(
        block.mem_region,
        [MemRegion::Unknown.code(), MemRegion::Mem1.code()]
    );
    assert!(
        decoded
            .decoder_version
            .ends_with(&format!("+taxonomy.{TAXONOMY}")),
        "{}",
        decoded.decoder_version
    );
}

#[test]
fn a_batch_becomes_rows_decoded_at_their_times() {
    let (_, decoded) = decoded();
    assert_eq!(decoded.wants, []);
    let block = decoded.batch.accesses.unwrap();
    assert_eq!(block.rows, 3);
    assert_eq!(block.time_wall_ns, [1_000_020, 1_000_060, 1_000_030]);
    let comms: Vec<_> = block
        .comm
        .iter()
        .map(|at| block.strings[*at as usize].as_str())
        .collect();
    assert_eq!(comms, ["prog", "next", "prog"]);
    assert_eq!(block.level[0], Level::L1.code());
    assert_eq!(block.hw_locality[0], Locality::Local.code());
    assert_eq!(block.page_locality[0], Locality::Remote.code());
    assert_eq!(
        block.locality[0],
        Locality::Local.code(),
        "the hardware is believed first"
    );
    assert_eq!(block.page_node, [1, 1, 1]);
    assert_eq!(block.region[0], Region::Unknown.code());
    assert_eq!(
        block.context,
        [
            Context::User.code(),
            Context::User.code(),
            Context::Fault.code()
        ]
    );
    let definitions = decoded.batch.definitions.unwrap();
    let names: Vec<_> = definitions
        .functions
        .iter()
        .map(|function| (function.name.as_str(), function.start))
        .collect();
    assert_eq!(
        names,
        [
            ("lib::work", 0x100),
            ("clear_page", 0),
            ("asm_exc_page_fault", 0x200)
        ]
    );
    assert_eq!(definitions.stacks.len(), 1);
    assert_eq!(definitions.stacks[0].locations.len(), 2);
    assert_eq!(block.stack_id, [0, 0, definitions.stacks[0].stack_id]);
    assert_eq!(definitions.events[0].name, "mem-loads");
    assert_eq!(definitions.events[0].cpuid, "GenuineIntel,6,63,2");
    assert_eq!(decoded.batch.facts, Some(facts()));
}

#[test]
fn the_ledger_says_what_became_of_every_sample() {
    let (_, decoded) = decoded();
    let event = decoded.batch.accesses.unwrap().events[0];
    let entries: Vec<_> = decoded
        .batch
        .ledger
        .iter()
        .map(|entry| {
            (
                entry.event_id,
                Reason::from_code(entry.reason.try_into().unwrap()).unwrap(),
                entry.records,
            )
        })
        .collect();
    let expected = [
        (0, Reason::Batches, 1),
        (event, Reason::Produced, 3),
        (event, Reason::Stored, 3),
        (event, Reason::Lost, 2),
    ];
    assert_eq!(entries, expected);
}

#[test]
fn a_repeated_batch_gives_the_same_bytes() {
    use prost::Message as _;
    let (mut session, first) = decoded();
    let later = v1::Batch {
        number: 2,
        side_band: Some(side_band(&[(70, misc::USER, comm(10, "late", false))])),
        samples: Some(samples(&[(misc::USER, user(80))])),
        ..v1::Batch::default()
    };
    session.decode(&later, &Sent::default());
    let again = session.decode(&first_batch(), &Sent::default());
    assert_eq!(again.batch.encode_to_vec(), first.batch.encode_to_vec());
}

#[test]
fn definitions_are_sent_once_on_a_stream() {
    let (mut session, first) = decoded();
    let mut sent = Sent::default();
    sent.record(&first.batch);
    let again = session.decode(&first_batch(), &sent);
    assert_eq!(again.batch.definitions, None);
    assert_eq!(again.batch.facts, None);
    sent.clear();
    let resumed = session.decode(&first_batch(), &sent);
    assert_eq!(resumed.batch.definitions, first.batch.definitions);
}

#[test]
fn rows_of_tables_that_do_not_come_are_unresolved_and_counted() {
    let mut session = session();
    let decoded = session.decode(&first_batch(), &Sent::default());
    assert_eq!(decoded.wants.len(), 2);
    let unresolved: u64 = decoded
        .batch
        .ledger
        .iter()
        .filter(|entry| entry.reason == u32::from(Reason::Unresolved.code()))
        .map(|entry| entry.records)
        .sum();
    assert_eq!(unresolved, 3);
    let unnamed = decoded.batch;
    let functions = &unnamed.definitions.as_ref().unwrap().functions;
    assert!(functions.iter().all(|function| function.name.is_empty()));
    // Once it comes, the same place gets its function, and the definition is sent again.
    settle(&mut session, &decoded.wants);
    let mut sent = Sent::default();
    sent.record(&unnamed);
    let named = session.decode(&first_batch(), &sent);
    assert!(!named.batch.definitions.unwrap().functions.is_empty());
}

#[test]
fn what_cannot_be_read_is_undecodable_and_the_rest_of_the_batch_stands() {
    let undecodable = |batch: v1::Batch| {
        let decoded = session().decode(&batch, &Sent::default());
        let entries = decoded.batch.ledger.into_iter();
        let lost = entries.filter(|entry| entry.reason == u32::from(Reason::Undecodable.code()));
        (
            decoded.batch.accesses.unwrap().rows,
            lost.map(|entry| entry.records).sum::<u64>(),
        )
    };
    let good = first_batch();
    assert_eq!(undecodable(good.clone()), (3, 0));
    let mut damaged = good.clone();
    damaged.samples.as_mut().unwrap().checksum ^= 1;
    assert_eq!(undecodable(damaged), (0, 3));
    let mut foreign = good.clone();
    foreign.events.push(v1::EventDesc {
        ordinal: 1,
        ids: vec![1],
        ..foreign.events[0].clone()
    });
    let strange = SampleFields { id: 99, ..user(20) };
    foreign.samples = Some(samples(&[(misc::USER, strange), (misc::USER, user(20))]));
    assert_eq!(undecodable(foreign), (1, 1));
    let mut cut = good.clone();
    let section = cut.samples.as_mut().unwrap();
    section.data.truncate(section.data.len() - 8);
    section.raw_bytes -= 8;
    section.checksum = xxh3_64(&section.data);
    assert_eq!(undecodable(cut), (2, 1));
    let gap = v1::Batch {
        gap: Some(v1::Gap::default()),
        samples: None,
        ..good
    };
    assert_eq!(undecodable(gap), (0, 0));
}

#[test]
fn side_band_is_applied_once_and_what_ended_is_forgotten_after_the_ack() {
    let mut session = session();
    session.apply_side_band(&first_batch());
    assert_eq!(session.side_band_through(), 1);
    let exit = Record::Exit(Task {
        pid: 10,
        ppid: 1,
        tid: 10,
        ptid: 1,
        time: 100,
    });
    let late = SLACK_NS + 1_000;
    let second = v1::Batch {
        number: 2,
        side_band: Some(side_band(&[
            (100, misc::USER, exit),
            (late, misc::USER, comm(11, "other", false)),
        ])),
        ..v1::Batch::default()
    };
    session.apply_side_band(&second);
    let before = session.machine().spaces().processes();
    session.acknowledged(2);
    assert_eq!(session.machine().spaces().processes(), before - 1);
}

#[test]
fn the_table_of_a_program_that_nobody_runs_any_more_is_let_go_of_and_found_again() {
    let (mut session, _) = decoded();
    let kinds = |session: &Session| {
        let used = session.tables_in_use().into_iter().map(|used| used.kind);
        used.collect::<Vec<_>>()
    };
    let exit = Record::Exit(Task {
        pid: 10,
        ppid: 1,
        tid: 10,
        ptid: 1,
        time: 100,
    });
    let other = |time| (time, misc::USER, comm(11, "other", false));
    let mut through = |number: u64, records: &[(u64, u16, Record<'_>)]| {
        let batch = v1::Batch {
            number,
            side_band: Some(side_band(records)),
            ..v1::Batch::default()
        };
        session.apply_side_band(&batch);
        session.acknowledged(number);
        kinds(&session)
    };
    let (first, second) = (2 * LET_GO_EVERY_NS, 4 * LET_GO_EVERY_NS);
    let both = [Kind::Kernel, Kind::BuildId];
    assert_eq!(through(2, &[other(first)]), both, "it runs");
    let gone = through(3, &[(first + 1, misc::USER, exit), other(second)]);
    assert_eq!(gone, [Kind::Kernel]);
    let again = v1::Batch {
        number: 4,
        side_band: Some(side_band(&[(
            second + 1,
            misc::USER,
            mmap(10, 0x40_0000, "/bin/prog"),
        )])),
        samples: Some(samples(&[(misc::USER, user(second + 2))])),
        ..v1::Batch::default()
    };
    let waiting = session.decode(&again, &Sent::default());
    assert_eq!(waiting.wants.len(), 1);
    settle(&mut session, &waiting.wants);
    let decoded = session.decode(&again, &Sent::default());
    let definitions = decoded.batch.definitions.unwrap();
    assert_eq!(definitions.functions[0].name, "lib::work");
}

#[test]
fn the_last_switch_of_a_task_that_ended_is_its_own() {
    let exit = Record::Exit(Task {
        pid: 10,
        ppid: 1,
        tid: 12,
        ptid: 10,
        time: 70,
    });
    let gone = |time, cpu| SampleFields {
        pid: u32::MAX,
        tid: u32::MAX,
        cpu,
        ..in_kernel(time)
    };
    let mut session = session();
    session.apply_side_band(&first_batch());
    let batch = v1::Batch {
        number: 2,
        side_band: Some(side_band(&[
            (65, misc::USER, comm(10, "next", false)),
            (70, misc::USER, exit),
        ])),
        samples: Some(samples(&[
            (misc::KERNEL, gone(71, 0)),
            (misc::KERNEL, gone(69, 0)),
            (misc::KERNEL, gone(71, 1)),
        ])),
        ..v1::Batch::default()
    };
    // A repetition says the same.
    for _ in 0..2 {
        let block = session.decode(&batch, &Sent::default()).batch.accesses;
        let block = block.unwrap();
        assert_eq!(block.tid, [12, u32::MAX, u32::MAX]);
        assert_eq!(block.pid, [10, u32::MAX, u32::MAX]);
        let comms: Vec<_> = block
            .comm
            .iter()
            .map(|at| &block.strings[*at as usize])
            .collect();
        assert_eq!(comms, ["next", ":-1", ":-1"]);
    }
}

#[test]
fn hostile_batches_do_not_panic() {
    let mut session = session();
    let noise: Vec<u8> = (0..4096_u32)
        .map(|n| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap())
        .collect();
    for number in 1..50_u64 {
        let cut = usize::try_from(number * 80).unwrap();
        let mut batch = first_batch();
        batch.number = number;
        batch.side_band = Some(section(noise[..cut].to_vec(), 7));
        batch.samples = Some(section(noise[cut / 2..cut].to_vec(), 7));
        batch.events[0].attr = noise[cut..].to_vec();
        let decoded = session.decode(&batch, &Sent::default());
        assert_eq!(decoded.batch.number, number);
    }
}

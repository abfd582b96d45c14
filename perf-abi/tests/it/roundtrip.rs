//! What is encoded reads back the same, whatever the fields and masks.

use memwide_perf_abi::{
    Attr, AttrFlags, Aux, AuxOutputHwId, BpfEvent, BranchEntry, BuildId, Cgroup, Comm, FileId,
    ItraceStart, Ksymbol, Lost, LostSamples, Mmap, Mmap2, Namespaces, RawRecord, ReadValue, Record,
    Records, SampleFields, SampleId, SampleLayout, SampleView, Switch, SwitchCpuWide, Task,
    TextPoke, Throttle, Weight, Words, branch_sample, encode, kind, misc, read_format, sample,
};
use proptest::prelude::*;

/// Masks of an event whose samples can be placed.
fn attr() -> impl Strategy<Value = Attr> {
    (
        any::<u64>(),
        0..=read_format::KNOWN,
        any::<(bool, bool)>(),
        any::<(u64, u64)>(),
        any::<bool>(),
    )
        .prop_map(
            |(mut bits, read_format, (index, counters), (regs_user, regs_intr), id_all)| {
                bits &= sample::KNOWN;
                if bits & sample::WEIGHT != 0 {
                    bits &= !sample::WEIGHT_STRUCT;
                }
                let index = if index { branch_sample::HW_INDEX } else { 0 };
                let counters = if counters { branch_sample::COUNTERS } else { 0 };
                Attr {
                    sample_type: bits,
                    read_format,
                    branch_sample_type: index | counters,
                    sample_regs_user: regs_user,
                    sample_regs_intr: regs_intr,
                    flags: AttrFlags::default().with_sample_id_all(id_all),
                    ..Attr::default()
                }
            },
        )
}

#[derive(Debug, Clone)]
struct Owned {
    words: [u64; 17],
    halves: [u32; 3],
    read: Vec<(u64, u64, u64)>,
    callchain: Vec<u64>,
    raw: Vec<u8>,
    branches: Vec<(u64, u64, u64)>,
    counters: Vec<u64>,
    regs: Vec<u64>,
    stack: Vec<u8>,
    weight: (u32, u16, u16),
}

fn owned() -> impl Strategy<Value = Owned> {
    let list = |max| proptest::collection::vec(any::<u64>(), 0..max);
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let triples = || proptest::collection::vec(any::<(u64, u64, u64)>(), 0..5);
    (
        (
            any::<[u64; 17]>(),
            any::<[u32; 3]>(),
            triples(),
            list(9),
            bytes(),
        ),
        (
            triples(),
            list(5),
            list(64),
            bytes(),
            any::<(u32, u16, u16)>(),
        ),
    )
        .prop_map(
            |((words, halves, read, callchain, raw), (branches, counters, regs, stack, weight))| {
                Owned {
                    words,
                    halves,
                    read,
                    callchain,
                    raw,
                    branches,
                    counters,
                    regs,
                    stack,
                    weight,
                }
            },
        )
}

/// `value` if samples have a field of `bits`.
fn field<T>(attr: &Attr, bits: u64, value: T) -> Option<T> {
    (attr.sample_type & bits != 0).then_some(value)
}

fn padded(bytes: &[u8], align: usize, skip: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize((bytes.len() + skip).next_multiple_of(align) - skip, 0);
    bytes
}

proptest! {
    #[test]
    fn every_field_of_a_sample_reads_back(attr in attr(), owned in owned()) {
        let layout = SampleLayout::new(&attr).unwrap();
        let w = owned.words;
        let read: Vec<_> = owned
            .read
            .iter()
            .map(|(value, id, lost)| ReadValue { value: *value, id: Some(*id), lost: Some(*lost) })
            .collect();
        let branches: Vec<_> =
            owned.branches.iter().map(|(from, to, flags)| BranchEntry { from: *from, to: *to, flags: *flags }).collect();
        let full_weight = attr.sample_type & sample::WEIGHT != 0;
        let weight = if full_weight {
            Weight { weight: w[16], ..Weight::default() }
        } else {
            Weight { weight: owned.weight.0.into(), ins_lat: owned.weight.1, retire_lat: owned.weight.2 }
        };
        let fields = SampleFields {
            id: w[0],
            ip: w[1],
            pid: owned.halves[0],
            tid: owned.halves[1],
            time: w[2],
            addr: w[3],
            stream_id: w[4],
            cpu: owned.halves[2],
            period: w[5],
            read: &read,
            time_enabled: w[6],
            time_running: w[7],
            callchain: &owned.callchain,
            raw: &owned.raw,
            branches: &branches,
            hw_index: w[8],
            branch_counters: &owned.counters,
            regs_user_abi: w[9] % 3,
            regs_user: &owned.regs,
            stack_user: &owned.stack,
            stack_dyn_size: w[10],
            weight,
            data_src: w[11],
            transaction: w[12],
            regs_intr_abi: w[9] % 2,
            regs_intr: &owned.regs,
            phys_addr: w[13],
            cgroup: w[14],
            data_page_size: w[15],
            code_page_size: w[16],
            aux: &owned.stack,
        };
        let mut bytes = Vec::new();
        encode::sample(&mut bytes, &fields, misc::USER, &layout).unwrap();
        let record = RawRecord::new(&bytes).unwrap();
        prop_assert_eq!((record.kind, record.misc, record.size()), (kind::SAMPLE, misc::USER, bytes.len()));
        let view = SampleView::parse(record.body(), &layout).unwrap();

        prop_assert_eq!(view.id(), field(&attr, sample::IDENTIFIER | sample::ID, w[0]));
        prop_assert_eq!(view.ip(), field(&attr, sample::IP, w[1]));
        prop_assert_eq!(view.pid(), field(&attr, sample::TID, owned.halves[0]));
        prop_assert_eq!(view.tid(), field(&attr, sample::TID, owned.halves[1]));
        prop_assert_eq!(view.time(), field(&attr, sample::TIME, w[2]));
        prop_assert_eq!(layout.time_of(&record), view.time());
        prop_assert_eq!(view.addr(), field(&attr, sample::ADDR, w[3]));
        prop_assert_eq!(view.stream_id(), field(&attr, sample::STREAM_ID, w[4]));
        prop_assert_eq!(view.cpu(), field(&attr, sample::CPU, owned.halves[2]));
        prop_assert_eq!(view.period(), field(&attr, sample::PERIOD, w[5]));
        prop_assert_eq!(view.weight(), field(&attr, sample::WEIGHT | sample::WEIGHT_STRUCT, weight));
        prop_assert_eq!(view.data_src(), field(&attr, sample::DATA_SRC, w[11]));
        prop_assert_eq!(view.transaction(), field(&attr, sample::TRANSACTION, w[12]));
        prop_assert_eq!(view.phys_addr(), field(&attr, sample::PHYS_ADDR, w[13]));
        prop_assert_eq!(view.cgroup(), field(&attr, sample::CGROUP, w[14]));
        prop_assert_eq!(view.data_page_size(), field(&attr, sample::DATA_PAGE_SIZE, w[15]));
        prop_assert_eq!(view.code_page_size(), field(&attr, sample::CODE_PAGE_SIZE, w[16]));
        let callchain = view.callchain().map(|chain| chain.iter().collect::<Vec<_>>());
        prop_assert_eq!(callchain, field(&attr, sample::CALLCHAIN, owned.callchain.clone()));
        prop_assert_eq!(view.raw().map(<[u8]>::to_vec), field(&attr, sample::RAW, padded(&owned.raw, 8, 4)));
        prop_assert_eq!(view.aux().map(<[u8]>::to_vec), field(&attr, sample::AUX, padded(&owned.stack, 8, 0)));
        let stack = view.stack_user().map(|stack| (stack.data.to_vec(), stack.dyn_size));
        let dyn_size = if owned.stack.is_empty() { 0 } else { w[10] };
        prop_assert_eq!(stack, field(&attr, sample::STACK_USER, (padded(&owned.stack, 8, 0), dyn_size)));

        for (regs, bit, mask, abi) in [
            (view.regs_user(), sample::REGS_USER, attr.sample_regs_user, w[9] % 3),
            (view.regs_intr(), sample::REGS_INTR, attr.sample_regs_intr, w[9] % 2),
        ] {
            prop_assert_eq!(regs.map(|regs| (regs.abi, regs.mask)), field(&attr, bit, (abi, mask)));
            let numbers = (0..64).filter(|number| mask & (1 << number) != 0);
            for (index, number) in numbers.enumerate() {
                let value = owned.regs.get(index).copied().unwrap_or_default();
                let expected = field(&attr, bit, value).filter(|_| abi != 0);
                prop_assert_eq!(regs.and_then(|regs| regs.get(number)), expected);
            }
        }

        let stack = view.branch_stack();
        let seen = stack.map(|stack| stack.iter().collect::<Vec<_>>());
        prop_assert_eq!(seen, field(&attr, sample::BRANCH_STACK, branches.clone()));
        if let Some(stack) = stack {
            let has = |bit: u64| attr.branch_sample_type & bit != 0;
            prop_assert_eq!(stack.hw_index, has(branch_sample::HW_INDEX).then_some(w[8]));
            let counters = owned.counters.iter().copied().chain(std::iter::repeat(0)).take(branches.len());
            let expected: Vec<_> = if has(branch_sample::COUNTERS) { counters.collect() } else { Vec::new() };
            prop_assert_eq!(stack.counters().iter().collect::<Vec<_>>(), expected);
        }

        if let Some(values) = view.read() {
            let has = |bit: u64| attr.read_format & bit != 0;
            prop_assert_eq!(values.time_enabled, has(read_format::TOTAL_TIME_ENABLED).then_some(w[6]));
            prop_assert_eq!(values.time_running, has(read_format::TOTAL_TIME_RUNNING).then_some(w[7]));
            let mut expected = read.clone();
            if !has(read_format::GROUP) {
                expected.resize(1, ReadValue { value: 0, id: Some(0), lost: Some(0) });
            }
            for value in &mut expected {
                value.id = value.id.filter(|_| has(read_format::ID));
                value.lost = value.lost.filter(|_| has(read_format::LOST));
            }
            prop_assert_eq!(values.iter().collect::<Vec<_>>(), expected);
        }
        prop_assert_eq!(view.read().is_some(), attr.sample_type & sample::READ != 0);

        // A sample that is cut is refused, never misread.
        for cut in 0..record.body().len() {
            let parsed = SampleView::parse(&record.body()[..cut], &layout);
            let empty_branches_without_index = attr.branch_sample_type & branch_sample::HW_INDEX != 0
                && attr.sample_type & sample::BRANCH_STACK != 0
                && branches.is_empty();
            prop_assert!(parsed.is_err() || empty_branches_without_index, "cut at {cut}");
        }
    }

    #[test]
    fn the_sample_id_of_other_records_reads_back(attr in attr(), w in any::<[u64; 3]>(), h in any::<[u32; 3]>()) {
        let layout = SampleLayout::new(&attr).unwrap();
        let id = SampleId {
            pid: Some(h[0]),
            tid: Some(h[1]),
            time: Some(w[0]),
            id: Some(w[1]),
            stream_id: Some(w[2]),
            cpu: Some(h[2]),
        };
        let comm = Record::Comm(Comm { pid: 1, tid: 2, comm: b"name", exec: true });
        let mut bytes = Vec::new();
        encode::record(&mut bytes, &comm, misc::USER, Some((layout.trailer(), &id))).unwrap();
        let raw = RawRecord::new(&bytes).unwrap();
        prop_assert_eq!(Record::parse(raw).unwrap(), comm);
        let read = layout.trailer().parse(&raw).unwrap();
        let all = attr.flags.sample_id_all();
        let has = |bits: u64| all && attr.sample_type & bits != 0;
        prop_assert_eq!(
            read,
            SampleId {
                pid: id.pid.filter(|_| has(sample::TID)),
                tid: id.tid.filter(|_| has(sample::TID)),
                time: id.time.filter(|_| has(sample::TIME)),
                id: id.id.filter(|_| has(sample::ID | sample::IDENTIFIER)),
                stream_id: id.stream_id.filter(|_| has(sample::STREAM_ID)),
                cpu: id.cpu.filter(|_| has(sample::CPU)),
            }
        );
        prop_assert_eq!(layout.time_of(&raw), read.time);
    }

    #[test]
    fn every_record_reads_back(w in any::<[u64; 8]>(), h in any::<[u32; 4]>(), b in any::<[bool; 3]>(),
                               name in "[a-z/.]{0,70}", mut id in any::<[u8; 20]>(), words in proptest::collection::vec(any::<u64>(), 0..8)) {
        let text = name.as_bytes();
        let namespaces: Vec<u8> = words[..words.len() / 2 * 2].iter().flat_map(|word| word.to_le_bytes()).collect();
        let inode = FileId::Inode { maj: h[2], min: h[3], ino: w[3], generation: w[4] };
        id[1] |= 1; // unlike a device's number
        let build_id = FileId::BuildId(BuildId::new(id, 4 + id[0] % 17));
        let task = Task { pid: h[0], ppid: h[1], tid: h[2], ptid: h[3], time: w[0] };
        let throttle = Throttle { time: w[0], id: w[1], stream_id: w[2] };
        let switch = Switch { out: b[0], preempted: b[1] };
        let mmap2 = Mmap2 {
            pid: h[0], tid: h[1], addr: w[0], len: w[1], pgoff: w[2], file: inode,
            prot: h[2], flags: h[3], filename: text, data: b[0],
        };
        let records = [
            Record::Mmap(Mmap { pid: h[0], tid: h[1], addr: w[0], len: w[1], pgoff: w[2], filename: text, data: b[0] }),
            Record::Mmap2(mmap2),
            Record::Mmap2(Mmap2 { file: build_id, ..mmap2 }),
            Record::Comm(Comm { pid: h[0], tid: h[1], comm: text, exec: b[0] }),
            Record::Fork(task),
            Record::Exit(task),
            Record::Lost(Lost { id: w[0], lost: w[1] }),
            Record::LostSamples(LostSamples { lost: w[0] }),
            Record::Throttle(throttle),
            Record::Unthrottle(throttle),
            Record::Switch(switch),
            Record::SwitchCpuWide(SwitchCpuWide { switch, next_prev_pid: h[0], next_prev_tid: h[1] }),
            Record::Ksymbol(Ksymbol { addr: w[0], len: h[0], ksym_type: 1, flags: u16::from(b[0]), name: text }),
            Record::BpfEvent(BpfEvent { event: 1, flags: 0, id: h[0], tag: w[0].to_le_bytes() }),
            Record::Cgroup(Cgroup { id: w[0], path: text }),
            Record::Namespaces(Namespaces::new(h[0], h[1], Words::new(&namespaces))),
            Record::TextPoke(TextPoke { addr: w[0], old: text, new: &id }),
            Record::Aux(Aux { offset: w[0], size: w[1], flags: w[2] }),
            Record::AuxOutputHwId(AuxOutputHwId { hw_id: w[0] }),
            Record::ItraceStart(ItraceStart { pid: h[0], tid: h[1] }),
        ];
        let mut batch = Vec::new();
        for record in &records {
            encode::record(&mut batch, record, misc::USER, None).unwrap();
        }
        let read: Vec<_> = Records::new(&batch).map(|raw| Record::parse(raw.unwrap()).unwrap()).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), attr in attr(), kind in 0u32..25) {
        let layout = SampleLayout::new(&attr).unwrap();
        if let Ok(view) = SampleView::parse(&bytes, &layout) {
            prop_assert_eq!(view.callchain().is_some(), attr.sample_type & sample::CALLCHAIN != 0);
            prop_assert_eq!(view.raw().is_some(), attr.sample_type & sample::RAW != 0);
            prop_assert_eq!(view.read().is_some(), attr.sample_type & sample::READ != 0);
            prop_assert_eq!(view.branch_stack().is_some(), attr.sample_type & sample::BRANCH_STACK != 0);
        }
        let mut record = Vec::new();
        encode::raw(&mut record, kind, 0, &bytes).unwrap();
        if let Ok(Record::Read(read)) = Record::parse(RawRecord::new(&record).unwrap()) {
            prop_assert_eq!(&read.pid.to_le_bytes()[..], &bytes[..4]);
        }
    }
}

#[test]
fn a_record_too_long_for_its_header_is_refused_and_leaves_nothing() {
    let mut out = vec![1, 2, 3];
    let path = vec![b'a'; 70_000];
    let cgroup = Record::Cgroup(Cgroup { id: 1, path: &path });
    let wrong = encode::record(&mut out, &cgroup, 0, None).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "record of type 19 would have 70024 bytes, more than the 65535 a header can say"
    );
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn fields_without_a_known_place_are_refused() {
    let refused = |sample_type, read_format, branch_sample_type| {
        let attr = Attr {
            sample_type,
            read_format,
            branch_sample_type,
            ..Attr::default()
        };
        SampleLayout::new(&attr).unwrap_err().to_string()
    };
    assert_eq!(
        refused(sample::IP | 1 << 25, 0, 0),
        "sample_type 0x2000001 has unknown bits 0x2000000; a newer memwide may read it"
    );
    assert!(refused(sample::READ, 1 << 5, 0).starts_with("read_format 0x20"));
    assert!(refused(sample::BRANCH_STACK, 0, 1 << 20).starts_with("branch_sample_type 0x100000"));
    assert!(refused(sample::WEIGHT | sample::WEIGHT_STRUCT, 0, 0).contains("at once"));
}

/// The case that made the crate: what stands after WEIGHT_STRUCT must not be one word off.
#[test]
fn fields_after_a_weight_struct_are_in_their_place() {
    let attr = Attr {
        sample_type: sample::ADDR | sample::WEIGHT_STRUCT | sample::DATA_SRC | sample::PHYS_ADDR,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr).unwrap();
    let body: Vec<u8> = [0x10u64, 0x0003_0002_0000_0001, 0x20, 0x30]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let view = SampleView::parse(&body, &layout).unwrap();
    assert_eq!(
        view.weight(),
        Some(Weight {
            weight: 1,
            ins_lat: 2,
            retire_lat: 3
        })
    );
    assert_eq!(
        (view.addr(), view.data_src(), view.phys_addr()),
        (Some(0x10), Some(0x20), Some(0x30))
    );
}

/// The kernel writes a bare count of 0 when it had no branch stack, also when an index was asked for.
#[test]
fn an_empty_branch_stack_may_lack_its_index() {
    let attr = Attr {
        sample_type: sample::BRANCH_STACK | sample::DATA_SRC,
        branch_sample_type: branch_sample::HW_INDEX,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr).unwrap();
    let body: Vec<u8> = [0u64, 7].iter().flat_map(|w| w.to_le_bytes()).collect();
    let view = SampleView::parse(&body, &layout).unwrap();
    assert_eq!(view.data_src(), Some(7));
    assert!(view.branch_stack().unwrap().is_empty());
    assert_eq!(view.branch_stack().unwrap().hw_index, None);
}

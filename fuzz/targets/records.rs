//! Records of an event whose attributes are part of the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_perf_abi::{Attr, RawRecord, Record, RingRecords, SampleLayout, SampleView};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    let Some((attr, records)) = data.split_at_checked(136) else {
        return;
    };
    let Ok(attr) = Attr::parse(attr) else {
        return;
    };
    let layout = SampleLayout::new(&attr);
    // The same bytes as a ring that wraps.
    let (one, other) = records.split_at(records.len() / 2);
    let mut ring = RingRecords::new(one, other);
    let mut rest = records;
    while let Ok((record, after)) = RawRecord::split_first(rest) {
        look(&record, layout.as_ref().ok());
        assert_eq!(ring.next(), Some(Ok(record)));
        rest = after;
    }
    assert!(!matches!(ring.next(), Some(Ok(_))));
});

fn look(record: &RawRecord<'_>, layout: Option<&SampleLayout>) {
    let _ = black_box(Record::parse(*record));
    let Some(layout) = layout else {
        return;
    };
    black_box(layout.time_of(record));
    let Ok(view) = SampleView::parse(record.body(), layout) else {
        return;
    };
    black_box((
        view.id(),
        view.ip(),
        view.pid(),
        view.addr(),
        view.period(),
        view.weight(),
    ));
    black_box((
        view.data_src(),
        view.phys_addr(),
        view.cgroup(),
        view.transaction(),
        view.raw(),
    ));
    black_box(view.read().map(|values| values.iter().count()));
    black_box(
        view.callchain()
            .map(|chain| chain.iter().fold(0, u64::wrapping_add)),
    );
    black_box(view.branch_stack().map(|stack| stack.iter().count()));
    for regs in [view.regs_user(), view.regs_intr()].into_iter().flatten() {
        for number in 0..70 {
            black_box(regs.get(number));
        }
    }
    if let Some(stack) = view.stack_user() {
        black_box(stack.data.len());
    }
    black_box(view.aux());
}

//! Whole perf.data files, file mode and pipe mode, either byte order, compressed or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_perf_abi::file::UserRecord;
use memwide_perf_abi::{PerfFile, Record, SampleView};
use std::hint::black_box;
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    let Ok(mut file) = PerfFile::open(Cursor::new(data)) else {
        return;
    };
    let features = file.features();
    black_box((
        features.cmdline(),
        features.event_desc(),
        features.build_ids(),
    ));
    black_box((
        features.cpu_topology(),
        features.numa_topology(),
        features.memory_topology(),
    ));
    black_box((
        features.caches(),
        features.pmu_mappings(),
        features.group_desc(),
    ));
    black_box((
        features.hybrid_topology(),
        features.cpu_pmu_caps(),
        features.pmu_caps(),
    ));
    black_box((
        features.cpu_domains(),
        features.clock_data(),
        features.compression(),
    ));
    black_box((
        features.sample_time(),
        features.elf_machine(),
        features.total_mem_kib(),
    ));
    black_box((
        file.tracing_data().is_some(),
        file.feature_cut(),
        file.unfinished(),
    ));
    if let Ok(pieces) = file.aux_pieces() {
        black_box(std::io::copy(&mut file.aux_data(&pieces), &mut std::io::sink()).is_ok());
    }
    let events = file.events().clone();
    let Ok(sorted) = file.sorted() else {
        return;
    };
    let mut records = sorted.with_queue_bytes(1 << 20);
    while let Ok(Some(item)) = records.next() {
        let _ = black_box(Record::parse(item.record));
        black_box(UserRecord::parse(item.record));
        let event = item.event.and_then(|at| events.get(at));
        let layout = event.and_then(|event| event.layout.as_ref().ok());
        if let (true, Some(layout)) = (item.record.is_sample(), layout) {
            let _ = black_box(SampleView::parse(item.record.body(), layout));
        }
    }
    black_box((records.cut(), records.spe()));
});

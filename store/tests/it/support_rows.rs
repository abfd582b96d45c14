//! Rows for tests: a little of everything, made from a seed.

use memwide_model::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Region,
    Snoop, Suspect, Tier, Tlb,
};
use memwide_store::native::{Constant, append_constants};
use memwide_store::rows::{FACTS, NativeBlock, SampleRow, Samples, TableRows};
use memwide_store::{Store, StoreError};

/// 2026-01-01 00:00 UTC, in seconds since 1970.
pub(crate) const NEW_YEAR: u32 = 1_767_225_600;

/// The present, in seconds since 1970: an ingest time whose rows do not expire during the test.
pub(crate) fn now() -> u32 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u32::try_from(now.as_secs()).unwrap()
}

/// One sample; what it holds follows from `i`.
pub(crate) fn sample(i: u64) -> SampleRow<'static> {
    let pick = |n: u64| {
        usize::try_from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 ^ i).unwrap()
            % usize::try_from(n).unwrap()
    };
    SampleRow {
        time: i64::from(NEW_YEAR) * 1_000_000_000 + i64::try_from(i).unwrap() * 7_000_003,
        host: ["host-a", "host-b", "host-c"][pick(3)],
        source_id: 11,
        batch: i / 100,
        cpu: u16::try_from(i % 8).unwrap(),
        pid: 100 + u32::try_from(i % 5).unwrap(),
        tid: 200 + u32::try_from(i % 7).unwrap(),
        comm: ["worker", "main", ""][pick(3)],
        workload_id: i % 2,
        event_id: 1 + i % 2,
        event: ["mem-loads", "minor-faults"][usize::try_from(i % 2).unwrap()],
        tier: Tier::Precise,
        context: Context::User,
        ip: 0xffff_ffff_8100_0000 + i % 999,
        function_id: 1000 + i % 13,
        location_id: 5000 + i % 999,
        stack_id: i % 77,
        addr: 0x7fff_0000_0000 + i * 64,
        phys_addr: i * 4096,
        data_id: i % 3,
        region: Region::Heap,
        data_src: 0x6810_0842 + i % 4,
        period: 1 + i % 1000,
        weight: u32::try_from(i % 700).unwrap(),
        ins_lat: 5,
        retire_lat: 6,
        latency_kind: LatencyKind::Use,
        page_shift: 12,
        page_node: u8::try_from(i % 2).unwrap(),
        op: Op::ALL[pick(3)],
        level: Level::ALL[pick(12)],
        outcome: Outcome::Hit,
        snoop: Snoop::ALL[pick(7)],
        tlb: Tlb::ALL[pick(7)],
        locked: u8::from(i.is_multiple_of(10)),
        blocked: Blocked::ALL[pick(5)],
        hw_locality: Locality::ALL[pick(3)],
        page_locality: Locality::ALL[pick(3)],
        locality: Locality::ALL[pick(3)],
        locality_basis: LocalityBasis::Hw,
        mem_region: MemRegion::ALL[pick(16)],
        suspect: Suspect::ALL[pick(8)],
        decoder_version: ["0.1.0+taxonomy.1", "0.2.0+taxonomy.2"][pick(2)],
    }
}

/// Blocks of the samples of a range.
pub(crate) fn samples(range: std::ops::Range<u64>) -> Vec<NativeBlock> {
    let mut rows = Samples::default();
    for i in range {
        rows.push(&sample(i));
    }
    rows.finish()
}

/// Inserts blocks as a sink does.
pub(crate) async fn insert(
    store: &Store,
    blocks: &[NativeBlock],
    part: u16,
    ingested: u32,
    token: &str,
) -> Result<(), StoreError> {
    for block in blocks {
        let mut bytes = block.bytes.clone();
        if FACTS.contains(&block.table) {
            bytes = append_constants(
                &bytes,
                &[
                    Constant::U16("part", part),
                    Constant::Seconds("ingested", ingested),
                ],
            )?;
        }
        let names: Vec<String> = memwide_store::native::walk(&bytes)?
            .names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let token = format!("{token}/{}/{}", block.table, block.day);
        store
            .insert_native(block.table, &names, &token, bytes.into())
            .await?;
    }
    Ok(())
}

use super::*;
use memwide_model::{BootId, HostId};
use memwide_store::native::walk;

const SECOND: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;
/// 2026-11-29 01:00:00 UTC.
const CLOSED_S: u64 = 1_795_914_000;

fn source() -> Source {
    Source {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        epoch: 3,
    }
}

/// A batch with one sample a time.
fn batch(number: u64, times_s: &[u64]) -> v1::DecodedBatch {
    let rows = times_s.len();
    let accesses = v1::AccessBlock {
        rows: u32::try_from(rows).unwrap(),
        time_wall_ns: times_s.iter().map(|seconds| seconds * SECOND).collect(),
        comm: vec![0; rows],
        event: vec![0; rows],
        period: vec![10; rows],
        weight: vec![3; rows],
        function_id: (0..rows as u64).map(|row| row % 2).collect(),
        strings: vec!["main".to_owned()],
        events: vec![7],
        ..v1::AccessBlock::default()
    };
    v1::DecodedBatch {
        number,
        closed_wall_ns: CLOSED_S * SECOND,
        host: "h".to_owned(),
        accesses: Some(accesses),
        ..v1::DecodedBatch::default()
    }
}

fn event(name: &str) -> v1::Definitions {
    let event = v1::EventDef {
        event_id: 7,
        name: name.to_owned(),
        tier: 3,
        ..v1::EventDef::default()
    };
    v1::Definitions {
        events: vec![event],
        ..v1::Definitions::default()
    }
}

/// Adds batches to a rollup and takes the blocks.
fn blocks(
    memory: &mut Memory,
    batches: &[v1::DecodedBatch],
    treatment: Treatment,
) -> Vec<NativeBlock> {
    let mut rollup = Rollup::default();
    for batch in batches {
        rollup.add(
            memory,
            &source(),
            batch,
            treatment,
            u32::try_from(CLOSED_S).unwrap(),
        );
    }
    rollup.finish()
}

/// Rows of a table by day.
fn days(blocks: &[NativeBlock], table: &str) -> BTreeMap<u16, u32> {
    let mut days = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.table == table) {
        *days.entry(block.day).or_default() += block.rows;
    }
    days
}

/// A column of 64-bit numbers over all blocks of a table.
fn numbers(blocks: &[NativeBlock], table: &str, column: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    for block in blocks.iter().filter(|block| block.table == table) {
        let view = walk(&block.bytes).unwrap();
        let column = view.columns.iter().find(|one| one.name == column).unwrap();
        numbers.extend(
            column
                .data
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap())),
        );
    }
    numbers
}

/// Lines of the ledger: reason and records.
fn ledger(blocks: &[NativeBlock]) -> Vec<(Reason, u64)> {
    let mut lines = Vec::new();
    for block in blocks.iter().filter(|block| block.table == "ledger_1m") {
        let view = walk(&block.bytes).unwrap();
        let column = |name: &str| {
            view.columns
                .iter()
                .find(|one| one.name == name)
                .unwrap()
                .data
        };
        let records = column("records")
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        lines.extend(
            column("reason")
                .iter()
                .map(|code| Reason::from_code(*code).unwrap())
                .zip(records),
        );
    }
    lines.sort_unstable();
    lines
}

#[test]
fn rollups_hold_what_the_samples_hold_on_their_days() {
    let midnight = CLOSED_S - CLOSED_S % DAY_S;
    let times = [
        midnight - 2,
        midnight - 1,
        midnight,
        midnight + 30,
        midnight + 61,
    ];
    let blocks = blocks(
        &mut Memory::default(),
        &[batch(1, &times), batch(2, &times)],
        Treatment::Store,
    );
    let day = u16::try_from(midnight / DAY_S).unwrap();
    assert_eq!(
        days(&blocks, "samples"),
        BTreeMap::from([(day - 1, 4), (day, 6)])
    );
    // Minutes 23:59, 0:00 and 0:01; hours 23 and 0 for each of two functions.
    assert_eq!(
        days(&blocks, "mix_1m"),
        BTreeMap::from([(day - 1, 1), (day, 2)])
    );
    assert_eq!(
        days(&blocks, "fleet_1h"),
        BTreeMap::from([(day - 1, 2), (day, 2)])
    );
    for table in ["mix_1m", "fleet_1h"] {
        assert_eq!(
            numbers(&blocks, table, "n").iter().sum::<u64>(),
            10,
            "{table}"
        );
        let periods: f64 = numbers(&blocks, table, "sum_p")
            .iter()
            .map(|bits| f64::from_bits(*bits))
            .sum();
        assert!((periods - 100.0).abs() < f64::EPSILON, "{table}: {periods}");
    }
    assert_eq!(
        ledger(&blocks),
        [
            (Reason::Stored, 5),
            (Reason::Stored, 5),
            (Reason::Batches, 1),
            (Reason::Batches, 1)
        ]
    );
}

#[test]
fn blocks_fit_a_message_and_the_ledger_comes_last() {
    let blocks = blocks(
        &mut Memory::default(),
        &[batch(1, &vec![CLOSED_S; 20_000])],
        Treatment::Store,
    );
    assert!(days(&blocks, "samples").values().sum::<u32>() == 20_000);
    let largest = blocks.iter().map(|block| block.bytes.len()).max().unwrap();
    assert!(
        largest < memwide_proto::limits::STREAM_MESSAGE_BYTES,
        "{largest} bytes"
    );
    assert!(
        blocks
            .iter()
            .filter(|block| block.table == "samples")
            .count()
            > 1
    );
    assert_eq!(blocks.last().unwrap().table, "ledger_1m");
}

#[test]
fn an_expired_batch_leaves_a_line_of_the_ledger_and_no_row() {
    let mut one = batch(1, &[CLOSED_S; 3]);
    let entry = |reason: Reason, records| v1::LedgerEntry {
        reason: reason.code().into(),
        records,
        ..Default::default()
    };
    one.ledger = vec![
        entry(Reason::Produced, 5),
        entry(Reason::Lost, 2),
        entry(Reason::Unresolved, 1),
    ];
    let blocks = blocks(&mut Memory::default(), &[one], Treatment::Expire);
    for table in ["samples", "mix_1m", "fleet_1h"] {
        assert!(days(&blocks, table).is_empty(), "{table}");
    }
    let expected = [
        (Reason::Produced, 5),
        (Reason::Batches, 1),
        (Reason::Lost, 2),
        (Reason::Expired, 3),
    ];
    assert_eq!(ledger(&blocks), expected);
}

#[test]
fn what_was_stored_is_counted_here_whatever_the_decoder_says() {
    let mut one = batch(1, &[CLOSED_S; 3]);
    let reason = Reason::Stored.code().into();
    one.ledger = vec![v1::LedgerEntry {
        reason,
        records: 99,
        ..Default::default()
    }];
    assert_eq!(
        ledger(&blocks(&mut Memory::default(), &[one], Treatment::Store)),
        [(Reason::Stored, 3), (Reason::Batches, 1)]
    );
}

#[test]
fn columns_that_do_not_fit_together_are_counted_as_undecodable() {
    type Break = fn(&mut v1::AccessBlock);
    let cases: [(Break, &str); 6] = [
        (
            |block| block.period.truncate(1),
            "column period has 1 entries, the block 3",
        ),
        (
            |block| block.time_wall_ns.clear(),
            "column time_wall_ns has 0 entries, the block 3",
        ),
        (
            |block| block.comm[2] = 9,
            "column comm points at entry 9 of 1",
        ),
        (
            |block| block.events.clear(),
            "column event points at entry 0 of 0",
        ),
        (
            |block| block.level = vec![1, 99, 1],
            "column level has code 99, which is not known here: update the aggregator first",
        ),
        (
            |block| block.suspect = vec![0, 0, 200],
            "column suspect has code 200, which is not known here: update the aggregator first",
        ),
    ];
    for (change, expected) in cases {
        let mut one = batch(1, &[CLOSED_S; 3]);
        change(one.accesses.as_mut().unwrap());
        let mut rollup = Rollup::default();
        let added = rollup.add(&mut Memory::default(), &source(), &one, Treatment::Store, 0);
        assert_eq!(
            added.malformed.map(|why| why.to_string()).as_deref(),
            Some(expected)
        );
        assert_eq!(
            ledger(&rollup.finish()),
            [(Reason::Batches, 1), (Reason::Undecodable, 3)]
        );
    }
}

#[test]
fn doubts_regions_and_the_decoders_version_stand_in_the_rows() {
    let mut one = batch(1, &[CLOSED_S; 2]);
    let block = one.accesses.as_mut().unwrap();
    block.suspect = vec![Suspect::Erratum.code(), Suspect::None.code()];
    block.mem_region = vec![MemRegion::Mmio.code(), MemRegion::Mem1.code()];
    one.decoder_version = "0.1.0+taxonomy.1".to_owned();
    // A decoder that knows none of these columns.
    let old = batch(2, &[CLOSED_S]);
    let blocks = blocks(&mut Memory::default(), &[one, old], Treatment::Store);
    let block = blocks.iter().find(|one| one.table == "samples").unwrap();
    let view = walk(&block.bytes).unwrap();
    let codes = |name: &str| {
        let mut columns = view.columns.iter();
        columns.find(|one| one.name == name).unwrap().data.to_vec()
    };
    assert_eq!(codes("suspect"), [5, 0, 0]);
    assert_eq!(codes("mem_region"), [7, 9, 0]);
    let version = codes("decoder_version");
    let text = b"0.1.0+taxonomy.1";
    let found = version.windows(text.len()).filter(|at| at == text).count();
    assert_eq!(found, 1, "once in the dictionary");
}

#[test]
fn times_that_no_row_can_hold_and_days_without_end_are_counted_as_undecodable() {
    let mut times: Vec<u64> = (0..40).map(|day| CLOSED_S + day * DAY_S).collect();
    times.push(u64::from(u32::MAX) + 1);
    let blocks = blocks(
        &mut Memory::default(),
        &[batch(1, &times)],
        Treatment::Store,
    );
    assert_eq!(days(&blocks, "samples").len(), DAYS_MAX);
    let lost = 41 - DAYS_MAX as u64;
    assert_eq!(
        ledger(&blocks),
        [
            (Reason::Stored, 16),
            (Reason::Batches, 1),
            (Reason::Undecodable, lost)
        ]
    );
}

#[test]
fn a_definition_is_written_once_a_day_unless_it_changes_or_a_flush_was_lost() {
    let mut memory = Memory::default();
    let written = |memory: &mut Memory, name: &str| {
        let mut one = batch(1, &[CLOSED_S]);
        one.definitions = Some(event(name));
        days(&blocks(memory, &[one], Treatment::Store), "events")
            .values()
            .sum::<u32>()
    };
    assert_eq!(written(&mut memory, "loads"), 1);
    assert_eq!(written(&mut memory, "loads"), 0);
    assert_eq!(written(&mut memory, "loads:pp"), 1);
    memory.forget_sent();
    assert_eq!(written(&mut memory, "loads:pp"), 1);
}

#[test]
fn facts_of_a_host_are_written_on_change_and_once_a_day() {
    let mut memory = Memory::default();
    let facts = v1::HostFacts {
        cpu_desc: "model".to_owned(),
        ..v1::HostFacts::default()
    };
    let first = v1::DecodedBatch {
        facts: Some(facts),
        ..batch(1, &[CLOSED_S])
    };
    let same_day = batch(2, &[CLOSED_S]);
    let next_day = v1::DecodedBatch {
        closed_wall_ns: (CLOSED_S + DAY_S) * SECOND,
        ..batch(3, &[CLOSED_S])
    };
    let day = u16::try_from(CLOSED_S / DAY_S).unwrap();
    let written = days(
        &blocks(&mut memory, &[first, same_day, next_day], Treatment::Store),
        "hosts",
    );
    assert_eq!(written, BTreeMap::from([(day, 1), (day + 1, 1)]));
}

//! Decoded batches → rows of every table. Pure.
//!
//! `samples` gets one row a sample; `mix_1m` and `fleet_1h` are summed over everything of a flush, so that a fleet's
//! hosts share rows. Rows go into column builders as they come: a sample allocates nothing.

mod chunks;
mod columns;
mod definitions;
mod memory;
mod readings;
mod sums;

use std::collections::BTreeMap;

use memwide_model::{
    Blocked, Context, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Reason, Region,
    Snoop, Source, Suspect, Tlb,
};
use memwide_proto::v1;
use memwide_store::rows::{Ledger1m, LedgerRow, NativeBlock, SampleRow, Samples, TierOrNone};

use chunks::{Chunks, short};
pub(crate) use columns::Malformed;
use columns::at;
use definitions::Definitions;
pub(crate) use memory::{Event, Memory};
use readings::ReadingRows;
use sums::{Fleet, Mix, Names};

/// Bytes of a row of `samples` before compression, about; names are in dictionaries.
const SAMPLE_BYTES: usize = 178;

/// Bytes of a row of `ledger_1m` before compression, about.
const LEDGER_BYTES: usize = 96;

/// Days the samples of one flush may fall on. A batch covers seconds; only damaged times scatter further.
const DAYS_MAX: usize = 16;

/// What to do with a batch's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// They become rows.
    Store,
    /// They become a line of the ledger.
    Expire,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Added {
    /// Samples that became rows.
    pub samples: u64,
    /// Its columns do not fit together: all of its samples are counted as undecodable.
    pub malformed: Option<Malformed>,
}

/// Everything a flush will carry, under construction.
#[derive(Debug, Default)]
pub(crate) struct Rollup {
    definitions: Definitions,
    samples: Chunks<Samples>,
    mix: Mix,
    fleet: Fleet,
    names: Names,
    readings: ReadingRows,
    ledger: Chunks<Ledger1m>,
    days: Vec<u16>,
}

/// Per event of a block: what its rows share.
struct Known {
    event_id: u64,
    event: Event,
    name: u32,
    stored: u64,
    undated: u64,
}

impl Rollup {
    /// Bytes built so far, before compression, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.definitions.bytes()
            + self.samples.bytes()
            + self.mix.bytes()
            + self.fleet.bytes()
            + self.readings.bytes()
            + self.ledger.bytes()
    }

    /// Messages the flush will take, about.
    pub(crate) fn messages(&self) -> u64 {
        self.definitions.messages()
            + self.samples.messages()
            + self.mix.messages()
            + self.fleet.messages()
            + self.readings.messages()
            + self.ledger.messages()
    }

    /// The blocks, definitions first and the ledger last.
    pub(crate) fn finish(self) -> Vec<NativeBlock> {
        let mut blocks = Vec::new();
        self.definitions.finish(&mut blocks);
        blocks.extend(self.samples.finish());
        self.mix.finish(&self.names, &mut blocks);
        self.fleet.finish(&self.names, &mut blocks);
        self.readings.finish(&mut blocks);
        blocks.extend(self.ledger.finish());
        blocks
    }

    /// Adds a batch, whole. Definitions are dated `now_s`, so that those of an old file are not old themselves.
    pub(crate) fn add(
        &mut self,
        memory: &mut Memory,
        source: &Source,
        batch: &v1::DecodedBatch,
        treatment: Treatment,
        now_s: u32,
    ) -> Added {
        let closed_s = u32::try_from(batch.closed_wall_ns / 1_000_000_000).unwrap_or(u32::MAX);
        if let Some(definitions) = &batch.definitions {
            self.definitions
                .add(memory, &batch.host, definitions, now_s);
        }
        if let Some(readings) = &batch.readings {
            self.definitions
                .add_workloads(memory, &readings.workloads, now_s);
            if treatment == Treatment::Store {
                self.readings
                    .add(&batch.host, batch.closed_wall_ns, readings);
            }
        }
        self.definitions.add_host(memory, source, batch, closed_s);
        let mut counts = BTreeMap::new();
        let stored = treatment == Treatment::Store;
        let mut added = Added::default();
        if let Some(block) = &batch.accesses {
            match columns::check(block) {
                Ok(rows) if stored => {
                    added.samples =
                        self.add_samples(memory, source, batch, block, rows, &mut counts);
                }
                Ok(_) => {
                    for index in &block.event {
                        let event_id = at(&block.events, usize::from(*index));
                        *counts.entry((event_id, Reason::Expired)).or_default() += 1;
                    }
                }
                Err(malformed) => {
                    *counts.entry((0, Reason::Undecodable)).or_default() += u64::from(block.rows);
                    added.malformed = Some(malformed);
                }
            }
        }
        if batch.host.is_empty() && batch.ledger.is_empty() && batch.accesses.is_none() {
            return added; // names of what was stored before: no host's sign of life
        }
        *counts.entry((0, Reason::Batches)).or_default() += 1;
        self.add_ledger(memory, source, batch, stored, closed_s, &counts);
        added
    }

    fn add_samples(
        &mut self,
        memory: &Memory,
        source: &Source,
        batch: &v1::DecodedBatch,
        block: &v1::AccessBlock,
        rows: usize,
        counts: &mut BTreeMap<(u64, Reason), u64>,
    ) -> u64 {
        let host = short(&batch.host);
        let decoder_version = short(&batch.decoder_version);
        let source_id = source.id().0;
        let host_id = definitions::host_id(source);
        let host_name = self.names.index(host);
        let facts_model = memory
            .hosts
            .get(source)
            .map(|host| short(&host.facts.cpu_desc))
            .filter(|m| !m.is_empty());
        let mut known: Vec<Known> = Vec::with_capacity(block.events.len());
        for event_id in &block.events {
            let event = memory.event(*event_id).cloned().unwrap_or_default();
            let name = self.names.index(&event.name);
            known.push(Known {
                event_id: *event_id,
                event,
                name,
                stored: 0,
                undated: 0,
            });
        }
        let models: Vec<u32> = known
            .iter()
            .map(|one| {
                self.names
                    .index(facts_model.unwrap_or(&one.event.cpu_model))
            })
            .collect();
        let strings: Vec<&str> = block.strings.iter().map(|text| short(text)).collect();
        for row in 0..rows {
            let event_index = usize::from(block.event[row]);
            let known = &mut known[event_index];
            let wall_ns = block.time_wall_ns[row];
            let Some((seconds, day)) = self.place(wall_ns) else {
                known.undated += 1;
                continue;
            };
            known.stored += 1;
            let sample = SampleRow {
                time: i64::try_from(wall_ns).unwrap_or(i64::MAX),
                host,
                source_id,
                batch: batch.number,
                cpu: u16::try_from(at(&block.cpu, row)).unwrap_or(u16::MAX),
                pid: at(&block.pid, row),
                tid: at(&block.tid, row),
                comm: strings[block.comm[row] as usize],
                workload_id: block
                    .workload
                    .get(row)
                    .map_or(0, |index| block.workloads[*index as usize]),
                event_id: known.event_id,
                event: &known.event.name,
                tier: known.event.tier,
                context: Context::from_code(at(&block.context, row)).unwrap_or(Context::Unknown),
                ip: at(&block.ip, row),
                function_id: at(&block.function_id, row),
                location_id: at(&block.location_id, row),
                stack_id: at(&block.stack_id, row),
                addr: at(&block.addr, row),
                phys_addr: at(&block.phys_addr, row),
                data_id: at(&block.data_id, row),
                region: Region::from_code(at(&block.region, row)).unwrap_or(Region::Unknown),
                data_src: at(&block.data_src, row),
                period: at(&block.period, row),
                weight: at(&block.weight, row),
                ins_lat: u16::try_from(at(&block.ins_lat, row)).unwrap_or(u16::MAX),
                retire_lat: u16::try_from(at(&block.retire_lat, row)).unwrap_or(u16::MAX),
                latency_kind: known.event.latency_kind,
                page_shift: at(&block.page_shift, row),
                page_node: block.page_node.get(row).copied().unwrap_or(u8::MAX),
                op: Op::from_code(at(&block.op, row)).unwrap_or(Op::Unknown),
                level: Level::from_code(at(&block.level, row)).unwrap_or(Level::Unknown),
                outcome: Outcome::from_code(at(&block.outcome, row)).unwrap_or(Outcome::Unknown),
                snoop: Snoop::from_code(at(&block.snoop, row)).unwrap_or(Snoop::Unknown),
                tlb: Tlb::from_code(at(&block.tlb, row)).unwrap_or(Tlb::Unknown),
                locked: u8::from(at(&block.locked, row) != 0),
                blocked: Blocked::from_code(at(&block.blocked, row)).unwrap_or(Blocked::Unknown),
                hw_locality: Locality::from_code(at(&block.hw_locality, row))
                    .unwrap_or(Locality::Unknown),
                page_locality: Locality::from_code(at(&block.page_locality, row))
                    .unwrap_or(Locality::Unknown),
                locality: Locality::from_code(at(&block.locality, row))
                    .unwrap_or(Locality::Unknown),
                locality_basis: LocalityBasis::from_code(at(&block.locality_basis, row))
                    .unwrap_or(LocalityBasis::None),
                mem_region: MemRegion::from_code(at(&block.mem_region, row))
                    .unwrap_or(MemRegion::Unknown),
                suspect: Suspect::from_code(at(&block.suspect, row)).unwrap_or(Suspect::None),
                decoder_version,
            };
            self.samples.room(day, SAMPLE_BYTES).push(&sample);
            self.mix.add(seconds, host_name, known.name, &sample);
            self.fleet
                .add(seconds, host_id, known.name, models[event_index], &sample);
        }
        let mut total = 0;
        for one in known {
            total += one.stored;
            for (reason, records) in [
                (Reason::Stored, one.stored),
                (Reason::Undecodable, one.undated),
            ] {
                if records > 0 {
                    *counts.entry((one.event_id, reason)).or_default() += records;
                }
            }
        }
        total
    }

    /// Seconds and day of a moment that can stand in a row.
    fn place(&mut self, wall_ns: u64) -> Option<(u32, u16)> {
        let seconds = u32::try_from(wall_ns / 1_000_000_000).ok()?;
        let day = u16::try_from(seconds / 86_400).ok()?;
        if self.days.last() != Some(&day) {
            match self.days.iter().position(|known| *known == day) {
                Some(at) => self.days[at..].rotate_left(1),
                None if self.days.len() < DAYS_MAX => self.days.push(day),
                None => return None,
            }
        }
        Some((seconds, day))
    }

    fn add_ledger(
        &mut self,
        memory: &Memory,
        source: &Source,
        batch: &v1::DecodedBatch,
        stored: bool,
        closed_s: u32,
        counts: &BTreeMap<(u64, Reason), u64>,
    ) {
        let sent = batch.ledger.iter().filter_map(|entry| {
            let reason = Reason::from_code(u8::try_from(entry.reason).ok()?).ok()?;
            // What was stored, and that there was a batch, is counted here and nowhere else.
            let ours = matches!(reason, Reason::Stored | Reason::Batches);
            let of_rows = matches!(
                reason,
                Reason::Unresolved | Reason::Partial | Reason::Nameless
            );
            let kept = !ours && (stored || !of_rows);
            kept.then_some((entry.event_id, reason, entry.records, entry.seconds))
        });
        let counted = counts
            .iter()
            .map(|((event_id, reason), records)| (*event_id, *reason, *records, 0.0));
        let day = u16::try_from(closed_s / 86_400).unwrap_or(u16::MAX);
        let source_id = source.id().0;
        for (event_id, reason, records, seconds) in sent.chain(counted) {
            let event = memory.event(event_id).filter(|_| event_id != 0);
            let unknown = if event_id == 0 { "" } else { "unknown" };
            self.ledger
                .room(
                    day,
                    LEDGER_BYTES + batch.host.len().min(chunks::TEXT_BYTES_MAX),
                )
                .push(&LedgerRow {
                    time: closed_s - closed_s % 60,
                    host: short(&batch.host),
                    source_id,
                    event_id,
                    event: event.map_or(unknown, |event| &event.name),
                    tier: TierOrNone(event.map(|event| event.tier)),
                    reason,
                    records,
                    seconds,
                    last_batch: batch.number,
                });
        }
    }
}

#[cfg(test)]
mod tests;

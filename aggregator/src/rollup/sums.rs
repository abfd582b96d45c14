//! Rollups of a flush: sums by key in a hash map, rows in order of the key.

use hashbrown::HashMap;
use memwide_model::{Context, LatencyKind, Level, Locality, LocalityBasis, Op, Outcome, Tier};
use memwide_store::rows::{Fleet1h, FleetRow, Mix1m, MixRow, NativeBlock, SampleRow, Sums};
use rustc_hash::FxBuildHasher;

use super::chunks::Chunks;

/// Bytes of a row before compression, about: 15 sums and the key.
const ROW_BYTES: usize = 184;

/// Rows that fit a message, about.
const ROWS_A_MESSAGE: u64 = 3_000;

/// Names by number, for the time of a flush.
#[derive(Debug, Default)]
pub(super) struct Names {
    index: HashMap<Box<str>, u32, FxBuildHasher>,
    names: Vec<Box<str>>,
}

impl Names {
    pub(super) fn index(&mut self, name: &str) -> u32 {
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.index.insert(name.into(), index);
        self.names.push(name.into());
        index
    }

    fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", |name| name)
    }
}

/// What both rollups split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Access {
    event_id: u64,
    event: u32,
    tier: Tier,
    op: Op,
    level: Level,
    outcome: Outcome,
    locality: Locality,
    locality_basis: LocalityBasis,
}

impl Access {
    fn of(event: u32, sample: &SampleRow<'_>) -> Self {
        Self {
            event_id: sample.event_id,
            event,
            tier: sample.tier,
            op: sample.op,
            level: sample.level,
            outcome: sample.outcome,
            locality: sample.locality,
            locality_basis: sample.locality_basis,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct MixKey {
    minute_s: u32,
    host: u32,
    workload_id: u64,
    context: Context,
    access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FleetKey {
    hour_s: u32,
    cpu_model: u32,
    function_id: u64,
    host_id: u64,
    latency_kind: LatencyKind,
    access: Access,
}

#[derive(Debug)]
struct Table<K>(HashMap<K, Sums, FxBuildHasher>);

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Copy + Ord + std::hash::Hash> Table<K> {
    fn bytes(&self) -> u64 {
        (self.0.len() * ROW_BYTES) as u64
    }

    fn messages(&self) -> u64 {
        (self.0.len() as u64).div_ceil(ROWS_A_MESSAGE)
    }

    fn in_order(self) -> Vec<(K, Sums)> {
        let mut rows: Vec<(K, Sums)> = self.0.into_iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }
}

fn day(seconds: u32) -> u16 {
    u16::try_from(seconds / 86_400).unwrap_or(u16::MAX)
}

/// Rows of `mix_1m`.
#[derive(Debug, Default)]
pub(super) struct Mix(Table<MixKey>);

impl Mix {
    pub(super) fn add(&mut self, seconds: u32, host: u32, event: u32, sample: &SampleRow<'_>) {
        let key = MixKey {
            minute_s: seconds - seconds % 60,
            host,
            workload_id: sample.workload_id,
            context: sample.context,
            access: Access::of(event, sample),
        };
        self.0.0.entry(key).or_default().add(sample);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(super) fn messages(&self) -> u64 {
        self.0.messages()
    }

    pub(super) fn finish(self, names: &Names, blocks: &mut Vec<NativeBlock>) {
        let mut rows = Chunks::<Mix1m>::default();
        for (key, sums) in self.0.in_order() {
            let access = key.access;
            rows.room(day(key.minute_s), ROW_BYTES).push(&MixRow {
                time: key.minute_s,
                host: names.name(key.host),
                workload_id: key.workload_id,
                event_id: access.event_id,
                event: names.name(access.event),
                tier: access.tier,
                op: access.op,
                level: access.level,
                outcome: access.outcome,
                locality: access.locality,
                locality_basis: access.locality_basis,
                context: key.context,
                sums,
            });
        }
        blocks.extend(rows.finish());
    }
}

/// Rows of `fleet_1h`.
#[derive(Debug, Default)]
pub(super) struct Fleet(Table<FleetKey>);

impl Fleet {
    pub(super) fn add(
        &mut self,
        seconds: u32,
        host_id: u64,
        event: u32,
        cpu_model: u32,
        sample: &SampleRow<'_>,
    ) {
        let key = FleetKey {
            hour_s: seconds - seconds % 3_600,
            cpu_model,
            function_id: sample.function_id,
            host_id,
            latency_kind: sample.latency_kind,
            access: Access::of(event, sample),
        };
        self.0.0.entry(key).or_default().add(sample);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(super) fn messages(&self) -> u64 {
        self.0.messages()
    }

    pub(super) fn finish(self, names: &Names, blocks: &mut Vec<NativeBlock>) {
        let mut rows = Chunks::<Fleet1h>::default();
        for (key, sums) in self.0.in_order() {
            let access = key.access;
            rows.room(day(key.hour_s), ROW_BYTES).push(&FleetRow {
                time: key.hour_s,
                function_id: key.function_id,
                event_id: access.event_id,
                event: names.name(access.event),
                tier: access.tier,
                latency_kind: key.latency_kind,
                op: access.op,
                level: access.level,
                outcome: access.outcome,
                locality: access.locality,
                locality_basis: access.locality_basis,
                cpu_model: names.name(key.cpu_model),
                sums,
                host_id: key.host_id,
            });
        }
        blocks.extend(rows.finish());
    }
}

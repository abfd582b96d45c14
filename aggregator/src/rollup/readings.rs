//! Readings → rows of `pressure`, `rss` and `counters`.

use memwide_proto::v1;
use memwide_store::rows::{CounterRow, Counters, NativeBlock, Pressure, PressureRow, Rss, RssRow};

use super::chunks::{Chunks, short};

/// Bytes of a row before compression without its texts, about.
const ROW_BYTES: usize = 64;
/// A reading further from its batch has a damaged time.
const FAR_NS: u64 = 86_400_000_000_000;

/// Rows of readings under construction.
#[derive(Debug, Default)]
pub(super) struct ReadingRows {
    pressure: Chunks<Pressure>,
    rss: Chunks<Rss>,
    counters: Chunks<Counters>,
}

macro_rules! push {
    ($chunks:expr, $row:ident, $host:expr, $closed_ns:expr, $one:expr, $metric:expr) => {{
        let time_ns = time($one, $closed_ns);
        let texts = [$host, &$one.comm, $metric, &$one.mode, &$one.unit];
        let bytes = ROW_BYTES + texts.iter().map(|text| short(text).len()).sum::<usize>();
        $chunks.room(day(time_ns), bytes).push(&$row {
            time: time_ns,
            host: short($host),
            workload_id: $one.workload_id,
            pid: $one.pid,
            comm: short(&$one.comm),
            metric: short($metric),
            mode: short(&$one.mode),
            value: $one.value,
            unit: short(&$one.unit),
            interval_ns: $one.interval_ns,
        });
    }};
}

impl ReadingRows {
    /// Adds those of a batch that was closed then. What is no number is no reading.
    pub(super) fn add(&mut self, host: &str, closed_ns: u64, readings: &v1::Readings) {
        let is_number = |one: &&v1::Reading| one.value.is_finite();
        for one in readings.pressure.iter().filter(is_number) {
            push!(self.pressure, PressureRow, host, closed_ns, one, &one.name);
        }
        for one in readings.rss.iter().filter(is_number) {
            push!(self.rss, RssRow, host, closed_ns, one, &one.name);
        }
        for one in readings.counters.iter().filter(is_number) {
            push!(self.counters, CounterRow, host, closed_ns, one, &one.name);
        }
        for one in readings.own_cost.iter().filter(is_number) {
            let metric = format!("collector.{}", short(&one.name));
            push!(self.counters, CounterRow, host, closed_ns, one, &metric);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.pressure.bytes() + self.rss.bytes() + self.counters.bytes()
    }

    pub(super) fn messages(&self) -> u64 {
        self.pressure.messages() + self.rss.messages() + self.counters.messages()
    }

    pub(super) fn finish(self, blocks: &mut Vec<NativeBlock>) {
        blocks.extend(self.pressure.finish());
        blocks.extend(self.rss.finish());
        blocks.extend(self.counters.finish());
    }
}

/// Its own time, else the batch's: rows of a flush fall on few days.
fn time(one: &v1::Reading, closed_ns: u64) -> i64 {
    let near = one.wall_ns.abs_diff(closed_ns) <= FAR_NS;
    i64::try_from(if near { one.wall_ns } else { closed_ns }).unwrap_or(i64::MAX)
}

fn day(time_ns: i64) -> u16 {
    u16::try_from(time_ns / 86_400_000_000_000).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_store::native::walk;

    const CLOSED_NS: u64 = 1_700_000_000_000_000_000;

    fn reading(name: &str, wall_ns: u64, value: f64) -> v1::Reading {
        v1::Reading {
            name: name.to_owned(),
            wall_ns,
            value,
            unit: "ns".to_owned(),
            interval_ns: 10,
            ..v1::Reading::default()
        }
    }

    #[test]
    fn each_kind_becomes_rows_of_its_table() {
        let mut rows = ReadingRows::default();
        let readings = v1::Readings {
            pressure: vec![reading("psi.memory.some", CLOSED_NS, 7.0)],
            rss: vec![
                reading("anon", 5, 1.0),
                reading("file", CLOSED_NS, f64::NAN),
            ],
            own_cost: vec![reading("cpu", CLOSED_NS, 2.0)],
            ..v1::Readings::default()
        };
        rows.add("web-1", CLOSED_NS, &readings);
        assert_eq!(rows.messages(), 3);
        let mut blocks = Vec::new();
        rows.finish(&mut blocks);
        let shape: Vec<_> = blocks.iter().map(|one| (one.table, one.rows)).collect();
        assert_eq!(shape, [("pressure", 1), ("rss", 1), ("counters", 1)]);
        assert_eq!(
            blocks[0].day, blocks[1].day,
            "a damaged time becomes the batch's"
        );
        let view = walk(&blocks[2].bytes).unwrap();
        let metric = view
            .columns
            .iter()
            .find(|one| one.name == "metric")
            .unwrap();
        let text = String::from_utf8_lossy(metric.data);
        assert!(text.contains("collector.cpu"), "{text}");
    }
}

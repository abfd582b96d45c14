//! What a collector can be told. Every key has a default that works on one machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::events::AUTO;

/// Configuration of a collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the decoder listens, as `http://HOST:PORT`.
    pub endpoint: String,
    /// Batches on disk until they are acked.
    pub spool: SpoolConfig,
    /// Rings between kernel and collector.
    pub rings: RingConfig,
    /// What to collect: `auto` stands for what fits the machine (`memwide doctor` lists it). Events the machine does not
    /// have are reported, not refused.
    pub events: Vec<EventConfig>,
    /// Whose samples are kept, and of which modes.
    pub select: SelectConfig,
    /// Name of this host in answers; empty: the kernel's host name.
    pub host: String,
    /// A file that every collector of this host can open, held while one runs: two would count everything twice.
    /// `/etc/machine-id` is one on the host and in its containers. Empty: only the spool's folder is held.
    pub host_lock: PathBuf,
    /// Free labels of this host (region, pool …).
    pub labels: BTreeMap<String, String>,
    /// Record mappings that are not executable too: without them a data address has no file, heap or stack.
    pub mmap_data: bool,
    /// Have the kernel say the build id of each file that is mapped: without, those of processes that end at once are not known,
    /// others are read from their files. A kernel that says it here marks mappings of others wrongly
    /// (`docs/collector.md`): `false` where `perf record COMMAND` without `--buildid-mmap` must work beside the collector.
    pub build_ids: bool,
    /// Frames kept of a callchain, at most; the kernel's own bound is `kernel.perf_event_max_stack`.
    pub callchain_frames_max: u16,
    /// What collecting may cost; periods are made longer when it costs more.
    pub budget: BudgetConfig,
    /// Take settings that the centre pushes, within what this file allows (`docs/collector.md`).
    pub central: bool,
    /// While this file exists nothing is sampled. Looked for every second.
    pub stop_file: PathBuf,
    /// Between two readings of pressure, memory and own cost, in milliseconds; 0: none are made.
    pub readings_ms: u64,
    /// Events counted on all CPUs without samples, `:u` and `:k` apart; those the machine does not have are left out.
    pub counters: Vec<String>,
    /// Containers and units in which `counters` are counted apart too: those that use most CPU time. The kernel then changes
    /// counters whenever a CPU goes from one to another (`docs/collector.md` has the cost). 0: none.
    pub counters_cgroups: u16,
    /// Folder of the kubelet with a link for each container's log: their names say pod, namespace and container.
    pub pod_names: PathBuf,
    /// How long a stopping collector waits for acks, in milliseconds. What is unacked then stays in the spool and is
    /// sent by the next start.
    pub stop_grace_ms: u64,
    /// Largest file read for symbols, in bytes; larger ones are answered as unavailable.
    pub symbol_file_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoint: "http://127.0.0.1:7071".to_owned(),
            spool: SpoolConfig::default(),
            rings: RingConfig::default(),
            events: vec![EventConfig::named(AUTO)],
            select: SelectConfig::default(),
            host: String::new(),
            host_lock: PathBuf::new(),
            labels: BTreeMap::new(),
            mmap_data: true,
            build_ids: true,
            callchain_frames_max: 64,
            budget: BudgetConfig::default(),
            central: true,
            stop_file: PathBuf::from("/run/memwide/stop"),
            readings_ms: 10_000,
            counters: default_counters(),
            counters_cgroups: 0,
            pod_names: PathBuf::from("/var/log/containers"),
            stop_grace_ms: 5_000,
            symbol_file_bytes_max: 1 << 30,
        }
    }
}

/// Few of the hardware's: each takes turns with what is sampled once counters run short.
fn default_counters() -> Vec<String> {
    let events = [
        "page-faults",
        "major-faults",
        "cycles",
        "cache-references",
        "cache-misses",
    ];
    let modes = events
        .into_iter()
        .flat_map(|name| [format!("{name}:u"), format!("{name}:k")]);
    modes.collect()
}

/// The spool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolConfig {
    /// Its folder. One collector a folder.
    pub dir: PathBuf,
    /// Bytes it may take; above them the oldest unacked samples are given up, and counted.
    pub max_bytes: u64,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("/var/lib/memwide/spool"),
            max_bytes: 1 << 30,
        }
    }
}

/// The rings of one CPU.
///
/// A ring is locked memory. It must hold what arrives between two looks at it: a batch is packed and written in about
/// 30 ms, and a core makes at most about 0.75 million fault samples of 88 bytes a second, so 2 MiB are enough for a
/// fault storm on every core at once. At 1,000 samples a second 128 KiB are plenty. The start of a small program writes about
/// 3 KB of side-band (24 mappings), and up to a second of it waits for its batch: 1 MiB is enough for 300 starts a second on
/// each core. On machines with many CPUs both are smaller: all rings together take at most a 256th of the memory, and 512 MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RingConfig {
    /// Bytes of the sample ring; rounded up to a power of two of pages. 0: what fits the machine, 128 KiB to 2 MiB.
    pub sample_bytes: u64,
    /// Bytes of the side-band ring; rounded up likewise. 0: what fits the machine, 64 KiB to 1 MiB.
    pub side_band_bytes: u64,
    /// How long to wait for a ring to fill to a quarter before looking anyway, in milliseconds.
    pub poll_ms: u64,
}

impl Default for RingConfig {
    fn default() -> Self {
        Self {
            sample_bytes: 0,
            side_band_bytes: 0,
            poll_ms: 200,
        }
    }
}

/// Most bytes of all rings, and the share of memory they may take.
const RINGS_BYTES_MAX: u64 = 512 << 20;
const RINGS_SHARE: u64 = 256;

impl RingConfig {
    /// With sizes for a machine with so many CPUs and so much memory, where none are given. Two thirds are for samples.
    pub(crate) fn sized(&self, cpus: usize, memory_bytes: u64) -> Self {
        let all = match memory_bytes / RINGS_SHARE {
            0 => RINGS_BYTES_MAX, // the memory is not known
            share => share.min(RINGS_BYTES_MAX),
        };
        let each = all / (cpus as u64).max(1);
        let size = |given: u64, thirds: u64, least: u64, most: u64| match given {
            0 => {
                let wanted = (each * thirds / 3).clamp(least, most);
                1 << wanted.ilog2()
            }
            given => given,
        };
        Self {
            sample_bytes: size(self.sample_bytes, 2, 128 << 10, 2 << 20),
            side_band_bytes: size(self.side_band_bytes, 1, 64 << 10, 1 << 20),
            poll_ms: self.poll_ms,
        }
    }
}

/// Whose samples are kept. Rules are `KEY=PATTERN`, where the key is `namespace`, `pod`, `container`, `service`, `cgroup` (its
/// path), `comm` or `pid`, and `*` in the pattern stands for anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelectConfig {
    /// Only samples that meet one of these are kept; empty: all are.
    pub include: Vec<String>,
    /// Samples that meet one of these are not kept.
    pub exclude: Vec<String>,
    /// Modes that are sampled at all.
    pub modes: Vec<Mode>,
}

impl Default for SelectConfig {
    fn default() -> Self {
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            modes: vec![Mode::User, Mode::Kernel, Mode::Guest],
        }
    }
}

/// What a CPU runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Programs.
    User,
    /// The kernel.
    Kernel,
    /// Virtual machines of this host, where the hardware tells them apart.
    Guest,
}

/// What collecting may cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// Periods are only ever the configured ones when this is false.
    pub govern: bool,
    /// CPU time of the thread that takes, packs and stores records, in percent of one core.
    pub cpu_percent: f64,
    /// CPU time that the kernel spends on samples within the programs, in percent of each core: `sample_ns` for each sample.
    pub handler_percent: f64,
    /// What a sample costs the program it interrupts, in nanoseconds; 0: measured at the start.
    pub sample_ns: u32,
    /// Bytes a second after packing.
    pub bytes_per_second: u64,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self {
            govern: true,
            cpu_percent: 2.0,
            handler_percent: 1.0,
            sample_ns: 0,
            bytes_per_second: 1 << 20,
        }
    }
}

impl Eq for BudgetConfig {}

/// One event to collect. In lists of plain names each gets its default period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventConfig {
    /// `auto`, `minor-faults`, `major-faults`, `cpu-clock`, `SYSTEM:NAME` (a tracepoint), `mem:0xADDR/LEN:rw` (a breakpoint),
    /// `PMU/TERMS/` (`cpu/mem-loads,ldlat=30/P`, `ibs_op//`), a generic name (`LLC-load-misses`).
    pub name: String,
    /// Every how many events a sample is taken; not together with `freq`.
    pub period: Option<u64>,
    /// Samples a second and CPU, of clocks only: turned into a fixed prime period.
    pub freq: Option<u64>,
    /// Take callchains.
    pub callchain: bool,
}

impl EventConfig {
    /// The event with its default period, without callchain.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            period: None,
            freq: None,
            callchain: false,
        }
    }

    /// With this period, in events.
    #[must_use]
    pub fn every(mut self, period: u64) -> Self {
        self.period = Some(period);
        self
    }

    /// With callchains.
    #[must_use]
    pub fn with_callchain(mut self) -> Self {
        self.callchain = true;
        self
    }
}

/// A table, or only a name (as lists in environment variables have it).
impl<'de> Deserialize<'de> for EventConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            name: String,
            #[serde(default)]
            period: Option<u64>,
            #[serde(default)]
            freq: Option<u64>,
            #[serde(default)]
            callchain: bool,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = EventConfig;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an event's name or a table with `name`")
            }
            fn visit_str<E>(self, name: &str) -> Result<EventConfig, E> {
                Ok(EventConfig::named(name))
            }
            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<EventConfig, M::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(EventConfig {
                    name: table.name,
                    period: table.period,
                    freq: table.freq,
                    callchain: table.callchain,
                })
            }
        }
        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_survives_its_own_form() {
        let json = serde_json::to_value(Config::default()).unwrap();
        assert_eq!(
            serde_json::from_value::<Config>(json).unwrap(),
            Config::default()
        );
    }

    #[test]
    fn rings_shrink_with_the_number_of_cpus() {
        const GIB: u64 = 1 << 30;
        // CPUs, memory, KiB of both rings of each CPU, MiB of all.
        #[rustfmt::skip]
        let rows = [
            (1, GIB / 2, 1024, 512, 1), (2, 8 * GIB, 2048, 1024, 6), (8, 32 * GIB, 2048, 1024, 24),
            (64, 256 * GIB, 2048, 1024, 192), (128, 512 * GIB, 2048, 1024, 384), (256, 1024 * GIB, 1024, 512, 384),
            (512, 2048 * GIB, 512, 256, 384), (512, 64 * GIB, 256, 128, 192), (4096, 64 * GIB, 128, 64, 768),
            (16, 0, 2048, 1024, 48),
        ];
        for (cpus, memory, sample, side, all) in rows {
            let rings = RingConfig::default().sized(cpus, memory);
            let kib = (rings.sample_bytes >> 10, rings.side_band_bytes >> 10);
            let of_all = ((kib.0 + kib.1) * cpus as u64) >> 10;
            assert_eq!(
                (kib, of_all),
                ((sample, side), all),
                "{cpus} CPUs, {memory} bytes"
            );
        }
        let given = RingConfig {
            sample_bytes: 12_345,
            ..RingConfig::default()
        };
        assert_eq!(given.sized(2, 8 * GIB).sample_bytes, 12_345);
    }

    #[test]
    fn an_event_is_a_name_or_a_table() {
        let events: Vec<EventConfig> =
            serde_json::from_str(r#"["cpu-clock", {"name": "kmem:kmalloc", "period": 7}]"#)
                .unwrap();
        assert_eq!(
            events,
            [
                EventConfig::named("cpu-clock"),
                EventConfig::named("kmem:kmalloc").every(7)
            ]
        );
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let wrong =
            serde_json::from_str::<EventConfig>(r#"{"name": "a", "perriod": 7}"#).unwrap_err();
        assert!(wrong.to_string().contains("perriod"), "{wrong}");
        let wrong = serde_json::from_str::<Config>(r#"{"endpiont": ""}"#).unwrap_err();
        assert!(wrong.to_string().contains("endpiont"), "{wrong}");
    }
}

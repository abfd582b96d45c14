//! From where on a number is worth a word. The same as in docs/diagnose.md.

/// Samples below which a share proves nothing.
pub const SAMPLES_MIN: u64 = 100;
/// Contended loads of one line below which sharing is not proven.
pub const CONTENDED_MIN: u64 = 20;
/// Contended loads of a line, as a share of all sampled loads.
pub const SHARING: f64 = 0.01;
/// Accesses to another node's memory, of those whose locality is known.
pub const REMOTE: f64 = 0.05;
/// Loads served by memory, of those whose level is known, by weight where there are weights.
pub const MEMORY: f64 = 0.30;
/// Samples of a thread's loads in ascending (or descending) order from which on a function streams.
pub const ORDERED: f64 = 0.75;
/// Accesses whose translation walked the page tables, of those where it is known.
pub const WALKS: f64 = 0.05;
/// Counted misses of the data TLB, of its loads.
pub const COUNTED_WALKS: f64 = 0.01;
/// Counted misses of the last-level cache, of its loads or references.
pub const CACHE_MISSES: f64 = 0.20;
/// Minor faults a second: at half a microsecond to one each, some per cent of a CPU.
pub const FAULTS: f64 = 20_000.0;
/// Minor faults below which a rate proves nothing: starting a program takes some hundreds.
pub const FAULTS_MIN: u64 = 2_000;
/// Major faults a second.
pub const MAJOR_FAULTS: f64 = 10.0;
/// Major faults below which a rate proves nothing.
pub const MAJOR_FAULTS_MIN: u64 = 20;
/// Bytes that one place of the code allocated and kept, a second.
pub const GROWTH: f64 = 1_048_576.0;
/// Allocations of one place below which growth proves nothing.
pub const GROWTH_MIN: u64 = 10;
/// Bytes kept below which growth is nothing to speak of: starting a program takes some.
pub const GROWTH_BYTES: u64 = 4 << 20;
/// Seconds of a recording below which growth may be a program's start …
pub const GROWTH_SECONDS: f64 = 0.5;
/// … as it may be if it ends before this share of the recording.
pub const GROWTH_UNTIL: f64 = 0.5;
/// Mappings that one place of the code made and gave back, a second.
pub const CHURN: f64 = 50.0;
/// Mappings below which churn proves nothing.
pub const CHURN_MIN: u64 = 20;
/// Seconds a second that threads wait for devices.
pub const BLOCKED: f64 = 0.05;
/// Seconds a second that threads wait for a CPU.
pub const CPU_WAIT: f64 = 0.10;
/// Seconds a second that threads wait for locks, in short spells.
pub const LOCKS: f64 = 0.10;
/// Mean of a spell in a lock, in seconds, above which a thread rather waits for work.
pub const LOCK_SPELL_MAX: f64 = 0.005;
/// Spells off the CPU below which they prove nothing.
pub const SPELLS_MIN: u64 = 10;
/// Share of the time that some task waited for memory, by the kernel's pressure accounting.
pub const PRESSURE: f64 = 0.02;

//! What every process shows of itself, read from `/proc/self` at each scrape.

use std::fmt::Write;
use std::fs;

/// Names, kinds and help as Prometheus client libraries have them.
pub(super) fn render(out: &mut String) {
    let mut line = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
            );
        }
    };
    line(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of this process.",
        resident_bytes(),
    );
    line(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of this process, all threads, user and system.",
        cpu_seconds(),
    );
    line(
        "process_open_fds",
        "gauge",
        "Open file descriptors of this process.",
        fs::read_dir("/proc/self/fd")
            .ok()
            .map(|files| files.count() as f64),
    );
}

fn resident_bytes() -> Option<f64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) as f64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?; // the name may hold blanks and parentheses
    let mut fields = after_name.split_whitespace().skip(11); // utime is field 14, stime 15
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks = rustix::param::clock_ticks_per_second();
    Some((user + system) as f64 / ticks as f64)
}

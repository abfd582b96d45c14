//! What a program took: CPU seconds, memory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Clock ticks of `/proc/self/stat` in a second: 100 on every Linux (`USER_HZ`).
const TICKS: f64 = 100.0;

/// What one run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Seconds by the clock.
    pub wall: f64,
    /// Seconds of CPU, user and system, of all threads.
    pub cpu: f64,
    /// The most memory it had resident, in MiB.
    pub peak: u64,
}

/// Runs `PROGRAM ARGUMENTS… -i FILE` to its end, which must be a good one, and throws away what it prints. `cores`: it may
/// use these, as `taskset` names them.
pub fn measure(program: &Path, arguments: &[&str], file: &Path, cores: Option<&str>) -> Measured {
    let (before, started) = (cpu_of_children(), Instant::now());
    let mut command = match cores {
        Some(cores) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cores]).arg(program);
            command
        }
        None => Command::new(program),
    };
    let mut child = command
        .args(arguments)
        .arg("-i")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        peak = peak.max(status.ok().and_then(|text| high_water(&text)).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let wall = started.elapsed().as_secs_f64();
    let shown = program.display();
    assert!(status.success(), "{shown} {arguments:?}: {status}");
    Measured {
        wall,
        cpu: cpu_of_children() - before,
        peak: peak / 1024,
    }
}

/// `VmHWM` in KiB.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// CPU seconds of all children waited for (`cutime` and `cstime` of `/proc/self/stat`).
fn cpu_of_children() -> f64 {
    seconds("self", 16)
}

/// CPU seconds of a process so far (`utime` and `stime`); 0 when it does not run.
pub fn cpu_of(pid: u32) -> f64 {
    if Path::new("/proc").join(pid.to_string()).exists() {
        seconds(&pid.to_string(), 14)
    } else {
        0.0
    }
}

/// Two fields of `/proc/<who>/stat` that count ticks, from `first` on.
fn seconds(who: &str, first: usize) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{who}/stat")).unwrap_or_default();
    let behind = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = behind.split_whitespace().collect();
    // The state is field 3 and the first here.
    let ticks = |number: usize| {
        let field = fields.get(number - 3);
        field
            .and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(first) + ticks(first + 1)) / TICKS
}

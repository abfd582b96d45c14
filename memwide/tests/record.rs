//! `memwide record` on this machine: what it writes, what it says, what it leaves behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_collector::{Import, ImportOptions};
use memwide_perf_abi::file::feature;
use memwide_perf_abi::{PerfFile, Record, kind, misc, sample};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Programs the load starts; each has some dozens of faults at least.
const STARTED: u64 = 40;
const LOAD: &str =
    "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; /bin/true; /bin/true; /bin/true; done";
/// Faults of a program that is started, at least.
const FAULTS: u64 = 20;
/// A recording that has not ended then never will.
const PATIENCE: Duration = Duration::from_mins(1);

fn memwide() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwide"));
    command.arg("record").env("NO_COLOR", "1");
    command
}

/// What it said; `None` where the kernel lets nobody record.
fn said(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    let kernel = [
        "not permitted",
        "without perf events",
        "tracing file system",
        "the kernel refuses",
    ];
    if !output.status.success() && kernel.iter().any(|reason| said.contains(reason)) {
        eprintln!("skipped: {said}");
        return None;
    }
    Some(said)
}

fn record(args: &[&str], to: &Path, command: &[&str]) -> Option<String> {
    let output = memwide()
        .args(args)
        .arg("-o")
        .arg(to)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let said = said(&output)?;
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(said)
}

#[derive(Debug, Default)]
struct Found {
    samples: BTreeMap<String, u64>,
    /// Names taken by exec, in order.
    execs: Vec<String>,
    /// Samples before the first exec.
    early: u64,
    raw: u64,
}

impl Found {
    fn all(&self) -> u64 {
        self.samples.values().sum()
    }
}

/// Walks a file that must be whole.
fn read(path: &Path) -> Found {
    let mut file = PerfFile::open(File::open(path).unwrap()).unwrap();
    assert!(!file.unfinished());
    let events = std::sync::Arc::clone(file.events());
    let mut found = Found::default();
    let mut records = file.sorted().unwrap();
    while let Some(item) = records.next().unwrap() {
        match item.record.kind {
            kind::SAMPLE => {
                let event = &events.events()[item.event.expect("every sample has its event")];
                *found.samples.entry(event.name.clone()).or_default() += 1;
                found.early += u64::from(found.execs.is_empty());
                found.raw += u64::from(event.attr.samples(sample::RAW));
            }
            kind::COMM if item.record.misc & misc::COMM_EXEC != 0 => {
                if let Ok(Record::Comm(comm)) = Record::parse(item.record) {
                    found
                        .execs
                        .push(String::from_utf8_lossy(comm.comm).into_owned());
                }
            }
            _ => {}
        }
    }
    assert_eq!(records.cut(), None);
    found
}

/// The file and nothing beside it.
#[track_caller]
fn only(folder: &Path, expected: &[&str]) {
    let mut names: Vec<String> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_command_is_recorded_from_its_exec_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("command.data");
    let Some(said) = record(&[], &file, &["sh", "-c", LOAD]) else {
        return;
    };
    let found = read(&file);
    assert_eq!(
        found.execs.first().map(String::as_str),
        Some("sh"),
        "the waiting process itself is not recorded"
    );
    assert_eq!(
        found.execs.iter().filter(|name| *name == "true").count() as u64,
        STARTED
    );
    assert_eq!(found.early, 0, "nothing comes before the exec");
    assert!(
        found.samples["minor-faults"] >= STARTED * FAULTS,
        "{:?}",
        found.samples
    );
    let result = said.lines().last().unwrap();
    let digits: String = result
        .replace(',', "")
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    assert_eq!(digits, found.all().to_string(), "{said}");
    assert!(
        result.contains("0 lost") && result.contains("bytes in"),
        "{said}"
    );
    only(folder.path(), &["command.data"]);
}

#[test]
fn a_recording_says_where_and_when_and_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("import.data");
    if record(&["-e", "minor-faults"], &path, &["/bin/true"]).is_none() {
        return;
    }
    let file = PerfFile::open(File::open(&path).unwrap()).unwrap();
    let features = file.features();
    assert!(features.hostname().is_some_and(|name| !name.is_empty()));
    assert!(
        features.os_release().is_some()
            && features.arch().is_some()
            && features.nr_cpus().is_some()
    );
    let words = features.cmdline().unwrap();
    assert_eq!(&words[1..5], ["record", "-e", "minor-faults", "-o"]);
    let (clock, times) = (
        features.clock_data().unwrap(),
        features.sample_time().unwrap(),
    );
    assert!(clock.clockid_time_ns <= times.first && times.first <= times.last);
    assert!(!features.build_ids().is_empty());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let age = u64::try_from(now.as_nanos())
        .unwrap()
        .saturating_sub(clock.wall_clock_ns);
    assert!(age < 3_600_000_000_000, "{age} ns ago");
    let found = read(&path);
    let import = Import::open(&path, ImportOptions::default()).unwrap();
    let summary = import.summary();
    assert_eq!(
        summary
            .events
            .iter()
            .map(|event| event.samples)
            .sum::<u64>(),
        found.all()
    );
}

#[test]
fn a_larger_period_takes_fewer_samples_of_the_same_faults() {
    let folder = tempfile::tempdir().unwrap();
    let (every, some) = (
        folder.path().join("every.data"),
        folder.path().join("some.data"),
    );
    if record(&["-e", "minor-faults"], &every, &["sh", "-c", LOAD]).is_none() {
        return;
    }
    record(
        &["-e", "minor-faults", "-c", "50"],
        &some,
        &["sh", "-c", LOAD],
    )
    .unwrap();
    let (every, some) = (read(&every).all(), read(&some).all());
    assert!(some > 0 && some * 25 < every, "{some} of {every}");
}

#[test]
fn the_command_keeps_its_output_and_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status.data");
    let output = memwide()
        .arg("-o")
        .arg(&file)
        .args(["--", "sh", "-c", "echo hello; exit 3"])
        .output()
        .unwrap();
    let Some(said) = said(&output) else { return };
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(3), &b"hello\n"[..]),
        "{said}"
    );
    assert!(said.contains("exit status: 3"), "{said}");
    let file = PerfFile::open(File::open(&file).unwrap()).unwrap();
    assert!(!file.unfinished(), "the file is whole all the same");
}

#[test]
fn a_command_that_a_signal_ends_gives_the_code_shells_give() {
    let folder = tempfile::tempdir().unwrap();
    let output = memwide()
        .arg("-o")
        .arg(folder.path().join("killed.data"))
        .args(["--", "sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    let Some(said) = said(&output) else { return };
    assert_eq!(output.status.code(), Some(128 + 9), "{said}");
    assert!(said.contains("signal: 9"), "{said}");
}

#[test]
fn a_recording_without_samples_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.data");
    let events = ["-e", "major-faults", "-c", "1000000"];
    if let Some(said) = record(&events, &file, &["true"]) {
        assert!(
            said.contains("no event happened") && said.contains("memwide doctor"),
            "{said}"
        );
    }
}

/// Starts a recording without a command and waits until it records; `None` where it cannot.
fn start(
    args: &[&str],
    to: &Path,
) -> Option<(std::process::Child, BufReader<std::process::ChildStderr>)> {
    let mut child = memwide()
        .args(args)
        .arg("-o")
        .arg(to)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while lines.read_line(&mut said).unwrap() > 0 {
        if said.contains("recording;") {
            return Some((child, lines));
        }
    }
    assert!(
        said.contains("not permitted") || said.contains("perf events") || said.contains("refuses"),
        "{said}"
    );
    eprintln!("skipped: {said}");
    child.wait().unwrap();
    None
}

#[track_caller]
fn ends_well(child: &mut std::process::Child) {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        assert!(start.elapsed() < PATIENCE, "the recording does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_process_is_recorded_with_its_children_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("process.data");
    let script = format!("read go; {LOAD}");
    let mut load = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = load.id().to_string();
    if let Some((mut recorder, _lines)) = start(&["-p", &pid], &file) {
        load.stdin.take().unwrap().write_all(b"\n").unwrap();
        ends_well(&mut recorder);
        let found = read(&file);
        assert!(found.all() >= STARTED * FAULTS, "{:?}", found.samples);
        assert_eq!(found.execs, vec!["true"; usize::try_from(STARTED).unwrap()]);
    }
    drop(load.stdin.take());
    load.wait().unwrap();
}

#[test]
fn the_signal_of_ctrl_c_ends_a_recording_of_the_machine_with_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.data");
    let Some((mut recorder, _lines)) = start(&["-a", "-g"], &file) else {
        return;
    };
    assert!(
        Command::new("sh")
            .args(["-c", LOAD])
            .status()
            .unwrap()
            .success()
    );
    assert!(
        !file.exists(),
        "a file that is not whole does not stand in its place"
    );
    assert!(
        Command::new("kill")
            .args(["-INT", &recorder.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    ends_well(&mut recorder);
    let found = read(&file);
    assert!(
        found.samples["minor-faults"] >= STARTED * FAULTS,
        "{:?}",
        found.samples
    );
    only(folder.path(), &["all.data"]);
}

#[test]
fn two_recordings_of_the_same_faults_keep_their_own_ids() {
    let folder = tempfile::tempdir().unwrap();
    let (outer, inner) = (
        folder.path().join("outer.data"),
        folder.path().join("inner.data"),
    );
    let program = env!("CARGO_BIN_EXE_memwide");
    let inner_name = inner.to_str().unwrap();
    let command = [program, "record", "-o", inner_name, "--", "sh", "-c", LOAD];
    if record(&["-a", "-e", "minor-faults,major-faults"], &outer, &command).is_none() {
        return;
    }
    let (outer, inner) = (read(&outer), read(&inner));
    let minor = inner.samples["minor-faults"];
    assert!(minor >= STARTED * FAULTS, "{:?}", inner.samples);
    assert!(
        outer.samples["minor-faults"] >= minor,
        "{:?} < {:?}",
        outer.samples,
        inner.samples
    );
}

/// What the breakpoint watches.
static WATCHED: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_breakpoint_gives_a_sample_each_write() {
    const WRITES: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("breakpoint.data");
    let event = format!("mem:{:#x}/8:w", &raw const WATCHED as usize);
    let pid = std::process::id().to_string();
    let Some((mut recorder, _lines)) = start(&["-p", &pid, "-e", &event], &file) else {
        return;
    };
    for number in 0..WRITES {
        WATCHED.store(number, Ordering::SeqCst);
    }
    assert!(
        Command::new("kill")
            .args(["-INT", &recorder.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    ends_well(&mut recorder);
    assert_eq!(read(&file).samples, BTreeMap::from([(event, WRITES)]));
}

#[test]
fn tracepoints_come_with_their_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracepoint.data");
    let events = ["-a", "-e", "sched:sched_process_exit,minor-faults"];
    if record(&events, &path, &["sh", "-c", LOAD]).is_none() {
        return;
    }
    let found = read(&path);
    assert!(
        found.samples["sched:sched_process_exit"] >= STARTED,
        "{:?}",
        found.samples
    );
    assert_eq!(found.raw, found.samples["sched:sched_process_exit"]);
    let file = PerfFile::open(File::open(&path).unwrap()).unwrap();
    let events = file.events().events();
    let exit = events
        .iter()
        .find(|event| event.name.starts_with("sched:"))
        .unwrap();
    let formats = file.tracing_data().unwrap();
    assert_eq!(
        formats.tracepoint(exit.attr.config).unwrap().name,
        "sched_process_exit"
    );
    assert!(file.features().raw(feature::TRACING_DATA).is_some());
}

#[track_caller]
fn refused(folder: &Path, args: &[&str], code: i32, says: &[&str]) {
    let output = memwide().current_dir(folder).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for part in says {
        assert!(
            said.contains(part),
            "{args:?} does not say `{part}`: {said}"
        );
    }
}

#[test]
fn what_cannot_be_recorded_is_said_with_the_remedy_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(
        at,
        &["-o", "x", "-p", "4000000"],
        1,
        &["there is no process 4000000"],
    );
    refused(
        at,
        &["-o", "x", "--", "no-such-command"],
        1,
        &["no-such-command", "no such command in PATH"],
    );
    refused(
        at,
        &["-o", "x", "--", "./none"],
        1,
        &["cannot run ./none", "No such file", "give the path"],
    );
    refused(
        at,
        &["-o", "x", "-e", "nonsense", "--", "true"],
        64,
        &["no event is called nonsense", "memwide doctor"],
    );
    refused(
        at,
        &["-o", "x", "-e", "mem:zzz", "--", "true"],
        64,
        &["cannot read the event mem:zzz", "mem:0xADDR/LEN:rw"],
    );
    refused(
        at,
        &["-o", "x", "-e", "page-faults:zz", "--", "true"],
        64,
        &["`z` is no modifier"],
    );
    refused(
        at,
        &["-o", "x", "-e", "no_such_pmu/a=1/", "--", "true"],
        1,
        &["no such PMU", "/sys/bus/event_source/devices"],
    );
    refused(
        at,
        &["-o", "none/x", "--", "true"],
        1,
        &["cannot write none/x", "-o"],
    );
    refused(
        at,
        &["-o", ".", "--", "true"],
        1,
        &["not a regular file", "-o"],
    );
    refused(at, &["-o", "x", "-c", "0", "--", "true"], 64, &["--count"]);
    refused(
        at,
        &["-o", "x", "-a", "-p", "1"],
        64,
        &["--pid", "--all-cpus"],
    );
    only(at, &[]);
}

#[test]
fn what_the_kernel_cannot_start_leaves_an_earlier_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.data");
    std::fs::write(&file, "earlier").unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = memwide()
        .arg("-o")
        .arg(&file)
        .arg("--")
        .arg(&script)
        .output()
        .unwrap();
    let Some(said) = said(&output) else { return };
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot run") && said.contains("No such file"),
        "{said}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"earlier");
    only(folder.path(), &["kept.data", "script"]);
}

//! Arguments of `memwide record`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// What a recording needs and gives.
const ABOUT_RECORDING: &str = "Unless events are named, every minor and major fault is recorded, and the precise memory \
                               events of this machine. Ctrl-c ends a recording; its file is whole then. Read it with \
                               `memwide script`, `memwide report`, `memwide import` or perf. Until it is whole it is called \
                               FILE.part; what a killed recording left there is kept as FILE.part.old by the next one, and can \
                               be read as far as it goes.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_RECORDING)]
pub(crate) struct RecordArgs {
    /// Event, repeatable: minor-faults, major-faults, cpu-clock, SYSTEM:NAME, mem:0xADDR/LEN:rwx, mem-loads, mem-stores, ibs_op, PMU/TERMS/
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    pub(crate) events: Vec<String>,
    /// All processes on all CPUs, until ctrl-c or as long as the command runs
    #[arg(short = 'a', long = "all-cpus")]
    pub(crate) all: bool,
    /// Only this process, its threads and what they start
    #[arg(short = 'p', long, value_name = "PID", conflicts_with_all = ["all", "command"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) pid: Option<u32>,
    /// A sample every N events
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) count: Option<u64>,
    /// Record callchains by frame pointers, as --call-graph fp
    #[arg(short = 'g', conflicts_with = "call_graph")]
    pub(crate) callchains: bool,
    /// Record callchains: `fp` by frame pointers; `dwarf` or `dwarf,BYTES` from a copy of so much of the stack, for programs and libraries without them
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "fp", value_parser = CallGraph::parse)]
    pub(crate) call_graph: Option<CallGraph>,
    /// File to write; replaced if it exists
    #[arg(short = 'o', long, value_name = "FILE", default_value = "perf.data", value_parser = recording_file)]
    pub(crate) output: PathBuf,
    /// Command to run and record from its start to its end
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// A file that a recording may be written to: sizes are filled in at its end, so it is no stream.
pub(super) fn recording_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("name a file".to_owned()),
        "-" => Err(
            "a recording is not written to standard output; name a file (./- for one of this name), or use `perf record -o -`, \
             whose output all commands read with -i -"
                .to_owned(),
        ),
        file => Ok(PathBuf::from(file)),
    }
}

/// How callchains are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// By the kernel, which follows frame pointers.
    FramePointers,
    /// From a copy of so many bytes of the stack.
    Stack(u16),
}

impl CallGraph {
    /// As many as perf takes.
    const BYTES: u16 = 8192;
    /// The kernel takes multiples of 8 below 64 KiB.
    const BYTES_MAX: u16 = 65_528;

    fn parse(text: &str) -> Result<Self, String> {
        let (how, bytes) = text.split_once(',').unwrap_or((text, ""));
        match (how, bytes) {
            ("fp", "") => Ok(Self::FramePointers),
            ("dwarf", "") => Ok(Self::Stack(Self::BYTES)),
            ("dwarf", bytes) => match bytes.parse::<u16>() {
                Ok(bytes @ 8..=Self::BYTES_MAX) => Ok(Self::Stack(bytes / 8 * 8)),
                _ => Err(format!(
                    "a copy of the stack has 8 to {} bytes",
                    Self::BYTES_MAX
                )),
            },
            _ => Err("it is `fp`, `dwarf` or `dwarf,BYTES`".to_owned()),
        }
    }
}

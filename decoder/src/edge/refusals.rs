//! Files with symbols that are there and are not believed, or not understood: whoever misses names must hear why.

use crate::symbols::What;
use std::fmt;

/// Most refusals kept; the others are counted.
const KEPT_MAX: usize = 64;

/// A file that was refused, in whole or in part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Path, or address of a server.
    pub file: Box<str>,
    /// Reason, as a lower-case phrase.
    pub why: Box<str>,
    /// What helps.
    pub remedy: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.file, self.why, self.remedy)
    }
}

/// What helps against a file of another build.
pub(super) const OTHER_BUILD: &str =
    "name a folder with the recorded files (--symfs) or servers that have them (--debuginfod)";
/// Against a damaged file.
pub(crate) const DAMAGED: &str = "install it again, or name a folder with whole files (--symfs)";
/// Against symbols that make no sense, where nearly all do.
pub(super) const OTHERS_HOLD: &str = "all others are used; nothing need be done";
/// Against a file nobody may read.
pub(super) const UNREADABLE: &str = "run as a user who may read it";
/// Against a debug file that does not fit.
pub(crate) const OTHER_DEBUG: &str = "install the debug information of the same build";
/// Against an ELF file that is not the recorded kernel's.
pub(super) const OTHER_KERNEL: &str =
    "name the recorded kernel's ELF file (-k vmlinux) or a copy of its /proc/kallsyms (--kallsyms)";
/// Against a map of generated code that is none.
pub(super) const MAP: &str = "its lines are `START SIZE name`, numbers in hexadecimal";
/// Against a damaged dump of generated code.
pub(super) const DUMP: &str = "what comes before is used; let the program end before it is read";
/// What helps where a program or its names are not here.
pub(crate) const NOT_HERE: &str = OTHER_BUILD;
/// Against a file that is not known to be the recorded one.
const CHANGED: &str = "--symfs / takes it nevertheless; record programs with build ids to be sure";
/// Where nobody wrote names of generated code.
const GENERATED: &str = "let its runtime write them (node --perf-basic-prof; java with perf-map-agent; dotnet PerfMapEnabled=1)";
/// Against the vdso of elsewhere.
const VDSO: &str = "look at the recording on the machine that recorded it";

/// What helps where a mapped thing has no names for this reason.
pub(crate) fn remedy_of(what: What, why: &str) -> &'static str {
    match what {
        What::Vdso => VDSO,
        What::Jit => GENERATED,
        _ if why.contains("changed after the recording") => CHANGED,
        _ if why.contains("may not be read") => UNREADABLE,
        _ => NOT_HERE,
    }
}

/// Against servers that do not answer.
pub(super) const SERVER: &str = "name another server, or none: --debuginfod ''";

/// Refusals so far, each file and reason once.
#[derive(Debug, Default)]
pub struct Refusals {
    kept: Vec<Refusal>,
    more: u64,
}

impl Refusals {
    /// Takes note of one.
    pub(super) fn note(
        &mut self,
        file: impl fmt::Display,
        why: impl fmt::Display,
        remedy: &'static str,
    ) {
        let refusal = Refusal {
            file: file.to_string().into(),
            why: why.to_string().into(),
            remedy,
        };
        self.take(refusal);
    }

    /// Takes note of a finished one.
    pub(super) fn take(&mut self, refusal: Refusal) {
        // A damaged file is named once, whatever else of it is damaged too.
        let is_known = |known: &Refusal| {
            known == &refusal
                || (known.file == refusal.file
                    && known.remedy == DAMAGED
                    && refusal.remedy == DAMAGED)
        };
        if self.kept.iter().any(is_known) {
            return;
        }
        if self.kept.len() >= KEPT_MAX {
            self.more += 1;
        } else {
            self.kept.push(refusal);
        }
    }

    /// Those kept, in the order they were found.
    pub fn kept(&self) -> &[Refusal] {
        &self.kept
    }

    /// How many more there were.
    pub fn more(&self) -> u64 {
        self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_once_and_there_is_an_end() {
        let mut refusals = Refusals::default();
        for file in (0..100).chain(0..10) {
            refusals.note(file, "damaged", DAMAGED);
        }
        refusals.note(7, "damaged elsewhere too", DAMAGED);
        assert_eq!((refusals.kept().len(), refusals.more()), (64, 36));
        let first = refusals.kept().first().unwrap().to_string();
        assert!(first.starts_with("0: damaged; install"), "{first}");
    }
}

//! Where symbol tables come from.

use crate::edge::Refusals;
use crate::identity::Identity;
use crate::symbols::What;
use memwide_objects::{DebugInfo, FrameSections, SymbolTable};
use std::ops::Range;

/// Which table is wanted.
#[derive(Debug)]
pub struct ObjectRequest<'a> {
    /// What it is made of: kind, build id, path.
    pub identity: &'a Identity,
    /// What its mapping's name says.
    pub what: What,
    /// Address that kernel and module symbols are to be relative to.
    pub base: u64,
    /// The dump that the process mapped, for generated code.
    pub jit_dump: Option<&'a str>,
    /// The kernel that ran, for kernel and modules.
    pub kernel: Option<RecordedKernel<'a>>,
}

/// The kernel that ran while a file was recorded.
#[derive(Debug, Clone)]
pub struct RecordedKernel<'a> {
    /// What it is made of; without an id where the file has neither its build id nor its release.
    pub identity: &'a Identity,
    /// Where its code lay.
    pub code: Range<u64>,
}

/// Finds symbol tables.
pub trait ObjectSource {
    /// The table, or why there is none, as a lower-case phrase. Asked once for each identity.
    fn load(&mut self, request: &ObjectRequest<'_>) -> Result<SymbolTable, String>;

    /// Its debug information, likewise. Asked only where lines are wanted.
    fn debug_info(&mut self, request: &ObjectRequest<'_>) -> Result<DebugInfo, String> {
        Err(format!(
            "no debug information of {} here",
            request.identity.path
        ))
    }

    /// Whether there is debug information of the kernel.
    fn knows_kernel_lines(&self) -> bool {
        false
    }

    /// What says how to unwind it, likewise. Asked only for samples with a copy of the stack.
    fn frames(&mut self, request: &ObjectRequest<'_>) -> Result<FrameSections, String> {
        Err(format!("{} is not here", request.identity.path))
    }

    /// Files that were there and were refused, if it takes note of them.
    fn refusals(&self) -> Option<&Refusals> {
        None
    }
}

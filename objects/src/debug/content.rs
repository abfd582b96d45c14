//! The files that debug information of one program is spread over: its own, one shared with others, split ones.

use super::budget::Budget;
use super::error::malformed;
use super::{Bytes, DebugError, DebugSections};
use gimli::{DebugTypeSignature, Dwarf, DwoId};

/// One of those files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The program's, or its debug file's.
    Own,
    /// What several programs share (`.gnu_debugaltlink`).
    Shared,
    /// A split one, by number.
    Split(u32),
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) part: Part,
    /// Number of the unit in its file.
    pub(super) unit: usize,
    /// Offset in the unit.
    pub(super) entry: usize,
}

/// Where the information of a split unit is.
#[derive(Debug)]
pub(super) enum Split {
    /// In a file of its own (`.dwo`).
    File(Box<DebugSections>),
    /// In the package (`.dwp`), by the id of the unit.
    Unit(u64),
    /// In the package, by the signature of the type.
    Type(u64),
}

/// The bytes of all files.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) own: DebugSections,
    pub(super) shared: Option<DebugSections>,
    pub(super) package: Option<DebugSections>,
    pub(super) splits: Vec<Split>,
}

impl Content {
    /// Bytes of all files.
    pub(super) fn len(&self) -> usize {
        let others = [&self.shared, &self.package];
        let others = others.iter().filter_map(|other| other.as_ref());
        self.own.len() + others.map(DebugSections::len).sum::<usize>()
    }

    /// A file as gimli wants it; costs next to nothing.
    pub(super) fn dwarf(&self, part: Part) -> Result<Dwarf<Bytes<'_>>, DebugError> {
        let own = || {
            let mut own = self.own.dwarf();
            if let Some(shared) = &self.shared {
                own.set_sup(shared.dwarf());
            }
            own
        };
        let none = || malformed("a file that does not exist");
        match part {
            Part::Own => Ok(own()),
            Part::Shared => Ok(self.shared.as_ref().ok_or_else(none)?.dwarf()),
            Part::Split(at) => match self.splits.get(at as usize).ok_or_else(none)? {
                Split::File(sections) => {
                    let mut split = sections.dwarf();
                    split.make_dwo(&own());
                    Ok(split)
                }
                Split::Unit(id) => {
                    let package = self.package.as_ref().ok_or_else(none)?.package()?;
                    package.find_cu(DwoId(*id), &own())?.ok_or_else(none)
                }
                Split::Type(signature) => {
                    let package = self.package.as_ref().ok_or_else(none)?.package()?;
                    let signature = DebugTypeSignature(*signature);
                    package.find_tu(signature, &own())?.ok_or_else(none)
                }
            },
        }
    }

    /// Pays for a look into the package's tables: hostile ones are walked to their end.
    pub(super) fn pay_for_look_up(&self, budget: &mut Budget) -> Result<(), DebugError> {
        budget.pay(16 + self.package.as_ref().map_or(0, DebugSections::index_len) / 16)
    }

    /// Whether the package has a unit.
    pub(super) fn packs(&self, split: &Split) -> bool {
        let Some(Ok(package)) = self.package.as_ref().map(DebugSections::package) else {
            return false;
        };
        match split {
            Split::File(_) => false,
            Split::Unit(id) => package.cu_index.find(*id).is_some(),
            Split::Type(signature) => package.tu_index.find(*signature).is_some(),
        }
    }
}

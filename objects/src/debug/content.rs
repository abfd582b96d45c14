//! The files that debug information of one program is spread over: its own, one shared with others, split ones.

use super::budget::Budget;
use super::error::malformed;
use super::{Bytes, DebugError, DebugSections};
use gimli::{
    Dwarf, DwarfFileType, DwarfPackage, IndexSectionId, RangeLists, Reader as _, Section as _,
};

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
                packed => {
                    let package = self.package.as_ref().ok_or_else(none)?.package()?;
                    let row = row(&package, packed).ok_or_else(none)?;
                    unpacked(&package, packed, row, own())
                }
            },
        }
    }

    /// Pays for a look into the package's tables: hostile ones are walked to their end.
    pub(super) fn pay_for_look_up(&self, budget: &mut Budget) -> Result<(), DebugError> {
        budget.pay(16 + self.package.as_ref().map_or(0, DebugSections::index_len) / 16)
    }

    /// Whether the package has a unit; the error is of a package that cannot tell.
    pub(super) fn packs(&self, split: &Split) -> Result<bool, DebugError> {
        let Some(package) = &self.package else {
            return Ok(false);
        };
        Ok(row(&package.package()?, split).is_some())
    }

    /// Whether a part is one of the package's.
    pub(super) fn is_packed(&self, part: Part) -> bool {
        let Part::Split(at) = part else { return false };
        let split = self.splits.get(at as usize);
        split.is_some_and(|split| !matches!(split, Split::File(_)))
    }
}

/// The row of a package's table that is about a unit.
fn row(package: &DwarfPackage<Bytes<'_>>, split: &Split) -> Option<u32> {
    match split {
        Split::File(_) => None,
        Split::Unit(id) => package.cu_index.find(*id),
        Split::Type(signature) => package.tu_index.find(*signature),
    }
}

/// A unit of a package: of each section that is read here, the piece that its row names. Rows also name what is not read: where
/// variables lie from moment to moment, macros, lines.
fn unpacked<'a>(
    package: &DwarfPackage<Bytes<'a>>,
    split: &Split,
    row: u32,
    own: Dwarf<Bytes<'a>>,
) -> Result<Dwarf<Bytes<'a>>, DebugError> {
    let pieces = match split {
        Split::Type(_) => package.tu_index.sections(row)?,
        _ => package.cu_index.sections(row)?,
    };
    let mut dwarf = Dwarf {
        debug_addr: own.debug_addr,
        debug_str: package.debug_str,
        sup: own.sup,
        file_type: DwarfFileType::Dwo,
        ..Dwarf::default()
    };
    let mut lists = Bytes::default();
    for piece in pieces {
        let cut = |section: &Bytes<'a>| {
            let mut bytes = *section;
            bytes.skip(piece.offset as usize)?;
            bytes.truncate(piece.size as usize)?;
            Ok::<_, gimli::Error>(bytes)
        };
        match piece.section {
            IndexSectionId::DebugAbbrev => {
                dwarf.debug_abbrev = cut(package.debug_abbrev.reader())?.into();
            }
            IndexSectionId::DebugInfo => {
                dwarf.debug_info = cut(package.debug_info.reader())?.into();
            }
            IndexSectionId::DebugTypes => {
                dwarf.debug_types = cut(package.debug_types.reader())?.into();
            }
            IndexSectionId::DebugStrOffsets => {
                dwarf.debug_str_offsets = cut(package.debug_str_offsets.reader())?.into();
            }
            IndexSectionId::DebugRngLists => lists = cut(package.debug_rnglists.reader())?,
            _ => {}
        }
    }
    dwarf.ranges = RangeLists::new(*own.ranges.debug_ranges(), lists.into());
    Ok(dwarf)
}

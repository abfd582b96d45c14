//! Split debug information: the program has a skeleton of each unit, the rest is in a file of its own or in a package.

use super::budget::Budget;
use super::content::{Content, Part, Split};
use super::units::Units;
use super::{DebugError, DebugSections};
use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of split files read for one program.
const BYTES_MAX: usize = 2 << 30;

/// Split files that were refused and are remembered by name; the others are counted.
const REFUSALS_MAX: usize = 8;

/// Most split files and units of packages opened for one program.
const SPLITS_MAX: usize = 1 << 18;

/// A split file as its skeleton names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitName {
    /// What tells builds apart.
    pub id: u64,
    /// Path: absolute, or from the folder.
    pub name: String,
    /// Folder the compiler ran in.
    pub folder: Option<String>,
}

/// Finds split files. The id need not be looked at: files of other builds are refused by whoever asked.
pub trait SplitFiles: fmt::Debug + Send {
    /// Reads one, see [`DebugSections::read_split`]; the error says which and why, as a lower-case phrase.
    fn load(&mut self, name: &SplitName) -> Result<DebugSections, String>;
}

/// The units of all files.
#[derive(Debug, Default)]
pub(super) struct AllUnits {
    pub(super) own: Units,
    pub(super) shared: Units,
    splits: Vec<Units>,
    /// What each skeleton, by its number, turned out to stand for: a file and a unit in it.
    bodies: BTreeMap<usize, Option<(Part, usize)>>,
    /// Types of packages by signature.
    types: BTreeMap<u64, Option<Part>>,
    bytes: usize,
    refusals: Vec<String>,
    refused: usize,
}

impl AllUnits {
    /// The units of a file.
    pub(super) fn of(&mut self, part: Part) -> &mut Units {
        match part {
            Part::Own => &mut self.own,
            Part::Shared => &mut self.shared,
            Part::Split(at) => match self.splits.get_mut(at as usize) {
                Some(units) => units,
                None => &mut self.own, // parts are numbers of `splits`
            },
        }
    }

    /// Split files that were not found or not believed, and how many more there are.
    pub(super) fn refusals(&self) -> (&[String], usize) {
        (&self.refusals, self.refused - self.refusals.len())
    }

    /// Where the information of one of the program's units is: there, or in a split file. `None` where that is not to be had.
    pub(super) fn body(
        &mut self,
        content: &mut Content,
        files: Option<&mut (dyn SplitFiles + 'static)>,
        unit: usize,
        budget: &mut Budget,
    ) -> Result<Option<(Part, usize)>, DebugError> {
        let Some(name) = self.own.skeleton(unit) else {
            return Ok(Some((Part::Own, unit)));
        };
        if let Some(known) = self.bodies.get(&unit) {
            return Ok(*known);
        }
        let name = name.clone();
        let found = match self.open(content, files, unit, &name, budget) {
            Ok(found) => Some(found),
            Err(Refused::Here(wrong)) => return Err(wrong),
            Err(Refused::File(why)) => {
                self.refused += 1;
                if self.refusals.len() < REFUSALS_MAX {
                    self.refusals.push(why);
                }
                None
            }
        };
        self.bodies.insert(unit, found);
        Ok(found)
    }

    fn open(
        &mut self,
        content: &mut Content,
        files: Option<&mut (dyn SplitFiles + 'static)>,
        unit: usize,
        name: &SplitName,
        budget: &mut Budget,
    ) -> Result<(Part, usize), Refused> {
        let packed = Split::Unit(name.id);
        content.pay_for_look_up(budget)?;
        let split = if content.packs(&packed) {
            packed
        } else {
            let shown = &name.name;
            let files = files.ok_or_else(|| Refused::File(format!("{shown} is not here")))?;
            let sections = files.load(name).map_err(Refused::File)?;
            self.bytes = self.bytes.saturating_add(sections.len());
            if self.bytes > BYTES_MAX {
                let why = format!("{shown}: {BYTES_MAX} bytes of split files are read already");
                return Err(Refused::File(why));
            }
            budget.grow(sections.len());
            Split::File(Box::new(sections))
        };
        let (part, units) = self.add(content, split, Some(unit), budget)?;
        let found = units.with_dwo_id(name.id);
        let why = || format!("{} is of another build", name.name);
        Ok((part, found.ok_or_else(|| Refused::File(why()))?))
    }

    fn add(
        &mut self,
        content: &mut Content,
        split: Split,
        skeleton: Option<usize>,
        budget: &mut Budget,
    ) -> Result<(Part, &Units), Refused> {
        if self.splits.len() >= SPLITS_MAX {
            let why = format!("more than {SPLITS_MAX} split files");
            return Err(Refused::File(why));
        }
        let at = u32::try_from(self.splits.len()).unwrap_or(u32::MAX);
        let part = Part::Split(at);
        let inherited = match skeleton {
            Some(unit) => {
                let own = content.dwarf(Part::Own)?;
                let opened = self.own.open(&own, unit, budget)?;
                Some((&opened.unit).into())
            }
            None => None,
        };
        content.splits.push(split);
        // Whatever it is, it has this number from now on.
        self.splits.push(Units::default());
        let found = Units::find(&content.dwarf(part)?, inherited, budget)?;
        if let Some(units) = self.splits.last_mut() {
            *units = found;
        }
        Ok((part, self.splits.last().unwrap_or(&self.own)))
    }

    /// The unit of a type by its signature, seen from a file; and the type's entry in it.
    pub(super) fn with_signature(
        &mut self,
        content: &mut Content,
        from: Part,
        signature: u64,
        budget: &mut Budget,
    ) -> Result<Option<super::content::Place>, DebugError> {
        if let Some(found) = self.of(from).with_signature(from, signature) {
            return Ok(Some(found));
        }
        let known = self.types.get(&signature).copied();
        let part = if let Some(known) = known {
            known
        } else {
            let packed = Split::Type(signature);
            content.pay_for_look_up(budget)?;
            let part = if content.packs(&packed) {
                match self.add(content, packed, None, budget) {
                    Ok((part, _)) => Some(part),
                    Err(Refused::Here(wrong)) => return Err(wrong),
                    Err(Refused::File(_)) => None,
                }
            } else {
                None
            };
            self.types.insert(signature, part);
            part
        };
        Ok(part.and_then(|part| self.of(part).with_signature(part, signature)))
    }
}

/// Why a split file is not used.
enum Refused {
    /// Something is wrong with the program's own information, or there is too much of all.
    Here(DebugError),
    /// Something is wrong with the file.
    File(String),
}

impl From<DebugError> for Refused {
    fn from(wrong: DebugError) -> Self {
        match wrong {
            DebugError::Effort { .. } => Self::Here(wrong),
            other => Self::File(other.to_string()),
        }
    }
}

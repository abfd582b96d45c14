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
        let opened = self.open(content, files, unit, &name, budget);
        self.settle(unit, opened)
    }

    /// The same after what `body` found turned out to be malformed: if it was the package's, a file of its own may be there.
    pub(super) fn body_beside_package(
        &mut self,
        content: &mut Content,
        files: Option<&mut (dyn SplitFiles + 'static)>,
        unit: usize,
        wrong: DebugError,
        budget: &mut Budget,
    ) -> Result<Option<(Part, usize)>, DebugError> {
        let known = self.bodies.get(&unit).copied().flatten();
        let is_packed = known.is_some_and(|(part, _)| content.is_packed(part));
        let name = self.own.skeleton(unit).filter(|_| is_packed).cloned();
        let Some(name) = name else { return Err(wrong) };
        let opened = match Refused::from(wrong).of(&in_package(&name)) {
            Refused::File(why) => self.open_file(content, files, unit, &name, Some(why), budget),
            here @ Refused::Here(_) => Err(here),
        };
        self.settle(unit, opened)
    }

    /// Remembers what a skeleton stands for.
    fn settle(
        &mut self,
        unit: usize,
        opened: Result<(Part, usize), Refused>,
    ) -> Result<Option<(Part, usize)>, DebugError> {
        let found = match opened {
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

    /// From the package; where that does not have it or is damaged, from a file of its own.
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
        let shown = in_package(name);
        let opened = match content.packs(&packed) {
            Ok(true) => self.add_unit(content, packed, unit, (name.id, &shown), budget),
            Ok(false) => return self.open_file(content, files, unit, name, None, budget),
            Err(wrong) => Err(Refused::from(wrong).of(&shown)),
        };
        let Err(Refused::File(why)) = opened else {
            return opened;
        };
        self.open_file(content, files, unit, name, Some(why), budget)
    }

    /// From a file of its own; `packed` is why not from the package that has it.
    fn open_file(
        &mut self,
        content: &mut Content,
        files: Option<&mut (dyn SplitFiles + 'static)>,
        unit: usize,
        name: &SplitName,
        packed: Option<String>,
        budget: &mut Budget,
    ) -> Result<(Part, usize), Refused> {
        let shown = &name.name;
        let load = || {
            let files = files.ok_or_else(|| Refused::File(format!("{shown} is not here")))?;
            let sections = files.load(name).map_err(Refused::File)?;
            self.bytes = self.bytes.saturating_add(sections.len());
            if self.bytes > BYTES_MAX {
                let why = format!("{shown}: {BYTES_MAX} bytes of split files are read already");
                return Err(Refused::File(why));
            }
            budget.grow(sections.len());
            let file = Split::File(Box::new(sections));
            self.add_unit(content, file, unit, (name.id, shown), budget)
        };
        load().map_err(|refused| match (refused, packed) {
            (Refused::File(why), Some(packed)) => Refused::File(format!("{packed}; {why}")),
            (refused, _) => refused,
        })
    }

    /// Takes the unit with an id out of a file that is shown to people by a name.
    fn add_unit(
        &mut self,
        content: &mut Content,
        split: Split,
        skeleton: usize,
        (id, shown): (u64, &str),
        budget: &mut Budget,
    ) -> Result<(Part, usize), Refused> {
        let added = self.add(content, split, Some(skeleton), budget);
        let (part, units) = added.map_err(|refused| refused.of(shown))?;
        let found = units.with_dwo_id(id);
        let why = || format!("{shown} is of another build");
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
            let part = if content.packs(&packed) == Ok(true) {
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

/// How the package's unit is shown to people.
fn in_package(name: &SplitName) -> String {
    format!("{} in the package", name.name)
}

/// Why a split file is not used.
enum Refused {
    /// Something is wrong with the program's own information, or there is too much of all.
    Here(DebugError),
    /// Something is wrong with the file.
    File(String),
}

impl Refused {
    /// Says which file it is.
    fn of(self, shown: &str) -> Self {
        match self {
            Self::File(why) => Self::File(format!("{shown}: {why}")),
            here @ Self::Here(_) => here,
        }
    }
}

impl From<DebugError> for Refused {
    fn from(wrong: DebugError) -> Self {
        match wrong {
            DebugError::Effort { .. } => Self::Here(wrong),
            other => Self::File(other.to_string()),
        }
    }
}

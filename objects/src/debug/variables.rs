//! Where variables lie, of all units. Read when the first is asked for: nothing says which unit a variable is of.

use super::budget::Budget;
use super::content::{Content, Part, Place};
use super::split::{AllUnits, SplitFiles};
use super::{Bytes, DebugError};
use gimli::constants as dw;
use gimli::{AttributeValue, Dwarf, Operation, Unit};

/// Variables by address, ascending.
#[derive(Debug, Default)]
pub(super) struct Variables {
    placed: Vec<(u64, Place)>,
}

impl Variables {
    /// Reads all entries of all units.
    pub(super) fn read(
        content: &mut Content,
        units: &mut AllUnits,
        mut files: Option<&mut (dyn SplitFiles + 'static)>,
        budget: &mut Budget,
    ) -> Result<Self, DebugError> {
        let mut found = Self::default();
        for skeleton in 0..units.own.len() {
            let Some((part, unit)) = units.body(content, files.as_deref_mut(), skeleton, budget)?
            else {
                continue;
            };
            let before = found.placed.len();
            let Err(wrong) = found.read_unit(content, units, part, unit, budget) else {
                continue;
            };
            let files = files.as_deref_mut();
            let other = units.body_beside_package(content, files, skeleton, wrong, budget);
            let read = match other {
                Ok(Some((part, unit))) => {
                    found.placed.truncate(before);
                    found.read_unit(content, units, part, unit, budget)
                }
                other => other.map(|_| ()),
            };
            // Of what is malformed, what was found before stays; the other units are not to blame.
            if let Err(wrong @ DebugError::Effort { .. }) = read {
                return Err(wrong);
            }
        }
        found.placed.sort_unstable();
        Ok(found)
    }

    fn read_unit(
        &mut self,
        content: &Content,
        units: &mut AllUnits,
        part: Part,
        unit: usize,
        budget: &mut Budget,
    ) -> Result<(), DebugError> {
        let dwarf = content.dwarf(part)?;
        let opened = units.of(part).open(&dwarf, unit, budget)?.unit;
        let mut entries = opened.header.entries_raw(&opened.abbreviations, None)?;
        while !entries.is_empty() {
            let entry = entries.next_offset().0;
            budget.pay(2)?;
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            budget.pay(abbreviation.attributes().len())?;
            let attributes = abbreviation.attributes();
            let is_placed = abbreviation.tag() == dw::DW_TAG_variable
                && attributes
                    .iter()
                    .any(|attribute| attribute.name() == dw::DW_AT_location);
            if !is_placed {
                entries.skip_attributes(attributes)?;
                continue;
            }
            let mut location = None;
            for specification in attributes {
                let attribute = entries.read_attribute(*specification)?;
                if attribute.name() == dw::DW_AT_location {
                    location = location_of(&dwarf, &opened, &attribute.value());
                }
            }
            let place = Place { part, unit, entry };
            budget.pay(8)?;
            // What the linker left out lies at 0.
            if let Some(at) = location.filter(|at| *at != 0) {
                self.placed.push((at, place));
            }
        }
        Ok(())
    }

    /// The variable that starts last at or before an address.
    pub(super) fn before(&self, address: u64) -> Option<(u64, Place)> {
        let behind = self.placed.partition_point(|(start, _)| *start <= address);
        self.placed.get(behind.checked_sub(1)?).copied()
    }
}

/// The address a variable has. Expressions for what moves are of no use here: that are variables on the stack and of threads.
fn location_of(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    value: &AttributeValue<Bytes<'_>>,
) -> Option<u64> {
    let mut operations = value.exprloc_value()?.operations(unit.encoding());
    let first = operations.next().ok()??;
    let second = operations.next().ok()?;
    let address = |index| dwarf.address(unit, index).ok();
    let found = match (first, second) {
        (Operation::Address { address }, None) => address,
        (Operation::AddressIndex { index }, None) => address(index)?,
        (Operation::Address { address }, Some(Operation::PlusConstant { value })) => {
            address.checked_add(value)?
        }
        (Operation::AddressIndex { index }, Some(Operation::PlusConstant { value })) => {
            address(index)?.checked_add(value)?
        }
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(found)
}

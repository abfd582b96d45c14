//! Names of functions, which entries often have of other entries, of other units, even of other files.

use super::budget::Budget;
use super::content::{Content, Part, Place};
use super::split::AllUnits;
use super::units::Units;
use super::{Bytes, DebugError};
use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use std::sync::Arc;

/// References followed for one name; real ones take three.
const HOPS_MAX: usize = 16;

/// Longest name kept, in bytes.
const NAME_MAX: usize = 64 << 10;

/// Name of the function or variable whose entry is here: as linked, else as written.
pub(super) fn of(
    content: &Content,
    units: &mut AllUnits,
    mut place: Place,
    budget: &mut Budget,
) -> Result<Option<Arc<str>>, DebugError> {
    let mut written = None;
    for _ in 0..HOPS_MAX {
        let (linked, name, next) = look(content, units, place, budget)?;
        if linked.is_some() {
            return Ok(linked);
        }
        written = written.or(name);
        match next {
            Some(next) => place = next,
            None => break,
        }
    }
    Ok(written)
}

type Found = (Option<Arc<str>>, Option<Arc<str>>, Option<Place>);

/// What one entry says: linked name, written name, which entry says more.
fn look(
    content: &Content,
    units: &mut AllUnits,
    place: Place,
    budget: &mut Budget,
) -> Result<Found, DebugError> {
    if place.part == Part::Shared && content.shared.is_none() {
        return Ok((None, None, None));
    }
    let dwarf = &content.dwarf(place.part)?;
    let unit = units.of(place.part).open(dwarf, place.unit, budget)?.unit;
    let offset = UnitOffset(place.entry);
    let mut entries = unit.header.entries_raw(&unit.abbreviations, Some(offset))?;
    let (mut linked, mut written, mut next) = (None, None, None);
    let Some(abbreviation) = entries.read_abbreviation()? else {
        return Ok((None, None, None));
    };
    budget.pay(64 + 4 * abbreviation.attributes().len())?;
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        match attribute.name() {
            dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                linked = Some(attribute.value());
            }
            dw::DW_AT_name => written = Some(attribute.value()),
            dw::DW_AT_abstract_origin | dw::DW_AT_specification => next = Some(attribute.value()),
            _ => {}
        }
    }
    let mut text = |value: Option<AttributeValue<Bytes<'_>>>| -> Result<_, DebugError> {
        let Some(text) = value.and_then(|value| dwarf.attr_string(&unit, value).ok()) else {
            return Ok(None);
        };
        budget.pay(text.len())?;
        let text = text.slice();
        let text = String::from_utf8_lossy(text.get(..NAME_MAX).unwrap_or(text));
        Ok((!text.is_empty()).then(|| Arc::from(&*text)))
    };
    let (linked, written) = (text(linked)?, text(written)?);
    let next = next.and_then(|next| referred(units, place, next));
    Ok((linked, written, next))
}

/// The entry that an attribute of an entry refers to; not by signature.
pub(super) fn referred(
    units: &mut AllUnits,
    from: Place,
    to: AttributeValue<Bytes<'_>>,
) -> Option<Place> {
    let find = |units: &Units, part, at: DebugInfoOffset<usize>| {
        let (unit, entry) = units.holding(at)?;
        Some(Place { part, unit, entry })
    };
    match to {
        AttributeValue::UnitRef(UnitOffset(entry)) => Some(Place { entry, ..from }),
        AttributeValue::DebugInfoRef(at) => find(units.of(from.part), from.part, at),
        AttributeValue::DebugInfoRefSup(at) => find(&units.shared, Part::Shared, at),
        _ => None,
    }
}

//! Names of functions, which entries often have of other entries, of other units, even of other files.

use super::budget::Budget;
use super::units::Units;
use super::{Bytes, DebugError};
use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, Dwarf, UnitOffset};
use std::sync::Arc;

/// References followed for one name; real ones take three.
const HOPS_MAX: usize = 16;

/// Longest name kept, in bytes.
const NAME_MAX: usize = 64 << 10;

/// Units of a file and of what it shares with others.
pub(super) struct Files<'u> {
    pub(super) own: &'u mut Units,
    pub(super) shared: &'u mut Units,
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct Place {
    shared: bool,
    unit: usize,
    entry: usize,
}

/// Name of the function whose entry lies at an offset in a unit: as linked, else as written.
pub(super) fn of(
    dwarf: &Dwarf<Bytes<'_>>,
    files: &mut Files<'_>,
    unit: usize,
    entry: usize,
    budget: &mut Budget,
) -> Result<Option<Arc<str>>, DebugError> {
    let mut place = Place {
        shared: false,
        unit,
        entry,
    };
    let mut written = None;
    for _ in 0..HOPS_MAX {
        let (linked, name, next) = look(dwarf, files, place, budget)?;
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
    dwarf: &Dwarf<Bytes<'_>>,
    files: &mut Files<'_>,
    place: Place,
    budget: &mut Budget,
) -> Result<Found, DebugError> {
    let (dwarf, units) = match (place.shared, dwarf.sup()) {
        (false, _) => (dwarf, &mut *files.own),
        (true, Some(shared)) => (shared, &mut *files.shared),
        (true, None) => return Ok((None, None, None)),
    };
    let unit = units.open(dwarf, place.unit, budget)?.unit;
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
    let next = match next {
        Some(AttributeValue::UnitRef(UnitOffset(entry))) => Some(Place { entry, ..place }),
        Some(AttributeValue::DebugInfoRef(at)) => find(units, at, place.shared),
        Some(AttributeValue::DebugInfoRefSup(at)) => find(files.shared, at, true),
        _ => None,
    };
    Ok((linked, written, next))
}

fn find(units: &Units, at: DebugInfoOffset<usize>, shared: bool) -> Option<Place> {
    let (unit, entry) = units.holding(at)?;
    Some(Place {
        shared,
        unit,
        entry,
    })
}

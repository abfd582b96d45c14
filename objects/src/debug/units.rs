//! The units of a file: which addresses belong to which, and how one is opened.

use super::budget::Budget;
use super::content::{Part, Place};
use super::error::malformed;
use super::split::SplitName;
use super::{Bytes, DebugError};
use crate::{Flags, Index, Source, Symbol, SymbolsBuilder};
use gimli::constants as dw;
use gimli::{
    Abbreviations, AttributeValue, DebugAbbrevOffset, DebugAddrBase, DebugInfoOffset,
    DebugLineOffset, DebugLocListsBase, DebugRngListsBase, DebugStrOffsetsBase, DebugTypes, Dwarf,
    DwarfFileType, DwoId, Reader as _, Section as _, Unit, UnitHeader, UnitType,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Steps' worth of abbreviations kept; above, all are dropped and read again.
const ABBREVIATIONS_MAX: usize = 64 << 20;

/// Longest path of a split file, in bytes.
const PATH_MAX: usize = 4096;

/// All units of a file.
#[derive(Debug, Default)]
pub(super) struct Units {
    /// Where they start in `.debug_info`, ascending; then where those of `.debug_types` do.
    starts: Vec<usize>,
    /// How many of them are in `.debug_info`.
    in_info: usize,
    /// What the units of a split file have of their skeleton.
    inherited: Option<Inherited>,
    /// Units whose information is in a split file.
    skeletons: BTreeMap<usize, SplitName>,
    /// Ids of the units of a split file.
    dwo_ids: BTreeMap<u64, usize>,
    /// Units of types by signature, each with the offset of the type's entry.
    signatures: BTreeMap<u64, (usize, usize)>,
    /// Ranges of addresses, cut so that they do not overlap; the unit of each.
    index: Index,
    owners: Vec<u32>,
    abbreviations: BTreeMap<usize, Arc<Abbreviations>>,
    abbreviations_bytes: usize,
}

/// A unit with what its root says, its line table apart.
pub(super) struct Opened<'a> {
    pub(super) unit: Unit<Bytes<'a>>,
    pub(super) lines: Option<DebugLineOffset<usize>>,
}

/// What a split unit has of its skeleton.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inherited {
    low: u64,
    addresses: DebugAddrBase<usize>,
    ranges: DebugRngListsBase<usize>,
}

impl From<&Unit<Bytes<'_>>> for Inherited {
    fn from(skeleton: &Unit<Bytes<'_>>) -> Self {
        Self {
            low: skeleton.low_pc,
            addresses: skeleton.addr_base,
            ranges: skeleton.rnglists_base,
        }
    }
}

/// Attributes of a root that can only be read when all are known.
#[derive(Default)]
struct Root<'a> {
    low: Option<AttributeValue<Bytes<'a>>>,
    high: Option<AttributeValue<Bytes<'a>>>,
    ranges: Option<AttributeValue<Bytes<'a>>>,
    name: Option<AttributeValue<Bytes<'a>>>,
    folder: Option<AttributeValue<Bytes<'a>>>,
    split: Option<AttributeValue<Bytes<'a>>>,
    split_id: Option<u64>,
}

impl Units {
    /// Reads the roots of all units. What is malformed ends the search; what was found before is kept. `inherited` is for units
    /// of a split file.
    pub(super) fn find(
        dwarf: &Dwarf<Bytes<'_>>,
        inherited: Option<Inherited>,
        budget: &mut Budget,
    ) -> Result<Self, DebugError> {
        let mut units = Self {
            inherited,
            ..Self::default()
        };
        let mut ranges = Vec::new();
        let mut headers = dwarf.units();
        loop {
            budget.pay(16)?;
            let header = match headers.next() {
                Ok(Some(header)) => header,
                Err(wrong) if units.starts.is_empty() => return Err(wrong.into()),
                Ok(None) | Err(_) => break,
            };
            let Some(DebugInfoOffset(start)) = header.debug_info_offset() else {
                continue;
            };
            let at = units.starts.len();
            units.starts.push(start);
            let found = units
                .look(dwarf, header, at, budget)
                .and_then(|opened| match opened {
                    Some((unit, root)) => unit_ranges(dwarf, &unit.unit, &root, budget),
                    None => Ok(Vec::new()),
                });
            let owner = u32::try_from(at).unwrap_or(u32::MAX);
            match found {
                Ok(found) => ranges.extend(found.into_iter().map(|(low, high)| (low, high, owner))),
                Err(wrong @ DebugError::Effort { .. }) => return Err(wrong),
                Err(_) => {} // the other units are not to blame
            }
        }
        units.in_info = units.starts.len();
        let mut headers = dwarf.type_units();
        while let Ok(Some(header)) = headers.next() {
            budget.pay(16)?;
            let at = units.starts.len();
            units.starts.push(header.offset().0);
            units.note_type(header.type_(), at);
        }
        (units.index, units.owners) = index(ranges);
        Ok(units)
    }

    /// Takes note of what a unit is; opens it unless it is a type.
    fn look<'a>(
        &mut self,
        dwarf: &Dwarf<Bytes<'a>>,
        header: UnitHeader<Bytes<'a>>,
        at: usize,
        budget: &mut Budget,
    ) -> Result<Option<(Opened<'a>, Root<'a>)>, DebugError> {
        if self.note_type(header.type_(), at) {
            return Ok(None);
        }
        let (opened, root) = self.open_header(dwarf, header, budget)?;
        let id = match header.type_() {
            UnitType::Skeleton(DwoId(id)) | UnitType::SplitCompilation(DwoId(id)) => Some(id),
            _ => root.split_id,
        };
        let Some(id) = id else {
            return Ok(Some((opened, root)));
        };
        if dwarf.file_type == DwarfFileType::Dwo {
            self.dwo_ids.insert(id, at);
            return Ok(None);
        }
        let text = |text: Bytes<'_>| {
            let text = text.slice();
            String::from_utf8_lossy(text.get(..PATH_MAX).unwrap_or(text)).into_owned()
        };
        let name = root.split;
        let name = name.and_then(|name| dwarf.attr_string(&opened.unit, name).ok());
        if let Some(name) = name {
            let name = SplitName {
                id,
                name: text(name),
                folder: opened.unit.comp_dir.map(text),
            };
            budget.pay(64 + name.name.len() + name.folder.as_ref().map_or(0, String::len))?;
            self.skeletons.insert(at, name);
        }
        Ok(Some((opened, root)))
    }

    fn note_type(&mut self, kind: UnitType<usize>, at: usize) -> bool {
        let (UnitType::Type {
            type_signature,
            type_offset,
        }
        | UnitType::SplitType {
            type_signature,
            type_offset,
        }) = kind
        else {
            return false;
        };
        let place = (at, type_offset.0);
        self.signatures.entry(type_signature.0).or_insert(place);
        true
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The split file that a unit's information is in, if it is in one.
    pub(super) fn skeleton(&self, unit: usize) -> Option<&SplitName> {
        self.skeletons.get(&unit)
    }

    /// The unit of a split file that has an id.
    pub(super) fn with_dwo_id(&self, id: u64) -> Option<usize> {
        self.dwo_ids.get(&id).copied()
    }

    /// The entry of a type.
    pub(super) fn with_signature(&self, part: Part, signature: u64) -> Option<Place> {
        let (unit, entry) = *self.signatures.get(&signature)?;
        Some(Place { part, unit, entry })
    }

    /// The unit that holds an address.
    pub(super) fn at(&self, address: u64) -> Option<usize> {
        let range = self.index.lookup(address)?;
        self.owners.get(range.index()).map(|unit| *unit as usize)
    }

    /// The unit that holds a place in `.debug_info`, and the place's offset in it.
    pub(super) fn holding(&self, place: DebugInfoOffset<usize>) -> Option<(usize, usize)> {
        let starts = self.starts.get(..self.in_info).unwrap_or_default();
        let behind = starts.partition_point(|start| *start <= place.0);
        let unit = behind.checked_sub(1)?;
        Some((unit, place.0 - self.starts.get(unit)?))
    }

    /// Opens a unit.
    pub(super) fn open<'a>(
        &mut self,
        dwarf: &Dwarf<Bytes<'a>>,
        unit: usize,
        budget: &mut Budget,
    ) -> Result<Opened<'a>, DebugError> {
        let start = self.starts.get(unit).copied();
        let start = start.ok_or_else(|| malformed("a unit that does not exist"))?;
        let header = if unit < self.in_info {
            let place = DebugInfoOffset(start);
            dwarf.debug_info.header_from_offset(place)?
        } else {
            let mut rest = *dwarf.debug_types.reader();
            rest.skip(start)?;
            let header = DebugTypes::from(rest).units().next()?;
            header.ok_or_else(|| malformed("a unit that does not exist"))?
        };
        Ok(self.open_header(dwarf, header, budget)?.0)
    }

    fn open_header<'a>(
        &mut self,
        dwarf: &Dwarf<Bytes<'a>>,
        header: UnitHeader<Bytes<'a>>,
        budget: &mut Budget,
    ) -> Result<(Opened<'a>, Root<'a>), DebugError> {
        let abbreviations = self.abbreviations(dwarf, header.debug_abbrev_offset(), budget)?;
        let (encoding, kind) = (header.encoding(), dwarf.file_type);
        let mut unit = Unit {
            abbreviations: Arc::clone(&abbreviations),
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
            addr_base: DebugAddrBase(0),
            loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
            rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
            line_program: None,
            dwo_id: None,
            header,
        };
        if let Some(inherited) = &self.inherited {
            (unit.low_pc, unit.addr_base) = (inherited.low, inherited.addresses);
            if encoding.version < 5 {
                unit.rnglists_base = inherited.ranges;
            }
        }
        let (mut root, mut lines) = (Root::default(), None);
        let mut entries = header.entries_raw(&abbreviations, None)?;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Err(malformed("a unit without an entry"));
        };
        for specification in abbreviation.attributes() {
            budget.pay(4)?;
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match (attribute.name(), value) {
                (dw::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => lines = Some(at),
                (dw::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    unit.str_offsets_base = base;
                }
                (
                    dw::DW_AT_addr_base | dw::DW_AT_GNU_addr_base,
                    AttributeValue::DebugAddrBase(base),
                ) => unit.addr_base = base,
                (
                    dw::DW_AT_rnglists_base | dw::DW_AT_GNU_ranges_base,
                    AttributeValue::DebugRngListsBase(base),
                ) => unit.rnglists_base = base,
                (dw::DW_AT_low_pc, value) => root.low = Some(value),
                (dw::DW_AT_high_pc, value) => root.high = Some(value),
                (dw::DW_AT_ranges, value) => root.ranges = Some(value),
                (dw::DW_AT_name, value) => root.name = Some(value),
                (dw::DW_AT_comp_dir, value) => root.folder = Some(value),
                (dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_name, value) => root.split = Some(value),
                (dw::DW_AT_GNU_dwo_id, AttributeValue::DwoId(DwoId(id))) => {
                    root.split_id = Some(id);
                }
                _ => {}
            }
        }
        let mut text = |value: Option<AttributeValue<Bytes<'a>>>| {
            let text = value.and_then(|value| dwarf.attr_string(&unit, value).ok());
            budget.pay(text.map_or(0, |text| text.len())).map(|()| text)
        };
        (unit.name, unit.comp_dir) = (text(root.name)?, text(root.folder)?);
        if let Some(low) = root.low {
            unit.low_pc = dwarf.attr_address(&unit, low)?.unwrap_or(0);
        }
        Ok((Opened { unit, lines }, root))
    }

    /// The abbreviations at an offset.
    fn abbreviations(
        &mut self,
        dwarf: &Dwarf<Bytes<'_>>,
        at: DebugAbbrevOffset<usize>,
        budget: &mut Budget,
    ) -> Result<Arc<Abbreviations>, DebugError> {
        if let Some(known) = self.abbreviations.get(&at.0) {
            return Ok(Arc::clone(known));
        }
        let len = abbreviations_len(dwarf, at, budget)?;
        if self.abbreviations_bytes > ABBREVIATIONS_MAX {
            self.abbreviations.clear();
            self.abbreviations_bytes = 0;
        }
        let read = Arc::new(dwarf.debug_abbrev.abbreviations(at)?);
        self.abbreviations_bytes += len;
        self.abbreviations.insert(at.0, Arc::clone(&read));
        Ok(read)
    }
}

/// Bytes of a table of abbreviations. They are paid for before the table is read: many units may name one, each another part.
fn abbreviations_len(
    dwarf: &Dwarf<Bytes<'_>>,
    at: DebugAbbrevOffset<usize>,
    budget: &mut Budget,
) -> Result<usize, DebugError> {
    let mut rest = *dwarf.debug_abbrev.reader();
    rest.skip(at.0)?;
    let whole = rest.len();
    while rest.read_uleb128()? != 0 {
        let before = rest.len();
        rest.read_uleb128()?;
        rest.read_u8()?;
        loop {
            let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(dw::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
        // A table keeps some hundred bytes for an abbreviation of four.
        budget.pay(32 + 4 * (before - rest.len()))?;
    }
    Ok(whole - rest.len())
}

/// The addresses a unit's root claims.
fn unit_ranges(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    root: &Root<'_>,
    budget: &mut Budget,
) -> Result<Vec<(u64, u64)>, DebugError> {
    let mut ranges = Ranges::default();
    ranges.add(dwarf, unit, root.low, root.high, root.ranges, budget)?;
    Ok(ranges.found)
}

/// Ranges of addresses as entries give them: one from low to high, or a list.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    pub(super) found: Vec<(u64, u64)>,
}

impl Ranges {
    /// Adds those of an entry with these attributes. Ranges that start at 0 are of code that the linker left out.
    pub(super) fn add<'a>(
        &mut self,
        dwarf: &Dwarf<Bytes<'a>>,
        unit: &Unit<Bytes<'a>>,
        low: Option<AttributeValue<Bytes<'a>>>,
        high: Option<AttributeValue<Bytes<'a>>>,
        list: Option<AttributeValue<Bytes<'a>>>,
        budget: &mut Budget,
    ) -> Result<(), DebugError> {
        if let Some(list) = list
            && let Some(mut list) = dwarf.attr_ranges(unit, list)?
        {
            loop {
                budget.pay(8)?;
                let Some(range) = list.next()? else { break };
                self.push(range.begin, range.end);
            }
            return Ok(());
        }
        let low = low.map(|low| dwarf.attr_address(unit, low));
        let (Some(low), Some(high)) = (low.transpose()?.flatten(), high) else {
            return Ok(());
        };
        let end = match high.udata_value() {
            Some(size) => low.saturating_add(size),
            None => dwarf.attr_address(unit, high)?.unwrap_or(low),
        };
        self.push(low, end);
        Ok(())
    }

    fn push(&mut self, start: u64, end: u64) {
        if start > 0 && start < end {
            self.found.push((start, end));
        }
    }
}

/// Ranges with owners, ready for lookups: where they overlap the one that starts last holds, then the one given last.
pub(super) fn index(mut ranges: Vec<(u64, u64, u32)>) -> (Index, Vec<u32>) {
    ranges.sort_by_key(|(start, ..)| *start);
    let mut builder = SymbolsBuilder::with_capacity(ranges.len());
    let mut owners = Vec::with_capacity(ranges.len());
    for (start, end, owner) in ranges {
        let pushed = builder.push(Symbol {
            start,
            size: end - start,
            name: "",
            source: Source::None,
            flags: Flags::NONE,
        });
        if pushed {
            owners.push(owner);
        }
    }
    (Index::build(&builder.finish()), owners)
}

//! What types are made of. Each is read once and paid for; looking into one afterwards costs next to nothing.

use super::budget::Budget;
use super::content::{Content, Place};
use super::names::referred;
use super::split::AllUnits;
use super::{Bytes, DebugError};
use gimli::constants as dw;
use gimli::{AttributeValue, Dwarf, EntriesRaw, Operation, Unit, UnitOffset};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest name of a member kept, in bytes.
const NAME_MAX: usize = 1 << 10;

/// What a type is made of.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// A number, a pointer, a function: nothing to look into.
    Leaf,
    /// Another name of a type, or the type with a qualifier.
    Alias(Place),
    /// `[a][b]` of elements; lengths that are not known are `None`. The stride is given where it is not the element's size.
    Array {
        element: Place,
        lengths: Arc<[Option<u64>]>,
        stride: Option<u64>,
    },
    /// Members, ascending by their starts.
    Record(Arc<[Member]>),
}

/// A type.
#[derive(Debug, Clone)]
pub(super) struct Type {
    /// Bytes, where the type itself says so.
    pub(super) size: Option<u64>,
    pub(super) shape: Shape,
}

/// A member of a record, or a base of a class.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Bytes from the record's start.
    pub(super) start: u64,
    /// Bytes, where the member itself says so: bit fields.
    pub(super) bits: Option<Bits>,
    /// `None`: its own members are the record's.
    pub(super) name: Option<Arc<str>>,
    pub(super) kind: Option<Place>,
}

/// A member that shares its bytes with others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    /// From the record's start.
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Types by their entry.
#[derive(Debug, Default)]
pub(super) struct Types {
    known: BTreeMap<Place, Result<Type, DebugError>>,
    /// Types of variables.
    of_variables: BTreeMap<Place, Option<Place>>,
}

/// Everything that is needed to read one.
pub(super) struct Source<'a> {
    pub(super) content: &'a mut Content,
    pub(super) units: &'a mut AllUnits,
    pub(super) budget: &'a mut Budget,
}

/// Attributes of an entry that matter here.
#[derive(Default)]
struct Attributes<'a> {
    name: Option<AttributeValue<Bytes<'a>>>,
    kind: Option<AttributeValue<Bytes<'a>>>,
    same: Option<AttributeValue<Bytes<'a>>>,
    size: Option<u64>,
    stride: Option<u64>,
    location: Option<AttributeValue<Bytes<'a>>>,
    data_bit_offset: Option<u64>,
    bit_offset: Option<u64>,
    bit_size: Option<u64>,
    count: Option<u64>,
    lower: Option<u64>,
    upper: Option<i64>,
    is_declaration: bool,
}

impl<'a> Attributes<'a> {
    fn read(
        entries: &mut EntriesRaw<'_, Bytes<'a>>,
        specifications: &[gimli::AttributeSpecification],
        budget: &mut Budget,
    ) -> Result<Self, DebugError> {
        budget.pay(4 * specifications.len())?;
        let mut found = Self::default();
        for specification in specifications {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                dw::DW_AT_name => found.name = Some(value),
                dw::DW_AT_type => found.kind = Some(value),
                dw::DW_AT_specification | dw::DW_AT_abstract_origin | dw::DW_AT_signature => {
                    found.same = Some(value);
                }
                dw::DW_AT_byte_size => found.size = value.udata_value(),
                dw::DW_AT_byte_stride => found.stride = value.udata_value(),
                dw::DW_AT_data_member_location => found.location = Some(value),
                dw::DW_AT_data_bit_offset => found.data_bit_offset = value.udata_value(),
                dw::DW_AT_bit_offset => found.bit_offset = value.udata_value(),
                dw::DW_AT_bit_size => found.bit_size = value.udata_value(),
                dw::DW_AT_count => found.count = value.udata_value(),
                dw::DW_AT_lower_bound => found.lower = value.udata_value(),
                dw::DW_AT_upper_bound => found.upper = value.sdata_value(),
                dw::DW_AT_declaration => found.is_declaration = true,
                _ => {}
            }
        }
        Ok(found)
    }
}

impl Types {
    /// The type of a variable, which its entry may have of another one.
    pub(super) fn of_variable(
        &mut self,
        source: &mut Source<'_>,
        variable: Place,
    ) -> Result<Option<Place>, DebugError> {
        const HOPS_MAX: usize = 8;
        if let Some(known) = self.of_variables.get(&variable) {
            return Ok(*known);
        }
        let (mut place, mut found) = (variable, None);
        for _ in 0..HOPS_MAX {
            let (kind, same) = references(source, place)?;
            found = kind;
            match same {
                Some(same) if found.is_none() => place = same,
                _ => break,
            }
        }
        source.budget.pay(8)?;
        self.of_variables.insert(variable, found);
        Ok(found)
    }

    /// A type.
    pub(super) fn get(
        &mut self,
        source: &mut Source<'_>,
        place: Place,
    ) -> Result<Type, DebugError> {
        if let Some(known) = self.known.get(&place) {
            return known.clone();
        }
        source.budget.pay(16)?;
        let read = read(source, place);
        self.known.insert(place, read.clone());
        read
    }
}

/// Type and origin of an entry.
fn references(
    source: &mut Source<'_>,
    place: Place,
) -> Result<(Option<Place>, Option<Place>), DebugError> {
    let (kind, same);
    {
        let dwarf = source.content.dwarf(place.part)?;
        let units = source.units.of(place.part);
        let unit = units.open(&dwarf, place.unit, source.budget)?.unit;
        let from = Some(UnitOffset(place.entry));
        let mut entries = unit.header.entries_raw(&unit.abbreviations, from)?;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Ok((None, None));
        };
        let specifications = abbreviation.attributes();
        let found = Attributes::read(&mut entries, specifications, source.budget)?;
        kind = Reference::of(source.units, place, found.kind);
        same = Reference::of(source.units, place, found.same);
    }
    Ok((kind.follow(source, place)?, same.follow(source, place)?))
}

/// What an attribute refers to. Signatures are looked up when nothing of the file is borrowed.
#[derive(Debug, Clone, Copy)]
enum Reference {
    Nothing,
    Known(Place),
    Signed(u64),
}

impl Reference {
    fn of(units: &mut AllUnits, from: Place, to: Option<AttributeValue<Bytes<'_>>>) -> Self {
        match to {
            Some(AttributeValue::DebugTypesRef(signature)) => Self::Signed(signature.0),
            Some(to) => referred(units, from, to).map_or(Self::Nothing, Self::Known),
            None => Self::Nothing,
        }
    }

    fn follow(self, source: &mut Source<'_>, from: Place) -> Result<Option<Place>, DebugError> {
        match self {
            Self::Nothing => Ok(None),
            Self::Known(place) => Ok(Some(place)),
            Self::Signed(signature) => {
                source
                    .units
                    .with_signature(source.content, from.part, signature, source.budget)
            }
        }
    }
}

/// A member whose type is not looked up yet.
struct Draft {
    member: Member,
    kind: Reference,
}

fn read(source: &mut Source<'_>, place: Place) -> Result<Type, DebugError> {
    let mut drafts = Vec::new();
    let mut lengths = Vec::new();
    let (tag, own, kind, same);
    {
        let (content, units) = (&*source.content, &mut *source.units);
        let budget = &mut *source.budget;
        let dwarf = content.dwarf(place.part)?;
        let unit = units.of(place.part).open(&dwarf, place.unit, budget)?.unit;
        let from = Some(UnitOffset(place.entry));
        let mut entries = unit.header.entries_raw(&unit.abbreviations, from)?;
        let leaf = Type {
            size: None,
            shape: Shape::Leaf,
        };
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Ok(leaf);
        };
        tag = abbreviation.tag();
        let specifications = abbreviation.attributes();
        let found = Attributes::read(&mut entries, specifications, budget)?;
        own = (found.size, found.stride, found.is_declaration);
        kind = Reference::of(units, place, found.kind);
        same = Reference::of(units, place, found.same);
        let is_record = is_record(tag);
        if abbreviation.has_children() && (is_record || tag == dw::DW_TAG_array_type) {
            // Tags of the entries that the current one lies in, below the type.
            let mut open: Vec<dw::DwTag> = Vec::new();
            let top = entries.next_depth();
            while !entries.is_empty() {
                let depth = entries.next_depth();
                if depth < top {
                    break;
                }
                budget.pay(2)?;
                let Some(abbreviation) = entries.read_abbreviation()? else {
                    continue;
                };
                let below = usize::try_from(depth - top).unwrap_or(0);
                open.truncate(below);
                let tag = abbreviation.tag();
                let of_variant = matches!(
                    open.as_slice(),
                    [dw::DW_TAG_variant_part] | [dw::DW_TAG_variant_part, dw::DW_TAG_variant]
                );
                let is_ours = below == 0 || of_variant;
                // Beyond that nothing is of interest, however deep it is.
                if open.len() < 3 {
                    open.push(tag);
                }
                let specifications = abbreviation.attributes();
                match tag {
                    dw::DW_TAG_member | dw::DW_TAG_inheritance if is_record && is_ours => {
                        let found = Attributes::read(&mut entries, specifications, budget)?;
                        let draft = member((units, budget), (&dwarf, &unit), place, tag, &found)?;
                        drafts.extend(draft);
                    }
                    dw::DW_TAG_subrange_type if !is_record && below == 0 => {
                        let found = Attributes::read(&mut entries, specifications, budget)?;
                        budget.pay(8)?;
                        lengths.push(length(&found));
                    }
                    _ => {
                        budget.pay(specifications.len())?;
                        entries.skip_attributes(specifications)?;
                    }
                }
            }
        }
    }
    let (size, stride, is_declaration) = own;
    let (own_kind, same) = (kind.follow(source, place)?, same.follow(source, place)?);
    let shape = match tag {
        dw::DW_TAG_typedef
        | dw::DW_TAG_const_type
        | dw::DW_TAG_volatile_type
        | dw::DW_TAG_restrict_type
        | dw::DW_TAG_atomic_type
        | dw::DW_TAG_packed_type
        | dw::DW_TAG_immutable_type => own_kind.map_or(Shape::Leaf, Shape::Alias),
        dw::DW_TAG_array_type => match own_kind {
            Some(element) => Shape::Array {
                element,
                lengths: lengths.into(),
                stride,
            },
            None => Shape::Leaf,
        },
        tag if is_record(tag) => match same {
            Some(same) if is_declaration || drafts.is_empty() => Shape::Alias(same),
            _ => Shape::Record(members(source, place, drafts)?),
        },
        _ => Shape::Leaf,
    };
    Ok(Type { size, shape })
}

fn is_record(tag: dw::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type
    )
}

fn members(
    source: &mut Source<'_>,
    place: Place,
    drafts: Vec<Draft>,
) -> Result<Arc<[Member]>, DebugError> {
    let mut members = Vec::with_capacity(drafts.len());
    for Draft { member, kind } in drafts {
        let kind = kind.follow(source, place)?;
        members.push(Member { kind, ..member });
    }
    members.sort_by_key(|member| member.start);
    Ok(members.into())
}

fn length(found: &Attributes<'_>) -> Option<u64> {
    let lower = found.lower.unwrap_or(0);
    let behind = |upper: i64| u64::try_from(upper.checked_add(1)?).ok();
    let by_bounds = || behind(found.upper?)?.checked_sub(lower);
    found.count.or_else(by_bounds)
}

/// A member; `None` where its place is not fixed (virtual bases), or where it has none (static ones).
fn member(
    (units, budget): (&mut AllUnits, &mut Budget),
    (dwarf, unit): (&Dwarf<Bytes<'_>>, &Unit<Bytes<'_>>),
    place: Place,
    tag: dw::DwTag,
    found: &Attributes<'_>,
) -> Result<Option<Draft>, DebugError> {
    if found.is_declaration {
        return Ok(None);
    }
    let start = match &found.location {
        None => Some(0),
        Some(value) => match (value.udata_value(), value.exprloc_value()) {
            (Some(start), _) => Some(start),
            (None, Some(expression)) => {
                let mut operations = expression.operations(unit.encoding());
                match (operations.next(), operations.next()) {
                    (Ok(Some(Operation::PlusConstant { value })), Ok(None)) => Some(value),
                    _ => None,
                }
            }
            _ => None,
        },
    };
    let Some(start) = start else {
        return Ok(None);
    };
    let bits = found.bit_size.and_then(|count| {
        let first = match (found.data_bit_offset, found.bit_offset) {
            (Some(first), _) => first,
            // Counted from the top of the storage unit.
            (None, Some(from_top)) => {
                let unit_bits = found.size.unwrap_or(4).checked_mul(8)?;
                let low = unit_bits.checked_sub(from_top)?.checked_sub(count)?;
                start.checked_mul(8)?.checked_add(low)?
            }
            (None, None) => start.checked_mul(8)?,
        };
        Some(Bits { first, count })
    });
    let start = bits.map_or(start, |bits| bits.first / 8);
    let name = found.name.filter(|_| tag == dw::DW_TAG_member);
    let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
    let name = name.map(|name| {
        let name = name.slice();
        let text = String::from_utf8_lossy(name.get(..NAME_MAX).unwrap_or(name)).into_owned();
        Arc::<str>::from(text)
    });
    budget.pay(16 + name.as_ref().map_or(0, |name| name.len()))?;
    Ok(Some(Draft {
        member: Member {
            start,
            bits,
            name,
            kind: None,
        },
        kind: Reference::of(units, place, found.kind),
    }))
}

//! From places to the ids of rows, with the definitions those need.

use super::sent::{Definitions, Sent, What};
use super::state::{detail, symbols_of};
use crate::identity::Identity;
use crate::machine::{Machine, Place};
use crate::symbols::{Object, ObjectIx, TableState, What as ObjectKind};
use memwide_model::{DataId, FunctionId, LocationId, MappingId, Region, StackId};
use memwide_objects::{Source, SymbolRef};
use memwide_proto::v1;
use rustc_hash::{FxHashMap, FxHashSet};

/// Slots of the cache of location ids; a power of two.
const LOCATION_SLOTS: usize = 1 << 12;

/// Most data ids cached.
const DATA_MAX: usize = 1 << 18;

/// A function and a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CodeIds {
    pub(crate) function: FunctionId,
    pub(crate) location: LocationId,
    /// The table is not here yet.
    pub(crate) waits: bool,
    /// The function has a name.
    pub(crate) named: bool,
}

type DataKey = (ObjectIx, Option<SymbolRef>, bool, Region);

/// Caches of ids and the definitions of the batch at hand.
#[derive(Debug)]
pub(crate) struct Namer {
    locations: Vec<(Option<ObjectIx>, u64, LocationId)>,
    data: FxHashMap<DataKey, DataId>,
    stack: Vec<LocationId>,
    unknown: MappingId,
    /// Mappings whose places went into the batch at hand while their table had not come.
    pub(crate) waited: FxHashSet<MappingId>,
    pub(crate) definitions: Definitions,
}

impl Default for Namer {
    fn default() -> Self {
        Self {
            locations: vec![(None, 0, LocationId(0)); LOCATION_SLOTS],
            data: FxHashMap::default(),
            stack: Vec::new(),
            unknown: Identity::unknown().mapping_id(),
            waited: FxHashSet::default(),
            definitions: Definitions::default(),
        }
    }
}

impl Namer {
    /// Names may have changed: a table came or went.
    pub(crate) fn forget(&mut self) {
        self.data.clear();
        self.locations.fill((None, 0, LocationId(0)));
    }

    fn location(
        &mut self,
        object: Option<ObjectIx>,
        mapping: MappingId,
        address: u64,
        is_offset: bool,
    ) -> LocationId {
        let id = |address| {
            if is_offset {
                LocationId::of_offset(mapping, address)
            } else {
                LocationId::new(mapping, address)
            }
        };
        let mixed = (address ^ (object.map_or(0, ObjectIx::index) as u64) << 48)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> 52) as usize;
        let Some(slot) = self.locations.get_mut(slot) else {
            return id(address);
        };
        if (slot.0, slot.1) != (object, address) || slot.2.0 == 0 {
            *slot = (object, address, id(address));
        }
        slot.2
    }

    /// Ids of a code place.
    pub(crate) fn code(&mut self, machine: &Machine, sent: &Sent, place: &Place) -> CodeIds {
        let objects = machine.objects();
        let Some((at, object)) = place.object.and_then(|at| Some((at, objects.get(at)?))) else {
            let mapping = self.unknown;
            // All addresses without a mapping are one location: nothing could be said of them.
            let location = self.location(None, mapping, 0, false);
            let function = FunctionId::unresolved(mapping);
            self.define_mapping(sent, mapping, &Identity::unknown());
            let place = v1::LocationDef {
                location_id: location.0,
                mapping_id: mapping.0,
                function_id: function.0,
                ..v1::LocationDef::default()
            };
            self.define_code(sent, place, 0, || bare(mapping, function));
            return CodeIds {
                function,
                location,
                waits: false,
                named: false,
            };
        };
        let mapping = object.mapping;
        let table = objects.table(at);
        let is_offset =
            table.is_none() && matches!(object.what, ObjectKind::File | ObjectKind::Shared);
        let location = self.location(Some(at), mapping, place.address, is_offset);
        let known = table.zip(place.symbol).filter(|_| !place.variable);
        let (function, shown, rank) = match known {
            Some((table, symbol)) => (
                table.function_id(symbol),
                table.shown_name(symbol, false),
                table.rank_of(symbol),
            ),
            // A generated kernel symbol is its own mapping.
            None if object.what == ObjectKind::KernelSymbol => {
                let function = FunctionId::new(mapping, 0);
                (function, object.dso(), Source::SymTab as u8)
            }
            None => (FunctionId::unresolved(mapping), "", 0),
        };
        self.define_mapping(sent, mapping, &object.identity);
        let definition = || match known {
            Some((table, symbol)) => table.definition(symbol.index(), shown.to_owned()),
            None => v1::FunctionDef {
                name: shown.to_owned(),
                linkage_name: shown.to_owned(),
                rank: u32::from(rank),
                ..bare(mapping, function)
            },
        };
        let place = v1::LocationDef {
            location_id: location.0,
            mapping_id: mapping.0,
            address: place.address,
            function_id: function.0,
            is_offset,
        };
        self.define_code(sent, place, rank, definition);
        let state = objects.state(at);
        self.define_symbols(sent, mapping, object, state);
        let waits = matches!(state, TableState::Missing | TableState::Requested);
        if waits {
            self.waited.insert(mapping);
        }
        CodeIds {
            function,
            location,
            waits,
            named: !shown.is_empty(),
        }
    }

    fn define_mapping(&mut self, sent: &Sent, mapping: MappingId, identity: &Identity) {
        if self.definitions.wants(sent, What::Mapping, mapping.0, 0) {
            self.definitions.out.mappings.push(v1::MappingDef {
                mapping_id: mapping.0,
                identity: Some(identity.to_wire()),
            });
        }
    }

    /// What is known of the symbols of code, and why that is little.
    fn define_symbols(
        &mut self,
        sent: &Sent,
        mapping: MappingId,
        object: &Object,
        state: &TableState,
    ) {
        if self.definitions.has_seen(What::Symbols, mapping.0) {
            return;
        }
        let Some(found) = symbols_of(mapping, object, state) else {
            return;
        };
        let detail = detail(&found);
        if self
            .definitions
            .wants(sent, What::Symbols, mapping.0, detail)
        {
            self.definitions.out.symbols.push(found);
        }
    }

    /// A place in a function; `rank` of the function's name.
    fn define_code(
        &mut self,
        sent: &Sent,
        place: v1::LocationDef,
        rank: u8,
        definition: impl FnOnce() -> v1::FunctionDef,
    ) {
        let definitions = &mut self.definitions;
        let function = place.function_id;
        if definitions.wants(sent, What::Function, function, u64::from(rank)) {
            definitions.out.functions.push(definition());
        }
        if definitions.wants(sent, What::Location, place.location_id, function) {
            definitions.out.locations.push(place);
        }
    }

    /// Id of a callchain, leaf first.
    pub(crate) fn stack(
        &mut self,
        machine: &Machine,
        sent: &Sent,
        frames: &[(u64, Place)],
    ) -> StackId {
        let mut locations = std::mem::take(&mut self.stack);
        locations.clear();
        for (_, place) in frames {
            locations.push(self.code(machine, sent, place).location);
        }
        let stack = StackId::new(&locations);
        if stack.0 != 0 && self.definitions.wants(sent, What::Stack, stack.0, 0) {
            self.definitions.out.stacks.push(v1::StackDef {
                stack_id: stack.0,
                locations: locations.iter().map(|location| location.0).collect(),
            });
        }
        self.stack = locations;
        stack
    }

    /// Id of a data place.
    pub(crate) fn data(
        &mut self,
        machine: &Machine,
        sent: &Sent,
        region: Region,
        place: Option<&Place>,
    ) -> DataId {
        let objects = machine.objects();
        let found = place.and_then(|place| {
            let at = place.object?;
            Some((place, at, objects.get(at)?))
        });
        let Some((place, at, object)) = found else {
            return DataId(0);
        };
        let symbol = place.symbol.filter(|_| place.variable);
        let key = (at, symbol, place.variable, region);
        let name = || match symbol {
            Some(symbol) => objects
                .table(at)
                .map_or("", |table| table.shown_name(symbol, true)),
            None => object.dso(),
        };
        let id = if let Some(id) = self.data.get(&key) {
            *id
        } else {
            let id = DataId::new(region, object.mapping, name());
            if self.data.len() < DATA_MAX {
                self.data.insert(key, id);
            }
            id
        };
        if self.definitions.wants(sent, What::Data, id.0, 0) {
            self.definitions.out.data.push(v1::DataDef {
                data_id: id.0,
                region: u32::from(region.code()),
                mapping_id: object.mapping.0,
                name: name().to_owned(),
            });
            self.define_mapping(sent, object.mapping, &object.identity);
        }
        id
    }
}

/// Of a function of which nothing is known.
fn bare(mapping: MappingId, function: FunctionId) -> v1::FunctionDef {
    v1::FunctionDef {
        function_id: function.0,
        mapping_id: mapping.0,
        ..v1::FunctionDef::default()
    }
}

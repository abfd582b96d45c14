//! What debug information says of code addresses: source lines, inlined functions. Each place is looked up once.

use super::{ObjectRequest, ObjectSource};
use crate::machine::{Machine, Place};
use crate::symbols::{ObjectIx, What};
use memwide_model::MappingId;
use memwide_objects::{DebugError, DebugInfo, SourceFrame, demangle};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most different places kept; what comes beyond has no lines. Hostile files must not fill memory.
const PLACES_MAX: usize = 1 << 22;

/// The chain of a place in the source, innermost first; empty where nothing is known.
pub(super) type Chain = Arc<[SourceFrame]>;

/// Debug information by mapping, chains by place.
#[derive(Debug, Default)]
pub(super) struct SourceLines {
    infos: FxHashMap<MappingId, Result<DebugInfo, Box<str>>>,
    /// The first thing of each that makes no sense.
    damage: BTreeMap<MappingId, Box<str>>,
    chains: FxHashMap<(ObjectIx, u64), Chain>,
    nothing: Chain,
}

impl SourceLines {
    /// The functions and lines of a place. `returns`: the address is where a call returns to, so the call lies before it.
    pub(super) fn chain<S: ObjectSource>(
        &mut self,
        machine: &Machine,
        source: &mut S,
        place: &Place,
        returns: bool,
    ) -> Chain {
        let Some(object) = place.object else {
            return Arc::clone(&self.nothing);
        };
        let address = place.address.wrapping_sub(returns.into());
        if let Some(known) = self.chains.get(&(object, address)) {
            return Arc::clone(known);
        }
        if self.chains.len() >= PLACES_MAX {
            return Arc::clone(&self.nothing);
        }
        let frames = self.look_up(machine, source, object, address);
        let chain = if frames.is_empty() {
            Arc::clone(&self.nothing)
        } else {
            frames.into()
        };
        self.chains.insert((object, address), Arc::clone(&chain));
        chain
    }

    fn look_up<S: ObjectSource>(
        &mut self,
        machine: &Machine,
        source: &mut S,
        object: ObjectIx,
        address: u64,
    ) -> Vec<SourceFrame> {
        let mut frames = match self.info(machine, source, object) {
            Some(info) => {
                let found = info.frames(address);
                self.sound(machine, object, found).unwrap_or_default()
            }
            None => Vec::new(),
        };
        for frame in &mut frames {
            if let Some(name) = &frame.function
                && let std::borrow::Cow::Owned(shown) = demangle(name)
            {
                frame.function = Some(shown.into());
            }
        }
        frames
    }

    /// What was found, unless it is damaged: that says nothing, the other units do.
    pub(super) fn sound<T>(
        &mut self,
        machine: &Machine,
        object: ObjectIx,
        found: Result<T, DebugError>,
    ) -> Option<T> {
        if let Err(wrong) = &found
            && let Some(object) = machine.objects().get(object)
        {
            let first = self.damage.entry(object.mapping);
            first.or_insert_with(|| wrong.to_string().into());
        }
        found.ok()
    }

    /// The debug information that was read, with what of it makes no sense, in the order of the mappings.
    pub(super) fn read(&self) -> impl Iterator<Item = (MappingId, &DebugInfo, Option<&str>)> {
        let mut read: Vec<_> = self
            .infos
            .iter()
            .filter_map(|(mapping, info)| Some((*mapping, info.as_ref().ok()?)))
            .collect();
        read.sort_unstable_by_key(|(mapping, _)| *mapping);
        read.into_iter()
            .map(|(mapping, info)| (mapping, info, self.damage.get(&mapping).map(|why| &**why)))
    }

    /// The debug information of a mapped thing, read when first asked for.
    pub(super) fn info<S: ObjectSource>(
        &mut self,
        machine: &Machine,
        source: &mut S,
        object: ObjectIx,
    ) -> Option<&mut DebugInfo> {
        let objects = machine.objects();
        let known = objects.get(object)?;
        let has_lines = match known.what {
            // Without its segments an address is no ELF virtual one.
            What::File | What::Shared => {
                let table = objects.table(object)?;
                !table.table().segments().as_slice().is_empty()
            }
            What::Kernel => source.knows_kernel_lines(),
            What::Module => objects.table(object).is_some(),
            _ => false,
        };
        if !has_lines {
            return None;
        }
        let info = self.infos.entry(known.mapping).or_insert_with(|| {
            let request = ObjectRequest {
                identity: &known.identity,
                what: known.what,
                base: known.base,
                jit_dump: None,
                kernel: None,
            };
            source.debug_info(&request).map_err(Into::into)
        });
        info.as_mut().ok()
    }

    /// Why the debug information of a mapping is not there, if it was asked for.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (MappingId, &str)> {
        let infos = self.infos.iter();
        infos.filter_map(|(mapping, info)| Some((*mapping, &**info.as_ref().err()?)))
    }
}

//! Symbol tables of a session: which are wanted, which came, and for which of them samples did not wait.

use super::{Session, Want};
use crate::context::Mode;
use crate::identity::{FileKey, Kind};
use crate::machine::Place;
use crate::symbols::{Object, ObjectIx, TableState};
use crate::table::Loaded;
use memwide_model::MappingId;
use memwide_objects::SymbolTable;
use memwide_proto::v1;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Pauses between two questions for the names of what a process generates, in nanoseconds of the source's clock.
const AGAIN_FIRST_NS: u64 = 1_000_000_000;
const AGAIN_LONGEST_NS: u64 = 30_000_000_000;

/// Mappings whose samples did not wait for their table.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Samples have gone on without.
    without: FxHashSet<MappingId>,
    /// The table has come since: the id that samples were stored under, and the one it has now.
    came: FxHashSet<(MappingId, MappingId)>,
}

/// When generated code was last asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: u64,
    pause: u64,
}

/// A table in use, or the lack of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// Of what.
    pub mapping: MappingId,
    /// How the mapping is known.
    pub kind: Kind,
    /// Rank of its best name; `None`: there is no table.
    pub rank: Option<u8>,
}

impl Session {
    /// Notes that a table nobody asked for is needed, or that generated code has outgrown the one that is here.
    pub(super) fn want(&mut self, place: &Place, mode: Mode, pid: u32, address: u64, time: u64) {
        let Some(at) = place.object else { return };
        let objects = self.machine.objects();
        let is_generated = objects.get(at).is_some_and(Object::is_generated);
        let state = objects.state(at);
        let is_missing = matches!(state, TableState::Missing);
        let is_settled = !is_missing && !matches!(state, TableState::Requested);
        let outgrown = is_settled && is_generated && place.symbol.is_none();
        if is_missing || (outgrown && self.is_time_again(at, time)) {
            self.want_object(at, mode, pid, address, time);
        }
    }

    /// Whether the names of generated code may be asked for once more: seldom, and the less often the longer nothing helps.
    fn is_time_again(&mut self, at: ObjectIx, time: u64) -> bool {
        let Some(mapping) = self.machine.objects().get(at).map(|object| object.mapping) else {
            return false;
        };
        let asked = self.generated.entry(mapping).or_insert(Asked {
            at: time,
            pause: AGAIN_FIRST_NS,
        });
        if time < asked.at.saturating_add(asked.pause) {
            return false;
        }
        asked.at = time;
        asked.pause = asked.pause.saturating_mul(2).min(AGAIN_LONGEST_NS);
        true
    }

    fn want_object(&mut self, at: ObjectIx, mode: Mode, pid: u32, address: u64, time: u64) {
        let area = self.machine.area(mode, pid, address, time);
        let Some(object) = self.machine.objects().get(at) else {
            return;
        };
        let mapping = object.mapping;
        if self.wants.iter().any(|want| want.mapping == mapping) {
            return;
        }
        let dump = object
            .is_generated()
            .then(|| self.machine.jit_dump_of(pid))
            .flatten();
        self.wants.push(Want {
            mapping,
            identity: object.identity.to_wire(),
            pid: if mode == Mode::Kernel { 0 } else { pid },
            start: area.map_or(0, |area| area.start),
            end: area.map_or(0, |area| area.end),
            file: object.identity.file.map(FileKey::to_wire),
            jit_dump: dump.map(Into::into),
        });
    }

    /// Gives the table of a mapping, as received; `found` says what the collector found there. The answer is the id it has now,
    /// the table, and whether other sessions may use it: what is known by path only, and generated code, is this host's own.
    pub fn table_arrived(
        &mut self,
        mapping: MappingId,
        table: SymbolTable,
        found: Option<&v1::MappingIdentity>,
    ) -> (MappingId, Arc<Loaded>, bool) {
        let mut mapping = mapping;
        if let Some(found) = found.filter(|found| !found.id.is_empty())
            && let kind @ (Kind::BuildId | Kind::Content | Kind::Jit) = Kind::of_wire(found.kind)
        {
            let before = mapping;
            mapping = self
                .machine
                .objects_mut()
                .identify(mapping, kind, &found.id);
            self.late.is_called(before, mapping);
        }
        let (kind, base, shared) = {
            let mut objects = self.machine.objects().iter();
            let object = objects.find(|(_, object)| object.mapping == mapping);
            object.map_or((Kind::Path, 0, false), |(_, object)| {
                (object.identity.kind, object.base, object.is_shared())
            })
        };
        let table = crate::table::relative(table, base);
        let loaded = Arc::new(Loaded::new(table, mapping, kind));
        self.table_known(mapping, Arc::clone(&loaded));
        (mapping, loaded, shared)
    }

    /// Gives a table another session got. One with worse names than the one in use changes nothing.
    pub fn table_known(&mut self, mapping: MappingId, loaded: Arc<Loaded>) {
        let generated = self.generated.contains_key(&mapping);
        if let Some(TableState::Present(known)) = self.machine.objects().state_of(mapping)
            && known.rank() > loaded.rank()
            && !generated
        {
            return;
        }
        self.machine.set_table(mapping, TableState::Present(loaded));
        self.late.came(mapping);
        self.namer.forget();
    }

    /// The table of a mapping was asked for: it is not wanted again. One that is here stays until a newer one comes.
    pub fn table_requested(&mut self, mapping: MappingId) {
        let state = self.machine.objects().state_of(mapping);
        if matches!(state, Some(TableState::Missing)) {
            self.machine.set_table(mapping, TableState::Requested);
        }
    }

    /// The stream that was asked for tables is gone: they are wanted again.
    pub fn forget_requests(&mut self) {
        self.machine.objects_mut().forget_requests();
    }

    /// There is no table, and why. One that is here stays.
    pub fn table_unavailable(&mut self, mapping: MappingId, reason: &str) {
        let state = self.machine.objects().state_of(mapping);
        if matches!(state, Some(TableState::Present(_))) {
            return;
        }
        self.machine
            .set_table(mapping, TableState::Unavailable(reason.into()));
        self.late.without(mapping);
    }

    /// The batch decoded last goes on as it is.
    pub fn goes_on(&mut self) {
        let waited = std::mem::take(&mut self.namer.waited);
        self.late.without.extend(waited);
    }

    /// Mappings whose table came after samples had gone on without it, since the last call: the id those were stored under, and
    /// the one the table has.
    pub fn take_late(&mut self) -> Vec<(MappingId, MappingId)> {
        self.late.came.drain().collect()
    }

    /// Every mapping whose table all hosts share, and how good it is.
    pub fn tables_in_use(&self) -> Vec<InUse> {
        let mut seen = FxHashSet::default();
        let objects = self.machine.objects();
        let shared = objects.iter().filter(|(_, object)| object.is_shared());
        shared
            .filter(|(_, object)| seen.insert(object.mapping))
            .filter_map(|(at, object)| {
                let rank = match objects.state(at) {
                    TableState::Present(loaded) => Some(loaded.rank()),
                    TableState::Unavailable(_) => None,
                    TableState::Missing | TableState::Requested => return None,
                };
                Some(InUse {
                    mapping: object.mapping,
                    kind: object.identity.kind,
                    rank,
                })
            })
            .collect()
    }
}

impl Late {
    fn without(&mut self, mapping: MappingId) {
        self.without.insert(mapping);
    }

    fn came(&mut self, mapping: MappingId) {
        if self.without.remove(&mapping) {
            self.came.insert((mapping, mapping));
        }
    }

    /// A mapping got its real id, as its table came; rows stored under the old one stay there.
    fn is_called(&mut self, before: MappingId, now: MappingId) {
        if before != now && self.without.remove(&before) {
            self.came.insert((before, now));
        }
    }
}

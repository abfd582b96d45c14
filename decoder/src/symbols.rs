//! What is mapped, and where its symbol table stands: not asked for, on its way, here, or not to be had.

use crate::identity::{Identity, Kind};
use crate::table::Loaded;
use memwide_model::{MappingId, Region};
use rustc_hash::{FxHashMap, FxHashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Most mapped things kept of one source; what comes after them is shown as unknown.
const OBJECTS_MAX: usize = 1 << 20;

/// Place of a mapped thing in [`Objects`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIx(NonZeroU32);

impl ObjectIx {
    /// Of a place counted from 0; `None` where 32 bits cannot count it. One more is kept, so that none takes no room of its own.
    pub(crate) fn at(place: usize) -> Option<Self> {
        let number = u32::try_from(place.checked_add(1)?).ok()?;
        NonZeroU32::new(number).map(Self)
    }

    /// The place, counted from 0.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// What a mapping's name says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// A file.
    File,
    /// Anonymous memory.
    Anonymous,
    /// The brk heap.
    Heap,
    /// A stack.
    Stack,
    /// Shared memory with a name: a segment, a file in memory.
    Shared,
    /// Shared memory without one: what processes got from one that mapped it before it forked.
    SharedAnonymous,
    /// vdso, vvar, vsyscall.
    Vdso,
    /// Code generated in a process.
    Jit,
    /// Kernel proper.
    Kernel,
    /// Kernel module.
    Module,
    /// One symbol of generated kernel code: BPF program, trampoline.
    KernelSymbol,
}

impl What {
    /// By the name the kernel gives a mapping, as perf reads it, and by what else its record says of it (`MAP_` flags).
    pub fn of_mapping(name: &str, flags: u32) -> Self {
        const MAP_SHARED: u32 = 1;
        const MAP_HUGETLB: u32 = 0x4_0000;
        let what = Self::of_name(name);
        let is_huge = flags & MAP_HUGETLB != 0;
        let is_anonymous = is_huge || what == Self::Anonymous;
        match is_anonymous {
            true if flags & MAP_SHARED != 0 => Self::SharedAnonymous,
            true => Self::Anonymous,
            false => what,
        }
    }

    /// By the name alone.
    pub fn of_name(name: &str) -> Self {
        if name == "[vdso]" || name == "[vsyscall]" || name.starts_with("[vvar") {
            Self::Vdso
        } else if name == "[heap]" {
            Self::Heap
        } else if name.starts_with("[stack") {
            Self::Stack
        } else if name == "/dev/zero (deleted)" || name.starts_with("[anon_shmem") {
            // The kernel's name for shared memory that nobody named; private memory of that device has its plain name.
            Self::SharedAnonymous
        } else if name == "//anon"
            || name.starts_with("/dev/zero")
            || name.starts_with("/anon_hugepage")
            || name.starts_with("[anon")
        {
            Self::Anonymous
        } else if ["/SYSV", "/dev/shm/", "/memfd:"]
            .iter()
            .any(|start| name.starts_with(start))
        {
            Self::Shared
        } else {
            Self::File
        }
    }

    /// Addresses in it mean themselves, not places in a file.
    pub fn is_identity_mapped(self) -> bool {
        matches!(
            self,
            Self::Anonymous | Self::SharedAnonymous | Self::Heap | Self::Stack | Self::Jit
        )
    }

    /// The region of data in it that no variable covers.
    pub fn region(self) -> Region {
        match self {
            Self::File => Region::File,
            Self::Anonymous | Self::Jit => Region::Anonymous,
            Self::Heap => Region::Heap,
            Self::Stack => Region::Stack,
            Self::Shared | Self::SharedAnonymous => Region::Shared,
            Self::Vdso => Region::Vdso,
            Self::Kernel | Self::Module | Self::KernelSymbol => Region::Kernel,
        }
    }
}

/// Where a symbol table stands.
#[derive(Debug, Clone)]
pub enum TableState {
    /// Nobody asked for it yet.
    Missing,
    /// It was asked for.
    Requested,
    /// It is here.
    Present(Arc<Loaded>),
    /// There is none, and why.
    Unavailable(Box<str>),
}

/// Something mapped.
#[derive(Debug)]
pub struct Object {
    /// What it is made of.
    pub identity: Identity,
    /// Its id.
    pub mapping: MappingId,
    /// What its name says it is.
    pub what: What,
    /// Absolute address that addresses in it are relative to; 0 but for kernel and modules.
    pub base: u64,
    table: u32,
}

impl Object {
    /// Name as perf shows it.
    pub fn dso(&self) -> &str {
        &self.identity.path
    }

    /// It is code that a process generates: its table grows with it.
    pub(crate) fn is_generated(&self) -> bool {
        self.identity.kind == Kind::Jit
    }

    /// Its table is the same on all hosts: it is known by more than a path, and is no code that a process generates.
    pub(crate) fn is_shared(&self) -> bool {
        !self.identity.id.is_empty() && !self.is_generated()
    }

    /// Build id, where it is one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.identity.build_id()
    }
}

#[derive(Debug)]
struct Slot {
    mapping: MappingId,
    state: TableState,
}

/// Everything mapped, each identity with one table.
#[derive(Debug, Default)]
pub struct Objects {
    all: Vec<Object>,
    places: FxHashMap<(Identity, u64), ObjectIx>,
    tables: Vec<Slot>,
    tables_by_id: FxHashMap<MappingId, u32>,
}

impl Objects {
    /// The place of a mapped thing, which is entered if it is new. `None` beyond the bound.
    pub fn intern(&mut self, identity: Identity, what: What, base: u64) -> Option<ObjectIx> {
        let key = (identity, base);
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.all.len() >= OBJECTS_MAX {
            return None;
        }
        let identity = key.0.clone();
        let mapping = identity.mapping_id();
        let place = ObjectIx::at(self.all.len())?;
        let table = self.table_slot(mapping, identity.kind, what);
        self.all.push(Object {
            identity,
            mapping,
            what,
            base,
            table,
        });
        self.places.insert(key, place);
        Some(place)
    }

    fn table_slot(&mut self, mapping: MappingId, kind: Kind, what: What) -> u32 {
        let next = u32::try_from(self.tables.len()).unwrap_or(u32::MAX);
        let slot = *self.tables_by_id.entry(mapping).or_insert(next);
        if slot == next {
            let has_file = !matches!(
                what,
                What::Anonymous
                    | What::SharedAnonymous
                    | What::Heap
                    | What::Stack
                    | What::Shared
                    | What::KernelSymbol
            );
            let state = if has_file && kind != Kind::Unknown {
                TableState::Missing
            } else {
                TableState::Unavailable("no file".into())
            };
            self.tables.push(Slot { mapping, state });
        }
        slot
    }

    /// The thing at a place.
    pub fn get(&self, place: ObjectIx) -> Option<&Object> {
        self.all.get(place.index())
    }

    /// All things, in the order they were entered.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectIx, &Object)> {
        let places = (0..).map_while(ObjectIx::at);
        places.zip(&self.all)
    }

    /// Where the table of a thing stands.
    pub fn state(&self, place: ObjectIx) -> &TableState {
        let slot = self
            .get(place)
            .and_then(|object| self.tables.get(object.table as usize));
        slot.map_or(&TableState::Missing, |slot| &slot.state)
    }

    /// The table of a thing, if it is here.
    pub fn table(&self, place: ObjectIx) -> Option<&Arc<Loaded>> {
        match self.state(place) {
            TableState::Present(table) => Some(table),
            _ => None,
        }
    }

    /// Where the table of an identity stands; `None` if nothing has it.
    pub(crate) fn state_of(&self, mapping: MappingId) -> Option<&TableState> {
        let table = *self.tables_by_id.get(&mapping)?;
        Some(&self.tables.get(table as usize)?.state)
    }

    /// A thing known by its path or process only turns out to be this: from now on it has this id.
    ///
    /// The answer is that id; things that are known better keep theirs.
    pub fn identify(&mut self, path_only: MappingId, kind: Kind, id: &[u8]) -> MappingId {
        let mut found = path_only;
        for object in &mut self.all {
            let is_guess = object.identity.kind == Kind::Path
                || (object.identity.kind == Kind::Jit && kind == Kind::Jit);
            if object.mapping == path_only && is_guess {
                object.identity = Identity::new(kind, id, &object.identity.path);
                object.mapping = object.identity.mapping_id();
                found = object.mapping;
            }
        }
        if found == path_only {
            return found;
        }
        let Some(table) = self.tables_by_id.remove(&path_only) else {
            return found;
        };
        // Other mappings of the file may be known by its id already: one table is for all.
        let known = *self.tables_by_id.entry(found).or_insert(table);
        if known == table {
            if let Some(slot) = self.tables.get_mut(table as usize) {
                slot.mapping = found;
            }
        } else {
            let same = self.all.iter_mut().filter(|object| object.mapping == found);
            same.for_each(|object| object.table = known);
        }
        found
    }

    /// Sets where the table of an identity stands.
    pub fn set_state(&mut self, mapping: MappingId, state: TableState) {
        let Some(table) = self.tables_by_id.get(&mapping).copied() else {
            return;
        };
        if let Some(slot) = self.tables.get_mut(table as usize) {
            debug_assert_eq!(slot.mapping, mapping);
            slot.state = state;
        }
    }

    /// Tables of shared files that none of the things in `mapped` has are as if nobody had asked for them. True: some were here.
    pub(crate) fn let_go(&mut self, mapped: &FxHashSet<ObjectIx>) -> bool {
        let mut used = vec![false; self.tables.len()];
        for (at, object) in self.iter() {
            let is_file = matches!(object.identity.kind, Kind::BuildId | Kind::Content);
            if let Some(used) = used.get_mut(object.table as usize)
                && (!is_file || mapped.contains(&at))
            {
                *used = true;
            }
        }
        let mut some = false;
        for (slot, used) in self.tables.iter_mut().zip(used) {
            if !used && matches!(slot.state, TableState::Present(_)) {
                slot.state = TableState::Missing;
                some = true;
            }
        }
        some
    }

    /// Whoever was asked for tables is gone: they may be asked for again.
    pub fn forget_requests(&mut self) {
        for slot in &mut self.tables {
            if matches!(slot.state, TableState::Requested) {
                slot.state = TableState::Missing;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mappings_say_what_they_are() {
        for (name, what) in [
            ("/usr/bin/true", What::File),
            ("[heap]", What::Heap),
            ("[stack]", What::Stack),
            ("[stack:12]", What::Stack),
            ("//anon", What::Anonymous),
            ("/dev/zero (deleted)", What::SharedAnonymous),
            ("/dev/zero", What::Anonymous),
            ("[anon:arena]", What::Anonymous),
            ("[anon_shmem:arena]", What::SharedAnonymous),
            ("/anon_hugepage (deleted)", What::Anonymous),
            ("/SYSV00000000 (deleted)", What::Shared),
            ("/memfd:a (deleted)", What::Shared),
            ("[vvar_vclock]", What::Vdso),
            ("/dev/shm/x", What::Shared),
            ("[vdso]", What::Vdso),
        ] {
            assert_eq!(What::of_name(name), what, "{name}");
        }
    }

    #[test]
    fn flags_say_whether_memory_without_a_name_is_shared() {
        let (shared, private, huge) = (1, 2, 0x4_0000);
        for (name, flags, what) in [
            (
                "/anon_hugepage (deleted)",
                huge | shared,
                What::SharedAnonymous,
            ),
            ("/anon_hugepage (deleted)", huge | private, What::Anonymous),
            ("/mnt/huge/pool", huge | shared, What::SharedAnonymous),
            ("/mnt/huge/pool", huge | private, What::Anonymous),
            ("/dev/zero (deleted)", shared, What::SharedAnonymous),
            ("/dev/zero (deleted)", 0, What::SharedAnonymous),
            ("//anon", private, What::Anonymous),
            ("[heap]", private, What::Heap),
            ("/lib/a.so", private, What::File),
            ("/srv/data", shared, What::File),
        ] {
            assert_eq!(What::of_mapping(name, flags), what, "{name} {flags:#x}");
        }
    }

    #[test]
    fn two_paths_of_one_build_id_share_the_table_and_keep_their_names() {
        let mut objects = Objects::default();
        let mut enter = |path| {
            let identity = Identity::new(Kind::BuildId, &[7; 20], path);
            objects.intern(identity, What::File, 0).unwrap()
        };
        let (one, two) = (enter("/bin/a"), enter("/bin/b"));
        assert_ne!(one, two);
        let mapping = objects.get(one).unwrap().mapping;
        objects.set_state(mapping, TableState::Requested);
        assert!(matches!(objects.state(two), TableState::Requested));
        assert_eq!(objects.get(two).unwrap().dso(), "/bin/b");
    }

    #[test]
    fn a_path_that_turns_out_to_be_a_known_file_shares_its_table() {
        let mut objects = Objects::default();
        let known = Identity::new(Kind::BuildId, &[7; 20], "/bin/a");
        let known = objects.intern(known, What::File, 0).unwrap();
        let path = Identity::of_path("/bin/b", None);
        let path = objects.intern(path, What::File, 0).unwrap();
        let mapping = objects.get(path).unwrap().mapping;
        let found = objects.identify(mapping, Kind::BuildId, &[7; 20]);
        objects.set_state(found, TableState::Requested);
        for object in [known, path] {
            assert_eq!(objects.get(object).unwrap().mapping, found);
            assert!(matches!(objects.state(object), TableState::Requested));
        }
    }

    #[test]
    fn memory_without_a_file_has_no_table_to_ask_for() {
        let mut objects = Objects::default();
        let heap = Identity::new(Kind::Path, &[], "[heap]");
        let heap = objects.intern(heap, What::Heap, 0).unwrap();
        assert!(matches!(objects.state(heap), TableState::Unavailable(_)));
    }
}

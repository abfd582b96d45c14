//! The columns of a block, filled row by row.

use crate::classified::Derived;
use crate::locality::NO_NODE;
use crate::memory::Memory;
use crate::names::NameIx;
use memwide_model::{DataId, StackId};
use memwide_perf_abi::SampleView;
use memwide_proto::v1;
use rustc_hash::FxHashMap;

use super::names::CodeIds;

/// A block in the making.
#[derive(Debug, Default)]
pub(crate) struct Block {
    out: v1::AccessBlock,
    comms: FxHashMap<NameIx, u32>,
    events: FxHashMap<u64, u8>,
    workloads: FxHashMap<u64, u32>,
}

/// What a row holds beside the recorded fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) time_wall_ns: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) comm: u32,
    pub(crate) event: u8,
    pub(crate) code: CodeIds,
    pub(crate) stack: StackId,
    pub(crate) data: DataId,
    pub(crate) period: u64,
    pub(crate) memory: Memory,
    pub(crate) derived: Derived,
    pub(crate) workload: u32,
}

fn index_of<K: std::hash::Hash + Eq>(places: &mut FxHashMap<K, u32>, key: K) -> (u32, bool) {
    let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
    let place = *places.entry(key).or_insert(next);
    (place, place == next)
}

impl Block {
    /// Index of a task's name.
    pub(crate) fn comm(&mut self, name: NameIx, names: impl FnOnce(NameIx) -> String) -> u32 {
        let (place, is_new) = index_of(&mut self.comms, name);
        if is_new {
            self.out.strings.push(names(name));
        }
        place
    }

    /// Index of an event; `None` beyond what one byte can say.
    pub(crate) fn event(&mut self, id: u64) -> Option<u8> {
        if let Some(place) = self.events.get(&id) {
            return Some(*place);
        }
        let place = u8::try_from(self.events.len()).ok()?;
        self.events.insert(id, place);
        self.out.events.push(id);
        Some(place)
    }

    /// Index of a workload.
    pub(crate) fn workload(&mut self, id: u64) -> u32 {
        let (place, is_new) = index_of(&mut self.workloads, id);
        if is_new {
            self.out.workloads.push(id);
        }
        place
    }

    /// Ids of the events used so far.
    pub(crate) fn events(&self) -> &[u64] {
        &self.out.events
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: &Row, view: &SampleView<'_>) {
        let out = &mut self.out;
        let weight = row.memory.weight.unwrap_or_default();
        let (derived, class) = (&row.derived, &row.derived.class);
        out.rows += 1;
        out.time_wall_ns.push(row.time_wall_ns);
        out.cpu.push(view.cpu().unwrap_or(0));
        out.pid.push(row.pid);
        out.tid.push(row.tid);
        out.comm.push(row.comm);
        out.event.push(row.event);
        out.ip.push(view.ip().unwrap_or(0));
        out.function_id.push(row.code.function.0);
        out.location_id.push(row.code.location.0);
        out.stack_id.push(row.stack.0);
        out.addr.push(row.memory.addr.unwrap_or(0));
        out.phys_addr.push(row.memory.phys_addr.unwrap_or(0));
        out.data_id.push(row.data.0);
        out.data_src
            .push(row.memory.data_src.map_or(0, |word| word.0));
        out.period.push(row.period);
        out.weight
            .push(u32::try_from(weight.weight).unwrap_or(u32::MAX));
        out.ins_lat.push(u32::from(weight.ins_lat));
        out.retire_lat.push(u32::from(weight.retire_lat));
        out.page_shift
            .push(shift(row.memory.page_size.unwrap_or(0)));
        out.op.push(class.op.code());
        out.level.push(class.level.code());
        out.outcome.push(class.outcome.code());
        out.snoop.push(class.snoop.code());
        out.tlb.push(class.tlb.code());
        out.locked.push(u8::from(class.locked));
        out.blocked.push(class.blocked.code());
        out.hw_locality.push(class.hw_locality.code());
        out.page_locality.push(derived.page_locality.code());
        out.locality.push(derived.locality.code());
        out.locality_basis.push(derived.basis.code());
        out.region.push(derived.region.code());
        out.context.push(derived.context.code());
        out.workload.push(row.workload);
        out.page_node.push(derived.page_node.unwrap_or(NO_NODE));
        out.suspect.push(class.suspect.code());
        out.mem_region.push(class.region.code());
    }

    /// Takes the block and starts anew.
    pub(crate) fn take(&mut self) -> v1::AccessBlock {
        self.comms.clear();
        self.events.clear();
        self.workloads.clear();
        std::mem::take(&mut self.out)
    }
}

/// log2 of a page size; 0 if it is not known.
fn shift(bytes: u64) -> u8 {
    let is_size = bytes.is_power_of_two();
    u8::try_from(bytes.trailing_zeros()).map_or(0, |shift| if is_size { shift } else { 0 })
}

//! Definitions: what a block's ids stand for, each sent once on a stream.

use memwide_proto::v1;
use rustc_hash::{FxHashMap, FxHashSet};

/// Most definitions remembered as sent; beyond, everything is sent once more.
const SENT_MAX: usize = 2 << 20;

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Function,
    Mapping,
    Location,
    Stack,
    Data,
    Event,
    Workload,
    Symbols,
}

/// What a stream to an aggregator has sent. A new stream, or one told to resume, starts empty.
#[derive(Debug, Default)]
pub struct Sent {
    known: FxHashMap<(What, u64), u64>,
    facts: Option<v1::HostFacts>,
}

impl Sent {
    /// Nothing is sent yet.
    pub fn clear(&mut self) {
        self.known.clear();
        self.facts = None;
    }

    fn has(&self, what: What, id: u64, detail: u64) -> bool {
        self.known.get(&(what, id)) == Some(&detail)
    }

    /// Whether these facts were sent.
    pub(crate) fn has_facts(&self, facts: &v1::HostFacts) -> bool {
        self.facts.as_ref() == Some(facts)
    }

    /// A batch was handed to the stream.
    pub fn record(&mut self, batch: &v1::DecodedBatch) {
        if self.known.len() > SENT_MAX {
            self.known.clear();
        }
        if batch.facts.is_some() {
            self.facts.clone_from(&batch.facts);
        }
        let Some(all) = &batch.definitions else {
            return;
        };
        let mut keep = |what, id, detail| {
            self.known.insert((what, id), detail);
        };
        for one in &all.functions {
            keep(What::Function, one.function_id, u64::from(one.rank));
        }
        for one in &all.mappings {
            keep(What::Mapping, one.mapping_id, 0);
        }
        for one in &all.locations {
            keep(What::Location, one.location_id, one.function_id);
        }
        for one in &all.stacks {
            keep(What::Stack, one.stack_id, 0);
        }
        for one in &all.data {
            keep(What::Data, one.data_id, 0);
        }
        for one in &all.events {
            keep(What::Event, one.event_id, 0);
        }
        for one in &all.workloads {
            keep(What::Workload, one.workload_id, 0);
        }
        for one in &all.symbols {
            let detail = super::state::detail(one);
            keep(What::Symbols, one.mapping_id, detail);
        }
    }
}

/// Definitions of one batch in the making.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    seen: FxHashSet<(What, u64)>,
    pub(crate) out: v1::Definitions,
}

impl Definitions {
    /// Whether the block needs this definition: it is neither in it nor sent. `detail` tells versions of one apart.
    pub(crate) fn wants(&mut self, sent: &Sent, what: What, id: u64, detail: u64) -> bool {
        self.seen.insert((what, id)) && !sent.has(what, id, detail)
    }

    /// Whether this was asked before in this batch.
    pub(crate) fn has_seen(&self, what: What, id: u64) -> bool {
        self.seen.contains(&(what, id))
    }

    /// Takes what was gathered and starts anew.
    pub(crate) fn take(&mut self) -> Option<v1::Definitions> {
        self.seen.clear();
        let out = std::mem::take(&mut self.out);
        (out != v1::Definitions::default()).then_some(out)
    }
}

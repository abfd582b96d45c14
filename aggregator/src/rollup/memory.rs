//! What a partition remembers between batches: events, hosts, and which definitions are in the stream.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use memwide_model::{ContentHash, LatencyKind, Source, Tier};
use memwide_proto::v1;
use rustc_hash::FxBuildHasher;

/// Events remembered; a fleet has dozens. Full: the map starts anew and streams fill it again.
const EVENTS_MAX: usize = 16_384;

/// Definitions remembered as sent, 8 bytes each. Full: the set starts anew and definitions are sent again.
const SENT_MAX: usize = 1 << 20;

/// What rows say about an event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Its name.
    pub name: Box<str>,
    /// How much it can say.
    pub tier: Tier,
    /// What its weights measure.
    pub latency_kind: LatencyKind,
    /// Model of the CPU it was opened on.
    pub cpu_model: Box<str>,
}

impl Default for Event {
    /// An event nobody has described.
    fn default() -> Self {
        Self {
            name: "unknown".into(),
            tier: Tier::Software,
            latency_kind: LatencyKind::Unknown,
            cpu_model: "".into(),
        }
    }
}

/// Facts of a source's host, and the day they were last written.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) facts: v1::HostFacts,
    pub(super) written_day: Option<u32>,
}

/// Survives flushes; [`Memory::forget_sent`] when a flush is lost.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    events: HashMap<u64, Event, FxBuildHasher>,
    pub(super) hosts: BTreeMap<Source, Host>,
    sent: HashSet<u64, FxBuildHasher>,
    sent_day: u32,
}

impl Memory {
    /// Rows built since the last commit are lost: definitions must be written again.
    pub(crate) fn forget_sent(&mut self) {
        self.sent.clear();
        for host in self.hosts.values_mut() {
            host.written_day = None;
        }
    }

    /// The source has no stream any more.
    pub(crate) fn forget_source(&mut self, source: &Source) {
        self.hosts.remove(source);
    }

    /// True once a day for the same content: then it is to be written.
    pub(super) fn is_news(&mut self, day: u32, content: &ContentHash) -> bool {
        if self.sent_day != day || self.sent.len() >= SENT_MAX {
            self.sent.clear();
            self.sent_day = day;
        }
        self.sent.insert(content.finish())
    }

    pub(super) fn learn_event(&mut self, def: &v1::EventDef) {
        if self.events.len() >= EVENTS_MAX {
            self.events.clear();
        }
        let code = |code: u32| u8::try_from(code).unwrap_or(u8::MAX);
        let event = Event {
            name: super::chunks::short(&def.name).into(),
            tier: Tier::from_code(code(def.tier)).unwrap_or(Tier::Software),
            latency_kind: LatencyKind::from_code(code(def.latency_kind))
                .unwrap_or(LatencyKind::Unknown),
            cpu_model: super::chunks::short(&def.cpu_model).into(),
        };
        self.events.insert(def.event_id, event);
    }

    pub(super) fn event(&self, event_id: u64) -> Option<&Event> {
        self.events.get(&event_id)
    }
}

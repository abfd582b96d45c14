//! The events of a source: as described by the collector, with the ids rows carry.

use crate::memory::EventFacts;
use memwide_model::{ContentHash, LatencyKind, Tier};
use memwide_perf_abi::Attr;
use memwide_perf_abi::file::{Event, EventTable};
use memwide_proto::v1;

/// Most events of a source: an index in a block is one byte.
pub(crate) const EVENTS_MAX: usize = 256;

/// Most descriptors of one event.
const IDS_MAX: usize = 1 << 16;

/// The CPU that events were opened on, for people and for classifying again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuNames {
    model: String,
    cpuid: String,
}

impl CpuNames {
    /// Of a host.
    pub(crate) fn of(facts: &v1::HostFacts) -> Self {
        Self {
            model: facts.cpu_desc.clone(),
            cpuid: facts.cpuid.clone(),
        }
    }
}

/// One event beside its attribute.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    pub(crate) id: u64,
    pub(crate) desc: v1::EventDesc,
    pub(crate) period_mode: &'static str,
    pub(crate) period: u64,
    pub(crate) facts: EventFacts,
}

/// All events of a source, by ordinal.
#[derive(Debug, Default)]
pub(crate) struct Events {
    descs: Vec<Option<v1::EventDesc>>,
    table: EventTable,
    metas: Vec<Meta>,
    /// Place in the table by ordinal.
    places: Vec<Option<usize>>,
}

impl Events {
    /// Takes new and changed descriptions; true if anything changed.
    pub(crate) fn learn(&mut self, descs: &[v1::EventDesc], cpu: &CpuNames) {
        let mut changed = false;
        for desc in descs {
            let at = desc.ordinal as usize;
            if at >= EVENTS_MAX {
                continue;
            }
            if self.descs.len() <= at {
                self.descs.resize(at + 1, None);
            }
            if let Some(slot) = self
                .descs
                .get_mut(at)
                .filter(|slot| slot.as_ref() != Some(desc))
            {
                *slot = Some(desc.clone());
                changed = true;
            }
        }
        if changed {
            self.rebuild(cpu);
        }
    }

    /// Ids depend on the CPU, which may become known after the events: what a sample means does, too, and two CPUs may
    /// have one name (virtual ones).
    pub(crate) fn rebuild(&mut self, cpu: &CpuNames) {
        let mut events = Vec::new();
        self.metas.clear();
        self.places = vec![None; self.descs.len()];
        for (ordinal, desc) in self.descs.iter().enumerate() {
            let Some(desc) = desc else { continue };
            let Ok(attr) = Attr::parse(&desc.attr) else {
                continue;
            };
            if let Some(place) = self.places.get_mut(ordinal) {
                *place = Some(events.len());
            }
            let id = ContentHash::of("event")
                .bytes(desc.name.as_bytes())
                .bytes(desc.pmu.as_bytes())
                .bytes(&desc.attr)
                .bytes(cpu.model.as_bytes())
                .bytes(cpu.cpuid.as_bytes());
            let pmu = Some(desc.pmu.as_str()).filter(|pmu| !pmu.is_empty());
            self.metas.push(Meta {
                id: id.finish(),
                desc: desc.clone(),
                period_mode: if attr.flags.freq() {
                    "frequency"
                } else {
                    "period"
                },
                period: attr.sample_period,
                facts: EventFacts::new(&attr, pmu, &desc.name),
            });
            let ids = desc.ids.iter().copied().take(IDS_MAX).collect();
            events.push(Event::new(attr, ids, desc.name.clone()));
        }
        self.table = EventTable::new(events);
    }

    /// For lookups by record.
    pub(crate) fn table(&self) -> &EventTable {
        &self.table
    }

    /// What is known of the event at a place in the table.
    pub(crate) fn meta(&self, at: usize) -> Option<&Meta> {
        self.metas.get(at)
    }

    /// Periods in force by place in the table; 0: not told.
    pub(crate) fn periods(&self, counts: &[v1::EventCount]) -> Vec<u64> {
        let mut periods = vec![0; self.metas.len()];
        for count in counts {
            let place = self.places.get(count.event as usize).copied().flatten();
            if let Some(period) = place.and_then(|place| periods.get_mut(place)) {
                *period = count.period;
            }
        }
        periods
    }

    /// The event with an id.
    pub(crate) fn by_id(&self, id: u64) -> Option<&Meta> {
        self.metas.iter().find(|meta| meta.id == id)
    }

    /// The event with an ordinal.
    pub(crate) fn by_ordinal(&self, ordinal: u32) -> Option<&Meta> {
        let place = self.places.get(ordinal as usize).copied().flatten()?;
        self.metas.get(place)
    }
}

impl Meta {
    /// Its definition on the wire.
    pub(crate) fn definition(&self, cpu: &CpuNames) -> v1::EventDef {
        let tier = Tier::from_name(&self.desc.tier).unwrap_or(Tier::Software);
        let latency = u8::try_from(self.desc.latency_kind).ok();
        let latency = latency.and_then(|code| LatencyKind::from_code(code).ok());
        v1::EventDef {
            event_id: self.id,
            name: self.desc.name.clone(),
            pmu: self.desc.pmu.clone(),
            tier: u32::from(tier.code()),
            period_mode: self.period_mode.to_owned(),
            period: self.period,
            threshold_cycles: self.desc.threshold_cycles,
            latency_kind: u32::from(latency.unwrap_or(LatencyKind::Unknown).code()),
            population: self.desc.population.clone(),
            cpu_model: cpu.model.clone(),
            attr: self.desc.attr.clone(),
            cpuid: cpu.cpuid.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(ordinal: u32, name: &str) -> v1::EventDesc {
        v1::EventDesc {
            ordinal,
            name: name.into(),
            attr: Attr::default().encode(144),
            ids: vec![u64::from(ordinal) + 100],
            tier: "precise".into(),
            ..v1::EventDesc::default()
        }
    }

    #[test]
    fn events_are_found_by_ordinal_and_by_id_also_after_gaps() {
        let mut events = Events::default();
        events.learn(&[desc(0, "a"), desc(2, "c")], &CpuNames::default());
        assert_eq!(events.by_ordinal(2).unwrap().desc.name, "c");
        assert!(events.by_ordinal(1).is_none() && events.by_ordinal(9).is_none());
        assert_eq!(events.table().index_of_id(102), Some(1));
        assert_eq!(events.meta(1).unwrap().desc.name, "c");
    }

    #[test]
    fn the_same_event_has_the_same_id_on_every_host_of_a_cpu_model() {
        let id = |model: &str, cpuid: &str, ids: Vec<u64>| {
            let mut events = Events::default();
            let (model, cpuid) = (model.to_owned(), cpuid.to_owned());
            events.learn(
                &[v1::EventDesc {
                    ids,
                    ..desc(0, "a")
                }],
                &CpuNames { model, cpuid },
            );
            events.by_ordinal(0).unwrap().id
        };
        assert_eq!(id("x", "6,85", vec![1]), id("x", "6,85", vec![2, 3]));
        assert_ne!(id("x", "6,85", vec![1]), id("y", "6,85", vec![1]));
        assert_ne!(id("x", "6,85", vec![1]), id("x", "6,143", vec![1]));
    }

    #[test]
    fn hostile_descriptions_are_passed_over() {
        let mut events = Events::default();
        let broken = v1::EventDesc {
            attr: vec![1],
            ..desc(1, "b")
        };
        events.learn(
            &[desc(u32::MAX, "far"), broken, desc(0, "a")],
            &CpuNames::default(),
        );
        assert_eq!(events.table().events().len(), 1);
    }
}

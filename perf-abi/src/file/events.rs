//! The events of a file, and which of them wrote a record.

use crate::{Attr, IdPosition, LayoutError, RawRecord, SampleLayout, kind};

/// One event of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What it was asked for.
    pub attr: Attr,
    /// Its ids, one for each CPU or thread it was opened on; empty in old files with one event.
    pub ids: Vec<u64>,
    /// Its name, as `perf script -F event` prints it.
    pub name: String,
    /// Where the fields of its samples stand, or why that is unknown.
    pub layout: Result<SampleLayout, LayoutError>,
}

impl Event {
    /// An event; its layout is worked out here.
    pub fn new(attr: Attr, ids: Vec<u64>, name: String) -> Self {
        let layout = SampleLayout::new(&attr);
        Self {
            attr,
            ids,
            name,
            layout,
        }
    }
}

/// The events of a file by index and by id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventTable {
    events: Vec<Event>,
    /// Events behind these are made up here; the file's records are never theirs.
    recorded: usize,
    /// Ids with the index of their event, sorted: searching a few hundred beats hashing.
    by_id: Vec<(u64, usize)>,
    /// Where ids stand: one entry unless the events differ.
    positions: Vec<IdPosition>,
}

impl EventTable {
    /// Takes the events in the order of the file.
    pub fn new(events: Vec<Event>) -> Self {
        let mut table = Self {
            recorded: events.len(),
            events,
            ..Self::default()
        };
        for (index, event) in table.events.iter().enumerate() {
            table.by_id.extend(event.ids.iter().map(|id| (*id, index)));
            if let Some(place) = IdPosition::of(&event.attr)
                && !table.positions.contains(&place)
            {
                table.positions.push(place);
            }
        }
        table.by_id.sort_unstable(); // of an id that is there twice, the first event's comes first
        table.by_id.dedup_by_key(|(id, _)| *id);
        table
    }

    /// With an event behind the file's own whose records are made here.
    #[must_use]
    pub(crate) fn with_made(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// The events in the order of the file.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The event at `index`.
    pub fn get(&self, index: usize) -> Option<&Event> {
        self.events.get(index)
    }

    /// Bytes of the sample id that ends records other than samples, as the first event has it.
    pub(crate) fn sample_id_len(&self) -> usize {
        let first = self.events.first();
        first
            .and_then(|event| event.layout.as_ref().ok())
            .map_or(0, |layout| layout.trailer().len())
    }

    /// The event with an id.
    #[inline]
    pub fn index_of_id(&self, id: u64) -> Option<usize> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(at).map(|(_, index)| *index)
    }

    /// The event that wrote `record`, by perf's rules: the only event wrote everything; a record
    /// that carries no id, or the id 0 of synthesized records, belongs to the first. `None` for
    /// perf's own records and for ids nobody declared.
    #[inline]
    pub fn event_of(&self, record: &RawRecord<'_>) -> Option<usize> {
        if record.kind >= kind::USER_TYPE_START {
            return None;
        }
        let first = self.events.first()?;
        if self.recorded == 1 {
            return Some(0);
        }
        if !record.is_sample() && !first.attr.flags.sample_id_all() {
            return Some(0);
        }
        self.positions
            .iter()
            .find_map(|place| match place.id_of(record)? {
                0 => Some(0),
                id => self.index_of_id(id),
            })
    }

    /// The id `record` carries, if its events say where.
    pub fn id_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        self.positions.iter().find_map(|place| place.id_of(record))
    }

    /// The time of `record`, written by the event at `event`, in nanoseconds of its clock.
    #[inline]
    pub fn time_of(&self, event: Option<usize>, record: &RawRecord<'_>) -> Option<u64> {
        self.events
            .get(event?)?
            .layout
            .as_ref()
            .ok()?
            .time_of(record)
    }
}

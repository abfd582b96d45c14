//! Counter reads in samples: one row for each member, its period the difference to the read before, as perf delivers them.

use memwide_perf_abi::file::EventTable;
use memwide_perf_abi::{SampleView, sample};
use rustc_hash::FxHashMap;

/// One row to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Place of the event.
    pub(crate) event: usize,
    /// Events since the sample before.
    pub(crate) period: u64,
}

/// Last value of each counter, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupReads {
    last: FxHashMap<u64, u64>,
    /// The period in force where it may differ from the attr's, by place in the table; 0: the attr's.
    pub(crate) in_force: Vec<u64>,
    /// Rows of the sample at hand; taken and put back by the caller.
    pub(crate) rows: Vec<Row>,
}

impl GroupReads {
    /// Fills `rows` with those of a sample of the event at `event`; those of the sample before are gone.
    pub(crate) fn fill(&mut self, events: &EventTable, event: usize, view: &SampleView<'_>) {
        self.rows.clear();
        let Some(attr) = events.get(event).map(|event| &event.attr) else {
            return;
        };
        let in_force = self.in_force.get(event).filter(|period| **period > 0);
        let in_force = in_force.copied().unwrap_or(attr.sample_period);
        let own = view.period().unwrap_or(in_force);
        let reads = attr.samples(sample::READ).then(|| view.read()).flatten();
        let Some(reads) = reads else {
            self.rows.push(Row { event, period: own });
            return;
        };
        for value in reads.iter() {
            let Some(id) = value.id else {
                self.rows.push(Row { event, period: own });
                return;
            };
            let Some(member) = events.index_of_id(id) else {
                continue;
            };
            let before = self.last.insert(id, value.value).unwrap_or(0);
            let period = value.value.wrapping_sub(before);
            if period != 0 {
                self.rows.push(Row {
                    event: member,
                    period,
                });
            }
        }
    }

    /// The last values alone, to come back to.
    pub(crate) fn values(&self) -> Option<&FxHashMap<u64, u64>> {
        (!self.last.is_empty()).then_some(&self.last)
    }

    /// Goes back to earlier values.
    pub(crate) fn set_values(&mut self, values: FxHashMap<u64, u64>) {
        self.last = values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::file::Event;
    use memwide_perf_abi::{Attr, RawRecord, ReadValue, SampleFields, encode, read_format};

    fn group() -> EventTable {
        let attr = Attr {
            sample_type: sample::IDENTIFIER | sample::READ | sample::PERIOD,
            read_format: read_format::GROUP | read_format::ID,
            ..Attr::default()
        };
        let event = |id: u64, name: &str| Event::new(attr.clone(), vec![id], name.into());
        EventTable::new(vec![event(7, "leader"), event(8, "member")])
    }

    fn rows(events: &EventTable, state: &mut GroupReads, values: &[(u64, u64)]) -> Vec<Row> {
        let read: Vec<_> = values
            .iter()
            .map(|(id, value)| ReadValue {
                value: *value,
                id: Some(*id),
                lost: None,
            })
            .collect();
        let fields = SampleFields {
            id: 7,
            period: 1000,
            read: &read,
            ..SampleFields::default()
        };
        let layout = events.get(0).unwrap().layout.unwrap();
        let mut bytes = Vec::new();
        encode::sample(&mut bytes, &fields, 2, &layout).unwrap();
        let record = RawRecord::new(&bytes).unwrap();
        let view = SampleView::parse(record.body(), &layout).unwrap();
        state.fill(events, 0, &view);
        state.rows.clone()
    }

    #[test]
    fn each_member_gets_a_row_with_its_own_difference() {
        let events = group();
        let row = |event, period| Row { event, period };
        let mut state = GroupReads::default();
        let first = rows(&events, &mut state, &[(7, 100), (8, 5)]);
        assert_eq!(first, [row(0, 100), row(1, 5)]);
        let second = rows(&events, &mut state, &[(7, 250), (8, 5), (99, 3)]);
        assert_eq!(
            second,
            [row(0, 150)],
            "no row for no difference, nor for an unknown id"
        );
    }
}

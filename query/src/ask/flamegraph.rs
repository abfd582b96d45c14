//! Call paths with what was sampled in them, apart for each event: what flame graphs and exports are made of.

use super::filter::{Dimension, Filter};
use super::functions::{BY, Estimator};
use super::grouped::{Grouped, Output};
use super::samples::conditions;
use super::table::Source;
use super::{Ask, AskError, Extra, Given, LIMIT_MAX, Plan};
use crate::answer::Answer;
use crate::statement::Statement;

/// The question `flamegraph`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flamegraph {
    /// Range, filters, rows.
    pub filter: Filter,
    /// What widths are, and what orders paths.
    pub by: Estimator,
}

/// A frame's name: frames are parted by semicolons.
const FRAME: &str = "replaceAll(multiIf(f.function != '', f.function, f.module != '', concat('[', f.module, ']'), '[unknown]'), ';', ':')";

impl Ask for Flamegraph {
    const DIMENSIONS: &'static [Dimension] = Dimension::ALL;
    const EXTRA: &'static [Extra] = &[BY];
    const LIMIT: u32 = LIMIT_MAX;

    fn read(filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self {
            filter,
            by: Estimator::given(given)?,
        })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let mut statement = Statement::default();
        let with = [
            "tier",
            "event",
            "latency_kind",
            "stack_id",
            "function",
            "module",
        ];
        let source = Source::sampled(&mut statement, filter, &with, &[]);
        let conditions = conditions(&mut statement, filter, filter.range);
        let frames = format!(
            "SELECT st.stack_id AS stack_id, st.at AS at, {FRAME} AS name FROM \
             (SELECT stack_id, at, location FROM (SELECT k.stack_id AS stack_id, any(k.locations) AS locations FROM stacks AS k \
             WHERE k.stack_id IN (SELECT s.stack_id FROM samples AS s WHERE {conditions} AND s.stack_id != 0) GROUP BY stack_id) \
             ARRAY JOIN locations AS location, arrayEnumerate(locations) AS at) AS st \
             LEFT JOIN (SELECT l.location_id AS location_id, argMax(l.function_id, l.last_seen) AS function_id FROM locations AS l \
             GROUP BY location_id) AS l ON l.location_id = st.location \
             LEFT JOIN late_functions AS late ON late.location_id = st.location AND late.stored_as = l.function_id \
             LEFT JOIN function_names AS f ON f.function_id = if(late.function_id != 0, late.function_id, l.function_id)"
        );
        let paths = format!(
            "SELECT stack_id, arrayStringConcat(arrayReverse(arrayMap(frame -> frame.2, arraySort(groupArray((at, name))))), ';') \
             AS path FROM ({frames}) GROUP BY stack_id"
        );
        // A sample without a callchain is a path of its function alone.
        let source = source.wrapped(
            &format!(
                "s.*, if(p.path != '', p.path, {}) AS path",
                FRAME.replace("f.", "s.")
            ),
            &format!("LEFT JOIN ({paths}) AS p ON p.stack_id = s.stack_id"),
        );
        let keys = ["path", "tier", "event", "latency_kind"];
        let [weight, est_events, latency_cycles] = Output::estimators(&source);
        let mut outputs: Vec<Output> = keys.iter().map(|key| Output::key(key)).collect();
        outputs.extend([
            Output::samples(&source),
            weight,
            est_events,
            latency_cycles,
            Output::hosts(&source),
        ]);
        let shape = Grouped {
            order: self.by.name(),
            partition: &["tier", "event"],
            having: "",
        };
        shape.of_samples(filter, statement, &source, &outputs)
    }

    fn conclude(&self, answer: &mut Answer) {
        answer.notes.push("`path` goes from the outermost caller to the sampled function; a sample without a callchain is a path of its function alone".to_owned());
    }
}

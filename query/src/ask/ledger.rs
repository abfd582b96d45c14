//! What is stored and what is missing, by host, event and reason.

use super::filter::{Dimension, Filter};

use super::time::{MINUTE_NS, time_condition};
use super::{Ask, AskError, Extra, Given, Plan};
use crate::answer::Column;
use crate::statement::Statement;

/// Filters that lines of the ledger know.
const DIMENSIONS: &[Dimension] = &[Dimension::Host, Dimension::Event, Dimension::Tier];

/// The question `ledger`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// Range, filters, rows.
    pub filter: Filter,
}

impl Ask for Ledger {
    const DIMENSIONS: &'static [Dimension] = DIMENSIONS;
    const EXTRA: &'static [Extra] = &[];

    fn read(filter: Filter, _: &Given<'_>) -> Result<Self, AskError> {
        Ok(Self { filter })
    }

    fn plan(&self) -> Plan {
        let filter = &self.filter;
        let range = filter.range.outwards(MINUTE_NS);
        let mut statement = Statement::default();
        let mut conditions = vec![time_condition(&mut statement, false, range)];
        for (dimension, values) in filter.dimensions() {
            conditions.push(format!(
                "{} IN ({})",
                dimension.name(),
                statement.texts(values)
            ));
        }
        statement.sql = format!(
            "SELECT host, tier, event, reason, sum(records) AS c4, sum(seconds) AS c5 FROM ledger_1m WHERE {} \
             GROUP BY host, tier, event, reason ORDER BY host, tier, event, reason LIMIT {}",
            conditions.join(" AND "),
            u64::from(filter.limit) + 1,
        );
        Plan {
            statement,
            columns: vec![
                Column::text("host"),
                Column::text("tier"),
                Column::text("event"),
                Column::text("reason"),
                Column::number("records", "records"),
                Column::real("seconds", "seconds"),
            ],
            table: "ledger_1m",
            limit: filter.limit,
            range,
            hosts: filter.values(Dimension::Host).to_vec(),
            hidden: Vec::new(),
            notes: Vec::new(),
        }
    }
}

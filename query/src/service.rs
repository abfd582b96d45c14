//! Questions in, answers out: the part that HTTP and gRPC share.

use std::sync::Arc;
use std::time::Duration;

use memwide_service::clock;
use memwide_store::{Request, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::answer::{Answer, Column, Completeness, Part, Value};
use crate::ask::time::{MINUTE_NS, text};
use crate::ask::{
    DarkTimes, Filter, HostCounts, LedgerCounts, PartPlan, Plan, Question, Range, note_kinds,
    notes_of_completeness, why,
};
use crate::config::Limits;
use crate::problem::{Class, Problem};
use crate::recording;
use crate::rules::Rules;
use crate::statement::Statement;
use crate::status::{Status, StatusDetail};

/// Tables of samples and of sums of them.
const SAMPLED: &[&str] = &["samples", "mix_1m", "functions", "fleet_1h", "fleet_1d"];

/// Answers questions from a store that may come and go.
#[derive(Debug, Clone)]
pub struct Service {
    pub(crate) limits: Limits,
    stores: watch::Receiver<Option<Store>>,
    status: watch::Receiver<StatusDetail>,
    places: Arc<Semaphore>,
    /// Of those, what statements that people typed may take: questions always find room beside them.
    typed: Arc<Semaphore>,
    rules: Rules,
}

/// A statement as a client of ClickHouse sends it.
#[derive(Debug)]
pub(crate) struct Relayed<'a> {
    pub(crate) sql: &'a str,
    /// Values as ClickHouse writes them.
    pub(crate) params: &'a [(String, String)],
    /// Settings that it may set; limits among them only lower ours.
    pub(crate) settings: &'a [(String, String)],
    pub(crate) format: &'a str,
}

impl Service {
    /// `stores` holds the store as its reader sees it, once there is one.
    pub fn new(
        limits: Limits,
        stores: watch::Receiver<Option<Store>>,
        status: watch::Receiver<StatusDetail>,
    ) -> Self {
        let at_once = limits.at_once.max(1);
        let places = Arc::new(Semaphore::new(at_once));
        let typed = Arc::new(Semaphore::new((at_once * 3 / 4).max(1)));
        Self {
            limits,
            stores,
            status,
            places,
            typed,
            rules: Rules::default(),
        }
    }

    /// The same with standing rules.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Its standing rules.
    pub(crate) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Answers one question. Dropping the future stops the statements.
    pub async fn answer(&self, question: &Question) -> Result<Answer, Problem> {
        let plan = question.plan();
        let columns = plan.columns_read();
        let (rows, completeness) = tokio::try_join!(
            self.rows(&plan.statement, &columns),
            self.completeness(&plan)
        )?;
        let mut rows = rows;
        let (mut notes, other) = plan.finish(&mut rows);
        let mut parts = Vec::new();
        for part in question.more(&plan, &rows) {
            parts.push(Part {
                name: part.name,
                rows: self.rows(&part.statement, &part.columns).await?,
                columns: part.columns,
            });
        }
        plan.strip(&mut rows);
        notes.extend(notes_of_completeness(&completeness, plan.range));
        let mut answer = Answer {
            columns: plan.columns,
            rows,
            parts,
            other,
            completeness,
            source_table: plan.table,
            notes,
        };
        question.conclude(&mut answer);
        note_kinds(&mut answer);
        let further = self.explained(question, &answer).await;
        answer.notes.extend(further);
        Ok(answer)
    }

    /// Why there are no rows, and which values of filters nobody knows. What cannot be found out is left out.
    async fn explained(&self, question: &Question, answer: &Answer) -> Vec<String> {
        let ask = async |part: PartPlan| {
            let rows = self.rows(&part.statement, &part.columns).await;
            rows.map_err(|problem| tracing::debug!(%problem, part.name, "not explained"))
        };
        let (filter, is_empty) = (question.filter(), answer.rows.is_empty());
        let mut notes = Vec::new();
        if is_empty && SAMPLED.contains(&answer.source_table) {
            let counted = ask(why::counts(filter)).await;
            let stored = ask(why::stored(filter)).await;
            if let (Ok(counted), Ok(stored)) = (counted, stored) {
                notes.extend(why::empty(question.name(), filter, &counted, &stored));
            }
        }
        for (dimension, values) in filter.dimensions() {
            // One value that led to rows is known.
            if !is_empty && values.len() < 2 {
                continue;
            }
            let Some(part) = why::unknown(filter, dimension) else {
                continue;
            };
            for value in ask(part).await.unwrap_or_default().iter().flatten() {
                let value = value.to_string();
                let near = match why::near(filter, dimension, &value) {
                    Some(part) => ask(part).await.unwrap_or_default(),
                    None => Vec::new(),
                };
                notes.push(why::of_unknown(dimension, &value, &near));
            }
        }
        notes
    }

    /// The samples that pass the filter as a perf.data file; they have to be of one host.
    pub(crate) async fn recording(
        &self,
        filter: &Filter,
    ) -> Result<(Vec<u8>, Completeness), Problem> {
        let ask = async |part: PartPlan| self.rows(&part.statement, &part.columns).await;
        let size = ask(recording::ask::size(filter)).await?;
        let name = recording::of_one_host(filter, &size)?;
        let (samples, events, stacks, places, mappings, host) = tokio::try_join!(
            ask(recording::ask::samples(filter)),
            ask(recording::ask::events(filter)),
            ask(recording::ask::stacks(filter)),
            ask(recording::ask::places(filter)),
            ask(recording::ask::mappings(filter)),
            ask(recording::ask::host(&name)),
        )?;
        let rows = recording::Rows {
            samples,
            events,
            stacks,
            places,
            mappings,
            host,
            name,
        };
        let completeness = self.completeness_of(filter.range, vec![rows.name.clone()]);
        let completeness = completeness.await?;
        let written = tokio::task::spawn_blocking(move || recording::write(&rows)).await;
        let unwritten = |detail: String| Problem {
            class: Class::Internal,
            title: "the recording cannot be written",
            detail,
            remedy: "report this with the question and the log of the query service".to_owned(),
        };
        let file = written
            .map_err(|error| unwritten(error.to_string()))?
            .map_err(|error| unwritten(error.to_string()))?;
        Ok((file, completeness))
    }

    /// The completeness of what was stored over a range of these hosts, or of all where none is named.
    pub(crate) async fn completeness_of(
        &self,
        range: Range,
        hosts: Vec<String>,
    ) -> Result<Completeness, Problem> {
        let plan = Plan {
            statement: Statement::default(),
            columns: Vec::new(),
            hidden: Vec::new(),
            table: "",
            limit: 0,
            range,
            hosts,
            notes: Vec::new(),
        };
        self.completeness(&plan).await
    }

    async fn completeness(&self, plan: &Plan) -> Result<Completeness, Problem> {
        let (ledger, hosts) = (plan.ledger_statement(), plan.hosts_statement());
        let (dark, in_range) = (plan.dark_statement(), plan.in_range_statement());
        let (ledger_columns, host_columns) = (LedgerCounts::columns(), HostCounts::columns());
        let (dark_columns, count) = (DarkTimes::columns(), [Column::number("rows", "rows")]);
        let counted = async {
            match &in_range {
                Some(statement) => self.rows(statement, &count).await.map(Some),
                None => Ok(None),
            }
        };
        let (ledger, hosts, dark, counted) = tokio::try_join!(
            self.rows(&ledger, &ledger_columns),
            self.rows(&hosts, &host_columns),
            self.rows(&dark, &dark_columns),
            counted,
        )?;
        let minutes = plan.range.outwards(MINUTE_NS);
        let mut completeness = Completeness {
            since: text(minutes.since_ns),
            until: text(minutes.until_ns),
            samples_in_range: counted.and_then(|rows| match rows.first()?.first()? {
                Value::Number(rows) => Some(*rows),
                _ => None,
            }),
            ..Completeness::default()
        };
        LedgerCounts::read(&ledger, &mut completeness);
        HostCounts::read(&hosts, &mut completeness);
        DarkTimes::read(&dark, &mut completeness);
        Ok(completeness)
    }

    /// Rows of one of our own statements, typed as `columns` say.
    async fn rows(
        &self,
        statement: &Statement,
        columns: &[Column],
    ) -> Result<Vec<Vec<Value>>, Problem> {
        let mut request = self.limited(&statement.sql, "JSONCompactEachRow");
        for (name, value) in &statement.params {
            request = request.param(name, value);
        }
        let store = self.store()?;
        let place = self.place().await?;
        let answer = store.query(request).await;
        drop(place);
        let answer = answer.map_err(|error| self.failed(&error, &statement.sql))?;
        read_rows(&answer, columns)
    }

    /// Runs a statement that a person typed, through the guard; the answer comes as `format`.
    pub(crate) async fn guarded(
        &self,
        sql: &str,
        params: &[(String, String)],
        format: &str,
    ) -> Result<bytes::Bytes, Problem> {
        let rows = self.limits.rows;
        let mut request = self
            .limited(sql, format)
            .setting("max_result_rows", rows)
            .setting("result_overflow_mode", "throw")
            // JSON knows neither: they would become null, or lose digits.
            .setting("output_format_json_quote_denormals", 1)
            .setting("output_format_json_quote_decimals", 1);
        for (name, value) in params {
            request = request.param(name, value);
        }
        let store = self.store()?;
        let place = self.typed_place().await?;
        let answer = store.guarded(request).await;
        drop(place);
        answer.map_err(|error| Problem::from_store(&error, &self.limits))
    }

    /// The name of the store's database; `None`: the store is not there.
    pub(crate) fn database(&self) -> Option<String> {
        let store = self.stores.borrow();
        store.as_ref().map(|store| store.database().to_owned())
    }

    /// Runs a statement that a client of ClickHouse sent, through the guard. A problem comes with the store's own code.
    pub(crate) async fn relayed(
        &self,
        asked: Relayed<'_>,
    ) -> Result<bytes::Bytes, (Option<u32>, Problem)> {
        let mut request = self
            .limited(asked.sql, asked.format)
            .setting("max_result_rows", self.limits.rows)
            .setting("result_overflow_mode", "throw");
        let mut limits = self.limits;
        for (name, value) in asked.settings {
            let own = match name.as_str() {
                "max_execution_time" => u64::from(self.limits.seconds),
                "max_memory_usage" => self.limits.memory_bytes,
                "max_result_rows" => self.limits.rows,
                _ => 0,
            };
            // Limits are lowered, never raised; 0 is no limit.
            request = match value.parse::<u64>() {
                Ok(asked) if own > 0 => {
                    let asked = if asked == 0 { own } else { asked.min(own) };
                    match name.as_str() {
                        "max_execution_time" => {
                            limits.seconds = u32::try_from(asked).unwrap_or(limits.seconds);
                        }
                        "max_memory_usage" => limits.memory_bytes = asked,
                        _ => limits.rows = asked,
                    }
                    request.setting(name, asked)
                }
                Err(_) if own > 0 => continue,
                _ => request.setting(name, value),
            };
        }
        for (name, value) in asked.params {
            request = request.written_param(name, value);
        }
        let relayed = async {
            let store = self.store().map_err(|problem| (None, problem))?;
            let _place = self
                .typed_place()
                .await
                .map_err(|problem| (None, problem))?;
            store.guarded(request).await.map_err(|error| {
                let code = match &error {
                    StoreError::Exception { code, .. } => *code,
                    _ => None,
                };
                (code, Problem::from_store(&error, &limits))
            })
        };
        relayed.await
    }

    /// A request under the limits that hold for everything.
    fn limited(&self, sql: &str, format: &str) -> Request {
        let request = Request::new(sql, format)
            .setting("max_execution_time", self.limits.seconds)
            .setting("cancel_http_readonly_queries_on_client_close", 1)
            .answer_bytes(self.limits.answer_bytes);
        match self.limits.memory_bytes {
            0 => request,
            bytes => request.setting("max_memory_usage", bytes),
        }
    }

    fn store(&self) -> Result<Store, Problem> {
        self.stores.borrow().clone().ok_or_else(Problem::not_ready)
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.within(taken(&self.places)).await
    }

    /// A place for a statement that somebody typed.
    async fn typed_place(&self) -> Result<[OwnedSemaphorePermit; 2], Problem> {
        let both = async { Ok([taken(&self.typed).await?, taken(&self.places).await?]) };
        self.within(both).await
    }

    /// A place, once there is one; nobody waits longer than a statement may take.
    async fn within<T>(
        &self,
        places: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let wait = Duration::from_secs(self.limits.seconds.into());
        let waited = tokio::time::timeout(wait, places).await;
        waited.unwrap_or_else(|_| Err(Problem::busy(&self.limits)))
    }

    /// One of our own statements failed: unless the store is away or busy, that is ours to mend.
    fn failed(&self, error: &StoreError, sql: &str) -> Problem {
        let mut problem = Problem::from_store(error, &self.limits);
        if problem.class == Class::Question || problem.class == Class::Forbidden {
            tracing::error!(error = %memwide_service::telemetry::Chain(error), sql, "a question's statement failed");
            problem.class = Class::Internal;
            problem.title = "the question's statement failed";
            "report this with the question and the log of the query service"
                .clone_into(&mut problem.remedy);
        }
        problem
    }

    /// How everything is.
    pub async fn status(&self) -> Status {
        let detail = self.status.borrow().clone();
        let (mut store, mut rows) = (Err(Problem::not_ready()), false);
        if self.stores.borrow().is_some() {
            let statement = Statement {
                sql: "SELECT count() > 0 FROM mix_1m".to_owned(),
                params: Vec::new(),
            };
            let column = [Column::number("rows", "rows")];
            store = self.rows(&statement, &column).await.map(|answer| {
                rows = answer
                    .first()
                    .is_some_and(|row| row.first() == Some(&Value::Number(1)));
            });
        }
        Status {
            detail,
            store: store.map_err(|problem| problem.to_string()),
            rows,
        }
    }

    /// Wall time.
    pub(crate) fn now_ns() -> u64 {
        clock::unix_ns()
    }
}

/// Lines of JSON arrays as typed rows.
fn read_rows(answer: &[u8], columns: &[Column]) -> Result<Vec<Vec<Value>>, Problem> {
    let unusable = |detail: String| Problem {
        class: Class::Internal,
        title: "the store's answer cannot be used",
        detail,
        remedy: "look at the log of the query service".to_owned(),
    };
    let text = String::from_utf8_lossy(answer); // names of a traced program may hold any bytes
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let cells: Vec<serde_json::Value> =
            serde_json::from_str(line).map_err(|error| unusable(error.to_string()))?;
        if cells.len() != columns.len() {
            return Err(unusable(format!(
                "{} columns instead of {}",
                cells.len(),
                columns.len()
            )));
        }
        let mut row = Vec::with_capacity(cells.len());
        for (cell, column) in cells.into_iter().zip(columns) {
            let value = Value::read(column.kind, cell);
            row.push(value.ok_or_else(|| {
                unusable(format!(
                    "column `{}` is no {}",
                    column.name,
                    column.kind.name()
                ))
            })?);
        }
        rows.push(row);
    }
    Ok(rows)
}

async fn taken(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let place = Arc::clone(places).acquire_owned().await;
    place.map_err(|_| Problem::not_ready())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::text("a"),
        Column::number("b", ""),
        Column::real("c", ""),
    ];

    #[test]
    fn rows_are_typed_and_hostile_names_are_kept_readable() {
        let rows = read_rows(
            b"[\"x\\u0000<b>\", 18446744073709551615, null]\n[\"\xff\", \"7\", 1e3]\n",
            COLUMNS,
        )
        .unwrap();
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            rows[0],
            [text("x\0<b>"), Value::Number(u64::MAX), Value::Null]
        );
        assert_eq!(
            rows[1],
            [text("\u{fffd}"), Value::Number(7), Value::Real(1000.0)]
        );
    }

    #[test]
    fn an_answer_of_another_shape_is_an_error_that_says_so() {
        for (answer, says) in [
            ("[1]", "1 columns instead of 3"),
            ("[1,1,1]", "`a` is no string"),
            ("[", "EOF"),
        ] {
            let detail = read_rows(answer.as_bytes(), COLUMNS).unwrap_err().detail;
            assert!(detail.contains(says), "{detail}");
        }
    }
}

//! A day made anew in a database beside the live one, held against it, and put in its place (`docs/archive.md`).
//!
//! The database beside has the whole schema, so hours are closed there by the same statements. Nothing of the live database
//! changes before [`RemadeDay::replace`], which can be repeated: each table's day is replaced whole, by the same rows.

use bytes::Bytes;
use serde::Deserialize;

use super::{close_calls, close_details, close_functions_1h};
use crate::client::{Request, Store};
use crate::error::StoreError;
use crate::rows::NativeBlock;

/// End of the name of the database beside.
pub const BESIDE: &str = "_redecode";

/// Tables of which a day is replaced, and for how many days they are kept. `offcpu_1m` is not among them: a spell belongs to the
/// day it began and may end in another.
const TABLES: &[(&str, u64)] = &[
    ("samples", 3),
    ("mix_1m", 14),
    ("fleet_1h", 400),
    ("functions_1h", 90),
    ("fleet_1d", 400),
    ("sites_1h", 90),
    ("latency_1h", 90),
    ("data_1h", 90),
    ("pages_1h", 30),
    ("lines_1m", 14),
    ("faults_1m", 14),
    ("allocs_1m", 14),
];

/// Those that hold every sample: by which time their rows are, and what counts samples.
const WHOLE: &[(&str, &str, &str)] = &[
    ("samples", "toStartOfMinute(time)", "count()"),
    ("mix_1m", "time", "sum(n)"),
    ("functions_1h", "time", "sum(n)"),
    ("data_1h", "time", "sum(n)"),
    ("fleet_1h", "time", "sum(n)"),
    ("fleet_1d", "time", "sum(n)"),
];

/// Tables without hosts.
const HOSTLESS: &[&str] = &["fleet_1h", "fleet_1d"];

/// Names; rows of one content add up to one.
const DEFINITIONS: &[&str] = &[
    "events",
    "functions_def",
    "mappings",
    "symbols",
    "locations",
    "nameless",
    "stacks",
    "data_def",
    "workloads",
];

/// Reasons that depend on symbols and on who decodes, and are replaced too. All others are as they were.
const OF_NAMES: &str = "'unresolved', 'nameless', 'partial'";

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// Differences that are told one by one.
const SHOWN: usize = 10;

/// A total of the day that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Difference {
    /// Table, and in the ledger the reason.
    pub what: String,
    /// Name of the host; empty in tables without hosts.
    pub host: String,
    /// Begin of the minute, hour or day, UTC.
    pub time: String,
    /// What is stored.
    pub stored: u64,
    /// What was made of the archive.
    pub made: u64,
}

/// Totals of the day, stored and made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Totals {
    /// Samples by the ledger.
    pub stored: u64,
    /// Samples made.
    pub made: u64,
    /// Stored samples without a name, by the ledger.
    pub nameless: u64,
    /// Those made.
    pub nameless_made: u64,
}

/// When the day's rows of a partition count as ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Dated {
    /// The partition.
    pub part: u16,
    /// At the latest, seconds since 1970 UTC: as the stored samples were, and closed.
    pub until: u32,
}

/// A day in the making.
#[derive(Debug, Clone)]
pub struct RemadeDay {
    live: Store,
    made: Store,
    day: String,
    /// Tables that keep the day.
    tables: Vec<&'static str>,
}

const CLOSED: &str = "SELECT part, min(closed) AS through FROM ( \
    SELECT part, toUnixTimestamp(max(closed_through)) AS closed FROM closes GROUP BY part \
    UNION ALL SELECT part, toUnixTimestamp(max(closed_through)) FROM closes_of_details GROUP BY part \
    UNION ALL SELECT part, toUnixTimestamp(max(closed_through)) FROM closes_of_calls GROUP BY part) \
    GROUP BY part HAVING count() = 3";

impl RemadeDay {
    /// Begins a day, written `2026-11-30`, in an empty database beside that of `live`; what an earlier attempt left is removed.
    /// `now_s` says which tables keep the day still, seconds since 1970 UTC.
    pub async fn begin(live: &Store, day: &str, now_s: u64) -> Result<Self, StoreError> {
        let mut remade = Self {
            live: live.clone(),
            made: live.beside(BESIDE),
            day: day.to_owned(),
            tables: Vec::new(),
        };
        remade.remove().await?;
        remade.made.migrate().await?;
        let last = format!(
            "SELECT toUnixTimestamp(greatest(toDateTime(toDate('{day}') + 1, 'UTC'), max(ingested))) AS found \
             FROM ledger_1m WHERE toDate(time) = '{day}'"
        );
        let age_s = now_s.saturating_sub(number(live, &last).await?);
        for (table, days) in TABLES {
            // Also where somebody keeps it for longer.
            if age_s < days * DAY_S || remade.rows(live, table).await? > 0 {
                remade.tables.push(table);
            }
        }
        Ok(remade)
    }

    async fn rows(&self, of: &Store, table: &str) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count() AS found FROM `{}`.{table} WHERE toDate(time) = '{}'",
            of.database(),
            self.day
        );
        number(&self.live, &sql).await
    }

    /// Removes the database beside.
    pub async fn remove(&self) -> Result<(), StoreError> {
        let beside = self.made.database();
        self.live
            .execute_bare(&format!("DROP DATABASE IF EXISTS `{beside}` SYNC"))
            .await
    }

    /// When rows are to count as ingested, of each partition that is closed. As late as the stored ones: so they are kept as long,
    /// and nothing that looks at what came lately meets them.
    pub async fn dated(&self) -> Result<Vec<Dated>, StoreError> {
        let sql = format!(
            "SELECT c.part AS part, if(s.last = 0, c.through, least(c.through, s.last)) AS until FROM ({CLOSED}) AS c \
             LEFT JOIN (SELECT part, toUnixTimestamp(max(ingested)) AS last FROM samples WHERE toDate(time) = '{}' GROUP BY part) \
             AS s ON s.part = c.part",
            self.day
        );
        self.live.rows(Request::new(sql, "")).await
    }

    /// Samples of the day that are not closed into tables of hours yet.
    pub async fn not_closed(&self) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count() AS found FROM samples AS s LEFT JOIN ({CLOSED}) AS c ON c.part = s.part \
             WHERE toDate(s.time) = '{}' AND toUnixTimestamp(s.ingested) > c.through",
            self.day
        );
        number(&self.live, &sql).await
    }

    /// Whether a block's rows belong to the day, days since 1970: facts of it, and names. Readings and hosts stay as they are.
    pub fn takes(block: &NativeBlock, day: u16) -> bool {
        let is_fact =
            block.table == "ledger_1m" || TABLES.iter().any(|(one, _)| *one == block.table);
        DEFINITIONS.contains(&block.table) || (is_fact && block.day == day)
    }

    /// Adds rows; `token` is new with each block.
    pub async fn insert(&self, block: NativeBlock, token: &str) -> Result<(), StoreError> {
        let view = crate::native::walk(&block.bytes)?;
        let columns: Vec<String> = view.names().iter().map(|name| (*name).to_owned()).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let native = Bytes::from(block.bytes);
        self.made
            .insert_native(block.table, &columns, token, native)
            .await
    }

    /// Closes what was added of a partition with ingest times in (`after`, `through`].
    pub async fn close(&self, part: u16, after: u32, through: u32) -> Result<(), StoreError> {
        let functions = close_functions_1h(part, after, through);
        let mut all = vec![("functions_1h", functions)];
        all.extend(close_details(part, after, through));
        all.extend(close_calls(part, after, through));
        for (table, sql) in all {
            if TABLES.iter().any(|(one, _)| *one == table) {
                let token = format!("redecode/{part}/{after}-{through}");
                self.made.insert_select(&sql, &token).await?;
            }
        }
        Ok(())
    }

    /// The day's totals.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        let sums = |database: &Store| {
            format!(
                "SELECT sumIf(records, reason = 'stored') AS stored, \
                 sumIf(records, reason IN ('unresolved', 'nameless')) AS nameless \
                 FROM `{}`.ledger_1m WHERE toDate(time) = '{}'",
                database.database(),
                self.day
            )
        };
        let sql = format!(
            "SELECT l.stored AS stored, m.stored AS made, l.nameless AS nameless, m.nameless AS nameless_made \
             FROM ({}) AS l CROSS JOIN ({}) AS m",
            sums(&self.live),
            sums(&self.made)
        );
        let rows: Vec<Totals> = self.live.rows(Request::new(sql, "")).await?;
        Ok(rows.first().copied().unwrap_or_default())
    }

    /// Totals by host and minute that are not what they were, and how many there are: of the ledger, by source too, and of the
    /// tables that hold every sample and keep the day still.
    pub async fn differences(&self) -> Result<(Vec<Difference>, u64), StoreError> {
        let mut asked = vec![self.ledger_differences()];
        let kept = WHOLE
            .iter()
            .filter(|(table, ..)| self.tables.contains(table));
        asked.extend(kept.map(|(table, time, n)| self.table_differences(table, time, n)));
        let mut count = 0;
        let mut shown = Vec::new();
        for sql in asked {
            count += number(&self.live, &format!("SELECT count() AS found FROM ({sql})")).await?;
            let first = format!("{sql} ORDER BY host, time LIMIT {SHOWN}");
            let rows: Vec<Difference> = self.live.rows(Request::new(first, "")).await?;
            shown.extend(rows);
        }
        shown.truncate(SHOWN);
        Ok((shown, count))
    }

    fn ledger_differences(&self) -> String {
        let rows = |database: &Store, stored: &str, made: &str| {
            format!(
                "SELECT concat('ledger: ', toString(reason)) AS what, source_id, host, toString(time) AS time, \
                 {stored} AS stored, {made} AS made FROM `{}`.ledger_1m \
                 WHERE toDate(time) = '{}' AND reason NOT IN ({OF_NAMES}, 'refused')",
                database.database(),
                self.day
            )
        };
        self.compare(rows, "records", "what, source_id, host, time")
    }

    fn table_differences(&self, table: &str, by: &str, n: &str) -> String {
        let host = if HOSTLESS.contains(&table) {
            "''"
        } else {
            "host"
        };
        let rows = |database: &Store, stored: &str, made: &str| {
            format!(
                "SELECT '{table}' AS what, toString({host}) AS host, toString({by}) AS time, {stored} AS stored, {made} AS made \
                 FROM `{}`.{table} WHERE toDate(time) = '{}' GROUP BY host, time",
                database.database(),
                self.day
            )
        };
        self.compare(rows, n, "what, host, time")
    }

    fn compare(&self, rows: impl Fn(&Store, &str, &str) -> String, n: &str, keys: &str) -> String {
        format!(
            "SELECT what, host, time, toUInt64(sum(u.stored)) AS stored, toUInt64(sum(u.made)) AS made \
             FROM ({} UNION ALL {}) AS u GROUP BY {keys} HAVING stored != made",
            rows(&self.live, n, "0"),
            rows(&self.made, "0", n),
        )
    }

    /// Puts the day in the place of the stored one, table by table; `go` is asked before each whether there is time for it.
    /// False: there was not. Repeated, it ends alike.
    pub async fn replace(&self, go: impl Fn() -> bool) -> Result<bool, StoreError> {
        let (live, made) = (self.live.database(), self.made.database());
        let mut statements: Vec<String> = DEFINITIONS
            .iter()
            .map(|table| format!("INSERT INTO `{live}`.{table} SELECT * FROM `{made}`.{table}"))
            .collect();
        // The ledger keeps what it says, but for lines about names.
        let (new, day) = (format!("`{made}`.ledger_new"), &self.day);
        statements.extend([
            format!("DROP TABLE IF EXISTS {new} SYNC"),
            format!("CREATE TABLE {new} AS `{live}`.ledger_1m"),
            format!(
                "INSERT INTO {new} SELECT * FROM `{live}`.ledger_1m WHERE toDate(time) = '{day}' AND reason NOT IN ({OF_NAMES})"
            ),
            format!(
                "INSERT INTO {new} SELECT * FROM `{made}`.ledger_1m WHERE toDate(time) = '{day}' AND reason IN ({OF_NAMES})"
            ),
        ]);
        for statement in statements {
            if !go() {
                return Ok(false);
            }
            self.live.execute(&statement).await?;
        }
        for table in self.tables.iter().chain(&["ledger_1m"]) {
            if !go() {
                return Ok(false);
            }
            let from = if *table == "ledger_1m" {
                "ledger_new"
            } else {
                table
            };
            // What has no rows replaces nothing: the engine wants that said.
            let what = if self.rows(&self.made, from).await? == 0 {
                self.still_made().await?;
                format!("DROP PARTITION '{day}'")
            } else {
                format!("REPLACE PARTITION '{day}' FROM `{made}`.{from}")
            };
            let statement = format!("ALTER TABLE `{live}`.{table} {what}");
            self.live.execute(&statement).await?;
        }
        Ok(true)
    }
}

impl RemadeDay {
    /// Nobody emptied what was made: else rows would be dropped for nothing.
    async fn still_made(&self) -> Result<(), StoreError> {
        for &(table, ..) in WHOLE
            .iter()
            .filter(|(table, ..)| self.tables.contains(table))
        {
            if self.rows(&self.made, table).await? == 0 && self.rows(&self.live, table).await? > 0 {
                return Err(StoreError::MadeGone { table });
            }
        }
        Ok(())
    }
}

async fn number(store: &Store, sql: &str) -> Result<u64, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        found: u64,
    }
    let rows: Vec<Row> = store.rows(Request::new(sql, "")).await?;
    Ok(rows.first().map_or(0, |row| row.found))
}

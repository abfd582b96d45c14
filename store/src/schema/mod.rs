//! The schema: numbered migrations, applied once, in order, and remembered with a checksum.
//!
//! A migration is a file of statements for one machine or a cluster: what differs between them stands as `${…}`.
//! Every statement can be repeated, so that a migration broken off by a crash is simply applied again.

mod close;
mod day;
mod render;

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::client::{Request, Store};
use crate::error::StoreError;
use render::{Target, render};

pub use close::{close_calls, close_details, close_functions_1h};
pub use day::{BESIDE, Dated, Difference, RemadeDay, Totals};

/// Why the schema of a store cannot be brought up to date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Database and cluster names go into statements as they are.
    #[error(
        "`{0}` cannot be a name here: use letters, digits and `_`, at most 64, not a digit first"
    )]
    Name(String),
    /// A newer memwide was here.
    #[error(
        "database `{database}` has migration {found}, this memwide knows {known}: update memwide, or use another database"
    )]
    Newer {
        /// The database.
        database: String,
        /// Its last migration.
        found: u32,
        /// The last one known.
        known: u32,
    },
    /// A migration that was applied is not the one of this memwide.
    #[error(
        "migration {number} ({name}) was applied to database `{database}` with other content: use the memwide that made it, or another database"
    )]
    Changed {
        /// The database.
        database: String,
        /// The migration.
        number: u32,
        /// Its name.
        name: &'static str,
    },
    /// A migration's text holds a placeholder that is not known.
    #[error("migration text holds the unknown placeholder `{0}`")]
    Placeholder(String),
}

/// One migration.
#[derive(Debug)]
struct Migration {
    number: u32,
    name: &'static str,
    text: &'static str,
}

macro_rules! migrations {
    ($($number:literal $name:literal $folder:literal;)+) => {
        const MIGRATIONS: &[Migration] = &[$(Migration {
            number: $number,
            name: $name,
            text: include_str!(concat!("../../schema/", $folder, "/up.sql")),
        },)+];
    };
}

migrations! {
    1 "facts" "0001_facts";
    2 "definitions" "0002_definitions";
    3 "views" "0003_views";
    4 "closes_in_array" "0004_closes_in_array";
    5 "reasons" "0005_reasons";
    6 "suspect" "0006_suspect";
    7 "names" "0007_names";
    8 "cpu_nodes" "0008_cpu_nodes";
    9 "readings" "0009_readings";
    10 "details" "0010_details";
    11 "calls" "0011_calls";
    12 "orders" "0012_orders";
}

impl Migration {
    fn checksum(&self) -> String {
        Sha256::digest(self.text.as_bytes())
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// A migration as the store remembers it.
#[derive(Debug, Deserialize)]
struct Applied {
    number: u32,
    checksum: String,
}

/// Where migrations are remembered.
const REMEMBER: &str = "CREATE TABLE IF NOT EXISTS migrations (
    number UInt32 COMMENT 'number of the migration',
    name String COMMENT 'its name',
    checksum String COMMENT 'SHA-256 of its text, hex',
    applied DateTime('UTC') DEFAULT now() COMMENT 'when it was applied, UTC'
) ENGINE = ReplacingMergeTree(applied) ORDER BY number COMMENT 'Migrations of the schema that were applied.'";

/// Which of `known` have to be applied, given what the store remembers.
fn outstanding(
    known: &'static [Migration],
    applied: &[Applied],
    database: &str,
) -> Result<Vec<&'static Migration>, SchemaError> {
    let last = known.last().map_or(0, |migration| migration.number);
    let applied: BTreeMap<u32, &str> = applied
        .iter()
        .map(|one| (one.number, one.checksum.as_str()))
        .collect();
    if let Some((found, _)) = applied
        .last_key_value()
        .filter(|(number, _)| **number > last)
    {
        return Err(SchemaError::Newer {
            database: database.to_owned(),
            found: *found,
            known: last,
        });
    }
    let mut missing = Vec::new();
    for migration in known {
        match applied.get(&migration.number) {
            None => missing.push(migration),
            Some(checksum) if *checksum == migration.checksum() => {}
            Some(_) => {
                let (number, name) = (migration.number, migration.name);
                return Err(SchemaError::Changed {
                    database: database.to_owned(),
                    number,
                    name,
                });
            }
        }
    }
    Ok(missing)
}

impl Store {
    /// Creates the database if it is not there.
    pub async fn create_database(&self) -> Result<(), StoreError> {
        self.execute_bare(&format!(
            "CREATE DATABASE IF NOT EXISTS `{}`",
            self.database()
        ))
        .await
    }

    /// Names of the migrations that [`Store::migrate`] would apply. Changes nothing.
    pub async fn migrations_behind(&self) -> Result<Vec<&'static str>, StoreError> {
        let database = self.database();
        let there = format!(
            "SELECT name FROM system.tables WHERE database = '{database}' AND name = 'migrations'"
        );
        let has_any = !self.query(Request::new(there, "TSV")).await?.is_empty();
        let applied = if has_any {
            self.applied().await?
        } else {
            Vec::new()
        };
        let behind = outstanding(MIGRATIONS, &applied, database)?;
        Ok(behind.iter().map(|migration| migration.name).collect())
    }

    async fn applied(&self) -> Result<Vec<Applied>, StoreError> {
        let remembered = format!(
            "SELECT number, checksum FROM `{}`.migrations FINAL ORDER BY number",
            self.database()
        );
        self.rows(Request::new(remembered, "JSONEachRow")).await
    }

    /// Creates the database and brings its schema up to date; returns the names of the migrations it applied.
    pub async fn migrate(&self) -> Result<Vec<&'static str>, StoreError> {
        self.migrate_through(u32::MAX).await
    }

    /// The same up to a migration: the schema as an earlier version left it.
    #[doc(hidden)]
    pub async fn migrate_through(&self, last: u32) -> Result<Vec<&'static str>, StoreError> {
        let database = self.database();
        self.create_database().await?;
        self.execute(REMEMBER).await?;
        let applied = self.applied().await?;
        let mut done = Vec::new();
        for migration in outstanding(MIGRATIONS, &applied, database)? {
            if migration.number > last {
                break;
            }
            for statement in render(migration.text, &Target::OneMachine)? {
                self.execute(&statement).await?;
            }
            let (number, name, checksum) = (migration.number, migration.name, migration.checksum());
            self.execute(&format!(
                "INSERT INTO migrations (number, name, checksum) VALUES ({number}, '{name}', '{checksum}')"
            ))
            .await?;
            done.push(name);
        }
        Ok(done)
    }
}

/// The whole schema as statements for a cluster: facts are `NAME_local` on every shard behind a distributed `NAME`,
/// definitions are on every shard whole. Not run anywhere yet: it has been checked for form only.
pub fn ddl_for_cluster(database: &str, cluster: &str) -> Result<String, SchemaError> {
    check_name(database)?;
    check_name(cluster)?;
    let target = Target::Cluster { database, cluster };
    let mut text = format!("CREATE DATABASE IF NOT EXISTS {database} ON CLUSTER {cluster};\n");
    for migration in MIGRATIONS {
        for statement in render(migration.text, &target)? {
            text.push('\n');
            text.push_str(&statement);
            text.push_str(";\n");
        }
    }
    Ok(text)
}

/// Checks that `name` can stand in a statement without quotes and is no database of the engine's own.
pub fn check_name(name: &str) -> Result<(), SchemaError> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let reserved = ["default", "system", "information_schema"]
        .iter()
        .any(|r| name.eq_ignore_ascii_case(r));
    let digit_first = name.as_bytes().first().is_none_or(u8::is_ascii_digit);
    if !plain || reserved || digit_first || name.len() > 64 {
        return Err(SchemaError::Name(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

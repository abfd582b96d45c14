//! The configuration files of the engine: memory, caches, and the grants that are the wall.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::options::EngineOptions;
use crate::error::StoreError;
use crate::schema::BESIDE;

/// Role of every session that is not the reader's.
pub(super) const WRITER_ROLE: &str = "memwide_writer";
/// Role of the reader's sessions.
pub(super) const READER_ROLE: &str = "memwide_reader";

/// What the product does with its own databases. No `ALL`: that would include users and named collections.
const WRITER_GRANTS: &str = "SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE DICTIONARY, \
     DROP DATABASE, DROP TABLE, DROP VIEW, DROP DICTIONARY, TRUNCATE, OPTIMIZE, SHOW, dictGet, BACKUP";

/// System tables that show how the engine does; none of them holds rows of others.
const WRITER_SYSTEM: &[&str] = &[
    "asynchronous_metrics",
    "columns",
    "data_skipping_indices",
    "databases",
    "detached_parts",
    "disks",
    "errors",
    "events",
    "formats",
    "functions",
    "merge_tree_settings",
    "merges",
    "metrics",
    "mutations",
    "numbers",
    "numbers_mt",
    "one",
    "parts",
    "parts_columns",
    "processes",
    "projections",
    "server_settings",
    "settings",
    "table_engines",
    "table_functions",
    "tables",
    "time_zones",
    "zeros",
    "zeros_mt",
];

/// Share of the machine's memory that the engine may use when nothing is said: 1 in this many bytes.
const MEMORY_DIVISOR: u64 = 2;

/// Bound of one query's memory: this share of the engine's, so that one cannot starve the inserts.
const QUERY_MEMORY_DIVISOR: u64 = 2;

/// The engine's memory bound in bytes.
pub(super) fn memory_bytes(options: &EngineOptions) -> u64 {
    if options.max_memory_bytes > 0 {
        return options.max_memory_bytes;
    }
    memwide_service::machine::memory_bytes() / MEMORY_DIVISOR
}

/// The most one statement may use, in bytes.
pub(super) fn query_memory_bytes(options: &EngineOptions) -> u64 {
    memory_bytes(options) / QUERY_MEMORY_DIVISOR
}

/// The grants of `users.xml`.
fn users(options: &EngineOptions) -> String {
    let grant = |grants: &mut String, what: &str, on: &str| {
        let _ = write!(grants, "<query>GRANT {what} ON {on}</query>");
    };
    let (mut writer, mut reader) = (String::new(), String::new());
    for database in &options.databases {
        // And that in which a day is made anew.
        for database in [database.clone(), format!("{database}{BESIDE}")] {
            grant(&mut writer, WRITER_GRANTS, &format!("{database}.*"));
        }
        grant(
            &mut reader,
            "SELECT, SHOW, dictGet",
            &format!("{database}.*"),
        );
    }
    for table in WRITER_SYSTEM {
        grant(&mut writer, "SELECT", &format!("system.{table}"));
    }
    for table in crate::guard::SYSTEM_TABLES {
        grant(&mut reader, "SELECT", &format!("system.{table}"));
    }
    grant(
        &mut writer,
        "CREATE TEMPORARY TABLE, KILL QUERY, SHOW",
        "*.*",
    );
    let query_bytes = query_memory_bytes(options);
    format!(
        "<clickhouse>
<profiles><default><max_memory_usage>{query_bytes}</max_memory_usage></default></profiles>
<quotas><default/></quotas>
<roles>
<{WRITER_ROLE}><grants>{writer}</grants></{WRITER_ROLE}>
<{READER_ROLE}><grants>{reader}</grants></{READER_ROLE}>
</roles>
<users><default><no_password/><networks><ip>127.0.0.1</ip><ip>::1</ip><ip>::ffff:127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota>
<grants><query>GRANT {WRITER_ROLE}</query><query>GRANT {READER_ROLE}</query></grants>
</default></users>
</clickhouse>
"
    )
}

fn server(options: &EngineOptions, users: &Path) -> String {
    let users = escape(&users.display().to_string());
    format!(
        "<clickhouse>
<users_config>{users}</users_config>
<user_directories><users_xml><path>{users}</path></users_xml></user_directories>
<timezone>UTC</timezone>
<max_server_memory_usage>{memory}</max_server_memory_usage>
<mark_cache_size>{marks}</mark_cache_size>
<uncompressed_cache_size>0</uncompressed_cache_size>
<backups><allowed_path>{backups}</allowed_path></backups>
<max_table_size_to_drop>0</max_table_size_to_drop>
<max_partition_size_to_drop>0</max_partition_size_to_drop>
</clickhouse>
",
        memory = memory_bytes(options),
        marks = options.mark_cache_bytes,
        backups = escape(&options.data.join("backups").display().to_string()),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Writes both files into `folder` and returns the path of the one to start with.
pub(super) fn write(options: &EngineOptions, folder: &Path) -> Result<PathBuf, StoreError> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(StoreError::io(format!("write {}", path.display())))?;
        Ok::<_, StoreError>(path)
    };
    let users = put("users.xml", users(options))?;
    put("config.xml", server(options, &users))
}

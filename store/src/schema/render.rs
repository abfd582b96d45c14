//! Turns a migration's text into statements for one machine or for a cluster.
//!
//! | placeholder | one machine | cluster |
//! |---|---|---|
//! | `${table:T}` | `T` | `DB.T_local ON CLUSTER C`, followed by the distributed `DB.T`, made or changed alike; `DB.T ON CLUSTER C` if the engine is `everywhere` |
//! | `${local:T}` | `T` | `DB.T_local ON CLUSTER C` alone: changes what a distributed table has no word in |
//! | `${view:V}` | `V` | `DB.V ON CLUSTER C` |
//! | `${whole:T}` | `T` | `DB.T ON CLUSTER C`: changes a table whose engine is `everywhere` |
//! | `${read:T}` | `T` | `DB.T` |
//! | `${engine:E(a)}` | `E(a)` | `ReplicatedE('…/{shard}/…', '{replica}', a)` |
//! | `${everywhere:E(a)}` | `E(a)` | the same with one path for all shards: every shard has all rows |
//! | `${window}` | how many blocks, | and how many seconds, tokens are remembered |

use super::SchemaError;
use crate::sql::{Kind, Lexer};

/// Blocks a table remembers: seven days of one block every three seconds.
const WINDOW_BLOCKS: u32 = 200_000;
/// The same in seconds, where tables forget by time too: seven days.
const WINDOW_SECONDS: u32 = 604_800;

/// Where statements are to run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// One server, in the session's database.
    OneMachine,
    /// Every server of a cluster.
    Cluster { database: &'a str, cluster: &'a str },
}

/// The statements of `text`, in order, without their semicolons.
pub(super) fn render(text: &str, target: &Target<'_>) -> Result<Vec<String>, SchemaError> {
    let mut statements = Vec::new();
    for statement in split(text) {
        statements.push(fill(statement, target)?);
        if statement.starts_with("ALTER ") && !statement.contains("${everywhere:") {
            // The distributed table has columns of its own.
            statements.extend(distributed(statement, target));
        } else if let Target::Cluster { database, cluster } = target
            && let Some(table) =
                placeholder(statement, "table").filter(|_| !statement.contains("${everywhere:"))
        {
            statements.push(format!(
                "CREATE TABLE IF NOT EXISTS {database}.{table} ON CLUSTER {cluster} AS {database}.{table}_local\n\
                 ENGINE = Distributed({cluster}, {database}, {table}_local, rand())"
            ));
        }
    }
    Ok(statements)
}

/// A change of a table as one of the distributed table before it.
fn distributed(statement: &str, target: &Target<'_>) -> Option<String> {
    let Target::Cluster { database, cluster } = target else {
        return None;
    };
    let table = placeholder(statement, "table")?;
    let named = format!("${{table:{table}}}");
    Some(statement.replace(&named, &format!("{database}.{table} ON CLUSTER {cluster}")))
}

/// Splits at semicolons that are neither in a text nor in a comment.
fn split(text: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut from = None;
    for token in Lexer::new(text.as_bytes()) {
        if token.kind == Kind::Symbol(b';') {
            statements.extend(
                from.take()
                    .and_then(|from: usize| text.get(from..token.at))
                    .map(str::trim_end),
            );
        } else {
            from.get_or_insert(token.at);
        }
    }
    statements.extend(from.and_then(|from| text.get(from..)).map(str::trim_end));
    statements
}

/// The value of the first placeholder of a kind.
fn placeholder<'t>(statement: &'t str, kind: &str) -> Option<&'t str> {
    statement
        .split(&format!("${{{kind}:"))
        .nth(1)?
        .split('}')
        .next()
}

fn fill(statement: &str, target: &Target<'_>) -> Result<String, SchemaError> {
    let everywhere = statement.contains("${everywhere:");
    let table = placeholder(statement, "table").unwrap_or_default();
    let mut out = String::new();
    let mut parts = statement.split("${");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let unknown = || SchemaError::Placeholder(part.chars().take(40).collect());
        let (inner, rest) = part.split_once('}').ok_or_else(unknown)?;
        let (kind, value) = inner.split_once(':').unwrap_or((inner, ""));
        let filled = match (kind, target) {
            (
                "table" | "local" | "view" | "whole" | "read" | "engine" | "everywhere",
                Target::OneMachine,
            ) => value.to_owned(),
            ("window", Target::OneMachine) => {
                format!("non_replicated_deduplication_window = {WINDOW_BLOCKS}")
            }
            ("local", Target::Cluster { database, cluster }) => {
                format!("{database}.{value}_local ON CLUSTER {cluster}")
            }
            ("table", Target::Cluster { database, cluster }) if !everywhere => {
                format!("{database}.{value}_local ON CLUSTER {cluster}")
            }
            ("table" | "view" | "whole", Target::Cluster { database, cluster }) => {
                format!("{database}.{value} ON CLUSTER {cluster}")
            }
            ("read", Target::Cluster { database, .. }) => format!("{database}.{value}"),
            ("engine", Target::Cluster { database, .. }) => {
                replicated(value, "{shard}", database, table)
            }
            ("everywhere", Target::Cluster { database, .. }) => {
                replicated(value, "all", database, table)
            }
            ("window", Target::Cluster { .. }) => format!(
                "replicated_deduplication_window = {WINDOW_BLOCKS}, \
                 replicated_deduplication_window_seconds = {WINDOW_SECONDS}"
            ),
            _ => return Err(unknown()),
        };
        out.push_str(&filled);
        out.push_str(rest);
    }
    Ok(out)
}

/// `E(a)` as a replicated engine.
fn replicated(engine: &str, shard: &str, database: &str, table: &str) -> String {
    let (name, arguments) = engine.split_once('(').unwrap_or((engine, ")"));
    let arguments = arguments.trim_end_matches(')');
    let comma = if arguments.is_empty() { "" } else { ", " };
    format!(
        "Replicated{name}('/clickhouse/tables/{shard}/{database}/{table}', '{{replica}}'{comma}{arguments})"
    )
}

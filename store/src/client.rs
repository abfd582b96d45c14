//! A store as everybody sees it: a URL, a user, a database. The `clickhouse` crate carries the requests; rows go in as
//! Native blocks, answers come back as bytes in the format asked for.

use std::time::Duration;

use bytes::Bytes;
use clickhouse::{Client, Compression};
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::url::{StoreUrl, is_loopback};

/// Longest wait for room to send one chunk.
const SEND_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest wait for an insert to be committed once its data is sent.
const COMMIT_TIMEOUT: Duration = Duration::from_mins(5);
/// Bytes handed to the connection at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Answers are collected up to this size unless the request says otherwise, in bytes.
const ANSWER_BYTES: usize = 256 << 20;

/// Settings under which one insert is one block whatever its size: a token stands for exactly one block.
const INSERT_SETTINGS: &[(&str, &str)] = &[
    ("async_insert", "0"),
    ("insert_deduplicate", "1"),
    ("max_insert_block_size", "100000000"),
    ("max_insert_threads", "1"),
    ("max_partitions_per_insert_block", "0"),
    ("min_insert_block_size_bytes", "8589934592"),
    ("min_insert_block_size_rows", "100000000"),
];

/// One database of a ClickHouse, embedded or not. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// Without a database, for statements that create it.
    bare: Client,
    client: Client,
    database: String,
}

/// A query with everything around it.
#[derive(Debug, Clone)]
pub struct Request {
    sql: String,
    format: String,
    settings: Vec<(String, String)>,
    params: Vec<(String, String)>,
    answer_bytes: usize,
}

impl Request {
    /// A query whose answer comes as `format`, such as `JSONCompact`.
    pub fn new(sql: impl Into<String>, format: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            format: format.into(),
            settings: Vec::new(),
            params: Vec::new(),
            answer_bytes: ANSWER_BYTES,
        }
    }

    /// Sets a setting of the query; the last value counts.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl std::fmt::Display) -> Self {
        let name = name.into();
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value.to_string()));
        self
    }

    /// Binds `{name:Type}` in the text. The value is data, never SQL; escaping is done here.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl AsRef<str>) -> Self {
        // A bound value is read like a field of a tab-separated line.
        let mut escaped = String::new();
        for c in value.as_ref().chars() {
            match c {
                '\\' => escaped.push_str("\\\\"),
                '\t' => escaped.push_str("\\t"),
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                '\0' => escaped.push_str("\\0"),
                c => escaped.push(c),
            }
        }
        self.params.push((format!("param_{name}"), escaped));
        self
    }

    /// The same with a value that is written so already.
    #[must_use]
    pub fn written_param(mut self, name: &str, value: impl Into<String>) -> Self {
        self.params.push((format!("param_{name}"), value.into()));
        self
    }

    /// Bounds time, in seconds, rows read and rows answered; beyond them the query fails.
    #[must_use]
    pub fn limits(self, seconds: u32, rows_read: u64, rows_answered: u64) -> Self {
        self.setting("max_execution_time", seconds)
            .setting("max_rows_to_read", rows_read)
            .setting("max_result_rows", rows_answered)
    }

    /// Bounds the answer, in bytes.
    #[must_use]
    pub fn answer_bytes(mut self, bytes: usize) -> Self {
        self.answer_bytes = bytes;
        self
    }
}

impl Store {
    /// A store at `url` (scheme, host and port). Nothing is sent yet.
    pub fn connect(
        url: &str,
        user: &str,
        password: &str,
        database: &str,
    ) -> Result<Self, StoreError> {
        let parsed = StoreUrl::parse(url)?;
        crate::schema::check_name(database)?;
        // On the same machine packing costs more than it saves.
        let compression = if is_loopback(&parsed.host) {
            Compression::None
        } else {
            Compression::Lz4
        };
        let bare = Client::default()
            .with_url(&parsed.origin)
            .with_user(user)
            .with_password(password)
            .with_compression(compression);
        let client = bare.clone().with_database(database);
        Ok(Self {
            bare,
            client,
            database: database.to_owned(),
        })
    }

    /// A store by one URL, `http://user:password@host:8123/database`; what is left out is ClickHouse's default and
    /// [`crate::DEFAULT_DATABASE`].
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let parsed = StoreUrl::parse(url)?;
        let database = parsed
            .database
            .as_deref()
            .unwrap_or(crate::DEFAULT_DATABASE);
        let user = parsed.user.as_deref().unwrap_or("default");
        Self::connect(
            &parsed.origin,
            user,
            parsed.password.as_deref().unwrap_or_default(),
            database,
        )
    }

    /// Another database of the same store: this one's name with an ending.
    pub(crate) fn beside(&self, ending: &str) -> Self {
        let database = format!("{}{ending}", self.database);
        Self {
            bare: self.bare.clone(),
            client: self.bare.clone().with_database(&database),
            database,
        }
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Asks the store whether it answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.bare
            .query_raw("SELECT 1")
            .execute()
            .await
            .map_err(StoreError::from_client)
    }

    /// Runs a statement without an answer, outside of the database.
    pub(crate) async fn execute_bare(&self, sql: &str) -> Result<(), StoreError> {
        self.bare
            .query_raw(sql)
            .execute()
            .await
            .map_err(StoreError::from_client)
    }

    /// Runs a statement without an answer.
    pub async fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.client
            .query_raw(sql)
            .execute()
            .await
            .map_err(StoreError::from_client)
    }

    /// Runs an `INSERT … SELECT` under a token: repeated with the same token it changes nothing.
    pub async fn insert_select(&self, sql: &str, token: &str) -> Result<(), StoreError> {
        let mut query = self
            .client
            .query_raw(sql)
            .with_setting("insert_deduplication_token", token);
        for (name, value) in INSERT_SETTINGS {
            query = query.with_setting(*name, *value);
        }
        // Otherwise each of several parallel streams would bring a block of its own.
        query = query.with_setting("max_threads", "1");
        query.execute().await.map_err(StoreError::from_client)
    }

    /// Inserts Native blocks, put one behind the other, as one block under a token.
    ///
    /// The same token again changes nothing, and repairs an insert that was torn by a crash. The token stands for exactly
    /// these rows: never send others under it. `columns` are those of the blocks.
    pub async fn insert_native(
        &self,
        table: &str,
        columns: &[&str],
        token: &str,
        blocks: Bytes,
    ) -> Result<(), StoreError> {
        let columns = columns
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let sql = format!(
            "INSERT INTO `{}`.`{table}` ({columns}) FORMAT Native",
            self.database
        );
        let mut insert = self
            .client
            .insert_formatted_with(sql)
            .with_setting("insert_deduplication_token", token)
            .with_timeouts(Some(SEND_TIMEOUT), Some(COMMIT_TIMEOUT));
        for (name, value) in INSERT_SETTINGS {
            insert = insert.with_setting(*name, *value);
        }
        let mut rest = blocks;
        while !rest.is_empty() {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            insert.send(chunk).await.map_err(StoreError::from_client)?;
        }
        insert.end().await.map_err(StoreError::from_client)
    }

    /// Runs a query and returns its whole answer.
    pub async fn query(&self, request: Request) -> Result<Bytes, StoreError> {
        let mut query = self.client.query_raw(&request.sql);
        for (name, value) in request.settings.into_iter().chain(request.params) {
            query = query.with_setting(name, value);
        }
        let mut answer = query
            .fetch_bytes(&request.format)
            .map_err(StoreError::from_client)?;
        let mut whole = Vec::new();
        while let Some(chunk) = answer.next().await.map_err(StoreError::from_client)? {
            if whole.len() + chunk.len() > request.answer_bytes {
                return Err(StoreError::AnswerTooLarge {
                    limit_bytes: request.answer_bytes,
                });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.into())
    }

    /// Runs a query for typed rows: fields are matched with columns by name. 64-bit integers come as JSON numbers.
    pub async fn rows<T: DeserializeOwned>(&self, request: Request) -> Result<Vec<T>, StoreError> {
        let request = Request {
            format: "JSONEachRow".into(),
            ..request
        }
        .setting("output_format_json_quote_64bit_integers", 0);
        let answer = self.query(request).await?;
        let lines = answer
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).map_err(StoreError::Row))
            .collect()
    }

    /// Runs a query that a person typed, through the guard. Call it on a store that is connected as the reader.
    pub async fn guarded(&self, request: Request) -> Result<Bytes, StoreError> {
        crate::guard::check(&request.sql)?;
        crate::sql::check_params(&request.sql, &request.params)?;
        self.query(request).await
    }
}

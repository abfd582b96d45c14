//! Runs one request on an engine thread: session, settings, role, then the statement and its data.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::body::{self, Packer};
use super::config::{READER_ROLE, WRITER_ROLE};
use super::error_text::{exception, in_mid_answer};
use super::ffi::{Answer, Connection};
use super::pool::{Progress, Sessions, comment, quote};
use super::request::Asked;
use crate::sql::{self, Scan};

/// Bytes read from a body at a time.
const READ_BYTES: usize = 256 << 10;
/// A statement with everything in its text (VALUES, long IN lists) may be this long; the data of an
/// `INSERT … FORMAT` is not counted.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Formats whose chunks, put one behind the other, are one document.
const STREAMED: &[&str] = &[
    "csv",
    "jsoncompacteachrow",
    "jsoneachrow",
    "jsonlines",
    "jsonstringseachrow",
    "lineasstring",
    "native",
    "ndjson",
    "rowbinary",
    "tabseparated",
    "tabseparatedraw",
    "tsv",
    "tsvraw",
];

/// The same, once the names and types at the head of later chunks are cut off.
const STREAMED_WITH_HEAD: &str = "rowbinarywithnamesandtypes";

/// What is known when an answer begins.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) format: String,
    /// JSON for the summary header.
    pub(super) summary: String,
}

/// One request on its way through an engine thread.
pub(super) struct Work {
    pub(super) asked: Asked,
    /// Whether the role is the reader's.
    pub(super) reader: bool,
    pub(super) body: mpsc::Receiver<io::Result<Bytes>>,
    pub(super) head: Option<oneshot::Sender<Result<Head, String>>>,
    /// Chunks of the answer, or the last words of one that fails.
    pub(super) answer: mpsc::Sender<Result<Bytes, String>>,
    pub(super) progress: Arc<Progress>,
}

impl Work {
    /// Runs the request; errors go to its head, or into the answer if that has begun.
    pub(super) fn run(mut self, sessions: &Sessions) {
        if !self.progress.is_cancelled()
            && let Err(error) = self.answer(sessions)
        {
            match self.head.take() {
                Some(head) => drop(head.send(Err(error))),
                None => self.break_off(&error),
            }
        }
        self.progress.finish();
    }

    /// Ends an answer that has begun; the error's words are sent before the connection breaks.
    fn break_off(&self, error: &str) {
        // A client that left needs no words.
        let _ = self
            .answer
            .blocking_send(Err(in_mid_answer(error, &self.asked.query_id)));
    }

    fn answer(&mut self, sessions: &Sessions) -> Result<(), String> {
        let began = Instant::now();
        let (_, empty) = mpsc::channel(1);
        let chunks = std::mem::replace(&mut self.body, empty);
        let mut body = body::reader(chunks, &self.asked.body_encoding, self.asked.decompress)?;
        let mut text = std::mem::take(&mut self.asked.sql).into_bytes();
        let scan = read_text(&mut text, &mut body)?;
        if self.reader {
            crate::guard::check_bytes(&text)
                .map_err(|refusal| exception(497, "ACCESS_DENIED", &refusal.to_string()))?;
        }
        let mut session = self.session(sessions)?;
        let statement = if let Scan::InsertFormat { statement, .. } = scan {
            &text[..statement]
        } else {
            &text
        };
        let tail = sql::tail(statement);
        if let Some(clause) = tail.file_clause {
            return Err(exception(
                62,
                "SYNTAX_ERROR",
                &format!("{clause} is not allowed here"),
            ));
        }
        if let Scan::InsertFormat {
            statement,
            format,
            data,
        } = scan
        {
            return self.insert(
                &mut session,
                &text[..statement],
                &format,
                &text[data..],
                &mut body,
                began,
            );
        }
        if tail.second_statement && scan != Scan::InsertOther {
            return Err(exception(
                62,
                "SYNTAX_ERROR",
                "Syntax error (Multi-statements are not allowed)",
            ));
        }
        let asked_format = tail.format.filter(|_| scan != Scan::InsertOther);
        let format = asked_format
            .or_else(|| self.asked.format.clone())
            .unwrap_or_else(|| "TabSeparated".to_owned());
        let lower = format.to_ascii_lowercase();
        let streamed = STREAMED.contains(&lower.as_str()) || lower == STREAMED_WITH_HEAD;
        if scan == Scan::Select && !self.asked.wait_end && streamed {
            return self.stream(&mut session, &text, &format, began);
        }
        self.whole(&mut session, &text, &format, began)
    }

    /// A fresh session: settings, database and temporary tables are the request's own.
    fn session(&self, sessions: &Sessions) -> Result<Connection, String> {
        let mut session = sessions.open()?;
        let mut run = |sql: String| session.query(sql.as_bytes(), "Null", &[]).map(drop);
        let role = match (&self.asked.role, self.reader) {
            (_, true) => READER_ROLE,
            (Some(role), false) if role == READER_ROLE => READER_ROLE,
            (None, false) => WRITER_ROLE,
            (Some(role), false) => {
                return Err(exception(
                    511,
                    "UNKNOWN_ROLE",
                    &format!("There is no role `{role}`"),
                ));
            }
        };
        if let Some(database) = self
            .asked
            .database
            .as_deref()
            .filter(|name| !name.is_empty() && *name != "default")
        {
            run(format!(
                "USE `{}`",
                database.replace('\\', "\\\\").replace('`', "\\`")
            ))?;
        }
        let mut settings = vec!["implicit_select = 0".to_owned()];
        let own = self
            .asked
            .settings
            .iter()
            .filter(|(name, _)| !(self.reader && name == "readonly"));
        settings.extend(own.map(|(name, value)| format!("{name} = {}", quote(value))));
        settings.push(format!(
            "log_comment = {}",
            quote(&comment(&self.asked.query_id))
        ));
        if self.reader {
            settings.push("readonly = 1".to_owned());
        } else if self.asked.read_only {
            settings.push("readonly = 2".to_owned());
        }
        run(format!("SET ROLE {role}"))?;
        run(format!("SET {}", settings.join(", ")))?;
        Ok(session)
    }

    fn begin(&mut self, format: &str, answer: Option<&Answer>, began: Instant) {
        let [read_rows, read_bytes, written_rows, written_bytes] =
            answer.map(Answer::progress).unwrap_or_default();
        let summary = format!(
            r#"{{"read_rows":"{read_rows}","read_bytes":"{read_bytes}","written_rows":"{written_rows}","written_bytes":"{written_bytes}","total_rows_to_read":"0","result_rows":"{written_rows}","result_bytes":"0","elapsed_ns":"{}"}}"#,
            began.elapsed().as_nanos()
        );
        if let Some(head) = self.head.take() {
            let _ = head.send(Ok(Head {
                format: format.to_owned(),
                summary,
            }));
        }
    }

    /// Sends packed bytes; `false` if the client left.
    fn send(&self, bytes: io::Result<Bytes>) -> Result<bool, String> {
        let bytes = bytes.map_err(|error| exception(1001, "STD_EXCEPTION", &error.to_string()))?;
        Ok(bytes.is_empty() || self.answer.blocking_send(Ok(bytes)).is_ok())
    }

    fn packer(&self) -> Result<Packer, String> {
        Packer::new(self.asked.compress, self.asked.answer_encoding)
            .map_err(|error| exception(1001, "STD_EXCEPTION", &error.to_string()))
    }

    /// The only binary-safe way in: the engine's insert stream. A body that breaks off commits nothing.
    fn insert(
        &mut self,
        session: &mut Connection,
        statement: &[u8],
        format: &str,
        first: &[u8],
        body: &mut impl Read,
        began: Instant,
    ) -> Result<(), String> {
        let statement = std::str::from_utf8(statement)
            .map_err(|_| exception(62, "SYNTAX_ERROR", "the statement is not UTF-8"))?;
        let mut insert = session.insert(statement, format)?;
        let mut taken = if first.is_empty() {
            Ok(())
        } else {
            insert.append(first)
        };
        let mut buffer = vec![0; READ_BYTES];
        while taken.is_ok() {
            match body
                .read(&mut buffer)
                .map_err(|error| cannot_read(&error))?
            {
                0 => break,
                n => taken = insert.append(&buffer[..n]),
            }
        }
        if self.progress.is_cancelled() {
            return Err(exception(394, "QUERY_WAS_CANCELLED", "the client left"));
        }
        let answer = insert.finish()?;
        taken?;
        self.begin(format, Some(&answer), began);
        Ok(())
    }

    /// A SELECT whose chunks go out as they come.
    fn stream(
        &mut self,
        session: &mut Connection,
        text: &[u8],
        format: &str,
        began: Instant,
    ) -> Result<(), String> {
        let with_head = format.eq_ignore_ascii_case(STREAMED_WITH_HEAD);
        let params = std::mem::take(&mut self.asked.params);
        let mut packer = self.packer()?;
        let mut stream = session.stream(text, format, &params)?;
        let mut next = stream.next()?;
        if next.is_none() && with_head {
            // Even an empty answer has names and types, which the stream does not give.
            drop(stream);
            self.asked.params = params;
            return self.whole(session, text, format, began);
        }
        self.begin(format, next.as_ref(), began);
        let mut head = None;
        while let Some(chunk) = next {
            let mut bytes = Bytes::from_owner(chunk);
            if with_head {
                match head {
                    None => head = names_and_types_len(&bytes),
                    Some(len) => bytes = bytes.slice(len.min(bytes.len())..),
                }
            }
            if !self.send(packer.pack(bytes))? {
                return Ok(()); // dropping the stream stops the query
            }
            next = stream.next()?;
        }
        self.send(packer.finish()).map(drop)
    }

    /// Any statement, answered when all of its answer is known.
    fn whole(
        &mut self,
        session: &mut Connection,
        text: &[u8],
        format: &str,
        began: Instant,
    ) -> Result<(), String> {
        let params = std::mem::take(&mut self.asked.params);
        let mut packer = self.packer()?;
        let answer = session.query(text, format, &params)?;
        self.begin(format, Some(&answer), began);
        let _ = self.send(packer.pack(Bytes::from_owner(answer)))? && self.send(packer.finish())?;
        Ok(())
    }
}

fn cannot_read(error: &io::Error) -> String {
    exception(
        33,
        "CANNOT_READ_ALL_DATA",
        &format!("the request's body cannot be read: {error}"),
    )
}

/// Reads the body until the statement is known: all of it, unless it is an `INSERT … FORMAT`, whose data stays.
fn read_text(text: &mut Vec<u8>, body: &mut impl Read) -> Result<Scan, String> {
    let in_url = !text.is_empty();
    let mut buffer = vec![0; READ_BYTES];
    let (mut complete, mut first) = (false, true);
    loop {
        let scan = sql::scan(text, complete);
        if complete || matches!(scan, Scan::InsertFormat { .. }) {
            return Ok(scan);
        }
        match body
            .read(&mut buffer)
            .map_err(|error| cannot_read(&error))?
        {
            0 => complete = true,
            n => {
                if in_url && first {
                    text.push(b'\n');
                }
                first = false;
                text.extend_from_slice(&buffer[..n]);
            }
        }
        if text.len() > MAX_TEXT_BYTES {
            let words = format!(
                "the statement is longer than {MAX_TEXT_BYTES} bytes; send rows as INSERT … FORMAT"
            );
            return Err(exception(62, "SYNTAX_ERROR", &words));
        }
    }
}

/// Length of the names and types at the head of a RowBinaryWithNamesAndTypes document.
fn names_and_types_len(bytes: &[u8]) -> Option<usize> {
    let (columns, mut end) = leb128(bytes)?;
    for _ in 0..columns.checked_mul(2)? {
        let (len, width) = leb128(bytes.get(end..)?)?;
        end = end.checked_add(width)?.checked_add(len)?;
    }
    (end <= bytes.len()).then_some(end)
}

/// A variable-length number and how many bytes it takes.
fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

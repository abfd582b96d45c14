//! Judges a query that a person typed, before it is sent: pure, by tokens alone.
//!
//! It is the first of two walls; the second are the reader's grants. It refuses more than it must: what it cannot tell
//! from an attack is refused with the token and its place, and can be written differently.
//!
//! Allowed is one SELECT, WITH, SHOW, DESCRIBE or EXPLAIN. Refused at any depth are SETTINGS (a nested
//! `readonly = 0` undoes the session's), INTO OUTFILE, FROM INFILE and FORMAT (the caller chooses it), every table
//! function that is not in [`TABLE_FUNCTIONS`], every system table that is not in [`SYSTEM_TABLES`], the functions
//! that read files or talk to others ([`FUNCTIONS_REFUSED`]: `file()` asks for no grant on the embedded engine), and
//! whatever the engine's lexer and ours might read differently.

use crate::sql::{Kind, Lexer, Token};

/// Tables of `system` that a reader may ask.
pub const SYSTEM_TABLES: &[&str] = &[
    "columns",
    "databases",
    "functions",
    "numbers",
    "one",
    "settings",
    "tables",
];

/// Table functions that a reader may use: they make rows out of nothing.
pub const TABLE_FUNCTIONS: &[&str] = &[
    "generate_series",
    "generateseries",
    "numbers",
    "numbers_mt",
    "values",
    "zeros",
    "zeros_mt",
];

/// Functions, lower-case, that read files, talk to other machines, or only waste time. They are refused as names
/// anywhere: a function's bare name can be handed to `arrayMap` or `APPLY`.
pub const FUNCTIONS_REFUSED: &[&str] = &[
    "aiclassify",
    "aiembed",
    "aiextract",
    "aigenerate",
    "aitranslate",
    "catboostevaluate",
    "file",
    "filecluster",
    "reversednsquery",
    "sleep",
    "sleepeachrow",
];

/// What a SHOW may show.
const SHOWN: &[&str] = &[
    "COLUMNS",
    "CREATE",
    "DATABASES",
    "EXTENDED",
    "FIELDS",
    "FULL",
    "FUNCTIONS",
    "TABLES",
];

/// Longest query, in bytes: the engine's own bound.
const MAX_BYTES: usize = 256 << 10;
/// Deepest nesting of parentheses: the engine's parser stops at 1,000.
const MAX_DEPTH: usize = 500;

/// Why a query is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{token}` at byte {at}: {why}")]
#[non_exhaustive]
pub struct Refusal {
    /// The token, shortened.
    pub token: String,
    /// Offset of its first byte.
    pub at: usize,
    /// The rule.
    pub why: &'static str,
}

/// Checks one query.
pub fn check(sql: &str) -> Result<(), Refusal> {
    let guard = Guard {
        sql,
        levels: vec![Level::default()],
        table_next: false,
    };
    guard.run()
}

/// The same for bytes that may not be text.
pub(crate) fn check_bytes(sql: &[u8]) -> Result<(), Refusal> {
    match std::str::from_utf8(sql) {
        Ok(sql) => check(sql),
        Err(error) => Err(Refusal {
            token: "?".into(),
            at: error.valid_up_to(),
            why: "the query is not UTF-8",
        }),
    }
}

/// One level of parentheses.
#[derive(Debug, Default)]
struct Level {
    /// A SELECT or the like stands in it, so that FROM names tables; else FROM belongs to `extract(… FROM …)`.
    query: bool,
    /// Between FROM and the next clause: a comma is followed by another table.
    from: bool,
    /// Something stands in it already.
    begun: bool,
}

struct Guard<'a> {
    sql: &'a str,
    levels: Vec<Level>,
    /// The next token names a table, opens a subquery, or is a table function.
    table_next: bool,
}

impl Guard<'_> {
    fn refuse(&self, token: &Token<'_>, why: &'static str) -> Refusal {
        let text = self.sql.get(token.at..token.end).unwrap_or("?");
        Refusal {
            token: text.chars().take(40).collect(),
            at: token.at,
            why,
        }
    }

    fn run(mut self) -> Result<(), Refusal> {
        if self.sql.len() > MAX_BYTES {
            return Err(Refusal {
                token: "…".into(),
                at: MAX_BYTES,
                why: "the query is longer than 256 KiB",
            });
        }
        let tokens: Vec<Token<'_>> = Lexer::new(self.sql.as_bytes()).collect();
        for token in &tokens {
            self.readable(token)?;
        }
        self.first(&tokens)?;
        for (i, token) in tokens.iter().enumerate() {
            let before = |n: usize| i.checked_sub(n).and_then(|i| tokens.get(i));
            let after = |n: usize| tokens.get(i + n);
            self.names(token, before(1), after(1), after(2))?;
            self.clauses(token, before(1), before(2), after(1))?;
            self.tables(token, before(1), before(2), after(1))?;
        }
        Ok(())
    }

    /// Refuses what the engine's lexer might read differently from ours.
    fn readable(&self, token: &Token<'_>) -> Result<(), Refusal> {
        let text = self.sql.get(token.at..token.end).unwrap_or_default();
        let why = match token.kind {
            Kind::Unterminated => "a comment or a quoted text does not end",
            Kind::Text if text.starts_with('$') => "heredocs are not allowed; use '…'",
            Kind::Symbol(b'$') => "`$` is not allowed outside of '…'",
            Kind::Symbol(b'\\' | b'#') => "this sign is not allowed outside of '…'",
            Kind::Symbol(b'/') if self.sql[token.end..].starts_with('/') => {
                "`//` is not allowed; write intDiv(a, b)"
            }
            Kind::Symbol(byte) if !(b' '..=0x7e).contains(&byte) => {
                "control characters are not allowed outside of '…'"
            }
            Kind::Word if !text.is_ascii() => "outside of '…' and `…` only ASCII is allowed",
            Kind::Quoted if text.contains('\\') => {
                "a backslash within a quoted name is not allowed"
            }
            _ => return Ok(()),
        };
        Err(self.refuse(token, why))
    }

    /// One statement of a known kind.
    fn first(&self, tokens: &[Token<'_>]) -> Result<(), Refusal> {
        let mut words = tokens
            .iter()
            .skip_while(|token| token.kind == Kind::Symbol(b'('));
        let Some(first) = words.next() else {
            return Err(Refusal {
                token: String::new(),
                at: 0,
                why: "the query is empty",
            });
        };
        if !["SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"]
            .iter()
            .any(|word| first.is(word))
        {
            return Err(self.refuse(
                first,
                "only SELECT, WITH, SHOW, DESCRIBE and EXPLAIN are allowed",
            ));
        }
        if first.is("SHOW")
            && let Some(what) = words
                .next()
                .filter(|what| !SHOWN.iter().any(|word| what.is(word)))
        {
            return Err(self.refuse(
                what,
                "only tables, columns, databases and functions can be shown",
            ));
        }
        let end = tokens
            .iter()
            .position(|token| token.kind == Kind::Symbol(b';'));
        match end.and_then(|end| tokens.get(end + 1)) {
            Some(second) => Err(self.refuse(second, "only one statement is allowed")),
            None => Ok(()),
        }
    }

    /// Refuses names that must not be used, wherever they stand.
    fn names(
        &self,
        token: &Token<'_>,
        before: Option<&Token<'_>>,
        after: Option<&Token<'_>>,
        second: Option<&Token<'_>>,
    ) -> Result<(), Refusal> {
        if !token.is_name() {
            return Ok(());
        }
        let name = token.text.to_ascii_lowercase();
        let symbol = |token: Option<&Token<'_>>, byte: u8| {
            token.is_some_and(|t| t.kind == Kind::Symbol(byte))
        };
        if FUNCTIONS_REFUSED.contains(&name.as_str()) && !symbol(before, b'.') {
            return Err(self.refuse(
                token,
                "this function is not allowed (qualify a column of this name)",
            ));
        }
        if symbol(after, b'.') && name == "information_schema" {
            return Err(self.refuse(
                token,
                "this database is not allowed; use SHOW TABLES or SHOW COLUMNS",
            ));
        }
        if symbol(after, b'.') && name == "system" {
            let table = second.filter(|t| t.is_name());
            if !table.is_some_and(|t| SYSTEM_TABLES.contains(&t.text.as_ref())) {
                return Err(self.refuse(
                    table.unwrap_or(token),
                    "of system only columns, databases, functions, numbers, one, settings and tables are allowed",
                ));
            }
        }
        // `{name:Identifier}` would put a name in here that nobody has looked at.
        if name == "identifier" && symbol(before, b':') {
            return Err(self.refuse(token, "parameters may be values, not names"));
        }
        Ok(())
    }

    /// Refuses clauses that leave the query's frame.
    fn clauses(
        &self,
        token: &Token<'_>,
        before: Option<&Token<'_>>,
        two_before: Option<&Token<'_>>,
        after: Option<&Token<'_>>,
    ) -> Result<(), Refusal> {
        // The one table of this name; behind a point no clause can begin.
        let is_system_table = token.text == "settings"
            && before.is_some_and(|t| t.kind == Kind::Symbol(b'.'))
            && two_before.is_some_and(|t| t.is_name() && t.text == "system");
        let why = if token.is("SETTINGS") && !is_system_table {
            "SETTINGS is not allowed (put a column of this name into backticks)"
        } else if token.is("OUTFILE") || token.is("INFILE") {
            "files cannot be read or written (put a column of this name into backticks)"
        } else if token.is("FORMAT") && after.is_none_or(|t| t.kind != Kind::Symbol(b'(')) {
            "FORMAT is not allowed: the format is chosen outside of the query (put a column of this name into backticks)"
        } else if token.is("INTO") && before.is_some_and(|t| t.is("INSERT")) {
            "nothing can be inserted"
        } else {
            return Ok(());
        };
        Err(self.refuse(token, why))
    }

    /// Follows where tables are named, and refuses table functions there.
    fn tables(
        &mut self,
        token: &Token<'_>,
        before: Option<&Token<'_>>,
        two_before: Option<&Token<'_>>,
        after: Option<&Token<'_>>,
    ) -> Result<(), Refusal> {
        let called = token.is_name() && after.is_some_and(|t| t.kind == Kind::Symbol(b'('));
        let name = token.text.to_ascii_lowercase();
        let allowed = TABLE_FUNCTIONS.contains(&name.as_str());
        if called && !allowed && TABLE_FUNCTIONS_KNOWN.contains(&name.as_str()) {
            return Err(self.refuse(token, "this table function is not allowed"));
        }
        let keyword_table = token.kind == Kind::Word && is_clause(&name);
        if self.table_next && called && !allowed && !keyword_table {
            return Err(self.refuse(token, "this table function is not allowed"));
        }
        if self.table_next && token.kind == Kind::Text {
            return Err(self.refuse(token, "a table is named without quotes or in backticks"));
        }
        let qualified = before.is_some_and(|t| t.kind == Kind::Symbol(b'.'));
        if (self.table_next || qualified) && token.is_name() && token.text.contains('/') {
            return Err(self.refuse(token, "a path is not a table"));
        }
        self.table_next = false;
        match token.kind {
            Kind::Symbol(b'(') => {
                self.level().begun = true;
                self.levels.push(Level::default());
                if self.levels.len() > MAX_DEPTH {
                    return Err(self.refuse(token, "parentheses are nested too deep"));
                }
                return Ok(());
            }
            Kind::Symbol(b')') => {
                if self.levels.len() == 1 {
                    return Err(self.refuse(token, "a parenthesis closes that was not opened"));
                }
                self.levels.pop();
                return Ok(());
            }
            Kind::Symbol(b',') => self.table_next = self.level().from,
            Kind::Word => self.keyword(token, before, two_before),
            _ => {}
        }
        self.level().begun = true;
        Ok(())
    }

    fn keyword(
        &mut self,
        token: &Token<'_>,
        before: Option<&Token<'_>>,
        two_before: Option<&Token<'_>>,
    ) {
        let first = !self.level().begun;
        let distinct_from = before.is_some_and(|t| t.is("DISTINCT"))
            && two_before.is_some_and(|t| t.is("IS") || t.is("NOT"));
        let word = token.text.to_ascii_uppercase();
        let level = self.level();
        match word.as_str() {
            "SELECT" | "EXPLAIN" => {
                level.query = true;
                level.from = false;
            }
            "WITH" | "SHOW" if first => level.query = true,
            "DESCRIBE" | "DESC" if first => {
                level.query = true;
                self.table_next = true;
            }
            // `DESCRIBE TABLE f(…)`, `EXPLAIN TABLE …`
            "TABLE" => self.table_next = true,
            "FROM" if (level.query || first) && !distinct_from => {
                level.query = true;
                level.from = true;
                self.table_next = true;
            }
            "JOIN" if before.is_some_and(|t| t.is("ARRAY")) => level.from = false,
            "JOIN" => {
                level.from = true;
                self.table_next = true;
            }
            other if level.from && is_clause(&other.to_ascii_lowercase()) => level.from = false,
            _ => {}
        }
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }
}

/// Whether a lower-case word ends the list of tables.
fn is_clause(word: &str) -> bool {
    [
        "except",
        "group",
        "having",
        "intersect",
        "limit",
        "offset",
        "order",
        "prewhere",
        "qualify",
        "sample",
        "select",
        "union",
        "where",
        "window",
    ]
    .contains(&word)
}

/// The engine's other table functions, lower-case, as far as they are not also harmless ordinary functions: refused
/// wherever they are called, since a table can be named in more places than are followed here.
const TABLE_FUNCTIONS_KNOWN: &[&str] = &[
    "arrowstream",
    "azureblobstorage",
    "azureblobstoragecluster",
    "cluster",
    "clusterallreplicas",
    "cosn",
    "deltalake",
    "deltalakeazure",
    "deltalakeazurecluster",
    "deltalakecluster",
    "deltalakelocal",
    "deltalakes3",
    "deltalakes3cluster",
    "dictionary",
    "eval",
    "executable",
    "file",
    "filecluster",
    "filesystem",
    "fuzzjson",
    "fuzzquery",
    "gcs",
    "generaterandom",
    "hdfs",
    "hdfscluster",
    "hudi",
    "hudicluster",
    "iceberg",
    "icebergazure",
    "icebergazurecluster",
    "icebergcluster",
    "iceberghdfs",
    "iceberghdfscluster",
    "iceberglocal",
    "iceberglocalcluster",
    "icebergs3",
    "icebergs3cluster",
    "input",
    "jdbc",
    "loop",
    "merge",
    "mergetreeanalyzeindexes",
    "mergetreeanalyzeindexesuuid",
    "mergetreeindex",
    "mergetreeprojection",
    "mergetreetextindex",
    "mongodb",
    "mysql",
    "null",
    "odbc",
    "oss",
    "paimon",
    "paimonazure",
    "paimonazurecluster",
    "paimoncluster",
    "paimonhdfs",
    "paimonhdfscluster",
    "paimonlocal",
    "paimons3",
    "paimons3cluster",
    "postgresql",
    "primes",
    "prometheusquery",
    "prometheusqueryrange",
    "python",
    "redis",
    "remote",
    "remotesecure",
    "s3",
    "s3cluster",
    "sqlite",
    "sqlstandardvalues",
    "timeseriesdata",
    "timeseriesmetrics",
    "timeseriessamples",
    "timeseriesselector",
    "timeseriestags",
    "url",
    "urlcluster",
    "view",
    "viewexplain",
    "viewifpermitted",
    "ytsaurus",
];

#[cfg(test)]
mod tests;

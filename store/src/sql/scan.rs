//! What a request's text is: where an INSERT's data begins, which FORMAT it asks for, whether a second statement follows.

use super::lex::{Kind, Lexer, Token};

/// What the text of a request is, as far as it has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scan {
    /// More of the text is needed to say.
    Incomplete,
    /// `INSERT … FORMAT f` with data behind it.
    InsertFormat {
        /// Length of the statement before FORMAT.
        statement: usize,
        /// Name of the format.
        format: String,
        /// Offset of the data.
        data: usize,
    },
    /// An INSERT that carries its rows in its text: VALUES or SELECT.
    InsertOther,
    /// A SELECT or WITH … SELECT.
    Select,
    /// Any other statement.
    Other,
}

/// Classifies `text`; `complete` says that nothing follows.
pub(crate) fn scan(text: &[u8], complete: bool) -> Scan {
    let mut tokens = Lexer::new(text).peekable();
    let mut depth = 0_i32;
    let mut first = None;
    let undecided = |first: Option<&str>| match first {
        _ if !complete => Scan::Incomplete,
        Some("INSERT") => Scan::InsertOther,
        Some(_) => Scan::Select,
        None => Scan::Other,
    };
    while let Some(token) = tokens.next() {
        if token.end == text.len() && !complete {
            return Scan::Incomplete; // the token may go on
        }
        match token.kind {
            Kind::Unterminated => return undecided(first),
            Kind::Symbol(b'(') => depth += 1,
            Kind::Symbol(b')') => depth -= 1,
            Kind::Word if first.is_none() => match token.text.to_ascii_uppercase().as_str() {
                "INSERT" => first = Some("INSERT"),
                "WITH" => first = Some("WITH"),
                "SELECT" => return Scan::Select,
                _ => return Scan::Other,
            },
            Kind::Word if depth == 0 && first == Some("WITH") => {
                if token.is("INSERT") {
                    return Scan::InsertOther;
                }
                if token.is("SELECT") {
                    return Scan::Select;
                }
            }
            Kind::Word if depth == 0 => {
                if ["VALUES", "SELECT", "WITH", "WATCH"]
                    .iter()
                    .any(|word| token.is(word))
                {
                    return Scan::InsertOther;
                }
                if token.is("FORMAT") {
                    return match tokens.next() {
                        Some(name) if name.kind == Kind::Word => {
                            insert_format(text, complete, token.at, &name)
                        }
                        _ => undecided(first),
                    };
                }
            }
            _ => {}
        }
    }
    undecided(first)
}

/// The data of an INSERT begins behind the format's name, blanks and one line end.
fn insert_format(text: &[u8], complete: bool, statement: usize, name: &Token<'_>) -> Scan {
    if name.end == text.len() && !complete {
        return Scan::Incomplete;
    }
    if name.is("VALUES") {
        return Scan::InsertOther;
    }
    let at = |i: usize| text.get(i).copied();
    let mut data = name.end;
    while matches!(at(data), Some(b' ' | b'\t' | 0x0c)) {
        data += 1;
    }
    if at(data) == Some(b'\r') {
        data += 1;
    }
    match at(data) {
        Some(b'\n') => data += 1,
        None if !complete => return Scan::Incomplete,
        _ => {}
    }
    Scan::InsertFormat {
        statement,
        format: name.text.clone().into_owned(),
        data,
    }
}

/// What stands at the end of a statement that is not an INSERT.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The format asked for by a FORMAT clause.
    pub(crate) format: Option<String>,
    /// Whether something follows a `;`.
    pub(crate) second_statement: bool,
    /// The first of the words OUTFILE and INFILE: the engine itself would open files.
    pub(crate) file_clause: Option<&'static str>,
}

/// Looks for the clauses that the HTTP interface handles or refuses by itself.
pub(crate) fn tail(text: &[u8]) -> Tail {
    let mut tail = Tail::default();
    let (mut depth, mut ended, mut before) = (0_i32, false, None::<Token<'_>>);
    for token in Lexer::new(text) {
        if ended {
            tail.second_statement = true;
            break;
        }
        let after = |word: &str| before.as_ref().is_some_and(|b| b.is(word));
        match token.kind {
            Kind::Symbol(b';') => ended = true,
            Kind::Symbol(b'(') => depth += 1,
            Kind::Symbol(b')') => depth -= 1,
            Kind::Word if token.is("OUTFILE") && after("INTO") => {
                tail.file_clause = Some("INTO OUTFILE");
            }
            Kind::Word if token.is("INFILE") && after("FROM") => {
                tail.file_clause = Some("FROM INFILE");
            }
            Kind::Word if depth == 0 && after("FORMAT") => {
                tail.format = Some(token.text.clone().into_owned());
            }
            _ => {}
        }
        before = Some(token);
    }
    tail
}

/// A statement without the `FORMAT name` at its end, and the name.
pub fn split_format(sql: &str) -> (&str, Option<String>) {
    let tokens = Lexer::new(sql.as_bytes());
    let tokens: Vec<Token<'_>> = tokens
        .filter(|token| token.kind != Kind::Symbol(b';'))
        .collect();
    match tokens.as_slice() {
        [.., format, name]
            if format.kind == Kind::Word && format.is("FORMAT") && name.kind == Kind::Word =>
        {
            let head = sql.get(..format.at).unwrap_or(sql);
            (head, Some(name.text.clone().into_owned()))
        }
        _ => (sql, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_an_insert_begins_behind_its_format() {
        let check = |text: &str, statement: &str, format: &str, data: &str| {
            let expected = Scan::InsertFormat {
                statement: statement.len(),
                format: format.into(),
                data: text.len() - data.len(),
            };
            assert_eq!(scan(text.as_bytes(), true), expected, "{text}");
        };
        check(
            "INSERT INTO a.b(x, `format`) FORMAT Native\nzz",
            "INSERT INTO a.b(x, `format`) ",
            "Native",
            "zz",
        );
        check(
            "insert into t format RowBinary \r\n\n;x",
            "insert into t ",
            "RowBinary",
            "\n;x",
        );
        check(
            "/* FORMAT X */ INSERT INTO t FORMAT TSV",
            "/* FORMAT X */ INSERT INTO t ",
            "TSV",
            "",
        );
        check(
            "INSERT INTO t SETTINGS a='FORMAT b' FORMAT CSV 1,2",
            "INSERT INTO t SETTINGS a='FORMAT b' ",
            "CSV",
            "1,2",
        );
    }

    #[test]
    fn a_half_arrived_head_waits_for_more() {
        let text = b"INSERT INTO t FORMAT Native\n";
        for cut in 0..text.len() {
            assert_eq!(scan(&text[..cut], false), Scan::Incomplete, "cut at {cut}");
        }
        assert!(matches!(
            scan(text, false),
            Scan::InsertFormat { data: 28, .. }
        ));
    }

    #[test]
    fn statements_are_told_apart() {
        for (text, expected) in [
            ("insert into t values (1)", Scan::InsertOther),
            ("insert into t select 1", Scan::InsertOther),
            ("with 1 as x insert into t select x", Scan::InsertOther),
            ("/* x */ (SELECT 1)", Scan::Select),
            ("with (select 1) as x select x", Scan::Select),
            ("create table insert (a Int8)", Scan::Other),
            ("", Scan::Other),
        ] {
            assert_eq!(scan(text.as_bytes(), true), expected, "{text}");
        }
    }

    #[test]
    fn only_a_format_at_the_end_is_taken_off() {
        for (sql, head, format) in [
            ("SELECT 1\nFORMAT Native", "SELECT 1\n", Some("Native")),
            ("SELECT 1; FORMAT JSON ; -- x\n", "SELECT 1; ", Some("JSON")),
            ("SELECT 1 FORMAT", "SELECT 1 FORMAT", None),
            ("SELECT 'FORMAT x'", "SELECT 'FORMAT x'", None),
            ("SELECT `FORMAT` x", "SELECT `FORMAT` x", None),
            ("(SELECT 1 FORMAT y)", "(SELECT 1 FORMAT y)", None),
            (
                "SELECT 1 FORMAT a SETTINGS b=1",
                "SELECT 1 FORMAT a SETTINGS b=1",
                None,
            ),
            ("", "", None),
        ] {
            assert_eq!(
                split_format(sql),
                (head, format.map(str::to_owned)),
                "{sql}"
            );
        }
    }

    #[test]
    fn the_tail_shows_format_second_statements_and_file_clauses() {
        let tail = |text: &str| super::tail(text.as_bytes());
        assert_eq!(
            tail("SELECT 1 FORMAT JSON SETTINGS a=1").format.as_deref(),
            Some("JSON")
        );
        assert_eq!(
            tail("SELECT format('x') FROM (SELECT 1 FORMAT y)").format,
            None
        );
        assert!(tail("SELECT 1; SELECT 2").second_statement);
        assert!(!tail("SELECT ';'; -- x\n").second_statement);
        assert_eq!(
            tail("SELECT 1 INTO/**/OUTFILE 'x'").file_clause,
            Some("INTO OUTFILE")
        );
        assert_eq!(
            tail("INSERT INTO t FROM INFILE 'x'").file_clause,
            Some("FROM INFILE")
        );
        assert_eq!(
            tail("SELECT 'INTO OUTFILE', outfile FROM t").file_clause,
            None
        );
    }
}

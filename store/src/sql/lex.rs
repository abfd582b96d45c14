//! Tokens of ClickHouse SQL.
//!
//! Comments are `--` and `#!` and `# ` to the end of the line, and `/* */`, which nests. Strings are `'…'` with
//! backslashes and doubled quotes, and heredocs `$tag$…$tag$`. Identifiers may be quoted with backticks or `"`.

use std::borrow::Cow;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or a bare identifier.
    Word,
    /// An identifier in backticks or double quotes; its text is what is between them.
    Quoted,
    /// A string literal or heredoc.
    Text,
    /// A run of digits. Letters behind it are a [`Kind::Word`] of their own: nothing hides behind a number.
    Digits,
    /// One byte of punctuation, or any other byte.
    Symbol(u8),
    /// The input ended within a comment, a string or a quoted identifier.
    Unterminated,
}

/// One token with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Offset behind its last byte.
    pub(crate) end: usize,
    /// The word, or the content of a quoted identifier; else empty.
    pub(crate) text: Cow<'a, str>,
}

impl Token<'_> {
    /// Whether this is the bare keyword `word` (upper-case).
    pub(crate) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Quoted)
    }
}

/// Splits a text into tokens; after [`Kind::Unterminated`] there are none.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips blanks and comments; `false` if a comment does not end.
    fn skip_blank(&mut self) -> bool {
        loop {
            let rest = self.rest();
            if rest
                .first()
                .is_some_and(|b| b.is_ascii_whitespace() || *b == 0x0b)
            {
                self.at += 1;
            } else if rest.starts_with(b"--") || rest.starts_with(b"#!") || rest.starts_with(b"# ")
            {
                self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            } else if rest.starts_with(b"/*") {
                if !self.skip_block_comment() {
                    return false;
                }
            } else {
                return true;
            }
        }
    }

    fn skip_block_comment(&mut self) -> bool {
        let mut depth = 0;
        while !self.rest().is_empty() {
            if self.rest().starts_with(b"/*") {
                depth += 1;
                self.at += 2;
            } else if self.rest().starts_with(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return true;
                }
            } else {
                self.at += 1;
            }
        }
        false
    }

    /// The length of a quoted token at the current place, with both quotes.
    fn quoted_len(&self, quote: u8) -> Option<usize> {
        let rest = self.rest();
        let mut i = 1;
        loop {
            match *rest.get(i)? {
                b'\\' => i += 2,
                b if b == quote && rest.get(i + 1) == Some(&quote) => i += 2,
                b if b == quote => return Some(i + 1),
                _ => i += 1,
            }
        }
    }

    /// The length of a heredoc's `$tag$` at the current place, if one begins there.
    fn heredoc_tag_len(&self) -> Option<usize> {
        let rest = self.rest();
        let tag_len = 2 + rest.get(1..)?.iter().position(|b| !in_word(*b))?;
        (rest.get(tag_len - 1) == Some(&b'$')).then_some(tag_len)
    }

    /// The length of the heredoc at the current place, whose `$tag$` has `tag_len` bytes.
    fn heredoc_len(&self, tag_len: usize) -> Option<usize> {
        let (tag, body) = self.rest().split_at_checked(tag_len)?;
        memmem(body, tag).map(|at| tag_len + at + tag_len)
    }
}

fn memmem(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let unterminated = |lexer: &mut Self, at: usize| {
            lexer.at = lexer.text.len();
            Some(Token {
                kind: Kind::Unterminated,
                at,
                end: lexer.text.len(),
                text: Cow::Borrowed(""),
            })
        };
        let before = self.at;
        if !self.skip_blank() {
            return unterminated(self, before);
        }
        let (at, rest) = (self.at, self.rest());
        let first = *rest.first()?;
        let run =
            |wanted: fn(u8) -> bool| rest.iter().position(|b| !wanted(*b)).unwrap_or(rest.len());
        let (kind, len) = match first {
            b'\'' | b'"' | b'`' => match self.quoted_len(first) {
                None => return unterminated(self, at),
                Some(len) => (
                    if first == b'\'' {
                        Kind::Text
                    } else {
                        Kind::Quoted
                    },
                    len,
                ),
            },
            b'$' => match self.heredoc_tag_len() {
                None => (Kind::Symbol(first), 1),
                Some(tag_len) => match self.heredoc_len(tag_len) {
                    None => return unterminated(self, at),
                    Some(len) => (Kind::Text, len),
                },
            },
            b'0'..=b'9' => (Kind::Digits, run(|b| b.is_ascii_digit())),
            _ if in_word(first) => (Kind::Word, run(in_word)),
            _ => (Kind::Symbol(first), 1),
        };
        self.at += len;
        let text = match kind {
            Kind::Word => String::from_utf8_lossy(&rest[..len]),
            Kind::Quoted => String::from_utf8_lossy(&rest[1..len - 1]),
            _ => Cow::Borrowed(""),
        };
        Some(Token {
            kind,
            at,
            end: self.at,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, String)> {
        Lexer::new(text.as_bytes())
            .map(|t| (t.kind, t.text.into_owned()))
            .collect()
    }

    fn check(text: &str, expected: &[(Kind, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(k, t)| (*k, (*t).to_owned()))
            .collect();
        assert_eq!(kinds(text), expected, "{text:?}");
    }

    #[test]
    fn comments_are_nothing() {
        for text in [
            "a -- ' x\nb",
            "a # ; x\nb",
            "a #! x\nb",
            "a /* ' */ b",
            "a /* /* */ ' */ b",
            "a\u{b}b",
        ] {
            check(text, &[(Kind::Word, "a"), (Kind::Word, "b")]);
        }
    }

    #[test]
    fn quotes_end_where_the_engine_ends_them() {
        check(r"'a\'b''c' d", &[(Kind::Text, ""), (Kind::Word, "d")]);
        check(
            "`a;b` \"c d\"",
            &[(Kind::Quoted, "a;b"), (Kind::Quoted, "c d")],
        );
        check("$x$ ' $x$ y", &[(Kind::Text, ""), (Kind::Word, "y")]);
    }

    #[test]
    fn what_does_not_end_is_said_to() {
        for text in ["'a", "`a", "\"a\\\"", "/* /* */", "$x$ a", "'a\\'"] {
            assert_eq!(kinds(text), [(Kind::Unterminated, String::new())], "{text}");
        }
    }

    #[test]
    fn nothing_hides_behind_a_number() {
        check("1from", &[(Kind::Digits, ""), (Kind::Word, "from")]);
        check(
            "1.from",
            &[
                (Kind::Digits, ""),
                (Kind::Symbol(b'.'), ""),
                (Kind::Word, "from"),
            ],
        );
    }
}

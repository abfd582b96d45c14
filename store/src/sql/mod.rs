//! Just enough of ClickHouse's lexical rules to route and to judge a statement; no grammar.

mod lex;
mod scan;

pub(crate) use lex::{Kind, Lexer, Token};
pub use scan::split_format;
pub(crate) use scan::{Scan, scan, tail};

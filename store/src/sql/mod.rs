//! Just enough of ClickHouse's lexical rules to route and to judge a statement; no grammar.

mod lex;
mod params;
mod scan;

pub(crate) use lex::{Kind, Lexer, Token};
pub use params::OutOfRange;
pub(crate) use params::check_params;
pub use scan::split_format;
pub(crate) use scan::{Scan, scan, tail};

//! What an uplink needs of the place where symbols are.

use memwide_proto::v1::{MappingIdentity, SymbolRequest};

/// A symbol table for a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolAnswer {
    /// What was really found: a content hash or build id where the request had only a path.
    pub identity: MappingIdentity,
    /// `memwide_objects::SymbolTable::encode`.
    pub table: Vec<u8>,
}

/// Answers a decoder's requests for symbol tables.
///
/// Called off the async threads, a few requests at a time.
///
/// Tables of the kernel and of modules have addresses relative to the start of their code (`_text`, the module's base) and
/// one segment at 0 that covers it, so that one table serves every boot and `ip - map.start` looks it up.
pub trait SymbolProvider: Send + Sync + 'static {
    /// The table, or why there is none: one lower-case phrase.
    fn table(&self, request: &SymbolRequest) -> Result<SymbolAnswer, String>;
}

/// Has no symbols.
#[derive(Debug, Clone, Copy)]
pub struct NoSymbols;

impl SymbolProvider for NoSymbols {
    fn table(&self, _request: &SymbolRequest) -> Result<SymbolAnswer, String> {
        Err("this source has no symbols".to_owned())
    }
}

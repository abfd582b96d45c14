//! Sends a source's batches to a decoder until they are acked: reconnects, resumes, answers requests for symbols.

mod driver;
mod machine;
mod settings;
mod store;
mod symbols;

pub use driver::{Observer, UplinkError, UplinkEvent, run};
pub(crate) use driver::{chain, parse};
pub use machine::{Effect, ProtocolError, Step, Uplink};
pub(crate) use settings::refused;
pub use settings::{NoSettings, Settings};
pub use store::{BatchStore, Origin, Progress, StoreError};
pub use symbols::{NoSymbols, SymbolAnswer, SymbolProvider};

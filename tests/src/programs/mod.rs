//! Programs built by tests, memory profiles made up on them, and programs that tell the truth about themselves: the one way
//! to any of them.

mod build;
mod profile;
mod truth;

pub use build::{Builder, C, CLANG, CLANG_CPP, CPP, GO, LLD, Language, RUST};
pub use profile::{Access, Mapping, Profile, Program};
pub use truth::{Place, Told, acts, sources};

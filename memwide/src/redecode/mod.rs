//! Days of the archive decoded again, and put in the place of what is stored (`docs/archive.md`).

mod day;
mod place;

pub(crate) use day::{Outcome, Remade, redo};
pub(crate) use place::{At, Where};

//! Samples of a file summed up by keys, as tables; the same of a server.

mod calls;
mod hierarchy;
mod render;
mod server;

pub(crate) use calls::Calls;
pub(crate) use hierarchy::hierarchy;
pub(crate) use render::{completeness, table};
pub(crate) use server::question;

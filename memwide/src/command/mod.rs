//! One file a command.

pub(crate) mod allocs;
pub(crate) mod annotate;
mod answer;
pub(crate) mod c2c;
mod child;
pub(crate) mod diagnose;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod faults;
pub(crate) mod flamegraph;
mod gate;
pub(crate) mod hosts;
pub(crate) mod import;
pub(crate) mod kernel;
pub(crate) mod ledger;
pub(crate) mod offcpu;
mod on_file;
mod ready;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod role;
pub(crate) mod rss;
pub(crate) mod script;
pub(crate) mod sql;
pub(crate) mod stat;
pub(crate) mod symbols;
pub(crate) mod top;

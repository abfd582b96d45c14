//! Questions on decoded samples: samples in, answers out.
//!
//! Each module answers one question. It takes [`LocalSample`](memwide_decoder::local::LocalSample)s one by one (or what the
//! caller has read of them), keeps what the answer needs, and hands out rows. It reads no file, prints nothing, asks no clock:
//! the command renders.
//!
//! # What the caller owes it
//!
//! Samples in perf's order, and a session that was asked for what the question needs (`wanted` of each module).
#![forbid(unsafe_code)]

pub mod allocs;
pub mod annotate;
pub mod contexts;
pub mod counting;
pub mod diagnosis;
pub mod difference;
pub mod faults;
pub mod interval;
pub mod offcpu;
pub mod report;
pub mod rss;
pub mod sharing;
pub mod significance;
pub mod site;
pub mod source;
pub mod stacks;
pub mod tracepoints;

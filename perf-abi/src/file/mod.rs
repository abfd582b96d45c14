//! perf.data files: header, features, events, records.

mod build_ids;
mod error;
mod event_desc;
mod events;
pub mod feature;
mod features;
mod header;
mod inflate;
mod names;
mod pipe;
mod reader;
mod reads;
mod records;
mod sorted;
mod source;
mod topology;
mod tracing;
mod tracing_format;
mod user;
mod writer;

pub use build_ids::BuildIdEntry;
pub use error::FileError;
pub use event_desc::EventDesc;
pub use events::{Event, EventTable};
pub use features::{ClockData, Compression, Features, GroupDesc, SampleTime};
pub use header::FileHeader;
pub use names::event_name;
pub use reader::PerfFile;
pub use reads::ReadPeriods;
pub use records::{Cut, FileRecord, FileRecords};
pub use sorted::{QUEUE_BYTES, SortedRecords};
pub use topology::{CacheLevel, CpuPlace, CpuTopology, MemoryNode, MemoryTopology, NumaNode};
pub use tracing::{TracingData, TracingFiles};
pub use tracing_format::{Field, Tracepoint};
pub use user::{EventUpdate, IdIndexEntry, TimeConv, UserRecord};
pub use writer::{EventSpec, FileWriter};

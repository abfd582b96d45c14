//! The kernel's record format: bytes in, borrowed views out; perf.data reader and writer.
//!
//! What a perf ring buffer and a perf.data file hold is a sequence of records: a header of 8 bytes
//! and a body whose fields are named by the event's `perf_event_attr`. This crate walks such
//! sequences ([`Records`], [`RingRecords`]), reads attrs ([`Attr`]), works out where the fields of
//! an event's samples stand ([`SampleLayout`]) and gives them without copying ([`SampleView`]);
//! everything else the kernel writes is a [`Record`]. [`encode`] writes the same things.
//!
//! It does not open events, map rings, say what a `data_src` means or find symbols.
//!
//! ```
//! use memwide_perf_abi::{Attr, Records, SampleFields, SampleLayout, SampleView, encode, sample};
//!
//! let attr = Attr {
//!     sample_type: sample::IDENTIFIER | sample::IP | sample::ADDR | sample::WEIGHT_STRUCT,
//!     ..Attr::default()
//! };
//! let layout = SampleLayout::new(&attr)?; // once for each event
//! let mut batch = Vec::new();
//! let fields = SampleFields { id: 7, ip: 0x401000, addr: 0x7fff_0000, ..SampleFields::default() };
//! encode::sample(&mut batch, &fields, memwide_perf_abi::misc::USER, &layout)?;
//!
//! for record in Records::new(&batch) {
//!     let record = record?;
//!     assert_eq!(record.identifier(), Some(7)); // which event wrote it
//!     let sample = SampleView::parse(record.body(), &layout)?;
//!     assert_eq!(sample.addr(), Some(0x7fff_0000));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! perf.data files, of a file or of a pipe, compressed or not, are read by [`PerfFile`] and written
//! by [`FileWriter`]. Records are lent one by one, in the order of the file or in the order perf
//! processes them:
//!
//! ```no_run
//! use memwide_perf_abi::{PerfFile, SampleView};
//!
//! let mut file = PerfFile::open(std::fs::File::open("perf.data")?)?;
//! let events = std::sync::Arc::clone(file.events());
//! let mut records = file.sorted()?;
//! while let Some(item) = records.next()? {
//!     let Some(event) = item.event.and_then(|index| events.get(index)) else { continue };
//!     if let (true, Ok(layout)) = (item.record.is_sample(), &event.layout) {
//!         let sample = SampleView::parse(item.record.body(), layout)?;
//!         println!("{}: {:x?}", event.name, sample.ip());
//!     }
//! }
//! if let Some(cut) = records.cut() {
//!     println!("the file ends early, at byte {}", cut.at);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What hardware writes itself is read by [`ibs`] (registers in the raw data of AMD's samples) and [`spe`] (the packets of
//! Arm's AUX data); [`PerfFile::sorted`] makes samples of the latter.
//!
//! Every length is checked before it is used, and none of them reaches an allocation unchecked: input
//! is hostile until parsed. Records of big-endian machines are turned round as they are read: whoever gets them sees
//! little-endian ones.

#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod attr;
mod attr_flags;
mod bytes;
pub mod encode;
pub mod file;
mod header;
pub mod ibs;
pub mod kind;
mod layout;
mod mem_word;
pub mod pack;
mod record;
mod ring;
mod sample_id;
mod sample_type;
mod sample_view;
pub mod spe;
mod swap;
pub mod tracepoint;

pub use attr::{ATTR_SIZE_KNOWN, ATTR_SIZE_VER0, Attr, AttrError, attr_kind};
pub use attr_flags::AttrFlags;
pub use bytes::{Order, Words};
pub use encode::{EncodeError, SampleFields};
pub use file::{FileError, FileRecord, FileWriter, PerfFile};
pub use header::{CpuMode, HEADER_LEN, RawRecord, RecordError, Records, misc};
pub use layout::{LayoutError, SampleLayout};
pub use record::{
    Aux, AuxOutputHwId, BpfEvent, BuildId, CallchainDeferred, Cgroup, Comm, FileId, ItraceStart,
    Ksymbol, Lost, LostSamples, Mmap, Mmap2, Namespace, Namespaces, Read, Record, Switch,
    SwitchCpuWide, Task, TextPoke, Throttle,
};
pub use ring::RingRecords;
pub use sample_id::{IdPosition, SampleId, TrailerLayout};
pub use sample_type::{branch_sample, read_format, sample};
pub use sample_view::{
    BranchEntry, BranchStack, ReadValue, ReadValues, Regs, SampleView, UserStack, Weight,
};

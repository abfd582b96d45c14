//! What tracepoints say: any of them field by field, those about memory and scheduling as typed events.
//!
//! The raw data of a tracepoint's sample is laid out by its `format` file, which the recording carries: places, sizes and
//! even names of fields differ between kernels and machines. A [`FieldReader`] reads one field as the format says, in the
//! byte order of the recording machine; an [`EventReader`] finds the fields of a tracepoint it knows by name, once, and gives
//! a [`TracepointEvent`] for each sample. What a kernel does not have reads as `None`.
//!
//! ```
//! use memwide_perf_abi::file::Tracepoint;
//! use memwide_perf_abi::tracepoint::{EventReader, TracepointEvent};
//!
//! let format = "name: kfree\nID: 7\nformat:\n\tfield:unsigned long call_site;\toffset:8;\tsize:8;\tsigned:0;\n\
//!               \tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n";
//! let tracepoint = Tracepoint::parse("kmem", format).unwrap();
//! let reader = EventReader::new(&tracepoint).unwrap();
//! let mut raw = [0; 24];
//! raw[16..].copy_from_slice(&0xffff_8881_0000_0000_u64.to_le_bytes());
//! let Some(TracepointEvent::Free(free)) = reader.read(&raw) else { panic!() };
//! assert_eq!(free.ptr, 0xffff_8881_0000_0000);
//! ```

mod event;
mod expression;
mod field;
mod memory;
mod sched;
mod symbols;
mod syscall;

pub use event::{EventReader, TracepointEvent};
pub use field::{FieldReader, FieldValue, Numbers};
pub use memory::{Alloc, DamonRegion, Free, PageAlloc, PageFault, PageFree, RssMember, RssStat};
pub use sched::{Exec, Exit, Fork, Switch, Wakeup};
pub use symbols::Symbols;
pub use syscall::{MemoryCall, SyscallEnter, SyscallExit};

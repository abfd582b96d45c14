//! Arm's Statistical Profiling Extension: AUX data → packets → records, and the `data_src` words perf makes of them.
//!
//! ```text
//! AUX data = record*          record = packet* (END | TIMESTAMP)          padding anywhere between packets
//!
//! first byte   packet          payload
//! 0x00         padding         –
//! 0x01         end             –
//! 0x71         timestamp       8 bytes, generic counter
//! 01ss0010     events          1, 2, 4 or 8 bytes by ss; see `event`
//! 01ss0011     data source     1, 2, 4 or 8 bytes; numbers of the core's own, see `Encoding`
//! 011001ee     context         4 bytes, thread id; ee = exception level − 1
//! 010010cc     operation       1 byte by class cc: 0 other, 1 load or store, 2 branch
//! 10110iii     address         8 bytes: 0 PC, 1 branch target, 2 virtual, 3 physical, 4 previous branch target
//! 10011iii     counter         2 bytes, cycles: 0 total, 1 to issue, 2 translation
//! 001000ii x   extended        address or counter with second header x, its index + 8 × ii; x = 0: alignment
//! ```
//!
//! From the Arm Architecture Reference Manual (DDI 0487), section D17, and perf's `arm-spe-decoder`. Input is hostile:
//! bytes that are no packet are passed over one by one and counted, a record with a hole in it is dropped and counted, and
//! the next record starts at the next packet that gives a PC.

mod clock;
mod decoder;
mod info;
mod packet;
mod record;
mod source;

pub use clock::Clock;
pub use decoder::{Counts, Decoder};
pub use info::{CpuInfo, Info};
pub use packet::{Packet, PacketError};
pub use record::{Operation, Record, event};
pub use source::Encoding;

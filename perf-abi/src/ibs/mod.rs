//! AMD instruction-based sampling: the registers a sample carries as `PERF_SAMPLE_RAW`.
//!
//! ```text
//! u32 caps;      // CPUID Fn8000_001B EAX of the machine that recorded
//! u64 reg[];     // ibs_op:    OpCtl, OpRip, OpData, OpData2, OpData3, DcLinAd, DcPhysAd,
//!                //            BrTarget if caps bit 5, OpData4 if caps bit 10
//!                // ibs_fetch: FetchCtl, FetchLinAd, FetchPhysAd, ExtdCtl if caps bit 9
//! ```
//!
//! Layout and field names follow `arch/x86/include/asm/amd/ibs.h` and `arch/x86/events/amd/ibs.c` of Linux. Registers say
//! more than the kernel's `data_src` (page sizes, widths, latencies of translation and retirement) and are all there is in
//! recordings without it; [`OpSample::data_src`] puts the kernel's word together from them.

mod fetch;
mod op;
mod source;

pub use fetch::FetchSample;
pub use op::{OpKind, OpSample, TlbAnswer};

use crate::bytes::{u32_at, u64_at};

/// Bytes before the first register.
const CAPS_LEN: usize = 4;

/// Why raw data is no IBS sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IbsError {
    /// It ends before the registers do.
    #[error("raw data of {have} bytes is too short for {need} bytes of ibs registers")]
    Short {
        /// Bytes there.
        have: usize,
        /// Bytes every sample of the event has.
        need: usize,
    },
}

/// What the recording machine's IBS can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caps(pub u32);

macro_rules! caps {
    ($($name:ident = $bit:literal, $text:literal;)+) => {
        impl Caps {
            $(
                #[doc = $text]
                pub const fn $name(self) -> bool {
                    self.0 & (1 << $bit) != 0
                }
            )+
        }
    };
}

caps! {
    has_branch_target = 5, "Samples carry the branch target.";
    checks_rip = 7, "The instruction pointer may be marked invalid.";
    has_fetch_ctl_extd = 9, "Fetch samples carry the extended control register.";
    has_op_data4 = 10, "Samples carry `OpData4`.";
    is_zen4 = 11, "Extended data sources and filters, Zen 4 on.";
    has_load_latency = 12, "Loads can be filtered by latency, Zen 5 on.";
    has_remote_socket = 16, "Streaming stores and remote sockets are told, Zen 6 on.";
    has_tlb_page_size = 19, "TLB answers need a valid physical address.";
}

/// Bits 0 to 15.
const fn low16(word: u64) -> u16 {
    let [first, second, ..] = word.to_le_bytes();
    u16::from_le_bytes([first, second])
}

/// Bits 0 to 7.
const fn low8(word: u64) -> u8 {
    let [first, ..] = word.to_le_bytes();
    first
}

/// `raw` as capabilities and registers: what every sample has must be there, what only some have may be missing.
struct Registers<'a> {
    raw: &'a [u8],
    caps: Caps,
    next: usize,
}

impl<'a> Registers<'a> {
    fn new(raw: &'a [u8], fixed: usize) -> Result<Self, IbsError> {
        let need = CAPS_LEN + fixed * 8;
        let short = IbsError::Short {
            have: raw.len(),
            need,
        };
        if raw.len() < need {
            return Err(short);
        }
        Ok(Self {
            raw,
            caps: Caps(u32_at(raw, 0).ok_or(short)?),
            next: CAPS_LEN,
        })
    }

    fn take(&mut self) -> Option<u64> {
        let word = u64_at(self.raw, self.next)?;
        self.next += 8;
        Some(word)
    }

    fn word(&mut self) -> u64 {
        self.take().unwrap_or_default()
    }

    fn word_if(&mut self, is_there: bool) -> Option<u64> {
        if is_there { self.take() } else { None }
    }
}

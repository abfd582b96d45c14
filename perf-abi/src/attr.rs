//! `perf_event_attr`: what an event was asked for. Any size from the first kernel's 64 bytes on.

use crate::attr_flags::AttrFlags;
use crate::bytes::{Cursor, Order, Put};

/// Why bytes could not be read as a `perf_event_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttrError {
    /// Fewer bytes than the first published version has.
    #[error("event attribute has {have} bytes, fewer than the 64 of its first version")]
    TooShort {
        /// Bytes there.
        have: usize,
    },
}

/// [`Attr::config`] of the last software event that is a clock: 0 is cpu-clock, 1 task-clock.
const LAST_CLOCK: u64 = 1;

/// Values of [`Attr::kind`].
pub mod attr_kind {
    /// Generic hardware event.
    pub const HARDWARE: u32 = 0;
    /// Software event.
    pub const SOFTWARE: u32 = 1;
    /// Tracepoint; `config` is its id.
    pub const TRACEPOINT: u32 = 2;
    /// Hardware cache event.
    pub const HW_CACHE: u32 = 3;
    /// Raw event of the CPU.
    pub const RAW: u32 = 4;
    /// Breakpoint or watchpoint.
    pub const BREAKPOINT: u32 = 5;
}

/// Bytes of the first version, `PERF_ATTR_SIZE_VER0`.
pub const ATTR_SIZE_VER0: usize = 64;
/// Bytes this crate has names for.
pub const ATTR_SIZE_KNOWN: usize = 144;

/// A `perf_event_attr`. Fields a shorter version lacks are 0, bytes a longer one has beyond what is
/// known are kept in [`Attr::unknown`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Attr {
    /// `type`: which kind of event, see [`attr_kind`]; other values are PMUs of the recording host.
    pub kind: u32,
    /// `size` as recorded; 0 stands for the first version.
    pub size: u32,
    /// Which event of that kind.
    pub config: u64,
    /// Period in events, or frequency in samples a second if [`AttrFlags::freq`].
    pub sample_period: u64,
    /// Which fields samples have, see [`crate::sample`].
    pub sample_type: u64,
    /// How counter values are laid out, see [`crate::read_format`].
    pub read_format: u64,
    /// The flag bits.
    pub flags: AttrFlags,
    /// `wakeup_events`, or bytes if [`AttrFlags::watermark`].
    pub wakeup: u32,
    /// Breakpoints: bits 0 read, 1 write, 2 execute.
    pub bp_type: u32,
    /// `bp_addr` of breakpoints, second configuration word of others.
    pub config1: u64,
    /// `bp_len` of breakpoints, third configuration word of others.
    pub config2: u64,
    /// Which branches are recorded.
    pub branch_sample_type: u64,
    /// Which registers `REGS_USER` holds.
    pub sample_regs_user: u64,
    /// Bytes of user stack asked for.
    pub sample_stack_user: u32,
    /// Clock of the time stamps, if [`AttrFlags::use_clockid`].
    pub clockid: i32,
    /// Which registers `REGS_INTR` holds.
    pub sample_regs_intr: u64,
    /// Bytes of AUX data before a wakeup.
    pub aux_watermark: u32,
    /// Longest callchain; 0 = the system's limit.
    pub sample_max_stack: u16,
    /// Reserved by the kernel.
    pub reserved_2: u16,
    /// Bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    /// Bits of what events do to AUX output.
    pub aux_action: u32,
    /// User data of a `sigtrap`.
    pub sig_data: u64,
    /// Fourth configuration word.
    pub config3: u64,
    /// Fifth configuration word.
    pub config4: u64,
    /// Bytes after the fields known here, undecoded.
    pub unknown: Vec<u8>,
}

impl Attr {
    /// Reads an attr from exactly its bytes, of whatever version.
    ///
    /// The length of `bytes` counts; the `size` field is kept but not trusted.
    pub fn parse(bytes: &[u8]) -> Result<Self, AttrError> {
        Self::parse_ordered(bytes, Order::Little)
    }

    /// As [`Attr::parse`], from a machine of either byte order.
    pub fn parse_ordered(bytes: &[u8], order: Order) -> Result<Self, AttrError> {
        if bytes.len() < ATTR_SIZE_VER0 {
            return Err(AttrError::TooShort { have: bytes.len() });
        }
        let mut fields = Fields(Cursor::with_order(bytes, order));
        let f = &mut fields;
        Ok(Self {
            kind: f.u32(),
            size: f.u32(),
            config: f.u64(),
            sample_period: f.u64(),
            sample_type: f.u64(),
            read_format: f.u64(),
            flags: AttrFlags(f.flags(order)),
            wakeup: f.u32(),
            bp_type: f.u32(),
            config1: f.u64(),
            config2: f.u64(),
            branch_sample_type: f.u64(),
            sample_regs_user: f.u64(),
            sample_stack_user: f.u32(),
            clockid: f.u32().cast_signed(),
            sample_regs_intr: f.u64(),
            aux_watermark: f.u32(),
            sample_max_stack: f.u16(),
            reserved_2: f.u16(),
            aux_sample_size: f.u32(),
            aux_action: f.aux_action(order),
            sig_data: f.u64(),
            config3: f.u64(),
            config4: f.u64(),
            unknown: f.0.rest().to_vec(),
        })
    }

    /// Writes the first `size` bytes (at least 64; the bytes in [`Attr::unknown`] follow the known
    /// ones), with `size` in the size field.
    pub fn encode(&self, size: usize) -> Vec<u8> {
        let size = size.max(ATTR_SIZE_VER0);
        let mut out = Vec::with_capacity(ATTR_SIZE_KNOWN);
        out.put_u32(self.kind);
        out.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
        for word in [
            self.config,
            self.sample_period,
            self.sample_type,
            self.read_format,
            self.flags.0,
        ] {
            out.put_u64(word);
        }
        out.put_u32(self.wakeup);
        out.put_u32(self.bp_type);
        for word in [
            self.config1,
            self.config2,
            self.branch_sample_type,
            self.sample_regs_user,
        ] {
            out.put_u64(word);
        }
        out.put_u32(self.sample_stack_user);
        out.put_u32(self.clockid.cast_unsigned());
        out.put_u64(self.sample_regs_intr);
        out.put_u32(self.aux_watermark);
        out.put_u16(self.sample_max_stack);
        out.put_u16(self.reserved_2);
        out.put_u32(self.aux_sample_size);
        out.put_u32(self.aux_action);
        for word in [self.sig_data, self.config3, self.config4] {
            out.put_u64(word);
        }
        out.extend_from_slice(&self.unknown);
        out.resize(size, 0);
        out
    }

    /// Whether it counts nanoseconds, with a timer of its own: cpu-clock and task-clock.
    pub fn is_clock(&self) -> bool {
        self.kind == attr_kind::SOFTWARE && self.config <= LAST_CLOCK
    }

    /// The period, if the event has a fixed one.
    pub fn fixed_period(&self) -> Option<u64> {
        (!self.flags.freq()).then_some(self.sample_period)
    }

    /// Whether all bits of `mask` are set in `sample_type`.
    pub fn samples(&self, mask: u64) -> bool {
        self.sample_type & mask == mask
    }
}

/// Reads fields; past the end they are 0, as the kernel defines for shorter versions.
struct Fields<'a>(Cursor<'a>);

impl Fields<'_> {
    fn u16(&mut self) -> u16 {
        self.0.u16().unwrap_or_default()
    }

    fn u32(&mut self) -> u32 {
        self.0.u32().unwrap_or_default()
    }

    /// Compilers of big-endian machines fill bit fields from the top of the first byte. The two bits of `precise_ip` then
    /// stand the other way round.
    fn flags(&mut self, order: Order) -> u64 {
        let bytes = self.0.array::<8>().unwrap_or_default();
        if order == Order::Little {
            return u64::from_le_bytes(bytes);
        }
        let flags = AttrFlags(u64::from_le_bytes(bytes.map(u8::reverse_bits)));
        let precise = flags.precise_ip();
        flags.with_precise_ip((precise >> 1) | (precise << 1)).0
    }

    /// Bit fields of 32 bits.
    fn aux_action(&mut self, order: Order) -> u32 {
        let bytes = self.0.array::<4>().unwrap_or_default();
        match order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_le_bytes(bytes.map(u8::reverse_bits)),
        }
    }

    fn u64(&mut self) -> u64 {
        self.0.u64().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Vec<u8> {
        (0..160u8).collect()
    }

    #[test]
    fn every_version_is_read_and_written_back() {
        for size in [64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152, 160] {
            let bytes = &full()[..size];
            let attr = Attr::parse(bytes).unwrap();
            let mut expected = bytes.to_vec();
            expected[4..8].copy_from_slice(&u32::try_from(size).unwrap().to_le_bytes());
            assert_eq!(attr.encode(size), expected, "size {size}");
        }
    }

    #[test]
    fn fields_stand_where_the_kernel_puts_them() {
        let attr = Attr::parse(&full()).unwrap();
        let word =
            |at: u8| u64::from_le_bytes(std::array::from_fn(|i| at + u8::try_from(i).unwrap()));
        assert_eq!(attr.sample_type, word(24));
        assert_eq!(attr.config1, word(56));
        assert_eq!(attr.branch_sample_type, word(72));
        assert_eq!(attr.sample_regs_intr, word(96));
        assert_eq!(attr.sig_data, word(120));
        assert_eq!(attr.config3, word(128));
        assert_eq!(attr.config4, word(136));
        assert_eq!(attr.unknown, full()[144..]);
    }

    #[test]
    fn a_big_endian_attr_is_the_same_attr() {
        let attr = Attr {
            kind: 4,
            config: 0x1cd,
            sample_type: 0x1_0007,
            flags: AttrFlags::default().with_freq(true).with_build_id(true),
            ..Attr::default()
        };
        let mut bytes = Vec::new();
        bytes.extend(4u32.to_be_bytes());
        bytes.extend(64u32.to_be_bytes());
        for word in [0x1cdu64, 0, 0x1_0007, 0] {
            bytes.extend(word.to_be_bytes());
        }
        // Flag 0 is the top bit of the first byte: 10 and 34 are bit 5 of the second and fifth.
        bytes.extend([0, 1 << 5, 0, 0, 1 << 5, 0, 0, 0]);
        bytes.resize(64, 0);
        let read = Attr::parse_ordered(&bytes, Order::Big).unwrap();
        assert_eq!(read, Attr { size: 64, ..attr });
    }

    #[test]
    fn fewer_than_64_bytes_are_refused() {
        assert_eq!(
            Attr::parse(&full()[..63]),
            Err(AttrError::TooShort { have: 63 })
        );
    }
}

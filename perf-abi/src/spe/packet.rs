//! One packet.

use crate::bytes::{u16_at, u32_at, u64_at};

/// Longest packet: extended header, 8 bytes of payload; alignment skips up to 16.
pub(super) const PACKET_MAX: usize = 16;

/// One packet, payloads as they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Packet {
    /// Nothing; also what alignment skips.
    Padding,
    /// End of a record without timestamp.
    End,
    /// End of a record: the generic counter.
    Timestamp(u64),
    /// What happened, see [`event`](super::event).
    Events(u64),
    /// Where the data came from, in the core's own numbers.
    DataSource(u64),
    /// Who ran.
    Context {
        /// Exception level whose context register it is: 1 or 2.
        el: u8,
        /// The register: the thread's id.
        id: u32,
    },
    /// What the operation is.
    Operation {
        /// 0 other, 1 load or store, 2 branch.
        class: u8,
        /// Bits by class.
        payload: u8,
    },
    /// An address.
    Address {
        /// 0 PC, 1 branch target, 2 virtual data, 3 physical data, 4 previous branch target.
        index: u8,
        /// Address and, in the top byte, tag or state.
        value: u64,
    },
    /// Cycles.
    Counter {
        /// 0 total, 1 to issue, 2 translation.
        index: u8,
        /// Cycles.
        value: u16,
    },
}

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PacketError {
    /// No packet starts so.
    #[error("no spe packet starts with byte {0:#04x}")]
    Bad(u8),
    /// A packet starts, but its end is not there.
    #[error("the spe packet needs {0} bytes")]
    Short(usize),
}

impl Packet {
    /// The packet at the start of `bytes`, and its length. `at` is the place in the AUX area, which alignment counts from.
    pub fn parse(bytes: &[u8], at: u64) -> Result<(Self, usize), PacketError> {
        let Some(&first) = bytes.first() else {
            return Err(PacketError::Short(1));
        };
        match first {
            0x00 => return Ok((Self::Padding, 1)),
            0x01 => return Ok((Self::End, 1)),
            0x71 => return payload(bytes, 0).map(|(value, len)| (Self::Timestamp(value), len)),
            _ => {}
        }
        if first & 0xcf == 0x42 {
            return payload(bytes, 0).map(|(value, len)| (Self::Events(value), len));
        }
        if first & 0xcf == 0x43 {
            return payload(bytes, 0).map(|(value, len)| (Self::DataSource(value), len));
        }
        match first & 0xfc {
            0x64 => {
                let (value, len) = payload(bytes, 0)?;
                let el = (first & 3) + 1;
                let id = u32::try_from(value).unwrap_or(u32::MAX);
                Ok((Self::Context { el, id }, len))
            }
            0x48 if first & 3 != 3 => {
                let (value, len) = payload(bytes, 0)?;
                let payload = u8::try_from(value).unwrap_or_default();
                let class = first & 3;
                Ok((Self::Operation { class, payload }, len))
            }
            0x20 => extended(bytes, first, at),
            _ => indexed(bytes, first, 0, 0),
        }
    }
}

/// `2^ss` bytes after header byte `header_at`, ss its bits 4 and 5; and the length of the packet.
fn payload(bytes: &[u8], header_at: usize) -> Result<(u64, usize), PacketError> {
    let header = bytes.get(header_at).copied().unwrap_or_default();
    let start = header_at + 1;
    let len = 1_usize << (header >> 4 & 3);
    let value = match len {
        1 => bytes.get(start).copied().map(u64::from),
        2 => u16_at(bytes, start).map(u64::from),
        4 => u32_at(bytes, start).map(u64::from),
        _ => u64_at(bytes, start),
    };
    let value = value.ok_or(PacketError::Short(start + len))?;
    Ok((value, start + len))
}

/// Address or counter by header byte `header`, which stands at `header_at`.
fn indexed(
    bytes: &[u8],
    header: u8,
    header_at: usize,
    high: u8,
) -> Result<(Packet, usize), PacketError> {
    let index = high << 3 | header & 7;
    match header & 0xf8 {
        0xb0 => {
            let (value, len) = payload(bytes, header_at)?;
            Ok((Packet::Address { index, value }, len))
        }
        0x98 => {
            let (value, len) = payload(bytes, header_at)?;
            let value = u16::try_from(value).unwrap_or(u16::MAX);
            Ok((Packet::Counter { index, value }, len))
        }
        _ => Err(PacketError::Bad(bytes.first().copied().unwrap_or_default())),
    }
}

fn extended(bytes: &[u8], first: u8, at: u64) -> Result<(Packet, usize), PacketError> {
    let Some(&second) = bytes.get(1) else {
        return Err(PacketError::Short(2));
    };
    if second != 0 {
        return indexed(bytes, second, 1, first & 3);
    }
    let alignment = 2_u64 << (first & 0xf);
    let skipped = alignment - (at & (alignment - 1));
    let skipped = usize::try_from(skipped).unwrap_or(PACKET_MAX);
    if bytes.len() < skipped {
        return Err(PacketError::Short(skipped));
    }
    Ok((Packet::Padding, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_packet_is_read() {
        use Packet::{
            Address, Context, Counter, DataSource, End, Events, Operation, Padding, Timestamp,
        };
        let eight = [1, 2, 3, 4, 5, 6, 7, 8];
        let long = |header: u8| [&[header][..], &eight].concat();
        let number = 0x0807_0605_0403_0201;
        for (bytes, packet, len) in [
            (vec![0], Padding, 1),
            (vec![1], End, 1),
            (long(0x71), Timestamp(number), 9),
            (vec![0x42, 0xff], Events(0xff), 2),
            (vec![0x52, 0xff, 1], Events(0x1ff), 3),
            (vec![0x62, 1, 2, 3, 4], Events(0x0403_0201), 5),
            (long(0x72), Events(number), 9),
            (vec![0x43, 0x0d], DataSource(13), 2),
            (vec![0x53, 0x0d, 1], DataSource(0x10d), 3),
            (vec![0x64, 1, 0, 0, 0], Context { el: 1, id: 1 }, 5),
            (vec![0x65, 1, 2, 0, 0], Context { el: 2, id: 513 }, 5),
            (
                vec![0x49, 1],
                Operation {
                    class: 1,
                    payload: 1,
                },
                2,
            ),
            (
                long(0xb0),
                Address {
                    index: 0,
                    value: number,
                },
                9,
            ),
            (
                long(0xb3),
                Address {
                    index: 3,
                    value: number,
                },
                9,
            ),
            (
                vec![0x98, 5, 1],
                Counter {
                    index: 0,
                    value: 0x105,
                },
                3,
            ),
            (
                vec![0x21, 0x9a, 5, 1],
                Counter {
                    index: 10,
                    value: 0x105,
                },
                4,
            ),
            (
                [&[0x20][..], &long(0xb4)].concat(),
                Address {
                    index: 4,
                    value: number,
                },
                10,
            ),
        ] {
            assert_eq!(Packet::parse(&bytes, 0), Ok((packet, len)), "{bytes:x?}");
            for cut in 1..bytes.len() {
                assert!(
                    matches!(
                        Packet::parse(&bytes[..cut], 0),
                        Err(PacketError::Short(need)) if need > cut
                    ),
                    "{bytes:x?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn alignment_counts_from_the_area_not_the_buffer() {
        let zeros = [[0x22_u8, 0].as_slice(), &[0; 16]].concat();
        assert_eq!(Packet::parse(&zeros, 3), Ok((Packet::Padding, 5)));
        assert_eq!(Packet::parse(&zeros, 8), Ok((Packet::Padding, 8)));
        assert_eq!(Packet::parse(&zeros[..4], 8), Err(PacketError::Short(8)));
    }

    #[test]
    fn other_bytes_are_no_packets() {
        for bytes in [
            [0x02, 0].as_slice(),
            &[0x4b, 0],
            &[0x80, 0],
            &[0xff, 0],
            &[0x20, 0x01],
        ] {
            assert_eq!(Packet::parse(bytes, 0), Err(PacketError::Bad(bytes[0])));
        }
    }
}

//! AUX data, slice by slice, to records.

use super::packet::PACKET_MAX;
use super::{Packet, PacketError, Record};

/// What a decoder saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Records given.
    pub records: u64,
    /// Records lost, at least: one for each run of bad bytes, and those cut by the end of the data or a gap in it.
    pub broken: u64,
    /// Bytes that belong to no packet.
    pub bad_bytes: u64,
}

/// Decodes the data of one AUX area. Slices may end anywhere: packet and record go on in the next one.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// Start of a packet whose end has not come yet; shorter than a packet.
    carry: Vec<u8>,
    /// Place in the AUX area that should come next.
    next: Option<u64>,
    record: Record,
    /// The record has parts.
    is_open: bool,
    /// Bad bytes were seen: nothing counts until a record starts or ends.
    is_lost: bool,
    counts: Counts,
}

impl Decoder {
    /// Takes the bytes that stand at `offset` in the AUX area and gives every record that is complete. A place other than
    /// the one after the last slice is a gap: what was begun is lost.
    pub fn push(&mut self, offset: u64, bytes: &[u8], mut each: impl FnMut(&Record)) {
        if self.next.is_some_and(|next| next != offset) {
            self.abandon();
        }
        let mut at = offset;
        let mut rest = bytes;
        if !self.carry.is_empty() {
            // The carried start and enough bytes for any packet.
            let held = self.carry.len();
            let more = bytes.get(..PACKET_MAX).unwrap_or(bytes);
            let mut joined = std::mem::take(&mut self.carry);
            joined.extend_from_slice(more);
            let start = offset.wrapping_sub(crate::bytes::len64(held));
            let used = self.walk(start, &joined, held, &mut each);
            if used < held {
                // Not even the whole slice ends the packet.
                joined.drain(..used);
                self.carry = joined;
                self.next = Some(offset.wrapping_add(crate::bytes::len64(bytes.len())));
                return;
            }
            let taken = used - held;
            rest = bytes.get(taken..).unwrap_or_default();
            at = offset.wrapping_add(crate::bytes::len64(taken));
        }
        let used = self.walk(at, rest, rest.len(), &mut each);
        self.carry
            .extend_from_slice(rest.get(used..).unwrap_or_default());
        self.next = Some(offset.wrapping_add(crate::bytes::len64(bytes.len())));
    }

    /// The data ends here.
    pub fn finish(&mut self) -> Counts {
        self.abandon();
        self.next = None;
        self.counts
    }

    /// What was seen so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Walks packets that start before `until`; gives the bytes used. Stops at a packet whose end is not there.
    fn walk(
        &mut self,
        start: u64,
        bytes: &[u8],
        until: usize,
        each: &mut impl FnMut(&Record),
    ) -> usize {
        let mut used = 0;
        while used < until {
            let here = bytes.get(used..).unwrap_or_default();
            match Packet::parse(here, start.wrapping_add(crate::bytes::len64(used))) {
                Ok((packet, len)) => {
                    self.take(packet, each);
                    used += len;
                }
                Err(PacketError::Short(_)) => break,
                Err(PacketError::Bad(_)) => {
                    self.counts.bad_bytes += 1;
                    self.counts.broken += u64::from(!self.is_lost);
                    self.reset();
                    self.is_lost = true;
                    used += 1;
                }
            }
        }
        used
    }

    fn take(&mut self, packet: Packet, each: &mut impl FnMut(&Record)) {
        let ends = matches!(packet, Packet::End | Packet::Timestamp(_));
        if self.is_lost {
            // The tail of a record with a hole, unless a new one starts.
            let starts = matches!(packet, Packet::Address { index: 0, .. });
            self.is_lost = !(ends || starts);
            if !starts {
                return;
            }
        }
        self.is_open |= self.record.take(packet);
        if ends {
            if self.is_open {
                self.counts.records += 1;
                each(&self.record);
            }
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.record = Record::default();
        self.is_open = false;
    }

    fn abandon(&mut self) {
        let begun = self.is_open || !(self.carry.is_empty() || self.is_lost);
        self.counts.broken += u64::from(begun);
        self.counts.bad_bytes += crate::bytes::len64(self.carry.len());
        self.carry.clear();
        self.reset();
        self.is_lost = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PC, load, events, total latency, address, end.
    fn record(pc: u64) -> Vec<u8> {
        let mut bytes = vec![0xb0];
        bytes.extend_from_slice(&pc.to_le_bytes());
        bytes.extend_from_slice(&[0x49, 0, 0x52, 0x16, 0, 0x98, 7, 0, 0xb2]);
        bytes.extend_from_slice(&0xffff_1000_u64.to_le_bytes());
        bytes.extend_from_slice(&[0x01, 0, 0]);
        bytes
    }

    fn pcs(slices: &[(u64, &[u8])]) -> (Vec<u64>, Counts) {
        let mut decoder = Decoder::default();
        let mut pcs = Vec::new();
        for (offset, bytes) in slices {
            decoder.push(*offset, bytes, |record| pcs.push(record.ip().unwrap()));
        }
        (pcs, decoder.finish())
    }

    #[test]
    fn slices_may_end_anywhere() {
        let data = [record(0x1000), record(0x2000), record(0x3000)].concat();
        let counts = Counts {
            records: 3,
            ..Counts::default()
        };
        for first in 0..=data.len() {
            for second in first..=data.len() {
                let slices = [
                    (64, &data[..first]),
                    (64 + first as u64, &data[first..second]),
                    (64 + second as u64, &data[second..]),
                ];
                let expected = (vec![0x1000, 0x2000, 0x3000], counts);
                assert_eq!(pcs(&slices), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn one_byte_at_a_time_is_enough() {
        let data = [record(0x1000), record(0x2000)].concat();
        let bytes: Vec<_> = (0..).zip(data.chunks(1)).collect();
        assert_eq!(pcs(&bytes).0, [0x1000, 0x2000]);
    }

    #[test]
    fn bad_bytes_cost_their_record_and_no_other() {
        let mut data = [record(0x1000), record(0x2000), record(0x3000)].concat();
        let len = record(0).len();
        data[len + 9] = 0xff; // the operation's header of the second record
        data[len + 10] = 0xfe;
        let (seen, counts) = pcs(&[(0, &data)]);
        assert_eq!(seen, [0x1000, 0x3000]);
        assert_eq!((counts.broken, counts.bad_bytes), (1, 2));
    }

    #[test]
    fn a_record_that_starts_after_bad_bytes_counts() {
        let data = [&[0xff, 0xff, 0xff][..], &record(0x1000)].concat();
        let (seen, counts) = pcs(&[(0, &data)]);
        assert_eq!(seen, [0x1000]);
        assert_eq!((counts.broken, counts.bad_bytes), (1, 3));
    }

    #[test]
    fn a_record_whose_first_byte_is_bad_is_counted_once() {
        let mut data = [record(0x1000), record(0x2000), record(0x3000)].concat();
        data[record(0).len()] = 0xff;
        let (seen, counts) = pcs(&[(0, &data)]);
        assert_eq!(seen, [0x1000, 0x3000]);
        assert_eq!((counts.records, counts.broken), (2, 1));
    }

    #[test]
    fn a_gap_loses_what_was_begun() {
        let (first, second) = (record(0x1000), record(0x2000));
        let (seen, counts) = pcs(&[(0, &first[..12]), (4096, &second)]);
        assert_eq!(seen, [0x2000]);
        assert_eq!((counts.records, counts.broken), (1, 1));
    }

    #[test]
    fn the_end_of_the_data_cuts_a_record() {
        let data = record(0x1000);
        let (seen, counts) = pcs(&[(0, &data[..15])]);
        assert_eq!(seen, [0_u64; 0]);
        assert_eq!((counts.broken, counts.bad_bytes), (1, 1));
    }
}

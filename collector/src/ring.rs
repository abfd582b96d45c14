//! The reader of one perf ring.
//!
//! ```text
//! page 0           control page: data_head at byte 1024 (kernel writes), data_tail at 1032 (we write),
//!                  data_offset at 1040, data_size at 1048
//! pages 1 … 2^n    records; head and tail count bytes for ever, place = count mod 2^n pages
//! ```
//!
//! The kernel never overwrites what lies between tail and head (the ring is mapped writable); it drops and counts
//! instead. So what was copied stays valid in the ring until [`Ring::commit`]: a crash between copy and spool loses nothing
//! but what the kernel would have lost anyway.
#![expect(unsafe_code, reason = "memory shared with the kernel")]

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// A mapped ring.
pub(crate) struct Ring {
    map: MmapRaw,
    /// Byte of the mapping where data starts: one page.
    data_at: usize,
    /// Bytes of data, a power of two.
    size: usize,
    /// Everything before this count is copied.
    copied: u64,
    /// Everything before this count is given back to the kernel: our own `data_tail`.
    tail: u64,
}

impl fmt::Debug for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ring")
            .field("size", &self.size)
            .field("copied", &self.copied)
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

/// The ring's size for at least `bytes`: a power of two of pages, at least one.
pub(crate) fn ring_size(bytes: u64, page: usize) -> usize {
    let pages = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(page);
    // 1 GiB of ring a CPU is beyond every use; it keeps the arithmetic far from overflow.
    pages.clamp(1, (1 << 30) / page).next_power_of_two() * page
}

impl Ring {
    /// Maps the ring of a perf descriptor with room for at least `bytes`.
    pub(crate) fn map(event: &impl AsFd, bytes: u64, page: usize) -> io::Result<Self> {
        let size = ring_size(bytes, page);
        let map = MmapOptions::new()
            .len(page + size)
            .map_raw(event.as_fd().as_raw_fd())?;
        Ok(Self {
            map,
            data_at: page,
            size,
            copied: 0,
            tail: 0,
        })
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the mapping is at least a page long and page-aligned, `at` is 1024 or 1032, so the eight bytes lie inside
        // and are aligned. They stay mapped as long as `self.map` lives, which outlives the reference. The kernel accesses
        // them as 64-bit words too, so an atomic is what both sides see.
        #[expect(clippy::cast_ptr_alignment, reason = "see above")]
        unsafe {
            AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast::<u64>())
        }
    }

    /// Appends everything that is new to `out`: whole records, in order. The kernel does not get the room back yet.
    pub(crate) fn copy_new(&mut self, out: &mut Vec<u8>) -> usize {
        self.copy_piece(out, usize::MAX)
    }

    /// The same with `most` bytes at most; a record may end in the next piece.
    pub(crate) fn copy_piece(&mut self, out: &mut Vec<u8>, most: usize) -> usize {
        // ATOMICS: acquire pairs with the kernel's barrier between writing records and `data_head`: what lies before the
        // head we read is written.
        let head = self.counter(HEAD_AT).load(Ordering::Acquire);
        let new = usize::try_from(head.wrapping_sub(self.copied)).unwrap_or(usize::MAX);
        if new == 0 || new > self.size {
            // More than the ring holds cannot be: the kernel stops at the tail. Copying would make records up.
            return 0;
        }
        let new = new.min(most);
        let start = usize::try_from(self.copied % self.size as u64).unwrap_or(0);
        let first = new.min(self.size - start);
        for (at, len) in [(start, first), (0, new - first)] {
            // SAFETY: `at + len <= self.size`, and the mapping is `data_at + size` bytes long. The kernel writes only between
            // head and tail + size, so nobody writes this range until `commit` moves the tail past it.
            let slice = unsafe {
                std::slice::from_raw_parts(self.map.as_ptr().add(self.data_at + at), len)
            };
            out.extend_from_slice(slice);
        }
        self.copied += new as u64;
        new
    }

    /// Gives everything copied so far back to the kernel. Call it once the copies are in the spool.
    pub(crate) fn commit(&mut self) {
        if self.tail == self.copied {
            return;
        }
        self.tail = self.copied;
        // ATOMICS: release keeps our reads of the records before the store; the kernel may overwrite them after it.
        self.counter(TAIL_AT).store(self.tail, Ordering::Release);
    }

    /// Everything the kernel wrote is copied.
    pub(crate) fn is_drained(&self) -> bool {
        // ATOMICS: only compared with our own count; nothing is read on its word.
        self.counter(HEAD_AT).load(Ordering::Relaxed) == self.copied
    }

    /// Bytes copied and not yet given back.
    pub(crate) fn held(&self) -> u64 {
        self.copied.wrapping_sub(self.tail)
    }

    /// Bytes of the ring.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::unix::fs::FileExt;

    const PAGE: usize = 4096;

    /// A file in place of the kernel: same memory, written through the descriptor.
    struct Kernel {
        file: File,
        head: u64,
    }

    impl Kernel {
        fn with_ring(bytes: u64) -> (Self, Ring) {
            let mut file = tempfile::tempfile().unwrap();
            let len = PAGE + ring_size(bytes, PAGE);
            file.seek(SeekFrom::Start(len as u64 - 1)).unwrap();
            file.write_all(&[0]).unwrap();
            let ring = Ring::map(&file, bytes, PAGE).unwrap();
            (Self { file, head: 0 }, ring)
        }

        fn write(&mut self, ring: &Ring, bytes: &[u8]) {
            for byte in bytes {
                let at = PAGE as u64 + self.head % ring.size() as u64;
                self.file.write_all_at(&[*byte], at).unwrap();
                self.head += 1;
            }
            self.file
                .write_all_at(&self.head.to_le_bytes(), HEAD_AT as u64)
                .unwrap();
        }

        fn tail(&self) -> u64 {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, TAIL_AT as u64).unwrap();
            u64::from_le_bytes(bytes)
        }
    }

    #[test]
    fn sizes_are_powers_of_two_of_pages() {
        let sizes = [0, 1, 4096, 4097, 2 << 20, u64::MAX].map(|bytes| ring_size(bytes, PAGE));
        assert_eq!(sizes, [4096, 4096, 4096, 8192, 2 << 20, 1 << 30]);
    }

    #[test]
    fn what_wraps_around_the_end_comes_out_in_order() {
        let (mut kernel, mut ring) = Kernel::with_ring(4096);
        let bytes: Vec<u8> = (0..12_000_u32).map(|n| (n % 251) as u8).collect();
        let mut out = Vec::new();
        for piece in bytes.chunks(3_000) {
            kernel.write(&ring, piece);
            assert_eq!(ring.copy_new(&mut out), piece.len());
            ring.commit();
        }
        assert!(out == bytes, "bytes changed on the way");
    }

    #[test]
    fn the_tail_moves_only_with_the_commit() {
        let (mut kernel, mut ring) = Kernel::with_ring(4096);
        let mut out = Vec::new();
        kernel.write(&ring, &[1; 100]);
        assert_eq!((ring.copy_new(&mut out), ring.copy_new(&mut out)), (100, 0));
        assert_eq!((kernel.tail(), ring.held()), (0, 100));
        kernel.write(&ring, &[2; 50]);
        ring.copy_new(&mut out);
        ring.commit();
        assert_eq!((kernel.tail(), ring.held(), out.len()), (150, 0, 150));
    }

    #[test]
    fn a_head_that_cannot_be_is_not_followed() {
        let (mut kernel, mut ring) = Kernel::with_ring(4096);
        kernel.head = 1 << 40;
        kernel.write(&ring, &[]);
        let mut out = Vec::new();
        assert_eq!((ring.copy_new(&mut out), out.len()), (0, 0));
    }
}

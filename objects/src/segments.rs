//! Loadable segments: between file offsets, mapped addresses and ELF virtual addresses.

/// What tells the mappings of one file apart: how their memory may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// Code may run from it.
    pub executable: bool,
    /// It may be written to.
    pub writable: bool,
}

impl Access {
    /// Of the `prot` of a mapping, as MMAP2 records have it (`PROT_WRITE` 2, `PROT_EXEC` 4).
    pub fn from_prot(prot: u32) -> Self {
        Self {
            executable: prot & 4 != 0,
            writable: prot & 2 != 0,
        }
    }
}

/// One `PT_LOAD` program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First ELF virtual address.
    pub vaddr: u64,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Bytes in memory; those behind `file_size` are zero at start (`.bss`).
    pub mem_size: u64,
    /// `PF_X` 1, `PF_W` 2, `PF_R` 4.
    pub flags: u32,
}

impl Segment {
    /// How its memory may be used.
    pub fn access(&self) -> Access {
        Access {
            executable: self.flags & 1 != 0,
            writable: self.flags & 2 != 0,
        }
    }

    fn holds_offset(&self, offset: u64) -> bool {
        offset
            .checked_sub(self.offset)
            .is_some_and(|into| into < self.file_size)
    }

    fn holds_page_of(&self, offset: u64) -> bool {
        // A mapping is made of whole pages, so it shows what lies around the segment in the file.
        let first = self.offset & !PAGE_MASK;
        let end = self
            .offset
            .saturating_add(self.file_size)
            .saturating_add(PAGE_MASK)
            & !PAGE_MASK;
        (first..end).contains(&offset)
    }

    fn vaddr_at(&self, offset: u64) -> u64 {
        self.vaddr.wrapping_add(offset.wrapping_sub(self.offset))
    }
}

/// Smallest page any kernel maps with; segments are congruent modulo at least this.
const PAGE_MASK: u64 = 0xfff;

/// The loadable segments of a file in the order of its program headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segments {
    list: Box<[Segment]>,
}

impl Segments {
    /// Of these headers.
    pub fn new(list: Vec<Segment>) -> Self {
        Self { list: list.into() }
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Segment] {
        &self.list
    }

    /// ELF virtual address of the byte `into` a mapping that begins at `map_offset` of the file.
    ///
    /// Where several segments show the byte (the page where one ends and the next begins is mapped
    /// twice), the one that really holds it wins, first with the mapping's permissions. A byte that
    /// none holds is of the segment that is mapped there: `.bss` begins behind the file's last
    /// bytes, on a page that the segment before may show too. `None` if no segment is there.
    pub fn vaddr_of_offset(&self, map_offset: u64, into: u64, access: Access) -> Option<u64> {
        let offset = map_offset.wrapping_add(into);
        let find = |test: &dyn Fn(&&Segment) -> bool| self.list.iter().find(test);
        find(&|s| s.holds_offset(offset) && s.access() == access)
            .or_else(|| find(&|s| s.holds_offset(offset)))
            .map(|segment| segment.vaddr_at(offset))
            .or_else(|| Some(into.wrapping_sub(self.bias(0, map_offset, access)?)))
    }

    /// Where a byte that the file has lies in it. `None` where no segment loads it from the file.
    pub fn offset_of_vaddr(&self, vaddr: u64) -> Option<u64> {
        let mut holding = self.list.iter().filter_map(|segment| {
            let into = vaddr.checked_sub(segment.vaddr)?;
            (into < segment.file_size).then(|| segment.offset.saturating_add(into))
        });
        holding.next()
    }

    /// What to subtract (wrapping) from an address of a mapping to get the ELF virtual address.
    ///
    /// `map_start` is the mapping's first address and `map_offset` its offset in the file, both in
    /// bytes. The same bias serves the whole image, also the anonymous memory of `.bss`. Take the
    /// bias of the executable mapping where there is one: a data segment that the dynamic linker
    /// made read-only may begin on the page where the read-only segment ends, and then the two
    /// cannot be told apart by one mapping alone.
    pub fn bias(&self, map_start: u64, map_offset: u64, access: Access) -> Option<u64> {
        let find = |test: &dyn Fn(&&Segment) -> bool| self.list.iter().find(test);
        let begins = |s: &&Segment| s.offset & !PAGE_MASK == map_offset & !PAGE_MASK;
        find(&|s| begins(s) && s.access() == access)
            .or_else(|| find(&|s| s.holds_page_of(map_offset) && s.access() == access))
            .or_else(|| find(&|s| begins(s)))
            .or_else(|| find(&|s| s.holds_page_of(map_offset)))
            .map(|segment| map_start.wrapping_sub(segment.vaddr_at(map_offset)))
    }

    /// Whether a mapping alone does not tell which segment it shows: several of its kind begin on its first page of the file, as
    /// both writable ones of small programs do that lld linked. Then another mapping's bias serves.
    pub fn is_doubtful(&self, map_offset: u64, access: Access) -> bool {
        let begins = |s: &&Segment| s.offset & !PAGE_MASK == map_offset & !PAGE_MASK;
        let like = |s: &&Segment| begins(s) && s.access() == access;
        self.list.iter().filter(like).nth(1).is_some()
    }

    /// Whether the address lies in memory some segment takes.
    pub fn holds_vaddr(&self, vaddr: u64) -> bool {
        self.list.iter().any(|segment| {
            vaddr
                .checked_sub(segment.vaddr)
                .is_some_and(|into| into < segment.mem_size)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As linkers lay it out: data follows in the file within the page that ends the code.
    fn usual() -> Segments {
        let segment = |vaddr, offset, file_size, mem_size, flags| Segment {
            vaddr,
            offset,
            file_size,
            mem_size,
            flags,
        };
        Segments::new(vec![
            segment(0, 0, 0xc68, 0xc68, 4),
            segment(0x1000, 0x1000, 0x1411, 0x1411, 5),
            segment(0x4da0, 0x2da0, 0x2f8, 0x1300, 6),
        ])
    }

    const CODE: Access = Access {
        executable: true,
        writable: false,
    };
    const DATA: Access = Access {
        executable: false,
        writable: true,
    };

    #[test]
    fn an_offset_becomes_an_address() {
        assert_eq!(usual().vaddr_of_offset(0x1000, 0x234, CODE), Some(0x1234));
        assert_eq!(usual().vaddr_of_offset(0x2000, 0xda8, DATA), Some(0x4da8));
        // The dynamic linker took the permission to write away.
        assert_eq!(
            usual().vaddr_of_offset(0x2000, 0xda8, Access::from_prot(1)),
            Some(0x4da8)
        );
        assert_eq!(usual().vaddr_of_offset(0x9_0000, 0, CODE), None);
    }

    #[test]
    fn an_address_is_found_in_the_file() {
        assert_eq!(usual().offset_of_vaddr(0x1234), Some(0x1234));
        assert_eq!(usual().offset_of_vaddr(0x4da8), Some(0x2da8));
        assert_eq!(usual().offset_of_vaddr(0x5098), None, "zeroed memory");
    }

    #[test]
    fn a_byte_mapped_by_its_page_alone_belongs_to_a_segment_of_the_right_kind() {
        // 0x2900 lies behind the code and before the data, in a page both map.
        assert_eq!(usual().vaddr_of_offset(0x2000, 0x900, CODE), Some(0x2900));
        assert_eq!(usual().vaddr_of_offset(0x2000, 0x900, DATA), Some(0x4900));
    }

    /// As lld lays it out: two writable segments, the first one padded to whole pages in memory, with one page of the file
    /// in both.
    #[test]
    fn bss_on_a_shared_page_belongs_to_the_segment_that_is_mapped() {
        let segment = |vaddr, offset, file_size, mem_size| Segment {
            vaddr,
            offset,
            file_size,
            mem_size,
            flags: 6,
        };
        let two = Segments::new(vec![
            segment(0x47d0, 0x27d0, 0x2880, 0x3830),
            segment(0x8050, 0x5050, 0xda8, 0xef2),
        ]);
        assert_eq!(two.vaddr_of_offset(0x5000, 0x60, DATA), Some(0x8060));
        assert_eq!(two.vaddr_of_offset(0x5000, 0xe40, DATA), Some(0x8e40));
        assert_eq!(two.vaddr_of_offset(0x2000, 0x800, DATA), Some(0x4800));
    }

    /// Small programs of lld: both writable segments begin on one page of the file.
    #[test]
    fn what_begins_on_one_page_is_in_doubt() {
        let segment = |vaddr, offset, file_size, mem_size, flags| Segment {
            vaddr,
            offset,
            file_size,
            mem_size,
            flags,
        };
        let small = Segments::new(vec![
            segment(0x1c30, 0xc30, 0x7f0, 0x7f0, 5),
            segment(0x3420, 0x1420, 0x1d8, 0xbe0, 6),
            segment(0x45f8, 0x15f8, 0x88, 0x9290, 6),
        ]);
        assert!(small.is_doubtful(0x1000, DATA));
        assert!(!small.is_doubtful(0x1000, CODE) && !small.is_doubtful(0, CODE));
        assert!(!usual().is_doubtful(0x2000, DATA));
    }

    #[test]
    fn one_bias_serves_a_mapping() {
        let base = 0x5555_0000_0000;
        assert_eq!(usual().bias(base + 0x1000, 0x1000, CODE), Some(base));
        // The page of offset 0x2000 is mapped twice: as the end of the code and as data.
        assert_eq!(usual().bias(base + 0x4000, 0x2000, DATA), Some(base));
        assert_eq!(usual().bias(base + 0x2000, 0x2000, CODE), Some(base));
        assert_eq!(usual().bias(base, 0x9_0000, CODE), None);
    }

    #[test]
    fn permissions_are_those_of_a_mapping() {
        assert_eq!(Access::from_prot(5), CODE);
        assert_eq!(Access::from_prot(3), DATA);
    }

    #[test]
    fn zeroed_memory_belongs_to_its_segment() {
        assert!(usual().holds_vaddr(0x6000));
        assert!(!usual().holds_vaddr(0x60a0));
        assert!(!usual().holds_vaddr(0xfff));
    }
}

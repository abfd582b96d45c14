//! Loadable segments: between file offsets, mapped addresses and ELF virtual addresses.

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
    /// Whether code may run from it.
    pub fn is_executable(&self) -> bool {
        self.flags & 1 != 0
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

    /// ELF virtual address of a byte of the file, as `ip - map.start + map.pgoff` gives it.
    ///
    /// Where several segments show the byte (the page where one ends and the next begins is mapped
    /// twice), the one that really holds it wins, then one whose permission to execute is as
    /// `executable` says. `None` if no segment loads the byte.
    pub fn vaddr_of_offset(&self, offset: u64, executable: bool) -> Option<u64> {
        self.holding(offset, executable)
            .map(|segment| segment.vaddr_at(offset))
    }

    /// What to subtract (wrapping) from an address of a mapping to get the ELF virtual address.
    ///
    /// `map_start` is the mapping's first address and `map_offset` its offset in the file, both in
    /// bytes; `executable` whether it is mapped with `PROT_EXEC`. One subtraction serves all
    /// addresses of the mapping, and those of the anonymous `.bss` behind it.
    pub fn bias(&self, map_start: u64, map_offset: u64, executable: bool) -> Option<u64> {
        let segment = self
            .list
            .iter()
            .filter(|segment| segment.is_executable() == executable)
            .chain(self.list.iter())
            .find(|segment| segment.offset & !PAGE_MASK == map_offset & !PAGE_MASK)
            .or_else(|| self.holding(map_offset, executable))?;
        Some(map_start.wrapping_sub(segment.vaddr_at(map_offset)))
    }

    /// Whether the address lies in memory some segment takes.
    pub fn holds_vaddr(&self, vaddr: u64) -> bool {
        self.list.iter().any(|segment| {
            vaddr
                .checked_sub(segment.vaddr)
                .is_some_and(|into| into < segment.mem_size)
        })
    }

    fn holding(&self, offset: u64, executable: bool) -> Option<&Segment> {
        let find = |test: &dyn Fn(&&Segment) -> bool| self.list.iter().find(test);
        find(&|s| s.holds_offset(offset) && s.is_executable() == executable)
            .or_else(|| find(&|s| s.holds_offset(offset)))
            .or_else(|| find(&|s| s.holds_page_of(offset) && s.is_executable() == executable))
            .or_else(|| find(&|s| s.holds_page_of(offset)))
    }
}

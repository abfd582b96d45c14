//! `/proc/PID/maps`, line by line.

/// One mapping. `name` as the kernel prints it; empty for anonymous memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Map<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    permissions: [u8; 4],
    pub(crate) offset: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
    path: &'a [u8],
}

/// What the kernel's own records call anonymous memory.
const ANONYMOUS: &[u8] = b"//anon";

impl<'a> Map<'a> {
    pub(crate) fn executable(&self) -> bool {
        self.permissions[2] == b'x'
    }

    /// `PROT_READ` 1, `PROT_WRITE` 2, `PROT_EXEC` 4.
    pub(crate) fn prot(&self) -> u32 {
        let bit = |at: usize, letter, bit| {
            if self.permissions[at] == letter {
                bit
            } else {
                0
            }
        };
        bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4)
    }

    /// `MAP_SHARED` 1, `MAP_PRIVATE` 2.
    pub(crate) fn flags(&self) -> u32 {
        if self.permissions[3] == b's' { 1 } else { 2 }
    }

    /// A file is behind it.
    pub(crate) fn is_file(&self) -> bool {
        self.inode != 0 && self.path.first() == Some(&b'/')
    }

    /// The name in records.
    pub(crate) fn name(&self) -> &'a [u8] {
        if self.path.is_empty() {
            ANONYMOUS
        } else {
            self.path
        }
    }

    /// The path of a file, without the mark of deleted ones.
    pub(crate) fn path(&self) -> &'a [u8] {
        self.path.strip_suffix(b" (deleted)").unwrap_or(self.path)
    }
}

/// The lines that have the form; others are passed over.
pub(crate) fn parse(text: &[u8]) -> impl Iterator<Item = Map<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(line)
}

/// `start-end perms offset major:minor inode path`
fn line(line: &[u8]) -> Option<Map<'_>> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let mut word = || words.next();
    let (start, end) = pair(word()?, b'-')?;
    let permissions = word()?.first_chunk::<4>().copied()?;
    let offset = hex(word()?)?;
    let (major, minor) = pair(word()?, b':')?;
    let inode = std::str::from_utf8(word()?).ok()?.parse().ok()?;
    let path = word().unwrap_or_default().trim_ascii_start();
    (start < end).then_some(Map {
        start,
        end,
        permissions,
        offset,
        major: u32::try_from(major).ok()?,
        minor: u32::try_from(minor).ok()?,
        inode,
        path,
    })
}

fn pair(word: &[u8], at: u8) -> Option<(u64, u64)> {
    let middle = word.iter().position(|byte| *byte == at)?;
    Some((hex(word.get(..middle)?)?, hex(word.get(middle + 1..)?)?))
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"55f4631bf000-55f4631c4000 r-xp 00002000 fe:00 247030                     /usr/bin/a b (deleted)\n\
        7ffc1f600000-7ffc1f621000 rw-p 00000000 00:00 0                          [stack]\n\
        7f0000000000-7f0000001000 rw-s 00000000 00:00 0 \n\
        nonsense\n\
        7f0000001000-7f0000000000 rw-s 00000000 00:00 0 \n";

    #[test]
    fn lines_become_mappings_and_nonsense_is_passed_over() {
        let all: Vec<Map<'_>> = parse(TEXT).collect();
        assert_eq!(all.len(), 3);
        let file = all[0];
        assert!(file.executable() && file.is_file());
        assert_eq!((file.major, file.minor, file.inode), (0xfe, 0, 247_030));
        assert_eq!((file.prot(), file.flags(), file.offset), (5, 2, 0x2000));
        assert_eq!(file.name(), b"/usr/bin/a b (deleted)");
        assert_eq!(file.path(), b"/usr/bin/a b");
        assert_eq!((all[1].name(), all[1].is_file()), (&b"[stack]"[..], false));
        assert_eq!((all[2].name(), all[2].flags()), (&b"//anon"[..], 1));
    }
}

//! Names of code that a process generates: `/tmp/perf-PID.map` and jitdump files.
//!
//! Both are written by the process itself while it runs: they may end anywhere, repeat addresses and be made to fill memory.

use crate::{Flags, JitError, Limits, Source, Symbol, Symbols, SymbolsBuilder};
use std::io::{ErrorKind, Read};

/// `JiTD`, in the byte order of the writer.
const MAGIC: u32 = 0x4A69_5444;

/// Bytes of a jitdump's own header that are read.
const HEADER: usize = 40;

/// Longest jitdump header and record head, in bytes.
const HEADER_MAX: u32 = 4096;

/// `total_size` counts the head itself: id, size, time.
const RECORD_HEAD: usize = 16;

const CODE_LOAD: u32 = 0;
const CODE_CLOSE: u32 = 3;

/// Symbols of generated code so far, within limits.
#[derive(Debug)]
pub struct JitSymbols {
    limits: Limits,
    builder: SymbolsBuilder,
    name_bytes: usize,
    count: usize,
    strange_lines: usize,
}

impl JitSymbols {
    /// None yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            builder: SymbolsBuilder::default(),
            name_bytes: 0,
            count: 0,
            strange_lines: 0,
        }
    }

    /// Lines of maps that were passed over, as they are not of the form.
    pub fn strange_lines(&self) -> usize {
        self.strange_lines
    }

    /// All of them. Where several begin at an address the one added last holds: code is generated again and again.
    pub fn finish(self) -> Symbols {
        self.builder.finish()
    }

    /// False when there is no more room.
    fn add(&mut self, start: u64, size: u64, name: &str) -> bool {
        let cut = name.floor_char_boundary(self.limits.name_len);
        let name = name.get(..cut).unwrap_or_default();
        self.name_bytes = self.name_bytes.saturating_add(name.len());
        self.count += 1;
        if self.count > self.limits.symbols || self.name_bytes > self.limits.name_bytes {
            return false;
        }
        if name.is_empty() || size == 0 || start.checked_add(size).is_none() {
            return true;
        }
        self.builder.push(Symbol {
            start,
            size,
            name,
            source: Source::SymTab,
            flags: Flags::NONE,
        })
    }

    /// Reads a perf map: `START SIZE name` a line, numbers in hexadecimal. Other lines are passed over, and so is a last line
    /// without its end, which is still being written.
    pub fn add_perf_map(&mut self, text: &[u8]) {
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let text = text.get(..whole.unwrap_or(0)).unwrap_or_default();
        for line in text.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut words = line.splitn(3, ' ');
            let mut number = || {
                let word = words.next()?;
                u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
            };
            let (Some(start), Some(size)) = (number(), number()) else {
                self.strange_lines += usize::from(!line.trim().is_empty());
                continue;
            };
            let name = words.next().unwrap_or_default().trim();
            if !self.add(start, size, name) {
                return;
            }
        }
    }

    /// Reads a jitdump from its start to its end, to where it is cut, or to what makes no sense. The code itself is passed
    /// over.
    pub fn add_jitdump(&mut self, file: &mut impl Read) -> Result<(), JitError> {
        let mut dump = Dump::open(file)?;
        while let Some(load) = dump.next()? {
            let read = load.name_len.min(self.limits.name_len as u64 + 1);
            let name = dump.read(read)?;
            let end = name.iter().position(|byte| *byte == 0);
            let name = name.get(..end.unwrap_or(name.len())).unwrap_or_default();
            if !self.add(load.address, load.size, &String::from_utf8_lossy(name)) {
                break;
            }
            skip(dump.file, load.name_len - read + load.size)?;
        }
        Ok(())
    }
}

/// The code of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitCode {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What they are for: `e_machine` as in ELF files.
    pub machine: u16,
}

/// The code at an address, at most so many bytes, as a jitdump has it: of several functions that begin there the one written
/// last, which is the one that [`JitSymbols`] names. `None` if the dump has none.
pub fn jitdump_code(
    file: &mut impl Read,
    start: u64,
    most: usize,
) -> Result<Option<JitCode>, JitError> {
    let mut dump = Dump::open(file)?;
    let mut found = None;
    match last_code(&mut dump, start, most, &mut found) {
        // What stands before the cut is whole.
        Ok(()) | Err(JitError::Cut) => Ok(found),
        Err(error) => Err(error),
    }
}

fn last_code<R: Read>(
    dump: &mut Dump<'_, R>,
    start: u64,
    most: usize,
    found: &mut Option<JitCode>,
) -> Result<(), JitError> {
    while let Some(load) = dump.next()? {
        if load.address != start {
            skip(dump.file, load.name_len + load.size)?;
            continue;
        }
        let read = load.size.min(most as u64);
        skip(dump.file, load.name_len)?;
        let bytes = dump.read(read)?;
        let machine = dump.machine;
        *found = Some(JitCode { bytes, machine });
        skip(dump.file, load.size - read)?;
    }
    Ok(())
}

/// A jitdump, read from its start.
struct Dump<'f, R> {
    file: &'f mut R,
    order: Order,
    machine: u16,
}

/// One function; its name and its code come next in the file.
struct Load {
    address: u64,
    /// Bytes of the code.
    size: u64,
    /// Bytes of the name, with the 0 behind it; no more than a record has.
    name_len: u64,
}

impl<'f, R: Read> Dump<'f, R> {
    fn open(file: &'f mut R) -> Result<Self, JitError> {
        let mut header = [0; HEADER];
        if fill(file, &mut header)? < HEADER {
            return Err(JitError::NotADump);
        }
        let order = Order::of(&header).ok_or(JitError::NotADump)?;
        let len = order.u32(&header, 8);
        if !(40..=HEADER_MAX).contains(&len) {
            return Err(JitError::NotADump);
        }
        skip(file, u64::from(len) - HEADER as u64)?;
        let machine = u16::try_from(order.u32(&header, 12)).unwrap_or(0);
        Ok(Self {
            file,
            order,
            machine,
        })
    }

    /// The next function; `None` at the end.
    fn next(&mut self) -> Result<Option<Load>, JitError> {
        let mut head = [0; RECORD_HEAD];
        loop {
            match fill(self.file, &mut head)? {
                0 => return Ok(None),
                RECORD_HEAD => {}
                _ => return Err(JitError::Cut),
            }
            let (id, size) = (self.order.u32(&head, 0), self.order.u32(&head, 4));
            let Some(body) = u64::from(size).checked_sub(RECORD_HEAD as u64) else {
                return Err(JitError::RecordSize { size });
            };
            match id {
                CODE_LOAD => return self.load(body).map(Some),
                CODE_CLOSE => return Ok(None),
                // Debug and unwinding information; moved code, which no known writer has.
                _ => skip(self.file, body)?,
            }
        }
    }

    /// Process, thread, address twice, size, number; name and code follow.
    fn load(&mut self, body: u64) -> Result<Load, JitError> {
        const FIXED: usize = 40;
        let mut fixed = [0; FIXED];
        let Some(rest) = body.checked_sub(FIXED as u64) else {
            return Err(JitError::RecordSize {
                size: u32::try_from(body).unwrap_or(u32::MAX),
            });
        };
        if fill(self.file, &mut fixed)? < FIXED {
            return Err(JitError::Cut);
        }
        let (address, size) = (self.order.u64(&fixed, 16), self.order.u64(&fixed, 24));
        let name_len = rest.checked_sub(size).ok_or(JitError::CodeSize { size })?;
        Ok(Load {
            address,
            size,
            name_len,
        })
    }

    /// So many bytes.
    fn read(&mut self, len: u64) -> Result<Vec<u8>, JitError> {
        let mut bytes = Vec::new();
        let got = self.file.by_ref().take(len).read_to_end(&mut bytes)?;
        if (got as u64) < len {
            return Err(JitError::Cut);
        }
        Ok(bytes)
    }
}

/// Byte order of a writer.
#[derive(Debug, Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(header: &[u8; HEADER]) -> Option<Self> {
        let both = [Self::Little, Self::Big];
        both.into_iter().find(|order| order.u32(header, 0) == MAGIC)
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| match self {
            Self::Little => u32::from_le_bytes(*word),
            Self::Big => u32::from_be_bytes(*word),
        })
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| match self {
            Self::Little => u64::from_le_bytes(*word),
            Self::Big => u64::from_be_bytes(*word),
        })
    }
}

impl From<std::io::Error> for JitError {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable { kind: error.kind() }
    }
}

/// Bytes read: fewer than asked for only where the file ends.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> Result<usize, JitError> {
    let mut have = 0;
    while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(got) => have += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(have)
}

fn skip(file: &mut impl Read, bytes: u64) -> Result<(), JitError> {
    let passed = std::io::copy(&mut file.by_ref().take(bytes), &mut std::io::sink())?;
    if passed < bytes {
        return Err(JitError::Cut);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(symbols: JitSymbols) -> Vec<(u64, u64, String)> {
        let symbols = symbols.finish();
        symbols
            .iter()
            .map(|s| (s.start, s.size, s.name.to_owned()))
            .collect()
    }

    fn map(text: &[u8]) -> Vec<(u64, u64, String)> {
        let mut symbols = JitSymbols::new(Limits::default());
        symbols.add_perf_map(text);
        list(symbols)
    }

    #[test]
    fn a_perf_map_has_a_function_a_line() {
        let named = |start, size, name: &str| (start, size, name.to_owned());
        assert_eq!(
            map(b"7f20 10 second name\n0x7f00 0x20 first\nbroken\n7f40 0 empty\n\n7f50 1\n7f60 8 unfinished"),
            [named(0x7f00, 0x20, "first"), named(0x7f20, 0x10, "second name")]
        );
        assert_eq!(
            map(b"7f00 20 old\n7f00 20 new\n").last(),
            Some(&named(0x7f00, 0x20, "new"))
        );
        assert_eq!(map(b""), []);
        assert_eq!(map(b"ffffffffffffffff 10 behind the end\n"), []);
    }

    fn record(id: u32, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(RECORD_HEAD + body.len()).unwrap();
        [&id.to_le_bytes()[..], &size.to_le_bytes(), &[0; 8], body].concat()
    }

    fn load(address: u64, name: &str, code: &[u8]) -> Vec<u8> {
        let size = code.len() as u64;
        let words = [address, address, size, 1].map(u64::to_le_bytes).concat();
        record(
            CODE_LOAD,
            &[&[0; 8][..], &words, name.as_bytes(), &[0], code].concat(),
        )
    }

    fn dump() -> Vec<u8> {
        let mut header = vec![0; HEADER];
        header[..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&1_u32.to_le_bytes());
        header[8..12].copy_from_slice(&40_u32.to_le_bytes());
        [
            header,
            record(2, &[7; 33]),
            load(0x1000, "one", &[0x90; 64]),
            load(0x2000, "two", &[0xc3; 9]),
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> (Result<(), JitError>, usize) {
        let mut symbols = JitSymbols::new(Limits::default());
        let read = symbols.add_jitdump(&mut &*bytes);
        (read, list(symbols).len())
    }

    #[test]
    fn a_jitdump_names_its_functions() {
        let mut symbols = JitSymbols::new(Limits::default());
        symbols.add_jitdump(&mut dump().as_slice()).unwrap();
        let named = |start, size, name: &str| (start, size, name.to_owned());
        assert_eq!(
            list(symbols),
            [named(0x1000, 64, "one"), named(0x2000, 9, "two")]
        );
    }

    #[test]
    fn a_jitdump_has_the_code_that_was_generated_last() {
        let mut header = dump();
        header[12..16].copy_from_slice(&62_u32.to_le_bytes());
        let whole = [header, load(0x1000, "one", &[1, 2, 3, 4])].concat();
        let code = |start, most| jitdump_code(&mut whole.as_slice(), start, most).unwrap();
        let of = |bytes: &[u8]| {
            let (bytes, machine) = (bytes.to_vec(), 62);
            Some(JitCode { bytes, machine })
        };
        assert_eq!(code(0x1000, 64), of(&[1, 2, 3, 4]));
        assert_eq!(code(0x2000, 64), of(&[0xc3; 9]));
        assert_eq!(code(0x2000, 2), of(&[0xc3; 2]));
        assert_eq!(code(0x2001, 64), None);
        let cut = &whole[..whole.len() - 1];
        let first = jitdump_code(&mut &*cut, 0x1000, 64).unwrap();
        assert_eq!(first, of(&[0x90; 64]), "the newer one is not whole");
    }

    #[test]
    fn a_jitdump_is_read_up_to_its_cut() {
        let whole = dump();
        let second = RECORD_HEAD + 33;
        let third = second + load(0, "one", &[0; 64]).len();
        let ends = [0, second, third].map(|at| HEADER + at);
        for cut in HEADER..whole.len() {
            let (read, found) = read(&whole[..cut]);
            let expected = if ends.contains(&cut) {
                Ok(())
            } else {
                Err(JitError::Cut)
            };
            assert_eq!(read, expected, "cut at {cut}");
            assert!(found <= 2);
        }
        for cut in 0..HEADER {
            assert_eq!(read(&whole[..cut]).0, Err(JitError::NotADump));
        }
        assert_eq!(read(&whole).1, 2);
    }

    #[test]
    fn a_jitdump_that_lies_is_refused_with_what_came_before() {
        let too_short = [dump(), record(CODE_LOAD, &[0; 8])].concat();
        assert_eq!(read(&too_short), (Err(JitError::RecordSize { size: 8 }), 2));
        let mut longer = load(0x3000, "three", &[0; 4]);
        longer[RECORD_HEAD + 24..RECORD_HEAD + 32].copy_from_slice(&u64::MAX.to_le_bytes());
        let lying = [dump(), longer].concat();
        assert_eq!(
            read(&lying),
            (Err(JitError::CodeSize { size: u64::MAX }), 2)
        );
        assert_eq!(read(b"JiTD").0, Err(JitError::NotADump));
        assert_eq!(read(&[0; 100]).0, Err(JitError::NotADump));
    }

    #[test]
    fn limits_hold() {
        let limits = Limits {
            symbols: 2,
            name_len: 3,
            ..Limits::default()
        };
        let mut symbols = JitSymbols::new(limits);
        symbols.add_perf_map(b"10 1 abcdef\n20 1 b\n30 1 c\n");
        let named = |start, name: &str| (start, 1, name.to_owned());
        assert_eq!(list(symbols), [named(0x10, "abc"), named(0x20, "b")]);
    }
}

//! Functions of Go programs from the table their runtime needs itself: it is there even when all symbols were stripped.
//!
//! ```text
//! magic  0 0  quantum  pointer size        then words of a pointer:
//! 1.2    fffffffb   count, (address, place) ..., end
//! 1.16   fffffffa   count, files, names, units, files, lines, functions
//! 1.18   fffffff0   count, files, text, names, units, files, lines, functions
//! 1.20   fffffff1   the same
//! ```
//!
//! From 1.18 on a function's address and place are 32 bits, addresses from the start of the text. What lies at its place
//! begins with its address and the offset of its name.

/// Where the functions of a table are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pclntab<'a> {
    big_endian: bool,
    /// Bytes of an address in the table of functions.
    width: usize,
    count: usize,
    /// The table of functions, which their places are offsets from.
    functions: &'a [u8],
    /// Where places start from.
    places: &'a [u8],
    /// The names, each ended by a zero.
    pub(crate) names: &'a [u8],
    /// Added to addresses.
    text: u64,
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoFunction {
    pub(crate) start: u64,
    pub(crate) size: u64,
    /// Offset of its name in the names.
    pub(crate) name: u32,
}

impl<'a> Pclntab<'a> {
    /// Reads the header. `text` is where the program's code starts, for tables that do not say it themselves: it is filled in
    /// when the program is loaded, or not at all.
    pub(crate) fn parse(bytes: &'a [u8], text: u64) -> Option<Self> {
        let head = bytes.first_chunk::<8>()?;
        let [m0, m1, m2, m3, 0, 0, 1 | 2 | 4, pointer @ (4 | 8)] = *head else {
            return None;
        };
        let pointer = usize::from(pointer);
        let (magic, big_endian) = match (
            u32::from_le_bytes([m0, m1, m2, m3]),
            u32::from_be_bytes([m0, m1, m2, m3]),
        ) {
            (little, _) if is_magic(little) => (little, false),
            (_, big) if is_magic(big) => (big, true),
            _ => return None,
        };
        let mut table = Self {
            big_endian,
            width: pointer,
            count: 0,
            functions: bytes,
            places: bytes,
            names: bytes,
            text: 0,
        };
        let word = |at: usize| {
            let at = at.checked_mul(pointer)?.checked_add(8)?;
            table.number(bytes, at, pointer)
        };
        let part = |at: usize| bytes.get(usize::try_from(word(at)?).ok()?..);
        let count = usize::try_from(word(0)?).ok()?;
        match magic {
            GO_1_2 => table.functions = bytes.get(8 + pointer..)?,
            GO_1_16 => {
                (table.names, table.functions) = (part(2)?, part(6)?);
                table.places = table.functions;
            }
            _ => {
                let start = word(2)?;
                let (names, functions) = (part(3)?, part(7)?);
                (table.names, table.functions) = (names, functions);
                table.places = functions;
                table.text = if start == 0 { text } else { start };
                table.width = 4;
            }
        }
        // A function takes two numbers, and behind the last one stands where it ends.
        let room = table.functions.len().checked_sub(table.width)?;
        table.count = count.min(room / (2 * table.width));
        Some(table)
    }

    fn number(&self, bytes: &[u8], at: usize, width: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(width)?)?;
        let add = |value: u64, byte: &u8| (value << 8) | u64::from(*byte);
        Some(if self.big_endian {
            bytes.iter().fold(0, add)
        } else {
            bytes.iter().rev().fold(0, add)
        })
    }

    /// All functions whose entries make sense.
    pub(crate) fn functions(self) -> impl Iterator<Item = GoFunction> + 'a {
        (0..self.count).filter_map(move |at| self.function(at))
    }

    fn function(&self, at: usize) -> Option<GoFunction> {
        let entry = |at: usize| self.number(self.functions, at * self.width, self.width);
        let (start, place, end) = (entry(2 * at)?, entry(2 * at + 1)?, entry(2 * at + 2)?);
        let place = usize::try_from(place).ok()?;
        let name = self.number(self.places, place.checked_add(self.width)?, 4)?;
        Some(GoFunction {
            start: self.text.checked_add(start)?,
            size: end.checked_sub(start).filter(|size| *size > 0)?,
            name: u32::try_from(name).ok()?,
        })
    }
}

const GO_1_2: u32 = 0xffff_fffb;
const GO_1_16: u32 = 0xffff_fffa;
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;

fn is_magic(word: u32) -> bool {
    matches!(word, GO_1_2 | GO_1_16 | GO_1_18 | GO_1_20)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[u8] = b"\0main.main\0main.hot\0";

    /// Two functions, `main.main` of 0x20 bytes and `main.hot` of 0x40, behind the address 0x1000.
    fn table(magic: u32, pointer: usize, big: bool) -> Vec<u8> {
        let word = |value: u64, width: usize| {
            let bytes = value.to_be_bytes();
            let mut bytes = bytes[8 - width..].to_vec();
            if !big {
                bytes.reverse();
            }
            bytes
        };
        let mut bytes = word(magic.into(), 4);
        bytes.extend([0, 0, 1, u8::try_from(pointer).unwrap()]);
        let new = magic == GO_1_18 || magic == GO_1_20;
        let (width, base) = if new { (4, 0) } else { (pointer, 0x1000) };
        let header_words = if new { 8 } else { 7 };
        let header = 8 + header_words * pointer;
        let (names, functions) = (header, header + NAMES.len());
        let entries = 5 * width;
        let put = |bytes: &mut Vec<u8>, value: usize| bytes.extend(word(value as u64, pointer));
        put(&mut bytes, 2);
        if magic == GO_1_2 {
            let body = body_of_1_2(&word, pointer, bytes.len());
            return [bytes, body].concat();
        }
        put(&mut bytes, 0);
        if new {
            put(&mut bytes, 0x1000);
        }
        put(&mut bytes, names);
        (0..3).for_each(|_| put(&mut bytes, 0));
        put(&mut bytes, functions);
        let mut body = Vec::new();
        for (address, place) in [(base, 0), (base + 0x20, 1)] {
            body.extend(word(address, width));
            body.extend(word((entries + place * (width + 4)) as u64, width));
        }
        body.extend(word(base + 0x60, width));
        for (address, name) in [(base, 1), (base + 0x20, 11)] {
            body.extend(word(address, width));
            body.extend(word(name, 4));
        }
        [bytes, NAMES.to_vec(), body].concat()
    }

    /// The functions stand right behind the header; their places and the names follow, all counted from the start.
    fn body_of_1_2(word: &dyn Fn(u64, usize) -> Vec<u8>, pointer: usize, at: usize) -> Vec<u8> {
        let places = at + 5 * pointer;
        let names_at = places + 2 * (pointer + 4);
        let mut body = Vec::new();
        for (address, place) in [(0x1000, 0), (0x1020, 1)] {
            body.extend(word(address, pointer));
            body.extend(word((places + place * (pointer + 4)) as u64, pointer));
        }
        body.extend(word(0x1060, pointer));
        for (address, name) in [(0x1000, 1), (0x1020, 11)] {
            body.extend(word(address, pointer));
            body.extend(word((names_at + name) as u64, 4));
        }
        body.extend(NAMES);
        body
    }

    fn named(bytes: &[u8]) -> Vec<(u64, u64, String)> {
        let Some(table) = Pclntab::parse(bytes, 0x7000) else {
            return Vec::new();
        };
        let name = |at: u32| {
            let rest = table.names.get(at as usize..).unwrap_or_default();
            let end = rest
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(rest.len());
            String::from_utf8_lossy(&rest[..end]).into_owned()
        };
        let functions = table.functions();
        functions.map(|f| (f.start, f.size, name(f.name))).collect()
    }

    #[test]
    fn tables_of_all_versions_orders_and_sizes_are_read() {
        let expected = [
            (0x1000, 0x20, "main.main".to_owned()),
            (0x1020, 0x40, "main.hot".to_owned()),
        ];
        for magic in [GO_1_2, GO_1_16, GO_1_18, GO_1_20] {
            for pointer in [4, 8] {
                for big in [false, true] {
                    let found = named(&table(magic, pointer, big));
                    assert_eq!(found, expected, "{magic:x} {pointer} {big}");
                }
            }
        }
    }

    #[test]
    fn a_start_of_the_text_that_is_not_filled_in_is_that_of_the_section() {
        let mut bytes = table(GO_1_20, 8, false);
        bytes[8 + 16..8 + 24].fill(0);
        assert_eq!(named(&bytes)[0].0, 0x7000);
    }

    #[test]
    fn tables_that_are_cut_or_lie_give_what_makes_sense() {
        for magic in [GO_1_2, GO_1_16, GO_1_18] {
            let whole = table(magic, 8, false);
            for cut in 0..whole.len() {
                assert!(named(&whole[..cut]).len() <= 2, "cut at {cut}");
            }
            let mut lying = whole;
            lying[8..16].fill(0x7f);
            assert!(named(&lying).len() < 100);
        }
        assert_eq!(named(&[0xff; 64]), []);
    }
}

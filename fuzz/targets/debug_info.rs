//! Debug information: an ELF file as a whole, and each section made of a part of the input; the file is its own split file and
//! package too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{DebugInfo, DebugSections, LinkSections, SplitFiles, SplitName};
use std::hint::black_box;
use std::io::Cursor;

/// Sections whose content is hostile, in the order of the parts.
const NAMES: [&str; 14] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_rnglists",
    ".debug_ranges",
    ".debug_line_str",
    ".debug_types",
    ".debug_addr",
    ".debug_info.dwo",
    ".debug_abbrev.dwo",
    ".debug_types.dwo",
    ".debug_cu_index",
    ".debug_tu_index",
];

fuzz_target!(|data: &[u8]| {
    black_box(LinkSections::of(data));
    look(data);
    look(&elf_of(data));
});

/// Every split file is the file itself.
#[derive(Debug)]
struct Itself(Vec<u8>);

impl SplitFiles for Itself {
    fn load(&mut self, _: &SplitName) -> Result<DebugSections, String> {
        let mut reader = Cursor::new(&self.0);
        DebugSections::read_split(&mut reader, self.0.len() as u64).map_err(|why| why.to_string())
    }
}

fn look(file: &[u8]) {
    let whole = || DebugSections::read(&mut Cursor::new(file), file.len() as u64);
    let mut itself = Itself(file.to_vec());
    let name = SplitName {
        id: 0,
        name: String::new(),
        folder: None,
    };
    let package = itself.load(&name).ok();
    for package in [None, package] {
        if let Ok(sections) = whole()
            && let Ok(info) = DebugInfo::with_package(sections, None, package)
        {
            ask(info.with_split_files(Box::new(Itself(file.to_vec()))));
        }
    }
}

fn ask(mut info: DebugInfo) {
    for address in (0..64)
        .map(|at| at * 0x40 + 0x1000)
        .chain([1, 0x40_0000, u64::MAX])
    {
        let _ = black_box(info.frames(address));
        let _ = black_box(info.rows(address, address.saturating_add(0x40)));
        let _ = black_box(info.member(address));
        let _ = black_box(info.member(address.saturating_add(13)));
    }
}

/// A file with these sections: the input begins with the lengths of the parts, two bytes each.
fn elf_of(data: &[u8]) -> Vec<u8> {
    let (lengths, mut rest) = data.split_at(data.len().min(2 * NAMES.len()));
    let mut names = vec![0];
    let mut content = vec![0; 64];
    let mut headers = vec![[0_u8; 64]];
    for (at, name) in NAMES.iter().enumerate() {
        let length = match lengths.get(2 * at..2 * at + 2) {
            Some(&[low, high]) => usize::from(u16::from_le_bytes([low, high])),
            _ => 0,
        };
        let (part, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        headers.push(header(names.len(), 1, content.len(), part.len()));
        names.extend(name.bytes().chain([0]));
        content.extend(part);
    }
    headers.push(header(0, 3, content.len(), names.len()));
    content.extend(names);
    let table = content.len() as u64;
    content.extend(headers.iter().flatten());
    content[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    content[16..20].copy_from_slice(&[3, 0, 62, 0]);
    content[20..24].copy_from_slice(&1_u32.to_le_bytes());
    content[40..48].copy_from_slice(&table.to_le_bytes());
    content[52..54].copy_from_slice(&64_u16.to_le_bytes());
    content[58..60].copy_from_slice(&64_u16.to_le_bytes());
    let count = u16::try_from(headers.len()).expect("a few sections");
    content[60..62].copy_from_slice(&count.to_le_bytes());
    content[62..64].copy_from_slice(&(count - 1).to_le_bytes());
    content
}

fn header(name: usize, kind: u32, offset: usize, size: usize) -> [u8; 64] {
    let mut header = [0; 64];
    let name = u32::try_from(name).expect("names are short");
    header[..4].copy_from_slice(&name.to_le_bytes());
    header[4..8].copy_from_slice(&kind.to_le_bytes());
    header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
    header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
    header
}

//! A small program: symbols, a stub, a build id, no code.

/// Type, flags, address, content, linked section, bytes of an entry.
struct Section<'a> {
    name: &'a str,
    kind: u32,
    flags: u64,
    content: Vec<u8>,
    link: u32,
    entry: u64,
}

const ALLOC: u64 = 2;
const CODE: u64 = 4;
/// Names of symbols; the first starts at 1.
const NAMES: &[u8] = b"\0main\0table\0puts\0label\0";

/// A 64-bit little-endian file.
pub(crate) fn program() -> Vec<u8> {
    let section = |name, kind, flags, content: &[u8], link, entry| Section {
        name,
        kind,
        flags,
        content: content.to_vec(),
        link,
        entry,
    };
    let note = [&[4, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0seedseed"].concat();
    // main, a function of section 1; table, an object; label, of no type.
    let symbols = [
        symbol(0, 0, 0, 0),
        symbol(1, 0x12, 1, 0x1000),
        symbol(6, 0x11, 1, 0x1010),
        symbol(17, 0x10, 1, 0x1020),
    ];
    let dynamic = [symbol(0, 0, 0, 0), symbol(12, 0x12, 0, 0)].concat();
    // The slot, the type and the symbol, what is added.
    let relocation = [0x3000_u64, 1 << 32 | 7, 0].map(u64::to_le_bytes).concat();
    let mut sections = vec![
        section("", 0, 0, &[], 0, 0),
        section(".text", 1, ALLOC | CODE, &[0xc3; 64], 0, 0),
        section(".note.gnu.build-id", 7, ALLOC, &note, 0, 0),
        section(".symtab", 2, 0, &symbols.concat(), 4, 24),
        section(".strtab", 3, 0, NAMES, 0, 0),
        section(".dynsym", 11, ALLOC, &dynamic, 4, 24),
        section(".rela.plt", 4, ALLOC, &relocation, 5, 24),
        section(".plt", 1, ALLOC | CODE, &[0x90; 32], 0, 16),
    ];
    let mut names = Vec::new();
    for section in &sections {
        names.extend_from_slice(section.name.as_bytes());
        names.push(0);
    }
    names.extend_from_slice(b".shstrtab\0");
    sections.push(section(".shstrtab", 3, 0, &names, 0, 0));
    write(&sections)
}

fn symbol(name: u32, info: u8, section: u16, value: u64) -> Vec<u8> {
    let mut out = name.to_le_bytes().to_vec();
    out.extend_from_slice(&[info, 0]);
    out.extend_from_slice(&section.to_le_bytes());
    out.extend_from_slice(&value.to_le_bytes());
    out.extend_from_slice(&16_u64.to_le_bytes());
    out
}

/// Header, one loadable segment of the whole file, contents, table of sections.
fn write(sections: &[Section<'_>]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut table = Vec::new();
    let mut name = 0_u32;
    for section in sections {
        let offset = 64 + 56 + content.len() as u64;
        let size = section.content.len() as u64;
        let address = if section.flags & ALLOC == 0 {
            0
        } else {
            0x1000 + offset
        };
        table.extend_from_slice(&name.to_le_bytes());
        table.extend_from_slice(&section.kind.to_le_bytes());
        for word in [section.flags, address, offset, size] {
            table.extend_from_slice(&word.to_le_bytes());
        }
        table.extend_from_slice(&section.link.to_le_bytes());
        table.extend_from_slice(&[0; 4]);
        for word in [8, section.entry] {
            table.extend_from_slice(&word.to_le_bytes());
        }
        name += u32::try_from(section.name.len() + 1).unwrap_or_default();
        content.extend_from_slice(&section.content);
        content.resize(content.len().next_multiple_of(8), 0);
    }
    let table_at = 64 + 56 + content.len() as u64;
    let count = u16::try_from(sections.len()).unwrap_or_default();
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    for half in [2_u16, 62] {
        out.extend_from_slice(&half.to_le_bytes()); // a program of x86-64
    }
    out.extend_from_slice(&1_u32.to_le_bytes());
    for word in [0x1000, 64, table_at] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    for half in [64, 56, 1, 64, count, count - 1] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    for half in [1_u32, 5] {
        out.extend_from_slice(&half.to_le_bytes()); // to be loaded, read and run
    }
    for word in [0, 0x1000, 0x1000, table_at, table_at, 0x1000] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&content);
    out.extend_from_slice(&table);
    out
}

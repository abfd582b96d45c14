//! Debug information of two functions, one inlined into the other; generated code; Go's table.

/// The parts of the target `debug_info`, each with its length in front of all.
pub(crate) fn parts() -> Vec<u8> {
    let abbreviations: &[u8] = &[
        1, 0x11, 1, 0x03, 0x08, 0x10, 0x17, 0x11, 0x01, 0x12, 0x06, 0, 0, // unit
        2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0, // function
        3, 0x1d, 0, 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x58, 0x0b, 0x59, 0x0b, 0,
        0, // inlined
        4, 0x2e, 0, 0x03, 0x08, 0, 0, 0, // function that is only inlined
    ];
    let mut entries = vec![4, 0, 0, 0, 0, 0, 8];
    let address = 0x1000_u64.to_le_bytes();
    entries.extend([&[1][..], b"a.c\0", &[0; 4], &address, &[0, 1, 0, 0]].concat());
    let origin = u32::try_from(entries.len()).unwrap_or(0) + 4;
    entries.extend([&[4][..], b"leaf\0"].concat());
    entries.extend([&[2][..], b"work\0", &address, &[0x80, 0, 0, 0]].concat());
    entries.extend(
        [
            &[3][..],
            &origin.to_le_bytes(),
            &address,
            &[0x40, 0, 0, 0, 1, 9],
        ]
        .concat(),
    );
    entries.extend([0, 0]);
    let info = [&length(&entries)[..], &entries].concat();
    let tables = [
        &[1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1][..],
        b"src\0\0a.c\0\x01\0\0\0",
    ]
    .concat();
    let program = [
        &[0, 9, 2][..],
        &address,
        &[3, 4, 1, 0x4b, 0x84, 2, 0x20, 3, 2, 1, 2, 0x60, 0, 1, 1],
    ]
    .concat();
    let body = [&[4, 0][..], &length(&tables), &tables, &program].concat();
    let lines = [&length(&body)[..], &body].concat();
    joined(&[
        &info[..],
        abbreviations,
        &lines,
        b"text\0",
        &[0; 16],
        &[0; 16],
        b"name\0",
    ])
}

/// Sections behind their lengths; those that are not given are empty.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    const SECTIONS: usize = 14;
    let lengths = (0..SECTIONS).flat_map(|at| {
        let len = parts.get(at).map_or(0, |part| part.len());
        u16::try_from(len).unwrap_or(0).to_le_bytes()
    });
    lengths.chain(parts.concat()).collect()
}

/// Likewise: a variable of a structure with an array in it, and a type that is its own name.
pub(crate) fn types() -> Vec<u8> {
    let abbreviations: &[u8] = &[
        1, 0x11, 1, 0x03, 0x08, 0, 0, // unit
        2, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0, // variable
        3, 0x13, 1, 0x0b, 0x0b, 0, 0, // structure
        4, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0, // member
        5, 0x01, 1, 0x49, 0x13, 0, 0, // array
        6, 0x21, 0, 0x37, 0x0b, 0, 0, // its length
        7, 0x24, 0, 0x0b, 0x0b, 0, 0, // number
        8, 0x16, 0, 0x49, 0x13, 0, 0, // other name
        0,
    ];
    let mut entries = vec![4, 0, 0, 0, 0, 0, 8];
    entries.extend([&[1][..], b"a.c\0"].concat());
    let here = |entries: &Vec<u8>| as_word(entries.len() + 4);
    let number = here(&entries);
    entries.extend([7, 4]);
    let array = here(&entries);
    entries.extend([&[5][..], &number, &[6, 3, 0]].concat());
    let itself = here(&entries);
    entries.extend([&[8][..], &itself].concat());
    let structure = here(&entries);
    entries.extend([3, 20]);
    for (name, kind, at) in [
        (b"a\0", array, 0),
        (b"b\0", number, 12),
        (b"c\0", itself, 16),
    ] {
        entries.extend([&[4][..], name, &kind, &[at]].concat());
    }
    entries.push(0);
    let location = [&[9, 3][..], &0x1000_u64.to_le_bytes()].concat();
    entries.extend([&[2][..], b"v\0", &structure, &location, &[0]].concat());
    let info = [&length(&entries)[..], &entries].concat();
    joined(&[&info[..], abbreviations])
}

fn as_word(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(0).to_le_bytes()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    as_word(bytes.len())
}

/// A dump of one function.
pub(crate) fn jitdump() -> Vec<u8> {
    let mut dump = vec![0; 40];
    dump[..4].copy_from_slice(&0x4A69_5444_u32.to_le_bytes());
    dump[8] = 40;
    let words = [0x1000_u64, 0x1000, 4, 1].map(u64::to_le_bytes).concat();
    let body = [&[0; 8][..], &words, b"hot\0", &[0x90; 4]].concat();
    dump.extend([
        0,
        0,
        0,
        0,
        u8::try_from(16 + body.len()).unwrap_or(0),
        0,
        0,
        0,
    ]);
    dump.extend([0; 8]);
    dump.extend(body);
    dump
}

/// A table of Go 1.20 with one function.
pub(crate) fn pclntab() -> Vec<u8> {
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    for word in [1_u64, 0, 0x1000, 72, 0, 0, 0, 83] {
        table.extend(word.to_le_bytes());
    }
    table.extend(b"\0main.main\0");
    for word in [0_u32, 12, 0x40, 0, 1] {
        table.extend(word.to_le_bytes());
    }
    table
}

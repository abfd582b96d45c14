//! System calls that change what is mapped.

use super::FieldReader;
use super::event::Fields;

/// A system call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyscallEnter {
    /// Its number on the recording machine.
    pub number: i64,
    /// What it asks for, if it is about memory.
    pub memory: Option<MemoryCall>,
}

/// A system call about memory. Addresses and lengths in bytes; protection, flags and advice as the recorded machine numbers
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryCall {
    /// `mmap`, `mmap2` or `mmap_pgoff`.
    Map {
        /// Address asked for; 0: anywhere.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `PROT_*` bits.
        prot: u64,
        /// `MAP_*` bits.
        flags: u64,
        /// File; −1 for none.
        fd: i64,
        /// Offset in the file, in bytes, or in pages for `mmap2` and `mmap_pgoff`.
        offset: u64,
    },
    /// `munmap`.
    Unmap {
        /// First address.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// `brk`: the heap's end asked for; 0 asks where it is.
    Break {
        /// Address.
        end: u64,
    },
    /// `madvise`.
    Advise {
        /// First address.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `MADV_*`.
        advice: u64,
    },
    /// `mremap`.
    Remap {
        /// First address.
        addr: u64,
        /// Bytes before.
        old_len: u64,
        /// Bytes after.
        new_len: u64,
        /// `MREMAP_*` bits.
        flags: u64,
        /// Address asked for, with `MREMAP_FIXED`.
        new_addr: u64,
    },
    /// `mprotect`, `pkey_mprotect`.
    Protect {
        /// First address.
        addr: u64,
        /// Bytes.
        len: u64,
        /// `PROT_*` bits.
        prot: u64,
    },
}

/// A system call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyscallExit {
    /// Its number on the recording machine.
    pub number: i64,
    /// What it returns: an address or a number; −4095 to −1 are errors.
    pub result: i64,
}

/// What the arguments mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Map,
    Unmap,
    Break,
    Advise,
    Remap,
    Protect,
    Other,
}

/// Names of the arguments of each call, in [`MemoryCall`]'s order; kernels renamed some.
const ARGUMENTS: [(&str, Call, &[&[&str]]); 9] = [
    ("mmap", Call::Map, MAP),
    ("mmap2", Call::Map, MAP),
    ("mmap_pgoff", Call::Map, MAP),
    ("munmap", Call::Unmap, &[&["addr", "start"], &["len"]]),
    ("brk", Call::Break, &[&["brk"]]),
    (
        "madvise",
        Call::Advise,
        &[
            &["start", "addr"],
            &["len_in", "len"],
            &["behavior", "advice"],
        ],
    ),
    (
        "mremap",
        Call::Remap,
        &[
            &["addr"],
            &["old_len"],
            &["new_len"],
            &["flags"],
            &["new_addr"],
        ],
    ),
    ("mprotect", Call::Protect, PROTECT),
    ("pkey_mprotect", Call::Protect, PROTECT),
];
const MAP: &[&[&str]] = &[
    &["addr"],
    &["len"],
    &["prot"],
    &["flags"],
    &["fd"],
    &["off", "pgoff", "offset"],
];
const PROTECT: &[&[&str]] = &[&["start"], &["len"], &["prot"]];

/// Names of the number's field, newest first.
const NUMBER: [&str; 3] = ["__syscall_nr", "nr", "id"];

#[derive(Debug, Clone)]
pub(super) struct EnterFields {
    number: FieldReader,
    call: Call,
    arguments: Vec<FieldReader>,
}

impl EnterFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        let name = fields.name().trim_start_matches("sys_enter_");
        let known = ARGUMENTS.iter().find(|(known, ..)| *known == name);
        let found = known.and_then(|(_, call, arguments)| {
            let readers: Option<Vec<_>> = arguments.iter().map(|names| fields.any(names)).collect();
            Some((*call, readers?))
        });
        let (call, arguments) = found.unwrap_or((Call::Other, Vec::new()));
        Some(Self {
            number: fields.any(&NUMBER)?,
            call,
            arguments,
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<SyscallEnter> {
        let mut words = [0; 6];
        for (word, argument) in words.iter_mut().zip(&self.arguments) {
            *word = argument.unsigned(raw)?;
        }
        let [addr, first, second, third, fourth, fifth] = words;
        let memory = match self.call {
            Call::Other => None,
            Call::Map => Some(MemoryCall::Map {
                addr,
                len: first,
                prot: second,
                flags: third,
                fd: file(fourth),
                offset: fifth,
            }),
            Call::Unmap => Some(MemoryCall::Unmap { addr, len: first }),
            Call::Break => Some(MemoryCall::Break { end: addr }),
            Call::Advise => Some(MemoryCall::Advise {
                addr,
                len: first,
                advice: second,
            }),
            Call::Remap => Some(MemoryCall::Remap {
                addr,
                old_len: first,
                new_len: second,
                flags: third,
                new_addr: fourth,
            }),
            Call::Protect => Some(MemoryCall::Protect {
                addr,
                len: first,
                prot: second,
            }),
        };
        Some(SyscallEnter {
            number: self.number.signed(raw)?,
            memory,
        })
    }
}

/// A file descriptor is an `int`, whatever the upper half of its register holds.
fn file(word: u64) -> i64 {
    i64::from(
        u32::try_from(word & 0xffff_ffff)
            .unwrap_or_default()
            .cast_signed(),
    )
}

#[derive(Debug, Clone)]
pub(super) struct ExitFields {
    number: FieldReader,
    result: FieldReader,
}

impl ExitFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            number: fields.any(&NUMBER)?,
            result: fields.get("ret")?,
        })
    }

    pub(super) fn read(&self, raw: &[u8]) -> Option<SyscallExit> {
        Some(SyscallExit {
            number: self.number.signed(raw)?,
            result: self.result.signed(raw)?,
        })
    }
}

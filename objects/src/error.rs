//! Why bytes were not understood, one enum a kind of input.

/// Why a file gave no symbol table at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Not an ELF file, or cut within its header.
    #[error("not an ELF file: {len} bytes that do not start with a whole ELF header")]
    NotElf {
        /// Bytes given.
        len: usize,
    },

    /// A relocatable file that is no kernel module (`.o`): its symbols have no addresses yet.
    #[error("a relocatable file has no addresses; link it first")]
    Relocatable,

    /// A kernel module for a machine whose kernel lays modules out by more than their files.
    #[error(
        "a module for machine {machine} (e_machine): where its code is loaded does not follow from the file; take its symbols from /proc/kallsyms"
    )]
    ModuleLayout {
        /// Number of the machine in ELF files.
        machine: u16,
    },

    /// The program headers lie outside of the file or are of an unknown size.
    #[error("the program headers of the {len} byte file cannot be read")]
    ProgramHeaders {
        /// Bytes given.
        len: usize,
    },
}

/// Why a file is not a usable kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelFileError {
    /// No symbol stands where the kernel begins: no kernel, or a stripped one.
    #[error("no symbol _text in it tells where it begins")]
    NoStart,

    /// It has another build id than the kernel that ran.
    #[error("it is not the kernel that was recorded, its build id differs")]
    OtherBuild,

    /// It has no symbols that can be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// Why a text is not a usable `/proc/kallsyms`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KallsymsError {
    /// Every address is zero: the kernel hides them from this reader.
    #[error(
        "all {symbols} addresses are zero: the kernel hides them; run with CAP_SYSLOG or set kernel.kptr_restrict to 0 or 1"
    )]
    Restricted {
        /// Lines with a symbol.
        symbols: usize,
    },

    /// No line has the form `address type name`.
    #[error("none of the {lines} lines has the form `address type name`")]
    Empty {
        /// Lines given.
        lines: usize,
    },
}

/// Why a text is not a usable `/proc/modules`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModulesError {
    /// A line does not have the form `name size uses by state address`.
    #[error("line {line} does not have the form `name size uses by state address`")]
    Line {
        /// Number of the line, from 1.
        line: usize,
    },

    /// Every address is zero: the kernel hides them from this reader.
    #[error(
        "all {modules} addresses are zero: the kernel hides them; run with CAP_SYSLOG or set kernel.kptr_restrict to 0 or 1"
    )]
    Restricted {
        /// Modules listed.
        modules: usize,
    },
}

/// Why a jitdump was given up; what came before is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JitError {
    /// It does not start as one.
    #[error("no jitdump: it does not start with the header of one")]
    NotADump,

    /// A record shorter than its fields.
    #[error("a record of {size} bytes in a jitdump, shorter than its fields")]
    RecordSize {
        /// Bytes it says it has.
        size: u32,
    },

    /// It ends within a record.
    #[error("a jitdump that ends within a record")]
    Cut,

    /// Code longer than its record.
    #[error("a function of {size} bytes in a jitdump, longer than its record")]
    CodeSize {
        /// Bytes it says it has.
        size: u64,
    },

    /// Reading the file failed.
    #[error("the file cannot be read: {kind}")]
    Unreadable {
        /// What the system says.
        kind: std::io::ErrorKind,
    },
}

/// Why a received table was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes do not start as a table does, or end within the header.
    #[error("not a symbol table: {len} bytes without its header")]
    NotATable {
        /// Bytes given.
        len: usize,
    },

    /// Made by a newer or older sender.
    #[error("symbol table of version {got}, this build reads version {known}")]
    Version {
        /// Version found.
        got: u8,
        /// Version this build reads.
        known: u8,
    },

    /// The bytes changed on the way.
    #[error("checksum {got:#018x} of a symbol table, {expected:#018x} announced")]
    Checksum {
        /// Checksum of the bytes received.
        got: u64,
        /// Checksum in the header.
        expected: u64,
    },

    /// More than the receiver's limits allow.
    #[error("{got} {what} in a symbol table, at most {limit} are taken")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// Amount announced or found.
        got: u64,
        /// The receiver's bound.
        limit: u64,
    },

    /// The checksum holds and the content does not make sense.
    #[error("malformed symbol table: {what}")]
    Malformed {
        /// The part that is wrong.
        what: &'static str,
    },
}

//! What binaries say: bytes of ELF files and kallsyms in, function starts and names out.

//! `/proc/kallsyms`: names of the running kernel and of its modules.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::aliases::{Candidate, Origin, settle};
use crate::elf::{lossy, split};
use crate::table::{Gap, Gaps};
use crate::{Flags, KallsymsError, Limits, Segments, Source, SymbolTable};

/// The symbols of one kernel module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleSymbols {
    /// Name without brackets; `bpf` and `__builtin__…` are the kernel's own pseudo-modules.
    pub name: String,
    /// Its symbols, at kernel virtual addresses.
    pub table: SymbolTable,
}

/// All that one text of `/proc/kallsyms` says.
///
/// Like perf it takes code (types `t T w W`) and data (`b B d D`). The kernel's own names are not
/// demangled by perf, so show them as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kallsyms {
    kernel: SymbolTable,
    modules: Vec<ModuleSymbols>,
    text_start: Option<u64>,
    text_end: Option<u64>,
}

impl Kallsyms {
    /// Reads the text. Lines of another form are passed over.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, KallsymsError> {
        let mut reader = Reader::default();
        let mut lines = 0_usize;
        for line in text.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            lines += 1;
            if let Some(symbol) = parse_line(line) {
                reader.take(symbol, limits);
            }
        }
        if reader.seen == 0 {
            return Err(KallsymsError::Empty { lines });
        }
        if reader.highest == 0 {
            return Err(KallsymsError::Restricted {
                symbols: reader.seen,
            });
        }
        Ok(reader.finish())
    }

    /// The kernel proper.
    pub fn kernel(&self) -> &SymbolTable {
        &self.kernel
    }

    /// The modules in the order of their names.
    pub fn modules(&self) -> &[ModuleSymbols] {
        &self.modules
    }

    /// The module of this name, without brackets.
    pub fn module(&self, name: &str) -> Option<&ModuleSymbols> {
        let at = self
            .modules
            .binary_search_by(|module| module.name.as_str().cmp(name))
            .ok()?;
        self.modules.get(at)
    }

    /// The kernel's code, `_text` (else `_stext`) to `_etext`, as kernel virtual addresses.
    pub fn text(&self) -> Option<Range<u64>> {
        let (start, end) = (self.text_start?, self.text_end?);
        (start < end).then_some(start..end)
    }

    /// How far an address lies behind the start of the kernel's code, in bytes.
    ///
    /// The kernel is loaded elsewhere at each boot (KASLR); what names a function across boots is
    /// this distance. `None` before the start or without `_text`.
    pub fn relative(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.text_start?)
    }

    /// Takes the tables out: the kernel's, then the modules'.
    pub fn into_tables(self) -> (SymbolTable, Vec<ModuleSymbols>) {
        (self.kernel, self.modules)
    }
}

struct Line<'a> {
    address: u64,
    kind: u8,
    name: Cow<'a, str>,
    module: &'a str,
}

/// `address type name [\t[module]]`
fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let digits = line.iter().position(|byte| *byte == b' ')?;
    let address = hex(line.get(..digits)?)?;
    let [b' ', kind, b' ', name @ ..] = line.get(digits..)? else {
        return None;
    };
    let name_end = name
        .iter()
        .position(|b| matches!(b, b'\t' | b' '))
        .unwrap_or(name.len());
    let (name, rest) = name.split_at_checked(name_end)?;
    let module = std::str::from_utf8(rest).ok()?.trim();
    let module = module
        .strip_prefix('[')
        .and_then(|m| m.strip_suffix(']'))
        .unwrap_or("");
    (!name.is_empty()).then(|| Line {
        address,
        kind: *kind,
        name: lossy(name),
        module,
    })
}

/// A number of one to 16 hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

#[derive(Default)]
struct Reader<'a> {
    candidates: Vec<Candidate<'a>>,
    name_bytes: usize,
    gaps: Gaps,
    seen: usize,
    highest: u64,
    text: Option<u64>,
    stext: Option<u64>,
    etext: Option<u64>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, line: Line<'a>, limits: &Limits) {
        self.seen += 1;
        self.highest = self.highest.max(line.address);
        if line.module.is_empty() {
            match line.name.as_ref() {
                "_text" => self.text = Some(line.address),
                "_stext" => self.stext = Some(line.address),
                "_etext" => self.etext = Some(line.address),
                _ => {}
            }
        }
        let object = match line.kind {
            b't' | b'T' | b'w' | b'W' => Flags::NONE,
            b'b' | b'B' | b'd' | b'D' => Flags::OBJECT,
            _ => return,
        };
        if line.name.starts_with('$') {
            return; // mapping symbols of ARM modules
        }
        if self.candidates.len() >= limits.symbols {
            self.gaps.add(Gap::TooManySymbols);
            return;
        }
        if self.name_bytes.saturating_add(line.name.len()) > limits.name_bytes {
            self.gaps.add(Gap::TooManyNames);
            return;
        }
        self.name_bytes += line.name.len();
        let binding = match line.kind {
            b'W' => Flags::WEAK,
            kind if kind.is_ascii_uppercase() => Flags::GLOBAL,
            _ => Flags::NONE,
        };
        self.candidates.push(Candidate {
            start: line.address,
            size: 0,
            name: line.name,
            source: Source::SymTab,
            flags: binding.with(object),
            module: line.module,
        });
    }

    fn finish(mut self) -> Kallsyms {
        settle(&mut self.candidates, Origin::Kallsyms);
        let mut kernel = Vec::with_capacity(self.candidates.len());
        let mut by_module: BTreeMap<&str, Vec<Candidate<'_>>> = BTreeMap::new();
        for candidate in self.candidates {
            match candidate.module {
                "" => kernel.push(candidate),
                module => by_module.entry(module).or_default().push(candidate),
            }
        }
        let gaps = self.gaps;
        let table = |symbols| SymbolTable {
            gaps,
            ..split(symbols, Segments::default())
        };
        Kallsyms {
            kernel: table(kernel),
            modules: by_module
                .into_iter()
                .map(|(name, symbols)| ModuleSymbols {
                    name: name.into(),
                    table: table(symbols),
                })
                .collect(),
            text_start: self.text.or(self.stext),
            text_end: self.etext,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T _text\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000040 t helper\n\
        ffffffff81000080 W maybe\n\
        ffffffff81000100 T _etext\n\
        ffffffff81000200 r a_constant\n\
        ffffffff81000300 D jiffies\n\
        ffffffff81000308 b counter\n\
        ffffffffc0000000 t xfs_read\t[xfs]\n\
        ffffffffc0000040 T xfs_write\t[xfs]\n\
        ffffffffc0100000 t nft_do\t[nf_tables]\n";

    #[test]
    fn kernel_modules_code_and_data_are_kept_apart() {
        let all = Kallsyms::parse(TEXT, &Limits::default()).unwrap();
        let names = |table: &SymbolTable| {
            table
                .functions()
                .iter()
                .map(|s| s.name.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(all.kernel()),
            ["startup_64", "helper", "maybe", "_etext"]
        );
        let data: Vec<_> = all
            .kernel()
            .objects()
            .iter()
            .map(|s| (s.name, s.size))
            .collect();
        assert_eq!(data, [("jiffies", 8), ("counter", 0x1cf8)]);
        assert_eq!(
            names(&all.module("xfs").unwrap().table),
            ["xfs_read", "xfs_write"]
        );
        assert_eq!(all.modules().len(), 2);
        assert!(all.module("ext4").is_none());
    }

    #[test]
    fn a_symbol_ends_at_the_next_and_the_last_of_a_module_at_its_page() {
        let all = Kallsyms::parse(TEXT, &Limits::default()).unwrap();
        let functions = all.kernel().functions();
        assert_eq!(functions.named("helper").unwrap().size, 0x40);
        let module = &all.module("xfs").unwrap().table;
        assert_eq!(
            module.functions().named("xfs_write").unwrap().end(),
            0xffff_ffff_c000_2000
        );
    }

    #[test]
    fn addresses_are_relative_to_where_the_kernel_was_loaded() {
        let all = Kallsyms::parse(TEXT, &Limits::default()).unwrap();
        assert_eq!(
            all.text(),
            Some(0xffff_ffff_8100_0000..0xffff_ffff_8100_0100)
        );
        assert_eq!(all.relative(0xffff_ffff_8100_0040), Some(0x40));
        assert_eq!(all.relative(0x1000), None);
    }

    #[test]
    fn hidden_addresses_and_foreign_texts_are_named() {
        let hidden = b"0000000000000000 T _text\n0000000000000000 t helper\n";
        let error = Kallsyms::parse(hidden, &Limits::default()).unwrap_err();
        assert_eq!(error, KallsymsError::Restricted { symbols: 2 });
        assert!(error.to_string().contains("kptr_restrict"));
        let foreign = Kallsyms::parse(b"hello\nworld\n", &Limits::default());
        assert_eq!(foreign, Err(KallsymsError::Empty { lines: 2 }));
        assert_eq!(
            Kallsyms::parse(b"", &Limits::default()),
            Err(KallsymsError::Empty { lines: 0 })
        );
    }

    #[test]
    fn too_many_symbols_are_left_out_and_said_so() {
        let limits = Limits {
            symbols: 2,
            ..Limits::default()
        };
        let all = Kallsyms::parse(TEXT, &limits).unwrap();
        assert_eq!(all.kernel().functions().len(), 1); // two at one address
        assert_eq!(
            all.kernel().gaps().collect::<Vec<_>>(),
            [Gap::TooManySymbols]
        );
    }
}

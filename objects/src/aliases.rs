//! Which of several symbols at one address is *the* symbol, and where those without a size end.
//!
//! The rules are those of perf, in its order: first every symbol without a size is given one, then
//! symbols that share a start are reduced to the best. Both see functions, labels and data
//! together, which is why a candidate carries its type.

use std::borrow::Cow;

use crate::{Flags, Source, demangle};

/// A symbol that is still one of several.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) name: Cow<'a, str>,
    pub(crate) source: Source,
    pub(crate) flags: Flags,
    /// The module a kernel symbol belongs to; empty for the kernel itself and for files.
    pub(crate) module: &'a str,
}

/// How a name without a size ends, and what its name looks like when read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An ELF file: names are demangled before they are compared.
    File,
    /// kallsyms: names are taken as they are, and a gap between modules is not filled.
    Kallsyms,
}

const PAGE: u64 = 4096;

/// Puts `candidates` in order, ends them all and leaves one at each start.
///
/// The sort is stable: among equals the order of the table decides, as it does for perf.
pub(crate) fn settle(candidates: &mut Vec<Candidate<'_>>, origin: Origin) {
    candidates.sort_by_key(|candidate| candidate.start);
    end_all(candidates, origin);
    keep_best(candidates, origin);
}

fn end_all(candidates: &mut [Candidate<'_>], origin: Origin) {
    let mut next: Option<(u64, &str)> = None;
    for candidate in candidates.iter_mut().rev() {
        let follower = next.replace((candidate.start, candidate.module));
        if candidate.size != 0 {
            continue;
        }
        let end = match follower {
            Some((start, module))
                if origin == Origin::File || is_same(module, candidate.module) =>
            {
                start
            }
            Some((start, _)) => start.min(behind_page(candidate.start)),
            None => behind_page(candidate.start),
        };
        candidate.size = end.saturating_sub(candidate.start);
        candidate.flags = candidate.flags.with(Flags::SIZE_GUESSED);
    }
}

/// Nothing is not compared: for no bytes the C library's `memcmp` still loads, masked, where an empty text points, which is
/// nowhere; processors take hundreds of cycles for that.
fn is_same(module: &str, other: &str) -> bool {
    module.len() == other.len() && (module.is_empty() || module == other)
}

/// The last symbol of a file or module lasts to the end of the page behind it.
fn behind_page(start: u64) -> u64 {
    start
        .checked_next_multiple_of(PAGE)
        .map_or(u64::MAX, |page| page.saturating_add(PAGE))
}

fn keep_best(candidates: &mut Vec<Candidate<'_>>, origin: Origin) {
    // `dedup_by` hands over (later, earlier kept) and drops the later: swap when that is better.
    let mut budget = DEMANGLED_MAX;
    candidates.dedup_by(|later, kept| {
        if later.start != kept.start {
            return false;
        }
        if !first_is_better(kept, later, origin, &mut budget) {
            std::mem::swap(later, kept);
        }
        true
    });
}

/// Bytes of names, before and after, that are demangled to compare the aliases of one file; beyond
/// that they are compared as linked, so that a hostile file costs bounded time. The largest
/// programs need a tenth of it.
const DEMANGLED_MAX: usize = 64 << 20;

/// What a name that turns out to be nonsense is taken to have cost, in bytes.
const NONSENSE_COST: usize = 4 << 10;

fn first_is_better(
    a: &Candidate<'_>,
    b: &Candidate<'_>,
    origin: Origin,
    budget: &mut usize,
) -> bool {
    let decide = |for_a: bool, for_b: bool| (for_a != for_b).then_some(for_a);
    if let Some(answer) = decide(a.size != 0, b.size != 0)
        .or_else(|| decide(!a.flags.has(Flags::LABEL), !b.flags.has(Flags::LABEL)))
        .or_else(|| decide(!a.flags.has(Flags::WEAK), !b.flags.has(Flags::WEAK)))
        .or_else(|| decide(a.flags.has(Flags::GLOBAL), b.flags.has(Flags::GLOBAL)))
    {
        return answer;
    }
    if a.name == b.name || (origin == Origin::File && are_one_structor(&a.name, &b.name)) {
        return true;
    }
    let mut read = |name| {
        if origin == Origin::Kallsyms || *budget == 0 {
            return Cow::Borrowed(name);
        }
        let demangled = demangle(name);
        let cost = match &demangled {
            Cow::Owned(text) => name.len() + text.len(),
            Cow::Borrowed(text) if text.starts_with("_Z") || text.starts_with("_R") => {
                NONSENSE_COST
            }
            Cow::Borrowed(_) => 0,
        };
        *budget = budget.saturating_sub(cost);
        demangled
    };
    let (name_a, name_b) = (read(a.name.as_ref()), read(b.name.as_ref()));
    let underscores = |name: &str| name.bytes().take_while(|byte| *byte == b'_').count();
    match underscores(&name_a)
        .cmp(&underscores(&name_b))
        .then(name_b.len().cmp(&name_a.len()))
    {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        // Kernels of old have such aliases of their system calls.
        std::cmp::Ordering::Equal => {
            !(name_a.starts_with("SyS") || name_a.starts_with("compat_SyS"))
        }
    }
}

/// Whether two C++ names differ only in the number of one constructor or destructor (`C1`, `C2`):
/// the commonest aliases, which read alike.
fn are_one_structor(a: &str, b: &str) -> bool {
    if a.len() != b.len() || !a.starts_with("_ZN") {
        return false;
    }
    let mut last = 0;
    let mut differ = a.bytes().zip(b.bytes()).filter_map(|(x, y)| {
        let before = std::mem::replace(&mut last, x);
        (x != y).then_some((before, x, y))
    });
    let number = |byte: u8| (b'0'..=b'5').contains(&byte);
    matches!(differ.next(), Some((b'C' | b'D', x, y)) if number(x) && number(y))
        && differ.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(start: u64, size: u64, name: &'static str, flags: Flags) -> Candidate<'static> {
        Candidate {
            start,
            size,
            name: name.into(),
            source: Source::SymTab,
            flags,
            module: "",
        }
    }

    #[track_caller]
    fn check(mut candidates: Vec<Candidate<'_>>, expected: &[(u64, u64, &str)]) {
        settle(&mut candidates, Origin::File);
        let got: Vec<_> = candidates
            .iter()
            .map(|c| (c.start, c.size, c.name.as_ref()))
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn a_symbol_without_a_size_ends_at_the_next_start() {
        check(
            vec![
                symbol(0x20, 8, "b", Flags::NONE),
                symbol(0x10, 0, "a", Flags::NONE),
            ],
            &[(0x10, 0x10, "a"), (0x20, 8, "b")],
        );
    }

    #[test]
    fn the_last_one_without_a_size_lasts_to_the_page_behind() {
        check(
            vec![symbol(0x1010, 0, "a", Flags::NONE)],
            &[(0x1010, 0x1ff0, "a")],
        );
    }

    #[test]
    fn strong_beats_weak_and_global_beats_local() {
        check(
            vec![
                symbol(1, 4, "weak_with_a_long_name", Flags::WEAK),
                symbol(1, 4, "global", Flags::GLOBAL),
                symbol(1, 4, "local_and_long", Flags::NONE),
            ],
            &[(1, 4, "global")],
        );
    }

    #[test]
    fn fewer_underscores_win_then_the_longer_name_then_the_first() {
        check(
            vec![
                symbol(1, 4, "__write", Flags::GLOBAL),
                symbol(1, 4, "write", Flags::GLOBAL),
                symbol(1, 4, "_write_me", Flags::GLOBAL),
            ],
            &[(1, 4, "write")],
        );
        check(
            vec![
                symbol(1, 4, "ab", Flags::GLOBAL),
                symbol(1, 4, "abc", Flags::GLOBAL),
            ],
            &[(1, 4, "abc")],
        );
        check(
            vec![
                symbol(1, 4, "first", Flags::GLOBAL),
                symbol(1, 4, "later", Flags::GLOBAL),
            ],
            &[(1, 4, "first")],
        );
    }

    #[test]
    fn names_are_compared_as_read() {
        // As linked `_Z1av` has one underscore and would lose against `c`.
        check(
            vec![
                symbol(1, 4, "_ZN3foo3barEv", Flags::GLOBAL),
                symbol(1, 4, "c", Flags::GLOBAL),
            ],
            &[(1, 4, "_ZN3foo3barEv")],
        );
    }

    #[test]
    fn a_label_loses_against_a_function() {
        check(
            vec![
                symbol(1, 4, "label", Flags::LABEL.with(Flags::GLOBAL)),
                symbol(1, 4, "f", Flags::NONE),
            ],
            &[(1, 4, "f")],
        );
    }

    #[test]
    fn the_gap_between_kernel_and_module_is_not_filled() {
        let mut kernel = symbol(0x1000, 0, "k", Flags::NONE);
        let mut module = symbol(0x10_0000, 0, "m", Flags::NONE);
        kernel.module = "";
        module.module = "xfs";
        let mut both = vec![kernel, module];
        settle(&mut both, Origin::Kallsyms);
        assert_eq!((both[0].size, both[1].size), (0x1000, 0x1000));
    }
}

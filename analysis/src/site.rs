//! Whose code is behind a sample: the program's function, who called it, and what the kernel does for it.

use memwide_decoder::Mode;
use memwide_decoder::local::LocalSample;
use memwide_decoder::{NameIx, Names};

/// Kernel addresses have this bit set on every 64-bit machine.
const KERNEL_BIT: u64 = 1 << 63;

/// Shown where nothing is known.
pub const UNKNOWN: &str = "[unknown]";

/// Stands between a function and its caller.
const CALLED_BY: &str = " ← ";

/// Where a sample comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site<'a> {
    /// The innermost function of the program that is not passed over; [`UNKNOWN`] where no frame of it is known.
    pub function: &'a str,
    /// Its object, without folders.
    pub dso: &'a str,
    /// Its callers, innermost first, as far as they have names and were asked for.
    pub callers: &'a str,
    /// The innermost function of the kernel that says something, if the kernel ran.
    pub kernel: Option<&'a str>,
}

/// What is looked for in a callchain.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'s> {
    /// Kernel functions whose name begins with one of these say nothing.
    pub skip: &'s [&'s str],
    /// Functions of the program that only do what others asked for, and are passed over while there are callers: whole names,
    /// or beginnings that end in `*`.
    pub over: &'s [&'s str],
    /// Most callers told apart.
    pub callers: usize,
}

impl Wanted<'_> {
    fn passes(&self, symbol: Option<&str>) -> bool {
        let Some(symbol) = symbol else { return false };
        // As `malloc@GLIBC_2.2.5` of some symbol tables.
        let plain = symbol.split('@').next().unwrap_or(symbol);
        let is_it = |over: &&str| match over.strip_suffix('*') {
            Some(start) => plain.starts_with(start),
            None => plain == *over,
        };
        self.over.iter().any(is_it)
    }
}

impl<'a> Site<'a> {
    /// Of a sample, by its callchain where there is one. The names of callers are put together in `buffer`.
    pub fn of(sample: &LocalSample<'a>, wanted: Wanted<'_>, buffer: &'a mut String) -> Self {
        let (own, is_kernel) = (sample.code(), sample.mode == Mode::Kernel);
        let mut user = (!is_kernel).then_some(own.clone());
        let (mut kernel, mut first) = (None, None);
        let mut note = |symbol: Option<&'a str>| {
            if let Some(symbol) = symbol {
                first.get_or_insert(symbol);
                let says = !wanted
                    .skip
                    .iter()
                    .any(|skipped| symbol.starts_with(skipped));
                if kernel.is_none() && says {
                    kernel = Some(symbol);
                }
            }
        };
        if is_kernel {
            note(own.symbol);
        }
        buffer.clear();
        // The chain's innermost frame is the sample's own place; a program's frame behind the kernel's is its own place there.
        let mut is_own = true;
        let mut left = wanted.callers;
        for frame in sample.callchain() {
            if frame.ip & KERNEL_BIT != 0 {
                note(frame.named.symbol);
            } else if is_own {
                is_own = false;
                user.get_or_insert(frame.named);
            } else if user
                .as_ref()
                .is_some_and(|named| wanted.passes(named.symbol))
            {
                user = Some(frame.named);
            } else if left == 0 {
                break;
            } else if let Some(caller) = frame.named.symbol {
                left -= 1;
                if !buffer.is_empty() {
                    buffer.push_str(CALLED_BY);
                }
                buffer.push_str(caller);
            } else {
                break;
            }
        }
        let (function, dso) = user.map_or((UNKNOWN, ""), |named| {
            let dso = named.dso.rsplit('/').next().unwrap_or(named.dso);
            (named.symbol.unwrap_or(UNKNOWN), dso)
        });
        Self {
            function,
            dso,
            callers: buffer,
            kernel: kernel.or(first),
        }
    }

    /// The function, and who called it.
    pub fn path(&self) -> String {
        match self.callers {
            "" => self.function.to_owned(),
            callers => format!("{}{CALLED_BY}{callers}", self.function),
        }
    }

    /// A function without anything else.
    #[cfg(test)]
    pub(crate) fn named(function: &'a str) -> Self {
        Self {
            function,
            dso: "prog",
            callers: "main",
            kernel: None,
        }
    }
}

/// A site as numbers of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteKey {
    function: NameIx,
    dso: NameIx,
    callers: NameIx,
    kernel: Option<NameIx>,
}

impl SiteKey {
    pub(crate) fn of(names: &mut Names, site: &Site<'_>) -> Self {
        Self {
            function: names.intern(site.function),
            dso: names.intern(site.dso),
            callers: names.intern(site.callers),
            kernel: site.kernel.map(|kernel| names.intern(kernel)),
        }
    }

    pub(crate) fn site<'a>(&self, names: &'a Names) -> Site<'a> {
        Site {
            function: names.get(self.function),
            dso: names.get(self.dso),
            callers: names.get(self.callers),
            kernel: self.kernel.map(|kernel| names.get(kernel)),
        }
    }
}

//! Whose code is behind a sample: the program's function, who called it, and what the kernel does for it.

use memwide_decoder::Mode;
use memwide_decoder::local::{ChainBy, LocalSample, Named};
use memwide_decoder::{NameIx, Names};

/// Kernel addresses have this bit set on every 64-bit machine.
const KERNEL_BIT: u64 = 1 << 63;

/// Shown where nothing is known.
pub const UNKNOWN: &str = "[unknown]";

/// Stands between a function and its caller.
pub(crate) const CALLED_BY: &str = " ← ";

/// Whether it is known on whose behalf a function ran that only does what others ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Asker {
    /// The function named asked.
    #[default]
    Known,
    /// The chain was made by frame pointers and leaves the library's code with its first step: libraries mostly keep none,
    /// and then the function that called them is left out, so it may be one that the function named called.
    Doubtful,
    /// The chain ends in such a function.
    Unknown,
}

impl Asker {
    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Doubtful => "doubtful",
            Self::Unknown => "unknown",
        }
    }
}

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
    /// Whether `function` is the one that asked.
    pub asker: Asker,
}

/// Which sites count: what a filter asks of `function` and `dso` where tables show sites under these names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteFilter {
    pub(crate) functions: Vec<String>,
    pub(crate) dsos: Vec<String>,
    /// A site counted.
    met: bool,
}

impl SiteFilter {
    /// Whether all sites count.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.dsos.is_empty()
    }

    /// Whether something was asked of sites and none counted.
    pub fn unfit(&self) -> bool {
        !self.is_empty() && !self.met
    }

    /// Whether a site counts: by its function, or what the kernel does for it.
    pub fn takes(&mut self, site: &Site<'_>) -> bool {
        let is_one = |all: &[String], fits: &dyn Fn(&str) -> bool| {
            all.is_empty() || all.iter().any(|one| fits(one))
        };
        let function = |name: &str| name == site.function || Some(name) == site.kernel;
        let is_taken = is_one(&self.functions, &function)
            && is_one(&self.dsos, &|dso| base_name(dso) == site.dso);
        self.met |= is_taken;
        is_taken
    }
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
    fn passes(&self, named: &Named<'_>) -> bool {
        let Some(symbol) = named.symbol else {
            return !self.over.is_empty() && is_c_library(named.dso);
        };
        // As `malloc@GLIBC_2.2.5` of some symbol tables.
        let plain = symbol.split('@').next().unwrap_or(symbol);
        let is_it = |over: &&str| match over.strip_suffix('*') {
            Some(start) => plain.starts_with(start),
            None => plain == *over,
        };
        self.over.iter().any(is_it)
    }
}

/// What lies there without a name does what others ask for.
fn is_c_library(dso: &str) -> bool {
    let file = base_name(dso);
    ["libc.so", "libc-", "ld-", "ld64."]
        .iter()
        .any(|start| file.starts_with(start))
}

fn base_name(dso: &str) -> &str {
    dso.rsplit('/').next().unwrap_or(dso)
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
        let mut passed = 0;
        for frame in sample.callchain() {
            if frame.ip & KERNEL_BIT != 0 {
                note(frame.named.symbol);
            } else if is_own {
                is_own = false;
                user.get_or_insert(frame.named);
            } else if user.as_ref().is_some_and(|named| wanted.passes(named)) {
                user = Some(frame.named);
                passed += 1;
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
        let asker = match &user {
            Some(named) if wanted.passes(named) => Asker::Unknown,
            Some(_) if passed == 1 && sample.chain_by() == ChainBy::Kernel => Asker::Doubtful,
            _ => Asker::Known,
        };
        let (function, dso) = user.map_or((UNKNOWN, ""), |named| {
            (named.symbol.unwrap_or(UNKNOWN), base_name(named.dso))
        });
        Self {
            function,
            dso,
            callers: buffer,
            kernel: kernel.or(first),
            asker,
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
            asker: Asker::Known,
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
    asker: Asker,
}

impl SiteKey {
    pub(crate) fn of(names: &mut Names, site: &Site<'_>) -> Self {
        Self {
            function: names.intern(site.function),
            dso: names.intern(site.dso),
            callers: names.intern(site.callers),
            kernel: site.kernel.map(|kernel| names.intern(kernel)),
            asker: site.asker,
        }
    }

    pub(crate) fn site<'a>(&self, names: &'a Names) -> Site<'a> {
        Site {
            function: names.get(self.function),
            dso: names.get(self.dso),
            callers: names.get(self.callers),
            kernel: self.kernel.map(|kernel| names.get(kernel)),
            asker: self.asker,
        }
    }
}

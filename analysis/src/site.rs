//! Whose code is behind a sample: the program's function, and what the kernel does for it.

use memwide_decoder::Mode;
use memwide_decoder::local::LocalSample;

/// Kernel addresses have this bit set on every 64-bit machine.
const KERNEL_BIT: u64 = 1 << 63;

/// Shown where nothing is known.
pub const UNKNOWN: &str = "[unknown]";

/// Where a sample comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site<'a> {
    /// The innermost function of the program; [`UNKNOWN`] where no frame of it is known.
    pub function: &'a str,
    /// Its object, without folders.
    pub dso: &'a str,
    /// The innermost function of the kernel that says something, if the kernel ran.
    pub kernel: Option<&'a str>,
}

impl<'a> Site<'a> {
    /// Of a sample, by its callchain where there is one. Kernel functions whose name begins with one of `skip` say nothing.
    pub fn of(sample: &LocalSample<'a>, skip: &[&str]) -> Self {
        let (own, is_kernel) = (sample.code(), sample.mode == Mode::Kernel);
        let mut user = (!is_kernel).then_some(own.clone());
        let (mut kernel, mut first) = (None, None);
        let mut note = |symbol: Option<&'a str>| {
            if let Some(symbol) = symbol {
                first.get_or_insert(symbol);
                if kernel.is_none() && !skip.iter().any(|skipped| symbol.starts_with(skipped)) {
                    kernel = Some(symbol);
                }
            }
        };
        if is_kernel {
            note(own.symbol);
        }
        for frame in sample.callchain() {
            if frame.ip & KERNEL_BIT != 0 {
                note(frame.named.symbol);
            } else {
                // The sample's own place is the chain's innermost frame; a program's frame behind the kernel's is a caller.
                user.get_or_insert(frame.named);
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
            kernel: kernel.or(first),
        }
    }
}

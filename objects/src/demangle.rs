//! Names as people, and perf, read them.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

use crate::spelling;

/// Longest name looked at, in bytes; templates of real programs reach some thousands.
const MANGLED_MAX: usize = 16 << 10;

/// Longest result, in bytes. Back-references let a short name grow without end.
const DEMANGLED_MAX: usize = 64 << 10;

/// How deep types may nest: bounds the stack.
const DEPTH_MAX: u32 = 128;

/// The name as written in the source, the way perf 6.1 prints it.
///
/// C++ without parameters, return type and clone suffix, Rust without hashes; the `@plt` of a stub
/// stays. What is not mangled, too long or nonsense comes back as it is. Never panics; time and
/// size are bounded.
pub fn demangle(name: &str) -> Cow<'_, str> {
    if !name.starts_with('_') || name.len() > MANGLED_MAX {
        return Cow::Borrowed(name);
    }
    let (base, stub) = match name.strip_suffix("@plt") {
        Some(base) => (base, "@plt"),
        None => (name, ""),
    };
    match rust(base).or_else(|| cpp(base)).or_else(|| keyed(base)) {
        Some(demangled) => Cow::Owned(demangled + stub),
        None => Cow::Borrowed(name),
    }
}

/// A Rust name of either scheme, suffixes that LLVM or the linker added left out.
fn rust(name: &str) -> Option<String> {
    let mangled = if name.starts_with("_R") {
        name.split('.').next()?
    } else {
        name.get(..legacy_rust_len(name)?)?
    };
    let demangled = rustc_demangle::try_demangle(mangled).ok()?;
    let mut to = Bounded::default();
    write!(to, "{demangled:#}").ok()?; // the alternate form is the one without hashes
    Some(to.text)
}

/// Length of a legacy Rust name, which is a C++ name whose last part is a hash: `17h` and 16
/// digits, at least five of them different.
fn legacy_rust_len(name: &str) -> Option<usize> {
    const HASH: &str = "17h";
    if !name.starts_with("_ZN") {
        return None;
    }
    let at = name.rfind(HASH)?;
    let digits_at = at + HASH.len();
    let digits = name.get(digits_at..digits_at + 16)?;
    let seen = digits.bytes().try_fold(0_u16, |seen, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(seen | 1 << value)
    })?;
    let rest = name.get(digits_at + 16..)?.strip_prefix('E')?;
    let ends = rest.is_empty() || rest.starts_with('.');
    (seen.count_ones() >= 5 && ends).then_some(digits_at + 16 + 1)
}

/// A C++ name of the Itanium ABI. What follows it, such as `.constprop.0`, is left out.
fn cpp(name: &str) -> Option<String> {
    let mangled = name.strip_prefix("_Z")?;
    let mangled = mangled.split(['.', '@']).next()?;
    // Only these carry a whole function in their name, which is shown with its parameters.
    let (lead, function, params) = if let Some(function) = mangled.strip_prefix("GTt") {
        ("transaction clone for ", function, true)
    } else if let Some(thunk) = mangled.strip_prefix("Th") {
        ("non-virtual thunk to ", behind_numbers(thunk, 1)?, true)
    } else if let Some(thunk) = mangled.strip_prefix("Tv") {
        ("virtual thunk to ", behind_numbers(thunk, 2)?, true)
    } else {
        ("", mangled, false)
    };
    let whole = format!("_Z{function}");
    let parse = ParseOptions::default().recursion_limit(DEPTH_MAX);
    let (symbol, _) = BorrowedSymbol::with_tail_and_options(whole.as_bytes(), &parse).ok()?;
    let mut options = DemangleOptions::new().recursion_limit(DEPTH_MAX);
    if !params {
        options = options.no_params().no_return_type();
    }
    let mut to = Bounded::default();
    symbol.structured_demangle(&mut to, &options).ok()?;
    Some(format!("{lead}{}", spelling::as_libiberty(to.text, params)))
}

/// Passes over offsets, each `[n] digits _`.
fn behind_numbers(mut text: &str, numbers: usize) -> Option<&str> {
    for _ in 0..numbers {
        let digits = text.strip_prefix('n').unwrap_or(text);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        text = rest
            .strip_prefix('_')
            .filter(|_| rest.len() < digits.len())?;
    }
    Some(text)
}

/// What runs before and after `main` for one file.
fn keyed(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_GLOBAL_")?;
    let [b'.' | b'_' | b'$', kind @ (b'I' | b'D'), b'_', ..] = rest.as_bytes() else {
        return None;
    };
    let what = if *kind == b'I' {
        "constructors"
    } else {
        "destructors"
    };
    let key = rest.get(3..)?;
    let key = cpp(key).map_or(Cow::Borrowed(key), Cow::Owned);
    Some(format!("global {what} keyed to {key}"))
}

/// Text that refuses to grow beyond [`DEMANGLED_MAX`].
#[derive(Default)]
struct Bounded {
    text: String,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > DEMANGLED_MAX {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

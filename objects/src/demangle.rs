//! Names as people, and perf, read them.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

use crate::spelling;

/// Longest name looked at, in bytes; templates of real programs reach some thousands.
const MANGLED_MAX: usize = 8 << 10;

/// Longest result, in bytes. Back-references let a short name grow without end.
const DEMANGLED_MAX: usize = 64 << 10;

/// How deep types may nest. Bounds the stack, and the time: on nonsense the parser goes back and tries anew, which takes about 20
/// times as long with every 16 levels more. Of 624,810 C++ names of LLVM, libstdc++, Chromium, node and others 157 nest deeper.
const DEPTH_MAX: u32 = 80;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mangled: &str, expected: &str) {
        assert_eq!(demangle(mangled), expected);
    }

    /// What the fuzzer found: a second and more for 255 bytes, and 20 times as much for a few bytes more.
    #[test]
    fn names_that_would_take_ages_stay_as_they_are() {
        for name in [
            "_Z1IiSaIIiSaItGSt1CCCSaItGSiDRsevactCCCCCCCCCCCrppiSaItGSt3vetIiSaItGSiDasCCetZ1IiSaIIiSaItGSt1CCCSaItGSiDRsevactCCCC\
             CCCCCCCrppiSaItGSt3vetIiSaItGSiDasCCetIiSaItGSiDRseatcvCCCCCCCCCCCrppiSaIDasevactCCCCCCCIiSaItGSiDRseatcvCCCCCCCCCCCrpp\
             iSaIDasevactCCCCCCC",
            "_Z1IiSaIiiSaIiiSaIiiSaIiDphOOOOOOOOOOOaSaIiiSaIiDp2IiSaIiiSaIiDphOOOOOOOOOOOOaSaIiSaIiiSaIiDphOOOOaIiDp1IiSaIiiSaIiDp\
             hOOOOOOacZ",
        ] {
            check(name, name);
        }
    }

    #[test]
    fn cpp_names_have_no_parameters() {
        check("_Z3lamSt8functionIFllEE", "lam");
        check("_ZN2ns4GridIdLi7EEclEi", "ns::Grid<double, 7>::operator()");
        check(
            "_Z8variadicIJildcEElDpT_",
            "variadic<int, long, double, char>",
        );
        check(
            "_ZN2ns12_GLOBAL__N_16hiddenEPcm.constprop.0",
            "ns::(anonymous namespace)::hidden",
        );
        check(
            "_ZNOSt6vectorIiSaIiEE3fooEv",
            "std::vector<int, std::allocator<int> >::foo",
        );
    }

    #[test]
    fn cpp_names_are_spelled_as_perf_spells_them() {
        check("_ZTVSt9bad_alloc", "vtable for std::bad_alloc");
        check(
            "_ZThn56_N4node7ReqWrapD0Ev",
            "non-virtual thunk to node::ReqWrap::~ReqWrap()",
        );
        check(
            "_ZGTtNSt12length_errorD2Ev",
            "transaction clone for std::length_error::~length_error()",
        );
        check("_ZN1a1fILj3EEEvv", "a::f<3u>");
        check("_ZN1a1fILm32ELl1EEEvv", "a::f<32ul, 1l>");
        check(
            "_ZNSsC1EOSs",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string",
        );
        check("_ZNSs6appendEPKc", "std::string::append");
        check("_ZN1pI1mN1aIS0_JEEEJEE1fEv", "p<m, a<m>>::f");
        check("_ZN1aIFN1b1cI1dEEiEE1fEv", "a<b::c<d> (int)>::f");
        check("_GLOBAL__I_main", "global constructors keyed to main");
        check("_GLOBAL__sub_I_main", "_GLOBAL__sub_I_main");
    }

    #[test]
    fn rust_names_have_no_hash() {
        check(
            "_ZN3std2io5Write9write_all17h0123456789abcdefE",
            "std::io::Write::write_all",
        );
        check(
            "_ZN3std2io5Write9write_all17h0123456789abcdefE.llvm.42",
            "std::io::Write::write_all",
        );
        check(
            "_ZN34_$LT$r..Sq$u20$as$u20$r..Shape$GT$4area17h0123456789abcdefE",
            "<r::Sq as r::Shape>::area",
        );
        check("_RNvCs123_1r4main", "r::main");
        check("_RINvCs123_1r5touchyE", "r::touch::<u64>");
    }

    #[test]
    fn a_stub_is_named_after_what_it_calls() {
        check("_ZdlPv@plt", "operator delete@plt");
        check("malloc@plt", "malloc@plt");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in [
            "",
            "_",
            "main",
            "_start",
            "_Z",
            "_Zq",
            "_R",
            "_ZN",
            "cfree@GLIBC_2.2.5",
        ] {
            check(name, name);
        }
    }

    #[test]
    fn hostile_names_are_bounded() {
        check(
            &format!("_Z1f{}", "P".repeat(10_000)),
            &format!("_Z1f{}", "P".repeat(10_000)),
        );
        let long = format!("_Z{}", "1a".repeat(MANGLED_MAX));
        check(&long, &long);
        // Each pair refers to the one before it twice: the text doubles with every step.
        let mut doubling = String::from("_Z1fI1aE");
        for step in 0..60_u32 {
            write!(doubling, "1gIS{step}_S{step}_E").unwrap();
        }
        assert!(demangle(&doubling).len() <= DEMANGLED_MAX + doubling.len());
        let nested = format!("_Z1f{}i{}", "1aI".repeat(4_000), "E".repeat(4_000));
        assert!(demangle(&nested).len() <= DEMANGLED_MAX);
        let rust = format!("_RNv{}", "INvC1a1b".repeat(1_000));
        assert!(demangle(&rust).len() <= DEMANGLED_MAX);
    }

    proptest::proptest! {
        #[test]
        fn any_name_gives_some_name(tail in "[A-Za-z0-9_.$]{0,60}", lead in "(_Z|_ZN|_R|_ZZ|_ZTV|_GLOBAL__I_)") {
            let name = format!("{lead}{tail}");
            proptest::prop_assert!(!demangle(&name).is_empty());
        }

        #[test]
        fn any_change_of_a_name_gives_some_name(at in 0_usize..60, to in "[IESTNKPR0-9_L]{1,3}") {
            let whole = "_ZNSt17_Function_handlerIFvvEZN2v84base8CallOnceIJEvEEvPSt6atomicIhEEUlvE_E9_M_invokeERKSt9_Any_data";
            let mut name = whole.to_owned();
            name.replace_range(at..=at, &to);
            proptest::prop_assert!(!demangle(&name).is_empty());
        }
    }
}

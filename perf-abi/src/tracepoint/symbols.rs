//! Names that `print fmt` gives the values of a field.
//!
//! ```text
//! __print_symbolic(REC->member, { 0, "MM_FILEPAGES" }, { 1, "MM_ANONPAGES" })
//! __print_flags(REC->gfp_flags, "|", {(unsigned long)0xcc0, "GFP_KERNEL"}, …)
//! ```

use super::expression::evaluate;
use crate::file::Tracepoint;

/// Most names of a field: the kernel's longest table has some dozens.
const MAX_NAMES: usize = 4096;

/// The names of a field's values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Symbols {
    /// What stands between flags; `None` if each value has one name.
    delimiter: Option<String>,
    names: Vec<(u64, String)>,
}

impl Symbols {
    /// The names `print fmt` gives the values of `field`, if it is printed so and the values can be worked out.
    pub fn of(tracepoint: &Tracepoint, field: &str) -> Option<Self> {
        let text = tracepoint.print_fmt.as_str();
        ["__print_symbolic", "__print_flags"]
            .into_iter()
            .find_map(|function| {
                text.match_indices(function).find_map(|(at, _)| {
                    let call = text.get(at + function.len()..)?;
                    parse(call, field, function == "__print_flags")
                })
            })
    }

    /// The name of a value, or the names of its bits; `None` if there are none.
    pub fn name(&self, value: u64) -> Option<String> {
        let Some(delimiter) = &self.delimiter else {
            let found = self.names.iter().find(|(known, _)| *known == value);
            return found.map(|(_, name)| name.clone());
        };
        let mut left = value;
        let mut out = String::new();
        let mut add = |name: &str| {
            if !out.is_empty() {
                out.push_str(delimiter);
            }
            out.push_str(name);
        };
        // The first names are of combinations: bits a name covers are not named again.
        for (bits, name) in &self.names {
            if *bits != 0 && left & bits == *bits {
                add(name);
                left &= !bits;
            }
        }
        if out.is_empty() {
            return None;
        }
        if left != 0 {
            out.push_str(delimiter);
            out.push_str(&format!("{left:#x}"));
        }
        Some(out)
    }
}

/// `(REC->field, "|", {value, "NAME"}, …)`
fn parse(call: &str, field: &str, flags: bool) -> Option<Symbols> {
    let inside = call.trim_start().strip_prefix('(')?;
    let (argument, mut rest) = inside.split_once(',')?;
    let named = argument
        .trim()
        .trim_start_matches('(')
        .trim_end_matches(')');
    if named.trim().strip_prefix("REC->")? != field {
        return None;
    }
    let mut symbols = Symbols::default();
    if flags {
        let (delimiter, after) = quoted(rest)?;
        symbols.delimiter = Some(delimiter.to_owned());
        rest = after;
    }
    while symbols.names.len() < MAX_NAMES {
        let separated = rest.trim_start().trim_start_matches(',').trim_start();
        let Some(entry) = separated.strip_prefix('{') else {
            break;
        };
        let Some((value, name)) = entry.split_once('"') else {
            break; // the entry that ends the table
        };
        let value = value.trim().strip_suffix(',').and_then(evaluate);
        let (Some(value), Some((name, after))) = (value, name.split_once('"')) else {
            break;
        };
        symbols.names.push((value, name.to_owned()));
        rest = after.trim_start().strip_prefix('}')?;
    }
    (!symbols.names.is_empty()).then_some(symbols)
}

/// A text in quotes and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('"')?.split_once('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracepoint(print_fmt: &str) -> Tracepoint {
        Tracepoint {
            print_fmt: print_fmt.to_owned(),
            ..Tracepoint::default()
        }
    }

    #[test]
    fn values_are_named_one_by_one_and_flags_together() {
        let tracepoint = tracepoint(
            "\"%s %s\", __print_symbolic(REC->member, { 0, \"FILE\" }, { 1, \"ANON\" }), (REC->gfp) ? \
             __print_flags(REC->gfp, \"|\", {( unsigned long)((1UL) << (1))|1, \"BOTH\"}, {1, \"LOW\"}, {2, \"HIGH\"}, \
             {4, \"MORE\"}, { 0, ((void *)0) } ) : \"none\"",
        );
        let members = Symbols::of(&tracepoint, "member").unwrap();
        assert_eq!(members.name(1).as_deref(), Some("ANON"));
        assert_eq!(members.name(2), None);
        let flags = Symbols::of(&tracepoint, "gfp").unwrap();
        for (value, name) in [
            (3, Some("BOTH")),
            (2, Some("HIGH")),
            (7, Some("BOTH|MORE")),
            (0x21, Some("LOW|0x20")),
            (0x20, None),
            (0, None),
        ] {
            assert_eq!(flags.name(value).as_deref(), name, "{value}");
        }
        assert_eq!(Symbols::of(&tracepoint, "other"), None);
    }
}

//! What debug information says of data addresses: members of variables. Each place is looked up once.

use super::ObjectSource;
use super::source::SourceLines;
use crate::machine::{Machine, Place};
use crate::symbols::ObjectIx;
use memwide_objects::{DataMember, demangle};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;

/// Most different places kept; what comes beyond has no members. Hostile files must not fill memory.
const PLACES_MAX: usize = 1 << 22;

/// A variable's member at a data address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The variable with the way to the member, as it is written in the source: `stats[3].misses`. Members that share a place
    /// are named together: `value.{word|half}`.
    pub name: Box<str>,
    /// Bytes from the member's start.
    pub offset: u64,
}

/// Members by place.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: FxHashMap<(ObjectIx, u64), Option<Arc<Member>>>,
}

impl Members {
    /// The member at a place; `None` where debug information knows no variable there.
    pub(super) fn at<S: ObjectSource>(
        &mut self,
        machine: &Machine,
        (lines, source): (&mut SourceLines, &mut S),
        place: &Place,
    ) -> Option<Arc<Member>> {
        let key = (place.object?, place.address);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= PLACES_MAX {
            return None;
        }
        let info = lines.info(machine, source, key.0);
        let found = info.map(|info| info.member(key.1));
        let found = found.and_then(|found| lines.sound(machine, key.0, found));
        let found = found.flatten();
        let found = found.and_then(|found| named(machine, place, &found));
        let found = found.map(Arc::new);
        self.known.insert(key, found.clone());
        found
    }
}

/// By the symbol where it is the variable's own, as that is the name all other keys show.
fn named(machine: &Machine, place: &Place, found: &DataMember) -> Option<Member> {
    let table = machine.objects().table(place.object?)?;
    let symbol = place.symbol.filter(|_| place.variable);
    let symbol = symbol.and_then(|symbol| {
        let is_own = table.object(symbol)?.start == found.start;
        is_own.then(|| table.shown_name(symbol, true))
    });
    let written = found.variable.as_deref();
    let name: Cow<'_, str> = match (symbol, written) {
        // Compilers number the static variables of functions: `kept.0` is no member of `kept`.
        (Some(symbol), Some(written)) if is_numbered(symbol, written) => written.into(),
        (Some(symbol), _) => symbol.into(),
        (None, written) => demangle(written?),
    };
    Some(Member {
        name: format!("{name}{}", found.path).into(),
        offset: found.rest,
    })
}

fn is_numbered(symbol: &str, written: &str) -> bool {
    let number = symbol
        .strip_prefix(written)
        .and_then(|rest| rest.strip_prefix('.'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_variables_of_functions_have_numbers_behind_their_names() {
        assert!(is_numbered("kept.0", "kept"));
        assert!(is_numbered("kept.1234", "kept"));
        for (symbol, written) in [
            ("kept", "kept"),
            ("kept.", "kept"),
            ("kept.lto_priv.0", "kept"),
        ] {
            assert!(!is_numbered(symbol, written), "{symbol}");
        }
    }
}

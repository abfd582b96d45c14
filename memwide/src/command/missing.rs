//! What cannot be had here, by reason.

use std::collections::BTreeMap;

/// What is missing, each with its reason and its remedy: the names that share both, joined, and both in words.
pub(super) fn by_reason<'a>(
    all: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> impl Iterator<Item = (String, String)> {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (what, reason, remedy) in all {
        by_reason.entry((reason, remedy)).or_default().push(what);
    }
    by_reason.into_iter().map(|((reason, remedy), names)| {
        let why = match remedy {
            "" => reason.to_owned(),
            remedy => format!("{reason}; {remedy}"),
        };
        (names.join(", "), why)
    })
}

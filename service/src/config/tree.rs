//! Trees of keys: what is known, what is given, what is most like it.

use serde_json::{Map, Value};

/// Calls `visit` for each value that is not a table with entries, with its dotted key.
pub(super) fn walk(tree: &Value, visit: &mut impl FnMut(&str, &Value)) {
    fn inner(prefix: &str, value: &Value, visit: &mut impl FnMut(&str, &Value)) {
        match value {
            Value::Object(table) if !table.is_empty() => {
                for (key, value) in table {
                    let key = if prefix.is_empty() {
                        key.clone()
                    } else {
                        format!("{prefix}.{key}")
                    };
                    inner(&key, value, visit);
                }
            }
            _ if prefix.is_empty() => {}
            _ => visit(prefix, value),
        }
    }
    inner("", tree, visit);
}

/// The value at a dotted key.
pub(super) fn get<'a>(tree: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(tree, |at, part| at.get(part))
}

/// Whether `key` may be given: it is in the tree, or beneath something the tree says nothing about.
pub(super) fn knows(tree: &Value, key: &str) -> bool {
    let mut at = tree;
    for part in key.split('.') {
        at = match at {
            Value::Object(table) if table.is_empty() => return true, // a table of any keys
            Value::Object(table) => match table.get(part) {
                Some(value) => value,
                None => return false,
            },
            Value::Null => return true, // not set: only its type knows what it takes
            _ => return false,
        };
    }
    true
}

/// A key as people write it: what stands in a list has no number there.
pub(super) fn without_numbers(key: &str) -> String {
    let parts = key.split('.');
    let names: Vec<&str> = parts
        .filter(|part| part.parse::<usize>().is_err() && !part.is_empty())
        .collect();
    names.join(".")
}

/// Puts `value` at a dotted key, making tables on the way.
pub(super) fn set(tree: &mut Value, key: &str, value: Value) {
    let mut at = tree;
    for part in key.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(table) = at else { return };
        at = table.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

/// The known key most like `key`, if any is like it at all.
pub(super) fn nearest(tree: &Value, key: &str) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    let mut offer = |candidate: &str| {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        // The right name in the wrong table is as near as one wrong letter.
        let moved = last(candidate) == last(key);
        let distance = if moved {
            1
        } else {
            crate::spelling::distance(candidate, key)
        };
        if best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, candidate.to_owned()));
        }
    };
    walk(tree, &mut |candidate, _| {
        offer(candidate);
        if let Some((table, _)) = candidate.rsplit_once('.') {
            offer(table);
        }
    });
    let (distance, candidate) = best?;
    if distance <= 2.max(key.len() / 3) {
        return Some(candidate);
    }
    // Nothing is like it: perhaps the key above it takes a value rather than a table.
    let (table, _) = key.rsplit_once('.')?;
    get(tree, table).filter(|value| !value.is_object())?;
    Some(table.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_may_be_in_another_table_or_too_far() {
        let tree = serde_json::json!({"listen": "", "spool": {"max_bytes": 1}});
        let rows = [
            ("lisen", Some("listen")),
            ("max_bytes", Some("spool.max_bytes")),
            ("spol.max_bytes", Some("spool.max_bytes")),
            ("spool.max_byte", Some("spool.max_bytes")),
            ("zzzzzz", None),
        ];
        for (key, expected) in rows {
            assert_eq!(nearest(&tree, key).as_deref(), expected, "{key}");
        }
    }
}

//! Which known word somebody may have meant.

/// Words offered for one that nobody knows.
const OFFERED: usize = 3;

/// The known words most like this one, the most like it first; none where nothing is like it. Upper and lower case are one.
pub fn near(word: &str, known: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let word = word.to_ascii_lowercase();
    let most = 2.max(word.len() / 3);
    let measured = known.into_iter().map(|known| {
        let known = known.as_ref();
        (
            distance(&known.to_ascii_lowercase(), &word),
            known.to_owned(),
        )
    });
    let mut found: Vec<_> = measured.filter(|(edits, _)| *edits <= most).collect();
    found.sort();
    found.dedup();
    let nearest = found.into_iter().map(|(_, known)| known);
    nearest.take(OFFERED).collect()
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (row[j] + usize::from(x != y))
                .min(row[j + 1] + 1)
                .min(next[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        let rows = [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("lisetn", "listen", 1),
            ("a", "b", 1),
        ];
        for (a, b, expected) in rows {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn words_like_it_are_offered_nearest_first() {
        let known = [
            "page-faults",
            "minor-faults",
            "cycles",
            "LLC-loads",
            "LLC-load-misses",
        ];
        let rows: [(&str, &[&str]); 4] = [
            ("page-fault", &["page-faults"]),
            ("llc-load", &["LLC-loads"]),
            ("cylces", &["cycles"]),
            ("nonsense", &[]),
        ];
        for (word, expected) in rows {
            assert_eq!(near(word, known), expected, "{word}");
        }
    }
}

//! Files with symbols or debug information that were refused: names are missing for a reason.

use memwide_decoder::edge::Refusal;

/// Files named on standard error; JSON has all that are known.
const SAID: usize = 12;

/// Those of all sessions that read a file.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    kept: Vec<Refusal>,
    more: u64,
}

impl Refused {
    /// Those of one session; several may have met the same.
    pub(super) fn take(&mut self, (kept, more): (Vec<Refusal>, u64)) {
        for refusal in kept {
            if !self.kept.contains(&refusal) {
                self.kept.push(refusal);
            }
        }
        self.more += more;
    }

    /// One line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.kept.iter().map(Refusal::to_string).collect()
    }

    /// Names them on standard error.
    pub(super) fn say(&self) {
        for refused in self.kept.iter().take(SAID) {
            crate::output::say(&format!("names are missing: {refused}"));
        }
        let hidden = self.kept.len().saturating_sub(SAID) as u64 + self.more;
        if hidden > 0 {
            crate::output::say(&format!(
                "names are missing: {hidden} more files were refused"
            ));
        }
    }
}

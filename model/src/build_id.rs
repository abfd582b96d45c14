//! GNU build ids.

use std::fmt;

/// A build id, up to 20 bytes (the most the kernel reports); longer ones are cut like there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId {
    len: u8,
    bytes: [u8; 20],
}

impl BuildId {
    /// `None` for an empty or all-zero id.
    pub fn new(id: &[u8]) -> Option<Self> {
        if id.iter().all(|byte| *byte == 0) {
            return None;
        }
        let kept = id.get(..20).unwrap_or(id);
        let mut bytes = [0; 20];
        bytes[..kept.len()].copy_from_slice(kept);
        Some(Self {
            len: u8::try_from(kept.len()).unwrap_or(20),
            bytes,
        })
    }

    /// From hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if !digits.len().is_multiple_of(2) || digits.len() > 40 {
            return None;
        }
        let mut bytes = Vec::with_capacity(20);
        for pair in digits.chunks_exact(2) {
            let pair = std::str::from_utf8(pair).ok()?;
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
        }
        Self::new(&bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.len))
            .unwrap_or(&self.bytes)
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        let id = BuildId::from_hex("00ff10").unwrap();
        assert_eq!(
            (id.to_string().as_str(), id.as_bytes()),
            ("00ff10", &[0, 255, 16][..])
        );
    }

    #[test]
    fn zero_odd_and_long_ids_are_none() {
        for text in ["", "0000", "abc", "zz", &"11".repeat(21)] {
            assert_eq!(BuildId::from_hex(text), None, "{text}");
        }
    }
}

//! The key of an archive, and the one made from it for each file.

use super::error::ArchiveError;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::path::Path;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Bytes by which an entry grows when it is sealed.
pub(super) const TAG_BYTES: usize = 16;

/// Says which key it is without telling it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KeyId(pub(super) [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A secret that an archive is encrypted with.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Key({})", self.id())
    }
}

impl Key {
    /// Reads a file of 64 hexadecimal digits.
    pub fn read(path: &Path) -> Result<Self, ArchiveError> {
        let text = std::fs::read_to_string(path).map_err(ArchiveError::io(path))?;
        Self::parse(text.trim()).ok_or_else(|| ArchiveError::BadKey {
            path: path.to_owned(),
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
            .collect();
        let bytes: Vec<u8> = digits?
            .chunks(2)
            .filter_map(|pair| Some(pair.first()? << 4 | pair.get(1)?))
            .collect();
        let fits = text.len() == 2 * KEY_BYTES;
        fits.then(|| bytes.try_into().ok().map(Self)).flatten()
    }

    pub(super) fn id(&self) -> KeyId {
        let hash = Sha256::new()
            .chain_update(b"memwide archive key")
            .chain_update(self.0)
            .finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        KeyId(id)
    }

    /// The key of one file: no two files share one, so the number of an entry in its file is never used twice under a key.
    pub(super) fn of_file(&self, salt: &[u8; 16]) -> Option<FileKey> {
        let secret = Salt::new(HKDF_SHA256, salt).extract(&self.0);
        let made = secret.expand(&[b"memwide archive file"], &CHACHA20_POLY1305);
        Some(FileKey(LessSafeKey::new(UnboundKey::from(made.ok()?))))
    }
}

/// Seals and opens the entries of one file.
#[derive(Debug)]
pub(super) struct FileKey(LessSafeKey);

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl FileKey {
    /// Encrypts the entry of a number, once; `head` is bound to it. `None`: it is far too long.
    pub(super) fn seal(&self, number: u64, head: &[u8], body: &mut Vec<u8>) -> Option<()> {
        let aad = Aad::from(head);
        self.0
            .seal_in_place_append_tag(nonce(number), aad, body)
            .ok()
    }

    /// Decrypts it. `None`: it was not sealed with this key and head.
    pub(super) fn open(&self, number: u64, head: &[u8], mut body: Vec<u8>) -> Option<Vec<u8>> {
        let opened = self
            .0
            .open_in_place(nonce(number), Aad::from(head), &mut body);
        let len = opened.ok()?.len();
        body.truncate(len);
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        let good = "00ff".repeat(16);
        assert_eq!(Key::parse(&good).unwrap().0[..2], [0, 255]);
        for bad in [
            String::new(),
            "0".repeat(63),
            "0".repeat(66),
            "g0".repeat(32),
        ] {
            assert!(Key::parse(&bad).is_none(), "{bad}");
        }
        assert!(!format!("{:?}", Key::parse(&good)).contains("00ff00ff"));
    }

    #[test]
    fn only_the_same_key_file_place_and_head_open_an_entry() {
        let key = |digits: &str| Key::parse(&digits.repeat(32)).unwrap();
        let file = key("0a").of_file(&[1; 16]).unwrap();
        let mut sealed = b"samples".to_vec();
        file.seal(3, b"head", &mut sealed).unwrap();
        assert_eq!(sealed.len(), 7 + TAG_BYTES);
        assert_eq!(file.open(3, b"head", sealed.clone()).unwrap(), b"samples");
        let mut flipped = sealed.clone();
        flipped[0] ^= 1;
        let other_key = key("0b").of_file(&[1; 16]).unwrap();
        let other_file = key("0a").of_file(&[2; 16]).unwrap();
        for opened in [
            file.open(4, b"head", sealed.clone()),
            file.open(3, b"Head", sealed.clone()),
            file.open(3, b"head", flipped),
            other_key.open(3, b"head", sealed.clone()),
            other_file.open(3, b"head", sealed.clone()),
        ] {
            assert!(opened.is_none());
        }
    }
}

//! Secrets that live as long as the process.

use std::io::Read as _;

/// 128 random bits as 32 hexadecimal digits.
pub fn text() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

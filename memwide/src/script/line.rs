//! Text in a buffer, quickly: numbers and JSON strings without formatting machinery.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A buffer that lines are written to.
#[derive(Debug, Default)]
pub(crate) struct Line {
    bytes: Vec<u8>,
}

impl Line {
    /// What is in it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Text as it is.
    #[inline]
    pub(crate) fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Bytes as they are.
    #[inline]
    pub(crate) fn bytes_of(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Replaces the last byte.
    pub(crate) fn replace_last(&mut self, text: &str) {
        self.bytes.pop();
        self.raw(text);
    }

    /// A decimal number.
    #[inline]
    pub(crate) fn decimal(&mut self, number: u64) {
        self.decimal_right(number, 0);
    }

    /// A signed decimal number.
    pub(crate) fn signed(&mut self, number: i64) {
        if number < 0 {
            self.raw("-");
        }
        self.decimal(number.unsigned_abs());
    }

    /// A decimal number that ends `width` bytes further, padded by blanks.
    pub(crate) fn decimal_right(&mut self, number: u64, width: usize) {
        let mut digits = [0; 20];
        let used = decimal_digits(number, &mut digits);
        self.pad(used.len(), width);
        self.bytes.extend_from_slice(used);
    }

    /// A decimal number with zeros in front, `width` digits at least.
    pub(crate) fn decimal_zeros(&mut self, number: u64, width: usize) {
        let mut digits = [0; 20];
        let used = decimal_digits(number, &mut digits);
        let zeros = width.saturating_sub(used.len());
        self.bytes.extend(std::iter::repeat_n(b'0', zeros));
        self.bytes.extend_from_slice(used);
    }

    /// Lower-case hexadecimal digits that end `width` bytes further, padded by blanks.
    pub(crate) fn hex_right(&mut self, number: u64, width: usize) {
        let mut digits = [0; 16];
        let used = hex_digits(number, &mut digits);
        self.pad(used.len(), width);
        self.bytes.extend_from_slice(used);
    }

    /// `0x` and lower-case hexadecimal digits.
    #[inline]
    pub(crate) fn hex(&mut self, number: u64) {
        let mut digits = [0; 16];
        let used = hex_digits(number, &mut digits);
        self.raw("0x");
        self.bytes.extend_from_slice(used);
    }

    /// The bytes as hexadecimal digits.
    pub(crate) fn hex_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.bytes.push(DIGITS[usize::from(byte >> 4)]);
            self.bytes.push(DIGITS[usize::from(byte & 15)]);
        }
    }

    /// Blanks, so that `used` bytes end at `width`.
    pub(crate) fn pad(&mut self, used: usize, width: usize) {
        self.bytes
            .extend(std::iter::repeat_n(b' ', width.saturating_sub(used)));
    }

    /// A JSON string, with its quotes.
    #[inline]
    pub(crate) fn json(&mut self, text: &str) {
        self.bytes.push(b'"');
        self.json_inner(text);
        self.bytes.push(b'"');
    }

    fn json_inner(&mut self, text: &str) {
        let needs_escape = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
        if !any(text, needs_escape) {
            self.raw(text);
            return;
        }
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(needs_escape) {
            let (plain, after) = rest.split_at(at);
            self.bytes.extend_from_slice(plain);
            let Some((special, after)) = after.split_first() else {
                break;
            };
            match special {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\n' => self.raw("\\n"),
                b'\t' => self.raw("\\t"),
                b'\r' => self.raw("\\r"),
                other => {
                    self.raw("\\u00");
                    self.hex_bytes(&[*other]);
                }
            }
            rest = after;
        }
        self.bytes.extend_from_slice(rest);
    }

    /// Text for a terminal: control characters become `?`. Ends `width` characters further at least, padded by blanks.
    pub(crate) fn shown_right(&mut self, text: &str, width: usize) {
        if !any(text, |byte| !(0x20..0x7f).contains(byte)) {
            self.pad(text.len(), width);
            self.raw(text);
            return;
        }
        self.pad(text.chars().count(), width);
        let clean = |c: char| if c.is_control() { '?' } else { c };
        let clean: String = text.chars().map(clean).collect();
        self.raw(&clean);
    }

    /// Text for a terminal.
    pub(crate) fn shown(&mut self, text: &str) {
        self.shown_right(text, 0);
    }
}

/// Whether a byte is such a one; looks at all of them, which is quicker than stopping as names rarely hold one.
fn any(text: &str, is: impl Fn(&u8) -> bool) -> bool {
    text.as_bytes()
        .iter()
        .fold(false, |found, byte| found | is(byte))
}

/// `00` to `99`, one after the other.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut at = 0;
    while at < 100 {
        pairs[2 * at] = DIGITS[at / 10];
        pairs[2 * at + 1] = DIGITS[at % 10];
        at += 1;
    }
    pairs
};

/// The decimal digits of a number, at the end of `digits`.
fn decimal_digits(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    while number >= 10 {
        let pair = 2 * (number % 100) as usize;
        number /= 100;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    }
    if number > 0 || at == digits.len() {
        at -= 1;
        digits[at] = DIGITS[(number % 10) as usize];
    }
    &digits[at..]
}

/// The hexadecimal digits of a number, at the end of `digits`.
fn hex_digits(mut number: u64, digits: &mut [u8; 16]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = DIGITS[(number & 15) as usize];
        number >>= 4;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl Fn(&mut Line), expected: &str) {
        let mut line = Line::default();
        write(&mut line);
        assert_eq!(std::str::from_utf8(line.bytes()), Ok(expected));
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [
            0,
            1,
            9,
            10,
            99,
            100,
            101,
            1_000,
            12_345,
            u64::MAX / 10,
            u64::MAX,
        ] {
            check(|line| line.decimal(number), &number.to_string());
            check(
                |line| line.decimal_right(number, 12),
                &format!("{number:>12}"),
            );
            check(
                |line| line.decimal_zeros(number, 9),
                &format!("{number:09}"),
            );
            check(|line| line.hex(number), &format!("{number:#x}"));
            check(|line| line.hex_right(number, 16), &format!("{number:>16x}"));
        }
        for number in [i64::MIN, -1, 0, i64::MAX] {
            check(|line| line.signed(number), &number.to_string());
        }
    }

    #[test]
    fn json_strings_survive_a_round_trip() {
        for text in [
            "",
            "main",
            "a\"b\\c",
            "tab\tline\nreturn\r",
            "\u{1}\u{1f}\u{7f}",
            "größe ∑",
        ] {
            let mut line = Line::default();
            line.json(text);
            let back: String = serde_json::from_slice(line.bytes()).unwrap();
            assert_eq!(back, text);
        }
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        check(|line| line.shown("a\u{1b}[31mb\u{9b}é"), "a?[31mb?é");
        check(|line| line.shown_right("é", 3), "  é");
    }
}

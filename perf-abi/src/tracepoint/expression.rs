//! Constants in `print fmt`, as the kernel's preprocessor leaves them.
//!
//! ```text
//! ( unsigned long)((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))) | (( gfp_t)((((1UL))) << (6))))
//! ```

/// Deepest nesting followed; the kernel's macros reach about 20.
const DEPTH: u32 = 200;

/// The value of a constant expression of numbers, casts and bit operators; `None` for anything else.
pub(super) fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Parser { rest: text };
    let value = parser.or(0)?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn or(&mut self, depth: u32) -> Option<u64> {
        let mut value = self.and(depth)?;
        while self.take("|") {
            value |= self.and(depth)?;
        }
        Some(value)
    }

    fn and(&mut self, depth: u32) -> Option<u64> {
        let mut value = self.shift(depth)?;
        while self.take("&") {
            value &= self.shift(depth)?;
        }
        Some(value)
    }

    fn shift(&mut self, depth: u32) -> Option<u64> {
        let mut value = self.sum(depth)?;
        loop {
            if self.take("<<") {
                value = value.checked_shl(u32::try_from(self.sum(depth)?).ok()?)?;
            } else if self.take(">>") {
                value = value.checked_shr(u32::try_from(self.sum(depth)?).ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self, depth: u32) -> Option<u64> {
        let mut value = self.unary(depth)?;
        loop {
            if self.take("+") {
                value = value.wrapping_add(self.unary(depth)?);
            } else if self.take("-") {
                value = value.wrapping_sub(self.unary(depth)?);
            } else {
                return Some(value);
            }
        }
    }

    fn unary(&mut self, depth: u32) -> Option<u64> {
        let depth = depth.checked_add(1).filter(|depth| *depth < DEPTH)?;
        if self.take("~") {
            return Some(!self.unary(depth)?);
        }
        if self.take("-") {
            return Some(self.unary(depth)?.wrapping_neg());
        }
        if self.take("(") {
            if self.cast() {
                return self.unary(depth);
            }
            let value = self.or(depth)?;
            return self.take(")").then_some(value);
        }
        self.number()
    }

    /// A type up to its closing bracket: words, no stars, so that `(void *)0` is no number.
    fn cast(&mut self) -> bool {
        let Some((inside, rest)) = self.rest.split_once(')') else {
            return false;
        };
        let inside = inside.trim();
        let is_type = inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && inside
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ' ');
        if is_type {
            self.rest = rest;
        }
        is_type
    }

    fn number(&mut self) -> Option<u64> {
        let text = self.rest.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None if digits.len() > 1 && digits.starts_with('0') => {
                u64::from_str_radix(digits, 8).ok()
            }
            None => digits.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_constants_are_worked_out() {
        for (text, value) in [
            ("0", Some(0)),
            (" 0x10 ", Some(16)),
            ("010", Some(8)),
            ("-1", Some(u64::MAX)),
            ("((((1UL))) << (11))", Some(2048)),
            (
                "( unsigned long)((( gfp_t)((((1UL))) << (5)))|(( gfp_t)((((1UL))) << (11))))",
                Some(0x820),
            ),
            ("(7 & ~(1 | 2)) + 1", Some(5)),
            ("((void *)0)", None),
            ("REC->x", None),
            ("1 << 64", None),
            ("", None),
        ] {
            assert_eq!(evaluate(text), value, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
    }
}

//! Values of `{name:Type}` that do not fit their type: the engine would take them for other numbers (300 as `UInt8` is 44 there).

use super::lex::{Kind, Lexer, Token};

/// A parameter's name as requests have it begins so.
const PREFIX: &str = "param_";

/// A value that its type cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the parameter `{name}` is {value}, and `{kind}` holds {least} to {most}")]
pub struct OutOfRange {
    /// The parameter.
    pub name: String,
    /// What was given, shortened.
    pub value: String,
    /// The type that is too narrow.
    pub kind: String,
    /// Its bounds.
    pub least: i128,
    /// The largest value it holds.
    pub most: i128,
}

/// Checks the whole numbers among the values of a statement's parameters (`param_NAME`), in lists too.
pub(crate) fn check_params(sql: &str, params: &[(String, String)]) -> Result<(), OutOfRange> {
    let mut rest = Lexer::new(sql.as_bytes()).peekable();
    while let Some(token) = rest.next() {
        if token.kind != Kind::Symbol(b'{') {
            continue;
        }
        let Some(name) = rest.next_if(Token::is_name) else {
            continue;
        };
        if rest
            .next_if(|token| token.kind == Kind::Symbol(b':'))
            .is_none()
        {
            continue;
        }
        let mut kinds = Vec::new();
        while let Some(part) = rest.next_if(|token| token.kind != Kind::Symbol(b'}')) {
            if part.kind == Kind::Word {
                kinds.push(part.text.into_owned());
            }
        }
        let Some((kind, least, most)) = range(&kinds) else {
            continue;
        };
        let own = |known: &str| known.strip_prefix(PREFIX) == Some(&name.text);
        for (_, value) in params.iter().filter(|(known, _)| own(known)) {
            let inner = value.trim().trim_start_matches('[').trim_end_matches(']');
            for number in inner.split(',').map(str::trim) {
                if fits(number, least, most) {
                    continue;
                }
                return Err(OutOfRange {
                    name: name.text.clone().into_owned(),
                    value: number.chars().take(40).collect(),
                    kind,
                    least,
                    most,
                });
            }
        }
    }
    Ok(())
}

/// The whole-number type of a parameter, alone or in lists, and what it holds; `None`: it is of another kind.
fn range(kinds: &[String]) -> Option<(String, i128, i128)> {
    let wraps = ["Array", "Nullable", "LowCardinality"];
    let (kind, around) = kinds.split_last()?;
    if !around.iter().all(|kind| wraps.contains(&kind.as_str())) {
        return None;
    }
    let (bits, signed) = match kind.strip_prefix('U') {
        Some(rest) => (rest.strip_prefix("Int")?, false),
        None => (kind.strip_prefix("Int")?, true),
    };
    let bits: u32 = bits
        .parse()
        .ok()
        .filter(|bits| [8, 16, 32, 64].contains(bits))?;
    let (least, most) = if signed {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    Some((kind.clone(), least, most))
}

/// Whether the type holds a number; what is no whole number is the engine's to judge.
fn fits(number: &str, least: i128, most: i128) -> bool {
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    number
        .parse::<i128>()
        .is_ok_and(|number| (least..=most).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(sql: &str, value: &str) -> String {
        let params = [("param_x", value), ("param_y", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        check_params(sql, &params).map_or_else(|error| error.to_string(), |()| "fits".to_owned())
    }

    #[test]
    fn numbers_beyond_their_type_are_refused_by_name() {
        for (kind, value, says) in [
            (
                "UInt8",
                "300",
                "the parameter `x` is 300, and `UInt8` holds 0 to 255",
            ),
            ("UInt8", "255", "fits"),
            (
                "UInt8",
                "-1",
                "the parameter `x` is -1, and `UInt8` holds 0 to 255",
            ),
            ("Int8", "-128", "fits"),
            (
                "Int8",
                "128",
                "the parameter `x` is 128, and `Int8` holds -128 to 127",
            ),
            ("UInt64", "18446744073709551615", "fits"),
            (
                "UInt64",
                "18446744073709551616",
                "the parameter `x` is 18446744073709551616, and `UInt64` holds 0 to 18446744073709551615",
            ),
            (
                "Int64",
                "-9223372036854775809",
                "the parameter `x` is -9223372036854775809, and `Int64` holds -9223372036854775808 to 9223372036854775807",
            ),
            (
                "Nullable(UInt16)",
                "65536",
                "the parameter `x` is 65536, and `UInt16` holds 0 to 65535",
            ),
            ("Nullable(UInt16)", "\\N", "fits"),
            (
                "Array(UInt8)",
                "[1, 256]",
                "the parameter `x` is 256, and `UInt8` holds 0 to 255",
            ),
            ("Array(UInt8)", "[]", "fits"),
            ("UInt8", "many", "fits"),
            ("UInt128", "99999999999999999999999", "fits"),
            ("String", "300", "fits"),
        ] {
            assert_eq!(
                said(&format!("SELECT {{x : {kind}}}, {{y:UInt8}}"), value),
                says,
                "{kind} {value}"
            );
        }
        let nines = "9".repeat(99);
        assert!(said("SELECT {x:UInt8}", &nines).contains("`UInt8`"));
        assert!(said("SELECT {y:UInt8} + {x:Int8} /* {x:String} */", "999").contains("`Int8`"));
        assert_eq!(said("SELECT '{x:UInt8}' -- {x:UInt8}", "999"), "fits");
        assert_eq!(said("SELECT {x:UInt8", "99"), "fits");
    }
}

//! Numbers for people.

use std::fmt::Write as _;

/// `1234567` → `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let mut out = String::new();
    write_grouped(&mut out, number);
    out
}

fn write_grouped(out: &mut String, number: u64) {
    let start = out.len();
    // Writing to a string cannot fail.
    let _ = write!(out, "{number}");
    let mut at = out.len();
    while at > start + 3 {
        at -= 3;
        out.insert(at, ',');
    }
}

/// A number in the precision its unit deserves: ratios as per cent, large values grouped.
pub(crate) fn write_with_unit(out: &mut String, number: &serde_json::Number, unit: &str) {
    let written = if unit == "ratio" {
        let ratio = number.as_f64().unwrap_or(f64::NAN);
        write!(out, "{:.1} %", ratio * 100.0)
    } else if let Some(whole) = number.as_u64() {
        write_grouped(out, whole);
        Ok(())
    } else if let Some(negative) = number.as_i64() {
        out.push('-');
        write_grouped(out, negative.unsigned_abs());
        Ok(())
    } else {
        match number.as_f64() {
            // Sums of whole numbers come as floats; above 2^53 they are not whole any more.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number below 2^53"
            )]
            Some(real) if real.fract() == 0.0 && (0.0..9.0e15).contains(&real) => {
                write_grouped(out, real as u64);
                Ok(())
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "rounded, and below 2^53"
            )]
            Some(real) if (1_000.0..9.0e15).contains(&real.abs()) => {
                if real < 0.0 {
                    out.push('-');
                }
                write_grouped(out, real.abs().round() as u64);
                Ok(())
            }
            Some(real) if real.abs() >= 1_000.0 => write!(out, "{real:.0}"),
            Some(real) => write!(out, "{real:.3}"),
            None => write!(out, "{number}"),
        }
    };
    // Writing to a string cannot fail.
    let _ = written;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn units_decide_the_form() {
        let form = |value: serde_json::Value, unit| match value {
            serde_json::Value::Number(number) => {
                let mut out = String::new();
                write_with_unit(&mut out, &number, unit);
                out
            }
            _ => unreachable!("only numbers here"),
        };
        assert_eq!(form(serde_json::json!(0.1234), "ratio"), "12.3 %");
        assert_eq!(form(serde_json::json!(5000.0), "cycles"), "5,000");
        assert_eq!(form(serde_json::json!(0.5), "s"), "0.500");
    }
}

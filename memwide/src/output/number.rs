//! Numbers for people.

/// `1234567` → `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number in the precision its unit deserves: ratios as per cent, large values grouped.
pub(crate) fn with_unit(number: &serde_json::Number, unit: &str) -> String {
    if unit == "ratio" {
        let ratio = number.as_f64().unwrap_or(f64::NAN);
        return format!("{:.1} %", ratio * 100.0);
    }
    if let Some(whole) = number.as_u64() {
        return grouped(whole);
    }
    match number.as_f64() {
        // Sums of whole numbers come as floats; above 2^53 they are not whole any more.
        Some(real) if real.fract() == 0.0 && (0.0..9.0e15).contains(&real) => format!("{real:.0}")
            .parse()
            .map_or_else(|_| real.to_string(), grouped),
        Some(real) if real.abs() >= 1_000.0 => format!("{real:.0}"),
        Some(real) => format!("{real:.3}"),
        None => number.to_string(),
    }
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
            serde_json::Value::Number(number) => with_unit(&number, unit),
            _ => unreachable!("only numbers here"),
        };
        assert_eq!(form(serde_json::json!(0.1234), "ratio"), "12.3 %");
        assert_eq!(form(serde_json::json!(5000.0), "cycles"), "5,000");
        assert_eq!(form(serde_json::json!(0.5), "s"), "0.500");
    }
}

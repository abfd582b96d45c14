//! Errors as ClickHouse's HTTP interface words them: status, code, and the form of an error in mid-answer.

/// Version that the pinned engine calls itself.
const VERSION: &str = "26.7.2.1";

/// An exception with a code, worded like the engine's own.
pub fn exception(code: u32, name: &str, text: &str) -> String {
    format!("Code: {code}. DB::Exception: {text} ({name})")
}

/// The engine's words in the form that clients take apart: always with a code and a version.
pub fn complete(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return complete("the engine gave no reason");
    }
    if !text.starts_with("Code:") {
        return complete(&exception(1002, "UNKNOWN_EXCEPTION", text));
    }
    if text.contains("(version ") {
        text.to_owned()
    } else {
        format!("{text} (version {VERSION} (official build))")
    }
}

/// The code in the engine's words.
pub fn code(text: &str) -> u32 {
    let digits = text.trim_start().strip_prefix("Code: ").unwrap_or_default();
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(1002)
}

/// HTTP status of a code, as ClickHouse's server answers it.
pub fn status(code: u32) -> u16 {
    match code {
        60 | 81 => 404,
        192..=194 | 497 | 516 => 403,
        159 | 209 => 408,
        202 | 203 | 1003 => 503,
        48 => 501,
        6
        | 10
        | 16
        | 26
        | 27
        | 33
        | 36
        | 41..=43
        | 46
        | 47
        | 49
        | 50
        | 53
        | 62
        | 70
        | 72
        | 115
        | 117
        | 164
        | 179
        | 218
        | 456
        | 457 => 400,
        _ => 500,
    }
}

/// The mark by which a client knows an error in mid-answer; 16 letters and digits.
pub(super) fn tag(query_id: &str) -> String {
    let letters = query_id.chars().filter(char::is_ascii_alphanumeric);
    letters.chain(std::iter::repeat('x')).take(16).collect()
}

/// An error in mid-answer, as the last bytes of the body.
pub(super) fn in_mid_answer(text: &str, query_id: &str) -> String {
    let (text, tag) = (format!("{}\n", complete(text)), tag(query_id));
    format!(
        "\r\n__exception__\r\n{tag}\r\n{text}{} {tag}\r\n__exception__\r\n",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_code_and_a_version() {
        for text in [
            "",
            "odd words",
            "Code: 62. DB::Exception: Syntax error (SYNTAX_ERROR)",
        ] {
            let full = complete(text);
            assert!(
                full.starts_with("Code: ") && full.contains("(version "),
                "{full}"
            );
        }
        assert_eq!(code("Code: 62. DB::Exception: x"), 62);
        assert_eq!(code("odd words"), 1002);
        assert_eq!(status(code("Code: 60. x")), 404);
    }

    #[test]
    fn an_error_in_mid_answer_states_its_own_length() {
        let text = in_mid_answer("Code: 395. DB::Exception: x", "a-b");
        let inner = text
            .strip_prefix("\r\n__exception__\r\nabxxxxxxxxxxxxxx\r\n")
            .unwrap();
        let (message, tail) = inner.split_once('\n').unwrap();
        assert_eq!(
            tail,
            format!(
                "{} abxxxxxxxxxxxxxx\r\n__exception__\r\n",
                message.len() + 1
            )
        );
    }
}

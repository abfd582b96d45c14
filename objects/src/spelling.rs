//! Where two demanglers spell one C++ name differently, as libiberty (and so perf) does.

/// Literals of these types are shown with a suffix instead of a cast.
const SUFFIXES: [(&str, &str); 5] = [
    ("(unsigned int)", "u"),
    ("(unsigned long)", "ul"),
    ("(unsigned long long)", "ull"),
    ("(long)", "l"),
    ("(long long)", "ll"),
];

/// Classes of the old string ABI, which are named in full before a constructor or destructor.
const IN_FULL: [(&str, &str, &str); 4] = [
    (
        "std::string::",
        "string",
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::",
    ),
    (
        "std::istream::",
        "istream",
        "std::basic_istream<char, std::char_traits<char> >::",
    ),
    (
        "std::ostream::",
        "ostream",
        "std::basic_ostream<char, std::char_traits<char> >::",
    ),
    (
        "std::iostream::",
        "iostream",
        "std::basic_iostream<char, std::char_traits<char> >::",
    ),
];

/// `text` in libiberty's spelling; `params` says whether it ends with the function's parameters.
pub(crate) fn as_libiberty(text: String, params: bool) -> String {
    let mut text = literals(tables(text));
    for (from, to) in REPLACED {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text = constructors(text);
    if !params {
        // Qualifiers of `this` belong to the parameters.
        for qualifier in [" &&", " &", " const"] {
            let end = text.strip_suffix(qualifier).unwrap_or(&text).len();
            text.truncate(end);
        }
    }
    functions(text)
}

/// Empty packs leave nothing behind, and some types have shorter or longer names.
const REPLACED: [(&str, &str); 6] = [
    (", >", ">"),
    (", &&)", ")"),
    (", )", ")"),
    ("std::nullptr_t", "decltype(nullptr)"),
    (
        "std::basic_istream<char, std::char_traits<char> >",
        "std::istream",
    ),
    (
        "std::basic_iostream<char, std::char_traits<char> >",
        "std::iostream",
    ),
];

/// Longest text looked at for function types: the search is quadratic in the worst case.
const FUNCTIONS_MAX: usize = 4 << 10;

/// A function type is `R<A> (B)`, a function as an argument `&f`, without its parameters.
fn functions(text: String) -> String {
    if text.len() > FUNCTIONS_MAX || !text.contains('(') {
        return text;
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    let mut rest = text.as_str();
    while let Some(at) = rest.find('(') {
        let (before, from) = rest.split_at(at);
        spelled.push_str(before);
        let behind = closing(from)
            .and_then(|len| from.get(len..))
            .unwrap_or_default();
        let last = behind.is_empty() || behind.starts_with([',', '>']);
        if last && names_function(&spelled) {
            rest = behind;
            continue;
        }
        let type_before =
            spelled.ends_with(|c: char| c == '>' || c == '_' || c.is_ascii_alphanumeric());
        if type_before && (last || behind.starts_with(')')) && is_type(&spelled) {
            spelled.push(' ');
        }
        spelled.push('(');
        rest = from.get(1..).unwrap_or_default();
    }
    spelled.push_str(rest);
    spelled
}

/// Bytes up to and with the parenthesis that closes the first one.
fn closing(from: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in from.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the text ends within the `&name` of a template argument.
fn names_function(text: &str) -> bool {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b'>' | b')' | b'}' => depth += 1,
            b'<' | b'(' | b'{' if depth == 0 => {
                return text.as_bytes().get(at + 1) == Some(&b'&');
            }
            b',' if depth == 0 => return text.as_bytes().get(at + 2) == Some(&b'&'),
            b'<' | b'(' | b'{' => depth -= 1,
            _ => {}
        }
    }
    false
}

/// Whether the end of the text is within template arguments, or all of it is a type.
fn is_type(text: &str) -> bool {
    let open = text.bytes().filter(|byte| *byte == b'<').count();
    let closed = text.bytes().filter(|byte| *byte == b'>').count();
    (open > closed || text.starts_with("typeinfo ")) && !text.ends_with("decltype")
}

/// `{vtable(X)}` is `vtable for X`.
fn tables(text: String) -> String {
    for (open, name) in [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")] {
        let inner = text
            .strip_prefix(open)
            .and_then(|inner| inner.strip_suffix(")}"));
        if let Some(inner) = inner {
            return format!("{name}{inner}");
        }
    }
    let construction = "construction vtable for ";
    match text
        .strip_prefix(construction)
        .and_then(|pair| pair.split_once("-in-"))
    {
        Some((whole, part)) => format!("{construction}{part}-in-{whole}"),
        None => text,
    }
}

fn constructors(text: String) -> String {
    for (class, short, full) in IN_FULL {
        let Some(member) = text.strip_prefix(class) else {
            continue;
        };
        let (tilde, member) = match member.strip_prefix('~') {
            Some(member) => ("~", member),
            None => ("", member),
        };
        let named = member.strip_prefix("basic_").unwrap_or(member);
        if let Some(rest) = named.strip_prefix(short)
            && (rest.is_empty() || rest.starts_with(['<', '(']))
        {
            return format!("{full}{tilde}basic_{short}{rest}");
        }
    }
    text
}

/// `(unsigned int)3` is `3u`.
fn literals(mut text: String) -> String {
    for (cast, suffix) in SUFFIXES {
        if !text.contains(cast) {
            continue;
        }
        let mut parts = text.split(cast);
        let mut spelled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let unsigned = part.strip_prefix('-').unwrap_or(part);
            let behind = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
            if behind.len() < unsigned.len() {
                spelled.push_str(part.get(..part.len() - behind.len()).unwrap_or_default());
                spelled.push_str(suffix);
                spelled.push_str(behind);
            } else {
                spelled.push_str(cast);
                spelled.push_str(part);
            }
        }
        text = spelled;
    }
    text
}

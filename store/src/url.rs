//! The one URL that names a store: `http://user:password@host:8123/database`.

use crate::error::StoreError;

/// ClickHouse's HTTP port.
const DEFAULT_PORT: u16 = 8123;

/// The parts of a store's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl {
    /// Scheme, host and port.
    pub(crate) origin: String,
    pub(crate) host: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
}

impl StoreUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let without_scheme = url.strip_prefix("http://");
        let (authority, path) =
            without_scheme.map_or(("", ""), |rest| rest.split_once('/').unwrap_or((rest, "")));
        let (login, address) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(login, rest)| (Some(login), rest));
        let wrong = |why| {
            // The password stays out of messages and logs.
            let shown = login.map_or_else(|| url.to_owned(), |login| url.replacen(login, "…", 1));
            Err(StoreError::Url { url: shown, why })
        };
        if without_scheme.is_none() {
            return wrong("only http:// is spoken");
        }
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => match port.parse::<u16>() {
                Ok(port) => (host, port),
                Err(_) => return wrong("the port is not a number"),
            },
            _ => (address, DEFAULT_PORT),
        };
        if host.is_empty() {
            return wrong("the host is missing");
        }
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            None => (None, None),
            Some((user, password)) => match (unescape(user), unescape(password)) {
                (Some(user), Some(password)) => (Some(user), Some(password)),
                _ => return wrong("user or password has a broken %-escape"),
            },
        };
        let database = path
            .split(['?', '/'])
            .next()
            .filter(|name| !name.is_empty());
        Ok(Self {
            origin: format!("http://{host}:{port}"),
            host: host.to_owned(),
            user,
            password,
            database: database.map(str::to_owned),
        })
    }
}

/// Whether the host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}

/// Undoes %-escapes.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_read_and_may_be_left_out() {
        let full = StoreUrl::parse("http://me:p%40:w@db.example:9000/mine").unwrap();
        assert_eq!(
            (full.origin.as_str(), full.host.as_str()),
            ("http://db.example:9000", "db.example")
        );
        assert_eq!(
            (full.user.as_deref(), full.password.as_deref()),
            (Some("me"), Some("p@:w"))
        );
        assert_eq!(full.database.as_deref(), Some("mine"));
        let bare = StoreUrl::parse("http://127.0.0.1/").unwrap();
        assert_eq!(
            (bare.origin.as_str(), bare.user, bare.database),
            ("http://127.0.0.1:8123", None, None)
        );
        assert_eq!(
            StoreUrl::parse("http://[::1]:81").unwrap().origin,
            "http://[::1]:81"
        );
        assert_eq!(
            StoreUrl::parse("http://[::1]").unwrap().origin,
            "http://[::1]:8123"
        );
    }

    #[test]
    fn a_wrong_url_says_why_and_hides_the_password() {
        for (url, why) in [
            ("https://h", "only http://"),
            ("http://", "host is missing"),
            ("http://me:secret@h:port/db", "port is not a number"),
            ("http://me:%zz@h", "%-escape"),
        ] {
            let error = StoreUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }
}

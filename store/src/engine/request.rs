//! One HTTP request, taken apart: what is ours, what is a setting, what is a parameter, who asks.

use axum::http::{HeaderMap, Method, Uri};
use base64::Engine as _;

use super::error_text::exception;

/// What a request asks for, without its body.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a parameter of the interface"
)]
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Text of the `query` parameter.
    pub sql: String,
    /// Settings, in the order given.
    pub settings: Vec<(String, String)>,
    /// Values of `{name:Type}`, written as ClickHouse writes them.
    pub params: Vec<(String, String)>,
    /// The database that names without one are of.
    pub database: Option<String>,
    /// The format where the statement names none.
    pub format: Option<String>,
    /// The client's name for the statement; may be empty.
    pub query_id: String,
    /// The role asked for.
    pub role: Option<String>,
    /// The body is in ClickHouse's compression framing.
    pub decompress: bool,
    /// Revision of the protocol for which Native blocks are asked; 0: none. The engine's own answers have none.
    pub protocol_version: u64,
    /// The answer shall be.
    pub compress: bool,
    /// Nothing of the answer may be sent before all of it is known.
    pub wait_end: bool,
    /// GET requests may not change anything.
    pub read_only: bool,
    /// Who asks.
    pub user: String,
    /// And proves it.
    pub password: String,
    /// How the body is packed.
    pub body_encoding: String,
    /// How the answer shall be packed.
    pub answer_encoding: Option<&'static str>,
}

/// Encodings of answers that are spoken here, best first.
const ANSWER_ENCODINGS: &[&str] = &["lz4", "zstd"];

/// Parameters of ClickHouse's interface that mean nothing here.
const IGNORED: &[&str] = &[
    "buffer_size",
    "http_zlib_compression_level",
    "quota_key",
    "session_check",
    "session_id",
    "session_timeout",
    "stacktrace",
];

impl Asked {
    /// Reads URL and headers; `form` are the fields of a multipart body.
    pub fn read(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        form: Vec<(String, String)>,
    ) -> Result<Self, String> {
        let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let mut asked = Self {
            read_only: *method == Method::GET,
            database: header("x-clickhouse-database").map(str::to_owned),
            format: header("x-clickhouse-format").map(str::to_owned),
            user: header("x-clickhouse-user").unwrap_or_default().to_owned(),
            password: header("x-clickhouse-key").unwrap_or_default().to_owned(),
            body_encoding: header("content-encoding")
                .unwrap_or_default()
                .to_ascii_lowercase(),
            ..Self::default()
        };
        if let Some((user, password)) = header("authorization").and_then(basic) {
            (asked.user, asked.password) = (user, password);
        }
        let pairs =
            axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| {
                exception(
                    36,
                    "BAD_ARGUMENTS",
                    &format!("the URL's parameters cannot be read: {error}"),
                )
            })?;
        let mut http_compression = None;
        for (name, value) in pairs.0.into_iter().chain(form) {
            let on = value == "1" || value == "true";
            match name.as_str() {
                "query" => asked.sql.push_str(&value),
                "database" => asked.database = Some(value),
                "default_format" => asked.format = Some(value),
                "query_id" => asked.query_id = value,
                "role" => asked.role = Some(value),
                "decompress" => asked.decompress = on,
                "compress" => asked.compress = on,
                "wait_end_of_query" => asked.wait_end = on,
                "user" => asked.user = value,
                "password" => asked.password = value,
                "enable_http_compression" => http_compression = Some(on),
                "client_protocol_version" => asked.protocol_version = value.parse().unwrap_or(0),
                "log_comment" => {} // carries the query id here, by which a query is stopped
                name if IGNORED.contains(&name) => {}
                _ => match name.strip_prefix("param_") {
                    Some(param) => asked.params.push((param.to_owned(), value)),
                    None => asked.settings.push((name, value)),
                },
            }
        }
        let plain = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if let Some((name, _)) = asked.settings.iter().find(|(name, _)| !plain(name)) {
            return Err(exception(
                115,
                "UNKNOWN_SETTING",
                &format!("Unknown setting '{name}'"),
            ));
        }
        let accepted = header("accept-encoding").unwrap_or_default();
        let wanted = http_compression.unwrap_or_else(|| ANSWER_ENCODINGS.contains(&accepted));
        if wanted && !asked.compress {
            let has = |name: &str| {
                accepted
                    .split(',')
                    .any(|one| one.split(';').next().unwrap_or_default().trim() == name)
            };
            asked.answer_encoding = ANSWER_ENCODINGS.iter().copied().find(|name| has(name));
        }
        Ok(asked)
    }

    /// Keeps `max_memory_usage` to at most `bytes`; 0, which means no bound, becomes that, too.
    pub(super) fn bound_memory(&mut self, bytes: u64) {
        let named = self.settings.iter_mut();
        for (_, value) in named.filter(|(name, _)| name == "max_memory_usage") {
            let asked = value.parse().ok().filter(|asked| *asked > 0);
            *value = asked
                .map_or(bytes, |asked: u64| asked.min(bytes))
                .to_string();
        }
    }
}

/// User and password of an `Authorization: Basic` header.
fn basic(value: &str) -> Option<(String, String)> {
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(value.strip_prefix("Basic ")?)
        .ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':')
        .map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// The boundary of a `multipart/form-data` body, from its content type.
pub fn boundary(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("content-type")?.to_str().ok()?;
    let rest = value.strip_prefix("multipart/form-data")?;
    let boundary = rest
        .split("boundary=")
        .nth(1)?
        .split(';')
        .next()?
        .trim_matches('"');
    (!boundary.is_empty()).then(|| boundary.to_owned())
}

/// The named fields of a multipart body; what is not one is passed over.
pub fn form_fields(body: &[u8], boundary: &str) -> Vec<(String, String)> {
    let body = String::from_utf8_lossy(body);
    let mut fields = Vec::new();
    for part in body.split(&format!("--{boundary}")) {
        let Some((head, value)) = part.split_once("\r\n\r\n") else {
            continue;
        };
        let Some(name) = head
            .split("name=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
        else {
            continue;
        };
        fields.push((
            name.to_owned(),
            value.strip_suffix("\r\n").unwrap_or(value).to_owned(),
        ));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str, headers: &[(&'static str, &str)]) -> Result<Asked, String> {
        let headers = headers
            .iter()
            .map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap()))
            .collect();
        Asked::read(&Method::GET, &uri.parse().unwrap(), &headers, Vec::new())
    }

    #[test]
    fn reserved_names_are_taken_out_and_the_rest_are_settings() {
        let asked = read(
            "/?query=SELECT+1&database=d&param_x=a%27b&max_threads=1&session_id=7&log_comment=z",
            &[],
        )
        .unwrap();
        assert_eq!(
            (asked.sql.as_str(), asked.database.as_deref()),
            ("SELECT 1", Some("d"))
        );
        assert_eq!(asked.params, [("x".to_owned(), "a'b".to_owned())]);
        assert_eq!(asked.settings, [("max_threads".to_owned(), "1".to_owned())]);
        assert!(asked.read_only);
    }

    #[test]
    fn a_setting_name_cannot_carry_sql() {
        let error = read("/?query=SELECT+1&max_threads%3D1,readonly=0", &[]).unwrap_err();
        assert!(error.contains("Code: 115"), "{error}");
    }

    #[test]
    fn credentials_come_in_three_ways() {
        let who = |asked: Asked| (asked.user, asked.password);
        let expected = ("me".to_owned(), "p:w".to_owned());
        assert_eq!(
            who(read("/", &[("authorization", "Basic bWU6cDp3")]).unwrap()),
            expected
        );
        assert_eq!(
            who(read(
                "/",
                &[("x-clickhouse-user", "me"), ("x-clickhouse-key", "p:w")]
            )
            .unwrap()),
            expected
        );
        assert_eq!(who(read("/?user=me&password=p:w", &[]).unwrap()), expected);
    }

    #[test]
    fn answers_are_packed_only_when_asked() {
        let encoding = |uri: &str, accept: &str| {
            read(uri, &[("accept-encoding", accept)])
                .unwrap()
                .answer_encoding
        };
        assert_eq!(encoding("/", "lz4"), Some("lz4"));
        assert_eq!(encoding("/", "gzip, deflate, zstd"), None);
        assert_eq!(
            encoding("/?enable_http_compression=1", "gzip, zstd;q=1"),
            Some("zstd")
        );
        assert_eq!(encoding("/?enable_http_compression=0", "lz4"), None);
    }

    #[test]
    fn multipart_fields_are_read_with_their_line_ends() {
        let body = "--B\r\nContent-Disposition: form-data; name=\"param_x\"\r\n\r\na\r\nb\r\n--B\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT 1\r\n--B--\r\n";
        let expected = [("param_x", "a\r\nb"), ("query", "SELECT 1")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(form_fields(body.as_bytes(), "B"), expected);
    }
}

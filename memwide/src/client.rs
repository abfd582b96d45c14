//! Client of the query service's HTTP API.

use memwide_service::tls::TLS;
use serde_json::Value;
use std::time::Duration;

/// No answer by then is a failure: longer than the service's own time limit for a query.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Largest answer taken, in bytes; the service bounds rows, this bounds memory.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Why a server gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing listens there, or it hung up.
    #[error(
        "no answer from {url}; is `memwide up` running there? Another server: --server URL or MEMWIDE_SERVER"
    )]
    Unreachable {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// Not an address at all.
    #[error("`{url}` is no URL of a server; write it as http://HOST:PORT")]
    NoUrl { url: String },
    /// It answered with a problem document.
    #[error("{title}: {detail}{}", remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
    Problem {
        status: u16,
        title: String,
        detail: String,
        remedy: Option<String>,
    },
    /// It answered with something else than JSON.
    #[error("{url} does not answer like a memwide query service (status {status})")]
    Foreign { url: String, status: u16 },
}

impl ClientError {
    /// True when the question itself is wrong, so that asking again cannot help.
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::NoUrl { .. } => true,
            Self::Problem { status, .. } => (400..500).contains(status),
            Self::Unreachable { .. } | Self::Foreign { .. } => false,
        }
    }
}

/// An answer in a format of another tool, and what is said beside it.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) body: Vec<u8>,
    pub(crate) completeness: Option<Value>,
    pub(crate) notes: Option<Vec<String>>,
    /// Its address on the page.
    pub(crate) page: Option<String>,
}

/// A query service.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: String,
    agent: ureq::Agent,
}

impl Client {
    /// `server` is a URL such as `http://127.0.0.1:7070`.
    pub(crate) fn new(server: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false);
        let config = if server.starts_with("https://") {
            config.tls_config(TLS.clone())
        } else {
            config
        };
        let config = config.build();
        Self {
            base: server.trim_end_matches('/').to_owned(),
            agent: config.into(),
        }
    }

    /// `GET /api/v1/<path>` with these parameters.
    pub(crate) fn get(
        &self,
        path: &str,
        params: &[(String, String)],
    ) -> Result<Value, ClientError> {
        self.answer(self.asked(path, params))
    }

    /// The address of an answer on the server's page.
    pub(crate) fn page(&self, answer: &Value) -> Option<String> {
        let page = answer.get("links")?.get("page")?.as_str()?;
        Some(format!("{}{page}", self.base))
    }

    /// `GET` of an answer in a format of another tool.
    pub(crate) fn export(
        &self,
        path: &str,
        params: &[(String, String)],
    ) -> Result<Exported, ClientError> {
        let mut response = self
            .asked(path, params)
            .map_err(|why| self.unanswered(why))?;
        if !response.status().is_success() {
            let document = read(&mut response);
            return Err(self.refused(response.status().as_u16(), document.as_ref()));
        }
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .map(|text| text.as_bytes().to_vec())
        };
        let completeness = header("memwide-completeness");
        let notes = header("memwide-notes");
        let page = header("memwide-page").and_then(|page| String::from_utf8(page).ok());
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        Ok(Exported {
            body: body.read_to_vec().map_err(|why| self.unanswered(why))?,
            completeness: completeness.and_then(|text| serde_json::from_slice(&text).ok()),
            page: page.map(|page| format!("{}{page}", self.base)),
            notes: notes.and_then(|text| serde_json::from_slice(&text).ok()),
        })
    }

    fn asked(
        &self,
        path: &str,
        params: &[(String, String)],
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let url = format!("{}/api/v1/{path}", self.base);
        let request = params
            .iter()
            .fold(self.agent.get(&url), |request, (name, value)| {
                request.query(name, value)
            });
        request.call()
    }

    fn unanswered(&self, source: ureq::Error) -> ClientError {
        match source {
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => ClientError::NoUrl {
                url: self.base.clone(),
            },
            source => ClientError::Unreachable {
                url: self.base.clone(),
                source: Box::new(source),
            },
        }
    }

    /// `POST /api/v1/<path>` with a JSON body.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        let url = format!("{}/api/v1/{path}", self.base);
        self.answer(self.agent.post(&url).send_json(body))
    }

    fn answer(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, ClientError> {
        let mut response = response.map_err(|source| self.unanswered(source))?;
        let document = read(&mut response);
        match document {
            Some(document) if response.status().is_success() => Ok(document),
            document => Err(self.refused(response.status().as_u16(), document.as_ref())),
        }
    }

    /// What an answer that is none says.
    fn refused(&self, status: u16, document: Option<&Value>) -> ClientError {
        let text = |key: &str| {
            document?
                .get(key)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        match text("title") {
            Some(title) => ClientError::Problem {
                status,
                title,
                detail: text("detail").unwrap_or_default(),
                remedy: text("remedy").filter(|remedy| !remedy.is_empty()),
            },
            None => ClientError::Foreign {
                url: self.base.clone(),
                status,
            },
        }
    }
}

/// The body as JSON, if it is that.
fn read(response: &mut ureq::http::Response<ureq::Body>) -> Option<Value> {
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    serde_json::from_slice(&body.read_to_vec().ok()?).ok()
}

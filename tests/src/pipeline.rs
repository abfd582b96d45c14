//! A running `memwide up`.

use crate::wait::{until, until_some};
use memwide_service::CancellationToken;
use memwide_simulator::Fleet;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// From the start of the process to `ready:`; slow machines under load included.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// A fleet's batches are committed within this.
const SENT_WITHIN: Duration = Duration::from_mins(2);

/// Committed rows become visible within a few seconds; slow machines under load included.
const VISIBLE_WITHIN: Duration = Duration::from_mins(1);

/// From SIGINT to the end.
const STOPPED_WITHIN: Duration = Duration::from_mins(1);

/// The `memwide` binary beside this test's.
pub fn memwide() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its file");
    let folder = test
        .ancestors()
        .nth(2)
        .map(Path::to_owned)
        .unwrap_or_default();
    let binary = folder.join("memwide");
    assert!(
        binary.exists(),
        "{} is missing: run the tests of the whole workspace, or `cargo build -p memwide` first",
        binary.display()
    );
    binary
}

/// Says why nothing that needs nats-server and the engine can run here; `None` when both are there.
pub fn tools_missing() -> Option<String> {
    let engine = memwide_store::tools::engine_library()
        .err()
        .map(|error| error.to_string());
    let nats = memwide_store::tools::nats_server()
        .err()
        .map(|error| error.to_string());
    let missing: Vec<String> = engine.into_iter().chain(nats).collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct UpOptions {
    /// Data folder to start on; a fresh one when not given.
    pub data: Option<PathBuf>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Further variables of its environment.
    pub env: Vec<(String, String)>,
}

/// A running `memwide up`; dropping it kills it.
#[derive(Debug)]
pub struct Up {
    child: Child,
    /// Base URL of the API.
    pub url: String,
    /// Its data folder.
    pub data: PathBuf,
    output: Arc<Mutex<String>>,
    _fresh: Option<tempfile::TempDir>,
}

impl Up {
    /// Starts it on ports of its own and waits until it says `ready:`.
    pub fn start(options: &UpOptions) -> Self {
        let fresh = options
            .data
            .is_none()
            .then(|| tempfile::tempdir().expect("a temporary folder"));
        let data = options
            .data
            .clone()
            .or_else(|| fresh.as_ref().map(|dir| dir.path().to_owned()));
        let data = data.unwrap_or_default();
        let mut child = Command::new(memwide())
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--ingest",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(&data)
            .args(&options.args)
            .envs(options.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("memwide starts");
        let output = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take(), &output);
        collect(child.stderr.take(), &output);
        let start = Instant::now();
        let url = loop {
            let text = said(&output);
            if let Some(url) = text.lines().find_map(|line| line.strip_prefix("ready: ")) {
                break url.trim().trim_end_matches('/').to_owned();
            }
            let ended = child.try_wait().expect("memwide can be waited for");
            assert!(ended.is_none(), "memwide up ended with {ended:?}:\n{text}");
            if start.elapsed() > READY_WITHIN {
                crate::kill_9(child.id());
                panic!(
                    "memwide up was not ready within {READY_WITHIN:?}:\n{}",
                    said(&output)
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        Self {
            child,
            url,
            data,
            output,
            _fresh: fresh,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far, stdout and stderr.
    pub fn said(&self) -> String {
        said(&self.output)
    }

    /// `GET /api/v1/<path>`.
    pub fn get(&self, path: &str) -> Value {
        let url = format!("{}/api/v1/{path}", self.url);
        let mut response = ureq::get(&url)
            .call()
            .unwrap_or_else(|error| panic!("{url}: {error}"));
        response.body_mut().read_json().expect("JSON")
    }

    /// What `/metrics` says.
    pub fn metrics(&self) -> String {
        let url = format!("{}/metrics", self.url);
        let answer = ureq::get(&url).call();
        let mut answer = answer.unwrap_or_else(|error| panic!("{url}: {error}"));
        answer.body_mut().read_to_string().expect("text")
    }

    /// Rows of a query through the guarded SQL endpoint.
    pub fn sql(&self, query: &str) -> Vec<Vec<Value>> {
        self.try_sql(query)
            .unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// As [`Up::sql`], for moments when the store may be away.
    pub fn try_sql(&self, query: &str) -> Result<Vec<Vec<Value>>, String> {
        let url = format!("{}/api/v1/sql", self.url);
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let body = serde_json::json!({"query": query, "format": "json"});
        let mut response = agent
            .post(&url)
            .send_json(&body)
            .map_err(|error| error.to_string())?;
        let status = response.status();
        let answer: Value = response
            .body_mut()
            .read_json()
            .map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(answer.to_string());
        }
        let rows = answer["rows"].as_array().cloned().unwrap_or_default();
        Ok(rows
            .into_iter()
            .map(|row| row.as_array().cloned().unwrap_or_default())
            .collect())
    }

    /// Where collectors connect.
    pub fn ingest(&self) -> String {
        let status = self.get("status");
        let address = status["ingest_address"].as_str().unwrap_or_default();
        if address.contains("://") {
            address.to_owned()
        } else {
            format!("http://{address}")
        }
    }

    /// Sends so many ticks of a fleet, until all batches are committed.
    pub fn send(&self, fleet: &Fleet, ticks: u64) {
        let endpoint = self.ingest();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let sent = runtime.block_on(async {
            let sending = fleet.send(&endpoint, ticks, CancellationToken::new());
            tokio::time::timeout(SENT_WITHIN, sending).await
        });
        sent.expect("all batches are committed in time")
            .expect("the fleet sends");
    }

    /// Waits until so many samples are rows. A block's ledger is inserted last: what it counts is in every table.
    pub fn wait_for(&self, samples: u64) {
        until("all samples are rows", VISIBLE_WITHIN, || {
            self.try_number("select sum(records) from ledger_1m where reason = 'stored'")
                .is_ok_and(|rows| rows >= samples)
        });
    }

    /// The single number a query gives; 0 when it gives none.
    pub fn number(&self, query: &str) -> u64 {
        self.try_number(query)
            .unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// As [`Up::number`], for moments when the store may be away.
    pub fn try_number(&self, query: &str) -> Result<u64, String> {
        let rows = self.try_sql(query)?;
        let cell = rows
            .first()
            .and_then(|row| row.first())
            .cloned()
            .unwrap_or_default();
        // Sums of whole numbers may come as text or as a float.
        let text = cell
            .as_str()
            .map_or_else(|| cell.to_string(), str::to_owned);
        Ok(text.trim_end_matches(".0").parse().unwrap_or(0))
    }

    /// Sends SIGINT and waits for the end.
    pub fn interrupt(mut self) -> (ExitStatus, String) {
        let pid = self.child.id();
        let sent = Command::new("kill")
            .args(["-INT", &pid.to_string()])
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "cannot interrupt {pid}"
        );
        let child = &mut self.child;
        let status = until_some("memwide up stops after SIGINT", STOPPED_WITHIN, || {
            child.try_wait().expect("memwide can be waited for")
        });
        (status, said(&self.output))
    }

    /// Ends it the hard way and waits until it is gone.
    pub fn kill(&mut self) {
        crate::kill_9(self.child.id());
        let ended = self.child.wait();
        assert!(ended.is_ok(), "{ended:?}");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Already gone is fine.
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn said(output: &Mutex<String>) -> String {
    output.lock().map(|text| text.clone()).unwrap_or_default()
}

fn collect(stream: Option<impl std::io::Read + Send + 'static>, output: &Arc<Mutex<String>>) {
    let Some(stream) = stream else { return };
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Ok(mut text) = output.lock() {
                text.push_str(&line);
                text.push('\n');
            }
        }
    });
}

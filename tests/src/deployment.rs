//! Every service as a process of its own, as deployed: nats-server, the engine, aggregators, sink, decoders, query.

use crate::processes::Running;
use memwide_store::{engine, tools};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A service is ready again within this, on slow machines under load too.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// Passwords of the engine's users; it listens on loopback and lives as long as a test.
const PASSWORD: &str = "faults";

/// The partitions of the stream.
const PARTITIONS: u16 = 4;

/// How a service is started, again and again.
#[derive(Debug, Clone)]
struct Recipe {
    program: PathBuf,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    /// Where it tells whether it is ready; `None`: when its port answers.
    admin: Option<u16>,
    port: u16,
}

/// The services; dropping it kills them.
#[derive(Debug)]
pub struct Deployment {
    recipes: BTreeMap<String, Recipe>,
    running: BTreeMap<String, Running>,
    engine: u16,
    folder: tempfile::TempDir,
    stream: Option<tempfile::TempDir>,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Deployment {
    /// Starts nats-server, the engine, `aggregator-1`, `sink-1`, `decoder-1`, `decoder-2` and `query`, and waits for all.
    pub fn start() -> Self {
        let stream = tempfile::tempdir().unwrap();
        let mut deployment = Self::start_with_stream_in(stream.path());
        deployment.stream = Some(stream);
        deployment
    }

    /// The same with the stream's files in a folder of the caller's.
    pub fn start_with_stream_in(stream: &Path) -> Self {
        let mut deployment = Self {
            recipes: BTreeMap::new(),
            running: BTreeMap::new(),
            engine: free_port(),
            folder: tempfile::tempdir().unwrap(),
            stream: None,
        };
        deployment.plan_servers(stream);
        let nats = deployment.recipes["nats"].port;
        let nats = format!("[nats]\nurl = \"nats://127.0.0.1:{nats}\"\ntoken = \"{PASSWORD}\"\n");
        for name in ["aggregator-1", "aggregator-2"] {
            let text = format!("partitions = {PARTITIONS}\nflush_after_ms = 300\n{nats}");
            deployment.plan(name, "aggregator", &text);
        }
        for name in ["sink-1", "sink-2"] {
            let store = deployment.store_url(engine::WRITER);
            // Hours close every few seconds, so that schedules meet closes too.
            let text = format!(
                "store = \"{store}\"\npartitions = {PARTITIONS}\nblock_wait_ms = 200\nclose_every_s = 3\n{nats}"
            );
            deployment.plan(name, "sink", &text);
        }
        for name in ["decoder-1", "decoder-2"] {
            deployment.plan(name, "decoder", "");
            deployment.lead_to(name, "aggregator-1");
        }
        let store = deployment.store_url(engine::READER);
        deployment.plan("query", "query", &format!("store = \"{store}\"\n"));
        for name in Self::SERVICES {
            deployment.run(name);
            if name == "engine" {
                deployment.wait_ready("engine");
            }
        }
        for name in Self::SERVICES {
            deployment.wait_ready(name);
        }
        deployment
    }

    /// What runs unless something has been done to it.
    pub const SERVICES: [&str; 7] = [
        "nats",
        "engine",
        "aggregator-1",
        "sink-1",
        "decoder-1",
        "decoder-2",
        "query",
    ];

    /// Starts a collector of this machine, `collector`, as the host `live`, with a spool that keeps little. False where
    /// nothing can be collected.
    pub fn collect(&mut self) -> bool {
        let text = format!(
            "endpoint = \"{}\"\nhost = \"live\"\n[spool]\ndir = '{}'\nmax_bytes = 1_048_576\n\
             [[events]]\nname = \"minor-faults\"\nperiod = 211\n",
            self.endpoint("decoder-2"),
            self.make("spool").display()
        );
        self.plan("collector", "collector", &text);
        self.run("collector");
        let begin = Instant::now();
        while self.readiness("collector").is_err() {
            let over = begin.elapsed() > READY_WITHIN || self.ended("collector").is_some();
            if over {
                self.recipes.remove("collector");
                self.kill("collector");
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        true
    }

    /// Whether this machine is collected.
    pub fn collects(&self) -> bool {
        self.recipes.contains_key("collector")
    }

    /// Its folder: logs, spools.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn make(&self, name: &str) -> PathBuf {
        let folder = self.folder().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn plan_servers(&mut self, stream: &Path) {
        let port = free_port();
        let config = self.folder().join("nats.conf");
        let text = memwide_aggregator::server_config(port, stream, &self.make("ports"), PASSWORD);
        std::fs::write(&config, text).unwrap();
        let nats = Recipe {
            program: tools::nats_server().unwrap(),
            args: vec!["--config".to_owned(), config.display().to_string()],
            variables: Vec::new(),
            admin: None,
            port,
        };
        self.recipes.insert("nats".to_owned(), nats);
        let text = format!(
            "library = '{}'\ndata = '{}'\nport = {}\n",
            tools::engine_library().unwrap().display(),
            self.make("store").display(),
            self.engine
        );
        let config = self.folder().join("engine.toml");
        std::fs::write(&config, text).unwrap();
        let variable = |name: &str| (name.to_owned(), PASSWORD.to_owned());
        let engine = Recipe {
            program: crate::memwide(),
            args: ["store", "--config", &config.display().to_string()]
                .map(str::to_owned)
                .to_vec(),
            variables: vec![
                variable(engine::WRITER_PASSWORD),
                variable(engine::READER_PASSWORD),
            ],
            admin: None,
            port: self.engine,
        };
        self.recipes.insert("engine".to_owned(), engine);
    }

    fn plan(&mut self, name: &str, role: &str, more: &str) {
        let (port, admin) = (free_port(), free_port());
        let config = self.folder().join(format!("{name}.toml"));
        let text = format!("listen = \"127.0.0.1:{port}\"\nadmin = \"127.0.0.1:{admin}\"\n{more}");
        std::fs::write(&config, text).unwrap();
        let recipe = Recipe {
            program: crate::memwide(),
            args: [role, "--config", &config.display().to_string()]
                .map(str::to_owned)
                .to_vec(),
            variables: Vec::new(),
            admin: Some(admin),
            port,
        };
        self.recipes.insert(name.to_owned(), recipe);
    }

    /// From its next start on, a decoder sends to this aggregator.
    pub fn lead_to(&mut self, decoder: &str, aggregator: &str) {
        let (listen, admin) = {
            let recipe = &self.recipes[decoder];
            (recipe.port, recipe.admin.unwrap_or_default())
        };
        let to = self.recipes[aggregator].port;
        let text = format!(
            "listen = \"127.0.0.1:{listen}\"\nadmin = \"127.0.0.1:{admin}\"\npartitions = {PARTITIONS}\n\
             aggregators = [\"http://127.0.0.1:{to}\"]\nsymbol_dir = '{}'\n",
            self.make("symbols").display()
        );
        std::fs::write(self.folder().join(format!("{decoder}.toml")), text).unwrap();
    }

    fn store_url(&self, user: &str) -> String {
        let (port, database) = (self.engine, memwide_store::DEFAULT_DATABASE);
        format!("http://{user}:{PASSWORD}@127.0.0.1:{port}/{database}")
    }

    /// Where collectors of a decoder connect.
    pub fn endpoint(&self, decoder: &str) -> String {
        format!("http://127.0.0.1:{}", self.recipes[decoder].port)
    }

    /// File with everything a service has said.
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.log"))
    }

    fn log_file(&self, name: &str) -> File {
        let mut options = OpenOptions::new();
        options
            .create(true)
            .append(true)
            .open(self.log(name))
            .unwrap()
    }

    /// Starts a service (again).
    pub fn run(&mut self, name: &str) {
        let recipe = self.recipes[name].clone();
        let mut command = Command::new(&recipe.program);
        command.args(&recipe.args).envs(recipe.variables);
        self.spawn(name, &mut command);
    }

    /// Starts any process under a name; an earlier one of the name is killed.
    pub fn spawn(&mut self, name: &str, command: &mut Command) {
        self.running.remove(name);
        // Variables of the tests are no configuration of services.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("MEMWIDE_")) {
            if !command.get_envs().any(|(set, _)| set == name) {
                command.env_remove(name);
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(self.log_file(name))
            .stderr(self.log_file(name))
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        self.running.insert(name.to_owned(), Running(child));
    }

    /// Sends a process of this deployment a signal; false when it is not running.
    pub fn signal(&mut self, name: &str, signal: &str) -> bool {
        let Some(running) = self.running.get_mut(name) else {
            return false;
        };
        if !matches!(running.0.try_wait(), Ok(None)) {
            return false;
        }
        let pid = running.0.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &pid])
            .status();
        sent.is_ok_and(|status| status.success())
    }

    /// Ends a process the hard way.
    pub fn kill(&mut self, name: &str) {
        self.running.remove(name);
    }

    /// How a process ended; `None` while it runs.
    pub fn ended(&mut self, name: &str) -> Option<bool> {
        let running = self.running.get_mut(name)?;
        let status = running.0.try_wait().unwrap()?;
        Some(status.success())
    }

    /// Services that have ended by themselves.
    pub fn died(&mut self) -> Vec<String> {
        let names: Vec<String> = self.recipes.keys().cloned().collect();
        names
            .into_iter()
            .filter(|name| self.ended(name).is_some())
            .collect()
    }

    /// What `/readyz` of a service says: its status and text.
    pub fn readiness(&self, name: &str) -> Result<String, String> {
        let recipe = &self.recipes[name];
        let Some(admin) = recipe.admin else {
            let address = (Ipv4Addr::LOCALHOST, recipe.port).into();
            let answers = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
            return answers
                .map(|_| String::new())
                .map_err(|error| error.to_string());
        };
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(5)))
            .build()
            .into();
        let url = format!("http://127.0.0.1:{admin}/readyz");
        let mut answer = agent.get(&url).call().map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        if answer.status().is_success() {
            Ok(text)
        } else {
            Err(text)
        }
    }

    /// Waits until a service says that it is ready.
    pub fn wait_ready(&mut self, name: &str) {
        let begin = Instant::now();
        while let Err(why) = self.readiness(name) {
            let over = begin.elapsed() > READY_WITHIN || self.ended(name).is_some();
            assert!(!over, "{name}: {why}\n{}", self.last_words(name));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The end of a service's log.
    pub fn last_words(&self, name: &str) -> String {
        let text = std::fs::read(self.log(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    /// Rows of a statement, asked of the engine itself.
    pub fn sql(&self, query: &str) -> Result<Vec<Vec<String>>, String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .into();
        let (port, database) = (self.engine, memwide_store::DEFAULT_DATABASE);
        let url = format!("http://127.0.0.1:{port}/?database={database}");
        let mut answer = agent
            .post(&url)
            .header("X-ClickHouse-User", engine::WRITER)
            .header("X-ClickHouse-Key", PASSWORD)
            .send(format!("{query} FORMAT TabSeparated"))
            .map_err(|error| error.to_string())?;
        let text = answer
            .body_mut()
            .read_to_string()
            .map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(text);
        }
        let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
        Ok(text.lines().map(cells).collect())
    }
}

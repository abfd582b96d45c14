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

/// What is not as usual in a deployment.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Where the stream's files are; not set: in the deployment's folder.
    pub stream: Option<PathBuf>,
    /// Bytes of rows that may wait in the stream, and as many in each aggregator.
    pub waiting_bytes: Option<u64>,
    /// Three servers of NATS, each with a copy of everything.
    pub three_nats: bool,
    /// Where decoders keep tables of symbols, and the variables that lead there; not set: a folder of the deployment.
    pub symbols: Option<(String, Vec<(String, String)>)>,
    /// Flushes, blocks and closes as often as deployed; not set: many times as often, so that short tests meet all of them.
    pub usual_pace: bool,
}

/// The services; dropping it kills them.
#[derive(Debug)]
pub struct Deployment {
    recipes: BTreeMap<String, Recipe>,
    running: BTreeMap<String, Running>,
    engine: u16,
    /// Where the only server of NATS says whether it is well.
    nats_monitor: u16,
    /// Where decoders keep tables of symbols.
    symbols: String,
    folder: tempfile::TempDir,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Deployment {
    /// Starts nats-server, the engine, `aggregator-1`, `sink-1`, `decoder-1`, `decoder-2` and `query`, and waits for all.
    pub fn start() -> Self {
        Self::start_with(&Setup::default())
    }

    /// The same, but for what is set.
    pub fn start_with(setup: &Setup) -> Self {
        let mut deployment = Self {
            recipes: BTreeMap::new(),
            running: BTreeMap::new(),
            engine: free_port(),
            nats_monitor: free_port(),
            symbols: String::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        let (symbols, variables) = setup.symbols.clone().unwrap_or_default();
        deployment.symbols = if symbols.is_empty() {
            deployment.make("symbols").display().to_string()
        } else {
            symbols
        };
        deployment.plan_nats(setup);
        deployment.plan_engine();
        let urls: Vec<String> = deployment
            .nats_servers()
            .iter()
            .map(|name| format!("nats://127.0.0.1:{}", deployment.recipes[name].port))
            .collect();
        let (urls, replicas) = (urls.join(","), urls.len());
        let mut nats =
            format!("[nats]\nurl = \"{urls}\"\nreplicas = {replicas}\ntoken = \"{PASSWORD}\"\n");
        let mut pending = String::new();
        if let Some(bytes) = setup.waiting_bytes {
            nats += &format!("stream_bytes_max = {bytes}\n");
            pending = format!("pending_bytes_max = {bytes}\n");
        }
        let pace = |fast: &'static str| if setup.usual_pace { "" } else { fast };
        for name in ["aggregator-1", "aggregator-2"] {
            let fast = pace("flush_after_ms = 300\n");
            deployment.plan(
                name,
                "aggregator",
                &format!("partitions = {PARTITIONS}\n{pending}{fast}{nats}"),
            );
        }
        for name in ["sink-1", "sink-2"] {
            let store = deployment.store_url(engine::WRITER);
            let fast = pace("block_wait_ms = 200\nclose_every_s = 3\n");
            let text = format!("store = \"{store}\"\npartitions = {PARTITIONS}\n{fast}{nats}");
            deployment.plan(name, "sink", &text);
        }
        deployment.tell_collectors("version = 1\n");
        for name in ["decoder-1", "decoder-2"] {
            deployment.plan(name, "decoder", "");
            deployment.lead_to(name, "aggregator-1");
            if let Some(recipe) = deployment.recipes.get_mut(name) {
                recipe.variables.clone_from(&variables);
            }
        }
        let store = deployment.store_url(engine::READER);
        deployment.plan("query", "query", &format!("store = \"{store}\"\n"));
        for name in deployment.nats_servers() {
            deployment.run(&name);
        }
        deployment.run("engine");
        deployment.wait_ready("engine");
        for name in Self::SERVICES {
            if !matches!(name, "nats" | "engine") {
                deployment.run(name);
            }
        }
        for name in Self::SERVICES {
            deployment.wait_ready(name);
        }
        deployment
    }

    /// Names of the servers of NATS.
    pub fn nats_servers(&self) -> Vec<String> {
        let names = self.recipes.keys().filter(|name| name.starts_with("nats"));
        names.cloned().collect()
    }

    /// Where clients of NATS connect, and with which token.
    pub fn nats(&self) -> (String, &'static str) {
        let servers = self.nats_servers();
        let ports = servers.iter().map(|name| self.recipes[name].port);
        let urls: Vec<String> = ports
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        (urls.join(","), PASSWORD)
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

    fn plan_nats(&mut self, setup: &Setup) {
        let names: &[&str] = if setup.three_nats {
            &["nats", "nats-2", "nats-3"]
        } else {
            &["nats"]
        };
        let routes: Vec<u16> = names.iter().map(|_| free_port()).collect();
        for (name, route) in names.iter().zip(&routes) {
            let port = free_port();
            let config = self.folder().join(format!("{name}.conf"));
            let stream = setup
                .stream
                .clone()
                .unwrap_or_else(|| self.make(&format!("{name}-stream")));
            let ports = self.make(&format!("{name}-ports"));
            let mut text = memwide_aggregator::server_config(
                port,
                if setup.three_nats {
                    0
                } else {
                    self.nats_monitor
                },
                &stream,
                &ports,
                PASSWORD,
            );
            if setup.three_nats {
                let all: Vec<String> = routes
                    .iter()
                    .map(|route| format!("\"nats://127.0.0.1:{route}\""))
                    .collect();
                text = text.replace("server_name: memwide", &format!("server_name: {name}"));
                text += &format!(
                    "cluster {{ name: memwide, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
                    all.join(", ")
                );
            }
            std::fs::write(&config, text).unwrap();
            let recipe = Recipe {
                program: tools::nats_server().unwrap(),
                args: vec!["--config".to_owned(), config.display().to_string()],
                variables: Vec::new(),
                admin: None,
                port,
            };
            self.recipes.insert((*name).to_owned(), recipe);
        }
    }

    fn plan_engine(&mut self) {
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
             aggregators = [\"http://127.0.0.1:{to}\"]\nsymbol_dir = '{}'\ncollectors_file = '{}'\n",
            self.symbols,
            self.collectors_file().display()
        );
        std::fs::write(self.folder().join(format!("{decoder}.toml")), text).unwrap();
    }

    fn collectors_file(&self) -> PathBuf {
        self.folder().join("collectors.toml")
    }

    /// What decoders tell collectors from now on; nothing but `version = 1` at the start.
    pub fn tell_collectors(&self, settings: &str) {
        let new = self.folder().join("collectors.new");
        std::fs::write(&new, settings).unwrap();
        std::fs::rename(&new, self.collectors_file()).unwrap();
    }

    /// URL of the store for one of its users, password included.
    pub fn store_url(&self, user: &str) -> String {
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

    /// From its next start on a service has these variables too.
    pub fn set_variables(&mut self, name: &str, variables: &[(&str, String)]) {
        let recipe = self.recipes.get_mut(name).unwrap();
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        recipe.variables.extend(owned);
    }

    /// Starts a service anew with further keys, and waits for it.
    pub fn configure(&mut self, name: &str, more: &str) {
        let config = self.folder().join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&config).unwrap();
        // Before the first table, if there is one.
        std::fs::write(&config, format!("{more}\n{text}")).unwrap();
        self.run(name);
        self.wait_ready(name);
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

    /// Starts the server of NATS again when it says that something is wrong with it, as a liveness probe does; whether it did.
    pub fn look_after_nats(&mut self) -> bool {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let trouble = runtime.block_on(memwide_aggregator::server_trouble(self.nats_monitor));
        if let Some(why) = &trouble {
            eprintln!("nats-server is started again: {why}");
            self.run("nats");
        }
        trouble.is_some()
    }

    /// Memory that a process has resident now, in MiB; 0 when it does not run.
    pub fn memory_mib(&self, name: &str) -> u64 {
        let pid = self.running.get(name).map_or(0, |running| running.0.id());
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.unwrap_or(0) >> 10
    }

    /// Seconds of CPU that a process has taken so far, user and system.
    pub fn cpu_seconds(&self, name: &str) -> f64 {
        let pid = self.running.get(name).map_or(0, |running| running.0.id());
        crate::measured::cpu_of(pid)
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
        self.sql_in(memwide_store::DEFAULT_DATABASE, query)
    }

    /// The same from another database.
    pub fn sql_in(&self, database: &str, query: &str) -> Result<Vec<Vec<String>>, String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .into();
        let url = format!("http://127.0.0.1:{}/?database={database}", self.engine);
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

//! nats-server and the engine: started, watched, restarted, stopped last.
//!
//! Ports and passwords are chosen once and stay for the life of `up`, so a restarted child is found where it was.

use super::place::Place;
use super::stages::Stages;
use anyhow::{Context as _, bail};
use memwide_aggregator::NatsConfig;
use memwide_service::child::{Policy, Spec, Supervisor, always_well, supervise};
use memwide_service::config::Secret;
use memwide_store::engine::{self, ChildOptions, EngineOptions, Passwords};
use memwide_store::{Store, tools};
use std::net::{Ipv4Addr, TcpListener};

/// Which store is used.
#[derive(Debug)]
enum StoreAt {
    /// The child.
    Engine { url: String, passwords: Passwords },
    /// Somebody else's ClickHouse.
    External(String),
}

/// The running children.
#[derive(Debug)]
pub(crate) struct Children {
    nats: Supervisor,
    engine: Option<Supervisor>,
    nats_url: String,
    nats_token: String,
    store: StoreAt,
}

impl Children {
    /// Starts both; [`Children::ready`] waits for them.
    /// Without `external`, a ClickHouse, the store is a child.
    pub(crate) fn start(
        external: Option<&str>,
        place: &Place,
        stages: &mut Stages,
    ) -> anyhow::Result<Self> {
        // Both programs are looked for before either starts: one message names all that is missing.
        let server = tools::nats_server();
        let library = if external.is_none() {
            tools::engine_library().map(Some)
        } else {
            Ok(None)
        };
        let (server, library) = match (server, library) {
            (Ok(server), Ok(library)) => (server, library),
            (Err(one), Err(two)) => bail!("{one}; {two}"),
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error.into()),
        };

        let (nats_port, monitor) = (free_port()?, free_port()?);
        let nats_token = memwide_service::random::text().context("cannot read /dev/urandom")?;
        let config = place.root().join("nats.conf");
        let text = memwide_aggregator::server_config(
            nats_port,
            monitor,
            &place.stream(),
            &place.ports(),
            &nats_token,
        );
        write_private(&config, &text)?;
        let nats = stages.child("nats-server", |stop| {
            let spec = move |_| {
                Spec::new("nats-server", &server)
                    .args(["--config".into(), config.clone()])
                    .remedy("run `make tools`, or set MEMWIDE_NATS_SERVER")
            };
            let ready = move |_| async move {
                tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, nats_port))
                    .await
                    .is_ok()
            };
            let unwell = move |_| memwide_aggregator::server_trouble(monitor);
            supervise(spec, ready, unwell, Policy::default(), stop)
        });

        let mut children = Self {
            nats,
            engine: None,
            nats_url: format!("nats://127.0.0.1:{nats_port}"),
            nats_token,
            store: StoreAt::External(external.unwrap_or_default().to_owned()),
        };
        if let Some(library) = library {
            children.start_engine(library, place, stages)?;
        }
        Ok(children)
    }

    fn start_engine(
        &mut self,
        library: std::path::PathBuf,
        place: &Place,
        stages: &mut Stages,
    ) -> anyhow::Result<()> {
        let port = free_port()?;
        let passwords = Passwords::random()?;
        let options = ChildOptions {
            program: std::env::current_exe().context("cannot find this program's own file")?,
            args: vec!["store-engine".into()],
            engine: EngineOptions {
                library,
                data: place.engine(),
                port,
                databases: vec![place.database().to_owned()],
                ..EngineOptions::default()
            },
        };
        let url = format!("http://127.0.0.1:{port}");
        let store = Store::connect(&url, engine::WRITER, &passwords.writer, place.database())?;
        let spec = options.spec(&passwords)?;
        self.engine = Some(stages.child("engine", |stop| {
            let spec = move |_| spec.clone();
            let ready = move |_| {
                let store = store.clone();
                async move { store.ping().await.is_ok() }
            };
            supervise(spec, ready, always_well, Policy::default(), stop)
        }));
        self.store = StoreAt::Engine { url, passwords };
        Ok(())
    }

    /// Waits until both answer.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        for (name, child) in [
            ("nats-server", Some(&self.nats)),
            ("the engine", self.engine.as_ref()),
        ] {
            let Some(child) = child else { continue };
            if child.ready().await.is_none() {
                bail!("{name} did not start; its last words are above");
            }
        }
        Ok(())
    }

    /// The children by name.
    pub(crate) fn supervisors(&self) -> impl Iterator<Item = (&'static str, &Supervisor)> {
        let engine = self.engine.iter().map(|engine| ("engine", engine));
        std::iter::once(("nats-server", &self.nats)).chain(engine)
    }

    /// Where the stream is.
    pub(crate) fn nats(&self) -> NatsConfig {
        NatsConfig {
            url: self.nats_url.clone(),
            token: Secret::new(self.nats_token.clone()),
            ..NatsConfig::default()
        }
    }

    /// The writer's view of the store.
    pub(crate) fn store(&self, database: &str) -> anyhow::Result<Store> {
        Ok(match &self.store {
            StoreAt::Engine { url, passwords } => {
                Store::connect(url, engine::WRITER, &passwords.writer, database)?
            }
            StoreAt::External(url) => Store::from_url(url)?,
        })
    }

    /// URL of the store for its writer, password included.
    pub(crate) fn writer_url(&self, database: &str) -> Secret {
        self.url_of(engine::WRITER, database)
    }

    /// URL of the store for questions, password included.
    pub(crate) fn reader_url(&self, database: &str) -> Secret {
        self.url_of(engine::READER, database)
    }

    fn url_of(&self, user: &str, database: &str) -> Secret {
        match &self.store {
            StoreAt::Engine { url, passwords } => {
                let password = if user == engine::READER {
                    &passwords.reader
                } else {
                    &passwords.writer
                };
                let address = url.trim_start_matches("http://");
                Secret::new(format!("http://{user}:{password}@{address}/{database}"))
            }
            StoreAt::External(url) => Secret::new(url.clone()),
        }
    }
}

/// A port nobody listens on now; the child takes it a moment later and would say so if somebody were faster.
fn free_port() -> anyhow::Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// A file that only its owner can read: it holds the token.
fn write_private(path: &std::path::Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

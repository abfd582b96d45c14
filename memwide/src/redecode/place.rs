//! Where archive, symbols, stream and store are.

use crate::cli::RedecodeArgs;
use crate::command::role::loader;
use crate::failure::Failure;
use crate::up::{Children, Place, Stages};
use anyhow::Context as _;
use memwide_aggregator::{NatsConfig, Sinks};
use memwide_decoder::Redecoder;
use memwide_decoder::archive::{self, Key};
use memwide_service::config::Secret;
use memwide_store::Store;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The keys of a deployment, called as in the files of its services.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    store: Secret,
    symbol_dir: PathBuf,
    archive_dir: PathBuf,
    archive_url: PathBuf,
    archive_key_file: PathBuf,
    nats: NatsConfig,
}

impl Config {
    /// Where closed files are: with a URL they only wait in the folder.
    fn archive(&self) -> &Path {
        if self.archive_url.as_os_str().is_empty() {
            &self.archive_dir
        } else {
            &self.archive_url
        }
    }
}

/// Found, not reached yet.
#[derive(Debug)]
pub(crate) enum Where {
    /// The data folder of `memwide up`, held.
    Data(Place, Option<PathBuf>),
    /// A deployment.
    Services(Box<Services>),
}

/// What a deployment's file says.
#[derive(Debug)]
pub(crate) struct Services(Config);

/// Everything that is needed, at hand.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) store: Store,
    pub(crate) sinks: Sinks,
    pub(crate) archive: Arc<archive::Place>,
    pub(crate) symbols: PathBuf,
    pub(crate) key: Option<Key>,
    /// Children that end with it.
    pub(crate) stages: Stages,
}

impl Where {
    pub(crate) fn find(args: &RedecodeArgs) -> Result<Self, Failure> {
        if let Some(data) = &args.data {
            if !data.join("store").is_dir() {
                return Err(Failure::usage(anyhow::anyhow!(
                    "{} is no data folder of `memwide up`; name that of its --data",
                    data.display()
                )));
            }
            return Ok(Self::Data(Place::prepare(Some(data))?, args.key.clone()));
        }
        let loaded = loader::<Config>(args.config.as_deref()).load();
        let mut config = loaded.map_err(Failure::usage)?.value;
        if let Some(key) = &args.key {
            config.archive_key_file.clone_from(key);
        }
        let missing = [
            ("store", config.store.expose().is_none()),
            ("symbol_dir", config.symbol_dir.as_os_str().is_empty()),
            (
                "archive_dir` or `archive_url",
                config.archive().as_os_str().is_empty(),
            ),
        ];
        if let Some((key, _)) = missing.iter().find(|(_, missing)| *missing) {
            return Err(Failure::usage(anyhow::anyhow!(
                "`{key}` is not set in the configuration; give it as the services have it (`memwide redecode --help`)"
            )));
        }
        Ok(Self::Services(Box::new(Services(config))))
    }

    /// Reaches all of it; of a data folder the children are started.
    pub(crate) async fn reach(&self) -> Result<At, Failure> {
        match self {
            Self::Data(place, key) => {
                let mut stages = Stages::default();
                let children = Children::start(None, place, &mut stages)?;
                children.ready().await?;
                Ok(At {
                    store: children.store(place.database())?,
                    sinks: Sinks::find(&children.nats()).await?,
                    archive: opened(&place.archive())?,
                    symbols: place.symbols(),
                    key: read_key(key.as_deref().unwrap_or(Path::new("")))?,
                    stages,
                })
            }
            Self::Services(services) => {
                let Services(config) = &**services;
                Ok(At {
                    store: Store::from_url(config.store.expose().unwrap_or_default())?,
                    sinks: Sinks::find(&config.nats).await?,
                    archive: opened(config.archive())?,
                    symbols: config.symbol_dir.clone(),
                    key: read_key(&config.archive_key_file)?,
                    stages: Stages::default(),
                })
            }
        }
    }
}

fn opened(archive: &Path) -> Result<Arc<archive::Place>, Failure> {
    let opened = archive::Place::open(archive).map_err(Failure::usage)?;
    Ok(Arc::new(opened))
}

fn read_key(file: &Path) -> Result<Option<Key>, Failure> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    Key::read(file).map(Some).map_err(Failure::usage)
}

impl At {
    /// What decodes.
    pub(crate) fn redecoder(&self) -> anyhow::Result<Redecoder> {
        Redecoder::new(&self.symbols, self.key.clone()).context("cannot decode again")
    }
}

//! Two decoders on one shelf of symbols, killed at once again and again while tables are on their way: all is named in the
//! end, and what was torn names nothing.

use crate::cases::{SOON, skip};
use memwide_service::CancellationToken;
use memwide_simulator::Fleet;
use memwide_tests::s3::{BUCKET, S3};
use memwide_tests::{Deployment, Setup, until};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Between starts and kills of both decoders: before any table, amid the first, and later.
const PAUSES_MS: [u64; 5] = [350, 700, 1_100, 2_000, 1_500];

/// Time that the hosts send for, in ticks of a second.
const TICKS: u64 = 12;

/// What the names of objects begin with.
const START: &str = "shelf/";

/// What is on the shelf, wherever that is.
trait Shelf {
    fn all(&self) -> BTreeMap<String, Vec<u8>>;
    fn put(&self, name: &str, bytes: &[u8]);
}

impl Shelf for PathBuf {
    fn all(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, std::fs::read(entry.path()).ok()?))
        });
        files.collect()
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.join(name), bytes).unwrap();
    }
}

impl Shelf for S3 {
    fn all(&self) -> BTreeMap<String, Vec<u8>> {
        let objects = self.objects().into_iter();
        let named = objects.filter_map(|(key, bytes)| {
            let name = key.strip_prefix(START)?;
            Some((name.to_owned(), bytes))
        });
        named.collect()
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        Self::put(self, &format!("{START}{name}"), bytes.to_vec());
    }
}

#[test]
fn decoders_killed_on_one_folder_of_symbols_name_everything() {
    if skip() {
        return;
    }
    let deployment = Deployment::start();
    let folder = deployment.folder().join("symbols");
    killed(deployment, &folder);
}

#[test]
fn decoders_killed_on_one_bucket_of_symbols_name_everything() {
    if skip() {
        return;
    }
    let server = S3::start();
    let variables = server.environment();
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let deployment = Deployment::start_with(&Setup {
        symbols: Some((format!("s3://{BUCKET}/{START}"), variables.to_vec())),
        ..Setup::default()
    });
    killed(deployment, &server);
}

/// Whether it is a table, by its name.
fn is_table(name: &str) -> bool {
    name.ends_with(".symbols")
}

fn killed(mut deployment: Deployment, shelf: &dyn Shelf) {
    let fleets = ["decoder-1", "decoder-2"].map(|decoder| {
        let fleet = Fleet::new(decoder, 2, &[], 300, 1);
        (fleet, deployment.endpoint(decoder))
    });
    let sending = fleets.clone().map(|(fleet, endpoint)| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let sending = fleet.run_for(&endpoint, TICKS, CancellationToken::new());
                tokio::time::timeout(2 * SOON, sending).await
            })
        })
    });
    let mut whole = BTreeMap::new();
    let mut torn = 0;
    for (round, pause_ms) in PAUSES_MS.into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(pause_ms));
        for decoder in ["decoder-1", "decoder-2"] {
            deployment.kill(decoder);
        }
        for (name, bytes) in shelf.all() {
            if !is_table(&name) {
                continue;
            }
            // What lost its power in the middle of a write leaves, in two ways.
            let mut half = bytes.get(..bytes.len() / 2).unwrap().to_vec();
            if round % 2 == 1 {
                half.resize(bytes.len(), 0);
            }
            shelf.put(&name, &half);
            whole.entry(name).or_insert(bytes);
            torn += 1;
        }
        for decoder in ["decoder-1", "decoder-2"] {
            deployment.run(decoder);
        }
    }
    for sending in sending {
        sending.join().unwrap().unwrap().unwrap();
    }
    let number = |query: &str| -> Option<u64> {
        let rows = deployment.sql(query).ok()?;
        rows.first()?.first()?.parse().ok()
    };
    let made: u64 = fleets
        .iter()
        .map(|(fleet, _)| fleet.truth().samples(|_| true))
        .sum();
    until("all that was sent is stored", 2 * SOON, || {
        number("SELECT count() FROM samples") == Some(made)
    });
    let nameless = "SELECT countIf(function = '') FROM accesses";
    until("all of it has names", 2 * SOON, || {
        number(nameless) == Some(0)
    });
    for (fleet, _) in &fleets {
        let mut functions = BTreeMap::<_, u64>::new();
        for (key, samples) in fleet.truth().rows() {
            let host = &fleet.names()[key.host];
            *functions.entry((host.clone(), key.function)).or_default() += samples;
        }
        for ((host, function), samples) in functions {
            let found = number(&format!(
                "SELECT count() FROM accesses WHERE host = '{host}' AND function = '{function}'"
            ));
            assert_eq!(found, Some(samples), "{function} on {host}");
        }
    }
    assert!(
        torn > 0,
        "there was nothing to tear: {:?}",
        shelf.all().keys()
    );
    let now = shelf.all();
    assert!(now.keys().any(|name| is_table(name)), "{:?}", now.keys());
    for (name, bytes) in &now {
        // Whoever met a torn table removed it; one that nobody met since the last kill may be left.
        if let Some(whole) = whole.get(name) {
            let is_whole = bytes == whole;
            let is_torn = !is_whole && bytes.get(..whole.len() / 2) == whole.get(..whole.len() / 2);
            assert!(is_whole || is_torn, "{name} is something else now");
        }
    }
    let logs = ["decoder-1", "decoder-2"].map(|name| deployment.log(name));
    let said = logs
        .map(|log| std::fs::read_to_string(log).unwrap())
        .concat();
    assert!(
        said.contains("a kept symbol table is damaged"),
        "nobody met what was torn"
    );
}

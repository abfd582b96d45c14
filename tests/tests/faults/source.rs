//! A source of a schedule: a process of its own with simulated records and the collector's own spool.
//!
//! What it does is written down beside it, before and after: the oracle's truth.

use memwide_collector::spool::Spool;
use memwide_collector::uplink::{self, BatchStore, Observer, SymbolProvider};
use memwide_service::{CancellationToken, clock};
use memwide_simulator::{HostSpec, SimulatedHost, Truth};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Variable with what a source is told, words parted by blanks.
pub(crate) const VARIABLE: &str = "MEMWIDE_FAULT_SOURCE";

/// Time between two batches.
const TICK: Duration = Duration::from_millis(100);

/// What a source is told.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) endpoint: String,
    pub(crate) folder: PathBuf,
    /// Samples of a batch.
    pub(crate) samples: u64,
    /// Bound of its spool.
    pub(crate) spool_bytes: u64,
    /// Steps of its clock: from a batch on, it is so many seconds off.
    pub(crate) steps: Vec<(u64, i64)>,
}

impl Order {
    pub(crate) fn text(&self) -> String {
        let Self {
            name,
            endpoint,
            folder,
            samples,
            spool_bytes,
            steps,
        } = self;
        let folder = folder.display();
        let mut text = format!("{name} {endpoint} {folder} {samples} {spool_bytes}");
        for (batch, seconds) in steps {
            text += &format!(" {batch}:{seconds}");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(str::to_owned);
        Some(Self {
            name: words.next()?,
            endpoint: words.next()?,
            folder: words.next()?.into(),
            samples: words.next()?.parse().ok()?,
            spool_bytes: words.next()?.parse().ok()?,
            steps: words
                .map(|word| {
                    let (batch, seconds) = word.split_once(':')?;
                    Some((batch.parse().ok()?, seconds.parse().ok()?))
                })
                .collect::<Option<_>>()?,
        })
    }

    /// Its clock when it closes a batch.
    fn now_ns(&self, batch: u64) -> u64 {
        let off = self.steps.iter().rev().find(|(from, _)| batch >= *from);
        let off_ns = off.map_or(0, |(_, seconds)| seconds * 1_000_000_000);
        clock::unix_ns().saturating_add_signed(off_ns)
    }

    /// When this file is there, the source makes no more, sends what it has, and ends.
    pub(crate) fn last_call(&self) -> PathBuf {
        self.folder.join("last-call")
    }

    /// Lines `intends|spooled SOURCE BATCH CLOSED_NS`.
    pub(crate) fn diary(&self) -> PathBuf {
        self.folder.join("diary")
    }
}

fn note(diary: &Path, line: &str) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(diary)
        .unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// No test: the schedules start this program once more, as the process of a source.
#[test]
fn process() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    if let Some(order) = Order::parse(&text) {
        tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(source(order));
    }
}

async fn source(order: Order) {
    let spool = Spool::open(&order.folder.join("spool"), order.spool_bytes).unwrap();
    let spec = HostSpec {
        name: order.name.clone(),
        position: 0,
        badly_placed: false,
        samples: order.samples,
        seed: 1,
        epoch: clock::unix_ns(),
    };
    let host = Arc::new(SimulatedHost::new(spec, Truth::default()).unwrap());
    let source = host.origin().source.id().0;
    let epoch = spool.start(&host.origin()).unwrap();
    let nothing: Observer = Arc::new(|_| ());
    let symbols: Arc<dyn SymbolProvider> = host.clone();
    let mut sending = tokio::task::JoinSet::new();
    for store in spool.epochs() {
        let endpoint = order.endpoint.clone();
        let (symbols, nothing) = (symbols.clone(), nothing.clone());
        sending.spawn(async move {
            let settings = Arc::new(uplink::NoSettings);
            uplink::run(
                &endpoint,
                store,
                symbols,
                settings,
                nothing,
                CancellationToken::new(),
            )
            .await
        });
    }
    let tick_ns = u64::try_from(TICK.as_nanos()).unwrap();
    let mut ticks = tokio::time::interval(TICK);
    while !order.last_call().exists() {
        ticks.tick().await;
        let number = epoch.next();
        let now_ns = order.now_ns(number);
        host.tick(now_ns, tick_ns).unwrap();
        let batch = host.read(number).unwrap();
        note(
            &order.diary(),
            &format!("intends {source} {number} {now_ns}"),
        );
        epoch.append(&batch).unwrap();
        note(
            &order.diary(),
            &format!("spooled {source} {number} {now_ns}"),
        );
        host.ack(number).unwrap(); // the spool has it
        spool.bound().unwrap();
    }
    epoch.finish();
    while let Some(sent) = sending.join_next().await {
        sent.unwrap().unwrap();
    }
}

//! Shorter periods for a while: a person asks, the collectors whose streams are here are told, and what they say goes back.

use super::Shared;
use memwide_proto::v1;
use memwide_proto::v1::boosts_server::Boosts;
use memwide_service::pattern::fits;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

/// A collector that has said nothing by then is told of as such.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Boosts on their way to one collector.
const UNDER_WAY: usize = 4;

/// Something to tell a collector, and where its answer goes.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) boost: v1::Boost,
    pub(super) answer: oneshot::Sender<v1::ConfigReport>,
}

#[derive(Debug)]
struct Stream {
    host: String,
    orders: mpsc::Sender<Order>,
}

/// Streams of live collectors.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    streams: Mutex<HashMap<u64, Stream>>,
    numbers: AtomicU64,
}

/// A stream that can be told things, until dropped.
#[derive(Debug)]
pub(super) struct Told {
    hosts: Arc<Hosts>,
    number: u64,
    orders: mpsc::Receiver<Order>,
    /// What was passed on and not answered.
    asked: HashMap<u64, oneshot::Sender<v1::ConfigReport>>,
}

impl Hosts {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        // ATOMICS: numbers only have to differ.
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn enter(self: &Arc<Self>, host: &str, kind: &str) -> Told {
        let (sender, orders) = mpsc::channel(UNDER_WAY);
        let number = self.number();
        if kind == "live" {
            let stream = Stream {
                host: host.to_owned(),
                orders: sender,
            };
            self.lock().insert(number, stream);
        }
        Told {
            hosts: Arc::clone(self),
            number,
            orders,
            asked: HashMap::new(),
        }
    }

    /// The newest stream of each host whose name fits: older ones are of the same collector.
    fn find(&self, hosts: &str) -> BTreeMap<String, mpsc::Sender<Order>> {
        let streams = self.lock();
        let mut found: Vec<(&u64, &Stream)> = streams
            .iter()
            .filter(|(_, stream)| fits(hosts, &stream.host))
            .collect();
        found.sort_unstable_by_key(|(number, _)| **number);
        let found = found.into_iter();
        found
            .map(|(_, stream)| (stream.host.clone(), stream.orders.clone()))
            .collect()
    }
}

impl Told {
    /// The next thing to tell the collector.
    pub(super) async fn next(&mut self) -> v1::Configure {
        let Some(order) = self.orders.recv().await else {
            return std::future::pending().await;
        };
        self.asked.retain(|_, answer| !answer.is_closed());
        self.asked.insert(order.boost.id, order.answer);
        v1::Configure {
            boost: Some(order.boost),
            ..v1::Configure::default()
        }
    }

    /// Takes the answer to a boost. A collector that knows none answers settings without a version.
    pub(super) fn answered(&mut self, report: &v1::ConfigReport) -> bool {
        if report.boost == 0 && report.version != 0 {
            return false;
        }
        let numbers = self.asked.keys().copied();
        let of = match report.boost {
            0 => numbers.min(),
            number => Some(number),
        };
        if let Some(answer) = of.and_then(|number| self.asked.remove(&number)) {
            // Nobody waits any more after a while.
            drop(answer.send(report.clone()));
        }
        true
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.hosts.lock().remove(&self.number);
    }
}

/// Serves `Boosts`.
pub(super) struct BoostsService {
    pub(super) shared: Arc<Shared>,
}

async fn tell(host: String, to: mpsc::Sender<Order>, boost: v1::Boost) -> v1::BoostedHost {
    let (answer, answered) = oneshot::channel();
    let order = Order { boost, answer };
    let told = async {
        to.send(order).await.ok()?;
        answered.await.ok()
    };
    let (applied, message) = match tokio::time::timeout(ANSWER_WITHIN, told).await {
        Ok(Some(report)) => (report.applied, report.message),
        Ok(None) => (false, "its stream ended before it answered".to_owned()),
        Err(_) => (false, format!("no answer within {ANSWER_WITHIN:?}")),
    };
    v1::BoostedHost {
        host,
        applied,
        message,
    }
}

#[tonic::async_trait]
impl Boosts for BoostsService {
    async fn ask(
        &self,
        request: Request<v1::BoostRequest>,
    ) -> Result<Response<v1::BoostAnswer>, Status> {
        let v1::BoostRequest { hosts, boost } = request.into_inner();
        let wrong = |text: &str| Status::invalid_argument(text);
        let boost = boost.ok_or_else(|| wrong("the request names no boost"))?;
        if hosts.is_empty() {
            return Err(wrong("name the hosts; * stands for anything"));
        }
        let found = self.shared.hosts.find(&hosts);
        let mut asking = tokio::task::JoinSet::new();
        for (host, to) in found {
            let id = self.shared.hosts.number();
            asking.spawn(tell(
                host,
                to,
                v1::Boost {
                    id,
                    ..boost.clone()
                },
            ));
        }
        let mut hosts = asking.join_all().await;
        hosts.sort_unstable_by(|one, two| one.host.cmp(&two.host));
        let applied = hosts.iter().filter(|host| host.applied).count();
        tracing::info!(
            select = ?boost.select, factor = boost.factor, seconds = boost.seconds, applied, asked = hosts.len(),
            "a person asks for shorter periods"
        );
        Ok(Response::new(v1::BoostAnswer { hosts }))
    }
}

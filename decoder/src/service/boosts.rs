//! Shorter periods for a while: a person asks, the collectors whose streams are here are told, and what they say goes back.

use super::Shared;
use memwide_proto::v1;
use memwide_proto::v1::boosts_server::Boosts;
use memwide_service::config::Secret;
use memwide_service::pattern::fits;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::metadata::MetadataMap;
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

/// Who may ask: whoever shows the token; without one, this machine.
fn check(token: &Secret, peer: Option<SocketAddr>, metadata: &MetadataMap) -> Result<(), Status> {
    if token.expose().is_none() {
        let is_near = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        return is_near.then_some(()).ok_or_else(|| {
            Status::permission_denied(
                "this decoder has no `boost_token`, so it is asked from its own machine only (kubectl port-forward is); set \
                 one, and MEMWIDE_BOOST_TOKEN where you ask",
            )
        });
    }
    let shown = metadata.get("authorization");
    let shown = shown.and_then(|shown| shown.to_str().ok()?.strip_prefix("Bearer "));
    match shown {
        Some(shown) if token.is(shown) => Ok(()),
        Some(_) => Err(Status::unauthenticated(
            "this is not the `boost_token` of this decoder",
        )),
        None => Err(Status::unauthenticated(
            "this decoder wants its `boost_token`: set MEMWIDE_BOOST_TOKEN",
        )),
    }
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
        let peer = request.remote_addr();
        check(&self.shared.config.boost_token, peer, request.metadata()).inspect_err(
            |refused| {
                tracing::warn!(?peer, why = refused.message(), "a boost is refused");
            },
        )?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_the_token_may_ask_and_without_one_this_machine() {
        let near = ["127.0.0.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5"];
        let near = near.map(|peer| Some(peer.parse().unwrap()));
        let far = ["10.0.0.9:5", "[fd00::1]:5"].map(|peer| Some(peer.parse().unwrap()));
        let shows = |what: &str| {
            let mut metadata = MetadataMap::new();
            if !what.is_empty() {
                metadata.insert("authorization", what.parse().unwrap());
            }
            metadata
        };
        let may =
            |token: &str, peer, what: &str| check(&Secret::new(token), peer, &shows(what)).is_ok();
        for peer in near {
            assert!(may("", peer, ""), "{peer:?}");
            assert!(may("", peer, "Bearer x"), "{peer:?}");
            assert!(!may("s3cret", peer, ""), "{peer:?}");
        }
        for peer in far.into_iter().chain([None]) {
            assert!(!may("", peer, "Bearer "), "{peer:?}");
            assert!(may("s3cret", peer, "Bearer s3cret"), "{peer:?}");
            for wrong in [
                "",
                "s3cret",
                "Bearer ",
                "Bearer s3cre",
                "Bearer s3creT",
                "Bearer s3cret ",
            ] {
                assert!(!may("s3cret", peer, wrong), "{peer:?} {wrong}");
            }
        }
    }
}

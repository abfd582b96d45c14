//! A collector behind a network that is slow, and cut again and again. The source runs in a network namespace of its own;
//! what it sends goes through a relay that holds every byte back.

use crate::cases::{SOON, diary, finish, order, skip};
use crate::source::Order;
use crate::{settled, start_behind};
use memwide_tests::{Deployment, until};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long every byte is under way, in each direction.
const DELAY: Duration = Duration::from_millis(150);

fn ip(words: &str) -> bool {
    let ran = Command::new("ip").args(words.split(' ')).output();
    ran.is_ok_and(|output| output.status.success())
}

/// A namespace with one link to here.
struct Network {
    namespace: String,
    link: String,
    address: String,
}

impl Network {
    /// `None` where none can be made.
    fn new() -> Option<Self> {
        let id = std::process::id() % 60_000;
        let (high, low) = (id / 250, id % 250);
        let network = Self {
            namespace: format!("memwide-{id}"),
            link: format!("mw-{id}"),
            address: format!("10.{}.{low}.1", high % 250),
        };
        let (namespace, link, address) = (&network.namespace, &network.link, &network.address);
        let other = format!("10.{}.{low}.2", high % 250);
        let made = ip(&format!("netns add {namespace}"))
            && ip(&format!(
                "link add {link} type veth peer name eth0 netns {namespace}"
            ))
            && ip(&format!("addr add {address}/24 dev {link}"))
            && ip(&format!("link set {link} up"))
            && ip(&format!("-n {namespace} addr add {other}/24 dev eth0"))
            && ip(&format!("-n {namespace} link set eth0 up"));
        made.then_some(network)
    }

    /// Packets vanish, in both directions, and nobody is told.
    fn cut(&self, cut: bool) {
        let state = if cut { "down" } else { "up" };
        assert!(ip(&format!("link set {} {state}", self.link)));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.namespace));
    }
}

/// Passes bytes on, each after [`DELAY`].
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(1_000);
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        drop(to.shutdown(std::net::Shutdown::Both));
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        let bytes = buffer[..count].to_vec();
        if count == 0 || sender.send((Instant::now() + DELAY, bytes)).is_err() {
            break;
        }
    }
}

/// Listens on an address of here and passes everything on; where to connect.
fn relay(address: &str, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let here = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(to) else {
                continue;
            };
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass(near, far));
            std::thread::spawn(move || pass(far_too, near_too));
        }
    });
    here
}

#[test]
fn a_network_that_is_slow_and_cut_loses_and_doubles_nothing() {
    if skip() {
        return;
    }
    let Some(network) = Network::new() else {
        eprintln!("skipped: no network namespace can be made here");
        return;
    };
    let mut deployment = Deployment::start();
    let decoder = deployment.endpoint("decoder-1");
    let decoder = decoder.trim_start_matches("http://").parse().unwrap();
    let order = Order {
        endpoint: format!("http://{}", relay(&network.address, decoder)),
        ..order(&deployment, "far", &deployment.folder().join("far"))
    };
    let within = ["ip", "netns", "exec", &network.namespace];
    start_behind(&mut deployment, "source", &order, &within);
    let batches = |deployment: &Deployment| {
        let rows = deployment.sql("SELECT uniqExact(batch) FROM samples WHERE host = 'far'");
        rows.map_or(0, |rows| rows[0][0].parse::<u64>().unwrap_or(0))
    };
    // Short cuts that TCP bridges, then one in which both sides give up.
    let cuts = [500, 1_500, 3_000, 25_000].map(Duration::from_millis);
    for cut in cuts {
        let before = batches(&deployment);
        until("batches come", 2 * SOON, || batches(&deployment) > before);
        network.cut(true);
        std::thread::sleep(cut);
        network.cut(false);
    }
    finish(&mut deployment, "source", &order);
    let sums = settled(&deployment, &[diary(&order)]).unwrap();
    assert_eq!(sums.gap, 0, "{sums:?}");
}

//! Three servers of NATS, of which the one that leads the stream dies.

use crate::cases::{SOON, diary, finish, order, skip};
use crate::{settled, start};
use memwide_proto::subject;
use memwide_tests::{Deployment, Setup, until, until_some};
use std::time::Duration;

/// Which server leads the stream.
fn leader(runtime: &tokio::runtime::Runtime, deployment: &Deployment) -> Option<String> {
    let (url, token) = deployment.nats();
    runtime.block_on(async {
        let servers: Vec<async_nats::ServerAddr> =
            url.split(',').map(|url| url.parse().unwrap()).collect();
        let options = async_nats::ConnectOptions::with_token(token.to_owned());
        let client = options.connect(servers).await.ok()?;
        let stream = async_nats::jetstream::new(client)
            .get_stream(subject::STREAM)
            .await;
        stream.ok()?.cached_info().cluster.clone()?.leader
    })
}

#[test]
fn a_stream_that_loses_its_leader_again_and_again_loses_and_doubles_nothing() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start_with(&Setup {
        three_nats: true,
        ..Setup::default()
    });
    let orders = ["led-1", "led-2"].map(|name| {
        let order = order(&deployment, name, &deployment.folder().join(name));
        start(&mut deployment, name, &order);
        order
    });
    let rows = |deployment: &Deployment| {
        let rows = deployment.sql("SELECT count() FROM samples");
        rows.map_or(0, |rows| rows[0][0].parse::<u64>().unwrap_or(0))
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..3 {
        let before = rows(&deployment);
        until("rows come", 2 * SOON, || rows(&deployment) > before);
        let leader = until_some("the stream has a leader", SOON, || {
            leader(&runtime, &deployment)
        });
        deployment.kill(&leader);
        std::thread::sleep(Duration::from_secs(2));
        // The other two go on by themselves.
        let before = rows(&deployment);
        until("rows come without it", 2 * SOON, || {
            rows(&deployment) > before
        });
        deployment.run(&leader);
    }
    for order in &orders {
        finish(&mut deployment, &order.name, order);
    }
    settled(&deployment, &orders.each_ref().map(diary)).unwrap();
}

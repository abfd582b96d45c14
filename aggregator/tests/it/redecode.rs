//! What a run of `memwide redecode` asks of NATS: to be the only one, and that sinks wait.

use memwide_aggregator::{HoldError, NatsConfig, Sinks};
use memwide_proto::subject;
use memwide_service::config::Secret;

use crate::support::{Aggregator, Nats, until};

async fn nats() -> Option<(Nats, Aggregator)> {
    let nats = Nats::start().await?;
    let aggregator = Aggregator::start(&nats).await;
    until("it has made the stream", || async {
        Sinks::find(&nats.config()).await.is_ok()
    })
    .await;
    Some((nats, aggregator))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_the_store_alone_until_it_ends_or_is_not_heard_of() {
    let Some((nats, _aggregator)) = nats().await else {
        return;
    };
    let sinks = Sinks::find(&nats.config()).await.unwrap();
    let one = sinks.lease("the first run").await.unwrap();
    let refused = sinks.lease("the second run").await.unwrap_err();
    assert!(
        matches!(&refused, HoldError::Taken { who, .. } if who == "the first run"),
        "{refused}"
    );
    one.sure().await.unwrap();
    one.release().await;
    let two = sinks.lease("the second run").await.unwrap();
    assert!(two.is_sure());
    drop(two); // its process is there, and nothing is heard of it any more
    let three = sinks.lease("the third run").await.unwrap();

    // Somebody else found it silent and began.
    let context = async_nats::jetstream::new(nats.client().await);
    let records = context.get_key_value(subject::BLOCK_BUCKET).await.unwrap();
    let written = records.get(subject::REDECODE_KEY).await.unwrap().unwrap();
    let other = String::from_utf8(written.to_vec()).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&other).unwrap();
    assert_eq!(other["who"], "the third run");
    (other["who"], other["run"]) = ("the fourth run".into(), "4".into());
    records
        .put(subject::REDECODE_KEY, other.to_string().into())
        .await
        .unwrap();
    until("it is seen", || async { !three.is_sure() }).await;
    let lost = three.sure().await.unwrap_err();
    assert!(
        matches!(&lost, HoldError::Lost { who } if who == "the fourth run"),
        "{lost}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nats_is_away_nobody_waits_for_ever_and_a_lease_is_kept() {
    let Some((mut nats, _aggregator)) = nats().await else {
        return;
    };
    let sinks = Sinks::find(&nats.config()).await.unwrap();
    let lease = sinks.lease("a run").await.unwrap();
    let (hold, other) = (sinks.hold().await.unwrap(), sinks.hold().await.unwrap());
    assert!(hold.lasts());
    nats.kill();
    let away = hold.release().await.unwrap_err();
    assert!(matches!(away, HoldError::Away { .. }), "{away}");
    assert!(sinks.hold().await.is_err());
    until("it is not sure any more", || async { !lease.is_sure() }).await;
    nats.restart().await;
    lease.sure().await.unwrap();
    other.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_not_the_servers_is_told_with_the_remedy() {
    let Some((nats, _aggregator)) = nats().await else {
        return;
    };
    for token in [Secret::new("another"), Secret::default()] {
        let config = NatsConfig {
            token,
            request_timeout_ms: 5_000,
            ..nats.config()
        };
        let refused = Sinks::find(&config).await.unwrap_err();
        assert!(
            refused.to_string().contains("set `token` in [nats]"),
            "{refused}"
        );
    }
}

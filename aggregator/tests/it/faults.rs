//! Death and lost messages at any moment: the rows stay exact.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use memwide_aggregator::sink_into;
use memwide_proto::{subject, v1};
use memwide_service::CancellationToken;
use memwide_service::admin::Readiness;
use v1::aggregator_to_decoder::Message;

use crate::feed::{Feed, Line, deliver};
use crate::pipeline::check;
use crate::proxy::Proxy;
use crate::support::{Aggregator, Nats, Sink, servers, sink_config, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_and_disordered_batches_count_once() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let sink = Sink::start(&nats, &engine);
    let feed = Feed::new(1, 6, 300);
    let (mut line, next) = Line::open(aggregator.address, &feed.source).await.unwrap();
    assert_eq!(next, 1);
    for number in [1, 1, 2, 5, 6] {
        assert!(line.send(feed.batch(number, number == 1)).await);
    }
    let mut committed = 0;
    loop {
        match line.answer().await.unwrap() {
            Message::Resume(resume) => {
                assert_eq!(resume.from, 3);
                break;
            }
            Message::Committed(answer) => committed = answer.through,
            other => panic!("{other:?}"),
        }
    }
    assert!(committed <= 2, "committed {committed}");
    for number in [3, 2, 4, 3, 5, 6] {
        assert!(line.send(feed.batch(number, false)).await);
    }
    while committed < 6 {
        if let Message::Committed(answer) = line.answer().await.unwrap() {
            committed = answer.through;
        }
    }
    // A newer stream of the source ends this one and is told what is there already.
    let (newer, next) = Line::open(aggregator.address, &feed.source).await.unwrap();
    assert_eq!(next, 7);
    assert!(matches!(line.answer().await, Some(Message::Refuse(_))));
    assert!(newer.send(feed.batch(6, true)).await);
    check(&engine, &[feed]).await;
    // After a restart the cursor knows.
    drop(newer);
    aggregator.stop().await;
    let aggregator = Aggregator::start(&nats).await;
    let feed = Feed::new(1, 7, 300);
    let (line, next) = Line::open(aggregator.address, &feed.source).await.unwrap();
    assert_eq!(next, 7);
    assert!(line.send(feed.batch(7, true)).await);
    check(&engine, &[feed]).await;
    sink.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_aggregators_that_fight_for_the_partitions_count_nothing_twice() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let (one, two) = (
        Aggregator::start(&nats).await,
        Aggregator::start(&nats).await,
    );
    let sink = Sink::start(&nats, &engine);
    let feeds: Vec<Feed> = (1..7).map(|epoch| Feed::new(epoch, 12, 60)).collect();
    let delivered = feeds.iter().map(|feed| {
        let addresses = if feed.source.epoch % 2 == 0 {
            [one.address]
        } else {
            [two.address]
        };
        async move { deliver(&addresses, feed).await }
    });
    futures_util::future::join_all(delivered).await;
    check(&engine, &feeds).await;
    // Each of them has committed, so that at some time each of them was fenced off.
    assert!(
        memwide_aggregator::metrics::FLUSHES.get(memwide_aggregator::metrics::FlushEnd::Fenced) > 0
    );
    one.stop().await;
    two.stop().await;
    sink.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_nats_server_loses_and_doubles_nothing() {
    let Some((mut nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let sink = Sink::start(&nats, &engine);
    let feeds: Vec<Feed> = (1..4).map(|epoch| Feed::new(epoch, 60, 400)).collect();
    let delivering = futures_util::future::join_all(feeds.iter().map(|feed| {
        let address = aggregator.address;
        async move { deliver(&[address], feed).await }
    }));
    let killing = async {
        for pause_ms in [70, 10, 130, 40] {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            nats.restart().await;
        }
    };
    tokio::join!(delivering, killing);
    check(&engine, &feeds).await;
    aggregator.stop().await;
    sink.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_a_commit_is_found_in_the_cursor() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let proxy = Proxy::start(nats.address()).await;
    let url = format!("nats://{}", proxy.address);
    let aggregator = Aggregator::with(&nats, |config| {
        config.nats.url = url;
        config.nats.request_timeout_ms = 300;
    })
    .await;
    let sink = Sink::start(&nats, &engine);
    let feeds: Vec<Feed> = (1..4).map(|epoch| Feed::new(epoch, 40, 200)).collect();
    let ended = CancellationToken::new();
    let delivering = async {
        let all = feeds.iter().map(|feed| {
            let address = aggregator.address;
            async move { deliver(&[address], feed).await }
        });
        futures_util::future::join_all(all).await;
        ended.cancel();
    };
    let losing = async {
        while !ended.is_cancelled() {
            proxy.lose_answers(Duration::from_millis(60)).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    tokio::join!(delivering, losing);
    check(&engine, &feeds).await;
    aggregator.stop().await;
    sink.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_engine_loses_and_doubles_nothing() {
    let Some((nats, mut engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let sink = Sink::start(&nats, &engine);
    let feeds: Vec<Feed> = (1..4).map(|epoch| Feed::new(epoch, 60, 1_000)).collect();
    let delivering = futures_util::future::join_all(feeds.iter().map(|feed| {
        let address = aggregator.address;
        async move { deliver(&[address], feed).await }
    }));
    let killing = async {
        for pause_ms in [200, 90, 150] {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            engine.restart().await;
        }
    };
    tokio::join!(delivering, killing);
    check(&engine, &feeds).await;
    aggregator.stop().await;
    sink.stop().await;
}

/// Drops a future after so many polls: a process that dies at that point.
struct DiesAfter<F> {
    inner: Pin<Box<F>>,
    polls: u32,
}

impl<F: Future> Future for DiesAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.inner.as_mut().poll(context).map(Some)
    }
}

/// True when no partition has rows in the stream that are not stored.
async fn all_stored(nats: &Nats) -> bool {
    let context = async_nats::jetstream::new(nats.client().await);
    let stream = context.get_stream(subject::STREAM).await.unwrap();
    let info = stream.info_with_subjects("mw.d.*").await.unwrap();
    futures_util::StreamExt::count(info).await == 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_dies_between_any_two_steps_loses_and_doubles_nothing() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let mut feed = Feed::new(1, 0, 50);
    let mut config = sink_config(&nats);
    // Every block is closed at once and each close is due: those steps are died in too.
    (config.block_wait_ms, config.close_every_s) = (1, 1);
    let mut deaths = 0;
    for polls in (1..).step_by(5) {
        feed.batches += 1;
        deliver(&[aggregator.address], &feed).await;
        let stop = CancellationToken::new();
        let sink = sink_into(
            config.clone(),
            engine.stores(),
            Readiness::new(),
            stop.clone(),
        );
        let life = DiesAfter {
            inner: Box::pin(sink),
            polls,
        };
        let finished = async {
            until("the block is stored", || all_stored(&nats)).await;
            stop.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = life => match ended {
                None => deaths += 1,
                Some(ended) => {
                    ended.unwrap();
                    break;
                }
            },
            () = finished => {}
        }
    }
    assert!(
        deaths > 15,
        "only {deaths} deaths before a block was through"
    );
    let sink = Sink::start(&nats, &engine);
    check(&engine, &[feed]).await;
    sink.stop().await;
    aggregator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_exact_at_every_moment_while_hours_close_and_rows_come() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::start(&nats).await;
    let mut config = sink_config(&nats);
    (config.block_wait_ms, config.close_every_s) = (20, 1);
    let sink = Sink::with(config, &engine);
    let feeds: Vec<Feed> = (1..4).map(|epoch| Feed::new(epoch, 150, 300)).collect();
    let ended = CancellationToken::new();
    let delivering = async {
        let all = feeds.iter().map(|feed| {
            let address = aggregator.address;
            async move { deliver(&[address], feed).await }
        });
        futures_util::future::join_all(all).await;
        // Until something has been closed and the rest has come, too.
        until("an hour is closed", || async {
            engine.number("SELECT count() FROM closes").await > 0
        })
        .await;
        ended.cancel();
    };
    let looking = async {
        let mut looks = 0;
        while !ended.is_cancelled() {
            let before = engine.number("SELECT count() FROM samples").await;
            let functions = engine.number("SELECT sum(samples) FROM functions").await;
            let after = engine.number("SELECT count() FROM samples").await;
            assert!(
                (before..=after).contains(&functions),
                "{functions} functions, {before} to {after} samples"
            );
            looks += 1;
        }
        looks
    };
    let ((), looks) = tokio::join!(delivering, looking);
    assert!(looks > 3, "looked {looks} times");
    check(&engine, &feeds).await;
    aggregator.stop().await;
    sink.stop().await;
}

/// Room for a few flushes.
const STREAM_BYTES: u64 = 4 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_holds_sources_back_until_a_sink_makes_room() {
    let Some((nats, engine)) = servers().await else {
        return;
    };
    let aggregator = Aggregator::with(&nats, |config| {
        config.nats.stream_bytes_max = STREAM_BYTES;
        config.pending_bytes_max = 2 << 20;
    })
    .await;
    let feed = Feed::new(1, 60, 2_000);
    let addresses = [aggregator.address];
    let delivering = deliver(&addresses, &feed);
    let draining = async {
        let context = async_nats::jetstream::new(nats.client().await);
        until("the stream is nearly full", || async {
            let stream = context.get_stream(subject::STREAM).await;
            stream.is_ok_and(|stream| stream.cached_info().state.bytes > STREAM_BYTES / 2)
        })
        .await;
        let mut config = sink_config(&nats);
        config.nats.stream_bytes_max = STREAM_BYTES;
        Sink::with(config, &engine)
    };
    let ((), sink) = tokio::join!(delivering, draining);
    check(&engine, &[feed]).await;
    aggregator.stop().await;
    sink.stop().await;
}

//! Any store, any manners: every batch arrives once, in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memwide_collector::uplink::{
    self, BatchStore, NoSettings, NoSymbols, Observer, Origin, Progress, StoreError, SymbolAnswer,
    SymbolProvider, UplinkError,
};
use memwide_model::{BootId, HostId, Source};
use memwide_proto::v1::{Batch, MappingIdentity, Refuse, Section, SymbolRequest};
use memwide_service::CancellationToken;
use tokio::sync::watch;

use crate::decoder::{Manners, Running};

/// Batches in memory.
struct Memory {
    epoch: u64,
    batches: Mutex<BTreeMap<u64, Batch>>,
    acked: Mutex<u64>,
    progress: watch::Sender<Progress>,
}

impl Memory {
    fn new(epoch: u64, count: u64, finished: bool) -> Arc<Self> {
        let memory = Self {
            epoch,
            batches: Mutex::default(),
            acked: Mutex::default(),
            progress: watch::Sender::new(Progress { next: 1, finished }),
        };
        (0..count).for_each(|_| memory.add());
        Arc::new(memory)
    }

    fn add(&self) {
        let number = self.progress.borrow().next;
        let batch = Batch {
            number,
            samples: Some(Section {
                data: vec![7; 1_000].into(),
                ..Section::default()
            }),
            ..Batch::default()
        };
        self.batches.lock().unwrap().insert(number, batch);
        self.progress.send_modify(|progress| progress.next += 1);
    }
}

impl BatchStore for Memory {
    fn origin(&self) -> Origin {
        Origin {
            source: Source {
                host: HostId([1; 16]),
                boot: BootId([2; 16]),
                epoch: self.epoch,
            },
            hostname: "memory".to_owned(),
            kind: "simulated",
        }
    }
    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }
    fn first_unacked(&self) -> u64 {
        *self.acked.lock().unwrap() + 1
    }
    fn snapshot(&self) -> u64 {
        0
    }
    fn read(&self, number: u64) -> Result<Batch, StoreError> {
        let next = self.progress.borrow().next;
        let found = self.batches.lock().unwrap().get(&number).cloned();
        found.ok_or(StoreError::Missing { number, next })
    }
    fn ack(&self, through: u64) -> Result<(), StoreError> {
        *self.acked.lock().unwrap() = through;
        Ok(())
    }
}

fn quiet() -> Observer {
    Arc::new(|_| ())
}

async fn send(store: &Arc<Memory>, endpoint: &str) -> Result<(), UplinkError> {
    let stop = CancellationToken::new();
    let sending = uplink::run(
        endpoint,
        store.clone(),
        Arc::new(NoSymbols),
        Arc::new(NoSettings),
        quiet(),
        stop,
    );
    tokio::time::timeout(std::time::Duration::from_mins(1), sending)
        .await
        .expect("sending ends within a minute")
}

async fn check(manners: Manners) {
    let decoder = Running::start(manners).await;
    let store = Memory::new(9, 50, true);
    send(&store, &decoder.endpoint).await.unwrap();
    let got = decoder.got();
    let numbers: Vec<u64> = got.batches[&9].iter().map(|batch| batch.number).collect();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
    assert!(got.batches[&9].iter().all(|batch| batch.samples.is_some()));
    assert_eq!(store.first_unacked(), 51);
}

#[tokio::test]
async fn all_batches_arrive_once_in_order() {
    check(Manners::default()).await;
}

#[tokio::test]
async fn broken_streams_are_resumed_where_the_pipeline_is() {
    check(Manners {
        break_after: Some(7),
        ack_every: 5,
        ..Manners::default()
    })
    .await;
}

#[tokio::test]
async fn what_a_pipeline_forgot_is_sent_again() {
    check(Manners {
        resume_after: Some(23),
        ack_every: 10,
        ..Manners::default()
    })
    .await;
}

#[tokio::test]
async fn a_small_credit_slows_and_does_not_stop() {
    check(Manners {
        credit: 1,
        ..Manners::default()
    })
    .await;
}

#[tokio::test]
async fn a_second_import_of_the_same_sends_nothing() {
    let decoder = Running::start(Manners::default()).await;
    send(&Memory::new(9, 5, true), &decoder.endpoint)
        .await
        .unwrap();
    send(&Memory::new(9, 5, true), &decoder.endpoint)
        .await
        .unwrap();
    let got = decoder.got();
    assert_eq!(
        (got.batches[&9].len(), got.repeated, got.hellos.len()),
        (5, 0, 2)
    );
}

#[tokio::test]
async fn a_decoder_that_comes_late_or_again_gets_everything() {
    let first = Running::start(Manners::default()).await;
    let endpoint = first.endpoint.clone();
    let place = first.stop().await; // nobody listens now
    let store = Memory::new(9, 3, false);
    let stop = CancellationToken::new();
    let sending = {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            uplink::run(
                &endpoint,
                store,
                Arc::new(NoSymbols),
                Arc::new(NoSettings),
                quiet(),
                stop,
            )
            .await
        })
    };
    let again = Running::again(place).await;
    again
        .until("three", |got| {
            got.batches.get(&9).is_some_and(|b| b.len() == 3)
        })
        .await;
    let place = again.stop().await;
    store.add();
    let third = Running::again(place).await;
    third
        .until("the fourth", |got| got.batches[&9].len() == 4)
        .await;
    assert_eq!(third.got().repeated, 0);
    stop.cancel();
    sending.await.unwrap().unwrap();
}

#[tokio::test]
async fn history_starts_at_the_first_batch_and_holds_no_samples() {
    let decoder = Running::start(Manners::default()).await;
    send(&Memory::new(9, 5, true), &decoder.endpoint)
        .await
        .unwrap();
    let store = Memory::new(9, 6, true);
    send(&store, &decoder.endpoint).await.unwrap();
    let got = decoder.got();
    let numbers: Vec<u64> = got.history.iter().map(|batch| batch.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert!(got.history.iter().all(|batch| batch.samples.is_none()));
    assert_eq!(got.batches[&9].len(), 6);
}

#[tokio::test]
async fn a_final_refusal_ends_it_with_the_decoders_words() {
    let decoder = Running::start(Manners {
        refuse: Some(Refuse {
            reason: "expired".to_owned(),
            message: "left 7 days ago".to_owned(),
            retry: false,
        }),
        ..Manners::default()
    })
    .await;
    let refused = send(&Memory::new(9, 5, true), &decoder.endpoint)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("left 7 days ago"), "{refused}");
}

#[tokio::test]
async fn an_address_that_is_none_is_said_at_once() {
    let failed = send(&Memory::new(9, 1, true), "not an address")
        .await
        .unwrap_err();
    assert!(matches!(failed, UplinkError::Endpoint { .. }), "{failed:?}");
}

struct OneTable(usize);

impl SymbolProvider for OneTable {
    fn table(&self, request: &SymbolRequest) -> Result<SymbolAnswer, String> {
        if request.pid == 0 {
            return Err("no such process".to_owned());
        }
        Ok(SymbolAnswer {
            identity: MappingIdentity {
                path: "/bin/a".to_owned(),
                ..MappingIdentity::default()
            },
            table: vec![7; self.0],
        })
    }
}

#[tokio::test]
async fn symbols_come_in_chunks_that_add_up_or_with_a_reason() {
    let decoder = Running::start(Manners::default()).await;
    for (request, pid) in [(1, 5), (2, 0)] {
        decoder.ask(SymbolRequest {
            request,
            pid,
            ..SymbolRequest::default()
        });
    }
    let store = Memory::new(9, 1, false);
    let stop = CancellationToken::new();
    let symbols = Arc::new(OneTable(700_000));
    let sending = uplink::run(
        &decoder.endpoint,
        store,
        symbols,
        Arc::new(NoSettings),
        quiet(),
        stop.clone(),
    );
    let waiting = async {
        let all = |got: &crate::decoder::Got| got.symbols.len() == 4;
        decoder.until("four chunks", all).await;
        stop.cancel();
    };
    let (sent, ()) = tokio::join!(sending, waiting);
    sent.unwrap();
    // They are answered at the same time: pieces of one may come between those of the other.
    let got = decoder.got();
    let (chunks, others): (Vec<_>, Vec<_>) =
        got.symbols.iter().partition(|chunk| chunk.request == 1);
    let table: Vec<u8> = chunks[..3]
        .iter()
        .flat_map(|chunk| chunk.data.to_vec())
        .collect();
    assert_eq!(table.len(), 700_000);
    assert_eq!(xxhash_rust::xxh3::xxh3_64(&table), chunks[0].checksum);
    assert_eq!(chunks[2].offset, 2 * (256 << 10));
    assert_eq!(chunks[0].identity.as_ref().unwrap().path, "/bin/a");
    assert_eq!(
        (others[0].request, others[0].unavailable.as_str()),
        (2, "no such process")
    );
}

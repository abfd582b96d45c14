//! Sources and messages that are not as they should be.

use crate::cases::{SOON, diary, finish, order, skip};
use crate::oracle::Truth;
use crate::source::Order;
use crate::{settled, start};
use memwide_proto::{limits, subject, v1};
use memwide_tests::{Deployment, until};
use prost::Message as _;

fn running(deployment: &Deployment, host: &str) {
    until("rows are stored", SOON, || {
        let sql = format!("SELECT uniqExact(batch) FROM samples WHERE host = '{host}'");
        let rows = deployment.sql(&sql);
        rows.is_ok_and(|rows| rows[0][0].parse::<u64>().unwrap_or(0) > 40)
    });
}

/// Two machines that were cloned: the same host, at the same time.
#[test]
fn two_hosts_of_one_id_are_two_sources() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    let orders = ["one", "two"].map(|name| Order {
        name: "cloned".to_owned(),
        ..order(&deployment, name, &deployment.folder().join(name))
    });
    for (name, order) in ["one", "two"].iter().zip(&orders) {
        start(&mut deployment, name, order);
    }
    running(&deployment, "cloned");
    for (name, order) in ["one", "two"].iter().zip(&orders) {
        finish(&mut deployment, name, order);
    }
    let diaries = orders.each_ref().map(|order| {
        let diary = std::fs::read_to_string(order.diary());
        diary.unwrap()
    });
    let truth = Truth::read("cloned", orders[0].samples, &diaries.concat());
    settled(&deployment, &[truth]).unwrap();
    let sources = deployment.sql("SELECT uniqExact(source_id) FROM samples WHERE host = 'cloned'");
    assert_eq!(sources.unwrap()[0][0], "2");
}

/// The clock of a host goes back an hour, forward two, and a day back.
#[test]
fn a_clock_that_steps_moves_rows_and_loses_none() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    let order = Order {
        steps: vec![(10, -3_600), (20, 3_600), (30, -86_400), (40, 0)],
        ..order(&deployment, "steps", &deployment.folder().join("steps"))
    };
    start(&mut deployment, "source", &order);
    running(&deployment, "steps");
    finish(&mut deployment, "source", &order);
    settled(&deployment, &[diary(&order)]).unwrap();
    let hours = deployment.sql("SELECT uniqExact(toStartOfHour(time)) >= 4 FROM samples");
    assert_eq!(hours.unwrap()[0][0], "1", "the clock did not step");
}

/// Messages that nobody of ours would send, between those of a source.
#[test]
fn damaged_messages_in_the_stream_are_dead_letters_and_the_rest_is_exact() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    let order = order(&deployment, "letters", &deployment.folder().join("letters"));
    start(&mut deployment, "source", &order);
    let (url, token) = deployment.nats();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let jetstream = runtime.block_on(async {
        let options = async_nats::ConnectOptions::with_token(token.to_owned());
        async_nats::jetstream::new(options.connect(url).await.unwrap())
    });
    let block = |table: &str, rows: u32| v1::RowBlock {
        table: table.to_owned(),
        rows,
        native_bytes: 300,
        native_zstd: vec![0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3].into(),
        ..v1::RowBlock::default()
    };
    let letters: [Vec<u8>; 4] = [
        b"no message of ours".to_vec(),
        block("samples", 7).encode_to_vec(),
        block("no_such_table", 3).encode_to_vec(),
        vec![0; limits::STREAM_MESSAGE_BYTES / 2],
    ];
    runtime.block_on(async {
        for partition in 0..4 {
            for letter in &letters {
                let sent = jetstream.publish(subject::data(partition), letter.clone().into());
                sent.await.unwrap().await.unwrap();
            }
        }
    });
    running(&deployment, "letters");
    finish(&mut deployment, "source", &order);
    settled(&deployment, &[diary(&order)]).unwrap();
    let dead = runtime.block_on(async {
        let stream = jetstream.get_stream(subject::DEAD_LETTER_STREAM).await;
        stream.unwrap().cached_info().state.messages
    });
    assert_eq!(dead, 16);
    let refused = "SELECT sum(records) FROM ledger_1m WHERE reason = 'refused'";
    until("refused samples are in the ledger", SOON, || {
        let found = deployment.sql(refused);
        found.is_ok_and(|rows| rows[0][0] == "28")
    });
}

//! Several decoders, one folder of symbol tables; collectors and decoders that go away in the middle of an upload.

use crate::harness::{Collector, Conn, World, hello, named, names, open};
use memwide_decoder::Config;
use memwide_objects::{Source as SymbolSource, SymbolTable};
use memwide_proto::v1;
use memwide_proto::v1::aggregator_to_decoder::Message as FromAggregator;
use memwide_proto::v1::collector_message::Message as ToDecoder;
use memwide_proto::v1::decoder_message::Message as FromDecoder;
use memwide_proto::v1::names_client::NamesClient;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

fn shared(folder: &Path) -> Config {
    Config {
        symbol_dir: folder.to_owned(),
        symbol_wait_ms: 60_000,
        ..Config::default()
    }
}

fn piece(request: &v1::SymbolRequest, whole: &[u8], from: usize, to: usize) -> v1::SymbolChunk {
    v1::SymbolChunk {
        request: request.request,
        total_bytes: whole.len() as u64,
        offset: from as u64,
        data: whole[from..to].to_vec().into(),
        checksum: xxh3_64(whole),
        identity: request.identity.clone(),
        ..v1::SymbolChunk::default()
    }
}

async fn send(collector: &Collector, piece: v1::SymbolChunk) {
    collector.send(ToDecoder::Symbols(piece)).await;
}

fn objects(folder: &Path, end: &str) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(folder).unwrap();
    let all = all.map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_str().unwrap().ends_with(end))
        .collect()
}

async fn until_there_are(folder: &Path, end: &str, count: usize) {
    crate::harness::within(end, async {
        while objects(folder, end).len() != count {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn of_two_decoders_one_ships_a_table_and_the_other_takes_it_from_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = World::start(shared(folder.path())).await;
    let mut two = World::start(shared(folder.path())).await;
    let (mut first, mut first_conn) = open(&mut one, 1).await;
    let (second, mut second_conn) = open(&mut two, 2).await;
    first.batch(1).await;
    let request = first.asked().await;
    second.batch(1).await; // waits: the lease is the other's
    let whole = named("work", SymbolSource::SymTab).encode();
    send(&first, piece(&request, &whole, 0, whole.len())).await;
    assert_eq!(names(&first_conn.batch().await), ["work"]);
    assert_eq!(names(&second_conn.batch().await), ["work"]);
    assert_eq!(objects(folder.path(), ".symbols").len(), 1);
    assert_eq!(objects(folder.path(), ".lease").len(), 0, "given back");
}

#[tokio::test]
async fn when_a_collector_goes_away_another_goes_on_with_its_upload() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = World::start(shared(folder.path())).await;
    let mut two = World::start(shared(folder.path())).await;
    let (mut first, _conn) = open(&mut one, 1).await;
    let (mut second, mut second_conn) = open(&mut two, 2).await;
    first.batch(1).await;
    let request = first.asked().await;
    let whole = named("work", SymbolSource::SymTab).encode();
    send(&first, piece(&request, &whole, 0, 10)).await;
    until_there_are(folder.path(), ".piece", 1).await;
    second.batch(1).await;
    drop(first);
    let request = second.asked().await;
    assert_eq!((request.offset, request.checksum), (10, xxh3_64(&whole)));
    send(&second, piece(&request, &whole, 10, whole.len())).await;
    assert_eq!(names(&second_conn.batch().await), ["work"]);
    assert_eq!(objects(folder.path(), ".piece").len(), 0, "done with");
}

#[tokio::test]
async fn a_decoder_that_was_killed_in_an_upload_is_succeeded_when_its_lease_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let after = tempfile::tempdir().unwrap();
    let whole = named("work", SymbolSource::SymTab).encode();
    let mut one = World::start(shared(folder.path())).await;
    let (mut first, _conn) = open(&mut one, 1).await;
    first.batch(1).await;
    let request = first.asked().await;
    send(&first, piece(&request, &whole, 0, 10)).await;
    until_there_are(folder.path(), ".piece", 1).await;
    // What a killed one leaves behind: nothing is let go.
    for path in objects(folder.path(), "") {
        std::fs::copy(&path, after.path().join(path.file_name().unwrap())).unwrap();
    }
    drop(one);
    let mut two = World::start(shared(after.path())).await;
    let (mut second, mut second_conn) = open(&mut two, 1).await;
    second.batch(1).await;
    let request = second.asked().await;
    assert_eq!(request.offset, 10);
    send(&second, piece(&request, &whole, 10, whole.len())).await;
    assert_eq!(names(&second_conn.batch().await), ["work"]);
}

#[tokio::test]
async fn a_collector_that_has_no_table_leaves_the_question_to_the_next_one_that_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(shared(folder.path())).await;
    let (mut first, mut first_conn) = open(&mut world, 1).await;
    let (mut second, mut second_conn) = open(&mut world, 2).await;
    first.batch(1).await;
    let request = first.asked().await;
    second.batch(1).await;
    let unavailable = v1::SymbolChunk {
        request: request.request,
        unavailable: "the file is gone".into(),
        ..v1::SymbolChunk::default()
    };
    send(&first, unavailable).await;
    let without = first_conn.batch().await;
    assert_eq!(names(&without), [""]);
    let known = &without.definitions.unwrap().symbols;
    assert_eq!(known[0].reason, "the file is gone");
    assert!(known[0].remedy.contains("symbols add"), "{known:?}");
    let whole = named("work", SymbolSource::SymTab).encode();
    let request = second.asked().await;
    send(&second, piece(&request, &whole, 0, whole.len())).await;
    assert_eq!(names(&second_conn.batch().await), ["work"]);
    // The first one's samples had gone on without: what they hit is told, and it uses the table from now on.
    let told = told(&mut world).await;
    assert_eq!(told, ["work"]);
    until_named(&first, &mut first_conn, "work").await;
}

/// Sends batches until one defines a function of this name.
async fn until_named(collector: &Collector, conn: &mut Conn, name: &str) -> v1::DecodedBatch {
    for number in 2..200 {
        collector.batch(number).await;
        let batch = conn.batch().await;
        if names(&batch).contains(&name) {
            return batch;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("nothing is called {name}");
}

/// Names that were told to what was stored before.
async fn told(world: &mut World) -> Vec<String> {
    let mut conn = world.conn().await;
    assert_eq!(conn.hostname, "", "of no host");
    let batch = conn.batch().await;
    assert!(batch.accesses.is_none() && batch.ledger.is_empty() && batch.host.is_empty());
    conn.answer(FromAggregator::Committed(v1::Committed {
        through: batch.number,
    }))
    .await;
    names(&batch).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_damaged_table_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let whole = named("work", SymbolSource::SymTab).encode();
    for round in 1..=2 {
        let mut world = World::start(shared(folder.path())).await;
        let (mut collector, mut conn) = open(&mut world, round).await;
        collector.batch(1).await;
        let request = collector.asked().await;
        send(&collector, piece(&request, &whole, 0, whole.len())).await;
        assert_eq!(names(&conn.batch().await), ["work"]);
        let kept = objects(folder.path(), ".symbols");
        assert_eq!(kept.len(), 1);
        let mut bytes = std::fs::read(&kept[0]).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&kept[0], bytes).unwrap();
    }
}

#[tokio::test]
async fn without_room_samples_still_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        symbol_bytes_max: 10,
        ..shared(folder.path())
    };
    let mut world = World::start(config).await;
    let (mut collector, mut conn) = open(&mut world, 1).await;
    collector.batch(1).await;
    let request = collector.asked().await;
    let whole = named("work", SymbolSource::SymTab).encode();
    send(&collector, piece(&request, &whole, 0, whole.len())).await;
    assert_eq!(names(&conn.batch().await), ["work"]);
    assert_eq!(objects(folder.path(), ".symbols").len(), 0);
}

async fn bring(url: &str, table: &SymbolTable) -> Result<v1::NamesAdded, tonic::Status> {
    let whole = table.encode();
    let first = v1::NamesPiece {
        identity: Some(v1::MappingIdentity {
            kind: 1,
            id: vec![5; 20],
            path: "/debug/prog".to_owned(),
        }),
        total_bytes: whole.len() as u64,
        data: whole[..10].to_vec().into(),
        checksum: xxh3_64(&whole),
    };
    let second = v1::NamesPiece {
        data: whole[10..].to_vec().into(),
        ..v1::NamesPiece::default()
    };
    let mut client = NamesClient::connect(url.to_owned()).await.unwrap();
    let added = client.add(tokio_stream::iter([first, second])).await?;
    Ok(added.into_inner())
}

#[tokio::test]
async fn symbols_a_person_brings_reach_what_was_stored_and_every_decoder() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = World::start(shared(folder.path())).await;
    let two = World::start(shared(folder.path())).await;
    let (mut collector, mut conn) = open(&mut one, 1).await;
    collector.batch(1).await;
    let request = collector.asked().await;
    let bare = named("", SymbolSource::None).encode();
    send(&collector, piece(&request, &bare, 0, bare.len())).await;
    let before = conn.batch().await;
    assert_eq!(names(&before), [""]);
    let start = before.definitions.unwrap().functions.remove(0);
    assert_eq!((start.start, start.size, start.rank), (0x100, 0x40, 0));

    let mut two = two;
    let url = two.url.clone();
    let table = named("_ZN4prog4workEv", SymbolSource::DebugSymTab);
    let again = table.clone();
    let bringing = tokio::spawn(async move { bring(&url, &table).await });
    assert_eq!(told(&mut two).await, ["prog::work"]);
    let added = bringing.await.unwrap().unwrap();
    assert_eq!(
        (added.rank, added.rank_before, added.functions, added.kept),
        (3, 0, 1, true)
    );
    // The same function as before: what was stored has the name without being written again.
    let after = until_named(&collector, &mut conn, "prog::work").await;
    let after = after.definitions.unwrap().functions.remove(0);
    assert_eq!((after.function_id, after.rank), (start.function_id, 3));
    // Once more is nothing new, and worse names are not taken.
    for table in [again, named("worse", SymbolSource::DynSym)] {
        let added = bring(&two.url, &table).await.unwrap();
        assert_eq!((added.rank_before, added.functions), (3, 0));
    }
}

#[tokio::test]
async fn settings_do_not_wait_for_an_aggregator() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("collectors.toml");
    let says =
        |version: u32| format!("version = {version}\n[[collectors]]\nhosts = \"*\"\nstop = true\n");
    std::fs::write(&file, says(4)).unwrap();
    // A port that nobody listens on.
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let aggregator = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let config = Config {
        aggregators: vec![aggregator],
        collectors_file: file.clone(),
        ..shared(folder.path())
    };
    let stop = memwide_service::CancellationToken::new();
    let _end = stop.clone().drop_guard();
    tokio::spawn(memwide_decoder::serve(config, listener, stop));
    let mut collector = Collector::connect(&url, hello(1)).await;
    for version in [4, 5] {
        std::fs::write(&file, says(version)).unwrap();
        let told = loop {
            match collector.answer().await {
                FromDecoder::Configure(told) if told.version == u64::from(version) => break told,
                FromDecoder::Configure(_) => {}
                other => panic!("no settings: {other:?}"),
            }
        };
        assert!(told.toml.contains("stop = true"), "{told:?}");
    }
}

#[tokio::test]
async fn what_is_no_table_is_refused_with_a_reason() {
    let world = World::start(shared(Path::new(""))).await;
    let mut client = NamesClient::connect(world.url.clone()).await.unwrap();
    let identity = Some(v1::MappingIdentity {
        kind: 1,
        id: vec![5; 20],
        path: String::new(),
    });
    let no_table = v1::NamesPiece {
        identity: identity.clone(),
        total_bytes: 5,
        data: b"hello".to_vec().into(),
        checksum: xxh3_64(b"hello"),
    };
    let cut = v1::NamesPiece {
        total_bytes: 6,
        ..no_table.clone()
    };
    let huge = v1::NamesPiece {
        total_bytes: u64::MAX,
        ..no_table.clone()
    };
    let nothing = v1::NamesPiece {
        identity: None,
        ..no_table.clone()
    };
    for (piece, why) in [
        (no_table, "not a symbol table"),
        (cut, "were announced"),
        (huge, "at most"),
        (nothing, "no file with a build id"),
    ] {
        let refused = client.add(tokio_stream::iter([piece])).await.unwrap_err();
        assert!(refused.message().contains(why), "{refused}");
    }
}

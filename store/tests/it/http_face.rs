use memwide_store::{Advice, Request, Store, StoreError};

use crate::support::{Raw, ask, engine, refusal};

#[tokio::test]
async fn the_clickhouse_crate_reads_and_writes_rows() {
    use clickhouse::{Client, Compression, Row};
    #[derive(Debug, Clone, PartialEq, Row, serde::Serialize, serde::Deserialize)]
    struct Odd {
        i: u64,
        #[serde(with = "serde_bytes_as_string")]
        s: String,
        o: Option<u32>,
        a: Vec<u64>,
    }
    mod serde_bytes_as_string {
        pub(super) fn serialize<S: serde::Serializer>(
            text: &str,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            to.serialize_str(text)
        }
        pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
            from: D,
        ) -> Result<String, D::Error> {
            serde::Deserialize::deserialize(from)
        }
    }
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    store
        .execute("CREATE TABLE odd (i UInt64, s String, o Nullable(UInt32), a Array(UInt64)) ENGINE = MergeTree ORDER BY i")
        .await
        .unwrap();
    let rows: Vec<Odd> = (0..20_000_u64)
        .map(|i| Odd {
            i,
            s: format!("line\n\n;{i}'\0\\"),
            o: (i % 3 == 0).then_some(7),
            a: (0..i % 5).collect(),
        })
        .collect();
    for compression in [Compression::None, Compression::Lz4] {
        for validation in [false, true] {
            let client = Client::default()
                .with_url(&engine.child.url)
                .with_user(memwide_store::engine::WRITER)
                .with_password(&engine.child.passwords.writer)
                .with_database("memwide")
                .with_compression(compression)
                .with_validation(validation);
            client.query("TRUNCATE TABLE odd").execute().await.unwrap();
            let mut insert = client.insert::<Odd>("odd").await.unwrap();
            for row in &rows {
                insert.write(row).await.unwrap();
            }
            insert.end().await.unwrap();
            let back = client
                .query("SELECT ?fields FROM odd ORDER BY i")
                .fetch_all::<Odd>()
                .await
                .unwrap();
            assert!(back == rows, "{compression:?} {validation}");
            let bound = client
                .query("SELECT {x:UInt64} + 1, {y:String}")
                .param("x", 41_u64)
                .param("y", "a'b\n\t\\");
            assert_eq!(
                bound.fetch_one::<(u64, String)>().await.unwrap(),
                (42, "a'b\n\t\\".to_owned())
            );
        }
    }
}

#[tokio::test]
async fn bound_values_and_settings_arrive() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let hostile = "a'b\\c\n\t\0' OR 1";
    let request = Request::new(
        "SELECT {x:String} AS x, length(x), getSetting('max_threads')",
        "JSONEachRow",
    );
    let answer = store
        .query(request.param("x", hostile).setting("max_threads", 1))
        .await
        .unwrap();
    let row: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(row["x"], hostile);
    assert_eq!(row["getSetting('max_threads')"], 1);
}

#[tokio::test]
async fn typed_rows_keep_64_bits() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Row {
        big: u64,
        name: String,
    }
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let rows: Vec<Row> = store
        .rows(Request::new(
            "SELECT 18446744073709551615 AS big, 'a\\nb' AS name",
            "",
        ))
        .await
        .unwrap();
    assert_eq!(
        rows,
        [Row {
            big: u64::MAX,
            name: "a\nb".into()
        }]
    );
}

#[tokio::test]
async fn errors_have_a_code_a_status_and_advice() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    for (sql, code, advice) in [
        ("SELECT nope", 47, Advice::Permanent),
        ("SELEC 1", 62, Advice::Permanent),
        ("SELECT * FROM nope", 60, Advice::Permanent),
        (
            "SELECT * FROM system.numbers SETTINGS max_execution_time = 1, max_block_size = 1000",
            159,
            Advice::Retry,
        ),
        (
            "SELECT groupArray(number) FROM numbers(100000000) SETTINGS max_memory_usage = 10000000",
            241,
            Advice::Retry,
        ),
    ] {
        match store.query(Request::new(sql, "Native")).await {
            Err(error @ StoreError::Exception { code: got, .. }) => {
                assert_eq!(
                    (got, error.advice()),
                    (Some(code), advice),
                    "{sql}: {error}"
                );
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
    let raw = Raw::connect(&engine.child).await;
    let answer = raw
        .ask("POST", "/?database=memwide", "", b"SELECT * FROM nope")
        .await
        .to_ascii_lowercase();
    assert!(
        answer.starts_with("http/1.1 404") && answer.contains("x-clickhouse-exception-code: 60"),
        "{answer}"
    );
}

#[tokio::test]
async fn an_error_in_mid_answer_is_seen() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let sql = "SELECT throwIf(number = 900000), number FROM numbers(1000000) SETTINGS max_block_size = 65000";
    for format in ["RowBinary", "TabSeparated", "Native", "JSONEachRow"] {
        let error = store
            .query(Request::new(sql, format))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
            "{format}: {error}"
        );
    }
}

#[tokio::test]
async fn large_answers_are_whole_in_every_way() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let sql = "SELECT number FROM numbers(300000)";
    let expected = (0..300_000).fold(String::new(), |text, i| text + &i.to_string() + "\n");
    assert!(
        store
            .query(Request::new(sql, "TabSeparated"))
            .await
            .unwrap()
            == expected.as_bytes()
    );
    let packed = clickhouse::Client::default()
        .with_url(&engine.child.url)
        .with_user(memwide_store::engine::WRITER)
        .with_password(&engine.child.passwords.writer)
        .with_compression(clickhouse::Compression::Lz4);
    assert!(
        packed
            .query(sql)
            .fetch_bytes("TabSeparated")
            .unwrap()
            .collect()
            .await
            .unwrap()
            == expected.as_bytes()
    );
    let json = store.query(Request::new(sql, "JSONCompact")).await.unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["rows"], 300_000);
    let limited = store
        .query(Request::new(sql, "TabSeparated").answer_bytes(1000))
        .await;
    assert!(matches!(
        limited,
        Err(StoreError::AnswerTooLarge { limit_bytes: 1000 })
    ));
}

#[tokio::test]
async fn one_statement_and_no_files() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    for sql in [
        "SELECT 1; SELECT 2".to_owned(),
        format!("SELECT 1 INTO OUTFILE '{}'", target.display()),
        "INSERT INTO t FROM INFILE '/etc/passwd' FORMAT LineAsString".to_owned(),
        "1 + 1".to_owned(),
    ] {
        let error = refusal(&store, &sql).await;
        assert!(error.contains("SYNTAX_ERROR"), "{sql}: {error}");
    }
    assert!(!target.exists());
}

#[tokio::test]
async fn only_those_who_know_a_password_are_served() {
    let Some(engine) = engine().await else { return };
    for (user, password) in [
        ("memwide", ""),
        ("default", ""),
        ("reader", "x"),
        ("memwide", engine.child.passwords.reader.as_str()),
    ] {
        let store = Store::connect(&engine.child.url, user, password, "memwide").unwrap();
        let error = store.ping().await.unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Exception {
                    code: Some(516),
                    ..
                }
            ),
            "{user}: {error:?}"
        );
        assert_eq!(error.advice(), Advice::Permanent);
    }
}

#[tokio::test]
async fn curl_like_requests_work() {
    let Some(engine) = engine().await else { return };
    let store = engine.empty().await;
    store
        .execute("CREATE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
        .await
        .unwrap();
    let post = async |target: &str, body: &[u8]| {
        Raw::connect(&engine.child)
            .await
            .ask("POST", target, "", body)
            .await
    };
    let get = async |target: &str| {
        Raw::connect(&engine.child)
            .await
            .ask("GET", target, "", b"")
            .await
    };

    assert!(get("/ping").await.ends_with("Ok.\n"));
    assert!(get("/").await.ends_with("Ok.\n"));
    assert!(get("/nothing").await.starts_with("HTTP/1.1 404"));
    // All in the body; the statement in the URL and the data in the body; values in the statement.
    post("/?database=memwide", b"INSERT INTO t FORMAT TSV\n1\tx\n").await;
    post(
        "/?database=memwide&query=INSERT+INTO+t+FORMAT+CSV",
        b"2,\"y;\n\n\"\n",
    )
    .await;
    post("/?database=memwide", b"INSERT INTO t VALUES (3, 'z;')").await;
    assert_eq!(
        ask(
            &store,
            "SELECT groupArray((a, b)) FROM (SELECT * FROM t ORDER BY a)"
        )
        .await,
        "[(1,'x'),(2,'y;\\n\\n'),(3,'z;')]"
    );
    assert!(
        get("/?database=memwide&query=SELECT+count()+FROM+t&default_format=JSON")
            .await
            .contains("\"count()\": 3")
    );
    let refused = get("/?database=memwide&query=DROP+TABLE+t").await;
    assert!(
        refused.contains("Code: 164"),
        "GET changes nothing: {refused}"
    );
    let unknown = post("/?no_such_setting=1", b"SELECT 1").await;
    assert!(unknown.contains("Code: 115"), "{unknown}");
}

#[tokio::test]
async fn an_external_store_is_one_url() {
    let Some(engine) = engine().await else { return };
    let address = engine.child.url.trim_start_matches("http://");
    let url = format!(
        "http://{}:{}@{address}/elsewhere",
        memwide_store::engine::WRITER,
        engine.child.passwords.writer
    );
    let store = Store::from_url(&url).unwrap();
    assert_eq!(store.database(), "elsewhere");
    store.ping().await.unwrap();
    // The engine grants nothing outside of its own databases.
    assert!(
        refusal(&store, "CREATE DATABASE elsewhere")
            .await
            .contains("Code: ")
    );
    let nobody = Store::from_url("http://127.0.0.1:1/memwide").unwrap();
    assert_eq!(nobody.ping().await.unwrap_err().advice(), Advice::Retry);
}

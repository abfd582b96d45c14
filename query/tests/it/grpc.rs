//! gRPC gives what HTTP gives, on the same port.

use memwide_proto::v1::query_client::QueryClient;
use memwide_proto::v1::{self, value};
use serde_json::{Value as Json, json};
use tonic::Code;

use crate::support::{Running, forget_now, running};
use crate::truth::{ALL, BEGIN};

/// A message as HTTP's JSON would be.
fn as_json(answer: &v1::Answer) -> Json {
    let columns = |columns: &[v1::Column]| -> Json {
        let column = |column: &v1::Column| json!({"name": column.name, "type": column.r#type, "unit": column.unit});
        columns.iter().map(column).collect()
    };
    let cell = |value: &v1::Value| match &value.value {
        None => Json::Null,
        Some(value::Value::Text(text)) => json!(text),
        Some(value::Value::Number(number)) => json!(number),
        Some(value::Value::Real(real)) => json!(real),
        Some(value::Value::Flag(flag)) => json!(flag),
    };
    let rows = |rows: &[v1::Row]| -> Json {
        let row = |row: &v1::Row| row.values.iter().map(cell).collect::<Json>();
        rows.iter().map(row).collect()
    };
    let part = |part: &v1::Part| json!({"name": part.name, "columns": columns(&part.columns), "rows": rows(&part.rows)});
    let complete = answer.completeness.clone().unwrap();
    let tiers = complete.tiers.iter();
    let tiers: Vec<Json> = tiers
        .map(|one| json!({"tier": one.tier, "samples": one.samples}))
        .collect();
    json!({
        "columns": columns(&answer.columns),
        "rows": rows(&answer.rows),
        "parts": answer.parts.iter().map(part).collect::<Json>(),
        "other": answer.other.map(|other| json!({"rows": other.rows, "samples": other.samples})),
        "completeness": {
            "hosts_seen": complete.hosts_seen,
            "hosts_expected": complete.hosts_expected,
            "samples_stored": complete.samples_stored,
            "samples_named": complete.samples_named,
            "samples_produced": complete.samples_produced,
            "tiers": tiers,
            "since": complete.since, "until": complete.until,
            "samples_in_range": complete.samples_in_range,
            "blind_seconds": complete.blind_seconds,
            "stopped_seconds": complete.stopped_seconds,
            "stopped_cpu_seconds": complete.stopped_cpu_seconds,
            "missing": complete.missing,
        },
        "source_table": answer.source_table,
        "notes": answer.notes,
    })
}

fn all() -> v1::Filter {
    let second = 1_000_000_000;
    v1::Filter {
        since_wall_ns: u64::from(BEGIN) * second,
        until_wall_ns: (u64::from(BEGIN) + 7_200) * second,
        ..v1::Filter::default()
    }
}

/// Equal, but for the last digit of reals that went through a text.
#[track_caller]
fn same(one: &Json, other: &Json) {
    match (one, other) {
        (Json::Array(ones), Json::Array(others)) if ones.len() == others.len() => {
            ones.iter()
                .zip(others)
                .for_each(|(one, other)| same(one, other));
        }
        (Json::Object(ones), Json::Object(others)) if ones.len() == others.len() => {
            ones.iter().for_each(|(name, one)| same(one, &others[name]));
        }
        (Json::Number(one), Json::Number(other)) if one.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            assert!((one - other).abs() <= 1e-14 * one.abs(), "{one} {other}");
        }
        _ => assert_eq!(one, other),
    }
}

/// Without links: they are addresses of HTTP.
async fn http(running: &Running, path: &str) -> Json {
    let mut answer = running.get(&format!("/api/v1/{path}")).await.json();
    assert!(answer.as_object_mut().unwrap().remove("links").is_some());
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_gives_what_http_gives() {
    let Some(running) = running().await else {
        return;
    };
    let mut client = QueryClient::connect(running.url.clone()).await.unwrap();
    let remote = v1::Filter {
        locality: vec!["remote".into()],
        limit: 7,
        ..all()
    };
    let request = v1::FunctionsRequest {
        filter: Some(remote),
        by: "weight".into(),
        per_host: true,
    };
    let answer = client.functions(request).await.unwrap().into_inner();
    let path = format!("functions?{ALL}&locality=remote&limit=7&by=weight&per_host=true");
    same(&as_json(&answer), &http(&running, &path).await);

    let request = v1::BreakdownRequest {
        filter: Some(all()),
        by: vec!["level".into(), "host".into()],
    };
    let answer = client.breakdown(request).await.unwrap().into_inner();
    same(
        &as_json(&answer),
        &http(&running, &format!("breakdown?{ALL}&by=level,host")).await,
    );
    let request = v1::NumaRequest {
        filter: Some(all()),
        by: "weight".into(),
    };
    let answer = client.numa(request).await.unwrap().into_inner();
    assert!(answer.parts.len() > 3 && !answer.parts[0].rows.is_empty());
    same(
        &as_json(&answer),
        &http(&running, &format!("numa?{ALL}&by=weight")).await,
    );
    further(&running, &mut client).await;
    let answer = client
        .hosts(v1::HostsRequest {
            filter: Some(all()),
        })
        .await
        .unwrap()
        .into_inner();
    let answers = [
        as_json(&answer),
        http(&running, &format!("hosts?{ALL}")).await,
    ];
    let [ours, theirs] = answers.map(|mut answer| {
        let columns = answer["columns"].clone();
        forget_now(&columns, &mut answer["rows"]);
        answer
    });
    same(&ours, &theirs);
    let answer = client
        .ledger(v1::LedgerRequest {
            filter: Some(all()),
        })
        .await
        .unwrap()
        .into_inner();
    same(
        &as_json(&answer),
        &http(&running, &format!("ledger?{ALL}")).await,
    );

    let request = v1::SqlRequest {
        query: "SELECT {a:UInt8} AS a".into(),
        params: [("a".to_owned(), "7".to_owned())].into(),
        format: "csv".into(),
    };
    let answer = client.sql(request).await.unwrap().into_inner();
    assert_eq!(answer.data, b"\"a\"\n7\n");
    let status = client
        .status(v1::StatusRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(
        status.ready && status.detail_json.contains("reachable"),
        "{status:?}"
    );

    let refused = async |request: v1::SqlRequest| {
        let mut client = client.clone();
        client.sql(request).await.unwrap_err()
    };
    let attack = v1::SqlRequest {
        query: "SELECT * FROM file('/etc/passwd')".into(),
        ..v1::SqlRequest::default()
    };
    assert_eq!(refused(attack).await.code(), Code::PermissionDenied);
    let filter = v1::Filter {
        tier: vec!["best".into()],
        ..all()
    };
    let request = v1::FunctionsRequest {
        filter: Some(filter),
        ..v1::FunctionsRequest::default()
    };
    let error = client.functions(request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(
        error
            .message()
            .contains("`tier` does not take `best`; use one of software"),
        "{}",
        error.message()
    );
    let filter = v1::Filter {
        function: vec!["f".into()],
        ..all()
    };
    let error = client
        .hosts(v1::HostsRequest {
            filter: Some(filter),
        })
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    drop(client);
    running.stop().await;
}

/// Questions that came later, one by one.
async fn further(running: &Running, client: &mut QueryClient<tonic::transport::Channel>) {
    let filter = || Some(v1::Filter { limit: 9, ..all() });
    macro_rules! check {
        ($call:ident, $request:ident { $($field:ident: $value:expr),* }, $url:literal) => {
            let request = v1::$request { filter: filter(), $($field: $value,)* };
            let answer = client.$call(request).await.unwrap().into_inner();
            assert!(!answer.rows.is_empty(), "{}", $url);
            same(&as_json(&answer), &http(running, &format!("{}&limit=9", $url.replace("{}", ALL))).await);
        };
    }
    check!(
        latency,
        LatencyRequest {
            by: vec!["host".into(), "level".into()]
        },
        "latency?{}&by=host,level"
    );
    check!(
        data,
        DataRequest {
            by: "weight".into(),
            per_function: true
        },
        "data?{}&by=weight&per_function=1"
    );
    check!(pages, PagesRequest {}, "pages?{}");
    check!(lines, LinesRequest {}, "lines?{}");
    check!(
        flamegraph,
        FlamegraphRequest {
            by: String::new(),
            one_event: false
        },
        "flamegraph?{}"
    );
    check!(
        annotate,
        AnnotateRequest {
            by: "est_events".into()
        },
        "annotate?{}&by=est_events"
    );
    check!(faults, FaultsRequest {}, "faults?{}");
    check!(kernel, KernelRequest {}, "kernel?{}");
    // Nothing of theirs is among the known samples.
    macro_rules! without_rows {
        ($call:ident, $request:ident, $url:literal) => {
            let request = v1::$request { filter: filter() };
            let answer = client.$call(request).await.unwrap().into_inner();
            assert!(answer.rows.is_empty(), "{}", $url);
            same(
                &as_json(&answer),
                &http(running, &format!("{}&limit=9", $url.replace("{}", ALL))).await,
            );
        };
    }
    without_rows!(allocs, AllocsRequest, "allocs?{}");
    without_rows!(offcpu, OffcpuRequest, "offcpu?{}");
    check!(
        diff,
        DiffRequest {
            before_since_wall_ns: u64::from(BEGIN) * 1_000_000_000,
            before_until_wall_ns: (u64::from(BEGIN) + 3_600) * 1_000_000_000,
            before_build_id: Vec::new(),
            before_host: vec!["alpha".into(), "beta".into()]
        },
        "diff?{}&before_since=2026-11-20T10:00:00Z&before_until=2026-11-20T11:00:00Z&before_host=alpha,beta"
    );
}

//! `memwide boost`: some processes of live hosts are sampled more often for a while.

use super::import::ingest_endpoint;
use crate::cli::BoostArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Column, Table};
use anyhow::Context as _;
use memwide_proto::v1;
use memwide_proto::v1::boosts_client::BoostsClient;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn run(args: &BoostArgs) -> Result<(), Failure> {
    let decoders = if args.decoders.is_empty() {
        let client = Client::new(&args.server.server);
        vec![ingest_endpoint(&client, &args.server.server)?]
    } else {
        args.decoders.clone()
    };
    let request = request(args);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut hosts = BTreeMap::new();
    for decoder in &decoders {
        let answer = runtime.block_on(ask(decoder, args.token.as_deref(), request.clone()))?;
        for host in answer.hosts {
            // A host that has just moved from one decoder to another is told twice.
            let entry = hosts
                .entry(host.host.clone())
                .or_insert_with(|| host.clone());
            if host.applied {
                *entry = host;
            }
        }
    }
    if hosts.is_empty() {
        return Err(anyhow::anyhow!(
            "no live host is called `{}` at {}; `memwide hosts` lists them",
            args.host,
            decoders.join(", ")
        )
        .into());
    }
    table(hosts.values()).print(args.format)?;
    let refused = hosts.values().filter(|host| !host.applied).count();
    if refused > 0 {
        return Err(anyhow::anyhow!("{refused} of {} hosts do not", hosts.len()).into());
    }
    Ok(())
}

fn request(args: &BoostArgs) -> v1::BoostRequest {
    let pid = args.pid.map(|pid| pid.to_string());
    let rules = [
        ("pod", &args.pod),
        ("container", &args.container),
        ("namespace", &args.namespace),
        ("service", &args.service),
        ("cgroup", &args.cgroup),
        ("comm", &args.comm),
        ("pid", &pid),
    ];
    let rules = rules
        .into_iter()
        .filter_map(|(key, pattern)| Some(format!("{key}={}", pattern.as_ref()?)));
    v1::BoostRequest {
        hosts: args.host.clone(),
        boost: Some(v1::Boost {
            id: 0,
            select: rules.collect(),
            factor: args.factor,
            seconds: if args.end { 0 } else { args.seconds },
        }),
    }
}

async fn ask(
    decoder: &str,
    token: Option<&str>,
    request: v1::BoostRequest,
) -> anyhow::Result<v1::BoostAnswer> {
    let mut request = tonic::Request::new(request);
    if let Some(token) = token {
        let shown = format!("Bearer {token}").parse();
        let shown = shown.context("the token has characters that cannot be sent")?;
        request.metadata_mut().insert("authorization", shown);
    }
    let mut client = BoostsClient::connect(decoder.to_owned())
        .await
        .with_context(|| format!("no decoder answers at {decoder}"))?;
    let answer = client.ask(request).await;
    let answer = answer.map_err(|status| anyhow::anyhow!("{}", status.message()))?;
    Ok(answer.into_inner())
}

fn table<'a>(hosts: impl Iterator<Item = &'a v1::BoostedHost>) -> Table {
    let rows = hosts.map(|host| {
        vec![
            Value::from(host.host.as_str()),
            Value::from(host.applied),
            Value::from(host.message.as_str()),
        ]
    });
    Table {
        columns: ["host", "applied", "says"]
            .map(|name| Column::new(name, ""))
            .into(),
        rows: rows.collect(),
        ..Table::default()
    }
}

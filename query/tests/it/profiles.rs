//! Exports for the Firefox profiler and OpenTelemetry: held to what each format demands, and to what is answered.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development as otlp;
use prost::Message as _;
use serde_json::Value as Json;

use crate::support::{Running, running};
use crate::truth::ALL;

/// Paths and values as `folded` has them.
async fn folded(running: &Running, asked: &str) -> BTreeMap<String, i64> {
    let reply = running.get(&format!("/api/v1/export/folded?{asked}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let text = reply.text();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    lines
        .map(|(path, value)| (path.to_owned(), value.parse().unwrap()))
        .collect()
}

/// Every column of a table is as long as it says.
fn columns_are_equally_long(table: &Json) {
    let length = usize::try_from(table["length"].as_u64().unwrap()).unwrap();
    for (name, column) in table.as_object().unwrap() {
        if let Some(column) = column.as_array() {
            assert_eq!(column.len(), length, "{name}");
        }
    }
}

fn indexes(column: &Json) -> Vec<Option<usize>> {
    let column = column.as_array().unwrap().iter();
    let index = |at: &Json| at.as_u64().map(|at| usize::try_from(at).unwrap());
    column.map(index).collect()
}

/// The frames of each stack, outermost first, by the tables alone.
fn stacks(shared: &Json) -> Vec<String> {
    let names = shared["stringArray"].as_array().unwrap();
    let name_of_function = indexes(&shared["funcTable"]["name"]);
    let function_of_frame = indexes(&shared["frameTable"]["func"]);
    let prefixes = indexes(&shared["stackTable"]["prefix"]);
    let frames = indexes(&shared["stackTable"]["frame"]);
    let mut paths: Vec<String> = Vec::new();
    for (at, (prefix, frame)) in prefixes.iter().zip(&frames).enumerate() {
        let name = name_of_function[function_of_frame[frame.unwrap()].unwrap()].unwrap();
        let name = names[name].as_str().unwrap();
        paths.push(match prefix {
            Some(prefix) => {
                assert!(*prefix < at, "callers come before those they call");
                format!("{};{name}", paths[*prefix])
            }
            None => name.to_owned(),
        });
    }
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn firefox_profiles_have_whole_tables_and_hold_what_is_answered() {
    let Some(running) = running().await else {
        return;
    };
    for by in ["samples", "weight"] {
        let asked = format!("{ALL}&by={by}");
        let url = format!("/api/v1/export/firefox?{asked}");
        let reply = running.get(&url).await;
        assert_eq!(reply.content_type, "application/json");
        let profile = reply.json();
        let shared = &profile["shared"];
        for table in [
            "stackTable",
            "frameTable",
            "funcTable",
            "resourceTable",
            "nativeSymbols",
            "sources",
        ] {
            columns_are_equally_long(&shared[table]);
        }
        let grey = |category: &Json| category["color"] == "grey";
        assert!(
            profile["meta"]["categories"]
                .as_array()
                .unwrap()
                .iter()
                .any(grey)
        );
        let stacks = stacks(shared);
        let speedscope = running
            .get(&format!("/api/v1/export/speedscope?{asked}"))
            .await
            .json();
        let sums = speedscope["profiles"].as_array().unwrap();
        let threads = profile["threads"].as_array().unwrap();
        assert_eq!(threads.len(), sums.len());
        for (thread, sum) in threads.iter().zip(sums) {
            assert_eq!(thread["name"], sum["name"]);
            columns_are_equally_long(&thread["samples"]);
            columns_are_equally_long(&thread["markers"]);
            let weights = thread["samples"]["weight"].as_array().unwrap().iter();
            let weight: f64 = weights.map(|weight| weight.as_f64().unwrap()).sum();
            let is_time = thread["samples"]["weightType"] == "tracing-ms";
            let expected = sum["endValue"].as_f64().unwrap() / if is_time { 1e6 } else { 1.0 };
            assert!(
                (weight - expected).abs() <= 1e-9 * expected,
                "{weight} is not {expected}"
            );
        }
        // One thread in full: paths and values are those of the folded stacks.
        let event = "mem-loads,ldlat=30";
        let of = threads
            .iter()
            .find(|thread| thread["name"].as_str().unwrap().starts_with(event));
        let samples = &of.unwrap()["samples"];
        let values = samples["weight"].as_array().unwrap().iter();
        let paths = indexes(&samples["stack"]).into_iter();
        let found: BTreeMap<String, i64> = paths
            .zip(values)
            .map(|(stack, value)| {
                (
                    stacks[stack.unwrap()].clone(),
                    format!("{:.0}", value.as_f64().unwrap()).parse().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            found,
            folded(&running, &format!("{asked}&event={event}")).await
        );
    }
    running.stop().await;
}

/// What profiles point into.
struct Tables(otlp::ProfilesDictionary);

impl Tables {
    fn text(&self, at: i32) -> &str {
        &self.0.string_table[usize::try_from(at).unwrap()]
    }

    /// Frames, outermost first.
    fn path(&self, stack: i32) -> String {
        let stack = &self.0.stack_table[usize::try_from(stack).unwrap()];
        let frames = stack.location_indices.iter().rev().map(|location| {
            let location = &self.0.location_table[usize::try_from(*location).unwrap()];
            let function = usize::try_from(location.lines[0].function_index).unwrap();
            self.text(self.0.function_table[function].name_strindex)
        });
        frames.collect::<Vec<&str>>().join(";")
    }

    fn attributes(&self, indexes: &[i32]) -> BTreeMap<&str, String> {
        let attributes = indexes.iter().map(|at| {
            let attribute = &self.0.attribute_table[usize::try_from(*at).unwrap()];
            let value = attribute.value.clone().unwrap().value.unwrap();
            let Value::StringValue(value) = value else {
                panic!("{value:?} is no text");
            };
            (self.text(attribute.key_strindex), value)
        });
        attributes.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn opentelemetry_profiles_are_read_by_the_protocol_and_hold_what_is_answered() {
    let Some(running) = running().await else {
        return;
    };
    let url = format!("/api/v1/export/otlp?{ALL}&by=weight&host=alpha,beta");
    let reply = running.get(&url).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.content_type, "application/x-protobuf");
    let data = otlp::ProfilesData::decode(&reply.body[..]).unwrap();
    let dictionary = data.dictionary.unwrap();
    // The first row of each table is the empty one.
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.mapping_table[0], otlp::Mapping::default());
    assert_eq!(dictionary.location_table[0], otlp::Location::default());
    assert_eq!(dictionary.function_table[0], otlp::Function::default());
    assert_eq!(
        dictionary.attribute_table[0],
        otlp::KeyValueAndUnit::default()
    );
    assert_eq!(dictionary.stack_table[0], otlp::Stack::default());
    assert_eq!(dictionary.link_table[0].trace_id, [0; 16]);
    let tables = Tables(dictionary);
    let [of] = &data.resource_profiles[..] else {
        panic!("{} resources", data.resource_profiles.len());
    };
    let attributes = &of.resource.as_ref().unwrap().attributes;
    let filter = attributes
        .iter()
        .find(|known| known.key == "memwide.filter.host");
    assert!(format!("{filter:?}").contains("beta"), "{attributes:?}");
    let [scope] = &of.scope_profiles[..] else {
        panic!("{} scopes", of.scope_profiles.len());
    };
    assert_eq!(scope.scope.as_ref().unwrap().name, "memwide");
    let mut seen = Vec::new();
    for profile in &scope.profiles {
        assert!(profile.duration_nano > 0 && profile.time_unix_nano > 0);
        let labels = tables.attributes(&profile.attribute_indices);
        let (event, by) = (&labels["memwide.event"], &labels["memwide.estimator"]);
        let of = profile.sample_type.as_ref().unwrap();
        assert_eq!(tables.text(of.type_strindex), by);
        let unit = tables.text(of.unit_strindex);
        seen.push(format!("{event} {} {by} {unit}", labels["memwide.tier"]));
        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        for sample in &profile.samples {
            *found.entry(tables.path(sample.stack_index)).or_default() += sample.values[0];
        }
        let asked = format!("{ALL}&host=alpha,beta&by={by}&event={event}");
        assert_eq!(found, folded(&running, &asked).await, "{event} by {by}");
    }
    assert!(seen[0].ends_with("precise weight cycles"), "{seen:?}");
    assert!(
        seen.iter()
            .any(|profile| profile == "mem-loads,ldlat=30 precise samples count"),
        "{seen:?}"
    );
    assert!(
        seen.iter()
            .any(|profile| profile.ends_with("software est_events count")),
        "{seen:?}"
    );
    running.stop().await;
}

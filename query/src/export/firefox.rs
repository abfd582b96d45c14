//! The Firefox profiler's processed profile, one thread an event.
//!
//! Version 60: the first with tables shared by all threads; the profiler upgrades what is older than itself. Sums of paths
//! have no time of their own: a path is one sample with its value as weight, and the time axis is the order of paths.
//!
//! ```text
//! threads[].samples.stack ─▶ stackTable.{prefix, frame} ─▶ frameTable.func ─▶ funcTable.name ─▶ stringArray
//! ```

use serde_json::{Value as Json, json};

use super::numbered::Numbered;
use super::{Event, Selection, events};
use crate::answer::Answer;

/// Version of the processed format.
const VERSION: u32 = 60;
/// Version of the format of Firefox itself at that time.
const GECKO_VERSION: u32 = 32;

/// The document; weights are of the estimator asked by.
pub(crate) fn firefox(answer: &Answer, selection: &Selection) -> Json {
    let events = events(answer, selection.by.name());
    // A frame is a function: places within functions are not what a path is made of.
    let mut functions: Numbered<String> = Numbered::new();
    let mut stacks: Numbered<(Option<usize>, usize)> = Numbered::new();
    let threads: Vec<Json> = events
        .iter()
        .enumerate()
        .map(|(at, event)| {
            let stack = |path: &super::Path| {
                path.frames.iter().fold(None, |prefix, frame| {
                    Some(stacks.number(&(prefix, functions.number(frame))))
                })
            };
            let of: Vec<Option<usize>> = event.paths.iter().map(stack).collect();
            thread(at, event, &of, selection)
        })
        .collect();
    let (prefixes, frames): (Vec<Option<usize>>, Vec<usize>) = stacks.all().iter().copied().unzip();
    let many = functions.all().len();
    let numbers: Vec<usize> = (0..many).collect();
    let none = vec![Json::Null; many];
    json!({
        "meta": meta(answer, selection),
        "libs": [],
        "pages": [],
        "shared": {
            "stringArray": functions.all(),
            "stackTable": { "prefix": prefixes, "frame": frames, "length": frames.len() },
            "frameTable": {
                "address": vec![-1; many], "inlineDepth": vec![0; many], "category": vec![0; many], "subcategory": vec![0; many],
                "func": numbers, "nativeSymbol": none, "innerWindowID": none, "line": none, "column": none, "length": many,
            },
            "funcTable": {
                "name": numbers, "isJS": vec![false; many], "relevantForJS": vec![false; many], "resource": vec![-1; many],
                "source": none, "lineNumber": none, "columnNumber": none, "length": many,
            },
            "resourceTable": { "lib": [], "name": [], "host": [], "type": [], "length": 0 },
            "nativeSymbols": { "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0 },
            "sources": { "uuid": [], "filename": [], "length": 0 },
        },
        "threads": threads,
    })
}

fn thread(at: usize, event: &Event, stacks: &[Option<usize>], selection: &Selection) -> Json {
    // Besides milliseconds and bytes the format knows no units: the thread's name has it.
    let is_time = event.unit == "ns";
    let weights = event.paths.iter().map(|path| path.value);
    let weights: Vec<f64> = weights
        .map(|value| if is_time { value / 1e6 } else { value })
        .collect();
    let many = stacks.len();
    json!({
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "name": event.title(selection.by.name()),
        "isMainThread": true,
        "pid": at.to_string(),
        "tid": at,
        "samples": {
            "stack": stacks,
            "time": (0..many).collect::<Vec<usize>>(),
            "weight": weights,
            "weightType": if is_time { "tracing-ms" } else { "samples" },
            "length": many,
        },
        "markers": { "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0 },
    })
}

/// What the profile is of, and what a reader must know.
fn meta(answer: &Answer, selection: &Selection) -> Json {
    let entry =
        |label: &str, value: String| json!({ "label": label, "format": "string", "value": value });
    let mut entries = vec![entry("range", selection.range.to_string())];
    let filters = selection.filters.iter();
    entries.extend(filters.map(|(name, values)| entry(name, values.join(", "))));
    entries.push(entry("estimator", selection.by.name().to_owned()));
    entries.push(entry(
        "completeness",
        answer.completeness.to_json().to_string(),
    ));
    if let Some(other) = &answer.other {
        let cut = format!("{} paths with {} samples", other.rows, other.samples);
        entries.push(entry("cut", cut));
    }
    entries.push(entry(
        "time axis",
        "the order of paths: sums have no time of their own".to_owned(),
    ));
    entries.extend(answer.notes.iter().map(|note| entry("note", note.clone())));
    json!({
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "product": "memwide",
        "importedFrom": "memwide",
        "interval": 1,
        "startTime": selection.range.since_ns / 1_000_000,
        "processType": 0,
        "stackwalk": 0,
        "symbolicated": true,
        "markerSchema": [],
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "extra": [{ "label": "memwide", "entries": entries }],
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, selection};
    use super::*;
    use crate::ask::Estimator;

    #[test]
    fn paths_are_samples_of_a_thread_for_each_event_and_share_stacks() {
        let document = firefox(&answer(), &selection(Estimator::Weight));
        let shared = &document["shared"];
        assert_eq!(shared["stringArray"], json!(["main", "f", "f\n g"]));
        assert_eq!(
            shared["stackTable"],
            json!({ "prefix": [null, 0, 0], "frame": [0, 1, 2], "length": 3 })
        );
        let threads = document["threads"].as_array().unwrap();
        let names: Vec<&Json> = threads.iter().map(|thread| &thread["name"]).collect();
        assert_eq!(
            names,
            [
                "loads (precise, weight [cycles])",
                "stores (precise, weight [cycles])"
            ]
        );
        assert_eq!(threads[0]["samples"]["stack"], json!([1, 2]));
        assert_eq!(threads[0]["samples"]["weight"], json!([90.0, 7.0]));
        assert_eq!(threads[1]["samples"]["stack"], json!([0]));
        let entries = document["meta"]["extra"][0]["entries"].to_string();
        for told in ["a note", "1 paths with 4 samples", "\"host\"", "a, b"] {
            assert!(entries.contains(told), "{told} in {entries}");
        }
    }
}

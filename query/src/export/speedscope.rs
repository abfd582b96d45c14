//! speedscope's JSON: one profile an event, frames shared.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::events;
use crate::answer::Answer;

/// The document; weights are of the column `by`.
pub(crate) fn speedscope(answer: &Answer, by: &str) -> Json {
    let events = events(answer, by);
    let mut frames: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names: Vec<Json> = Vec::new();
    let mut profiles: Vec<Json> = Vec::new();
    for event in &events {
        let mut samples: Vec<Vec<usize>> = Vec::new();
        let mut weights: Vec<f64> = Vec::new();
        for path in &event.paths {
            let numbers = path.frames.iter().map(|frame| {
                *frames.entry(frame).or_insert_with(|| {
                    names.push(json!({ "name": frame }));
                    names.len() - 1
                })
            });
            samples.push(numbers.collect());
            weights.push(path.value);
        }
        profiles.push(json!({
            "type": "sampled",
            "name": event.title(by),
            "unit": if event.unit == "ns" { "nanoseconds" } else { "none" },
            "startValue": 0,
            "endValue": weights.iter().sum::<f64>(),
            "samples": samples,
            "weights": weights,
        }));
    }
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "memwide",
        "shared": { "frames": names },
        "profiles": profiles,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::answer;
    use super::*;

    #[test]
    fn each_event_is_a_profile_and_weights_end_where_they_say() {
        let document = speedscope(&answer(), "weight");
        assert_eq!(document["shared"]["frames"][0]["name"], "main");
        assert_eq!(document["profiles"][0]["samples"], json!([[0, 1], [0, 2]]));
        assert_eq!(document["profiles"][0]["weights"], json!([90.0, 7.0]));
        assert_eq!(document["profiles"][0]["endValue"], json!(97.0));
        assert_eq!(
            document["profiles"][1]["name"],
            "stores (precise, weight [cycles])"
        );
    }
}

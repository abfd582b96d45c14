//! pprof's `profile.proto`, uncompressed, which `pprof` reads as well as gzip.
//!
//! Fields used, by number:
//!
//! ```text
//! Profile   1 sample_type  2 sample  4 location  5 function  6 string_table  9 time_nanos  10 duration_nanos
//!           13 comment  14 default_sample_type
//! ValueType 1 type  2 unit          Sample   1 location_id (packed)  2 value (packed)  3 label
//! Label     1 key  2 str            Location 1 id  4 line      Line 1 function_id      Function 1 id  2 name
//! ```

use std::collections::BTreeMap;

use super::numbered::Numbered;
use super::{OTHER, Selection, events, units, whole};
use crate::answer::Answer;
use crate::ask::Estimator;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn packed(out: &mut Vec<u8>, field: u64, values: &[u64]) {
    let mut inner = Vec::new();
    for value in values {
        varint(&mut inner, *value);
    }
    bytes(out, field, &inner);
}

/// A kind of value: its name, its unit in pprof's words, and what each path has of it.
type Kind = (&'static str, String, Vec<u64>);

/// What an answer of one event knows of its paths; estimates that it cannot make are no kind of value.
fn kinds(answer: &Answer) -> Vec<Kind> {
    let known = Estimator::ALL.iter().filter_map(|estimator| {
        let events = events(answer, estimator.name());
        let unit = units(&events.first()?.unit);
        let paths = events.iter().flat_map(|event| &event.paths);
        let values: Vec<u64> = paths.map(|path| whole(path.value)).collect();
        let is_kind = *estimator == Estimator::Samples || values.iter().any(|value| *value > 0);
        is_kind.then(|| (estimator.name(), unit.to_owned(), values))
    });
    known.collect()
}

/// The profile of an answer of one event: samples, and further estimators where there are any; `by` is shown unless the
/// reader chooses. Tier and event of each sample are labels.
pub(crate) fn pprof(answer: &Answer, selection: &Selection) -> Vec<u8> {
    let (by, range) = (selection.by, selection.range);
    let mut out = Vec::new();
    // The first is empty.
    let mut strings = Numbered::of(&String::new());
    let kinds = kinds(answer);
    for (name, unit, _) in &kinds {
        let mut kind = Vec::new();
        number(&mut kind, 1, strings.text(name));
        number(&mut kind, 2, strings.text(unit));
        bytes(&mut out, 1, &kind);
    }
    // A function is a location: places within functions are not what a path is made of.
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    let mut sample = |frames: &[String],
                      values: &[u64],
                      labels: &[(&str, &str)],
                      out: &mut Vec<u8>,
                      strings: &mut Numbered<String>| {
        let innermost_first: Vec<u64> = frames
            .iter()
            .rev()
            .map(|frame| {
                let next = functions.len() as u64 + 1;
                *functions.entry(frame.clone()).or_insert(next)
            })
            .collect();
        let mut one = Vec::new();
        packed(&mut one, 1, &innermost_first);
        packed(&mut one, 2, values);
        for (key, value) in labels {
            let mut label = Vec::new();
            number(&mut label, 1, strings.text(key));
            number(&mut label, 2, strings.text(value));
            bytes(&mut one, 3, &label);
        }
        bytes(out, 2, &one);
    };
    let all = events(answer, Estimator::Samples.name());
    let paths = all
        .iter()
        .flat_map(|event| event.paths.iter().map(move |path| (event, path)));
    for (at, (event, path)) in paths.enumerate() {
        let values = kinds.iter();
        let values: Vec<u64> = values
            .map(|(_, _, values)| values.get(at).copied().unwrap_or(0))
            .collect();
        let labels = [
            ("event", event.name.as_str()),
            ("tier", event.tier.as_str()),
        ];
        sample(&path.frames, &values, &labels, &mut out, &mut strings);
    }
    if let Some(other) = &answer.other {
        let mut values = vec![0; kinds.len()];
        if let Some(samples) = values.first_mut() {
            *samples = other.samples;
        }
        sample(&[OTHER.to_owned()], &values, &[], &mut out, &mut strings);
    }
    for (name, id) in &functions {
        let (mut line, mut location, mut function) = (Vec::new(), Vec::new(), Vec::new());
        number(&mut line, 1, *id);
        number(&mut location, 1, *id);
        bytes(&mut location, 4, &line);
        bytes(&mut out, 4, &location);
        number(&mut function, 1, *id);
        number(&mut function, 2, strings.text(name));
        bytes(&mut out, 5, &function);
    }
    for note in &answer.notes {
        number(&mut out, 13, strings.text(note));
    }
    let shown = kinds.iter().find(|(name, ..)| *name == by.name());
    number(
        &mut out,
        14,
        strings.text(shown.map_or("samples", |(name, ..)| name)),
    );
    number(&mut out, 9, range.since_ns);
    number(&mut out, 10, range.len_ns());
    for text in strings.all() {
        bytes(&mut out, 6, text.as_bytes());
    }
    out
}

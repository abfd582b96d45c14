//! OpenTelemetry's profiles (`opentelemetry.proto.profiles.v1development`), a binary `ProfilesData`: one profile for each
//! event and estimator, those of the estimator asked by first.
//!
//! ```text
//! ProfilesData ─▶ ResourceProfiles ─▶ ScopeProfiles ─▶ Profile ─▶ Sample.stack_index
//!      └─▶ ProfilesDictionary: stack_table ─▶ location_table ─▶ function_table ─▶ string_table; the first row of each is empty
//! ```

mod wire;

use memwide_service::build_info::BUILD;
use prost::Message as _;

use super::numbered::Numbered;
use super::{Event, OTHER, Selection, events, units, whole};
use crate::answer::Answer;
use crate::ask::Estimator;
use wire::any_value::Value;

/// Tables that profiles point into.
struct Tables {
    strings: Numbered<String>,
    /// A function is a location: places within functions are not what a path is made of.
    functions: Numbered<String>,
    /// Functions by number, innermost first.
    stacks: Numbered<Vec<i32>>,
    /// Key and value by number of their texts.
    attributes: Numbered<(i32, String)>,
}

impl Tables {
    fn text(&mut self, text: &str) -> i32 {
        index(self.strings.number(&text.to_owned()))
    }

    /// The number of a stack of these frames, outermost first.
    fn stack(&mut self, frames: &[String]) -> i32 {
        let innermost_first = frames.iter().rev();
        let functions = innermost_first.map(|frame| index(self.functions.number(frame)));
        let functions = functions.collect();
        index(self.stacks.number(&functions))
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key = self.text(key);
        index(self.attributes.number(&(key, value.to_owned())))
    }

    /// As a message; the first row of each table is the empty one.
    fn into_dictionary(mut self) -> wire::ProfilesDictionary {
        let names: Vec<String> = self.functions.all().to_vec();
        let function_table = names.iter().map(|name| wire::Function {
            name_strindex: self.text(name),
        });
        let function_table = function_table.collect();
        let location = |function_index| wire::Location {
            lines: match function_index {
                0 => Vec::new(),
                _ => vec![wire::Line { function_index }],
            },
        };
        let stacks = self.stacks.all().iter();
        let attributes = self.attributes.all().iter();
        wire::ProfilesDictionary {
            mapping_table: vec![wire::Empty {}],
            location_table: (0..index(names.len())).map(location).collect(),
            function_table,
            link_table: vec![wire::Link {
                trace_id: vec![0; 16],
                span_id: vec![0; 8],
            }],
            stack_table: stacks
                .map(|locations| wire::Stack {
                    location_indices: locations.clone(),
                })
                .collect(),
            attribute_table: attributes
                .map(|(key, value)| wire::KeyValueAndUnit {
                    key_strindex: *key,
                    value: (*key != 0).then(|| text(value)),
                })
                .collect(),
            string_table: self.strings.all().to_vec(),
        }
    }
}

/// An index into a table; tables are far smaller than 2^31 rows.
fn index(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(0)
}

fn text(value: &str) -> wire::AnyValue {
    wire::AnyValue {
        value: Some(Value::String(value.to_owned())),
    }
}

fn count(value: u64) -> wire::AnyValue {
    wire::AnyValue {
        value: Some(Value::Int(i64::try_from(value).unwrap_or(i64::MAX))),
    }
}

fn texts(values: &[String]) -> wire::AnyValue {
    wire::AnyValue {
        value: Some(Value::Array(wire::ArrayValue {
            values: values.iter().map(|value| text(value)).collect(),
        })),
    }
}

/// The profiles of an answer, encoded.
pub(crate) fn otlp(answer: &Answer, selection: &Selection) -> Vec<u8> {
    let mut tables = Tables {
        strings: Numbered::of(&String::new()),
        functions: Numbered::of(&String::new()),
        stacks: Numbered::of(&Vec::new()),
        attributes: Numbered::of(&(0, String::new())),
    };
    let further = Estimator::ALL.iter().filter(|by| **by != selection.by);
    let mut profiles = Vec::new();
    for by in std::iter::once(&selection.by).chain(further) {
        let events = events(answer, by.name());
        let sole = events.len() == 1;
        for event in &events {
            let mut profile = profile(&mut tables, event, *by, selection);
            let is_known = profile.samples.iter().any(|sample| sample.values != [0]);
            if !is_known && *by != Estimator::Samples {
                continue;
            }
            // What was cut is known of samples alone, and of all events together.
            let other = answer
                .other
                .as_ref()
                .filter(|_| sole && *by == Estimator::Samples);
            profile.samples.extend(other.map(|other| wire::Sample {
                stack_index: tables.stack(&[OTHER.to_owned()]),
                values: vec![signed(other.samples)],
            }));
            profiles.push(profile);
        }
    }
    let scope_profiles = wire::ScopeProfiles {
        scope: Some(wire::InstrumentationScope {
            name: "memwide".to_owned(),
            version: BUILD.version.to_owned(),
        }),
        profiles,
    };
    let data = wire::ProfilesData {
        resource_profiles: vec![wire::ResourceProfiles {
            resource: Some(resource(answer, selection)),
            scope_profiles: vec![scope_profiles],
        }],
        dictionary: Some(tables.into_dictionary()),
    };
    data.encode_to_vec()
}

fn profile(
    tables: &mut Tables,
    event: &Event,
    by: Estimator,
    selection: &Selection,
) -> wire::Profile {
    let samples = event.paths.iter().map(|path| wire::Sample {
        stack_index: tables.stack(&path.frames),
        values: vec![signed(whole(path.value))],
    });
    let samples = samples.collect();
    let mut labels = vec![
        ("memwide.event", event.name.as_str()),
        ("memwide.tier", event.tier.as_str()),
        ("memwide.estimator", by.name()),
    ];
    if !matches!(event.kind.as_str(), "" | "none") {
        labels.push(("memwide.latency_kind", &event.kind));
    }
    wire::Profile {
        sample_type: Some(wire::ValueType {
            type_strindex: tables.text(by.name()),
            unit_strindex: tables.text(units(&event.unit)),
        }),
        samples,
        time_unix_nano: selection.range.since_ns,
        duration_nano: selection.range.len_ns(),
        attribute_indices: labels
            .iter()
            .map(|(key, value)| tables.attribute(key, value))
            .collect(),
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What the profiles are of: filters, completeness, what was cut, what a reader must know.
fn resource(answer: &Answer, selection: &Selection) -> wire::Resource {
    let filters = selection.filters.iter();
    let mut attributes: Vec<(String, wire::AnyValue)> = filters
        .map(|(name, values)| (format!("memwide.filter.{name}"), texts(values)))
        .collect();
    let complete = &answer.completeness;
    let mut counts = vec![
        ("hosts_seen", complete.hosts_seen),
        ("hosts_expected", complete.hosts_expected),
        ("samples_stored", complete.samples_stored),
        ("samples_produced", complete.samples_produced),
    ];
    if let Some(other) = &answer.other {
        counts.extend([("cut_paths", other.rows), ("cut_samples", other.samples)]);
    }
    let counts = counts.into_iter();
    attributes.extend(counts.map(|(name, value)| (format!("memwide.{name}"), count(value))));
    attributes.push(("memwide.notes".to_owned(), texts(&answer.notes)));
    let attributes = attributes.into_iter();
    wire::Resource {
        attributes: attributes
            .map(|(key, value)| wire::KeyValue {
                key,
                value: Some(value),
            })
            .collect(),
    }
}

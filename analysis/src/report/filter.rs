//! Which samples of a file count: `KEY=VALUE`, the values of one key are alternatives, all keys must fit.

use super::reader::{data_src, short_name};
use crate::site::SiteFilter;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_model::{BuildId, Context, Level, Locality, Op, Outcome, Region, Snoop, perf_text};

macro_rules! fields {
    ($($variant:ident = $name:literal, $allowed:expr;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Field { $($variant,)+ }

        impl Field {
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The only values there are; `None` for free text.
            fn allowed(self) -> Option<Vec<&'static str>> {
                match self { $(Self::$variant => $allowed,)+ }
            }
        }
    };
}

impl Field {
    /// The form of its values, if a text is of another one.
    fn other_form(self, value: &str) -> Option<&'static str> {
        let (is, form) = match self {
            Self::Pid | Self::Tid | Self::Cpu => (
                is_nothing(value) || value.parse::<u32>().is_ok(),
                "a number",
            ),
            Self::BuildId => (BuildId::from_hex(value).is_some(), "hexadecimal digits"),
            _ => (true, ""),
        };
        (!is).then_some(form)
    }
}

macro_rules! names {
    ($kind:ident) => {
        Some($kind::ALL.iter().map(|value| value.name()).collect())
    };
}

fields! {
    Event = "event", None;
    Comm = "comm", None;
    Pid = "pid", None;
    Tid = "tid", None;
    Cpu = "cpu", None;
    Function = "function", None;
    Dso = "dso", None;
    BuildId = "build_id", None;
    Op = "op", names!(Op);
    Level = "level", names!(Level);
    Locality = "locality", names!(Locality);
    Snoop = "snoop", Some(snoops());
    Context = "context", names!(Context);
    Outcome = "outcome", names!(Outcome);
    Region = "region", names!(Region);
    Mem = "mem", None;
    Tlb = "tlb", None;
    Locked = "locked", None;
    Blocked = "blocked", None;
    SymbolDaddr = "symbol_daddr", None;
    DsoDaddr = "dso_daddr", None;
    Member = "member", None;
}

/// Ours, and perf's words, which `report --sort snoop` shows.
fn snoops() -> Vec<&'static str> {
    let ours = Snoop::ALL.iter().map(|value| value.name());
    let theirs = ["N/A", "None", "Miss", "Hit", "HitM", "Fwd", "Peer"];
    ours.chain(theirs).collect()
}

/// A filter that a file cannot be asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// No `=`.
    #[error("filter `{filter}` is not KEY=VALUE, as locality=remote")]
    NoValue {
        /// As given.
        filter: String,
    },
    /// A key only servers know, or nobody.
    #[error("a file cannot be filtered by `{key}`; there are {}", field_names())]
    UnknownKey {
        /// As given.
        key: String,
    },
    /// A value the key never has.
    #[error("`{key}` is never `{value}`; it is one of {}", allowed.join(", "))]
    UnknownValue {
        /// The key.
        key: &'static str,
        /// As given.
        value: String,
        /// What it can be.
        allowed: Vec<&'static str>,
    },
    /// A value of another form than all of the key's.
    #[error("`{key}` is {form}, not `{value}`")]
    Form {
        /// The key.
        key: &'static str,
        /// As given.
        value: String,
        /// What its values are.
        form: &'static str,
    },
}

fn field_names() -> String {
    let names: Vec<&str> = Field::ALL.iter().map(|field| field.name()).collect();
    names.join(", ")
}

/// All filters together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    fields: Vec<(Field, Vec<String>)>,
}

impl Filter {
    /// From the command line.
    pub fn parse(filters: &[String]) -> Result<Self, FilterError> {
        let mut fields: Vec<(Field, Vec<String>)> = Vec::new();
        for filter in filters {
            let Some((key, value)) = filter.split_once('=') else {
                return Err(FilterError::NoValue {
                    filter: filter.clone(),
                });
            };
            let key = if key == "symbol" { "function" } else { key };
            let field = Field::ALL.iter().find(|field| field.name() == key);
            let field = *field.ok_or_else(|| FilterError::UnknownKey {
                key: key.to_owned(),
            })?;
            let values = values(field, value)?;
            match fields.iter_mut().find(|(known, _)| *known == field) {
                Some((_, known)) => known.extend(values),
                None => fields.push((field, values)),
            }
        }
        Ok(Self { fields })
    }

    /// Takes out what it asks of `function` and `dso`, for commands whose tables show sites under these names.
    pub fn take_sites(&mut self) -> SiteFilter {
        let mut sites = SiteFilter::default();
        self.fields.retain_mut(|(field, values)| {
            let to = match field {
                Field::Function => &mut sites.functions,
                Field::Dso => &mut sites.dsos,
                _ => return true,
            };
            to.append(values);
            false
        });
        sites
    }

    /// What it asks of samples beyond their fields.
    pub fn wanted(&self) -> Wanted {
        let of = |field: Field| match field {
            Field::Comm => Wanted::COMM,
            Field::Function | Field::Dso | Field::BuildId => Wanted::CODE,
            Field::Op | Field::Level | Field::Locality | Field::Snoop | Field::Outcome => {
                Wanted::DERIVED
            }
            Field::Region => Wanted::DATA | Wanted::DERIVED,
            Field::SymbolDaddr | Field::DsoDaddr => Wanted::DATA,
            Field::Member => Wanted::DATA | Wanted::DERIVED | Wanted::MEMBERS,
            Field::Context => Wanted::CODE | Wanted::FRAMES | Wanted::DERIVED,
            Field::Event
            | Field::Pid
            | Field::Tid
            | Field::Cpu
            | Field::Mem
            | Field::Tlb
            | Field::Locked
            | Field::Blocked => Wanted::NOTHING,
        };
        let fields = self.fields.iter().map(|(field, _)| of(*field));
        fields.fold(Wanted::NOTHING, |all, one| all | one)
    }

    /// Whether all samples count.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether a thread counts of which nothing but name and number are known: not if anything else is asked for.
    pub fn takes_thread(&self, comm: &str, tid: u32) -> bool {
        let fits = |field: Field, value: &String| match field {
            Field::Comm => value == comm,
            Field::Tid => value.parse() == Ok(tid),
            _ => false,
        };
        let mut fields = self.fields.iter();
        fields.all(|(field, values)| values.iter().any(|value| fits(*field, value)))
    }

    /// Whether a sample counts.
    pub fn takes(&self, sample: &LocalSample<'_>) -> bool {
        self.fields
            .iter()
            .all(|(field, values)| values.iter().any(|value| fits(*field, value, sample)))
    }
}

/// Values of a closed set also come as a list with commas.
fn values(field: Field, value: &str) -> Result<Vec<String>, FilterError> {
    let Some(allowed) = field.allowed() else {
        return match field.other_form(value) {
            None => Ok(vec![value.to_owned()]),
            Some(form) => Err(FilterError::Form {
                key: field.name(),
                value: value.to_owned(),
                form,
            }),
        };
    };
    let mut values = Vec::new();
    for value in value.split(',').map(str::trim) {
        if !allowed.contains(&value) {
            return Err(FilterError::UnknownValue {
                key: field.name(),
                value: value.to_owned(),
                allowed,
            });
        }
        values.push(value.to_owned());
    }
    Ok(values)
}

/// Whether a value, as tables print it, is that of a sample.
fn fits(field: Field, value: &str, sample: &LocalSample<'_>) -> bool {
    let number = |found: Option<u32>| match found.filter(|found| *found != u32::MAX) {
        Some(found) => value.parse() == Ok(found),
        None => is_nothing(value),
    };
    let derived = &sample.derived;
    match field {
        Field::Event => sample.event.name == value,
        Field::Comm => sample.comm == value,
        Field::Pid => number(sample.pid()),
        Field::Tid => number(sample.tid()),
        Field::Cpu => number(sample.cpu()),
        Field::Function => {
            let (code, value) = (sample.code(), without_mode(value));
            match code.symbol {
                Some(symbol) => symbol == value,
                None => is_address(value, code.shown_address) || value == "[unknown]",
            }
        }
        Field::Dso => is_file(value, sample.code().dso),
        Field::DsoDaddr => is_file(value, sample.data().dso),
        Field::SymbolDaddr => {
            let (data, value) = (sample.data(), without_mode(value));
            match data.symbol {
                Some(symbol) => {
                    symbol == value || format!("{symbol}+{:#x}", data.symbol_offset) == value
                }
                None => is_address(value, sample.addr().unwrap_or(0)),
            }
        }
        Field::Member => with_member(sample, |member| member == value),
        Field::BuildId => {
            let wanted = BuildId::from_hex(value);
            wanted.is_some_and(|wanted| sample.code().build_id == Some(wanted.as_bytes()))
        }
        Field::Op => derived.class.op.name() == value,
        Field::Level => derived.class.level.name() == value,
        Field::Outcome => derived.class.outcome.name() == value,
        Field::Locality => derived.locality.name() == value,
        Field::Snoop => {
            derived.class.snoop.name() == value || perf_text::snoop(data_src(sample)) == value
        }
        Field::Context => derived.context.name() == value,
        Field::Region => derived.region.name() == value,
        Field::Mem => perf_text::level(data_src(sample)) == value,
        Field::Tlb => perf_text::tlb(data_src(sample)) == value,
        Field::Locked => perf_text::locked(data_src(sample)) == value,
        Field::Blocked => perf_text::blocked(data_src(sample)).trim() == value,
    }
}

/// A symbol without the mode that tables show before it: `[.] main`, `[k] clear_page`.
fn without_mode(value: &str) -> &str {
    match value.as_bytes() {
        [b'[', _, b']', b' ', ..] => value.get(4..).unwrap_or(value),
        _ => value,
    }
}

/// What tables show where nothing is known.
fn is_nothing(value: &str) -> bool {
    matches!(value, "N/A" | "–" | "unknown")
}

/// An address without a symbol, with or without leading zeros.
fn is_address(value: &str, address: u64) -> bool {
    let digits = value.strip_prefix("0x").unwrap_or(value);
    let is_whole = value.len() != digits.len() || digits.len() == 16;
    is_whole && u64::from_str_radix(digits, 16) == Ok(address)
}

fn is_file(value: &str, dso: &str) -> bool {
    dso == value || short_name(dso) == value
}

/// The member of a variable, as tables show it; where none is known the variable, else the kind of memory in brackets.
pub(super) fn with_member<T>(sample: &LocalSample<'_>, then: impl FnOnce(&str) -> T) -> T {
    if let Some(member) = sample.member() {
        return then(&member.name);
    }
    if sample.addr().is_none_or(|addr| addr == 0) {
        return then("[no address]");
    }
    match sample.data().symbol {
        Some(symbol) => then(symbol),
        None => then(&format!("[{}]", sample.derived.region.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(filters: &[&str]) -> Result<Filter, FilterError> {
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        Filter::parse(&filters)
    }

    #[test]
    fn values_of_one_key_are_alternatives() {
        let filter = parse(&["level=RAM,L3", "comm=a,b", "level=L2"]).unwrap();
        let texts = |values: &[&str]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            filter.fields,
            [
                (Field::Level, texts(&["RAM", "L3", "L2"])),
                (Field::Comm, texts(&["a,b"]))
            ]
        );
    }

    #[test]
    fn threads_known_by_name_alone_count_where_nothing_else_is_asked_for() {
        let takes = |filters: &[&str]| parse(filters).unwrap().takes_thread("worker", 7);
        assert!(
            takes(&[]) && takes(&["comm=worker"]) && takes(&["comm=x", "comm=worker", "tid=7"])
        );
        assert!(!takes(&["comm=x"]) && !takes(&["comm=worker", "function=main"]));
    }

    #[test]
    fn symbols_are_found_with_and_without_the_mode_that_tables_print() {
        for (value, symbol) in [
            ("[.] main", "main"),
            ("[k] 0x10", "0x10"),
            ("main", "main"),
            ("[unknown]", "[unknown]"),
            ("[] x", "[] x"),
        ] {
            assert_eq!(without_mode(value), symbol);
        }
    }

    #[test]
    fn addresses_are_found_as_tables_print_them() {
        for (value, fits) in [
            ("0x000000000004f1a0", true),
            ("0x4f1a0", true),
            ("000000000004f1a0", true),
            ("4f1a0", false),
            ("0x4f1a1", false),
            ("main", false),
        ] {
            assert_eq!(is_address(value, 0x4_f1a0), fits, "{value}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_what_can() {
        for (filter, part) in [
            ("locality", "KEY=VALUE"),
            ("host=a", "function"),
            ("locality=far", "remote"),
            ("level=L9", "any-cache"),
        ] {
            let wrong = parse(&[filter]).unwrap_err().to_string();
            assert!(wrong.contains(part), "{wrong}");
        }
    }
}

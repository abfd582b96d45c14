//! The filters that all questions share.

use std::collections::BTreeMap;

use memwide_model::{BuildId, Context, Level, Locality, Op, Snoop, Tier};
use memwide_proto::v1;

use super::{AskError, LIMIT_DEFAULT, LIMIT_MAX, Name, Range, shortened};

/// Values a filter may have: a list longer than this is a script that wants SQL.
pub(super) const VALUES_MAX: usize = 200;
/// Bytes a value may have: the longest demangled names are a few thousand.
pub(super) const VALUE_BYTES_MAX: usize = 8 << 10;

macro_rules! dimensions {
    ($($variant:ident = $name:literal, $values:expr, $doc:literal;)+) => {
        /// What rows can be filtered by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Dimension {
            $(#[doc = $doc] $variant,)+
        }

        impl Dimension {
            /// All, in the order of the API.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name of the parameter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Whether its values are also taken as a list with commas: of the others commas are part.
            pub fn is_list(self) -> bool {
                !matches!(self, Self::Comm | Self::Function | Self::Event)
            }

            /// The only values there are; `None` for free text.
            pub fn values(self) -> Option<Vec<&'static str>> {
                match self { $(Self::$variant => $values,)+ }
            }

            /// One sentence for the API document.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $doc,)+ }
            }
        }
    };
}

macro_rules! names {
    ($kind:ident) => {
        Some($kind::ALL.iter().map(|value| value.name()).collect())
    };
}

dimensions! {
    Host = "host", None, "Host name.";
    Namespace = "namespace", None, "Kubernetes namespace.";
    Pod = "pod", None, "Pod name.";
    Container = "container", None, "Container name.";
    Service = "service", None, "Service (systemd unit or workload name).";
    BuildId = "build_id", None, "Build id of the binary, lower-case hexadecimal.";
    Comm = "comm", None, "Command name of the thread.";
    Function = "function", None, "Whole name of the function, as answers show it.";
    Event = "event", None, "Event, as answers show it.";
    Tier = "tier", names!(Tier), "How much a row can say.";
    Op = "op", names!(Op), "What the instruction did.";
    Level = "level", names!(Level), "Level of the memory hierarchy; the column `outcome` says hit or miss.";
    Locality = "locality", names!(Locality), "Near or far; the column `locality_basis` says what that rests on.";
    Snoop = "snoop", names!(Snoop), "What other caches answered.";
    Context = "context", names!(Context), "In which context the CPU was.";
}

/// Time range, filters and number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Wall time.
    pub range: Range,
    /// Rows wanted.
    pub limit: u32,
    /// When it was asked, in nanoseconds since 1970.
    pub(super) asked_ns: u64,
    values: BTreeMap<Dimension, Vec<String>>,
}

impl Filter {
    /// No filters, asked at `asked_ns` (nanoseconds since 1970).
    pub fn new(range: Range, asked_ns: u64) -> Self {
        Self {
            range,
            limit: LIMIT_DEFAULT,
            asked_ns,
            values: BTreeMap::new(),
        }
    }

    /// What a table must have for it.
    pub(super) fn needs(&self) -> Vec<Dimension> {
        self.dimensions().map(|(dimension, _)| dimension).collect()
    }

    /// The same with one more value that this build knows to be right.
    pub(super) fn and(&self, dimension: Dimension, value: &str) -> Self {
        let mut filter = self.clone();
        filter
            .values
            .entry(dimension)
            .or_default()
            .push(value.to_owned());
        filter
    }

    /// The same of all functions: what shares of functions are of.
    pub(super) fn of_all_functions(&self) -> Self {
        let mut filter = self.clone();
        filter.clear(&[Dimension::Function]);
        filter
    }

    /// Forgets what was asked of these.
    pub(super) fn clear(&mut self, dimensions: &[Dimension]) {
        self.values
            .retain(|dimension, _| !dimensions.contains(dimension));
    }

    /// Values asked for; empty: any.
    pub fn values(&self, dimension: Dimension) -> &[String] {
        self.values.get(&dimension).map_or(&[], Vec::as_slice)
    }

    /// Dimensions with values, in the order of [`Dimension::ALL`].
    pub fn dimensions(&self) -> impl Iterator<Item = (Dimension, &[String])> {
        self.values
            .iter()
            .map(|(dimension, values)| (*dimension, values.as_slice()))
    }

    /// Adds a value; an empty one means "any" and adds nothing.
    pub fn add(&mut self, dimension: Dimension, value: &str) -> Result<(), AskError> {
        let parameter = dimension.name();
        if value.is_empty() {
            return Ok(());
        }
        if value.len() > VALUE_BYTES_MAX || self.values(dimension).len() >= VALUES_MAX {
            return Err(AskError::TooLong { parameter });
        }
        let value = match (dimension, dimension.values()) {
            (_, Some(allowed)) if !allowed.contains(&value) => {
                return Err(AskError::UnknownValue {
                    parameter,
                    value: shortened(value),
                    allowed,
                });
            }
            (Dimension::BuildId, _) => BuildId::from_hex(value)
                .ok_or_else(|| AskError::BuildId {
                    value: shortened(value),
                })?
                .to_string(),
            _ => value.to_owned(),
        };
        let values = self.values.entry(dimension).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        Ok(())
    }

    /// Sets the number of rows; 0: the default.
    pub fn set_limit(&mut self, limit: u32) -> Result<(), AskError> {
        match limit {
            0 => self.limit = LIMIT_DEFAULT,
            1..=LIMIT_MAX => self.limit = limit,
            _ => {
                return Err(AskError::Limit {
                    value: limit.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Reads the parameters of a URL; those that only this question takes are given back.
    ///
    /// A filter may be given several times; values that have no commas in them also as a list with commas.
    pub(super) fn parse(
        question: Name,
        pairs: &[(String, String)],
        now_ns: u64,
    ) -> Result<(Self, Vec<(String, String)>), AskError> {
        let (mut since, mut until, mut limit) = (None, None, None);
        let once = |parameter, slot: &mut Option<String>, value: &str| {
            if slot.is_some() {
                return Err(AskError::Twice { parameter });
            }
            *slot = Some(value.to_owned());
            Ok(())
        };
        let (mut given, mut own) = (Vec::new(), Vec::new());
        let is_own = |name: &str| question.extra().iter().any(|extra| extra.name == name);
        for (name, value) in pairs {
            let dimension = question
                .dimensions()
                .iter()
                .find(|known| known.name() == name);
            match (name.as_str(), dimension) {
                ("since", _) => once("since", &mut since, value)?,
                ("until", _) => once("until", &mut until, value)?,
                ("limit", _) => once("limit", &mut limit, value)?,
                ("format", _) => {} // chosen by whoever renders the answer
                (_, Some(dimension)) => given.push((*dimension, value)),
                (known, None) if is_own(known) => own.push((name.clone(), value.clone())),
                (name, None) => {
                    let allowed = ["since", "until", "limit", "format"].into_iter();
                    let allowed = allowed.chain(question.extra().iter().map(|extra| extra.name));
                    return Err(AskError::UnknownParameter {
                        question: question.name(),
                        name: shortened(name),
                        allowed: allowed
                            .chain(question.dimensions().iter().map(|known| known.name()))
                            .collect(),
                    });
                }
            }
        }
        let range = Range::parse(
            &since.unwrap_or_default(),
            &until.unwrap_or_default(),
            now_ns,
        )?;
        let mut filter = Self::new(range, now_ns);
        filter.limit = question.limit();
        for (dimension, value) in given {
            if dimension.is_list() {
                value
                    .split(',')
                    .try_for_each(|one| filter.add(dimension, one.trim()))?;
            } else {
                filter.add(dimension, value)?;
            }
        }
        if let Some(text) = limit.filter(|text| !text.is_empty()) {
            let wrong = || AskError::Limit {
                value: shortened(&text),
            };
            let limit = text
                .parse()
                .ok()
                .filter(|limit| *limit > 0)
                .ok_or_else(wrong)?;
            filter.set_limit(limit)?;
        }
        Ok((filter, own))
    }

    /// From a message; `None`: no filters, the last hour.
    pub(super) fn from_message(
        question: Name,
        message: Option<v1::Filter>,
        now_ns: u64,
    ) -> Result<Self, AskError> {
        let message = message.unwrap_or_default();
        let mut filter = Self::new(
            Range::from_wall(message.since_wall_ns, message.until_wall_ns, now_ns)?,
            now_ns,
        );
        filter.set_limit(message.limit)?;
        if message.limit == 0 {
            filter.limit = question.limit();
        }
        let lists = [
            (Dimension::Host, message.host),
            (Dimension::Namespace, message.namespace),
            (Dimension::Pod, message.pod),
            (Dimension::Container, message.container),
            (Dimension::Service, message.service),
            (Dimension::BuildId, message.build_id),
            (Dimension::Comm, message.comm),
            (Dimension::Function, message.function),
            (Dimension::Event, message.event),
            (Dimension::Tier, message.tier),
            (Dimension::Op, message.op),
            (Dimension::Level, message.level),
            (Dimension::Locality, message.locality),
            (Dimension::Snoop, message.snoop),
            (Dimension::Context, message.context),
        ];
        for (dimension, values) in lists {
            if !values.is_empty() && !question.dimensions().contains(&dimension) {
                return Err(AskError::UnknownParameter {
                    question: question.name(),
                    name: dimension.name().to_owned(),
                    allowed: question
                        .dimensions()
                        .iter()
                        .map(|known| known.name())
                        .collect(),
                });
            }
            values
                .iter()
                .try_for_each(|value| filter.add(dimension, value))?;
        }
        Ok(filter)
    }
}

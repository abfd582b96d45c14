//! The list of all questions: names, what each is, how each is read.

use memwide_proto::v1;

use super::{
    Allocs, Annotate, Ask, AskError, Breakdown, Counters, Data, Diff, Dimension, Faults, Filter,
    Flamegraph, Functions, Given, Hosts, Kernel, Latency, Ledger, Lines, Numa, Offcpu, Pages,
    PartPlan, Plan, Pressure, Rss,
};
use crate::answer::{Answer, Value};

/// A parameter that not every question takes.
#[derive(Debug, Clone, Copy)]
pub struct Extra {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the API document.
    pub about: &'static str,
    /// What it takes.
    pub values: Values,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// True or false.
    Flag,
    /// Any text.
    Text,
    /// One of these.
    One(fn() -> Vec<&'static str>),
    /// Several of these, by commas or repeated.
    Several(fn() -> Vec<&'static str>),
}

macro_rules! questions {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        /// A question, read and checked.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Question {
            $($(#[doc = $doc])+ $name($name),)+
        }

        /// Name of a question.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Name {
            $(#[doc = concat!("`", $text, "`")] $name,)+
        }

        impl Name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// As it stands in the path.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// One sentence for the API document.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Rows of an answer unless the caller says otherwise.
            pub const fn limit(self) -> u32 {
                match self { $(Self::$name => <$name as Ask>::LIMIT,)+ }
            }

            /// Filters it takes.
            pub const fn dimensions(self) -> &'static [Dimension] {
                match self { $(Self::$name => <$name as Ask>::DIMENSIONS,)+ }
            }

            /// Parameters besides `since`, `until`, `limit`, `format` and the filters.
            pub const fn extra(self) -> &'static [Extra] {
                match self { $(Self::$name => <$name as Ask>::EXTRA,)+ }
            }
        }

        impl Question {
            fn read(name: Name, filter: Filter, given: &Given<'_>) -> Result<Self, AskError> {
                Ok(match name { $(Name::$name => Self::$name($name::read(filter, given)?),)+ })
            }

            /// Its name.
            pub(crate) const fn name(&self) -> Name {
                match self { $(Self::$name(_) => Name::$name,)+ }
            }

            /// Its range and filters.
            pub(crate) const fn filter(&self) -> &Filter {
                match self { $(Self::$name(question) => &question.filter,)+ }
            }

            /// What to ask of the store first.
            pub fn plan(&self) -> Plan {
                match self { $(Self::$name(question) => question.plan(),)+ }
            }

            /// What to ask once those rows are there.
            pub(crate) fn more(&self, plan: &Plan, rows: &[Vec<Value>]) -> Vec<PartPlan> {
                match self { $(Self::$name(question) => question.more(plan, rows),)+ }
            }

            /// Completes the answer by what its parts say.
            pub(crate) fn conclude(&self, answer: &mut Answer) {
                match self { $(Self::$name(question) => question.conclude(answer),)+ }
            }
        }
    };
}

questions! {
    /// Which functions, with every estimator side by side.
    Functions = "functions";
    /// How samples are spread over levels, localities, hosts and so on.
    Breakdown = "breakdown";
    /// Which functions reach over to other NUMA nodes, where their data lies, and what to do about it.
    Numa = "numa";
    /// How long accesses took: quantiles and buckets by function and level, apart for each event and kind of latency.
    Latency = "latency";
    /// Which data is slow: variables, heap, stacks, files, by region.
    Data = "data";
    /// Which pages are used from where, and which lie on the wrong node.
    Pages = "pages";
    /// Which cache lines are fought over or shared falsely, on how many hosts.
    Lines = "lines";
    /// Call paths with what was sampled in them: what flame graphs are made of.
    Flamegraph = "flamegraph";
    /// On which instructions of functions samples fall.
    Annotate = "annotate";
    /// What changed between two ranges, builds or sets of hosts, and whether by more than the noise.
    Diff = "diff";
    /// Where page faults come from, by function and memory, minor and major apart.
    Faults = "faults";
    /// Which code allocates and frees, by kind of call.
    Allocs = "allocs";
    /// Where threads wait off the CPU, and how long.
    Offcpu = "offcpu";
    /// What the kernel does for processes, and what merely interrupts them.
    Kernel = "kernel";
    /// Stalls, reclaim, swap and kills of hosts, containers and units: rates and levels.
    Pressure = "pressure";
    /// Memory of hosts, containers, units and the largest processes.
    Rss = "rss";
    /// What counters counted, and what collectors cost.
    Counters = "counters";
    /// Hosts seen lately: facts, last sign of life, completeness.
    Hosts = "hosts";
    /// What is stored and what is missing, by reason.
    Ledger = "ledger";
}

impl Question {
    /// Reads the question `name` from the parameters of a URL; `now_ns` is the wall time, ns since 1970.
    pub fn parse(name: Name, pairs: &[(String, String)], now_ns: u64) -> Result<Self, AskError> {
        let (filter, given) = Filter::parse(name, pairs, now_ns)?;
        Self::read(name, filter, &Given(&given))
    }

    /// Reads it from the fields of a message.
    pub(crate) fn from_message(
        name: Name,
        filter: Option<v1::Filter>,
        given: &[(&str, String)],
        now_ns: u64,
    ) -> Result<Self, AskError> {
        let filter = Filter::from_message(name, filter, now_ns)?;
        let given: Vec<(String, String)> = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        Self::read(name, filter, &Given(&given))
    }
}

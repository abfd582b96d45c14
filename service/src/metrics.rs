//! Counters, gauges and histograms with units, in Prometheus text.
//!
//! A crate declares all of its metrics in one file, `metrics.rs`, with
//! [`declare_metrics!`](crate::declare_metrics). A name is `<service>_<noun>_<unit>`, counters end
//! in `_total` besides; a name that does not end in its unit **does not compile**. Labels come from
//! closed sets ([`label_set!`](crate::label_set)), so no metric grows with its input.
//!
//! ```
//! use memwide_service::{declare_metrics, label_set, metrics::Registry};
//!
//! label_set! {
//!     /// Why a batch was refused.
//!     pub enum Refusal("reason") { Gap => "gap", Malformed => "malformed" }
//! }
//!
//! declare_metrics! {
//!     pub counter RECEIVED = "decoder_received_batches_total", Batches, "Batches received.";
//!     pub counter REFUSED = "decoder_refused_batches_total", Batches, "Batches refused.", by Refusal;
//!     pub gauge QUEUE = "decoder_queue_bytes", Bytes, "Undecoded bytes waiting.";
//!     pub histogram DECODE = "decoder_decode_seconds", Seconds, "Time to decode a batch.", [0.001, 0.01, 0.1];
//! }
//!
//! RECEIVED.add(1);
//! REFUSED.add(Refusal::Gap, 1);
//! DECODE.observe(0.02);
//! let text = Registry::new().with(ALL).render();
//! assert!(text.contains("decoder_refused_batches_total{reason=\"gap\"} 1"));
//! ```

mod kinds;
mod name;
mod process;

use std::collections::BTreeMap;
use std::fmt::{self, Write};

pub use kinds::{Counter, CounterBy, Gauge, GaugeBy, Histogram, LabelSet};
pub use name::Unit;

/// What the registry needs of a metric.
pub trait Metric: Sync + fmt::Debug {
    /// Name, help, unit, kind.
    fn description(&self) -> Description;
    /// Writes the sample lines in Prometheus text.
    fn render(&self, out: &mut String);
}

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// Full name.
    pub name: &'static str,
    /// One sentence for a person.
    pub help: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Name of the label, if it has one, and all of its values.
    pub label: Option<(&'static str, &'static [&'static str])>,
}

/// The metrics of a process.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    metrics: BTreeMap<&'static str, &'static dyn Metric>,
    twice: Vec<&'static str>,
}

impl Registry {
    /// Only what every process has: memory, CPU time, open files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the metrics of a crate.
    #[must_use]
    pub fn with(mut self, metrics: &[&'static dyn Metric]) -> Self {
        for metric in metrics {
            let name = metric.description().name;
            if self.metrics.insert(name, *metric).is_some() {
                self.twice.push(name);
            }
        }
        self
    }

    /// Names declared more than once; for a test to hold empty.
    pub fn declared_twice(&self) -> &[&'static str] {
        &self.twice
    }

    /// All metrics by name.
    pub fn descriptions(&self) -> Vec<Description> {
        let metrics = self.metrics.values();
        metrics.map(|metric| metric.description()).collect()
    }

    /// One line a metric: name, kind, unit, labels, help. For a golden file, as names are public.
    pub fn catalogue(&self) -> String {
        let mut out = String::new();
        for row in self.descriptions() {
            let label = row.label.map_or_else(String::new, |(name, values)| {
                format!(" {name}={}", values.join("|"))
            });
            let unit = row.unit.name();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{} {} {unit}{label}: {}", row.name, row.kind, row.help);
        }
        out
    }

    /// Prometheus text exposition, version 0.0.4.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for metric in self.metrics.values() {
            let Description {
                name, help, kind, ..
            } = metric.description();
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            metric.render(&mut out);
        }
        process::render(&mut out);
        out
    }
}

/// Declares the metrics of a crate and `ALL`, the list for [`Registry::with`]; see [`metrics`](crate::metrics).
#[macro_export]
macro_rules! declare_metrics {
    ($($vis:vis $kind:ident $id:ident = $name:literal, $unit:ident, $help:literal
        $(, by $label:ty)? $(, [$($bound:literal),+ $(,)?])?;)+) => {
        $($crate::declare_metrics!(@one $vis $kind $id, $name, $unit, $help $(, by $label)? $(, [$($bound),+])?);)+

        /// Every metric of this crate.
        #[allow(unreachable_pub, reason = "the module it is declared in may be private")]
        pub const ALL: &[&'static dyn $crate::metrics::Metric] = &[$(&$id),+];
    };
    (@one $vis:vis counter $id:ident, $name:literal, $unit:ident, $help:literal) => {
        #[doc = $help]
        $vis static $id: $crate::metrics::Counter =
            $crate::metrics::Counter::new($name, $help, $crate::metrics::Unit::$unit);
    };
    (@one $vis:vis counter $id:ident, $name:literal, $unit:ident, $help:literal, by $label:ty) => {
        #[doc = $help]
        $vis static $id: $crate::metrics::CounterBy<$label, { <$label>::COUNT }> =
            $crate::metrics::CounterBy::new($name, $help, $crate::metrics::Unit::$unit);
    };
    (@one $vis:vis gauge $id:ident, $name:literal, $unit:ident, $help:literal) => {
        #[doc = $help]
        $vis static $id: $crate::metrics::Gauge =
            $crate::metrics::Gauge::new($name, $help, $crate::metrics::Unit::$unit);
    };
    (@one $vis:vis gauge $id:ident, $name:literal, $unit:ident, $help:literal, by $label:ty) => {
        #[doc = $help]
        $vis static $id: $crate::metrics::GaugeBy<$label, { <$label>::COUNT }> =
            $crate::metrics::GaugeBy::new($name, $help, $crate::metrics::Unit::$unit);
    };
    (@one $vis:vis histogram $id:ident, $name:literal, $unit:ident, $help:literal, [$($bound:literal),+]) => {
        #[doc = $help]
        $vis static $id: $crate::metrics::Histogram = $crate::metrics::Histogram::new(
            $name, $help, $crate::metrics::Unit::$unit, &[$($bound),+],
        );
    };
}

/// Declares an enum whose variants are the values of one label.
#[macro_export]
macro_rules! label_set {
    ($(#[$doc:meta])* $vis:vis enum $id:ident($label:literal) { $($(#[$vdoc:meta])* $variant:ident => $value:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $id {
            $($(#[$vdoc])* #[doc = concat!("Label value `", $value, "`.")] $variant,)+
        }

        impl $id {
            /// Number of values.
            $vis const COUNT: usize = [$($value),+].len();
        }

        impl $crate::metrics::LabelSet for $id {
            const LABEL: &'static str = $label;
            const VALUES: &'static [&'static str] = &[$($value),+];
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

#[cfg(test)]
mod tests;

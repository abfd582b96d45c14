//! Units, and names that must end in theirs.

macro_rules! units {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// Unit of a metric's values: the last word of its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Unit {
            $(#[doc = concat!("`", $name, "`.")] $variant,)+
        }

        impl Unit {
            /// The word in the name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

units! {
    Accesses = "accesses",
    Batches = "batches",
    Blocks = "blocks",
    Bytes = "bytes",
    Connections = "connections",
    Cycles = "cycles",
    Entries = "entries",
    Errors = "errors",
    Events = "events",
    Files = "files",
    Flushes = "flushes",
    Frames = "frames",
    Gaps = "gaps",
    Hosts = "hosts",
    Inserts = "inserts",
    Items = "items",
    Messages = "messages",
    Partitions = "partitions",
    Processes = "processes",
    Queries = "queries",
    Ratio = "ratio",
    Records = "records",
    Requests = "requests",
    Restarts = "restarts",
    Retries = "retries",
    Rows = "rows",
    Samples = "samples",
    Seconds = "seconds",
    Sessions = "sessions",
    Sources = "sources",
    Streams = "streams",
    Symbols = "symbols",
    Version = "version",
}

impl Unit {
    /// How many steps of the stored integer make one unit: time is stored in nanoseconds and
    /// ratios in millionths.
    pub(super) const fn steps(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Ratio => 1_000_000,
            _ => 1,
        }
    }
}

/// Panics at compile time when `name` is not lower-case words that end in `_<unit>` (`_total`).
pub(super) const fn check(name: &str, unit: Unit, counter: bool) {
    let bytes = name.as_bytes();
    let mut at = 0;
    let mut words = 1;
    while at < bytes.len() {
        let byte = bytes[at];
        assert!(
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_',
            "metric names are lower-case words joined by `_`"
        );
        if byte == b'_' {
            words += 1;
        }
        at += 1;
    }
    assert!(words >= 3, "metric names are <service>_<noun>_<unit>");
    let end = if counter {
        assert!(
            ends_with(bytes, bytes.len(), b"_total"),
            "counters end in `_total`"
        );
        bytes.len() - "_total".len()
    } else {
        bytes.len()
    };
    let unit = unit.name().as_bytes();
    assert!(
        ends_with(bytes, end, unit) && end > unit.len() && bytes[end - unit.len() - 1] == b'_',
        "metric names end in their unit"
    );
}

const fn ends_with(text: &[u8], end: usize, suffix: &[u8]) -> bool {
    if end < suffix.len() {
        return false;
    }
    let mut at = 0;
    while at < suffix.len() {
        if text[end - suffix.len() + at] != suffix[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(name: &'static str, unit: Unit, counter: bool) -> bool {
        std::panic::catch_unwind(|| check(name, unit, counter)).is_ok()
    }

    #[test]
    fn a_name_must_end_in_its_unit() {
        let rows = [
            ("decoder_refused_batches_total", Unit::Batches, true, true),
            ("decoder_queue_bytes", Unit::Bytes, false, true),
            ("decoder_queue_bytes", Unit::Bytes, true, false),
            ("decoder_batches_refused_total", Unit::Batches, true, false),
            ("decoder_queue_kilobytes", Unit::Bytes, false, false),
            ("queue_bytes", Unit::Bytes, false, false),
            ("Decoder_queue_bytes", Unit::Bytes, false, false),
            ("bytes", Unit::Bytes, false, false),
        ];
        for (name, unit, counter, expected) in rows {
            assert_eq!(accepted(name, unit, counter), expected, "{name}");
        }
    }
}

//! Where a file ends before its data does.

use std::fmt;

use super::feature;
use crate::kind;

/// The file ends before its data does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Where the incomplete thing starts, or would start, in the file.
    pub at: u64,
    /// Bytes of it that are there.
    pub have: u64,
    /// Bytes it has when it is whole, if that much is known.
    pub need: Option<u64>,
    /// What is incomplete.
    pub what: CutPart,
    /// What the header promised: where the data should end. `None` if the file was never finished
    /// (perf was killed) or is a pipe's.
    pub promised: Option<u64>,
}

/// What a cut file breaks off in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CutPart {
    /// The next record's header: its type is not known.
    Header,
    /// A record of this type.
    Record(u32),
    /// The data behind a record of this type: AUX or tracing data.
    DataOf(u32),
    /// A record that began inside a compressed one: the next compressed one is missing.
    Compressed,
    /// The table that says where the header features are; the records are whole.
    FeatureTable,
    /// A header feature with this number; the records are whole.
    Feature(u32),
}

impl Cut {
    /// Whether what comes before the records' end is whole: only features are missing.
    pub fn records_whole(&self) -> bool {
        matches!(self.what, CutPart::FeatureTable | CutPart::Feature(_))
    }
}

impl fmt::Display for CutPart {
    /// As in "the file ends in …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("the header of a record"),
            Self::Record(number) => match kind::name(*number) {
                Some(name) => write!(f, "the {name} record"),
                None => write!(f, "the record of type {number}"),
            },
            Self::DataOf(number) => match kind::name(*number) {
                Some(name) => write!(f, "the data of the {name} record"),
                None => write!(f, "the data of the record of type {number}"),
            },
            Self::Compressed => f.write_str("a record that goes on in the next compressed one"),
            Self::FeatureTable => f.write_str("the table of the header features"),
            Self::Feature(number) => match feature::name(*number) {
                Some(name) => write!(f, "the header feature {name}"),
                None => write!(f, "the header feature {number}"),
            },
        }
    }
}

impl fmt::Display for Cut {
    /// `the file ends in the SAMPLE record at byte 4096: 12 of its 96 bytes are there, …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            have,
            need,
            what,
            promised,
        } = self;
        write!(f, "the file ends in {what} at byte {at}: ")?;
        match need {
            Some(need) => write!(f, "{have} of its {need} bytes are there")?,
            None => write!(f, "{have} bytes of it are there")?,
        }
        match promised {
            Some(end) => write!(f, "; its header promises data up to byte {end}"),
            None => Ok(()),
        }
    }
}

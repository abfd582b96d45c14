//! What an answer a batch deserves that its stream has brought. Pure.
//!
//! A stream that brings a batch out of turn is asked once to go back; what it had sent before it heard that is passed over.
//! A batch that comes twice although an earlier one was asked for says that its sender has no earlier one.

use memwide_model::Source;

use crate::partition::{Offered, Partition, Verdict};

/// How often a stream may go back and still not bring the batch that is due before it is refused.
const REWINDS_MAX: u32 = 5;

/// What becomes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Build its rows.
    Apply,
    /// Count it, build no rows.
    Expire,
    /// It was applied before; the stream hears what is committed.
    Duplicate {
        /// Last batch committed.
        committed: u64,
    },
    /// The stream must go back to this batch.
    Resume(u64),
    /// It was sent before the stream heard that it should go back.
    PassedOver,
    /// This batch is due and never comes: the stream ends.
    Refuse(u64),
}

/// One stream's place in the order of its source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Order {
    /// An earlier batch was asked for and has not come.
    asked: bool,
    /// Number of the last batch that arrived since then.
    last: u64,
    rewinds: u32,
}

impl Order {
    /// The stream was told to go back, whatever it has sent.
    pub fn asked(&mut self) {
        self.asked = true;
        self.last = 0;
    }

    /// Decides about a batch; after `Apply` and `Expire` the partition counts it as applied.
    pub fn offer(
        &mut self,
        partition: &mut Partition,
        source: &Source,
        mut batch: Offered,
        wall_ns: u64,
        now_ns: u64,
    ) -> Answer {
        let mut verdict = partition.offer(source, batch, wall_ns, now_ns);
        let rewound = self.asked && batch.number <= self.last;
        if matches!(verdict, Verdict::Ahead { .. }) && rewound {
            batch.has_no_earlier = true;
            verdict = partition.offer(source, batch, wall_ns, now_ns);
        }
        let answer = match verdict {
            Verdict::Duplicate { committed } => {
                self.asked = false;
                return Answer::Duplicate { committed };
            }
            Verdict::Ahead { next } => {
                self.last = batch.number;
                if self.asked && !rewound {
                    return Answer::PassedOver;
                }
                self.rewinds += u32::from(rewound);
                self.asked = true;
                return if self.rewinds > REWINDS_MAX {
                    Answer::Refuse(next)
                } else {
                    Answer::Resume(next)
                };
            }
            Verdict::Apply => Answer::Apply,
            Verdict::Expired => Answer::Expire,
        };
        self.asked = false;
        self.rewinds = 0;
        answer
    }
}

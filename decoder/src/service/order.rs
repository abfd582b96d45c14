//! Which batch of a collector's stream is due. Pure.

/// Where a stream stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Order {
    /// Next batch to decode; `None` before `welcome`.
    expect: Option<u64>,
    /// The collector was told to go back: batches that were under way are passed over.
    resuming: bool,
}

/// How the collector is told where to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tell {
    /// For the first time.
    Welcome,
    /// Again: what was decoded before is forgotten.
    Resume,
}

/// What becomes of a batch that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is the next one.
    Due,
    /// It was decoded before, or sent before the collector heard that it should go back.
    PassOver,
    /// Something is missing before it: ask for this batch.
    Resume(u64),
}

impl Order {
    /// The aggregator wants batch `next`; what waits here undecoded is to be dropped.
    pub fn start_from(&mut self, next: u64) -> Tell {
        let tell = if self.expect.is_none() {
            Tell::Welcome
        } else {
            self.resuming = true;
            Tell::Resume
        };
        self.expect = Some(next);
        tell
    }

    /// Batch `number` arrived while `waiting` others wait here to be decoded.
    pub fn arrived(&mut self, number: u64, waiting: u64) -> Place {
        let expect = self.expect.unwrap_or(1);
        let due = expect.saturating_add(waiting);
        if number < due {
            return Place::PassOver;
        }
        if number > due {
            // Once told is enough.
            return if self.resuming {
                Place::PassOver
            } else {
                Place::Resume(expect)
            };
        }
        self.resuming = false;
        Place::Due
    }

    /// The next batch to decode.
    pub fn next(&self) -> u64 {
        self.expect.unwrap_or(1)
    }

    /// Batch `number` is decoded and goes on.
    pub fn decoded(&mut self, number: u64) {
        self.expect = Some(number.saturating_add(1));
    }
}

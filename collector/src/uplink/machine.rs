//! The collector's side of `Ingest.Collect` without I/O: what to send next, what an answer means.
//!
//! ```text
//! hello ─▶            ◀─ welcome {next, side_band_through, credit}
//! side_band … ─▶      from the newest snapshot (or behind what the decoder holds) up to next − 1
//! batch next … ─▶     within credit          ◀─ ack {through} · resume {from} · credit · refuse
//! ```
//!
//! `welcome.next` says what the pipeline has, not what it has committed: only an `ack` frees anything. A source that has
//! nothing left to send waits for it; see [`Uplink::settle`] for files.

use std::collections::{HashMap, VecDeque};

use memwide_proto::v1::{
    Ack, CollectorMessage, Configure, Credit, DecoderMessage, Hello, Refuse, Resume, SymbolRequest,
    Welcome, collector_message, decoder_message,
};
use memwide_proto::{SCHEMA_VERSION, limits};

use super::store::{Origin, Progress};

/// What to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This batch without samples, for the history.
    SideBand(u64),
    /// This batch whole.
    Batch(u64),
}

/// What an answer asks of the edge.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Batches up to here are committed.
    Ack(u64),
    /// Find these symbols.
    Symbols(SymbolRequest),
    /// Apply this configuration.
    Configure(Configure),
    /// The decoder does not take this source (now).
    Refused(Refuse),
}

/// An answer that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The first answer must be `welcome`, and only the first.
    #[error("the decoder sent `{got}` {when} `welcome`")]
    Order {
        /// What came.
        got: &'static str,
        /// `before` or `after a`.
        when: &'static str,
    },
    /// A number that was never sent.
    #[error("the decoder answered `{got}` for batch {number}, only {sent} were sent")]
    NeverSent {
        /// What came.
        got: &'static str,
        /// The number in it.
        number: u64,
        /// Highest number sent so far.
        sent: u64,
    },
    /// The pipeline has more batches of this source than the source itself.
    #[error(
        "the pipeline wants batch {wanted} of this source, which has made only {have}; remove the spool's folder of this source"
    )]
    Ahead {
        /// Wanted next.
        wanted: u64,
        /// Highest number made.
        have: u64,
    },
    /// A first answer without content or with one this build does not know; later ones are passed over.
    #[error("the decoder sent a message this build does not know")]
    Unknown,
}

/// State of one stream, from `hello` to its end. A new stream starts a new one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Uplink {
    welcomed: bool,
    snapshot: u64,
    /// Next batch to send whole.
    next: u64,
    /// Next of the history to send; at `history_end` it is over.
    history: u64,
    history_end: u64,
    acked: u64,
    /// Batches under way, ascending, with their bytes.
    in_flight: VecDeque<(u64, u64)>,
    in_flight_bytes: u64,
    credit: u64,
}

impl Uplink {
    /// A stream about to start, and its first message.
    pub fn start(
        origin: &Origin,
        progress: Progress,
        first_unacked: u64,
        snapshot: u64,
    ) -> (Self, CollectorMessage) {
        let hello = Hello {
            schema_version: SCHEMA_VERSION,
            source: Some((&origin.source).into()),
            hostname: origin.hostname.clone(),
            kind: origin.kind.to_owned(),
            first_unacked,
            next: progress.next,
            snapshot,
            labels: HashMap::new(),
        };
        let uplink = Self {
            welcomed: false,
            snapshot,
            next: first_unacked,
            history: 0,
            history_end: 0,
            acked: first_unacked.saturating_sub(1),
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            credit: limits::UNACKED_BYTES_MAX,
        };
        let hello = CollectorMessage {
            message: Some(collector_message::Message::Hello(hello)),
        };
        (uplink, hello)
    }

    /// What to send next, if anything may be sent.
    pub fn step(&self, progress: Progress) -> Option<Step> {
        if !self.welcomed {
            return None;
        }
        if self.history < self.history_end {
            return Some(Step::SideBand(self.history));
        }
        // One batch may always be under way, however small the credit: else nothing would ever move.
        let may = self.in_flight.is_empty() || self.in_flight_bytes < self.credit;
        (may && self.next < progress.next).then_some(Step::Batch(self.next))
    }

    /// Everything the source will ever have is committed.
    pub fn is_done(&self, progress: Progress) -> bool {
        self.welcomed && progress.finished && self.acked.saturating_add(1) >= progress.next
    }

    /// The step was sent; `bytes` is the size of the message.
    pub fn sent(&mut self, step: Step, bytes: u64) {
        match step {
            Step::SideBand(number) => self.history = number + 1,
            Step::Batch(number) => {
                self.in_flight.push_back((number, bytes));
                self.in_flight_bytes += bytes;
                self.next = number + 1;
            }
        }
    }

    /// Batches up to here are committed, as far as this stream knows.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The decoder has answered the hello.
    pub fn welcomed(&self) -> bool {
        self.welcomed
    }

    /// Bytes under way.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Takes an answer.
    pub fn receive(
        &mut self,
        message: DecoderMessage,
        progress: Progress,
    ) -> Result<Effect, ProtocolError> {
        use decoder_message::Message;
        let Some(message) = message.message else {
            // Of a newer decoder, which does not need the answer of an older collector: what it needs has a schema version.
            return if self.welcomed {
                Ok(Effect::None)
            } else {
                Err(ProtocolError::Unknown)
            };
        };
        let got = match &message {
            Message::Welcome(_) => "welcome",
            Message::Ack(_) => "ack",
            Message::Resume(_) => "resume",
            Message::Credit(_) => "credit",
            Message::Symbols(_) => "symbols",
            Message::Configure(_) => "configure",
            Message::Refuse(_) => "refuse",
        };
        match message {
            Message::Refuse(refuse) => Ok(Effect::Refused(refuse)),
            Message::Welcome(welcome) if !self.welcomed => self.welcome(&welcome, progress),
            Message::Welcome(_) => {
                let when = "after a";
                Err(ProtocolError::Order { got, when })
            }
            // Settings do not wait for who takes the batches.
            Message::Configure(configure) => Ok(Effect::Configure(configure)),
            _ if !self.welcomed => {
                let when = "before";
                Err(ProtocolError::Order { got, when })
            }
            Message::Ack(Ack { through }) => self.ack(through),
            Message::Resume(Resume { from }) => self.resume(from),
            Message::Credit(credit) => {
                self.set_credit(Some(credit));
                Ok(Effect::None)
            }
            Message::Symbols(request) => Ok(Effect::Symbols(request)),
        }
    }

    fn welcome(&mut self, welcome: &Welcome, progress: Progress) -> Result<Effect, ProtocolError> {
        let next = welcome.next.max(1);
        if next > progress.next && !progress.finished {
            return Err(ProtocolError::Ahead {
                wanted: next,
                have: progress.next - 1,
            });
        }
        self.welcomed = true;
        self.next = next.min(progress.next);
        self.history = self.snapshot.max(1).max(welcome.side_band_through + 1);
        self.history_end = self.next;
        self.set_credit(welcome.credit);
        let pushed = welcome.configure.clone();
        Ok(pushed.map_or(Effect::None, Effect::Configure))
    }

    /// The pipeline has everything and says nothing more: what it was asked to commit long ago is committed. Only for
    /// sources that can be sent again at any time, as files: nothing of them is freed by it.
    pub fn settle(&mut self, progress: Progress) -> Effect {
        if !self.waits_for_nothing_but_acks(progress) {
            return Effect::None;
        }
        self.acked = self.next - 1;
        Effect::Ack(self.acked)
    }

    /// Welcomed, everything was there already, nothing is under way, and it is not acked.
    pub fn waits_for_nothing_but_acks(&self, progress: Progress) -> bool {
        self.welcomed
            && progress.finished
            && self.next >= progress.next
            && self.in_flight.is_empty()
            && self.history >= self.history_end
            && !self.is_done(progress)
    }

    fn set_credit(&mut self, credit: Option<Credit>) {
        if let Some(credit) = credit {
            self.credit = credit.unacked_bytes_max;
        }
    }

    fn ack(&mut self, through: u64) -> Result<Effect, ProtocolError> {
        let sent = self.next - 1;
        if through > sent {
            let got = "ack";
            return Err(ProtocolError::NeverSent {
                got,
                number: through,
                sent,
            });
        }
        while let Some(&(number, bytes)) = self.in_flight.front()
            && number <= through
        {
            self.in_flight.pop_front();
            self.in_flight_bytes -= bytes;
        }
        if through <= self.acked {
            return Ok(Effect::None);
        }
        self.acked = through;
        Ok(Effect::Ack(through))
    }

    fn resume(&mut self, from: u64) -> Result<Effect, ProtocolError> {
        if from == 0 || from > self.next {
            let got = "resume";
            return Err(ProtocolError::NeverSent {
                got,
                number: from,
                sent: self.next - 1,
            });
        }
        while let Some(&(number, bytes)) = self.in_flight.back()
            && number >= from
        {
            self.in_flight.pop_back();
            self.in_flight_bytes -= bytes;
        }
        self.next = from;
        Ok(Effect::None)
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;

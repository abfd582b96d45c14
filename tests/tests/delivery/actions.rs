//! What can happen next, and making it happen.

use crate::store::Next;
use crate::world::{Broken, Heard, World};
use std::fmt::Debug;

/// One step of one part. Those from `Disconnect` on are faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Connect { source: usize, path: usize },
    Send { source: usize },
    Hear { source: usize },
    Take { link: u32 },
    Decode { link: u32 },
    Answered { link: u32 },
    OpenPipe { link: u32 },
    EndLink { link: u32 },
    Apply { pipe: u32 },
    EndPipe { pipe: u32 },
    Flush { path: usize },
    Commit { at: usize },
    Landed { path: usize },
    Sink { sink: usize, most: usize },
    Disconnect { source: usize },
    CollectorDies { source: usize },
    GiveUp { source: usize, through: u64 },
    DiesGivingUp { source: usize, through: u64 },
    DiesAppending { source: usize },
    DecoderDies { path: usize },
    PipeBreaks { pipe: u32 },
    AggregatorDies { path: usize },
    CommitLost { at: usize },
    CommitUnanswered { at: usize },
    GivesUpWaiting { path: usize },
    SinkDies { sink: usize },
    InsertUnanswered { sink: usize },
    WriteUnanswered { sink: usize },
}

impl World {
    /// Steps that need no fault.
    pub(crate) fn steps(&self) -> Vec<Action> {
        let mut steps = Vec::new();
        for (source, collector) in self.collectors.iter().enumerate() {
            match &collector.uplink {
                None if !collector.committed() => {
                    let paths = 0..self.aggregators.len();
                    steps.extend(paths.map(|path| Action::Connect { source, path }));
                }
                None => {}
                Some((_, link)) => {
                    if self.may_send(source) {
                        steps.push(Action::Send { source });
                    }
                    if !self.links[link].down.is_empty() {
                        steps.push(Action::Hear { source });
                    }
                }
            }
        }
        for (&id, link) in &self.links {
            let piped = link.pipe.and_then(|pipe| self.pipes.get(&pipe));
            match piped {
                None => steps.push(Action::OpenPipe { link: id }),
                Some(pipe) => {
                    if !link.queue.is_empty() {
                        steps.push(Action::Decode { link: id });
                    }
                    if !pipe.down.is_empty() {
                        steps.push(Action::Answered { link: id });
                    }
                }
            }
            if !link.up.is_empty() {
                steps.push(Action::Take { link: id });
            }
            if link.orphan {
                steps.push(Action::EndLink { link: id });
            }
        }
        for (&id, pipe) in &self.pipes {
            if !pipe.up.is_empty() {
                steps.push(Action::Apply { pipe: id });
            }
            if pipe.orphan {
                steps.push(Action::EndPipe { pipe: id });
            }
        }
        for (path, aggregator) in self.aggregators.iter().enumerate() {
            if aggregator.partition.flush_due_ns().is_some() {
                steps.push(Action::Flush { path });
            }
            let flight = aggregator.flight.as_ref();
            if flight.is_some_and(|flight| flight.answer != Heard::Nothing) {
                steps.push(Action::Landed { path });
            }
        }
        steps.extend((0..self.nats.wire.len()).map(|at| Action::Commit { at }));
        for sink in 0..self.sinks.len() {
            match self.next_of(sink) {
                Next::Nothing => {}
                Next::Gather => {
                    steps.push(Action::Sink { sink, most: 1 });
                    if self.nats.messages.len() > 1 {
                        steps.push(Action::Sink {
                            sink,
                            most: usize::MAX,
                        });
                    }
                }
                _ => steps.push(Action::Sink { sink, most: 0 }),
            }
        }
        steps
    }

    /// Faults that may strike now.
    pub(crate) fn strikes(&self) -> Vec<Action> {
        if self.faults == 0 {
            return Vec::new();
        }
        let mut faults = Vec::new();
        for (source, collector) in self.collectors.iter().enumerate() {
            if collector.uplink.is_some() {
                faults.push(Action::Disconnect { source });
                faults.push(Action::CollectorDies { source });
            }
            if !collector.finished {
                faults.push(Action::DiesAppending { source });
            }
            if let Some(&oldest) = collector.samples.first() {
                faults.push(Action::GiveUp {
                    source,
                    through: oldest,
                });
                faults.push(Action::DiesGivingUp {
                    source,
                    through: oldest,
                });
            }
        }
        for path in 0..self.aggregators.len() {
            if self.links.values().any(|link| link.path == path) {
                faults.push(Action::DecoderDies { path });
            }
            faults.push(Action::AggregatorDies { path });
            let flight = self.aggregators[path].flight.as_ref();
            if flight.is_some_and(|flight| flight.answer == Heard::Nothing) {
                faults.push(Action::GivesUpWaiting { path });
            }
        }
        let open = self.pipes.iter().filter(|(_, pipe)| !pipe.orphan);
        faults.extend(open.map(|(&pipe, _)| Action::PipeBreaks { pipe }));
        for at in 0..self.nats.wire.len() {
            faults.push(Action::CommitLost { at });
            faults.push(Action::CommitUnanswered { at });
        }
        for sink in 0..self.sinks.len() {
            if self.sinks[sink].kept.is_some() {
                faults.push(Action::SinkDies { sink });
            }
            match self.next_of(sink) {
                Next::Insert => faults.push(Action::InsertUnanswered { sink }),
                Next::Done => faults.push(Action::WriteUnanswered { sink }),
                _ => {}
            }
        }
        faults
    }

    /// Makes it happen, and looks whether everything still holds.
    pub(crate) fn act(&mut self, action: Action) -> Result<(), Broken> {
        if action.is_fault() {
            self.faults = self.faults.saturating_sub(1);
        }
        match action {
            Action::Connect { source, path } => self.connect(source, path),
            Action::Send { source } => self.send(source)?,
            Action::Hear { source } => self.hear(source)?,
            Action::Take { link } => self.take(link),
            Action::Decode { link } => self.decode(link),
            Action::Answered { link } => self.answered(link),
            Action::OpenPipe { link } => self.open_pipe(link),
            Action::EndLink { link } => self.end_link(link),
            Action::Apply { pipe } => self.apply(pipe)?,
            Action::EndPipe { pipe } | Action::PipeBreaks { pipe } => self.end_pipe(pipe),
            Action::Flush { path } => self.flush(path),
            Action::Commit { at } => self.commit(at, true)?,
            Action::Landed { path } | Action::GivesUpWaiting { path } => self.landed(path),
            Action::Sink { sink, most } => self.sink_step(sink, most)?,
            Action::Disconnect { source } => self.disconnect(source),
            Action::CollectorDies { source } => self.collector_dies(source),
            Action::GiveUp { source, through } => {
                self.give_up(source, through);
                self.collectors[source].samples.remove(&through);
            }
            Action::DiesGivingUp { source, through } => {
                self.give_up(source, through);
                self.collector_dies(source);
            }
            Action::DiesAppending { source } => {
                // The part without samples is written, the samples are not.
                let collector = &mut self.collectors[source];
                collector.side.insert(collector.next, true);
                collector.torn = Some(collector.next);
                self.collector_dies(source);
            }
            Action::DecoderDies { path } => {
                let of_path = |link: &&u32| self.links[link].path == path;
                let links: Vec<u32> = self.links.keys().filter(of_path).copied().collect();
                for id in links {
                    self.end_link(id);
                }
            }
            Action::AggregatorDies { path } => self.aggregator_dies(path),
            Action::CommitLost { at } => {
                let lost = self.nats.wire.remove(at);
                self.unanswered(lost.path, lost.lives);
            }
            Action::CommitUnanswered { at } => {
                let (path, lives) = (self.nats.wire[at].path, self.nats.wire[at].lives);
                self.commit(at, false)?;
                self.unanswered(path, lives);
            }
            Action::SinkDies { sink } => self.forget(sink),
            Action::InsertUnanswered { sink } => {
                let before = self.sinks[sink].clone();
                self.insert(sink);
                self.sinks[sink] = before;
            }
            Action::WriteUnanswered { sink } => {
                let before = self.sinks[sink].clone();
                let messages = self.nats.messages.clone();
                self.done(sink);
                // Neither the answer came nor was anything purged.
                self.nats.messages = messages;
                self.sinks[sink] = before;
            }
        }
        self.check()
    }

    fn sink_step(&mut self, sink: usize, most: usize) -> Result<(), Broken> {
        match self.next_of(sink) {
            Next::Learn => self.learn(sink),
            Next::Reread => self.reread(sink)?,
            Next::Insert => self.insert(sink),
            Next::Done => self.done(sink),
            Next::Close => self.close(sink),
            Next::Closing => self.closing(sink),
            Next::Gather => self.gather(sink, most.max(1)),
            Next::Nothing => {}
        }
        Ok(())
    }

    fn give_up(&mut self, source: usize, through: u64) {
        self.collectors[source].numbers.give_up(through);
    }

    /// The spool is opened by the next run: its batches go under their own source, none is added.
    fn collector_dies(&mut self, source: usize) {
        self.disconnect(source);
        let collector = &mut self.collectors[source];
        collector.finished = true;
        let newest = collector.side.keys().next_back().copied().unwrap_or(0);
        collector.next = newest.max(collector.numbers.acked) + 1;
    }

    /// An aggregator will hear nothing of a flush any more, unless it was sent twice: it gives up waiting.
    fn unanswered(&mut self, path: usize, lives: u64) {
        let again = self
            .nats
            .wire
            .iter()
            .any(|commit| (commit.path, commit.lives) == (path, lives));
        let aggregator = &mut self.aggregators[path];
        if let Some(flight) = &mut aggregator.flight
            && aggregator.lives == lives
            && !again
            && flight.answer == Heard::Nothing
        {
            flight.answer = Heard::No;
        }
    }
}

impl Action {
    pub(crate) fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Connect { .. }
                | Self::Send { .. }
                | Self::Hear { .. }
                | Self::Take { .. }
                | Self::Decode { .. }
                | Self::Answered { .. }
                | Self::OpenPipe { .. }
                | Self::EndLink { .. }
                | Self::Apply { .. }
                | Self::EndPipe { .. }
                | Self::Flush { .. }
                | Self::Commit { .. }
                | Self::Landed { .. }
                | Self::Sink { .. }
        )
    }
}

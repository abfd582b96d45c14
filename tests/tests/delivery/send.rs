//! From the spool to the aggregator's rows.

use crate::world::{
    Aggregator, Broken, Link, Pipe, Row, SNAPSHOTS, ToAggregator, ToCollector, ToDecoder, WALL_NS,
    What, World, origin, source,
};
use memwide_aggregator::delivery::{Answer, Offered, Order as Offers};
use memwide_collector::delivery::Content;
use memwide_collector::uplink::{Effect, ProtocolError, Step, Uplink};
use memwide_decoder::delivery::{Order, Place, Tell};
use memwide_proto::v1;
use memwide_proto::v1::decoder_message::Message as Said;
use std::collections::{BTreeMap, VecDeque};

fn free<T>(taken: &BTreeMap<u32, T>) -> u32 {
    (0..u32::MAX)
        .find(|id| !taken.contains_key(id))
        .unwrap_or(u32::MAX)
}

fn said(message: ToCollector) -> v1::DecoderMessage {
    let message = match message {
        ToCollector::Welcome(next) => Said::Welcome(v1::Welcome {
            next,
            ..v1::Welcome::default()
        }),
        ToCollector::Ack(through) => Said::Ack(v1::Ack { through }),
        ToCollector::Resume(from) => Said::Resume(v1::Resume { from }),
    };
    v1::DecoderMessage {
        message: Some(message),
    }
}

impl World {
    /// A collector opens a stream to the decoder of `path`; an older stream of the source ends there.
    pub(crate) fn connect(&mut self, of: usize, path: usize) {
        let older: Vec<u32> = self
            .links
            .iter()
            .filter(|(_, link)| (link.source, link.path) == (of, path))
            .map(|(id, _)| *id)
            .collect();
        for id in older {
            self.end_link(id);
        }
        let collector = &mut self.collectors[of];
        let (uplink, _hello) = Uplink::start(
            &origin(of),
            collector.progress(),
            collector.numbers.acked + 1,
            collector.numbers.snapshot,
        );
        let id = free(&self.links);
        collector.uplink = Some((uplink, id));
        self.links.insert(
            id,
            Link {
                source: of,
                path,
                orphan: false,
                up: VecDeque::new(),
                down: VecDeque::new(),
                order: Order::default(),
                queue: VecDeque::new(),
                pipe: None,
            },
        );
        self.open_pipe(id);
    }

    /// A decoder's stream to its aggregator begins.
    pub(crate) fn open_pipe(&mut self, id: u32) {
        let pipe = free(&self.pipes);
        let link = self.links.get_mut(&id).unwrap();
        link.pipe = Some(pipe);
        self.pipes.insert(
            pipe,
            Pipe {
                source: link.source,
                path: link.path,
                orphan: false,
                up: VecDeque::from([ToAggregator::Open]),
                down: VecDeque::new(),
            },
        );
    }

    /// What the collector may send next, history passed over.
    pub(crate) fn may_send(&self, of: usize) -> bool {
        let collector = &self.collectors[of];
        let progress = collector.progress();
        let uplink = collector.uplink.as_ref();
        uplink.is_some_and(|(uplink, _)| uplink.step(progress).is_some())
    }

    pub(crate) fn send(&mut self, of: usize) -> Result<(), Broken> {
        let collector = &mut self.collectors[of];
        let progress = collector.progress();
        let (uplink, link) = collector.uplink.as_mut().unwrap();
        while let Some(step) = uplink.step(progress) {
            uplink.sent(step, 1);
            let number = match step {
                Step::Batch(number) => number,
                Step::SideBand(number) => {
                    // Before the newest committed snapshot none is needed.
                    let needed = number >= collector.numbers.snapshot;
                    if needed && !collector.side.contains_key(&number) {
                        return Err(format!("side-band of batch {number} is gone, and needed"));
                    }
                    continue;
                }
            };
            let has = collector.side.get(&number).copied();
            let samples = collector.samples.contains(&number);
            let what = match collector.numbers.content(number, has, samples) {
                Content::Whole if samples => What::Samples,
                Content::GivenUp => What::Gap,
                Content::Damaged if collector.torn == Some(number) => What::Gap,
                Content::Freed => What::Freed,
                other => return Err(format!("batch {number} is sent as {other:?}")),
            };
            let link = self.links.get_mut(link).unwrap();
            link.up.push_back((number, what));
            return Ok(());
        }
        Ok(())
    }

    /// The collector takes the decoder's next answer.
    pub(crate) fn hear(&mut self, of: usize) -> Result<(), Broken> {
        let collector = &mut self.collectors[of];
        let progress = collector.progress();
        let (uplink, link) = collector.uplink.as_mut().unwrap();
        let message = self.links.get_mut(link).unwrap().down.pop_front().unwrap();
        match uplink.receive(said(message), progress) {
            Ok(Effect::Ack(through)) => {
                let snapshots = SNAPSHOTS.into_iter().filter(|n| *n < collector.next);
                collector.numbers.ack(through, &snapshots.collect());
                let (acked, snapshot) = (collector.numbers.acked, collector.numbers.snapshot);
                collector.samples.retain(|number| *number > acked);
                collector.side.retain(|number, _| *number >= snapshot);
                if uplink.is_done(progress) {
                    self.disconnect(of);
                }
            }
            Ok(Effect::None) => {}
            Ok(other) => return Err(format!("{other:?}")),
            Err(error @ ProtocolError::Ahead { .. }) => return Err(error.to_string()),
            Err(_) => self.disconnect(of), // the stream begins anew
        }
        Ok(())
    }

    /// The collector's end of its stream is gone.
    pub(crate) fn disconnect(&mut self, of: usize) {
        if let Some((_, link)) = self.collectors[of].uplink.take()
            && let Some(link) = self.links.get_mut(&link)
        {
            link.orphan = true;
            link.down.clear();
        }
    }

    /// The decoder's end of a collector's stream is gone.
    pub(crate) fn end_link(&mut self, id: u32) {
        let link = self.links.remove(&id).unwrap();
        if let Some(pipe) = link.pipe.and_then(|pipe| self.pipes.get_mut(&pipe)) {
            pipe.orphan = true;
            pipe.down.clear();
        }
        let collector = &mut self.collectors[link.source];
        if collector.uplink.as_ref().is_some_and(|(_, of)| *of == id) {
            collector.uplink = None;
        }
    }

    /// The decoder takes the next batch from the collector.
    pub(crate) fn take(&mut self, id: u32) {
        let link = self.links.get_mut(&id).unwrap();
        let (number, what) = link.up.pop_front().unwrap();
        match link.order.arrived(number, link.queue.len() as u64) {
            Place::Due => link.queue.push_back((number, what)),
            Place::PassOver => {}
            Place::Resume(from) => self.start_from(id, from),
        }
    }

    fn start_from(&mut self, id: u32, next: u64) {
        let link = self.links.get_mut(&id).unwrap();
        link.queue.clear();
        let message = match link.order.start_from(next) {
            Tell::Welcome => ToCollector::Welcome(next),
            Tell::Resume => ToCollector::Resume(next),
        };
        if !link.orphan {
            link.down.push_back(message);
        }
    }

    /// The decoder decodes the first batch of its queue and hands it on.
    pub(crate) fn decode(&mut self, id: u32) {
        let link = self.links.get_mut(&id).unwrap();
        let (number, what) = link.queue.pop_front().unwrap();
        link.order.decoded(number);
        let pipe = link.pipe.and_then(|pipe| self.pipes.get_mut(&pipe));
        let up = &mut pipe.unwrap().up;
        up.push_back(ToAggregator::Batch(number, what));
    }

    /// The decoder takes the aggregator's next answer.
    pub(crate) fn answered(&mut self, id: u32) {
        let link = self.links.get_mut(&id).unwrap();
        let pipe = self.pipes.get_mut(&link.pipe.unwrap()).unwrap();
        match pipe.down.pop_front().unwrap() {
            ToDecoder::Opened(next) | ToDecoder::Resume(next) => self.start_from(id, next.max(1)),
            ToDecoder::Committed(through) => {
                if !link.orphan {
                    link.down.push_back(ToCollector::Ack(through));
                }
            }
            ToDecoder::Refuse => self.end_link(id),
        }
    }

    pub(crate) fn tell(&mut self, pipe: u32, message: ToDecoder) {
        let Some(pipe) = self.pipes.get_mut(&pipe).filter(|pipe| !pipe.orphan) else {
            return;
        };
        // What is said again in other words replaces what was not heard yet.
        if let (Some(ToDecoder::Committed(last)), ToDecoder::Committed(through)) =
            (pipe.down.back_mut(), message)
        {
            *last = through.max(*last);
        } else {
            pipe.down.push_back(message);
        }
    }

    /// The aggregator takes a stream's next message.
    pub(crate) fn apply(&mut self, id: u32) -> Result<(), Broken> {
        let pipe = self.pipes.get_mut(&id).unwrap();
        let (of, path) = (pipe.source, pipe.path);
        let message = pipe.up.pop_front().unwrap();
        let aggregator = &mut self.aggregators[path];
        match message {
            ToAggregator::Open => {
                let next = aggregator.partition.open(source(of)).unwrap();
                let committed = aggregator.partition.committed_of(&source(of));
                let older = aggregator.streams.insert(of, (id, Offers::default()));
                if let Some((older, _)) = older {
                    self.tell(older, ToDecoder::Refuse);
                }
                self.tell(id, ToDecoder::Opened(next));
                if committed > 0 {
                    self.tell(id, ToDecoder::Committed(committed));
                }
            }
            ToAggregator::Batch(number, what) => {
                let Aggregator {
                    streams,
                    partition,
                    rows,
                    ..
                } = aggregator;
                let stream = streams.get_mut(&of).filter(|(stream, _)| *stream == id);
                let Some((_, order)) = stream else {
                    return Ok(()); // an older stream of a source that has a newer one
                };
                let offered = Offered {
                    number,
                    closed_wall_ns: WALL_NS,
                    import: false,
                    has_no_earlier: false,
                };
                match order.offer(partition, &source(of), offered, WALL_NS, 0) {
                    Answer::Apply => {
                        rows.push(Row {
                            source: of,
                            batch: number,
                            what,
                        });
                    }
                    Answer::Duplicate { committed } => {
                        self.tell(id, ToDecoder::Committed(committed));
                    }
                    Answer::PassedOver => {}
                    Answer::Resume(next) => self.tell(id, ToDecoder::Resume(next)),
                    Answer::Refuse(_) => {
                        streams.remove(&of);
                        self.tell(id, ToDecoder::Refuse);
                    }
                    Answer::Expire => return Err(format!("batch {number} expired at once")),
                }
            }
        }
        Ok(())
    }

    /// The aggregator sees a stream's end; what was under way in it is gone.
    pub(crate) fn end_pipe(&mut self, id: u32) {
        let pipe = self.pipes.remove(&id).unwrap();
        let aggregator = &mut self.aggregators[pipe.path];
        if aggregator
            .streams
            .get(&pipe.source)
            .is_some_and(|(stream, _)| *stream == id)
        {
            aggregator.streams.remove(&pipe.source);
            aggregator.partition.close(&source(pipe.source));
        }
        for link in self.links.values_mut() {
            if link.pipe == Some(id) {
                link.pipe = None;
            }
        }
    }
}

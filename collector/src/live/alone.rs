//! Without any right to sample: what the kernel tells everybody is collected all the same.

use std::sync::Arc;
use std::time::Duration;

use memwide_proto::limits;
use memwide_proto::v1::{Batch, HostFacts, Readings};
use memwide_service::CancellationToken;
use memwide_service::clock::unix_ns;

use super::Locks;
use super::waits::Unwritten;
use crate::metrics;
use crate::readings::{Look, Reader};
use crate::spool::{Epoch, Spool, SpoolError};
use crate::status::Reporter;

/// Between two looks at whether it shall stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Everything the thread works on.
pub(super) struct Alone {
    pub(super) look: Look,
    pub(super) epoch: Arc<Epoch>,
    pub(super) spool: Arc<Spool>,
    pub(super) facts: HostFacts,
    pub(super) reporter: Reporter,
    pub(super) blind_ns: u64,
    pub(super) boot: [u8; 16],
    pub(super) _locks: Arc<Locks>,
}

impl Alone {
    /// A batch a second, without samples, until `stop` is cancelled.
    pub(super) fn run(self, stop: &CancellationToken) -> anyhow::Result<()> {
        let reader = Reader::start(self.look.clone())?;
        let mut unwritten: Option<Batch> = None;
        let mut waits = Unwritten::default();
        loop {
            let ends = stop.is_cancelled();
            let batch = unwritten
                .take()
                .unwrap_or_else(|| self.batch(reader.take()));
            if let Err(error) = self.write(&batch) {
                waits.failed(&error, &self.reporter);
                unwritten = Some(batch);
            } else {
                waits.written();
            }
            if ends {
                break;
            }
            let mut waited = Duration::ZERO;
            while waited < Duration::from_millis(limits::BATCH_AGE_MS) && !stop.is_cancelled() {
                std::thread::sleep(LOOK_EVERY);
                waited += LOOK_EVERY;
            }
        }
        self.epoch.finish();
        match unwritten {
            Some(batch) => anyhow::bail!("the disk did not take the last batch, {}", batch.number),
            None => Ok(()),
        }
    }

    fn batch(&self, readings: Readings) -> Batch {
        let number = self.epoch.next();
        let is_first = number == 1;
        Batch {
            number,
            closed_wall_ns: unix_ns(),
            snapshot: is_first,
            facts: is_first.then(|| self.facts.clone()),
            blind_ns: if is_first { self.blind_ns } else { 0 },
            readings: (readings != Readings::default()).then_some(readings),
            ..Batch::default()
        }
    }

    fn write(&self, batch: &Batch) -> Result<(), SpoolError> {
        self.epoch.append(batch)?;
        metrics::BATCHES.add(1);
        self.spool.seen(&self.boot, batch.closed_wall_ns);
        self.spool.bound()?;
        let bytes = self.spool.bytes();
        let earlier = self.spool.earlier_unacked(&self.epoch);
        self.reporter.update(|status| {
            status.batches = batch.number;
            status.unwritten.clear();
            status.spool_bytes = bytes;
            status.earlier_batches = earlier;
        });
        Ok(())
    }
}

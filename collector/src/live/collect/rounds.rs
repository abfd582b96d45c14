//! Rounds over the rings, and waiting for them.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Context as _;
use memwide_proto::limits;
use memwide_service::clock::instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Work, watchers};
use crate::batch::Collected;
use crate::claim::Claim;
use crate::events::EventSet;
use crate::metrics;
use crate::ring::Ring;

/// Bytes of one round, at most, one ring more: what a section may hold bounds it.
const ROUND_BYTES: usize = 32 << 20;
/// Bytes copied and packed at once: they stay in a core's cache meanwhile.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of records at which a batch is closed early.
const BATCH_BYTES: usize = 4 << 20;
/// Between two attempts to write a batch that the disk did not take.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

impl Work {
    /// Waits until a ring is a quarter full, or long enough.
    pub(super) fn wait(&mut self) -> anyhow::Result<()> {
        if self.unwritten.is_some() {
            std::thread::sleep(WRITE_AGAIN);
            return Ok(());
        }
        let cpus = &self.it.set.cpus;
        let all: Vec<BorrowedFd<'_>> = cpus
            .iter()
            .flat_map(|cpu| {
                let samples = cpu.samples.iter().map(|one| one.leader.as_fd());
                samples.chain([cpu.side_leader.as_fd()])
            })
            .collect();
        let mut waiting: Vec<PollFd<'_>> = all
            .iter()
            .zip(&self.hung)
            .filter(|(_, hung)| !**hung)
            .map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let millis = self.it.config.rings.poll_ms.clamp(1, limits::BATCH_AGE_MS);
        let timeout = Timespec {
            tv_sec: i64::try_from(millis / 1_000).unwrap_or(1),
            tv_nsec: i64::try_from(millis % 1_000 * 1_000_000).unwrap_or(0),
        };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the rings"),
        }
        let gone: Vec<bool> = waiting
            .iter()
            .map(|fd| {
                fd.revents().contains(PollFlags::HUP) && !fd.revents().contains(PollFlags::IN)
            })
            .collect();
        let live = self.hung.iter_mut().filter(|hung| !**hung);
        for (hung, gone) in live.zip(gone) {
            *hung = gone;
        }
        Ok(())
    }

    /// Each batch has costs of its own, so a fast machine makes large ones: as large as a quarter of a ring allows. The ring gets
    /// its room back with the batch; the rest of it is for the time until then.
    pub(super) fn is_full(&self) -> bool {
        let is_long = |ring: &Ring| ring.held() >= ring.size() as u64 / 4;
        let mut cpus = self.it.set.cpus.iter();
        self.collected.len() >= BATCH_BYTES
            || cpus.any(|cpu| {
                is_long(&cpu.side_ring) || cpu.samples.iter().any(|one| is_long(&one.ring))
            })
    }

    /// Empties the rings, those of the next CPUs another time when there is much.
    pub(super) fn round(&mut self) {
        let cpus = self.it.set.cpus.len();
        let before = self.collected.samples.len();
        let mut looked = 0;
        while looked < cpus {
            if self.collected.samples.len() - before >= ROUND_BYTES {
                break;
            }
            let at = (self.first_cpu + looked) % cpus;
            let rings = self.it.set.cpus.get_mut(at).map(|cpu| &mut cpu.samples);
            for one in rings.into_iter().flatten() {
                let others = &self.it.set.others;
                let claim = one.counted.map(|own| Claim { own, others });
                let collected = &mut self.collected;
                while one.ring.copy_piece(&mut collected.samples, PIECE_BYTES) > 0 {
                    let claimed = collected.take_samples(&mut self.ids, claim.as_ref());
                    metrics::CLAIMED.add(claimed);
                    if self.it.selection.is_none() && self.boost.is_none() {
                        collected.pack_new();
                    }
                }
                collected.end_ring();
            }
            looked += 1;
        }
        if looked == cpus {
            self.counts.emptied();
        }
        self.first_cpu = (self.first_cpu + looked) % cpus.max(1);
        let from = self.collected.side_band.len();
        drain_side_band(&mut self.it.set, &mut self.collected);
        self.enter_cgroups();
        for selection in watchers(&mut self.it.selection, &mut self.boost) {
            let new = self.collected.side_band.get(from..);
            selection.follow(new.unwrap_or_default());
        }
        if let Some(selection) = &mut self.it.selection {
            self.collected.select(before, selection, &mut self.ids);
        }
        if let Some(boost) = self.boost.as_mut().filter(|boost| boost.is_running()) {
            boost.sort_out(before, &mut self.collected, &mut self.ids);
        }
        self.collected.pack_new();
        if let Some(marker) = &self.marker {
            let new = self.collected.side_band.get(from..).unwrap_or_default();
            if let Some(anchor) = marker.find(new, self.trailer) {
                self.anchor = anchor;
                self.anchors.push((&anchor).into());
                self.marker = None;
            }
        }
    }

    pub(super) fn enter_cgroups(&mut self) {
        let now = instant();
        for cgroup in self.collected.cgroups.drain(..) {
            let Some(workload) = self.identity.enter(cgroup, now) else {
                continue;
            };
            for selection in watchers(&mut self.it.selection, &mut self.boost) {
                selection.know_cgroup(workload);
            }
        }
    }

    /// Rounds until all rings are empty: one may stop early, each takes at least one ring.
    pub(super) fn drain(&mut self) {
        for _ in 0..self.it.set.cpus.len() {
            self.round();
            let mut rings = self.it.set.cpus.iter().flat_map(|cpu| &cpu.samples);
            if rings.all(|one| one.ring.is_drained()) {
                break;
            }
        }
    }
}

pub(super) fn drain_side_band(set: &mut EventSet, collected: &mut Collected) {
    for cpu in &mut set.cpus {
        let from = collected.side_band.len();
        if cpu.side_ring.copy_new(&mut collected.side_band) > 0 {
            collected.take_side_band(from);
        }
    }
}

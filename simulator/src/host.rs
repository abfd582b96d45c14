//! One simulated host: makes a batch a tick, keeps it until it is acked.

use crate::program;
use crate::random::Random;
use crate::records::{self, Access, CPUS, Layouts, NODE_BYTES};
use crate::truth::{Truth, TruthKey};
use memwide_collector::SectionPacker;
use memwide_collector::uplink::{
    BatchStore, Origin, Progress, StoreError, SymbolAnswer, SymbolProvider,
};
use memwide_model::data_src::lvl_num;
use memwide_model::{BootId, ContentHash, HostId, Source};
use memwide_proto::v1::{
    Batch, ClockAnchor, EventCount, HostFacts, MappingIdentity, MemoryRange, Node, SymbolRequest,
    mapping_identity,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Batches kept at most; a host whose decoder is away longer makes no more until some are acked.
const UNACKED_BATCHES_MAX: usize = 600;

/// Processes of a host.
const PROCESSES: u64 = 4;
const FIRST_PID: u32 = 1_000;

/// Why a batch could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// A record could not be written.
    #[error("a simulated record cannot be written")]
    Encode(#[from] memwide_perf_abi::EncodeError),
    /// Records could not be packed.
    #[error("simulated records cannot be packed")]
    Pack(#[from] std::io::Error),
}

/// What a host is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Position in its fleet.
    pub position: usize,
    /// Whether [`crate::BADLY_PLACED`] has its data on the wrong node here.
    pub badly_placed: bool,
    /// Samples a tick.
    pub samples: u64,
    /// Same seed, same samples.
    pub seed: u64,
    /// New for each run, so that runs are different sources.
    pub epoch: u64,
}

/// A host that exists only on the wire.
#[derive(Debug)]
pub struct SimulatedHost {
    spec: HostSpec,
    layouts: Layouts,
    truth: Truth,
    progress: watch::Sender<Progress>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    /// Batch 1 without samples: all side-band there is.
    first: Option<Batch>,
    unacked: VecDeque<Batch>,
    acked: u64,
}

impl SimulatedHost {
    /// A host that has sent nothing yet; what it makes is added to `truth`.
    pub fn new(spec: HostSpec, truth: Truth) -> Result<Self, memwide_perf_abi::LayoutError> {
        let (progress, _) = watch::channel(Progress {
            next: 1,
            finished: false,
        });
        let state = State {
            random: Random::new(spec.seed),
            first: None,
            unacked: VecDeque::new(),
            acked: 0,
        };
        Ok(Self {
            spec,
            layouts: Layouts::new()?,
            truth,
            progress,
            state: Mutex::new(state),
        })
    }

    /// Makes the batch of the `tick_ns` nanoseconds that end at `wall_ns`. `false`: too much is unacked, nothing was made.
    pub fn tick(&self, wall_ns: u64, tick_ns: u64) -> Result<bool, MakeError> {
        let mut state = self.state();
        if state.unacked.len() >= UNACKED_BATCHES_MAX {
            return Ok(false);
        }
        let number = self.progress.borrow().next;
        let start_ns = wall_ns.saturating_sub(tick_ns);
        let (samples, counts, truth) = self.samples(&mut state.random, start_ns, tick_ns)?;
        let records = u32::try_from(self.spec.samples).unwrap_or(u32::MAX);
        let mut batch = Batch {
            number,
            closed_wall_ns: wall_ns,
            // The simulated perf clock is the wall clock.
            anchors: vec![ClockAnchor {
                perf_ns: start_ns,
                wall_ns: start_ns,
                uncertainty_ns: 0,
            }],
            samples: Some(SectionPacker::new()?.pack(&samples, records)?),
            counts,
            ..Batch::default()
        };
        if number == 1 {
            self.introduce(&mut batch, start_ns)?;
            state.first = Some(Batch {
                samples: None,
                ..batch.clone()
            });
        }
        state.unacked.push_back(batch);
        drop(state);
        self.truth.add(&truth);
        self.progress
            .send_modify(|progress| progress.next = number + 1);
        Ok(true)
    }

    /// No batch will follow.
    pub fn finish(&self) {
        self.progress
            .send_modify(|progress| progress.finished = true);
    }

    /// What batch 1 has besides samples: facts, events, processes.
    fn introduce(&self, batch: &mut Batch, time_ns: u64) -> Result<(), MakeError> {
        let (mut side_band, mut records) = (Vec::new(), 0);
        for pid in (FIRST_PID..).take(usize::try_from(PROCESSES).unwrap_or(0)) {
            records += records::process(
                &self.layouts,
                &mut side_band,
                pid,
                time_ns.saturating_sub(1),
            )?;
        }
        batch.side_band = Some(SectionPacker::new()?.pack(&side_band, records)?);
        batch.events = records::descriptions();
        batch.facts = Some(self.facts());
        batch.snapshot = true;
        Ok(())
    }

    fn facts(&self) -> HostFacts {
        let node = |node: u32| Node {
            node,
            cpus: (node * CPUS / 2..(node + 1) * CPUS / 2).collect(),
            distances: if node == 0 {
                vec![10, 21]
            } else {
                vec![21, 10]
            },
            memory_bytes: NODE_BYTES,
        };
        let range = |node: u32| MemoryRange {
            start: u64::from(node) * NODE_BYTES,
            end: (u64::from(node) + 1) * NODE_BYTES,
            node,
        };
        HostFacts {
            hostname: self.spec.name.clone(),
            arch: "x86_64".to_owned(),
            os_release: "simulated".to_owned(),
            cpu_vendor: "GenuineIntel".to_owned(),
            cpu_desc: "simulated two-socket Sapphire Rapids".to_owned(),
            cpuid: "GenuineIntel-6-143-8".to_owned(),
            cpus_online: CPUS,
            page_size_bytes: 4096,
            nodes: vec![node(0), node(1)],
            memory: vec![range(0), range(1)],
            remote_means: "package".to_owned(),
            kind: "simulated".to_owned(),
            ..HostFacts::default()
        }
    }

    /// Records of one tick, counts by event, and the truth.
    #[expect(clippy::type_complexity, reason = "three results of one walk")]
    fn samples(
        &self,
        random: &mut Random,
        start_ns: u64,
        tick_ns: u64,
    ) -> Result<(Vec<u8>, Vec<EventCount>, BTreeMap<TruthKey, u64>), MakeError> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.spec.samples).unwrap_or(0) * 104);
        let mut produced = [0_u64; records::EVENT_COUNT];
        let mut truth = BTreeMap::new();
        for n in 0..self.spec.samples {
            let access = self.access(random, start_ns + tick_ns * n / self.spec.samples.max(1));
            self.layouts.write(&mut bytes, access, random)?;
            if let Some(count) = produced.get_mut(access.event) {
                *count += 1;
            }
            let key = TruthKey {
                host: self.spec.position,
                function: program::name(access.function),
                event: records::event_name(access.event),
                locality: access.locality(),
            };
            *truth.entry(key).or_insert(0) += 1;
        }
        let counts = produced
            .iter()
            .zip(0_u32..)
            .map(|(produced, event)| EventCount {
                event,
                produced: *produced,
                ..EventCount::default()
            });
        Ok((bytes, counts.collect(), truth))
    }

    fn access(&self, random: &mut Random, time_ns: u64) -> Access {
        let bad = self.spec.badly_placed;
        // Remote misses are the more frequent event where data is badly placed.
        let weights = if bad {
            [600, 150, 50, 200]
        } else {
            [600, 200, 150, 50]
        };
        let event = random.pick(&weights);
        let (level, remote) = match event {
            records::REMOTE_DRAM => (lvl_num::RAM, true),
            records::LOCAL_DRAM => (lvl_num::RAM, false),
            records::STORES => (
                if random.permille(920) {
                    lvl_num::L1
                } else {
                    lvl_num::NA
                },
                false,
            ),
            _ => {
                let levels = [
                    lvl_num::L1,
                    lvl_num::LFB,
                    lvl_num::L2,
                    lvl_num::L3,
                    lvl_num::RAM,
                ];
                let level = levels
                    .get(random.pick(&[640, 60, 120, 80, 100]))
                    .copied()
                    .unwrap_or(lvl_num::L1);
                (
                    level,
                    level == lvl_num::RAM && random.permille(if bad { 450 } else { 30 }),
                )
            }
        };
        let function = match (remote, bad) {
            // One of 200 remote accesses, everywhere.
            (true, _) if random.permille(5) => program::RARE_AT,
            (true, true) if random.permille(900) => program::BADLY_PLACED_AT,
            (true, _) => {
                let mut weights = program::weights();
                for planted in [program::RARE_AT, program::BADLY_PLACED_AT] {
                    if let Some(weight) = weights.get_mut(planted) {
                        *weight = 0;
                    }
                }
                random.pick(&weights)
            }
            (false, _) => random.pick(&program::weights()),
        };
        let pid = FIRST_PID + u32::try_from(random.below(PROCESSES)).unwrap_or(0);
        Access {
            event,
            function,
            level,
            remote,
            pid,
            time_ns,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchStore for SimulatedHost {
    fn origin(&self) -> Origin {
        let wide = |kind: &str| {
            let hash = |part| {
                ContentHash::of(kind)
                    .bytes(self.spec.name.as_bytes())
                    .number(part)
                    .finish()
            };
            let mut id = [0; 16];
            let (low, high) = id.split_at_mut(8);
            low.copy_from_slice(&hash(0).to_le_bytes());
            high.copy_from_slice(&hash(1).to_le_bytes());
            id
        };
        Origin {
            source: Source {
                host: HostId(wide("simulated host")),
                boot: BootId(wide("simulated boot")),
                epoch: self.spec.epoch,
            },
            hostname: self.spec.name.clone(),
            kind: "simulated",
        }
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn first_unacked(&self) -> u64 {
        self.state().acked + 1
    }

    fn snapshot(&self) -> u64 {
        u64::from(self.state().acked > 0)
    }

    fn read(&self, number: u64) -> Result<Batch, StoreError> {
        let state = self.state();
        let at = number
            .checked_sub(state.acked + 1)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(batch) = at.and_then(|at| state.unacked.get(at)) {
            return Ok(batch.clone());
        }
        match &state.first {
            Some(first) if number == 1 => Ok(first.clone()),
            // Later batches have no side-band: an empty one says all.
            Some(_) if number >= 1 && number <= state.acked => Ok(Batch {
                number,
                ..Batch::default()
            }),
            _ => Err(StoreError::Missing {
                number,
                next: self.progress.borrow().next,
            }),
        }
    }

    fn ack(&self, through: u64) -> Result<(), StoreError> {
        let mut state = self.state();
        while state.acked < through && state.unacked.pop_front().is_some() {
            state.acked += 1;
        }
        Ok(())
    }
}

impl SymbolProvider for SimulatedHost {
    fn table(&self, request: &SymbolRequest) -> Result<SymbolAnswer, String> {
        let wanted = request
            .identity
            .as_ref()
            .map(|identity| identity.id.as_slice());
        if wanted != Some(&program::BUILD_ID[..]) {
            return Err("a simulated host has one program only".to_owned());
        }
        Ok(SymbolAnswer {
            identity: MappingIdentity {
                kind: mapping_identity::Kind::BuildId.into(),
                id: program::BUILD_ID.to_vec(),
                path: program::PATH.to_owned(),
            },
            table: program::symbols().encode(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(badly_placed: bool) -> (SimulatedHost, Truth) {
        let truth = Truth::default();
        let spec = HostSpec {
            name: "sim".to_owned(),
            position: 0,
            badly_placed,
            samples: 2_000,
            seed: 7,
            epoch: 1,
        };
        (SimulatedHost::new(spec, truth.clone()).unwrap(), truth)
    }

    fn remote(truth: &Truth, function: &str) -> u64 {
        truth.samples(|key| {
            key.function == function && key.locality == memwide_model::Locality::Remote
        })
    }

    #[test]
    fn the_truth_counts_every_sample_made() {
        let (host, truth) = host(true);
        for tick in 1..=3 {
            assert!(host.tick(tick * 1_000_000_000, 1_000_000_000).unwrap());
        }
        assert_eq!(truth.samples(|_| true), 6_000);
        let produced: u64 = (1..=3)
            .flat_map(|number| host.read(number).unwrap().counts)
            .map(|count| count.produced)
            .sum();
        assert_eq!(produced, 6_000);
    }

    #[test]
    fn the_planted_function_is_remote_only_where_it_is_badly_placed() {
        let ((bad, bad_truth), (good, good_truth)) = (host(true), host(false));
        for tick in 1..=20 {
            bad.tick(tick * 1_000_000_000, 1_000_000_000).unwrap();
            good.tick(tick * 1_000_000_000, 1_000_000_000).unwrap();
        }
        assert!(remote(&bad_truth, crate::BADLY_PLACED) > 1_000);
        assert_eq!(remote(&good_truth, crate::BADLY_PLACED), 0);
        let all = bad_truth.samples(|key| key.locality == memwide_model::Locality::Remote);
        let rare = remote(&bad_truth, crate::RARE);
        assert!(
            rare * 1_000 > all * 2 && rare * 1_000 < all * 9,
            "{rare} of {all} are not about 0.5 %"
        );
    }

    #[test]
    fn an_acked_batch_leaves_its_side_band() {
        let (host, _) = host(false);
        host.tick(1_000_000_000, 1_000_000_000).unwrap();
        host.tick(2_000_000_000, 1_000_000_000).unwrap();
        host.ack(1).unwrap();
        assert_eq!((host.first_unacked(), host.snapshot()), (2, 1));
        let first = host.side_band(1).unwrap();
        assert!(first.side_band.is_some() && first.samples.is_none() && !first.events.is_empty());
        assert!(host.read(2).unwrap().samples.is_some());
        assert!(matches!(
            host.read(3),
            Err(StoreError::Missing { number: 3, next: 3 })
        ));
    }
}

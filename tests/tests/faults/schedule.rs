//! What is done to whom, when: the same seed, the same schedule.

use memwide_tests::Deployment;
use memwide_tests::generated::Random;
use std::fmt::Write as _;

/// Load lasts so long; faults strike within.
pub(crate) const LOAD_MS: u64 = 5_000;
const FIRST_MS: u64 = 400;
const LAST_MS: u64 = 4_300;

/// One thing done to one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Kill(String),
    Run(String),
    Stop(String),
    Continue(String),
    /// From its next start on, the decoder sends to this aggregator.
    Lead(String, String),
}

/// A schedule.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// What is done, by time in milliseconds.
    pub(crate) ops: Vec<(u64, Op)>,
    /// The same for people.
    pub(crate) text: String,
    pub(crate) sources: usize,
    /// Samples of a batch.
    pub(crate) samples: u64,
    /// Bound of each spool.
    pub(crate) spool_bytes: u64,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sources = 2 + usize::try_from(random.below(3)).unwrap();
        let mut schedule = Self {
            ops: Vec::new(),
            text: String::new(),
            sources,
            samples: 100 + random.below(300),
            // From a second or two to much more than the load.
            spool_bytes: [16 << 10, 48 << 10, 16 << 20][usize::try_from(random.below(3)).unwrap()],
        };
        for _ in 0..=random.below(3) {
            let at = FIRST_MS + random.below(LAST_MS - FIRST_MS);
            schedule.strike(at, &mut random);
        }
        // What is done at the same time keeps its order.
        schedule.ops.sort_by_key(|(at, _)| *at);
        schedule
    }

    fn victim(&self, random: &mut Random) -> String {
        let sources = (1..=self.sources).map(|source| format!("source-{source}"));
        let services = Deployment::SERVICES.iter().map(|name| (*name).to_owned());
        let collector = std::iter::once("collector".to_owned());
        let all: Vec<String> = services.chain(collector).chain(sources).collect();
        all[usize::try_from(random.below(all.len() as u64)).unwrap()].clone()
    }

    fn strike(&mut self, at: u64, random: &mut Random) {
        match random.below(10) {
            0..=5 => {
                let first = self.victim(random);
                let mut victims = vec![first];
                if random.below(2) == 0 {
                    victims.push(self.victim(random));
                    victims.dedup();
                }
                let down = [30, 300, 900, 3_000][usize::try_from(random.below(4)).unwrap()];
                self.say(at, &format!("kill {} for {down}", victims.join(" and ")));
                for victim in victims {
                    self.ops.push((at, Op::Kill(victim.clone())));
                    self.ops.push((at + down, Op::Run(victim)));
                }
            }
            6 | 7 => {
                let victim = self.victim(random);
                let pause = 200 + random.below(2_500);
                self.say(at, &format!("pause {victim} for {pause}"));
                self.ops.push((at, Op::Stop(victim.clone())));
                self.ops.push((at + pause, Op::Continue(victim)));
            }
            8 => {
                let pause = 500 + random.below(2_000);
                self.say(at, &format!("twin sink for {pause}"));
                self.twin("sink", at, pause);
            }
            _ => {
                let pause = 500 + random.below(2_000);
                self.say(at, &format!("twin aggregator takes over for {pause}"));
                self.twin("aggregator", at, pause);
                // Decoders are led to the twin, and back while it still has something.
                for decoder in ["decoder-1", "decoder-2"] {
                    for (at, to) in [
                        (at + 50, "aggregator-2"),
                        (at + pause + 400, "aggregator-1"),
                    ] {
                        let decoder = decoder.to_owned();
                        self.ops
                            .push((at, Op::Lead(decoder.clone(), to.to_owned())));
                        self.ops.push((at, Op::Run(decoder)));
                    }
                }
            }
        }
    }

    fn say(&mut self, at: u64, what: &str) {
        let parted = if self.text.is_empty() { "" } else { "; " };
        write!(self.text, "{parted}{what} at {at}").unwrap();
    }

    /// The one in office is paused while another does its work, and goes on beside it.
    fn twin(&mut self, role: &str, at: u64, pause: u64) {
        let (one, two) = (format!("{role}-1"), format!("{role}-2"));
        self.ops.extend([
            (at, Op::Stop(one.clone())),
            (at, Op::Run(two.clone())),
            (at + pause, Op::Continue(one)),
            (at + pause + 1_000, Op::Kill(two)),
        ]);
    }
}

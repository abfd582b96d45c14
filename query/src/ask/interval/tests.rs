use super::*;

fn moments(clusters: &[(f64, f64)]) -> Moments {
    let mut sums = Moments::default();
    for (y, x) in clusters {
        sums.y += y;
        sums.yy += y * y;
        sums.xy += x * y;
        sums.x += x;
        sums.xx += x * x;
        sums.singles_y += y;
        sums.singles_x += x;
    }
    sums
}

fn sums(clusters: &[(f64, f64)]) -> Sums {
    Sums {
        samples: moments(clusters),
        periods: Moments::default(),
        clusters: clusters.len() as u64,
    }
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (degrees, quantile) in [(7.0, 2.3646), (10.0, 2.2281), (30.0, 2.0423), (1e6, 1.96)] {
        assert!((student(degrees) - quantile).abs() < 1e-3, "{degrees}");
    }
}

#[test]
fn few_clusters_give_a_lower_bound_and_many_tell_how_hosts_differ() {
    let (even, basis) = sums(&[(20.0, 100.0)]).interval(Of::Samples);
    assert_eq!(basis, "sampling_only");
    let [low, high] = even.unwrap();
    assert!((low - 0.1334).abs() < 1e-3 && (high - 0.2888).abs() < 1e-3);
    // Eight hosts: the same share everywhere, and all of it on one.
    let (even, basis) = sums(&[(20.0, 100.0); 8]).interval(Of::Samples);
    assert_eq!(basis, "clusters");
    let mut uneven = [(0.0, 100.0); 8];
    uneven[0].0 = 160.0;
    let (uneven, _) = sums(&uneven.map(|(y, x)| (y / 2.0, x))).interval(Of::Samples);
    let width = |interval: Option<[f64; 2]>| interval.map(|[low, high]| high - low).unwrap();
    assert!(width(uneven) > 3.0 * width(even));
    assert_eq!(Sums::default().interval(Of::Samples), (None, "none"));
}

/// Hosts differ, and samples come in bursts: intervals of clusters cover the truth, those of samples alone do not.
#[test]
fn intervals_of_clusters_cover_what_they_say_on_uneven_hosts() {
    let mut state = 11_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let (mut covered, mut by_samples) = (0, 0);
    let rounds = 2_000;
    for _ in 0..rounds {
        let clusters: Vec<(f64, f64)> = (0..24)
            .map(|_| {
                let x = 40 + (0..200).filter(|_| random() < 0.5).count();
                let share = 0.1 + 0.2 * random();
                let y = (0..x).filter(|_| random() < share).count();
                (y as f64, x as f64)
            })
            .collect();
        let sums = sums(&clusters);
        let [low, high] = sums.interval(Of::Samples).0.unwrap();
        covered += u32::from(low <= 0.2 && 0.2 <= high);
        let [low, high] = wilson(sums.samples.share(), sums.samples.x, Z);
        by_samples += u32::from(low <= 0.2 && 0.2 <= high);
    }
    assert!(f64::from(covered) >= 0.93 * f64::from(rounds), "{covered}");
    assert!(
        f64::from(by_samples) < 0.9 * f64::from(rounds),
        "{by_samples}"
    );
}

#[test]
fn sums_of_another_row_are_no_interval() {
    let sums = sums(&[(1_000.0, 5_000.0)]);
    for (samples, are) in [
        (1_000, true),
        (1_010, true),
        (1_200, false),
        (40_000, false),
    ] {
        assert_eq!(sums.are_of(Some(&Value::Number(samples))), are, "{samples}");
    }
    assert!(sums.are_of(None));
}

/// A period that changes: intervals of estimated events cover the truth, also by samples alone, and those of shares of
/// samples do not.
#[test]
fn intervals_of_events_cover_what_they_say_while_the_period_changes() {
    let mut state = 5_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    // Half of the events come while the period is 10 and one in ten is of the row, half while it is 100 and five in ten are.
    let truth = 0.3;
    let (mut covered, mut by_samples, rounds) = (0, 0, 500);
    for _ in 0..rounds {
        let (mut samples, mut periods) = (Moments::default(), Moments::default());
        for (period, share) in [(10.0, 0.1), (100.0, 0.5)] {
            let n = (0..10_000).filter(|_| random() < 1.0 / period).count();
            let hits = (0..n).filter(|_| random() < share).count();
            let (n, hits) = (n as f64, hits as f64);
            samples.y += hits;
            samples.x += n;
            periods.y += hits * period;
            periods.x += n * period;
            periods.singles_y += hits * period * period;
            periods.singles_x += n * period * period;
        }
        (samples.singles_y, samples.singles_x) = (samples.y, samples.x);
        let sums = Sums {
            samples,
            periods,
            clusters: 1,
        };
        assert!(sums.periods_differ());
        let covers = |of| {
            let [low, high] = sums.interval(of).0.unwrap();
            low <= truth && truth <= high
        };
        covered += u32::from(covers(Of::Events));
        by_samples += u32::from(covers(Of::Samples));
    }
    assert!(f64::from(covered) >= 0.93 * f64::from(rounds), "{covered}");
    assert!(
        f64::from(by_samples) < 0.1 * f64::from(rounds),
        "{by_samples}"
    );
    assert!(!sums(&[(20.0, 100.0)]).periods_differ());
}

/// A fleet whose hosts take events in bursts of one function, whose functions are tagged with different chances, and how its
/// samples are taken.
struct Fleet {
    hosts: usize,
    hours: usize,
    /// Events of a host-hour, and of a burst on average.
    events: f64,
    burst: f64,
    /// How much hosts differ: deviation of the logarithm of a function's rate.
    hosts_differ: f64,
}

/// What each function is of all, before hosts differ, and the chance that a sample of it is tagged at all.
const RATES: [f64; 6] = [0.4, 0.3, 0.15, 0.1, 0.04, 0.01];
const TAGGED: [f64; 6] = [1.0, 0.35, 0.8, 0.5, 0.9, 0.6];
/// Every how many events a sample is taken.
const EVERY: f64 = 101.0;

/// Of a fleet, by function: what sampling without end would find in the very events that came, what it would find of these hosts
/// whatever came, and the clusters of samples.
struct Found {
    of_events: [f64; 6],
    of_hosts: [f64; 6],
    clusters: [Vec<(f64, f64)>; 6],
}

impl Fleet {
    fn run(&self, random: &mut impl FnMut() -> f64) -> Found {
        let mut found = Found {
            of_events: [0.0; 6],
            of_hosts: [0.0; 6],
            clusters: Default::default(),
        };
        for _ in 0..self.hosts {
            let mut rates = RATES;
            for rate in &mut rates {
                // Twelve uniform numbers are near a normal one.
                let normal = (0..12).map(|_| random()).sum::<f64>() - 6.0;
                *rate *= (self.hosts_differ * normal).exp();
            }
            let all: f64 = rates.iter().sum();
            for function in 0..6 {
                found.of_hosts[function] += rates[function] / all * TAGGED[function];
            }
            for _ in 0..self.hours {
                let (mut left, mut until_sample) = (self.events, random() * EVERY);
                let mut samples = [0_u32; 6];
                while left > 0.0 {
                    let mut at = random() * all;
                    let function = rates.iter().position(|rate| {
                        at -= rate;
                        at < 0.0
                    });
                    let function = function.unwrap_or(0);
                    let burst = (-(1.0 - random()).ln() * self.burst).ceil().min(left);
                    left -= burst;
                    found.of_events[function] += burst * TAGGED[function];
                    until_sample -= burst;
                    while until_sample <= 0.0 {
                        until_sample += EVERY;
                        samples[function] += u32::from(random() < TAGGED[function]);
                    }
                }
                let all = f64::from(samples.iter().sum::<u32>());
                for (clusters, samples) in found.clusters.iter_mut().zip(samples) {
                    clusters.push((f64::from(samples), all));
                }
            }
        }
        for truth in [&mut found.of_events, &mut found.of_hosts] {
            let all: f64 = truth.iter().sum();
            for share in truth {
                *share /= all;
            }
        }
        found
    }
}

/// Bursts, host effects and tagging bias: intervals cover what sampling without end would find, be it in the events that came or
/// of these hosts; those by samples alone do not know of bursts. Tagging bias itself is none of sampling: no interval has it.
#[test]
fn intervals_cover_the_sampling_truth_of_bursty_uneven_biased_fleets() {
    let mut state = 23_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut all = (0, 0, 0);
    for (hosts, hours, events, burst, hosts_differ) in [
        (8, 1, 40_000.0, 1_000.0, 0.0),
        (8, 3, 20_000.0, 1_000.0, 0.5),
        (50, 1, 10_000.0, 1_000.0, 0.0),
        (50, 4, 5_000.0, 500.0, 1.0),
        (24, 6, 10_000.0, 20.0, 0.3),
    ] {
        let fleet = Fleet {
            hosts,
            hours,
            events,
            burst,
            hosts_differ,
        };
        let (mut asked, mut events_covered, mut hosts_covered, mut by_samples) = (0, 0, 0, 0);
        for _ in 0..150 {
            let found = fleet.run(&mut random);
            for function in 0..6 {
                let sums = sums(&found.clusters[function]);
                let (interval, basis) = sums.interval(Of::Samples);
                assert_eq!(basis, "clusters");
                let covers =
                    |[low, high]: [f64; 2], truth: f64| u32::from(low <= truth && truth <= high);
                let (of_events, of_hosts) = (found.of_events[function], found.of_hosts[function]);
                asked += 1;
                events_covered += covers(interval.unwrap(), of_events);
                hosts_covered += covers(interval.unwrap(), of_hosts);
                by_samples += covers(wilson(sums.samples.share(), sums.samples.x, Z), of_hosts);
            }
        }
        let part = |covered| f64::from(covered) / f64::from(asked);
        let [of_events, of_hosts, alone] = [events_covered, hosts_covered, by_samples].map(part);
        // A row of few bursts is the hardest: its clusters say too little of how bursts differ.
        assert!(
            of_events >= 0.93 && of_hosts >= 0.91,
            "{hosts} hosts: {of_events} {of_hosts}"
        );
        // Bursts of many samples tell as much as one.
        assert!(burst < 100.0 || alone < 0.7, "{hosts} hosts: {alone}");
        all = (all.0 + asked, all.1 + events_covered, all.2 + hosts_covered);
    }
    let least = 0.93 * f64::from(all.0);
    assert!(
        f64::from(all.1) >= least && f64::from(all.2) >= least,
        "{all:?}"
    );
}

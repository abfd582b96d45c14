use super::*;

fn sums(clusters: &[(f64, f64)]) -> Sums {
    let mut sums = Sums::default();
    for (y, x) in clusters {
        sums.y += y;
        sums.yy += y * y;
        sums.xy += x * y;
        sums.x += x;
        sums.xx += x * x;
        sums.clusters += 1;
    }
    sums
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (degrees, quantile) in [(7.0, 2.3646), (10.0, 2.2281), (30.0, 2.0423), (1e6, 1.96)] {
        assert!((student(degrees) - quantile).abs() < 1e-3, "{degrees}");
    }
}

#[test]
fn few_clusters_give_a_lower_bound_and_many_tell_how_hosts_differ() {
    let (even, basis) = sums(&[(20.0, 100.0)]).interval();
    assert_eq!(basis, "sampling_only");
    let [low, high] = even.unwrap();
    assert!((low - 0.1334).abs() < 1e-3 && (high - 0.2888).abs() < 1e-3);
    // Eight hosts: the same share everywhere, and all of it on one.
    let (even, basis) = sums(&[(20.0, 100.0); 8]).interval();
    assert_eq!(basis, "clusters");
    let mut uneven = [(0.0, 100.0); 8];
    uneven[0].0 = 160.0;
    let (uneven, _) = sums(&uneven.map(|(y, x)| (y / 2.0, x))).interval();
    let width = |interval: Option<[f64; 2]>| interval.map(|[low, high]| high - low).unwrap();
    assert!(width(uneven) > 3.0 * width(even));
    assert_eq!(Sums::default().interval(), (None, "none"));
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
        let [low, high] = sums.interval().0.unwrap();
        covered += u32::from(low <= 0.2 && 0.2 <= high);
        let [low, high] = wilson(sums.y / sums.x, sums.x, Z);
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
    let sums = Sums {
        y: 1_000.0,
        x: 5_000.0,
        ..Sums::default()
    };
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

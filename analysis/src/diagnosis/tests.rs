use super::*;
use crate::allocs::{Allocs, By};
use crate::faults::{Fault, Faults, Kind};
use crate::site::Site;
use memwide_model::Region;

fn look<'a>(faults: Option<&'a Faults>, allocs: Option<&'a Allocs>, seconds: f64) -> Looked<'a> {
    Looked {
        seconds,
        faults,
        allocs,
        ..Looked::default()
    }
}

fn faults(n: u64, function: &'static str) -> Faults {
    let mut faults = Faults::default();
    for page in 0..n {
        faults.add(&Fault {
            kind: Kind::Minor,
            site: Site::named(function),
            region: Region::Anonymous,
            addr: 4096 * (page + 1),
            pid: 1,
            period: 1,
        });
    }
    faults
}

#[test]
fn a_storm_of_faults_is_named_by_its_function_and_a_trickle_is_nothing() {
    let storm = faults(30_000, "fill");
    let found = findings(&look(Some(&storm), None, 0.5));
    assert_eq!(found.len(), 1);
    assert!(found[0].is_sure && found[0].evidence[0].contains("fill"));
    assert!((found[0].estimate.value - 60_000.0).abs() < 1.0 && found[0].n == 30_000);
    assert!(findings(&look(Some(&storm), None, 60.0)).is_empty());
}

#[test]
fn a_high_rate_of_few_faults_cannot_be_told() {
    let few = faults(300, "start");
    let found = findings(&look(Some(&few), None, 0.001));
    assert!(found.len() == 1 && !found[0].is_sure, "{found:?}");
}

#[test]
fn growth_and_churn_are_told_apart() {
    let mut allocs = Allocs::default();
    let by = |function| By {
        comm: "program",
        site: Site::named(function),
    };
    for at in 0..20_u64 {
        allocs.ask_map(1, 1 << 20, &by("leak"));
        allocs.answered(1, 1, i64::try_from((at + 1) << 24).unwrap());
    }
    for _ in 0..50 {
        allocs.ask_map(1, 1 << 20, &by("churn"));
        allocs.answered(1, 1, 1 << 40);
        allocs.unmap(1, 1 << 40, 1 << 20, true);
    }
    let found = findings(&look(None, Some(&allocs), 0.5));
    let topics: Vec<_> = found
        .iter()
        .map(|finding| (finding.topic, finding.is_sure))
        .collect();
    assert_eq!(topics, [(Topic::Growth, true), (Topic::Churn, true)]);
    assert!(found[0].says.contains("leak") && found[1].says.contains("churn"));
}

#[test]
fn counted_misses_are_findings_of_their_tier() {
    let counts = [
        ("LLC-loads".to_owned(), 1e6),
        ("LLC-load-misses".to_owned(), 4e5),
        ("cache-references".to_owned(), 2e6),
        ("cache-misses".to_owned(), 8e5),
        ("dTLB-loads".to_owned(), 1e9),
        ("dTLB-load-misses".to_owned(), 1e6),
    ];
    let looked = Looked {
        counts: &counts,
        ..Looked::default()
    };
    let found = findings(&looked);
    assert_eq!(found.len(), 1, "one cause, one finding: {found:?}");
    assert_eq!(
        (found[0].topic, found[0].tier),
        (Topic::CacheMisses, Tier::Event)
    );
}

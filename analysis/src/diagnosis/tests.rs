use super::*;
use crate::allocs::{Allocs, By, Kind as AllocKind};
use crate::faults::{Fault, Faults, Kind};
use crate::site::{Asker, Site};
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

fn by(function: &'static str) -> By<'static> {
    By {
        comm: "program",
        site: Site::named(function),
    }
}

/// A MiB every 50 ms, kept, of a kind.
fn kept(allocs: &mut Allocs, by: &By<'_>, n: u64) {
    for at in 0..n {
        allocs.at(at * 50_000_000);
        allocs.ask_map(AllocKind::Map, 1, 1 << 20, by);
        allocs.answered(1, 1, i64::try_from((at + 1) << 24).unwrap());
    }
}

fn recorded(allocs: &Allocs, seconds: f64, window_ns: (u64, u64)) -> Looked<'_> {
    Looked {
        window_ns: Some(window_ns),
        ..look(None, Some(allocs), seconds)
    }
}

#[test]
fn growth_and_churn_are_told_apart() {
    let mut allocs = Allocs::default();
    kept(&mut allocs, &by("leak"), 20);
    for _ in 0..100 {
        allocs.ask_map(AllocKind::Map, 1, 1 << 20, &by("churn"));
        allocs.answered(1, 1, 1 << 40);
        allocs.unmap(1, 1 << 40, 1 << 20, true);
    }
    let looked = recorded(&allocs, 1.0, (0, 1_000_000_000));
    let found = findings(&looked);
    let topics = |found: &[Finding]| -> Vec<_> {
        let each = found.iter();
        each.map(|finding| (finding.topic, finding.is_sure))
            .collect()
    };
    assert_eq!(
        topics(&found),
        [(Topic::Growth, true), (Topic::Churn, true)]
    );
    assert!(found[0].says.contains("leak") && found[1].says.contains("churn"));
    // Frees may be among what was lost.
    let found = findings(&Looked { lost: 3, ..looked });
    assert_eq!(
        topics(&found),
        [(Topic::Growth, false), (Topic::Churn, false)]
    );
    assert!(found[0].evidence.iter().any(|line| line.contains("lost")));
}

#[test]
fn what_a_program_takes_to_start_is_no_sure_growth() {
    let mut allocs = Allocs::default();
    kept(&mut allocs, &by("load"), 20);
    for (seconds, window_ns) in [(0.2, (0, 1_000_000_000)), (10.0, (0, 10_000_000_000))] {
        let found = findings(&recorded(&allocs, seconds, window_ns));
        assert!(found.len() == 1 && !found[0].is_sure, "{found:?}");
        let said = found[0].evidence.join(" ");
        assert!(said.contains("may be the program's start"), "{said}");
    }
    let mut few = Allocs::default();
    kept(&mut few, &by("load"), 3);
    assert_eq!(findings(&recorded(&few, 0.01, (0, 10_000_000))), []);
}

#[test]
fn nobody_is_blamed_where_the_chain_ends_in_the_library() {
    let mut allocs = Allocs::default();
    let mut unknown = by("__mmap");
    unknown.site.asker = Asker::Unknown;
    kept(&mut allocs, &unknown, 20);
    let found = findings(&recorded(&allocs, 1.0, (0, 1_000_000_000)));
    let finding = found.first().unwrap();
    assert!(
        finding
            .says
            .starts_with("a caller of __mmap that is not known")
    );
    assert!(finding.evidence.join(" ").contains("--call-graph dwarf"));
}

#[test]
fn the_heap_is_judged_as_a_whole_with_those_who_moved_its_end() {
    let mut allocs = Allocs::default();
    let mut end = 1 << 30;
    for at in 0..40_u64 {
        allocs.at(at * 25_000_000);
        allocs.ask_break(1, &by(if at % 4 == 0 { "other" } else { "fill" }));
        allocs.answered(1, 1, end);
        end += 1 << 18;
    }
    let found = findings(&recorded(&allocs, 1.0, (0, 1_000_000_000)));
    let finding = found.first().unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        finding.is_sure
            && finding
                .says
                .starts_with("the heap of program keeps 9.8 MiB")
    );
    let said = finding.evidence.join(" ");
    assert!(said.contains("76.9 % (30 of 39) by fill"), "{said}");
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

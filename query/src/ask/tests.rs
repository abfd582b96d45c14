use std::fmt::Write as _;

use super::*;
use crate::answer::Other;

/// 2026-01-01T10:30:00Z.
const NOW: u64 = (1_767_225_600 + 10 * 3_600 + 30 * 60) * 1_000_000_000;

fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn ask(url: &str) -> Result<Plan, AskError> {
    let (name, query) = url.split_once('?').unwrap_or((url, ""));
    let name = Name::ALL.iter().find(|known| known.name() == name).unwrap();
    Question::parse(*name, &pairs(query), NOW).map(|question| question.plan())
}

/// One URL a question and table, with what is special about them.
const ASKED: &[&str] = &[
    "functions",
    "functions?locality=remote&level=RAM,L3&by=est_events&limit=3",
    "functions?function=f(int, char)&build_id=00ff10",
    "functions?locality=remote&per_host=true",
    "functions?since=-2h&comm=a&context=user,syscall&namespace=shop&service=cart",
    "functions?since=-5m&pod=p&function=g",
    "functions?since=-2h&snoop=hitm",
    "breakdown",
    "breakdown?by=op,host&tier=precise&event=mem-loads&container=c",
    "breakdown?by=workload",
    "breakdown?by=snoop&since=-1m&build_id=00ff10",
    "breakdown?by=level&function=f&since=-3h",
    "numa",
    "numa?host=a&function=f&since=-2h&by=est_events",
    "numa?since=-5m&pod=p",
    "latency",
    "latency?by=host,data,workload&since=-5m&function=f",
    "data?per_function=1&by=weight",
    "pages?host=a",
    "lines?build_id=00ff10",
    "flamegraph?by=weight&event=e",
    "annotate?function=f",
    "diff?before_since=-2h&before_until=-1h",
    "diff?build_id=00ff10&before_build_id=00ff11&before_host=a,b&pod=p",
    "pressure?pod=p&metric=memory.some,memory.full",
    "rss",
    "counters?host=a&comm=c",
    "faults?pod=p",
    "faults?since=-30s",
    "allocs?comm=c",
    "offcpu?host=a&comm=c",
    "offcpu?since=-3h&service=cart",
    "functions?since=2025-12-01T00:00:00Z&until=2025-12-08T00:00:00Z",
    "data?since=2025-12-01T00:00:00Z&until=2025-12-02T00:00:00Z&per_function=1",
    "kernel",
    "kernel?since=-10s&build_id=00ff10",
    "hosts",
    "hosts?host=a&host=b&tier=precise",
    "ledger?host=a&event=e&tier=software&since=-1d",
];

#[test]
fn questions_become_these_statements() {
    let mut text = String::new();
    for url in ASKED {
        let plan = ask(url).unwrap();
        let columns: Vec<&str> = plan.columns.iter().map(|column| column.name).collect();
        writeln!(
            text,
            "## {url}\nfrom {} {}\n{}",
            plan.table, plan.range, plan.statement.sql
        )
        .unwrap();
        for (name, value) in &plan.statement.params {
            writeln!(text, "  {name} = {value}").unwrap();
        }
        writeln!(text, "  columns: {}", columns.join(", ")).unwrap();
        plan.notes
            .iter()
            .for_each(|note| writeln!(text, "  note: {note}").unwrap());
        text.push('\n');
    }
    let plan = ask("functions?host=a").unwrap();
    let further = [
        plan.ledger_statement(),
        plan.hosts_statement(),
        plan.dark_statement(),
    ];
    for statement in further.into_iter().chain(plan.in_range_statement()) {
        writeln!(text, "## completeness\n{}\n", statement.sql).unwrap();
    }
    insta::assert_snapshot!("statements", text);
}

#[test]
fn our_own_statements_pass_the_guard() {
    for url in ASKED {
        let plan = ask(url).unwrap();
        let further = plan.in_range_statement();
        for statement in [
            plan.ledger_statement(),
            plan.hosts_statement(),
            plan.dark_statement(),
            plan.statement,
        ]
        .into_iter()
        .chain(further)
        {
            assert_eq!(memwide_store::guard::check(&statement.sql), Ok(()), "{url}");
        }
    }
}

#[test]
fn the_coarsest_table_that_suffices_is_read() {
    for (url, table) in [
        ("functions?since=-1h", "fleet_1h"),
        (
            "functions?since=2026-01-01T09:00:00Z&until=2026-01-01T10:00:00Z",
            "fleet_1h",
        ),
        ("functions?since=-59m", "samples"),
        ("functions?host=a", "functions"),
        ("functions?per_host=1", "functions"),
        ("functions?pod=a", "functions"),
        ("functions?snoop=hitm", "samples"),
        ("breakdown?since=-1m", "mix_1m"),
        ("breakdown?since=-10s", "samples"),
        ("breakdown?comm=a", "functions"),
        ("breakdown?by=snoop", "samples"),
    ] {
        assert_eq!(ask(url).unwrap().table, table, "{url}");
    }
}

#[test]
fn times_are_rounded_outwards_and_that_is_said() {
    let plan = ask("functions?since=-1h").unwrap();
    let note = "`fleet_1h` has whole hours: this is 2026-01-01T09:00:00Z to 2026-01-01T11:00:00Z";
    assert_eq!(plan.notes, [note]);
    let whole = ask("functions?since=2026-01-01T09:00:00Z&until=2026-01-01T10:00:00Z").unwrap();
    assert_eq!(whole.notes, Vec::<String>::new());
    let old = ask("functions?since=-4d&until=2025-12-28T11:00:00Z").unwrap();
    assert_eq!(
        old.notes,
        ["`samples` keeps 3 days: ask for whole hours, without `snoop`, of what is older"]
    );
    let only_samples = ask("pages?since=-4d").unwrap();
    assert_eq!(
        only_samples.notes,
        ["`samples` keeps 3 days: what is older is only here if it came in late"]
    );
}

#[test]
fn nothing_typed_becomes_part_of_a_statement() {
    let hostile = "x') OR 1=1; DROP TABLE samples --{p9:String}\\";
    for question in Name::ALL.iter().copied() {
        for dimension in question.dimensions() {
            let pairs = [(dimension.name().to_owned(), hostile.to_owned())];
            match Question::parse(question, &pairs, NOW).map(|question| question.plan()) {
                Ok(plan) => {
                    assert!(
                        !plan.statement.sql.contains("DROP"),
                        "{}",
                        plan.statement.sql
                    );
                    assert!(
                        plan.statement
                            .params
                            .iter()
                            .any(|(_, value)| value == hostile),
                        "{dimension:?}"
                    );
                }
                Err(AskError::UnknownValue { .. } | AskError::BuildId { .. }) => {}
                Err(other) => panic!("{dimension:?}: {other}"),
            }
        }
        for extra in ["since", "until", "limit", "by", "per_host"] {
            let pairs = [(extra.to_owned(), hostile.to_owned())];
            assert!(Question::parse(question, &pairs, NOW).is_err(), "{extra}");
        }
    }
}

#[test]
fn what_is_not_understood_is_refused_with_what_would_be() {
    let check = |url: &str, detail: &str, remedy: &str| {
        let error = ask(url).unwrap_err();
        assert_eq!(error.to_string(), detail, "{url}");
        assert!(error.remedy().contains(remedy), "{url}: {}", error.remedy());
    };
    check(
        "functions?locallity=remote",
        "`functions` does not take `locallity`",
        "locality",
    );
    check(
        "functions?locality=far",
        "`locality` does not take `far`",
        "unknown, local, remote",
    );
    check(
        "functions?level=RAM,dram",
        "`level` does not take `dram`",
        "RAM, CXL",
    );
    check(
        "functions?by=cost",
        "`by` does not take `cost`",
        "samples, weight, est_events, latency_cycles",
    );
    check(
        "functions?per_host=maybe",
        "`per_host` does not take `maybe`",
        "true, false",
    );
    check(
        "breakdown?by=level,color",
        "`by` does not take `color`",
        "locality",
    );
    check(
        "breakdown?per_host=1",
        "`breakdown` does not take `per_host`",
        "by",
    );
    check(
        "hosts?function=f",
        "`hosts` does not take `function`",
        "host, tier",
    );
    check(
        "ledger?limit=0",
        "`0` is no number of rows from 1 to 10000",
        "50",
    );
    check(
        "ledger?limit=10001",
        "`10001` is no number of rows from 1 to 10000",
        "50",
    );
    check(
        "ledger?since=-1h&since=-2h",
        "`since` was given more than once",
        "once",
    );
    check(
        "ledger?since=tuesday",
        "`tuesday` is no time for `since`",
        "RFC 3339",
    );
    check(
        "functions?build_id=xyz",
        "`xyz` is no build id",
        "hexadecimal",
    );
}

#[test]
fn too_many_and_too_long_values_are_refused() {
    let many: Vec<(String, String)> = (0..201)
        .map(|i| ("host".to_owned(), i.to_string()))
        .collect();
    let long = [("function".to_owned(), "x".repeat(9_000))];
    for pairs in [many.as_slice(), &long] {
        let error = Question::parse(Name::Functions, pairs, NOW).unwrap_err();
        assert!(matches!(error, AskError::TooLong { .. }), "{error}");
    }
}

#[test]
fn an_empty_filter_means_any() {
    assert_eq!(
        ask("functions?host=&level=&comm=&limit=&since="),
        ask("functions")
    );
}

#[test]
fn cut_rows_and_several_tiers_are_noted() {
    let plan = ask("functions?limit=2").unwrap();
    let row = |tier: &str| {
        let mut row = vec![Value::Null; plan.columns_read().len()];
        let place = plan
            .columns
            .iter()
            .position(|column| column.name == "tier")
            .unwrap();
        row[place] = Value::Text(tier.to_owned());
        for (name, number) in [("samples", 40), ("rows_in_all", 7), ("samples_in_all", 100)] {
            let columns = plan.columns_read();
            let place = columns.iter().position(|column| column.name == name);
            row[place.unwrap()] = Value::Number(number);
        }
        row
    };
    let mut rows = vec![row("software"), row("precise"), row("precise")];
    let (notes, other) = plan.finish(&mut rows);
    assert_eq!(
        other,
        Some(Other {
            rows: 5,
            samples: 20
        })
    );
    assert_eq!(rows.len(), 2);
    assert_eq!(
        notes[1..],
        [
            "cut after 2 rows, 5 more with 20 samples: raise `limit` (at most 10000) or filter",
            "rows of the tiers precise, software are not to be added up",
        ]
    );
    let mut rows = vec![row("precise"), row("precise")];
    let (notes, other) = plan.finish(&mut rows);
    assert_eq!((notes.len(), other), (1, None));
}

use std::collections::BTreeMap;

use super::*;
use crate::sql::{Kind, Lexer};

fn applied(changes: &[(u32, Option<&str>)]) -> Vec<Applied> {
    let checksum = |number: u32| {
        MIGRATIONS
            .iter()
            .find(|m| m.number == number)
            .map(Migration::checksum)
    };
    changes
        .iter()
        .map(|(number, own)| Applied {
            number: *number,
            checksum: own
                .map(str::to_owned)
                .or_else(|| checksum(*number))
                .unwrap_or_default(),
        })
        .collect()
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let numbers: Vec<u32> = MIGRATIONS.iter().map(|m| m.number).collect();
    assert_eq!(
        numbers,
        (1..=u32::try_from(MIGRATIONS.len()).unwrap()).collect::<Vec<_>>()
    );
}

#[test]
fn only_what_is_missing_is_applied() {
    let names = |applied: &[Applied]| {
        outstanding(MIGRATIONS, applied, "d")
            .unwrap()
            .iter()
            .map(|m| m.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&[]),
        [
            "facts",
            "definitions",
            "views",
            "closes_in_array",
            "reasons",
            "suspect",
            "names",
            "cpu_nodes",
            "readings",
            "details",
            "calls",
            "orders"
        ]
    );
    assert_eq!(
        names(&applied(&[(1, None), (2, None), (3, None)])),
        [
            "closes_in_array",
            "reasons",
            "suspect",
            "names",
            "cpu_nodes",
            "readings",
            "details",
            "calls",
            "orders"
        ]
    );
    let all: Vec<_> = MIGRATIONS.iter().map(|one| (one.number, None)).collect();
    assert!(names(&applied(&all)).is_empty());
}

#[test]
fn a_newer_schema_and_a_changed_one_are_refused() {
    let newer = outstanding(MIGRATIONS, &applied(&[(1, None), (99, Some("x"))]), "d").unwrap_err();
    assert_eq!(
        newer,
        SchemaError::Newer {
            database: "d".into(),
            found: 99,
            known: 12
        }
    );
    let changed = outstanding(MIGRATIONS, &applied(&[(1, None), (2, Some("x"))]), "d").unwrap_err();
    assert_eq!(
        changed,
        SchemaError::Changed {
            database: "d".into(),
            number: 2,
            name: "definitions"
        }
    );
}

#[test]
fn names_that_could_carry_sql_are_refused() {
    for name in [
        "",
        "a b",
        "a`b",
        "1a",
        "system",
        "Default",
        "a.b",
        &"x".repeat(65),
    ] {
        assert!(check_name(name).is_err(), "{name}");
    }
    assert_eq!(check_name("memwide_2"), Ok(()));
}

/// Statements have balanced parentheses and no placeholder left.
#[track_caller]
fn well_formed(statement: &str) {
    let mut depth = 0_i32;
    for token in Lexer::new(statement.as_bytes()) {
        match token.kind {
            Kind::Symbol(b'(') => depth += 1,
            Kind::Symbol(b')') => depth -= 1,
            Kind::Unterminated | Kind::Symbol(b'$' | b';') => {
                panic!("{:?} in {statement}", token.kind)
            }
            _ => {}
        }
        assert!(depth >= 0, "{statement}");
    }
    assert_eq!(depth, 0, "{statement}");
    let verbs = ["CREATE ", "ALTER "];
    assert!(
        verbs.iter().any(|verb| statement.starts_with(verb)),
        "{statement}"
    );
}

#[test]
fn the_cluster_gets_replicated_tables_behind_distributed_ones() {
    let text = ddl_for_cluster("fleet", "main").unwrap();
    let statements: Vec<&str> = text
        .split(";\n")
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .collect();
    for statement in &statements {
        well_formed(statement);
    }
    let has = |part: &str| assert_eq!(text.matches(part).count(), 1, "{part}");
    has("CREATE TABLE IF NOT EXISTS fleet.samples_local ON CLUSTER main (");
    has(
        "CREATE TABLE IF NOT EXISTS fleet.samples ON CLUSTER main AS fleet.samples_local\nENGINE = Distributed(main, fleet, samples_local, rand())",
    );
    has("ReplicatedMergeTree('/clickhouse/tables/{shard}/fleet/samples', '{replica}')");
    has(
        "ReplicatedReplacingMergeTree('/clickhouse/tables/all/fleet/stacks', '{replica}', last_seen)",
    );
    has("ALTER TABLE fleet.ledger_1m_local ON CLUSTER main MODIFY COLUMN reason ");
    has("ALTER TABLE fleet.ledger_1m ON CLUSTER main MODIFY COLUMN reason ");
    has("ALTER TABLE fleet.samples_local ON CLUSTER main\n    ADD COLUMN");
    has("ALTER TABLE fleet.samples ON CLUSTER main\n    ADD COLUMN");
    has("ALTER TABLE fleet.events ON CLUSTER main\n    ADD COLUMN");
    has("ALTER TABLE fleet.mix_1m_local ON CLUSTER main\n    ADD PROJECTION");
    assert!(!text.contains("ALTER TABLE fleet.mix_1m ON CLUSTER main\n    ADD PROJECTION"));
    has("CREATE VIEW IF NOT EXISTS fleet.functions ON CLUSTER main AS");
    assert!(!text.contains("stacks_local") && !text.contains("non_replicated"));
    assert!(
        !text
            .replace("{shard}", "")
            .replace("{replica}", "")
            .contains('{'),
        "a placeholder is left"
    );
}

#[test]
fn one_machine_gets_plain_tables() {
    for migration in MIGRATIONS {
        for statement in render(migration.text, &Target::OneMachine).unwrap() {
            well_formed(&statement);
            assert!(
                !statement.contains("Replicated") && !statement.contains("ON CLUSTER"),
                "{statement}"
            );
        }
    }
}

#[test]
fn every_column_says_what_it_holds() {
    let mut seen = 0;
    let statements = MIGRATIONS
        .iter()
        .flat_map(|migration| render(migration.text, &Target::OneMachine).unwrap());
    for statement in statements.filter(|text| text.starts_with("CREATE TABLE")) {
        let (columns, _) = statement.split_once("\n)\n").unwrap();
        let lines = columns.lines().skip(1);
        for line in lines.filter(|line| !line.starts_with("    INDEX")) {
            seen += 1;
            assert!(line.contains(" COMMENT '"), "{line}");
        }
    }
    assert!(seen > 200, "{seen} columns");
}

#[test]
fn an_unknown_placeholder_is_an_error() {
    let error = render("CREATE TABLE ${tabel:x}", &Target::OneMachine).unwrap_err();
    assert_eq!(error, SchemaError::Placeholder("tabel:x}".into()));
}

/// The codes that a column has after all migrations, by table and column.
fn enum_columns() -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for migration in MIGRATIONS {
        for statement in render(migration.text, &Target::OneMachine).unwrap() {
            let table = statement
                .split_once("TABLE ")
                .map(|(_, rest)| rest.trim_start_matches("IF NOT EXISTS "));
            let Some(table) = table.and_then(|rest| rest.split_whitespace().next()) else {
                continue;
            };
            for (before, rest) in statement
                .match_indices(" Enum8(")
                .map(|(at, _)| statement.split_at(at))
            {
                let column = before.split_whitespace().next_back().unwrap();
                let end = rest.find(')').unwrap();
                let key = (table.to_owned(), column.to_owned());
                found.insert(key, rest[1..=end].to_owned());
            }
        }
    }
    found
}

#[test]
fn the_codes_of_every_column_are_those_of_the_model() {
    use crate::native::NamedCodes;
    use crate::rows::TierOrNone;
    use memwide_model as model;

    let columns = enum_columns();
    assert!(columns.len() > 40, "{} columns with codes", columns.len());
    for ((table, column), kind) in &columns {
        let expected = match column.as_str() {
            "tier" if table == "ledger_1m" => TierOrNone::stored_type(),
            "tier" => model::Tier::stored_type(),
            "context" => model::Context::stored_type(),
            "region" => model::Region::stored_type(),
            "latency_kind" => model::LatencyKind::stored_type(),
            "op" => model::Op::stored_type(),
            "level" => model::Level::stored_type(),
            "outcome" => model::Outcome::stored_type(),
            "snoop" => model::Snoop::stored_type(),
            "tlb" => model::Tlb::stored_type(),
            "blocked" => model::Blocked::stored_type(),
            "hw_locality" | "page_locality" | "locality" => model::Locality::stored_type(),
            "locality_basis" => model::LocalityBasis::stored_type(),
            "reason" => model::Reason::stored_type(),
            "mem_region" => model::MemRegion::stored_type(),
            "suspect" => model::Suspect::stored_type(),
            other => panic!("{table}.{other}: no type of the model is known for it"),
        };
        assert_eq!(*kind, expected, "{table}.{column}");
    }
}

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
    assert_eq!(names(&[]), ["facts", "definitions", "views"]);
    assert_eq!(names(&applied(&[(1, None), (2, None)])), ["views"]);
    assert!(names(&applied(&[(1, None), (2, None), (3, None)])).is_empty());
}

#[test]
fn a_newer_schema_and_a_changed_one_are_refused() {
    let newer = outstanding(MIGRATIONS, &applied(&[(1, None), (99, Some("x"))]), "d").unwrap_err();
    assert_eq!(
        newer,
        SchemaError::Newer {
            database: "d".into(),
            found: 99,
            known: 3
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
    assert!(statement.starts_with("CREATE "), "{statement}");
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
    for migration in &MIGRATIONS[..2] {
        let lines = migration
            .text
            .lines()
            .filter(|line| line.starts_with("    ") && !line.starts_with("    INDEX"));
        for line in lines {
            assert!(line.contains(" COMMENT '"), "{line}");
        }
    }
}

#[test]
fn an_unknown_placeholder_is_an_error() {
    let error = render("CREATE TABLE ${tabel:x}", &Target::OneMachine).unwrap_err();
    assert_eq!(error, SchemaError::Placeholder("tabel:x}".into()));
}

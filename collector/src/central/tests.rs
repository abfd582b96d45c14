use super::*;
use crate::config::SpoolConfig;
use crate::status::Status;
use tokio::sync::watch;

fn own(folder: &std::path::Path) -> Config {
    Config {
        spool: SpoolConfig {
            dir: folder.to_owned(),
            ..SpoolConfig::default()
        },
        ..Config::default()
    }
}

fn central(own: Config) -> (Arc<Central>, watch::Receiver<Status>) {
    let (reporter, status) = Reporter::new();
    (Central::new(own, Machine::default(), reporter), status)
}

fn push(central: &Central, version: u64, toml: &str) -> ConfigReport {
    central.configure(&Configure {
        version,
        toml: toml.to_owned(),
        boost: None,
    })
}

#[test]
fn a_version_replaces_an_older_one_and_what_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (central, status) = central(own(folder.path()));
    assert_eq!(central.row(), None);
    // Version, settings, whether they are taken, part of what is said, version in force, stopped.
    #[rustfmt::skip]
    let rows = [
        (0, "", false, "need a `version`", 0, false),
        (3, "stop = true", true, "", 3, true),
        (3, "stop = true", true, "in force already", 3, true),
        (3, "", false, "raise `version`", 3, true),
        (2, "", false, "older than 3", 3, true),
        (4, "stpo = false", false, "unknown field `stpo`", 3, true),
        (4, "stpo = false", false, "unknown field `stpo`", 3, true),
        (5, "", true, "", 5, false),
    ];
    for (version, toml, applied, part, in_force, stopped) in rows {
        let report = push(&central, version, toml);
        assert_eq!(report.applied, applied, "{version} {toml}: {report:?}");
        assert!(report.message.contains(part), "{report:?}");
        let said = status.borrow().central.clone();
        assert_eq!((said.version, said.stopped), (in_force, stopped));
        assert_eq!(central.is_stopped(), stopped);
    }
    assert_eq!(central.generation(), 0, "nothing had to be opened anew");
    let row = central.row().unwrap();
    assert!(
        row.available && row.reason == "version 5 is in force, told by http://127.0.0.1:7071",
        "{row:?}"
    );
}

#[test]
fn what_is_refused_is_published_beside_what_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let (central, status) = central(own(folder.path()));
    push(&central, 1, "stop = true");
    let news = central.news();
    push(&central, 2, "budget.cpu_percent = 50.0");
    assert!(central.news() > news);
    let row = central.row().unwrap();
    assert!(!row.available && !row.remedy.is_empty());
    let part = "version 2 is refused: `budget.cpu_percent` is 50";
    assert!(row.reason.contains(part), "{row:?}");
    assert!(row.reason.contains("version 1 is in force"), "{row:?}");
    assert_eq!(status.borrow().central.refused_version, 2);
}

#[test]
fn the_next_start_goes_on_as_told() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = central(own(folder.path()));
    push(&first, 7, "stop = true\nbudget.cpu_percent = 1.0");
    let (second, _) = central(own(folder.path()));
    assert!(second.is_stopped());
    assert!((second.config().0.budget.cpu_percent - 1.0).abs() < 1e-9);
    assert!(push(&second, 7, "stop = true\nbudget.cpu_percent = 1.0").applied);
    assert_eq!(row_of(&own(folder.path())), second.row());
    push(&second, 9, "stpo = true");
    let row = row_of(&own(folder.path())).unwrap();
    let parts = [
        "version 9 is refused: unknown field `stpo`",
        "version 7 is in force, told by http",
    ];
    assert!(
        !row.available && parts.iter().all(|part| row.reason.contains(part)),
        "{row:?}"
    );

    let mut stricter = own(folder.path());
    stricter.budget.cpu_percent = 0.5;
    let (third, _) = central(stricter.clone());
    assert_eq!(third.config().0, stricter, "its own file allows less now");
    assert!(third.row().unwrap().reason.contains("version 7 is refused"));
    assert!(third.is_stopped(), "the stop in it holds");

    let mut alone = own(folder.path());
    alone.central = false;
    assert!(row_of(&alone).unwrap().reason.contains("central = false"));
    let (fourth, _) = central(alone);
    assert!(!fourth.is_stopped());
    let report = push(&fourth, 8, "");
    assert!(report.message.contains("central = false"), "{report:?}");
}

#[test]
fn settings_that_cannot_be_opened_give_way_to_those_before() {
    let folder = tempfile::tempdir().unwrap();
    let (central, _) = central(own(folder.path()));
    central.opened();
    let error = anyhow::anyhow!("no");
    assert!(!central.cannot_open(&error), "the host's own");
    push(&central, 1, "budget.cpu_percent = 1.0");
    assert_eq!(central.generation(), 1);
    assert!(central.cannot_open(&error));
    assert_eq!(central.config().0, own(folder.path()));
    assert!(!push(&central, 1, "budget.cpu_percent = 1.0").applied);
    push(&central, 2, "budget.cpu_percent = 0.5");
    central.opened();
    assert!(!central.cannot_open(&error), "they have worked");
}

#[test]
fn a_stop_holds_whatever_else_is_refused_until_settings_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (first, status) = central(own(folder.path()));
    // Version, settings, whether they are taken, part of what is said, version in force, stopped.
    #[rustfmt::skip]
    let rows = [
        (2, "budget.cpu_percent = 1.0", true, "", 2, false),
        (3, "events = ['minr-faults']", false, "minor-faults", 2, false),
        (4, "stop = 'yes'", false, "invalid type", 2, false),
        (5, "events = ['minr-faults']\nstop = true", false, "`stop = true` holds all the same", 2, true),
        (5, "events = ['minr-faults']\nstop = true", false, "`stop = true` holds all the same", 2, true),
        (6, "events = ['minr-faults']", false, "minor-faults", 2, true),
        (2, "budget.cpu_percent = 1.0", true, "in force already", 2, true),
        (4, "budget.cpu_percent = 1.0", false, "older than 5", 2, true),
    ];
    for (version, toml, applied, part, in_force, stopped) in rows {
        let report = push(&first, version, toml);
        assert_eq!(report.applied, applied, "{version} {toml}: {report:?}");
        assert!(report.message.contains(part), "{report:?}");
        let said = status.borrow().central.clone();
        assert_eq!(
            (said.version, said.stopped),
            (in_force, stopped),
            "{version}"
        );
        assert_eq!(first.is_stopped(), stopped, "{version}");
    }
    let reason = first.row().unwrap().reason;
    let parts = [
        "version 6 is refused",
        "stopped, as version 5 says",
        "version 2 is in force",
    ];
    assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");

    let (second, _) = central(own(folder.path()));
    assert!(second.is_stopped(), "the next start is stopped too");
    assert!(push(&second, 7, "").applied);
    assert!(!second.is_stopped());
    let (third, _) = central(own(folder.path()));
    assert!(!third.is_stopped());
}

#[test]
fn what_is_kept_stays_until_the_centre_says_something_new() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(kept::FILE);
    let kept = r#"{"version":2,"toml":"stop = true\nbudget.cpu_percent = 1.0\n"}"#;
    std::fs::write(&file, kept).unwrap();
    let (taken, _) = central(own(folder.path()));
    let error = anyhow::Error::from(SpoolError::Io {
        what: "list",
        path: folder.path().to_owned(),
        source: std::io::ErrorKind::PermissionDenied.into(),
    });
    assert!(!taken.cannot_open(&error.context("no spool")));
    assert_eq!(taken.config().0.budget.cpu_percent.to_string(), "1");
    assert!(taken.cannot_open(&anyhow::anyhow!("no events")));
    assert!(taken.is_stopped(), "the stop in it holds");
    assert_eq!(taken.config().0, own(folder.path()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
}

#[test]
fn a_damaged_file_is_said_and_left_until_the_centre_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(kept::FILE);
    for damage in ["", "{\"version\":2,\"toml\":\"stop", "\u{0}\u{0}\u{0}"] {
        std::fs::write(&file, damage).unwrap();
        let before = metrics::CENTRAL_DAMAGED.get();
        let (central, _) = central(own(folder.path()));
        assert!(metrics::CENTRAL_DAMAGED.get() > before);
        assert!(!central.is_stopped(), "unknown: the host's own file");
        let row = central.row().unwrap();
        assert!(
            !row.available && row.reason.contains("central.json cannot be read"),
            "{row:?}"
        );
        assert!(row.remedy.contains("remove it"), "{row:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), damage);
        push(&central, 1, "stop = true");
        assert!(central.is_stopped() && central.row().unwrap().available);
    }
}

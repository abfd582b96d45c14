use super::*;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    listen: String,
    hosts: Vec<String>,
    rate: f64,
    on: bool,
    token: Secret,
    limit: Option<u64>,
    spool: Spool,
    labels: BTreeMap<String, String>,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rule {
    name: String,
    above: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Spool {
    max_bytes: u64,
    folder: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".to_owned(),
            hosts: vec!["local".to_owned()],
            rate: 1.0,
            on: false,
            token: Secret::default(),
            limit: None,
            spool: Spool {
                max_bytes: 1000, // unlike the default of its own type
                folder: "/var".to_owned(),
            },
            labels: BTreeMap::new(),
            rules: Vec::new(),
        }
    }
}

fn load(
    file: &str,
    variables: &[(&str, &str)],
    flags: &Value,
) -> Result<Resolved<Config>, (ConfigError, String)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, file).unwrap();
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let loader = Loader::new().file(&path).variables(variables).flags(flags);
    loader.load().map_err(|error| {
        let text = error.to_string();
        let folder = format!("{}/", folder.path().display());
        (error, text.replace(&folder, ""))
    })
}

#[track_caller]
fn check(file: &str, variables: &[(&str, &str)], flags: &Value, change: impl Fn(&mut Config)) {
    let resolved = load(file, variables, flags).unwrap();
    let mut expected = Config::default();
    change(&mut expected);
    assert_eq!(resolved.value, expected);
}

#[track_caller]
fn refused(file: &str, variables: &[(&str, &str)], flags: &Value, expected: &str) {
    let (error, text) = load(file, variables, flags).unwrap_err();
    assert_eq!(text, expected);
    assert_eq!(error.exit_code(), 64);
}

#[test]
fn each_source_wins_over_the_one_before() {
    let file = "listen = 'file'\n[spool]\nfolder = 'file'\n";
    let variables = [("MEMWIDE_LISTEN", "variable")];
    let flags = serde_json::json!({"listen": "flag", "spool": {"folder": null}});
    check("", &[], &Value::Null, |_| {});
    check(file, &[], &Value::Null, |c| {
        c.listen = "file".into();
        c.spool.folder = "file".into();
    });
    check(file, &variables, &Value::Null, |c| {
        c.listen = "variable".into();
        c.spool.folder = "file".into();
    });
    check(file, &variables, &flags, |c| {
        c.listen = "flag".into();
        c.spool.folder = "file".into();
    });
}

#[test]
fn variables_are_read_as_the_type_of_their_key() {
    let rows = [
        ("MEMWIDE_SPOOL__MAX_BYTES", "5"),
        ("MEMWIDE_RATE", "0.5"),
        ("MEMWIDE_ON", "true"),
        ("MEMWIDE_HOSTS", "a, b"),
        ("MEMWIDE_LIMIT", "9"),
        ("MEMWIDE_LISTEN", "7070"), // a string stays one
        ("MEMWIDE_LOG", "debug"),   // read by the logs
        ("HOME", "/elsewhere"),
    ];
    check("", &rows, &Value::Null, |c| {
        c.spool.max_bytes = 5;
        c.rate = 0.5;
        c.on = true;
        c.hosts = vec!["a".into(), "b".into()];
        c.limit = Some(9);
        c.listen = "7070".into();
    });
    let list = [("MEMWIDE_HOSTS", r#"["x,y"]"#)];
    check("", &list, &Value::Null, |c| c.hosts = vec!["x,y".into()]);
}

#[test]
fn numbers_may_be_written_in_every_way_of_toml() {
    for (text, expected) in [
        ("1_000_000", 1_000_000),
        ("0xff", 255),
        ("0b1_01", 5),
        ("+7", 7),
    ] {
        let file = format!("[spool]\nmax_bytes = {text}\n");
        check(&file, &[], &Value::Null, |c| c.spool.max_bytes = expected);
    }
    check("rate = 1_0.5e1", &[], &Value::Null, |c| c.rate = 105.0);
}

#[test]
fn a_table_that_is_empty_by_default_takes_any_key() {
    check("[labels]\nzone = 'a'\n", &[], &Value::Null, |c| {
        c.labels.insert("zone".into(), "a".into());
    });
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
    let none = &Value::Null;
    refused(
        "\n[spool]\nmax_byte = 5\n",
        &[],
        none,
        "unknown key `spool.max_byte` (c.toml:3); did you mean `spool.max_bytes`?",
    );
    refused(
        "",
        &[("MEMWIDE_LISTN", "x")],
        none,
        "unknown key `listn` (variable MEMWIDE_LISTN); did you mean `listen`?",
    );
    refused(
        "",
        &[],
        &serde_json::json!({"lissten": "x"}),
        "unknown key `lissten` (command line); did you mean `listen`?",
    );
    refused(
        "qqqqqqqqqq = 1",
        &[],
        none,
        "unknown key `qqqqqqqqqq` (c.toml:1)",
    );
    refused(
        "[listen]\naddress = 'x'",
        &[],
        none,
        "unknown key `listen.address` (c.toml:2); did you mean `listen`?",
    );
}

#[test]
fn a_wrong_value_is_named_with_its_place() {
    refused(
        "on = true\nrate = 'fast'\n",
        &[],
        &Value::Null,
        "wrong value for `rate` (c.toml:2): invalid type: string \"fast\", expected f64",
    );
    refused(
        "",
        &[("MEMWIDE_SPOOL__MAX_BYTES", "-1")],
        &Value::Null,
        "wrong value for `spool.max_bytes` (variable MEMWIDE_SPOOL__MAX_BYTES): invalid value: integer `-1`, expected u64",
    );
}

#[test]
fn a_wrong_value_in_a_list_of_tables_is_named_with_its_own_line() {
    let file = "on = true\n[[rules]]\nname = 'a'\n\n[[rules]]\nname = 'b'\n";
    for (line, expected) in [
        (
            "above = 'much'",
            "wrong value for `rules.above` (c.toml:7): invalid type: string \"much\", expected f64",
        ),
        (
            "abve = 1",
            "wrong value for `rules.abve` (c.toml:7): unknown field `abve`, expected `name` or `above`",
        ),
        (
            "abve = 1\nabov = 2",
            "wrong value for `rules` (c.toml:5): unknown field `abov`, expected `name` or `above`",
        ),
    ] {
        refused(&format!("{file}{line}"), &[], &Value::Null, expected);
    }
}

#[test]
fn what_only_the_meaning_forbids_is_named_with_its_place() {
    let file = "rate = 7\n[[rules]]\nname = 'a'\n[[rules]]\nname = 'b'\nabove = 9\n";
    let said = |variables: &[(&str, &str)], key: &str| {
        let resolved = load(file, variables, &Value::Null).unwrap();
        let checked = resolved.checked(|_| Err(Wrong::new(key, "too much")));
        let text = checked.unwrap_err().to_string();
        let (before, place) = text.split_once('(').unwrap();
        format!("{before}({}", place.rsplit('/').next().unwrap())
    };
    for (key, expected) in [
        ("rate", "wrong value for `rate` (c.toml:1): too much"),
        ("on", "wrong value for `on` (default): too much"),
        (
            "rules.1.above",
            "wrong value for `rules.above` (c.toml:6): too much",
        ),
        (
            "rules.1.below",
            "wrong value for `rules.below` (c.toml:4): too much",
        ),
        ("rules.7", "wrong value for `rules` (c.toml:2): too much"),
    ] {
        assert_eq!(said(&[], key), expected);
    }
    let again = [("MEMWIDE_RULES", "[{name = 'c', above = 1}, {name = 'd'}]")];
    assert_eq!(
        said(&again, "rules.1.above"),
        "wrong value for `rules.above` (variable MEMWIDE_RULES): too much"
    );
    let within = |value| Wrong::unless_within("rate", value, (0.5, 2.0), "of it");
    assert_eq!(within(0.5), Ok(()));
    let over = Wrong::new("rate", "2.5 is not from 0.5 to 2 of it");
    assert_eq!(within(2.5), Err(over));
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    let (error, text) = load("on = true\nlisten = = 1\n", &[], &Value::Null).unwrap_err();
    assert!(
        matches!(error, ConfigError::Syntax { line: 2, .. }),
        "{text}"
    );
}

#[test]
fn a_missing_file_is_refused_unless_optional() {
    let missing = Path::new("/nonexistent/memwide.toml");
    let error = Loader::<Config>::new().file(missing).load().unwrap_err();
    assert!(error.to_string().contains("/nonexistent/memwide.toml"));
    Loader::<Config>::new()
        .file_if_present(missing)
        .load()
        .unwrap();
}

#[test]
fn the_resolved_configuration_tells_its_origins_and_no_secret() {
    let variables = [("MEMWIDE_TOKEN", "hunter2")];
    let file = "[spool]\nmax_bytes = 7\n";
    let resolved = load(file, &variables, &Value::Null).unwrap();
    assert_eq!(resolved.value.token.expose(), Some("hunter2"));
    let json = resolved.to_json();
    let from = json["spool.max_bytes"]["from"].as_str().unwrap();
    assert!(from.ends_with("c.toml:2"), "{from}");
    assert_eq!(json["spool.max_bytes"]["value"], 7);
    assert_eq!(json["listen"]["from"], "default");
    assert_eq!(json["token"]["from"], "variable MEMWIDE_TOKEN");
    assert_eq!(json["token"]["value"], "<secret>");
    assert!(!format!("{json} {:?}", resolved.value).contains("hunter2"));
}

use super::*;

#[track_caller]
fn allowed(sql: &str) {
    assert_eq!(check(sql), Ok(()), "{sql}");
}

/// `token` is what the refusal must point at.
#[track_caller]
fn refused(sql: &str, token: &str) {
    let refusal = check(sql).expect_err(sql);
    assert_eq!(refusal.token, token, "{sql}: {refusal}");
    assert!(
        sql[refusal.at..].starts_with(token),
        "{sql}: place {}",
        refusal.at
    );
}

#[test]
fn ordinary_questions_pass() {
    for sql in [
        "SELECT 1",
        "select function, sum(samples) n from functions group by function order by n desc limit 5;",
        "WITH (SELECT max(time) FROM memwide.samples) AS t SELECT host FROM samples s JOIN hosts h USING host, mix_1m WHERE time > t - 3600",
        "SELECT 'SETTINGS; INTO OUTFILE file(1)' AS `settings`, \"format\" FROM t",
        "SELECT format('{} {}', a, b), extract(HOUR FROM toDateTime(time)) FROM t WHERE a IS NOT DISTINCT FROM lower(b)",
        "SELECT arrayMap(x -> x + 1, [1, 2]), {x:UInt64} FROM t ARRAY JOIN a AS x, arrayEnumerate(a) AS i",
        "SELECT * FROM numbers(10), (SELECT 1), generateSeries(1, 3)",
        "SELECT name FROM system.tables UNION ALL SELECT name FROM `system`.`columns`",
        "SELECT name, value FROM system.settings LIMIT 10000",
        "SELECT name FROM `system` . settings",
        "(SELECT 1) UNION ALL (SELECT t.file FROM t)",
        "SHOW TABLES FROM memwide",
        "SHOW CREATE TABLE samples",
        "DESCRIBE TABLE samples",
        "EXPLAIN indexes = 1 SELECT count() FROM samples WHERE host = 'a'",
        "SELECT trim(BOTH ' ' FROM concat(a, b)), 7 / 2, -- note\n 1e3 /* FORMAT x */ FROM t WHERE (a, b) IN (1, 2)",
        "SELECT a, count() OVER (PARTITION BY lower(b) ORDER BY c) FROM t GROUP BY a, upper(b)",
    ] {
        allowed(sql);
    }
}

#[test]
fn only_one_reading_statement_passes() {
    refused("", "");
    refused("INSERT INTO t SELECT 1", "INSERT");
    refused("SET readonly = 0", "SET");
    refused("/* SELECT */ DROP TABLE t", "DROP");
    refused("SELECT 1; SELECT 2", "SELECT");
    refused("SELECT ';' ; DROP TABLE t", "DROP");
    refused("WITH 1 AS x INSERT INTO t SELECT x", "INTO");
    refused("SHOW PROCESSLIST", "PROCESSLIST");
    refused("KILL QUERY WHERE 1", "KILL");
    refused("EXECUTE AS default SELECT 1", "EXECUTE");
}

#[test]
fn clauses_that_leave_the_frame_are_refused_at_any_depth() {
    refused("SELECT 1 SETTINGS readonly = 0", "SETTINGS");
    refused("SELECT * FROM (SELECT 1 SETTINGS readonly=0)", "SETTINGS");
    refused("SELECT (SELECT 1 /**/settings/**/ readonly=0)", "settings");
    refused("SELECT 1 AS `a\nb` SeTtInGs readonly=0", "SeTtInGs");
    refused("SELECT 1.SETTINGS readonly=0", "SETTINGS");
    refused("SELECT 1.settings readonly=0", "settings");
    refused("SELECT t.settings readonly=0", "settings");
    refused("SELECT 1 FROM system.SETTINGS readonly=0", "SETTINGS");
    refused(
        "SELECT 1 FROM system.settings SETTINGS readonly=0",
        "SETTINGS",
    );
    refused("SELECT 1SETTINGS readonly=0", "SETTINGS");
    refused("SELECT 1 INTO OUTFILE 'x'", "OUTFILE");
    refused("SELECT 1 INTO/* */OUTFILE 'x' TRUNCATE", "OUTFILE");
    refused("SELECT * FROM INFILE 'x'", "INFILE");
    refused("SELECT 1 FORMAT TSV", "FORMAT");
    refused("SELECT 1 FORMAT", "FORMAT");
}

#[test]
fn table_functions_are_refused_wherever_a_table_can_stand() {
    refused("SELECT * FROM file('/etc/passwd')", "file");
    refused("SELECT * FROM url('http://x', CSV)", "url");
    refused("SELECT * FROM `url`('http://x', CSV)", "`url`");
    refused("SELECT * FROM \"remote\"('h', 'd', 't')", "\"remote\"");
    refused("SELECT * FROM numbers(1), remote('h', 'd', 't')", "remote");
    refused("SELECT * FROM t JOIN s3('x') USING a", "s3");
    refused(
        "SELECT * FROM t JOIN (SELECT * FROM mysql('x')) USING a",
        "mysql",
    );
    refused(
        "SELECT 1 WHERE 1 IN (SELECT a FROM merge('d', '.*'))",
        "merge",
    );
    refused(
        "WITH t AS (FROM executable('x', TSV, 'a Int8') SELECT a) SELECT * FROM t",
        "executable",
    );
    refused("DESCRIBE TABLE file('/etc/passwd')", "file");
    refused("DESC url('x')", "url");
    refused("EXPLAIN SELECT * FROM dictionary('d')", "dictionary");
    refused("SELECT * FROM something_new('x')", "something_new");
    refused("SELECT * FROM t, format(CSV, 'a Int8', '1')", "format");
    refused("SELECT * FROM view(SELECT 1)", "view");
    refused("SELECT * FROM 'data.csv'", "'data.csv'");
    refused("SELECT * FROM `/etc/passwd`", "`/etc/passwd`");
    refused("SELECT * FROM default.`/etc/passwd`", "`/etc/passwd`");
}

#[test]
fn functions_that_read_files_are_refused_by_name() {
    refused("SELECT file('/etc/passwd')", "file");
    refused("SELECT `file`('/etc/passwd')", "`file`");
    refused("SELECT arrayMap(file, ['/etc/passwd'])", "file");
    refused(
        "SELECT * APPLY file FROM (SELECT '/etc/passwd' AS a)",
        "file",
    );
    refused("SELECT `fi\\x6ce`('/etc/passwd')", "`fi\\x6ce`");
    refused("SELECT catboostEvaluate('/m', 1)", "catboostEvaluate");
    refused("SELECT AIGenerate('x')", "AIGenerate");
    refused("SELECT sleepEachRow(1) FROM numbers(1000)", "sleepEachRow");
}

#[test]
fn system_tables_are_refused_unless_named() {
    refused("SELECT * FROM system.processes", "processes");
    refused("SELECT * FROM system . /* */ parts", "parts");
    refused("SELECT * FROM `system`.\"users\"", "\"users\"");
    refused(
        "SELECT * FROM SYSTEM.settings_profiles",
        "settings_profiles",
    );
    refused("SELECT 1 IN system.query_log", "query_log");
    refused(
        "SELECT * FROM INFORMATION_SCHEMA.tables",
        "INFORMATION_SCHEMA",
    );
    refused("SELECT * FROM {t:Identifier}", "Identifier");
}

#[test]
fn what_two_lexers_could_read_differently_is_refused() {
    refused("SELECT $x$ a $x$", "$x$ a $x$");
    refused("SELECT $ FROM t", "$");
    refused("SELECT ‘a’", "‘a’");
    refused("SELECT 1 // ' \n FROM t", "/");
    refused("SELECT 'a", "'a");
    refused("SELECT 1 /* /* */", " /* /* */");
    refused("SELECT\u{0}1", "\u{0}");
    refused("SELECT 1 #x", "#");
    allowed("SELECT 1 # x");
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = format!("SELECT {}1{}", "(".repeat(600), ")".repeat(600));
    assert!(check(&deep).unwrap_err().why.contains("too deep"));
    assert!(
        check(&format!("SELECT '{}'", "x".repeat(MAX_BYTES)))
            .unwrap_err()
            .why
            .contains("256 KiB")
    );
    refused("SELECT 1)", ")");
}

//! The command asks a running server, as a person would.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_simulator::Fleet;
use memwide_tests::{Https, Running, Up, UpOptions, tools_missing, until, until_some};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// From a key to what it shows; slow machines under load included.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// Rows that a statement may give, by the file of the server.
const ROWS_MAX: u64 = 5_000;

/// A server with a simulated fleet, and a file that tells it bounds and rules.
fn served(folder: &Path, hook: Option<&Hook>) -> Option<Up> {
    if let Some(missing) = tools_missing() {
        eprintln!("skipped: {missing}");
        return None;
    }
    let config = folder.join("up.toml");
    let hook = hook.map_or_else(String::new, |hook| format!("webhook = \"{}\"", hook.url));
    let text = format!(
        "[limits]\nrows = {ROWS_MAX}\n[[rules]]\nname = \"always\"\nsql = \"SELECT 1 AS one\"\n{hook}\n"
    );
    std::fs::write(&config, text).unwrap();
    let certificate = folder.join("cert.pem").display().to_string();
    let up = Up::start(&UpOptions {
        args: ["--no-collect", "--config", config.to_str().unwrap()]
            .map(str::to_owned)
            .to_vec(),
        env: vec![("SSL_CERT_FILE".to_owned(), certificate)],
        ..UpOptions::default()
    });
    let fleet = Fleet::new("sim", 3, &[1], 400, 1);
    up.send(&fleet, 6);
    up.wait_for(fleet.truth().samples(|_| true));
    Some(up)
}

fn memwide(up: &Up, args: &[&str]) -> Output {
    Command::new(memwide_tests::memwide())
        .args(args)
        .env("MEMWIDE_SERVER", &up.url)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

/// What it prints on standard output, and says on standard error; it ends well.
#[track_caller]
fn well(up: &Up, args: &[&str]) -> (Vec<u8>, String) {
    let output = memwide(up, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    (output.stdout, said)
}

#[test]
fn commands_ask_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Hook::start(folder.path());
    let Some(up) = served(folder.path(), hook.as_ref()) else {
        return;
    };
    configured(&up, hook);
    exports(&up);
    links(&up);
    top(&up);
}

/// Somebody who is told of rules over HTTPS.
struct Hook {
    url: String,
    _server: Running,
    /// Bodies of what it was told.
    told: Receiver<String>,
}

impl Hook {
    /// `None`, said loudly, without `openssl`. Its certificate is `cert.pem` in the folder.
    fn start(folder: &Path) -> Option<Self> {
        let Https {
            mut server,
            mut said,
            port,
        } = Https::start(folder, &[], Stdio::piped())?;
        let url = format!("https://localhost:{port}/hook");
        let mut answer = server.0.stdin.take().unwrap();
        let (send, told) = sync_channel(8);
        // Answers at once, and more than once: whoever tells gives up and tells again.
        std::thread::spawn(move || {
            while let Some(body) = request(&mut said, &mut answer) {
                drop(send.try_send(body));
            }
        });
        Some(Self {
            url,
            _server: server,
            told,
        })
    }
}

/// The body of the next request, which is answered; `None` once the server is gone.
fn request(said: &mut BufReader<ChildStdout>, answer: &mut ChildStdin) -> Option<String> {
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        if said.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.split_once("content-length: ")?.1;
    let length = length.split_once("\r\n")?.0.parse().ok()?;
    let mut body = vec![0; length];
    said.read_exact(&mut body).ok()?;
    let done = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
    answer.write_all(done).and_then(|()| answer.flush()).ok()?;
    String::from_utf8(body).ok()
}

/// Bounds and rules of the file are in force, and a rule tells its webhook over HTTPS.
fn configured(up: &Up, hook: Option<Hook>) {
    let above = ROWS_MAX + 1;
    let refused = up.try_sql(&format!("SELECT time FROM samples LIMIT {above}"));
    let refused = refused.unwrap_err();
    assert!(refused.contains(&ROWS_MAX.to_string()), "{refused}");
    let rules = until_some("the rule was asked", SHOWN_WITHIN, || {
        let rules = up.get("rules");
        (rules["rules"][0]["state"] == "firing").then_some(rules)
    });
    assert_eq!(rules["rules"][0]["name"], "always");
    if let Some(hook) = hook {
        let told = hook.told.recv_timeout(SHOWN_WITHIN).unwrap();
        assert!(
            told.contains("\"always\"") && told.contains("\"firing\""),
            "{told}"
        );
        until("the webhook took it", SHOWN_WITHIN, || {
            up.metrics()
                .contains("query_webhook_requests_total{outcome=\"taken\"} 1")
        });
    }
}

/// What stands on a terminal of 24 lines of 80 columns that was sent this: texts, moves to a place, everything cleared.
fn screen(sent: &str) -> String {
    let mut cells = vec![vec![' '; 80]; 24];
    let (mut row, mut column) = (0, 0);
    let mut rest = sent.chars();
    while let Some(sign) = rest.next() {
        if sign != '\x1b' {
            if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = sign;
            }
            column += 1;
            continue;
        }
        let mut sequence: String = rest.by_ref().take(1).collect();
        if sequence == "[" {
            for sign in rest.by_ref() {
                sequence.push(sign);
                if sign.is_ascii_alphabetic() {
                    break;
                }
            }
        }
        let numbers = sequence.trim_matches(|sign: char| !sign.is_ascii_digit());
        match sequence.chars().last() {
            Some('H') => {
                let (to_row, to_column) = numbers.split_once(';').unwrap_or(("1", "1"));
                (row, column) = (
                    to_row.parse::<usize>().unwrap() - 1,
                    to_column.parse::<usize>().unwrap() - 1,
                );
            }
            Some('J') => cells = vec![vec![' '; 80]; 24],
            _ => {}
        }
    }
    let lines = cells
        .into_iter()
        .map(|line| line.into_iter().collect::<String>());
    lines.collect::<Vec<String>>().join("\n")
}

/// What stands on a terminal before the last of these keys, each of which is pressed once its text is seen; the exit code of
/// `memwide top`; and whether the terminal is as it was.
fn on_a_terminal(up: &Up, keys: &[(&str, &str)]) -> (String, Option<i32>, bool) {
    let opened =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)
            .unwrap();
    rustix::pty::grantpt(&opened).unwrap();
    rustix::pty::unlockpt(&opened).unwrap();
    let name = rustix::pty::ptsname(&opened, Vec::new()).unwrap();
    let terminal = std::fs::File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let size = rustix::termios::Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let modes = || format!("{:?}", rustix::termios::tcgetattr(&terminal).unwrap());
    let before = modes();
    let mut child = Command::new(memwide_tests::memwide())
        .args(["top", "--since", "-2h", "--interval", "1"])
        .env("MEMWIDE_SERVER", &up.url)
        .env("TERM", "xterm-256color")
        .stdin(terminal.try_clone().unwrap())
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal.try_clone().unwrap())
        .spawn()
        .unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let mut keyboard = std::fs::File::from(opened);
    let mut output = keyboard.try_clone().unwrap();
    let seen = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = output.read(&mut piece) {
            seen.lock().unwrap().extend_from_slice(&piece[..read]);
        }
    });
    let text = || String::from_utf8_lossy(&said.lock().unwrap()).into_owned();
    let mut shown = String::new();
    for (awaited, keys) in keys {
        let is_shown = || screen(&text()).contains(awaited);
        until(&format!("`{awaited}` is shown"), SHOWN_WITHIN, is_shown);
        shown = screen(&text());
        keyboard.write_all(keys.as_bytes()).unwrap();
    }
    let status = until_some("top ends", SHOWN_WITHIN, || child.try_wait().unwrap());
    // Leaving the other screen is the last thing it writes.
    until("the terminal is left", SHOWN_WITHIN, || {
        text().contains("\x1b[?1049l")
    });
    (shown, status.code(), modes() == before)
}

/// The terminal interface: rows, a filter, what is behind a row; it leaves the terminal as it was, however it ends.
fn top(up: &Up) {
    let keys = [
        // With the first answer: Enter looks behind a row.
        ("samples▼", "/"),
        ("take it", "host=sim-1\r"),
        ("filter: host=sim-1 ", "\r"),
        ("by host", "k"),
        ("samples▼", "q"),
    ];
    let (seen, code, is_restored) = on_a_terminal(up, &keys);
    assert_eq!(code, Some(0), "{seen}");
    assert!(
        is_restored && seen.contains("sim-1") && seen.contains("samples"),
        "{seen}"
    );
    let (seen, code, is_restored) = on_a_terminal(up, &[("q quit", "\x03")]);
    assert!(code == Some(0) && is_restored, "{seen}");
    // No terminal: a table, once.
    let (table, _) = well(up, &["top", "--since", "-2h"]);
    let table = String::from_utf8(table).unwrap();
    assert!(
        table.contains("completeness") && !table.contains('\x1b'),
        "{table}"
    );
}

/// The address of an answer, whatever asks for it; the API gives the same rows there.
fn links(up: &Up) {
    let commands: [&[&str]; 6] = [
        &["top", "--once"],
        &["numa"],
        &["hosts"],
        &["ledger"],
        &["report", "--server", &up.url],
        &["export", "folded"],
    ];
    for command in commands {
        let args = [command, &["-F", "host=sim-1", "--since", "-2h", "--link"]].concat();
        let (_, said) = well(up, &args);
        let page = said
            .lines()
            .find_map(|line| line.split_once("page: "))
            .unwrap()
            .1;
        let address = page.strip_prefix(&up.url).unwrap();
        assert!(
            address.contains("host=sim-1") && !address.contains("=-"),
            "{address}"
        );
        let (question, query) = address
            .strip_prefix("/?question=")
            .unwrap()
            .split_once('&')
            .unwrap();
        let answer = up.get(&format!("{question}?{query}"));
        assert!(!answer["rows"].as_array().unwrap().is_empty(), "{address}");
    }
    let wrong = memwide(up, &["report", "--link"]);
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
}

/// Each format is written, to standard output or a file, and what is beside it is said.
fn exports(up: &Up) {
    let (folded, said) = well(up, &["export", "folded", "--since", "-2h"]);
    let folded = String::from_utf8(folded).unwrap();
    let values = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let sum: u64 = values.map(|value| value.parse::<u64>().unwrap()).sum();
    assert!(sum > 0, "{folded}");
    assert!(said.contains("completeness: hosts 3 of 3"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    for (format, starts) in [
        ("pprof", &b"\x0a"[..]),
        ("speedscope", b"{"),
        ("firefox", b"{"),
        ("otlp", b"\x0a"),
        ("perf-data", b"PERFILE2"),
    ] {
        let path = folder.path().join(format);
        let file = path.to_str().unwrap();
        let (printed, said) = well(
            up,
            &[
                "export",
                format,
                "-F",
                "host=sim-1",
                "--since",
                "-2h",
                "-o",
                file,
            ],
        );
        assert!(printed.is_empty() && said.contains(file), "{said}");
        let written = std::fs::read(&path).unwrap();
        assert!(
            written.starts_with(starts),
            "{format}: {:?}",
            written.get(..20)
        );
    }
    let wrong = memwide(up, &["export", "folded", "--by", "gold"]);
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
}

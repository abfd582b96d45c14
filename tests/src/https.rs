//! Somebody who answers over https, for tests of clients.

use crate::Running;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

/// `openssl s_server` at `localhost`.
#[derive(Debug)]
pub struct Https {
    /// The process; dropped, it is killed.
    pub server: Running,
    /// What it prints.
    pub said: BufReader<ChildStdout>,
    /// Where it listens.
    pub port: u16,
}

impl Https {
    /// Starts it in a folder with these arguments besides, and a certificate made there: `cert.pem`. `None`, said loudly,
    /// without `openssl`.
    pub fn start(folder: &Path, args: &[&str], stdin: Stdio) -> Option<Self> {
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            ])
            .args(["-subj", "/CN=localhost"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .current_dir(folder)
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no `openssl`");
            return None;
        }
        let mut server = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-key", "key.pem"])
            .args(["-cert", "cert.pem"])
            .args(args)
            .current_dir(folder)
            .stdin(stdin)
            .stderr(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        let server = Running(server);
        let mut line = String::new();
        while !line.starts_with("ACCEPT") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "openssl ended");
        }
        let port = line.trim().rsplit(':').next().unwrap();
        Some(Self {
            port: port.parse().unwrap(),
            server,
            said,
        })
    }
}

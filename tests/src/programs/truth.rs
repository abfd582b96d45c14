//! Programs that tell where their accesses are: functions, lines, callers, data. `source/truth.h` says how.

use super::{Access, Mapping, Profile};
use std::path::Path;
use std::process::Command;

/// The sources of the programs, by the names they are compiled under.
pub fn sources() -> [(&'static str, &'static str); 5] {
    [
        ("truth.h", include_str!("source/truth.h")),
        ("truth.c", include_str!("source/truth.c")),
        ("truth.cpp", include_str!("source/truth.cpp")),
        ("truth.rs", include_str!("source/truth.rs.in")),
        ("truth.go", include_str!("source/truth.go")),
    ]
}

/// Programs that do something of known size, by the names they are compiled under: in C, as their argument says; in C++ and
/// Rust, what C does as `memory`.
pub fn acts() -> [(&'static str, &'static str); 3] {
    [
        ("acts.c", include_str!("source/acts.c")),
        ("memory.cpp", include_str!("source/memory.cpp")),
        ("memory.rs", include_str!("source/memory.rs.in")),
    ]
}

/// One place of a program where memory is accessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What it is for: `chase`, `stream`, `false-read` and so on.
    pub role: String,
    /// The function it is written in.
    pub function: String,
    /// The function it is part of, when the former is inlined.
    pub outer: String,
    /// File and line, `truth.c:17`.
    pub line: String,
    /// Of the instruction.
    pub ip: u64,
    /// Return address of the outer function; 0 where the program cannot tell.
    pub caller: u64,
    /// Of the datum.
    pub addr: u64,
    /// The datum: `symbol+0x8`, `[heap]`, `[stack]`, `-` for what has no name.
    pub datum: String,
}

/// What a program told.
#[derive(Debug, Clone)]
pub struct Told {
    /// Where its accesses are.
    pub places: Vec<Place>,
    /// The process, as it was then.
    pub process: Profile,
}

impl Told {
    /// Runs the program.
    #[track_caller]
    pub fn by(program: &Path, args: &[&str]) -> Self {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(output.status.success(), "{}", program.display());
        let text = String::from_utf8(output.stdout).unwrap();
        let comm = program.file_name().unwrap().to_string_lossy();
        let mut told = Self {
            places: Vec::new(),
            process: Profile {
                comm: comm.chars().take(15).collect(),
                pid: 0,
                maps: Vec::new(),
            },
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            match *words.as_slice() {
                ["pid", pid] => told.process.pid = pid.parse().unwrap(),
                ["map", map] => told.process.maps.push(Mapping::of_line(map).unwrap()),
                [
                    "at",
                    role,
                    function,
                    outer,
                    file,
                    at,
                    ip,
                    caller,
                    addr,
                    datum,
                ] => {
                    told.places.push(Place {
                        role: role.to_owned(),
                        function: function.to_owned(),
                        outer: outer.to_owned(),
                        line: format!("{file}:{at}"),
                        ip: hex(ip),
                        caller: hex(caller),
                        addr: hex(addr),
                        datum: datum.to_owned(),
                    });
                }
                _ => panic!("{line}"),
            }
        }
        told
    }

    /// The place of a role.
    #[track_caller]
    pub fn place(&self, role: &str) -> &Place {
        let mut places = self.places.iter();
        let found = places.find(|place| place.role == role);
        found.unwrap_or_else(|| panic!("no place {role}"))
    }

    /// Writes a profile with that many accesses at each place, by these threads of the process, with these words and weights.
    pub fn write(&self, to: &Path, rows: &[(&str, u64, u32, u64, u64)]) {
        let mut all = Vec::new();
        for (role, count, thread, word, weight) in rows {
            let Some(place) = self.places.iter().find(|place| place.role == *role) else {
                continue;
            };
            for _ in 0..*count {
                all.push(Access {
                    ip: place.ip,
                    addr: place.addr,
                    tid: self.process.pid + thread,
                    word: *word,
                    weight: *weight,
                    callers: [place.caller].into_iter().filter(|at| *at != 0).collect(),
                });
            }
        }
        self.process.write(to, &all);
    }
}

fn hex(text: &str) -> u64 {
    let digits = text.trim_start_matches("0x");
    // A null pointer is printed as `(nil)` by some.
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

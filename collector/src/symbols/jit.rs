//! Names of code that a process generates, from what its runtime writes: `/tmp/perf-PID.map` and dumps, inside of containers
//! too.
//!
//! All of it is the process's own word, in files it can point anywhere: they are opened below the process's own root, only if
//! they are files of its user or of root, and read within bounds.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use memwide_model::ContentHash;
use memwide_objects::{JitSymbols, Limits, Segments, SymbolTable, Symbols};
use memwide_proto::v1::mapping_identity::Kind;
use memwide_proto::v1::{MappingIdentity, SymbolRequest};
use memwide_service::rooted;

use crate::events::machine::Machine;
use crate::snapshot::open_regular;
use crate::uplink::SymbolAnswer;

/// Most bytes read of a map; of a larger one the start.
const MAP_BYTES_MAX: u64 = 64 << 20;
/// Most bytes read of a dump, which holds the code too; of a larger one the start.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// The names of a living process's generated code so far. Its identity is the process: its number and when it began.
pub(super) fn table(machine: &Machine, request: &SymbolRequest) -> Result<SymbolAnswer, String> {
    let folder = machine.proc.join(request.pid.to_string());
    let began = began(&folder).ok_or("the process that generated the code is gone")?;
    let user = std::fs::metadata(&folder).map_or(0, |meta| meta.uid());
    let inner = inner_pid(&folder).unwrap_or(request.pid);
    let path = format!("tmp/perf-{inner}.map");
    let mut symbols = JitSymbols::new(Limits::default());
    let mut why = format!("no /{path}");
    let mut found = false;
    let mut add = |path: &str, read: fn(File, &mut JitSymbols) -> Result<(), String>| {
        let file = open(&folder, OsStr::new(path), user);
        match file.and_then(|file| read(file, &mut symbols).map_err(Some)) {
            Ok(()) => found = true,
            Err(Some(error)) => why = error,
            Err(None) => {}
        }
    };
    add(&path, read_map);
    if !request.jit_dump.is_empty() {
        add(request.jit_dump.trim_start_matches('/'), read_dump);
    }
    if self::began(&folder) != Some(began) {
        return Err("the process that generated the code is gone".to_owned());
    }
    let symbols = symbols.finish();
    if !found && symbols.is_empty() {
        return Err(why);
    }
    let boot = machine.proc_text("sys/kernel/random/boot_id");
    let id = ContentHash::of("process")
        .bytes(boot.unwrap_or_default().as_bytes())
        .number(u64::from(request.pid))
        .number(began)
        .finish();
    Ok(SymbolAnswer {
        identity: MappingIdentity {
            kind: Kind::Jit.into(),
            id: id.to_be_bytes().to_vec(),
            path: format!("/tmp/perf-{}.map", request.pid),
        },
        table: encoded(symbols),
    })
}

/// The names of generated code of a process that was recorded on this machine, from what it left behind.
pub(crate) fn left_behind(
    asked: &MappingIdentity,
    dump: &str,
    below: impl Fn(&str) -> PathBuf,
) -> Result<SymbolAnswer, String> {
    let mut symbols = JitSymbols::new(Limits::default());
    let mut why = Err(format!("no {}", asked.path));
    if let Some(map) = open_regular(&below(&asked.path)) {
        why = read_map(map, &mut symbols);
    }
    if !dump.is_empty()
        && let Some(dump) = open_regular(&below(dump))
    {
        why = read_dump(dump, &mut symbols);
    }
    let symbols = symbols.finish();
    if symbols.is_empty() {
        why?;
    }
    Ok(SymbolAnswer {
        identity: asked.clone(),
        table: encoded(symbols),
    })
}

fn read_map(file: File, symbols: &mut JitSymbols) -> Result<(), String> {
    let mut text = Vec::new();
    let read = file.take(MAP_BYTES_MAX).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    symbols.add_perf_map(&text);
    Ok(())
}

fn read_dump(file: File, symbols: &mut JitSymbols) -> Result<(), String> {
    let read = symbols.add_jitdump(&mut BufReader::new(file).take(DUMP_BYTES_MAX));
    read.map_err(|error| error.to_string())
}

/// The table of functions that lie in no file.
fn encoded(functions: Symbols) -> Vec<u8> {
    SymbolTable::from_parts(Segments::default(), functions, Symbols::default()).encode()
}

/// When a process began, in ticks since boot.
fn began(folder: &Path) -> Option<u64> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name may hold blanks and brackets; behind its last bracket come fields 3, 4, …; the 22nd is the start.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// The number a process has in its innermost namespace.
fn inner_pid(folder: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let mut lines = status.lines();
    let numbers = lines.find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Opens a file as the process sees it, of its user or of root. `Err(None)`: there is none.
fn open(folder: &Path, path: &OsStr, user: u32) -> Result<File, Option<String>> {
    let failed = |error: std::io::Error| {
        (error.kind() != std::io::ErrorKind::NotFound)
            .then(|| format!("/{}: {error}", path.display()))
    };
    let file = rooted::open(folder, Path::new(path)).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.uid() != user && meta.uid() != 0 {
        return Err(Some(format!(
            "/{} is of another user than the process",
            path.display()
        )));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A `/proc` with one process, number 4711 here and 7 inside.
    struct Fake {
        proc: tempfile::TempDir,
    }

    impl Fake {
        fn new() -> Self {
            let proc = tempfile::tempdir().unwrap();
            let folder = proc.path().join("4711");
            fs::create_dir_all(folder.join("root/tmp")).unwrap();
            let fake = Self { proc };
            fake.began(100);
            fs::write(folder.join("status"), "Name:\tnode\nNSpid:\t4711\t7\n").unwrap();
            fake
        }

        fn root(&self) -> PathBuf {
            self.proc.path().join("4711/root")
        }

        fn began(&self, at: u64) {
            let stat = format!("4711 (a ) b) S {} {at} 0", "0 ".repeat(18).trim_end());
            fs::write(self.proc.path().join("4711/stat"), stat).unwrap();
        }

        fn ask(&self, dump: &str) -> Result<(Vec<String>, Vec<u8>), String> {
            let machine = Machine {
                proc: self.proc.path().to_owned(),
                ..Machine::default()
            };
            let request = SymbolRequest {
                pid: 4711,
                jit_dump: dump.to_owned(),
                ..SymbolRequest::default()
            };
            let answer = table(&machine, &request)?;
            let table = SymbolTable::decode(&answer.table, &Limits::default()).unwrap();
            let names = table.functions().iter();
            let names = names.map(|symbol| symbol.name.to_owned()).collect();
            Ok((names, answer.identity.id))
        }
    }

    #[test]
    fn the_map_of_a_container_is_found_by_the_number_inside() {
        let fake = Fake::new();
        assert_eq!(fake.ask("").unwrap_err(), "no /tmp/perf-7.map");
        fs::write(
            fake.root().join("tmp/perf-7.map"),
            "1000 20 Script:~work a.js:1\n",
        )
        .unwrap();
        let (names, first) = fake.ask("").unwrap();
        assert_eq!(names, ["Script:~work a.js:1"]);
        fake.began(200);
        let (_, second) = fake.ask("").unwrap();
        assert_ne!(first, second, "another process of the same number");
        fs::remove_file(fake.proc.path().join("4711/stat")).unwrap();
        assert!(fake.ask("").unwrap_err().contains("is gone"));
    }

    #[test]
    fn a_map_that_leads_elsewhere_is_not_followed_out_of_the_process_s_root() {
        let fake = Fake::new();
        let secret = fake.proc.path().join("secret");
        fs::write(&secret, "1000 20 secret\n").unwrap();
        let map = fake.root().join("tmp/perf-7.map");
        for target in [secret.clone(), PathBuf::from("../../../secret")] {
            std::os::unix::fs::symlink(target, &map).unwrap();
            assert!(fake.ask("").is_err());
            fs::remove_file(&map).unwrap();
        }
        // Within the root it is followed.
        fs::write(fake.root().join("other.map"), "1000 20 inside\n").unwrap();
        std::os::unix::fs::symlink("/other.map", &map).unwrap();
        assert_eq!(fake.ask("").unwrap().0, ["inside"]);
        fs::remove_file(&map).unwrap();
        fs::create_dir(&map).unwrap();
        assert!(fake.ask("").unwrap_err().contains("it is no file"));
    }

    #[test]
    fn a_dump_that_makes_no_sense_is_refused_and_the_map_still_read() {
        let fake = Fake::new();
        fs::write(fake.root().join("jit-7.dump"), b"no dump").unwrap();
        assert!(fake.ask("/jit-7.dump").is_err());
        fs::write(fake.root().join("tmp/perf-7.map"), "1000 20 work\n").unwrap();
        assert_eq!(fake.ask("/jit-7.dump").unwrap().0, ["work"]);
    }
}

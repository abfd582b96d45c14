//! Names of generated code: the maps and dumps that runtimes write, also those inside of containers.

use super::Places;
use super::refusals::{self, Refusals};
use crate::local::ObjectRequest;
use memwide_objects::{JitCode, JitSymbols, Limits, Segments, SymbolTable, Symbols, jitdump_code};
use memwide_service::rooted;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Largest map read, in bytes; of a larger one the start.
const MAP_MAX: u64 = 256 << 20;

/// Largest dump read, in bytes; of a larger one the start.
const DUMP_MAX: u64 = 4 << 30;

/// The names of the code a process generated.
pub(super) fn table(
    request: &ObjectRequest<'_>,
    places: &Places,
    limits: &Limits,
    refusals: &mut Refusals,
) -> Result<SymbolTable, String> {
    let mut symbols = JitSymbols::new(*limits);
    let map = Path::new(&*request.identity.path);
    let mut found = false;
    let mut refused = None;
    if let Some(file) = map_places(map, places).iter().find_map(open) {
        let mut text = Vec::new();
        found = file.take(MAP_MAX).read_to_end(&mut text).is_ok();
        symbols.add_perf_map(&text);
        let strange = symbols.strange_lines();
        if strange > 0 {
            let why = format!("{strange} lines of the map are not understood");
            refusals.note(map.display(), why, refusals::MAP);
        }
    }
    if let Some(dump) = request.jit_dump {
        let paths = dump_places(Path::new(dump), map, places);
        if let Some(file) = paths.iter().find_map(open) {
            let read = symbols.add_jitdump(&mut BufReader::new(file).take(DUMP_MAX));
            found |= read.is_ok();
            if let Err(why) = &read {
                refusals.note(dump, why, refusals::DUMP);
            }
            refused = read.err();
        }
    }
    let symbols = symbols.finish();
    if symbols.is_empty() && !found {
        return Err(match refused {
            Some(refused) => refused.to_string(),
            None => format!("{} is not there", map.display()),
        });
    }
    Ok(SymbolTable::from_parts(
        Segments::default(),
        symbols,
        Symbols::default(),
    ))
}

/// The code a process generated at an address, at most so many bytes, from its dump.
pub(super) fn code(
    dump: &str,
    map: &Path,
    places: &Places,
    start: u64,
    len: usize,
) -> Result<JitCode, String> {
    let paths = dump_places(Path::new(dump), map, places);
    let file = paths.iter().find_map(open);
    let file = file.ok_or_else(|| format!("{dump} is not there"))?;
    let found = jitdump_code(&mut BufReader::new(file).take(DUMP_MAX), start, len);
    let found = found.map_err(|error| format!("{dump}: {error}"))?;
    found.ok_or_else(|| format!("{dump} has no code at {start:#x}"))
}

/// Where a file may lie.
enum Place {
    /// Here.
    Here(PathBuf),
    /// Below the root of a process that lives.
    Of(u32, PathBuf),
}

/// Where a map may lie. A runtime in a container writes it there, by the number its process has inside.
fn map_places(map: &Path, places: &Places) -> Vec<Place> {
    let mut all = Vec::new();
    if let Some((pid, inside)) = process_of(map).and_then(|pid| Some((pid, inner_pid(pid)?))) {
        let named = format!("/tmp/perf-{inside}.map");
        all.push(Place::Of(pid, named.into()));
    }
    all.push(Place::Here(places.below_root(map)));
    if places.symfs.is_some() {
        all.push(Place::Here(map.to_owned()));
    }
    all
}

/// A dump is named by the path its process opened it at.
fn dump_places(dump: &Path, map: &Path, places: &Places) -> Vec<Place> {
    let mut all = vec![Place::Here(places.below_root(dump))];
    if let Some(pid) = process_of(map) {
        all.push(Place::Of(pid, dump.to_owned()));
    }
    all
}

/// The number in `/tmp/perf-NUMBER.map`.
fn process_of(map: &Path) -> Option<u32> {
    let name = map.file_name()?.to_str()?;
    name.strip_prefix("perf-")?
        .strip_suffix(".map")?
        .parse()
        .ok()
}

/// The number a living process has in its innermost namespace, if that is another one than here.
fn inner_pid(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    innermost(&status).filter(|inside| *inside != pid)
}

fn innermost(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// Opens files only: devices and pipes could block for ever.
fn open(place: &Place) -> Option<File> {
    match place {
        Place::Here(path) => {
            let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
            is_file.then(|| File::open(path).ok())?
        }
        Place::Of(pid, path) => {
            let process = Path::new("/proc").join(pid.to_string());
            rooted::open(&process, path).ok()
        }
    }
}

/// Whether a mapping's name is that of a dump: `jit-NUMBER.dump`.
pub(crate) fn is_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let number = name
        .strip_prefix("jit-")
        .and_then(|rest| rest.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_inside_of_a_container_is_the_last_one() {
        assert_eq!(innermost("Name:\ta\nNSpid:\t4711\t12\t1\n"), Some(1));
        assert_eq!(innermost("Name:\ta\nNSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost("Name:\ta\n"), None);
        assert_eq!(process_of(Path::new("/tmp/perf-4711.map")), Some(4711));
        assert_eq!(process_of(Path::new("/tmp/perf-x.map")), None);
    }

    #[test]
    fn dumps_are_known_by_their_names() {
        assert!(is_dump("/srv/a/jit-4711.dump"));
        for other in [
            "/srv/a/jit-.dump",
            "/srv/a/jit-4711.dump.1",
            "jit-a.dump",
            "",
        ] {
            assert!(!is_dump(other), "{other}");
        }
    }
}

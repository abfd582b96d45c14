//! Memory of containers and units, from the files of their cgroups.

use std::fs;
use std::path::{Path, PathBuf};

use memwide_model::Resident;
use memwide_proto::v1::Reading;
use memwide_service::clock::instant;

use super::{Changes, Out, pairs, stalls};
use crate::events::machine::Machine;
use crate::identity::Identity;

/// Most cgroups read in a round, at five small files each.
const CGROUPS_MAX: usize = 1_024;

/// Counters and levels of `memory.stat`; names of the first hierarchy stand beside those of the second.
const COUNTERS: &[&str] = &[
    "pgfault",
    "pgmajfault",
    "pgscan",
    "pgsteal",
    "workingset_refault_anon",
    "workingset_refault_file",
];
const LEVELS: &[(&str, &str, &str)] = &[
    ("anon", "rss", "anon"),
    ("file", "cache", "file"),
    ("shmem", "shmem", "shmem"),
    ("slab", "slab", "slab"),
];
const EVENTS: &[&str] = &["low", "high", "max", "oom", "oom_kill"];

/// The hierarchy of a controller.
pub(super) struct Hierarchy {
    pub(super) root: PathBuf,
    pub(super) unified: bool,
}

pub(super) fn read(
    machine: &Machine,
    changes: &mut Changes,
    identity: &mut Identity,
    out: &mut Out,
) {
    let Some(hierarchy) = find(machine, "memory") else {
        return;
    };
    for (folder, path) in residents(&hierarchy.root) {
        let workload = identity.of_path(&path, instant());
        let from = (out.read.pressure.len(), out.read.rss.len());
        one(&folder, &path, hierarchy.unified, changes, out);
        let whose = |reading: &mut Reading| reading.workload_id = workload;
        out.read.pressure.iter_mut().skip(from.0).for_each(whose);
        out.read.rss.iter_mut().skip(from.1).for_each(whose);
    }
}

/// Containers and units: their folders, and their paths below `root`.
pub(super) fn residents(root: &Path) -> Vec<(PathBuf, String)> {
    let mut folders = vec![(root.to_owned(), String::new())];
    let mut found = Vec::new();
    while let Some((folder, path)) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir())) {
            if let Ok(name) = entry.file_name().into_string() {
                folders.push((entry.path(), format!("{path}/{name}")));
            }
        }
        if is_resident(&path) {
            found.push((folder, path));
            if found.len() == CGROUPS_MAX {
                break;
            }
        }
    }
    found
}

/// The cgroup of a container or unit itself: those below it are counted in it.
fn is_resident(path: &str) -> bool {
    let lives = |path: &str| {
        let resident = Resident::of(path);
        !resident.container.is_empty() || !resident.unit.is_empty()
    };
    lives(path) && !path.rsplit_once('/').is_some_and(|(above, _)| lives(above))
}

fn one(folder: &Path, path: &str, unified: bool, changes: &mut Changes, out: &mut Out) {
    let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    for (kind, total) in stalls(&text("memory.pressure")) {
        let name = format!("psi.memory.{kind}");
        if let Some(stalled) = changes.of(path, &name, total) {
            let reading = out.change(&name, stalled, "ns");
            out.read.pressure.push(reading);
        }
    }
    for (key, value) in pairs(&text("memory.events")).filter(|(key, _)| EVENTS.contains(key)) {
        let name = format!("events.{key}");
        if let Some(change) = changes.of(path, &name, value) {
            let reading = out.change(&name, change, "events");
            out.read.pressure.push(reading);
        }
    }
    for (key, value) in pairs(&text("memory.stat")) {
        if COUNTERS.contains(&key) {
            if let Some(change) = changes.of(path, key, value) {
                let reading = out.change(key, change, "events");
                out.read.pressure.push(reading);
            }
            continue;
        }
        let level = LEVELS
            .iter()
            .find(|(new, old, _)| if unified { *new == key } else { *old == key });
        if let Some((_, _, name)) = level {
            let reading = out.level(name, value);
            out.read.rss.push(reading);
        }
    }
    let files = if unified {
        [("memory.current", "total"), ("memory.swap.current", "swap")]
    } else {
        [
            ("memory.usage_in_bytes", "total"),
            ("memory.kmem.usage_in_bytes", "kernel"),
        ]
    };
    for (file, name) in files {
        if let Ok(bytes) = text(file).trim().parse() {
            let reading = out.level(name, bytes);
            out.read.rss.push(reading);
        }
    }
}

pub(super) fn find(machine: &Machine, controller: &str) -> Option<Hierarchy> {
    let mounts = machine.proc_text("self/mounts")?;
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        match kind {
            "cgroup" if options.split(',').any(|option| option == controller) => {
                return Some(Hierarchy {
                    root: place.into(),
                    unified: false,
                });
            }
            "cgroup2" => unified = Some(place.into()),
            _ => {}
        }
    }
    unified.map(|root| Hierarchy {
        root,
        unified: true,
    })
}

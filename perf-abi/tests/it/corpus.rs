//! Every file of the shared collection of perf.data files, when it is there: none panics, and those
//! that perf reads have as many samples as perf counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memwide_perf_abi::{PerfFile, Record, SampleView};

pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/perfdata");
    if !folder.is_dir() {
        eprintln!("skipped: no collection of perf.data files beside the repository");
        return None;
    }
    Some(folder)
}

/// What reading a file gave.
#[derive(Debug, Default)]
struct Summary {
    samples: u64,
    unparsed: u64,
    other: u64,
    cut: bool,
    failure: Option<String>,
}

fn read(path: &Path) -> Summary {
    let mut summary = Summary::default();
    if let Err(wrong) = read_into(path, &mut summary) {
        let mut text = wrong.to_string();
        let mut source = wrong.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        summary.failure = Some(text);
    }
    summary
}

fn read_into(path: &Path, summary: &mut Summary) -> Result<(), Box<dyn std::error::Error>> {
    let mut file = PerfFile::open(File::open(path)?)?;
    touch_features(&file);
    let events = Arc::clone(file.events());
    let mut records = file.sorted()?;
    while let Some(item) = records.next()? {
        if !item.record.is_sample() {
            summary.other += 1;
            summary.unparsed += u64::from(Record::parse(item.record).is_err());
            continue;
        }
        summary.samples += 1;
        let (offset, body) = (item.offset, item.record.body());
        let event = item.event;
        let view = event
            .and_then(|event| events.get(event))
            .and_then(|event| event.layout.as_ref().ok())
            .map(|layout| SampleView::parse(body, layout).map(|view| view.time()));
        if !matches!(view, Some(Ok(_))) {
            eprintln!("{}: sample at {offset}: {view:?}", path.display());
            summary.unparsed += 1;
        }
    }
    summary.cut = records.cut().is_some();
    Ok(())
}

/// Parses every feature there is.
fn touch_features(file: &PerfFile<File>) {
    let features = file.features();
    let text = format!(
        "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
        features.hostname(),
        features.cmdline(),
        features.event_desc(),
        features.build_ids(),
        features.cpu_topology(),
        features.numa_topology(),
        features.memory_topology(),
        features.caches(),
        features.pmu_mappings(),
        features.group_desc(),
        features.hybrid_topology(),
        features.sample_time(),
        features.clock_data(),
        features.compression(),
    );
    assert!(!text.is_empty());
}

/// The manifest: name, samples, and what the column on perf says.
fn manifest(folder: &Path) -> Vec<(String, String, String)> {
    let manifest = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let mut lines = manifest.lines();
    let columns: Vec<_> = lines.next().unwrap().split('\t').collect();
    let column = |prefix: &str| {
        columns
            .iter()
            .position(|name| name.starts_with(prefix))
            .unwrap()
    };
    let (samples, perf) = (column("samples"), column("read by perf"));
    lines
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|row| {
            (
                row[0].to_owned(),
                row[samples].to_owned(),
                row[perf].to_owned(),
            )
        })
        .collect()
}

/// Files that the installed perf reads, or reads in part: those without fuzz.
pub(crate) fn readable_by_perf(folder: &Path) -> Vec<String> {
    manifest(folder)
        .into_iter()
        .filter(|(name, _, perf)| perf.starts_with("yes") && !name.starts_with("fuzz"))
        .map(|(name, _, _)| name)
        .collect()
}

/// Files that the installed perf reads once their attrs are shorter or their records inflated.
pub(crate) fn readable_in_a_copy(folder: &Path) -> Vec<String> {
    manifest(folder)
        .into_iter()
        .filter(|(_, samples, _)| samples.contains("in a copy made readable"))
        .map(|(name, _, _)| name)
        .collect()
}

/// Names of files to the number of samples perf finds, in a copy made readable if need be.
fn expected(folder: &Path) -> BTreeMap<String, u64> {
    manifest(folder)
        .into_iter()
        .filter(|(name, samples, perf)| {
            (perf.starts_with("yes") && !name.starts_with("fuzz"))
                || samples.contains("in a copy made readable")
        })
        .map(|(name, samples, _)| (name, samples.split(' ').next().unwrap().parse().unwrap()))
        .collect()
}

#[test]
fn every_file_is_read_as_perf_reads_it() {
    let Some(folder) = folder() else { return };
    let expected = expected(&folder);
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ext| ext != "data") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let summary = read(&path);
        eprintln!("{name}: {summary:?}");
        if let Some(samples) = expected.get(&name)
            && (summary.samples != *samples || summary.unparsed != 0 || summary.failure.is_some())
        {
            wrong.push(format!("{name}: {summary:?}, perf counts {samples}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

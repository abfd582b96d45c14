//! `memwide c2c -N`: the nodes that an offset was accessed from, by number, with shares, with CPUs.

use crate::files::{self, ANON, APP, One, STORE, STORES};
use crate::run::fine;
use memwide_model::DataSrc;
use memwide_model::data_src::{lvl, op, snoop};
use memwide_perf_abi::SampleFields;
use serde_json::json;
use std::path::{Path, PathBuf};

const HITM: u64 = DataSrc(0)
    .with_op(op::LOAD)
    .with_lvl(lvl::HIT | lvl::L3)
    .with_snoop(snoop::HITM)
    .0;

/// At one offset: three loads of CPU 0 and one of CPU 2 found the line modified, CPU 3 stored twice. CPUs 0 and 1 are of node 0,
/// 2 and 3 of node 1.
fn written(folder: &Path) -> PathBuf {
    let file = folder.join("nodes.data");
    let one = |event, cpu, data_src| One {
        event,
        fields: SampleFields {
            cpu,
            data_src,
            ip: APP + 0x100,
            addr: ANON + 0x48,
            ..One::default().fields
        },
        ..One::default()
    };
    let hitm = |cpu| one(files::LOADS, cpu, HITM);
    let store = || one(STORES, 3, STORE);
    files::write(
        &file,
        &[hitm(0), hitm(0), hitm(0), hitm(2), store(), store()],
    );
    file
}

#[test]
fn nodes_are_told_as_closely_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path());
    let site = |args: &[&str]| {
        let all = [args, &["--format", "json", "--no-source"]].concat();
        fine("c2c", &file, &all).json()["lines"][0]["offsets"][0].clone()
    };
    let plain = site(&[]);
    assert_eq!(plain["cpu_nodes"], json!([0, 1]));
    assert_eq!(plain["by_node"], json!(null));
    let by_node = json!([
        {"node": 0, "cpus": [0], "share": 0.75, "share_of_stores": 0.0},
        {"node": 1, "cpus": [2, 3], "share": 0.25, "share_of_stores": 1.0},
    ]);
    assert_eq!(site(&["-N"])["by_node"], by_node);
    assert_eq!(site(&["-NN"])["by_node"], by_node);
    for (args, heading, cell) in [
        (
            &["-N"][..],
            "node{cpus %hitms %stores}",
            "0{1 75.0% 0.0%} 1{2 25.0% 100.0%}",
        ),
        (&["-N", "-N"], "node{cpu list}", "0{0} 1{2-3}"),
        (&["-NNNN"], "node{cpu list}", "0{0} 1{2-3}"),
        (
            &["-N", "-d", "peer", "--show-all"],
            "node{cpus %peers %stores}",
            "0{1 n/a 0.0%} 1{2 n/a 100.0%}",
        ),
    ] {
        let text = fine("c2c", &file, &[args, &["--no-source"]].concat()).out;
        assert!(text.contains(heading), "{args:?}: {text}");
        assert!(text.contains(cell), "{args:?}: {text}");
    }
}

#[test]
fn a_file_without_topology_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain.data");
    std::fs::write(&file, files::without_topology(&[One::default()])).unwrap();
    let text = fine("c2c", &file, &["-N", "--show-all"]).out;
    assert!(text.contains("has no NUMA topology"), "{text}");
    let plain = fine("c2c", &file, &["--show-all"]).out;
    assert!(!plain.contains("has no NUMA topology"), "{plain}");
}

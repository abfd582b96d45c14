//! What `deploy/` ships is what the programs and Kubernetes take.

use crate::support::root;
use std::process::Command;

#[test]
fn manifests_are_valid_against_the_schemas_of_kubernetes() {
    if std::env::var_os("MEMWIDE_CHECKERS").is_none() {
        eprintln!("skipped: MEMWIDE_CHECKERS is not set; `make test` sets it");
        return;
    }
    let output = Command::new(root().join("scripts/validate-manifests"))
        .output()
        .expect("the script runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
}

#[test]
fn every_example_configuration_is_taken_by_its_role() {
    let folder = root().join("deploy/config");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let role = path.file_stem().and_then(|stem| stem.to_str()).unwrap();
        let output = Command::new(memwide_tests::memwide())
            .args([role, "--print-config", "--config"])
            .env_remove("MEMWIDE_REWRITE")
            .arg(&path)
            .output()
            .expect("memwide runs");
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        seen += 1;
    }
    assert!(
        seen >= 5,
        "only {seen} configurations in {}",
        folder.display()
    );
}

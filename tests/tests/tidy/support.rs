//! Reads the workspace: packages, sources, documents.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    /// Name and kind (empty: normal, `dev`, `build`).
    pub(crate) dependencies: Vec<(String, String)>,
}

/// Folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_owned).unwrap_or_default()
}

/// The workspace's packages, as cargo sees them.
pub(crate) fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            manifest: text(&package["manifest_path"]).into(),
            dependencies: package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .map(|used| (text(&used["name"]), text(&used["kind"])))
                .collect(),
        })
        .collect()
}

/// Rust files that git knows: path from the root, text.
pub(crate) fn sources() -> Vec<(String, String)> {
    tracked("*.rs")
}

/// Markdown files that git knows.
pub(crate) fn documents() -> Vec<(String, String)> {
    tracked("*.md")
}

fn tracked(pattern: &str) -> Vec<(String, String)> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            pattern,
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = String::from_utf8(output.stdout).unwrap();
    let files: Vec<_> = listed
        .lines()
        .filter_map(|path| {
            Some((
                path.to_owned(),
                std::fs::read_to_string(root().join(path)).ok()?,
            ))
        })
        .collect();
    assert!(!files.is_empty(), "no {pattern} found");
    files
}

/// Targets of `[text](target)` in Markdown.
pub(crate) fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

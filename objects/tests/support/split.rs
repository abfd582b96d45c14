//! Builds programs, and reads them with what their compilers split off.

use memwide_objects::{DebugInfo, DebugSections, Limits, SplitFiles, SplitName, SymbolTable};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program prints; `None` (said loudly) where it fails or is not there.
pub(crate) fn run(program: &str, args: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: `{program} {}`: {why}", args.join(" "));
            None
        }
        Err(error) => {
            eprintln!("skipped: `{program}`: {error}");
            None
        }
    }
}

/// Split files below a folder.
#[derive(Debug)]
struct Folder(PathBuf);

impl SplitFiles for Folder {
    fn load(&mut self, name: &SplitName) -> Result<DebugSections, String> {
        let folder = name.folder.as_deref().map_or(self.0.clone(), PathBuf::from);
        split(&folder.join(&name.name))
    }
}

fn split(path: &Path) -> Result<DebugSections, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let mut file = File::open(path).map_err(|error| named(error.to_string()))?;
    let len = file.metadata().unwrap().len();
    DebugSections::read_split(&mut file, len).map_err(|error| named(error.to_string()))
}

/// Of a program with its package; split files are where they were written.
pub(crate) fn info(program: &Path, package: Option<&Path>) -> DebugInfo {
    let mut file = File::open(program).unwrap();
    let len = file.metadata().unwrap().len();
    let sections = DebugSections::read(&mut file, len).unwrap();
    let package = package.map(|path| split(path).unwrap());
    let info = DebugInfo::with_package(sections, None, package).unwrap();
    info.with_split_files(Box::new(Folder(program.parent().unwrap().to_owned())))
}

pub(crate) fn table(program: &Path) -> SymbolTable {
    let bytes = std::fs::read(program).unwrap();
    SymbolTable::from_elf(&bytes, &Limits::default()).unwrap()
}

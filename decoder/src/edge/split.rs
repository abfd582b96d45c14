//! Where split debug information lies: the files that compilers wrote beside objects, and packages of them.

use super::Places;
use super::places::{is_regular, sections};
use memwide_objects::{DebugSections, SplitFiles, SplitName};
use std::path::{Path, PathBuf};

/// Split files of one program.
#[derive(Debug)]
pub(super) struct SplitPlaces {
    places: Places,
    /// The program's own folder.
    beside: PathBuf,
}

impl SplitPlaces {
    /// Of a program or its debug file.
    pub(super) fn of(program: &Path, places: &Places) -> Self {
        Self {
            places: places.clone(),
            beside: program.parent().unwrap_or(Path::new("/")).to_owned(),
        }
    }
}

impl SplitFiles for SplitPlaces {
    fn load(&mut self, name: &SplitName) -> Result<DebugSections, String> {
        let named = Path::new(&name.name);
        let folder = name.folder.as_deref().map(Path::new);
        let whole = folder.map_or_else(|| named.to_owned(), |folder| folder.join(named));
        let mut paths = Vec::new();
        if whole.is_absolute() {
            paths.push(self.places.below_root(&whole));
        }
        paths.extend(named.file_name().map(|name| self.beside.join(name)));
        match paths.iter().find(|path| is_regular(path)) {
            Some(path) => sections(path, DebugSections::read_split),
            None => Err(format!("{}: not there", whole.display())),
        }
    }
}

/// The package of a program or of its debug file, if there is one; its units have ids, so that one of another build names
/// nothing.
pub(super) fn package(of: &[&Path]) -> Option<Result<DebugSections, String>> {
    let paths = of.iter().map(|path| path.with_added_extension("dwp"));
    let found = paths.into_iter().find(|path| is_regular(path))?;
    Some(sections(&found, DebugSections::read_split))
}

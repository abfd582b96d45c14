//! Where in the source functions stand: what only debug information says, kept beside their names.

use crate::{DebugInfo, SymbolTable};
use std::collections::HashMap;
use std::sync::Arc;

/// Most bytes of paths kept of one table.
pub(crate) const PATH_BYTES_MAX: usize = 64 << 20;

/// File and line of each function of a table, by the function's place; empty where nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Places {
    pub(crate) files: Vec<Box<str>>,
    /// Place of the file counted from 1, and line; 0: not known.
    pub(crate) of: Vec<(u32, u32)>,
}

impl SymbolTable {
    /// File and line of the function at a place of [`SymbolTable::functions`], if debug information told.
    pub fn source_of(&self, function: usize) -> Option<(&str, u32)> {
        let (file, line) = self.places.of.get(function)?;
        let file = self.places.files.get(file.checked_sub(1)? as usize)?;
        Some((file, *line))
    }

    /// Whether any function has its place in the source.
    pub fn has_source(&self) -> bool {
        !self.places.of.is_empty()
    }

    /// Asks debug information for the place of each function. Where its effort ends, the rest stays without.
    pub fn add_source(&mut self, debug: &mut DebugInfo) {
        let mut known: HashMap<Arc<str>, u32> = HashMap::new();
        let mut places = Places::default();
        let mut bytes = 0;
        for function in self.functions.iter() {
            let frames = debug.frames(function.start).unwrap_or_default();
            // The outermost: what is inlined at its start has its own lines.
            let place = frames
                .last()
                .and_then(|frame| Some((frame.file.clone()?, frame.line)));
            let Some((file, line)) = place.filter(|(_, line)| *line > 0) else {
                places.of.push((0, 0));
                continue;
            };
            let number = if let Some(number) = known.get(&file) {
                *number
            } else {
                bytes += file.len();
                let number = u32::try_from(places.files.len() + 1).unwrap_or(0);
                if bytes > PATH_BYTES_MAX || number == 0 {
                    break;
                }
                places.files.push((&*file).into());
                known.insert(file, number);
                number
            };
            places.of.push((number, line));
        }
        if !places.files.is_empty() {
            places.of.resize(self.functions.len(), (0, 0));
            self.places = places;
        }
    }
}

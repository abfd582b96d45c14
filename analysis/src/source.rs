//! Lines of the source as they are shown: as perf does.

use memwide_decoder::local::LocalSample;
use memwide_objects::SourceFrame;

/// The file's name and the line, `a.c:12`; `None` where the file is not known.
pub fn file_and_line(frame: &SourceFrame) -> Option<String> {
    let file = frame.file.as_deref()?;
    Some(format!("{}:{}", name_of(file), frame.line))
}

/// The line a sample was taken at; where it is not known the symbol with the distance from its start in decimal, else the
/// object with the address in it.
pub fn line_or_place(sample: &LocalSample<'_>) -> String {
    if let Some(line) = sample.source().first().and_then(file_and_line) {
        return line;
    }
    let code = sample.code();
    match code.symbol {
        Some(symbol) => format!("{symbol}+{}", code.symbol_offset),
        None => object_and_address(sample),
    }
}

/// The line a sample was taken at, else the object with the address in it.
pub fn line_or_address(sample: &LocalSample<'_>) -> String {
    let line = sample.source().first().and_then(file_and_line);
    line.unwrap_or_else(|| object_and_address(sample))
}

fn object_and_address(sample: &LocalSample<'_>) -> String {
    let code = sample.code();
    format!("{}[{:x}]", name_of(code.dso), code.shown_address)
}

/// The last part of a path.
pub fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

//! The kernel's own mappings: its image and its modules.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use memwide_objects::{ObjectId, parse_modules};
use memwide_perf_abi::{BuildId, FileId, Mmap2, Record, misc};

use super::Writer;
use crate::events::machine::Machine;

/// What the kernel's own records carry for "no process".
const NO_PID: u32 = u32::MAX;

/// Writes one MMAP2 for the kernel and one for each module.
pub(super) fn write(machine: &Machine, writer: &mut Writer<'_>) {
    if let Some((start, end)) = image(machine) {
        let id = notes(&machine.sys.join("kernel/notes"));
        map(writer, start, end, start, id, "[kernel.kallsyms]_text");
    }
    let text = fs::read(machine.proc.join("modules")).unwrap_or_default();
    for module in parse_modules(&text).unwrap_or_default() {
        let path = format!("module/{}/notes/.note.gnu.build-id", module.name);
        let id = notes(&machine.sys.join(path));
        let name = format!("[{}]", module.name);
        map(writer, module.base, module.end(), 0, id, &name);
    }
}

fn map(writer: &mut Writer<'_>, start: u64, end: u64, pgoff: u64, id: Option<BuildId>, name: &str) {
    let none = FileId::Inode {
        maj: 0,
        min: 0,
        ino: 0,
        generation: 0,
    };
    let record = Mmap2 {
        pid: NO_PID,
        tid: 0,
        addr: start,
        len: end.saturating_sub(start),
        pgoff,
        file: id.map_or(none, FileId::BuildId),
        prot: 5,
        flags: 2,
        filename: name.as_bytes(),
        data: false,
    };
    writer.put(&Record::Mmap2(record), misc::KERNEL, NO_PID, 0);
}

fn notes(path: &std::path::Path) -> Option<BuildId> {
    let id = ObjectId::of_notes(&fs::read(path).ok()?)?;
    BuildId::from_slice(id.as_bytes())
}

/// Where the kernel lies, code and data: `_text` to `_end`. `None` when the kernel hides its addresses.
fn image(machine: &Machine) -> Option<(u64, u64)> {
    let file = File::open(machine.proc.join("kallsyms")).ok()?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut text, mut etext, mut end) = (None, None, None);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).ok()? > 0 {
        let mut words = line.trim_ascii_end().splitn(3, |byte| *byte == b' ');
        let address = words
            .next()
            .and_then(|word| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
        match words.nth(1) {
            Some(b"_text") => text = address,
            Some(b"_stext") if text.is_none() => text = address,
            Some(b"_etext") => etext = address,
            Some(b"_end") => end = address,
            Some(name) if name.contains(&b'\t') => break, // modules follow the kernel
            _ => {}
        }
        line.clear();
    }
    let (start, end) = (text?, end.or(etext)?);
    (start != 0 && start < end).then_some((start, end))
}

//! Functions with the samples on their instructions and lines: what is found out of each, and how it is shown.

mod render;
mod source;

pub(crate) use render::{Answer, Options, document};
pub(crate) use source::Source;

use memwide_analysis::annotate::{
    Code, Counts, Function, Line, Listing, Machine, Sites, disassemble,
};
use memwide_decoder::What;
use memwide_decoder::edge::FileSource;
use memwide_decoder::local::LocalSession;

/// Functions shown unless asked otherwise.
pub(crate) const FUNCTIONS_SHOWN: usize = 5;

/// Longest function whose code is read, in bytes; of longer ones only instructions with samples are shown.
const CODE_MAX: u64 = 4 << 20;

/// One function.
#[derive(Debug)]
pub(crate) struct Annotated {
    event: usize,
    symbol: String,
    dso: String,
    start: u64,
    size: u64,
    counts: Counts,
    total: Counts,
    listing: Listing,
    /// Texts of the lines that have samples, in the order of [`Listing::lines`].
    texts: Vec<Option<String>>,
    /// What of it is missing, and why.
    notes: Vec<String>,
}

impl Annotated {
    /// Whether a function has this name.
    pub(crate) fn is_named(
        session: &LocalSession<FileSource>,
        function: &Function,
        name: &str,
    ) -> bool {
        let table = session.machine().objects().table(function.object);
        table.is_some_and(|table| table.shown_name(function.symbol, false) == name)
    }

    /// Reads code and lines of a function; `None` if it is none.
    pub(crate) fn of(
        session: &mut LocalSession<FileSource>,
        sites: &Sites,
        function: Function,
        counts: Counts,
        source: &mut Source,
    ) -> Option<Self> {
        let objects = session.machine().objects();
        let object = objects.get(function.object)?;
        let table = objects.table(function.object)?;
        let symbol = table.function(function.symbol)?;
        let name = table.shown_name(function.symbol, false).to_owned();
        let dso = object.dso().to_owned();
        // Addresses of the kernel are distances from its start.
        let base = if matches!(object.what, What::Kernel | What::Module) {
            object.base
        } else {
            0
        };
        let (start, size) = (symbol.start, symbol.size);
        let mut notes = Vec::new();
        let code = if size > CODE_MAX {
            Err(format!(
                "{name} has {size} bytes of code, at most {CODE_MAX} are read"
            ))
        } else {
            let len = usize::try_from(size).unwrap_or(0);
            let segments = table.table().segments();
            let dump = session.machine().jit_dump(object.mapping);
            session.source().code(object, dump, segments, start, len)
        };
        let instructions = match code {
            Ok((bytes, machine)) => match machine.map(Machine::of_number) {
                Some(Machine::Other(number)) => {
                    notes.push(format!("code of machine {number} is not disassembled here"));
                    Vec::new()
                }
                // Where it was loaded: jumps name addresses.
                Some(machine) => {
                    let start = start.wrapping_add(base);
                    let mut all = disassemble(&Code {
                        machine,
                        start,
                        bytes,
                    });
                    for one in &mut all {
                        one.address = one.address.wrapping_sub(base);
                    }
                    all
                }
                None => Vec::new(),
            },
            Err(why) => {
                notes.push(format!("no instructions of {name}: {why}"));
                Vec::new()
            }
        };
        let mut sums = sites.of(function);
        let mut info = session.debug_info(function.object);
        let mut listing = Listing::new(instructions, std::mem::take(&mut sums), |address| {
            let frames = info.as_mut()?.frames(address).ok()?;
            let frame = frames.into_iter().next()?;
            Some(Line {
                file: frame.file?,
                line: frame.line,
            })
        });
        let mut texts = Vec::new();
        for (line, _) in listing.lines() {
            texts.push(line.and_then(|line| source.text(session.source(), line)));
        }
        for row in &mut listing.rows {
            row.instruction.address = row.instruction.address.wrapping_add(base);
        }
        Some(Self {
            event: function.event,
            symbol: name,
            dso,
            start: start.wrapping_add(base),
            size,
            counts,
            total: sites.total(function.event),
            listing,
            texts,
            notes,
        })
    }
}

//! The line table of a unit: which address comes from which line.

use super::budget::Budget;
use super::error::malformed;
use super::units::Opened;
use super::{Bytes, DebugError};
use gimli::constants as dw;
use gimli::{
    AttributeValue, ColumnType, DebugLineOffset, Dwarf, LineProgramHeader, Reader as _,
    Section as _, Unit,
};
use std::sync::Arc;

/// Longest path kept, in bytes.
const PATH_MAX: usize = 4096;

/// One row: code from `address` up to the next row's comes from this line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRow {
    /// First ELF virtual address.
    pub address: u64,
    /// Number of the file within the unit.
    pub(super) file: u32,
    /// Line from 1; 0 where the code comes from no line, or the table ends.
    pub line: u32,
    /// Column from 1; 0 if not known.
    pub column: u32,
}

/// Stands in rows behind the end of a sequence.
const NO_FILE: u32 = u32::MAX;

/// All rows of a unit, in order.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rows: Vec<LineRow>,
    files: Vec<Option<Arc<str>>>,
    files_bytes: usize,
}

impl Lines {
    /// Runs the unit's line program.
    pub(super) fn read(
        dwarf: &Dwarf<Bytes<'_>>,
        opened: &Opened<'_>,
        budget: &mut Budget,
    ) -> Result<Self, DebugError> {
        let mut lines = Self::default();
        let (unit, Some(at)) = (&opened.unit, opened.lines) else {
            return Ok(lines);
        };
        pay_for_header(dwarf, at, budget)?;
        let address_size = unit.header.address_size();
        let program = dwarf
            .debug_line
            .program(at, address_size, unit.comp_dir, unit.name)?;
        lines.read_files(dwarf, unit, program.header(), budget)?;
        budget.pay(4 * program.header().raw_program_buf().len())?;
        let mut rows = program.rows();
        let mut sequence = Vec::new();
        let mut sequences = Vec::new();
        while let Some((_, row)) = rows.next_row()? {
            let (file, line) = if row.end_sequence() {
                (NO_FILE, 0)
            } else {
                let line = row
                    .line()
                    .map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
                (u32::try_from(row.file_index()).unwrap_or(NO_FILE), line)
            };
            let column = match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
            };
            let address = row.address();
            // Of several rows at an address only the last one holds.
            sequence
                .pop_if(|before: &mut LineRow| before.address == address && !row.end_sequence());
            sequence.push(LineRow {
                address,
                file,
                line,
                column,
            });
            if row.end_sequence() {
                sequences.push(std::mem::take(&mut sequence));
            }
        }
        let start = |sequence: &Vec<LineRow>| sequence.first().map_or(0, |row| row.address);
        // Code that the linker left out starts at 0.
        sequences.retain(|sequence| start(sequence) > 0);
        sequences.sort_by_key(start);
        lines.rows = sequences.concat();
        // Sound sequences do not overlap: then they are in order already.
        lines.rows.sort_by_key(|row| row.address);
        Ok(lines)
    }

    fn read_files(
        &mut self,
        dwarf: &Dwarf<Bytes<'_>>,
        unit: &Unit<Bytes<'_>>,
        header: &LineProgramHeader<Bytes<'_>>,
        budget: &mut Budget,
    ) -> Result<(), DebugError> {
        // Until version 4 files count from 1, and 0 is the unit's own.
        let count = header.file_names().len() as u64 + u64::from(header.version() < 5);
        for at in 0..count {
            let path = header.file(at).and_then(|file| {
                let mut path = PathText::default();
                path.append(unit.comp_dir);
                if file.directory_index() > 0 || header.version() < 5 {
                    let folder = file.directory(header);
                    path.append(folder.and_then(|folder| dwarf.attr_string(unit, folder).ok()));
                }
                path.append(dwarf.attr_string(unit, file.path_name()).ok());
                path.finish()
            });
            let len = path.as_ref().map_or(0, |path| path.len());
            budget.pay(16 + len)?;
            self.files_bytes += 16 + len;
            self.files.push(path);
        }
        Ok(())
    }

    /// The row that holds at an address.
    pub(super) fn at(&self, address: u64) -> Option<&LineRow> {
        let behind = self.rows.partition_point(|row| row.address <= address);
        let row = self.rows.get(behind.checked_sub(1)?)?;
        (row.file != NO_FILE).then_some(row)
    }

    /// The rows that hold within a range.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<LineRow> {
        let first = self.rows.partition_point(|row| row.address <= start);
        let last = self.rows.partition_point(|row| row.address < end);
        let rows = self.rows.get(first.saturating_sub(1)..last);
        rows.unwrap_or_default().to_vec()
    }

    /// Path of a file.
    pub(super) fn file(&self, number: u32) -> Option<Arc<str>> {
        self.files.get(number as usize)?.clone()
    }

    /// Memory taken, about.
    pub(super) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<LineRow>() + self.files_bytes
    }
}

/// A path put together of folders, each of which may be absolute.
#[derive(Default)]
struct PathText(String);

impl PathText {
    fn append(&mut self, part: Option<Bytes<'_>>) {
        let Some(part) = part
            .map(|part| part.slice())
            .filter(|part| !part.is_empty())
        else {
            return;
        };
        let part = String::from_utf8_lossy(part.get(..PATH_MAX).unwrap_or(part));
        if part.starts_with('/') {
            self.0.clear();
        } else if !self.0.is_empty() && !self.0.ends_with('/') {
            self.0.push('/');
        }
        self.0.push_str(&part);
    }

    fn finish(self) -> Option<Arc<str>> {
        (!self.0.is_empty()).then(|| self.0.into())
    }
}

/// Walks over the header of a line program and pays for it. The tables of version 5 say how many entries they have and what
/// an entry is made of: entries of nothing could be announced in any number.
fn pay_for_header(
    dwarf: &Dwarf<Bytes<'_>>,
    at: DebugLineOffset<usize>,
    budget: &mut Budget,
) -> Result<(), DebugError> {
    let mut rest = *dwarf.debug_line.reader();
    rest.skip(at.0)?;
    let (length, format) = rest.read_initial_length()?;
    rest.truncate(length)?;
    let version = rest.read_u16()?;
    if version >= 5 {
        rest.skip(2)?; // sizes of addresses and of segment selectors
    }
    let header = rest.read_length(format)?;
    rest.truncate(header)?;
    budget.pay(64 + rest.len())?;
    if version < 5 {
        // Each entry of the tables takes at least a byte.
        return budget.pay(16 * rest.len());
    }
    rest.skip(5)?;
    let opcodes = rest.read_u8()?;
    rest.skip(usize::from(opcodes.saturating_sub(1)))?;
    for _ in ["folders", "files"] {
        let parts = usize::from(rest.read_u8()?);
        let mut forms = Vec::with_capacity(parts);
        for _ in 0..parts {
            rest.read_uleb128()?;
            forms.push(rest.read_uleb128()?);
        }
        let count = rest.read_uleb128()?;
        if forms.is_empty() && count > 0 {
            return Err(malformed(
                "a table of files whose entries are made of nothing",
            ));
        }
        for _ in 0..count {
            budget.pay(64)?;
            for form in &forms {
                let form = u16::try_from(*form).map_or(dw::DwForm(0), dw::DwForm);
                skip_form(&mut rest, form, format.word_size())?;
            }
        }
    }
    Ok(())
}

/// Passes over a value of a form that takes at least a byte.
fn skip_form(rest: &mut Bytes<'_>, form: dw::DwForm, word_size: u8) -> Result<(), DebugError> {
    match form {
        dw::DW_FORM_string => {
            rest.read_null_terminated_slice()?;
        }
        dw::DW_FORM_line_strp
        | dw::DW_FORM_strp
        | dw::DW_FORM_strp_sup
        | dw::DW_FORM_sec_offset => {
            rest.skip(word_size.into())?;
        }
        dw::DW_FORM_udata | dw::DW_FORM_strx => {
            rest.read_uleb128()?;
        }
        dw::DW_FORM_data1 | dw::DW_FORM_strx1 => rest.skip(1)?,
        dw::DW_FORM_data2 | dw::DW_FORM_strx2 => rest.skip(2)?,
        dw::DW_FORM_data4 | dw::DW_FORM_strx4 => rest.skip(4)?,
        dw::DW_FORM_data8 => rest.skip(8)?,
        dw::DW_FORM_data16 => rest.skip(16)?,
        dw::DW_FORM_block => {
            let len = rest.read_uleb128().map(usize::try_from)?;
            rest.skip(len.map_err(|_| malformed("a block longer than memory"))?)?;
        }
        _ => {
            return Err(malformed(
                "a table of files with entries of an unknown form",
            ));
        }
    }
    Ok(())
}

/// The source of an attribute that names a file by number.
pub(super) fn number_of(value: &AttributeValue<Bytes<'_>>) -> u32 {
    let number = match value {
        AttributeValue::FileIndex(number) => Some(*number),
        other => other.udata_value(),
    };
    number
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or(0)
}

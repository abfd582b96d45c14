//! Blocks that came from somewhere else: what they are made of, and constants added to them.

use super::NativeError;
use super::column::{DICTIONARY_VERSION, OWN_KEYS, put_string, put_varint};

/// A column of a block, in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type as ClickHouse writes it.
    pub kind: &'a str,
    /// Its data.
    pub data: &'a [u8],
}

/// A block, in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockView<'a> {
    /// Rows of every column.
    pub rows: usize,
    /// The columns in their order.
    pub columns: Vec<ColumnView<'a>>,
}

impl<'a> BlockView<'a> {
    /// The columns' names, for an INSERT's list.
    pub fn names(&self) -> Vec<&'a str> {
        self.columns.iter().map(|column| column.name).collect()
    }
}

/// Columns a block may have.
const MAX_COLUMNS: u64 = 1000;

pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], NativeError> {
        let (head, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or(NativeError::Truncated(what))?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn varint(&mut self, what: &'static str) -> Result<u64, NativeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1, what)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(NativeError::Truncated(what))
    }

    fn length(&mut self, what: &'static str) -> Result<usize, NativeError> {
        usize::try_from(self.varint(what)?).map_err(|_| NativeError::Truncated(what))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, NativeError> {
        let len = self.length("a column's name or type")?;
        std::str::from_utf8(self.take(len, "a column's name or type")?)
            .map_err(|_| NativeError::NotText)
    }

    pub(super) fn word(&mut self, what: &'static str) -> Result<u64, NativeError> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().map_err(|_| NativeError::Truncated(what))?,
        ))
    }

    fn length_word(&mut self, what: &'static str) -> Result<usize, NativeError> {
        usize::try_from(self.word(what)?).map_err(|_| NativeError::Truncated(what))
    }

    pub(super) fn strings(&mut self, count: u64) -> Result<(), NativeError> {
        for _ in 0..count {
            let len = self.length("a string")?;
            self.take(len, "a string")?;
        }
        Ok(())
    }

    pub(super) fn fixed(&mut self, count: u64, width: u64) -> Result<(), NativeError> {
        let bytes = count
            .checked_mul(width)
            .and_then(|bytes| usize::try_from(bytes).ok());
        self.take(bytes.ok_or(NativeError::Truncated("a column"))?, "a column")
            .map(drop)
    }

    /// Moves over the data of a column of `kind`.
    fn data(&mut self, name: &str, kind: &str, rows: u64) -> Result<(), NativeError> {
        if rows == 0 {
            return Ok(());
        }
        let damaged = |why| NativeError::Damaged {
            name: name.to_owned(),
            why,
        };
        if kind == "String" {
            return self.strings(rows);
        }
        if kind == "LowCardinality(String)" {
            if self.word("a dictionary")? != DICTIONARY_VERSION {
                return Err(damaged("the dictionary has another version"));
            }
            let flags = self.word("a dictionary")?;
            if flags & OWN_KEYS == 0 || flags & 0xff > 3 {
                return Err(damaged("the dictionary is of another kind"));
            }
            let keys = self.word("a dictionary")?;
            self.strings(keys)?;
            if self.word("a dictionary")? != rows {
                return Err(damaged("the dictionary has another number of rows"));
            }
            return self.fixed(rows, 1 << (flags & 0xff));
        }
        if let Some(inner) = kind
            .strip_prefix("Array(")
            .and_then(|rest| rest.strip_suffix(')'))
        {
            let mut end = 0;
            for _ in 0..rows {
                let next = self.word("an array's ends")?;
                if next < end {
                    return Err(damaged("an array ends before it begins"));
                }
                end = next;
            }
            if inner.starts_with("Array(") || inner.starts_with("LowCardinality(") {
                return Err(NativeError::UnknownType {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                });
            }
            return self.data(name, inner, end);
        }
        let width = match kind.split('(').next().unwrap_or_default() {
            "UInt8" | "Int8" | "Enum8" => 1,
            "UInt16" | "Int16" | "Date" | "Enum16" => 2,
            "UInt32" | "Int32" | "Float32" | "DateTime" => 4,
            "UInt64" | "Int64" | "Float64" | "DateTime64" => 8,
            _ => {
                return Err(NativeError::UnknownType {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                });
            }
        };
        self.fixed(rows, width)
    }
}

/// Finds the columns of one block, which must be all of `block`.
pub fn walk(block: &[u8]) -> Result<BlockView<'_>, NativeError> {
    let mut cursor = Cursor { rest: block };
    let columns = cursor.varint("the block's head")?;
    let rows = cursor.varint("the block's head")?;
    if columns > MAX_COLUMNS {
        return Err(NativeError::Truncated("the block's head"));
    }
    let mut views = Vec::new();
    for _ in 0..columns {
        let (name, kind) = (cursor.text()?, cursor.text()?);
        let before = cursor.rest;
        cursor.data(name, kind, rows)?;
        let data = before
            .get(..before.len() - cursor.rest.len())
            .unwrap_or_default();
        views.push(ColumnView { name, kind, data });
    }
    if !cursor.rest.is_empty() {
        return Err(NativeError::Trailing(cursor.rest.len()));
    }
    let rows = usize::try_from(rows).map_err(|_| NativeError::Truncated("the block's head"))?;
    Ok(BlockView {
        rows,
        columns: views,
    })
}

/// The values of a column of names (`LowCardinality(String)`) of a block from [`walk`], row by row.
pub fn names(data: &[u8]) -> Result<Vec<&str>, NativeError> {
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let mut cursor = Cursor { rest: data };
    cursor.word("a dictionary")?;
    let flags = cursor.word("a dictionary")?;
    let keys = cursor.length_word("a dictionary")?;
    let mut known = Vec::new();
    for _ in 0..keys {
        known.push(cursor.text()?);
    }
    let rows = cursor.length_word("a dictionary")?;
    let width = 1_usize << (flags & 3);
    let mut named = Vec::new();
    for _ in 0..rows {
        let mut index = [0; 8];
        for (to, from) in index.iter_mut().zip(cursor.take(width, "a column")?) {
            *to = *from;
        }
        let key = usize::try_from(u64::from_le_bytes(index)).ok();
        let name = key.and_then(|key| known.get(key));
        named.push(*name.ok_or(NativeError::Truncated("a dictionary"))?);
    }
    Ok(named)
}

/// A column whose rows all hold the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// `UInt16`.
    U16(&'static str, u16),
    /// `DateTime('UTC')`, in seconds since 1970 UTC.
    Seconds(&'static str, u32),
}

/// Gives every row of `block` further columns. Only the block's head is read: it must have come from [`walk`] or
/// [`write_block`](super::write_block) whole.
pub fn append_constants(block: &[u8], constants: &[Constant]) -> Result<Vec<u8>, NativeError> {
    let mut cursor = Cursor { rest: block };
    let columns = cursor.varint("the block's head")?;
    let rows = cursor.length("the block's head")?;
    let width: usize = constants
        .iter()
        .map(|constant| {
            if matches!(constant, Constant::U16(..)) {
                2
            } else {
                4
            }
        })
        .sum();
    // A block holds at least one byte a row, so a forged row count cannot reach the allocation.
    if rows > block.len() {
        return Err(NativeError::Truncated("the block's head"));
    }
    let mut out = Vec::with_capacity(block.len() + rows * width + constants.len() * 64);
    put_varint(columns + constants.len() as u64, &mut out);
    put_varint(rows as u64, &mut out);
    out.extend_from_slice(cursor.rest);
    for constant in constants {
        let (name, kind) = match constant {
            Constant::U16(name, _) => (name, "UInt16"),
            Constant::Seconds(name, _) => (name, "DateTime('UTC')"),
        };
        put_string(name, &mut out);
        put_string(kind, &mut out);
        for _ in 0..rows {
            match constant {
                Constant::U16(_, value) => out.extend_from_slice(&value.to_le_bytes()),
                Constant::Seconds(_, value) => out.extend_from_slice(&value.to_le_bytes()),
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{ArrayOfStrings, ArrayOfU64, Column, Named, Strings, write_block};

    fn block(rows: usize) -> Vec<u8> {
        let (mut names, mut texts) = (Named::default(), Strings::default());
        let (mut frames, mut tags) = (ArrayOfU64::default(), ArrayOfStrings::default());
        let mut numbers: Vec<u32> = Vec::new();
        for i in 0..rows {
            names.push(["a", "b", ""][i % 3]);
            texts.push(&"x".repeat(i % 200));
            frames.push(&[7, 8, 9][..i % 4]);
            tags.push(&["p", "qq"][..i % 3]);
            Column::push(&mut numbers, u32::try_from(i).unwrap());
        }
        write_block(5, rows, 0, |out| {
            names.write("name", out);
            texts.write("text", out);
            frames.write("frames", out);
            tags.write("tags", out);
            Column::write(&numbers, "number", out);
        })
    }

    #[test]
    fn a_block_is_found_whole() {
        for rows in [0, 1, 5, 300] {
            let block = block(rows);
            let view = walk(&block).unwrap();
            assert_eq!(view.rows, rows);
            assert_eq!(view.names(), ["name", "text", "frames", "tags", "number"]);
            assert_eq!(view.columns[4].data.len(), rows * 4);
        }
    }

    #[test]
    fn names_are_read_back_row_by_row() {
        let many: Vec<String> = (0..300).map(|i| format!("name {i}")).collect();
        for rows in [0, 1, 7, 300] {
            let mut column = Named::default();
            let expected: Vec<&str> = (0..rows).map(|i| many[i * 7 % 300].as_str()).collect();
            for name in &expected {
                column.push(name);
            }
            let block = write_block(1, rows, 0, |out| column.write("name", out));
            let view = walk(&block).unwrap();
            assert_eq!(names(view.columns[0].data).unwrap(), expected);
        }
        assert!(names(&[0; 5]).is_err());
    }

    #[test]
    fn a_block_cut_anywhere_is_an_error() {
        let block = block(5);
        for cut in 0..block.len() {
            assert!(walk(&block[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(
            walk(&[&block[..], &[0; 3]].concat()),
            Err(NativeError::Trailing(3))
        );
    }

    #[test]
    fn constants_come_behind_the_columns_that_were_there() {
        let plain = block(5);
        let more = append_constants(
            &plain,
            &[
                Constant::U16("part", 0x0102),
                Constant::Seconds("ingested", 7),
            ],
        )
        .unwrap();
        let (before, after) = (walk(&plain).unwrap(), walk(&more).unwrap());
        assert_eq!(after.columns[..5], before.columns[..]);
        assert_eq!(
            (after.columns[5].name, after.columns[5].data),
            ("part", &[2, 1].repeat(5)[..])
        );
        assert_eq!(
            (after.columns[6].kind, after.columns[6].data),
            ("DateTime('UTC')", &[7, 0, 0, 0].repeat(5)[..])
        );
    }

    #[test]
    fn a_forged_row_count_allocates_nothing() {
        let mut forged = vec![1];
        put_varint(u64::MAX >> 1, &mut forged);
        forged.extend_from_slice(b"\x01a\x05UInt8");
        assert!(walk(&forged).is_err());
        assert!(append_constants(&forged, &[Constant::U16("part", 1)]).is_err());
    }
}

//! Native blocks as a server writes them for clients of a revision (`client_protocol_version`): what is written without one
//! lacks, in front of each block, what it is about, and behind each type, whether its data has a form of its own.
//!
//! ```text
//! from 51903   01, is_overflows u8, 02, bucket i32, 00    in front of each block
//! from 54454   has_custom_serialization u8                behind each column's type
//! ```

use super::NativeError;
use super::column::{put_string, put_varint};
use super::walk::Cursor;

/// First revision whose blocks say what they are about.
const WITH_INFO: u64 = 51_903;
/// First revision whose columns say whether they have a form of their own.
const WITH_FORM: u64 = 54_454;
/// No overflow row, no bucket.
const INFO: [u8; 8] = [1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0];
/// Columns a block may have.
const COLUMNS_MAX: u64 = 10_000;
/// Deepest nesting of a type.
const DEPTH_MAX: usize = 50;

/// Blocks put one behind the other, as a client of this revision reads them.
pub fn revised(blocks: &[u8], revision: u64) -> Result<Vec<u8>, NativeError> {
    let mut cursor = Cursor { rest: blocks };
    let mut out = Vec::with_capacity(blocks.len() + 64);
    while !cursor.rest.is_empty() {
        let columns = cursor.varint("the block's head")?;
        let rows = cursor.varint("the block's head")?;
        if columns > COLUMNS_MAX {
            return Err(NativeError::Truncated("the block's head"));
        }
        if revision >= WITH_INFO {
            out.extend_from_slice(&INFO);
        }
        put_varint(columns, &mut out);
        put_varint(rows, &mut out);
        for _ in 0..columns {
            let (name, kind) = (cursor.text()?, cursor.text()?);
            put_string(name, &mut out);
            put_string(kind, &mut out);
            if revision >= WITH_FORM {
                out.push(0);
            }
            let before = cursor.rest;
            if rows > 0 {
                let unknown = || NativeError::UnknownType {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                };
                let of = Kind::parse(kind, DEPTH_MAX).ok_or_else(unknown)?;
                of.prefix(&mut cursor)?;
                of.data(&mut cursor, rows)?;
            }
            let data = before.len() - cursor.rest.len();
            out.extend_from_slice(before.get(..data).unwrap_or_default());
        }
    }
    Ok(out)
}

/// A type, as far as its data's length depends on it.
#[derive(Debug, PartialEq)]
enum Kind {
    Fixed(u64),
    Text,
    Nullable(Box<Kind>),
    LowCardinality(Box<Kind>),
    Array(Box<Kind>),
    Tuple(Vec<Kind>),
}

impl Kind {
    /// `None`: not known here.
    fn parse(kind: &str, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let (name, inner) = match kind.split_once('(') {
            Some((name, inner)) => (name, inner.strip_suffix(')')?),
            None => (kind, ""),
        };
        let boxed = || Self::parse(inner, depth).map(Box::new);
        Some(match name {
            "Nullable" => Self::Nullable(boxed()?),
            "LowCardinality" => {
                let inner = inner
                    .strip_prefix("Nullable(")
                    .and_then(|rest| rest.strip_suffix(')'))
                    .unwrap_or(inner);
                Self::LowCardinality(Box::new(Self::parse(inner, depth)?))
            }
            "Array" => Self::Array(boxed()?),
            "Map" | "Tuple" => {
                let parts: Option<Vec<Self>> = split(inner)
                    .into_iter()
                    .map(|part| Self::parse(unnamed(part), depth))
                    .collect();
                let tuple = Self::Tuple(parts?);
                if name == "Map" {
                    Self::Array(Box::new(tuple))
                } else {
                    tuple
                }
            }
            "SimpleAggregateFunction" => Self::parse(split(inner).get(1)?, depth)?,
            "String" => Self::Text,
            "FixedString" => Self::Fixed(inner.parse().ok()?),
            "UInt8" | "Int8" | "Bool" | "Enum8" | "Nothing" => Self::Fixed(1),
            "UInt16" | "Int16" | "Date" | "Enum16" | "BFloat16" => Self::Fixed(2),
            "UInt32" | "Int32" | "Float32" | "DateTime" | "Date32" | "IPv4" | "Decimal32"
            | "Time" => Self::Fixed(4),
            "UInt64" | "Int64" | "Float64" | "DateTime64" | "Decimal64" | "Time64" => {
                Self::Fixed(8)
            }
            _ if name.starts_with("Interval") => Self::Fixed(8),
            "UInt128" | "Int128" | "UUID" | "IPv6" | "Decimal128" => Self::Fixed(16),
            "UInt256" | "Int256" | "Decimal256" => Self::Fixed(32),
            "Decimal" => Self::Fixed(match split(inner).first()?.parse().ok()? {
                0..=9 => 4,
                10..=18 => 8,
                19..=38 => 16,
                39..=76_u32 => 32,
                _ => return None,
            }),
            _ => return None,
        })
    }

    /// Moves over what stands in front of all data of a column.
    fn prefix(&self, cursor: &mut Cursor<'_>) -> Result<(), NativeError> {
        match self {
            Self::Fixed(_) | Self::Text => Ok(()),
            Self::LowCardinality(_) => cursor.word("a dictionary").map(drop),
            Self::Nullable(inner) | Self::Array(inner) => inner.prefix(cursor),
            Self::Tuple(parts) => parts.iter().try_for_each(|part| part.prefix(cursor)),
        }
    }

    /// Moves over the data of so many rows.
    fn data(&self, cursor: &mut Cursor<'_>, rows: u64) -> Result<(), NativeError> {
        match self {
            Self::Fixed(width) => cursor.fixed(rows, *width),
            Self::Text => cursor.strings(rows),
            Self::Nullable(inner) => {
                cursor.fixed(rows, 1)?;
                inner.data(cursor, rows)
            }
            Self::Array(inner) => {
                let mut end = 0;
                for _ in 0..rows {
                    end = cursor.word("an array's ends")?;
                }
                inner.data(cursor, end)
            }
            Self::Tuple(parts) => parts.iter().try_for_each(|part| part.data(cursor, rows)),
            Self::LowCardinality(_) if rows == 0 => Ok(()),
            Self::LowCardinality(inner) => {
                let flags = cursor.word("a dictionary")?;
                let keys = cursor.word("a dictionary")?;
                inner.data(cursor, keys)?;
                let rows = cursor.word("a dictionary")?;
                cursor.fixed(rows, 1 << (flags & 3))
            }
        }
    }
}

/// What commas separate, outside of parentheses and quotes.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped) = (0_u32, None, false);
    let parts = list.split(move |sign| {
        match (quoted, sign) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(quote), sign) if sign == quote => quoted = None,
            (None, '\'' | '`') => quoted = Some(sign),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') => return depth == 0,
            _ => {}
        }
        false
    });
    parts.map(str::trim).collect()
}

/// A part of a tuple without its name.
fn unnamed(part: &str) -> &str {
    let name_end = match part.strip_prefix('`') {
        Some(rest) => rest.find("` ").map(|end| end + 2),
        None => part.find(' ').filter(|end| !part[..*end].contains('(')),
    };
    name_end.map_or(part, |end| part[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_revision_gets_what_it_reads() {
        // One column `check` of one UInt8.
        let block = b"\x01\x01\x05check\x05UInt8\x01";
        assert_eq!(revised(block, 0).unwrap(), block);
        let mut with_info = INFO.to_vec();
        with_info.extend_from_slice(block);
        assert_eq!(revised(block, 54_405).unwrap(), with_info);
        let mut with_form = INFO.to_vec();
        with_form.extend_from_slice(b"\x01\x01\x05check\x05UInt8\x00\x01");
        assert_eq!(revised(block, 54_483).unwrap(), with_form);
        let two = [&block[..], &block[..]].concat();
        assert_eq!(
            revised(&two, 54_483).unwrap(),
            [with_form.clone(), with_form].concat()
        );
    }

    #[test]
    fn types_are_taken_apart() {
        use Kind::{Array, Fixed, LowCardinality, Nullable, Text, Tuple};
        let of = |kind| Kind::parse(kind, DEPTH_MAX);
        for (kind, expected) in [
            ("Enum8('a,b' = 1, 'c\\'(' = 2)", Fixed(1)),
            ("DateTime64(9, 'UTC')", Fixed(8)),
            ("Decimal(38, 2)", Fixed(16)),
            ("FixedString(7)", Fixed(7)),
            ("Nullable(String)", Nullable(Box::new(Text))),
            (
                "LowCardinality(Nullable(String))",
                LowCardinality(Box::new(Text)),
            ),
            (
                "Tuple(a String, `b c` Array(UInt8))",
                Tuple(vec![Text, Array(Box::new(Fixed(1)))]),
            ),
            (
                "Tuple(Decimal(9, 2), IPv6)",
                Tuple(vec![Fixed(4), Fixed(16)]),
            ),
            (
                "Map(LowCardinality(String), UInt64)",
                Array(Box::new(Tuple(vec![
                    LowCardinality(Box::new(Text)),
                    Fixed(8),
                ]))),
            ),
            ("SimpleAggregateFunction(max, UInt64)", Fixed(8)),
            ("IntervalSecond", Fixed(8)),
        ] {
            assert_eq!(of(kind), Some(expected), "{kind}");
        }
        for kind in [
            "AggregateFunction(uniq, UInt64)",
            "Dynamic",
            "Array(",
            "Decimal(99, 1)",
        ] {
            assert_eq!(of(kind), None, "{kind}");
        }
        let deep = format!("{}UInt8{}", "Array(".repeat(99), ")".repeat(99));
        assert_eq!(of(&deep), None);
    }

    #[test]
    fn no_cut_is_taken_for_a_block() {
        let mut block = b"\x01\x02\x01t\x16LowCardinality(String)".to_vec();
        for word in [1_u64, 0x600, 2] {
            block.extend_from_slice(&word.to_le_bytes());
        }
        block.extend_from_slice(b"\x00\x01a");
        block.extend_from_slice(&2_u64.to_le_bytes());
        block.extend_from_slice(&[0, 1]);
        assert_eq!(revised(&block, 54_483).unwrap().len(), block.len() + 9);
        for cut in 1..block.len() {
            assert!(revised(&block[..cut], 54_483).is_err(), "cut at {cut}");
        }
    }
}

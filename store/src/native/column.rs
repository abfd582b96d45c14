//! Columns under construction.

use std::collections::HashMap;
use std::marker::PhantomData;

use rustc_hash::FxBuildHasher;

/// Writes a number as ClickHouse's variable-length integer.
pub(super) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

/// Writes a string with its length.
pub(super) fn put_string(text: &str, out: &mut Vec<u8>) {
    put_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// A column, or several that belong together, to which values are added row by row.
pub trait Column: Default + std::fmt::Debug {
    /// What a row holds.
    type Value<'a>;

    /// How many columns of the block it is.
    const COLUMNS: usize = 1;

    /// Adds a row's value.
    fn push(&mut self, value: Self::Value<'_>);

    /// Names of the columns, given the field's name.
    fn names(field: &'static str, names: &mut Vec<&'static str>) {
        names.push(field);
    }

    /// Writes name, type and data of every column.
    fn write(&self, field: &'static str, out: &mut Vec<u8>);

    /// About how many bytes the data takes.
    fn bytes(&self) -> usize;
}

fn put_head(name: &str, kind: &str, out: &mut Vec<u8>) {
    put_string(name, out);
    put_string(kind, out);
}

/// Numbers as they are.
macro_rules! numbers {
    ($($number:ty = $kind:literal;)+) => {$(
        impl Column for Vec<$number> {
            type Value<'a> = $number;

            fn push(&mut self, value: $number) {
                Vec::push(self, value);
            }

            fn write(&self, field: &'static str, out: &mut Vec<u8>) {
                put_head(field, $kind, out);
                out.reserve(self.len() * size_of::<$number>());
                for value in self {
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }

            fn bytes(&self) -> usize {
                self.len() * size_of::<$number>()
            }
        }
    )+};
}

numbers! {
    u8 = "UInt8";
    u16 = "UInt16";
    u32 = "UInt32";
    u64 = "UInt64";
    f64 = "Float64";
}

/// Moments in nanoseconds since 1970 UTC: `DateTime64(9, 'UTC')`.
#[derive(Debug, Default)]
pub struct TimeNs(Vec<i64>);

impl Column for TimeNs {
    type Value<'a> = i64;

    fn push(&mut self, value: i64) {
        self.0.push(value);
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, "DateTime64(9, 'UTC')", out);
        for value in &self.0 {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<i64>()
    }
}

/// Moments in seconds since 1970 UTC: `DateTime('UTC')`.
#[derive(Debug, Default)]
pub struct Seconds(Vec<u32>);

impl Column for Seconds {
    type Value<'a> = u32;

    fn push(&mut self, value: u32) {
        self.0.push(value);
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, "DateTime('UTC')", out);
        for value in &self.0 {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }
}

/// Text of any length.
#[derive(Debug, Default)]
pub struct Strings(Vec<u8>);

impl Column for Strings {
    type Value<'a> = &'a str;

    fn push(&mut self, value: &str) {
        put_string(value, &mut self.0);
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, "String", out);
        out.extend_from_slice(&self.0);
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Names of which there are few: `LowCardinality(String)`.
#[derive(Debug, Default)]
pub struct Named {
    known: HashMap<Box<str>, u32, FxBuildHasher>,
    keys: Vec<u8>,
    indexes: Vec<u32>,
}

/// Marks that a dictionary's keys stand in the block itself.
pub(super) const OWN_KEYS: u64 = 1 << 9;
/// The one version of the dictionary's serialization.
pub(super) const DICTIONARY_VERSION: u64 = 1;

impl Column for Named {
    type Value<'a> = &'a str;

    fn push(&mut self, value: &str) {
        let index = self.known.get(value).copied().unwrap_or_else(|| {
            let index = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
            self.known.insert(value.into(), index);
            put_string(value, &mut self.keys);
            index
        });
        self.indexes.push(index);
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, "LowCardinality(String)", out);
        if self.indexes.is_empty() {
            return;
        }
        let keys = self.known.len() as u64;
        let width: u64 = if keys <= 1 << 8 {
            0
        } else if keys <= 1 << 16 {
            1
        } else {
            2
        };
        for word in [DICTIONARY_VERSION, width | OWN_KEYS, keys] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&(self.indexes.len() as u64).to_le_bytes());
        for index in &self.indexes {
            out.extend_from_slice(&index.to_le_bytes()[..1 << width]);
        }
    }

    fn bytes(&self) -> usize {
        self.keys.len() + self.indexes.len()
    }
}

/// `Array(UInt64)`.
#[derive(Debug, Default)]
pub struct ArrayOfU64 {
    ends: Vec<u64>,
    values: Vec<u64>,
}

impl Column for ArrayOfU64 {
    type Value<'a> = &'a [u64];

    fn push(&mut self, value: &[u64]) {
        self.values.extend_from_slice(value);
        self.ends.push(self.values.len() as u64);
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, "Array(UInt64)", out);
        for word in self.ends.iter().chain(&self.values) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn bytes(&self) -> usize {
        (self.ends.len() + self.values.len()) * size_of::<u64>()
    }
}

/// `Array(String)`.
#[derive(Debug, Default)]
pub struct ArrayOfStrings {
    ends: Vec<u64>,
    count: u64,
    values: Vec<u8>,
}

impl Column for ArrayOfStrings {
    type Value<'a> = &'a [&'a str];

    fn push(&mut self, value: &[&str]) {
        for text in value {
            put_string(text, &mut self.values);
        }
        self.count += value.len() as u64;
        self.ends.push(self.count);
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, "Array(String)", out);
        for end in &self.ends {
            out.extend_from_slice(&end.to_le_bytes());
        }
        out.extend_from_slice(&self.values);
    }

    fn bytes(&self) -> usize {
        self.ends.len() * size_of::<u64>() + self.values.len()
    }
}

/// An enum of the vocabulary: its codes are those of an `Enum8`.
pub trait NamedCodes: Copy + std::fmt::Debug {
    /// Code of the variant.
    fn stored_code(self) -> u8;
    /// Every code with its name, by code.
    fn stored_codes() -> Vec<(u8, &'static str)>;

    /// The column's type, `Enum8('a' = 0, …)`.
    fn stored_type() -> String {
        let codes: Vec<String> = Self::stored_codes()
            .into_iter()
            .map(|(code, name)| format!("'{name}' = {code}"))
            .collect();
        format!("Enum8({})", codes.join(", "))
    }
}

/// A column of codes.
#[derive(Debug)]
pub struct Code<T> {
    codes: Vec<u8>,
    kind: PhantomData<T>,
}

impl<T> Default for Code<T> {
    fn default() -> Self {
        Self {
            codes: Vec::new(),
            kind: PhantomData,
        }
    }
}

impl<T: NamedCodes> Column for Code<T> {
    type Value<'a> = T;

    fn push(&mut self, value: T) {
        self.codes.push(value.stored_code());
    }

    fn write(&self, field: &'static str, out: &mut Vec<u8>) {
        put_head(field, &T::stored_type(), out);
        out.extend_from_slice(&self.codes);
    }

    fn bytes(&self) -> usize {
        self.codes.len()
    }
}

/// Writes a block of `rows` rows; `columns` writes `count` columns.
pub fn write_block(
    count: usize,
    rows: usize,
    bytes: usize,
    columns: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    /// Names, types and dictionaries' heads, about.
    const HEAD_BYTES: usize = 128;
    let mut out = Vec::with_capacity(bytes + count * HEAD_BYTES);
    put_varint(count as u64, &mut out);
    put_varint(rows as u64, &mut out);
    columns(&mut out);
    out
}

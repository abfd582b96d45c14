//! One field of a tracepoint's raw data, read as its declaration says.

use crate::bytes::{Order, until_nul};
use crate::file::Field;

/// How a field's bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Signed,
    Unsigned,
    Pointer,
    /// Numbers of so many bytes each.
    Numbers {
        size: usize,
        signed: bool,
    },
    /// What no number is.
    Bytes,
}

/// Where a field's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the field.
    Here,
    /// Where the field says, from the start of the raw data (`__data_loc`).
    FromStart,
    /// Where the field says, from the field's end (`__rel_loc`).
    FromEnd,
}

/// Reads one field from the raw data of samples. Make one for each field and keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldReader {
    offset: usize,
    size: usize,
    place: Place,
    form: Form,
    order: Order,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FieldValue<'a> {
    /// A signed number.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// An address.
    Pointer(u64),
    /// A string, up to its NUL.
    Text(&'a [u8]),
    /// An array of numbers, also the words of a bitmask.
    Numbers(Numbers<'a>),
    /// Bytes of a structure or of an unknown type.
    Bytes(&'a [u8]),
}

/// An array of numbers of the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers<'a> {
    bytes: &'a [u8],
    size: usize,
    signed: bool,
    order: Order,
}

impl<'a> Numbers<'a> {
    /// Number of numbers.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.size.max(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers in order, as [`FieldValue::Signed`] or [`FieldValue::Unsigned`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = FieldValue<'static>> + use<'a> {
        let Self { signed, order, .. } = *self;
        let numbers = self.bytes.chunks_exact(self.size.max(1));
        numbers.map(move |bytes| {
            if signed {
                FieldValue::Signed(signed_number(bytes, order))
            } else {
                FieldValue::Unsigned(unsigned_number(bytes, order))
            }
        })
    }
}

impl FieldReader {
    /// Of a field.
    pub fn new(field: &Field) -> Self {
        Self {
            offset: field.offset,
            size: field.size,
            place: place(field),
            form: form(field),
            order: field.order,
        }
    }

    /// The value; `None` if it does not lie within the raw data.
    pub fn value<'a>(&self, raw: &'a [u8]) -> Option<FieldValue<'a>> {
        let bytes = self.bytes(raw)?;
        let order = self.order;
        Some(match self.form {
            Form::Text => FieldValue::Text(until_nul(bytes)),
            Form::Signed => FieldValue::Signed(signed_number(bytes, order)),
            Form::Unsigned => FieldValue::Unsigned(unsigned_number(bytes, order)),
            Form::Pointer => FieldValue::Pointer(unsigned_number(bytes, order)),
            Form::Numbers { size, signed } => FieldValue::Numbers(Numbers {
                bytes,
                size,
                signed,
                order,
            }),
            Form::Bytes => FieldValue::Bytes(bytes),
        })
    }

    /// A number, zero-extended whatever its declaration says.
    pub fn unsigned(&self, raw: &[u8]) -> Option<u64> {
        let bytes = self.own_bytes(raw).filter(|bytes| is_number(bytes))?;
        Some(unsigned_number(bytes, self.order))
    }

    /// A number, sign-extended whatever its declaration says.
    pub fn signed(&self, raw: &[u8]) -> Option<i64> {
        let bytes = self.own_bytes(raw).filter(|bytes| is_number(bytes))?;
        Some(signed_number(bytes, self.order))
    }

    /// A string: an array of characters or dynamic data, up to its NUL.
    pub fn text<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        self.bytes(raw).map(until_nul)
    }

    /// The field's bytes, or those it points to.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let base = match self.place {
            Place::Here => return self.own_bytes(raw),
            Place::FromStart => 0,
            Place::FromEnd => self.offset.checked_add(self.size)?,
        };
        // Length above, place below.
        let word = usize::try_from(self.unsigned(raw)?).ok()?;
        let from = base.checked_add(word & 0xffff)?;
        raw.get(from..from.checked_add((word >> 16) & 0xffff)?)
    }

    fn own_bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

fn is_number(bytes: &[u8]) -> bool {
    (1..=8).contains(&bytes.len())
}

fn place(field: &Field) -> Place {
    if field.ty.starts_with("__data_loc") {
        Place::FromStart
    } else if field.ty.starts_with("__rel_loc") {
        Place::FromEnd
    } else {
        Place::Here
    }
}

fn form(field: &Field) -> Form {
    let dynamic = place(field) != Place::Here;
    let declared = field.ty.trim_start_matches("__data_loc");
    let declared = declared.trim_start_matches("__rel_loc").trim();
    let (element, brackets) = declared
        .find('[')
        .map_or((declared, ""), |at| declared.split_at(at));
    let element = element.trim();
    if dynamic || !brackets.is_empty() {
        let is_text = matches!(element, "char" | "const char" | "unsigned char") && dynamic;
        if element == "char" || is_text {
            return Form::Text;
        }
        let count: Option<usize> = brackets.trim_matches(['[', ']']).parse().ok();
        let by_count = count
            .filter(|count| *count > 0 && !dynamic)
            .map(|count| field.size / count);
        let size = by_count.or_else(|| size_of(element, field.long_size));
        return match size {
            Some(size @ (1 | 2 | 4 | 8)) => Form::Numbers {
                size,
                signed: is_signed(element, field.signed && !dynamic),
            },
            _ => Form::Bytes,
        };
    }
    match (field.size, field.signed) {
        (4 | 8, _) if element.ends_with('*') => Form::Pointer,
        (1 | 2 | 4 | 8, true) => Form::Signed,
        (1 | 2 | 4 | 8, false) => Form::Unsigned,
        _ => Form::Bytes,
    }
}

/// Bytes of a C type by its name.
fn size_of(element: &str, long_size: usize) -> Option<usize> {
    let base = element
        .trim_start_matches("unsigned ")
        .trim_start_matches("signed ");
    Some(match base.trim_start_matches("__") {
        "char" | "u8" | "s8" | "bool" | "uint8_t" | "int8_t" => 1,
        "short" | "short int" | "u16" | "s16" | "uint16_t" | "int16_t" => 2,
        "int" | "u32" | "s32" | "uint32_t" | "int32_t" | "unsigned" | "pid_t" => 4,
        "long long" | "u64" | "s64" | "uint64_t" | "int64_t" => 8,
        // A bitmask is an array of them.
        "long" | "long int" | "size_t" | "cpumask_t" => long_size,
        _ => return None,
    })
}

fn is_signed(element: &str, declared: bool) -> bool {
    declared
        || matches!(
            element.trim_start_matches("__"),
            "s8" | "s16" | "s32" | "s64" | "int" | "short" | "long"
        )
}

/// At most 8 bytes as a number, zero-extended.
fn unsigned_number(bytes: &[u8], order: Order) -> u64 {
    let push = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
    match order {
        Order::Little => bytes.iter().rev().fold(0, push),
        Order::Big => bytes.iter().fold(0, push),
    }
}

/// At most 8 bytes as a number, sign-extended.
fn signed_number(bytes: &[u8], order: Order) -> i64 {
    let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8).clamp(1, 8);
    (unsigned_number(bytes, order) << unused).cast_signed() >> unused
}

//! The fields a tracepoint has of its own, read from the raw data of its samples.

use super::Line;
use memwide_perf_abi::file::{Field, TracingData};
use memwide_perf_abi::{Attr, attr_kind};

/// Fields that every tracepoint has, which samples say elsewhere.
const COMMON: &str = "common_";

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
    /// What no number is: as hexadecimal digits.
    Bytes,
}

/// One field, ready to be written.
#[derive(Debug)]
struct Planned {
    field: Field,
    form: Form,
}

/// The fields of one tracepoint.
#[derive(Debug)]
pub(super) struct Fields {
    planned: Vec<Planned>,
}

impl Fields {
    /// The fields of an event, if it is a tracepoint that the file describes.
    pub(super) fn of(attr: &Attr, tracing: &TracingData) -> Option<Self> {
        let is_tracepoint = attr.kind == attr_kind::TRACEPOINT;
        let tracepoint = tracing.tracepoint(attr.config).filter(|_| is_tracepoint)?;
        let own = tracepoint
            .fields
            .iter()
            .filter(|field| !field.name.starts_with(COMMON));
        let planned = own.map(|field| Planned {
            form: form(field),
            field: field.clone(),
        });
        Some(Self {
            planned: planned.collect(),
        })
    }

    /// A JSON object of all fields that lie within the raw data.
    pub(super) fn write_json(&self, line: &mut Line, raw: &[u8]) {
        line.raw("{");
        let mut separator = "";
        for planned in &self.planned {
            let Some(bytes) = data(&planned.field, raw) else {
                continue;
            };
            line.raw(separator);
            separator = ",";
            line.json(&planned.field.name);
            line.raw(":");
            planned.write(line, raw, bytes, true);
        }
        line.raw("}");
    }

    /// `name=value`, separated by blanks.
    pub(super) fn write_text(&self, line: &mut Line, raw: &[u8]) {
        for planned in &self.planned {
            if let Some(bytes) = data(&planned.field, raw) {
                line.raw(" ");
                line.shown(&planned.field.name);
                line.raw("=");
                planned.write(line, raw, bytes, false);
            }
        }
    }
}

impl Planned {
    fn write(&self, line: &mut Line, raw: &[u8], bytes: &[u8], json: bool) {
        let quote = |line: &mut Line| {
            if json {
                line.raw("\"");
            }
        };
        match self.form {
            Form::Text => {
                let text = String::from_utf8_lossy(self.field.text(raw).unwrap_or_default());
                if json {
                    line.json(&text);
                } else {
                    line.shown(&text);
                }
            }
            Form::Signed => line.signed(signed(bytes)),
            Form::Unsigned => line.decimal(unsigned(bytes)),
            Form::Pointer => {
                quote(line);
                line.hex(unsigned(bytes));
                quote(line);
            }
            Form::Numbers {
                size,
                signed: is_signed,
            } => {
                line.raw("[");
                for (at, one) in bytes.chunks_exact(size).enumerate() {
                    line.raw(if at == 0 { "" } else { "," });
                    if is_signed {
                        line.signed(signed(one));
                    } else {
                        line.decimal(unsigned(one));
                    }
                }
                line.raw("]");
            }
            Form::Bytes => {
                quote(line);
                line.hex_bytes(bytes);
                quote(line);
            }
        }
    }
}

fn form(field: &Field) -> Form {
    let dynamic = is_dynamic(field);
    let declared = field
        .ty
        .trim_start_matches("__data_loc")
        .trim_start_matches("__rel_loc")
        .trim();
    let (element, brackets) = declared
        .find('[')
        .map_or((declared, ""), |at| declared.split_at(at));
    let element = element.trim();
    if dynamic || !brackets.is_empty() {
        if element == "char" {
            return Form::Text;
        }
        let count: Option<usize> = brackets.trim_matches(['[', ']']).parse().ok();
        let by_count = count
            .filter(|count| *count > 0 && !dynamic)
            .map(|count| field.size / count);
        let size = by_count.or_else(|| size_of(element));
        return match size {
            Some(size @ (1 | 2 | 4 | 8)) => Form::Numbers {
                size,
                signed: is_signed(element, field.signed && !dynamic),
            },
            _ => Form::Bytes,
        };
    }
    match (field.size, field.signed) {
        (8, _) if element.ends_with('*') => Form::Pointer,
        (1 | 2 | 4 | 8, true) => Form::Signed,
        (1 | 2 | 4 | 8, false) => Form::Unsigned,
        _ => Form::Bytes,
    }
}

fn is_dynamic(field: &Field) -> bool {
    field.ty.starts_with("__data_loc") || field.ty.starts_with("__rel_loc")
}

/// Bytes of a C type by its name on 64-bit machines.
fn size_of(element: &str) -> Option<usize> {
    let base = element
        .trim_start_matches("unsigned ")
        .trim_start_matches("signed ");
    Some(match base.trim_start_matches("__") {
        "char" | "u8" | "s8" | "bool" | "uint8_t" | "int8_t" => 1,
        "short" | "short int" | "u16" | "s16" | "uint16_t" | "int16_t" => 2,
        "int" | "u32" | "s32" | "uint32_t" | "int32_t" | "unsigned" | "pid_t" => 4,
        "long" | "long int" | "long long" | "u64" | "s64" | "uint64_t" | "int64_t" | "size_t" => 8,
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

/// The bytes of a field: its own, or those it points to.
fn data<'a>(field: &Field, raw: &'a [u8]) -> Option<&'a [u8]> {
    if !is_dynamic(field) {
        return field.bytes(raw);
    }
    let place = usize::try_from(field.unsigned(raw)?).ok()?;
    let base = if field.ty.starts_with("__rel_loc") {
        field.offset.checked_add(field.size)?
    } else {
        0
    };
    let from = base.checked_add(place & 0xffff)?;
    raw.get(from..from.checked_add((place >> 16) & 0xffff)?)
}

/// At most 8 bytes as a number, zero-extended.
fn unsigned(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// At most 8 bytes as a number, sign-extended.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8).clamp(1, 8);
    (unsigned(bytes) << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::file::Tracepoint;

    fn field(ty: &str, name: &str, offset: usize, size: usize, signed: bool) -> Field {
        Field {
            name: name.to_owned(),
            ty: ty.to_owned(),
            offset,
            size,
            signed,
        }
    }

    fn fields() -> Fields {
        let tracing = TracingData {
            tracepoints: vec![Tracepoint {
                id: 7,
                system: "kmem".to_owned(),
                name: "test".to_owned(),
                fields: vec![
                    field("unsigned short", "common_type", 0, 2, false),
                    field("char[4]", "comm", 8, 4, false),
                    field("pid_t", "pid", 12, 4, true),
                    field("const void *", "ptr", 16, 8, false),
                    field("unsigned int[2]", "pair", 24, 8, false),
                    field("__data_loc char[]", "name", 32, 4, true),
                    field("__data_loc u16[]", "list", 36, 4, true),
                    field("struct odd", "odd", 40, 3, false),
                    field("u8", "beyond", 4000, 1, false),
                ],
                print_fmt: String::new(),
            }],
            ..TracingData::default()
        };
        let attr = Attr {
            kind: attr_kind::TRACEPOINT,
            config: 7,
            ..Attr::default()
        };
        Fields::of(&attr, &tracing).unwrap()
    }

    fn raw() -> Vec<u8> {
        let mut raw = vec![0; 44];
        raw[8..11].copy_from_slice(b"a\"b");
        raw[12..16].copy_from_slice(&(-2_i32).to_le_bytes());
        raw[16..24].copy_from_slice(&0xffff_8000_0000_1000_u64.to_le_bytes());
        raw[24..28].copy_from_slice(&1_u32.to_le_bytes());
        raw[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
        raw[32..36].copy_from_slice(&(0x2c_u32 | 5 << 16).to_le_bytes());
        raw[36..40].copy_from_slice(&(0x31_u32 | 4 << 16).to_le_bytes());
        raw[40..43].copy_from_slice(&[1, 2, 0xff]);
        raw.extend(b"main\0\x01\0\x02\x80");
        raw
    }

    #[test]
    fn every_form_is_written_and_what_lies_outside_is_left_out() {
        let mut line = Line::default();
        fields().write_json(&mut line, &raw());
        assert_eq!(
            std::str::from_utf8(line.bytes()).unwrap(),
            "{\"comm\":\"a\\\"b\",\"pid\":-2,\"ptr\":\"0xffff800000001000\",\"pair\":[1,4294967295],\
             \"name\":\"main\",\"list\":[1,32770],\"odd\":\"0102ff\"}"
        );
    }

    #[test]
    fn cut_anywhere_the_object_stays_json() {
        let (fields, raw) = (fields(), raw());
        for cut in 0..=raw.len() {
            let mut line = Line::default();
            fields.write_json(&mut line, &raw[..cut]);
            let object: serde_json::Value = serde_json::from_slice(line.bytes()).unwrap();
            assert!(object.is_object(), "cut at {cut}");
        }
    }
}

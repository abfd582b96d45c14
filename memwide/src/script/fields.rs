//! The fields a tracepoint has of its own, read from the raw data of its samples.

use super::Line;
use memwide_perf_abi::file::TracingData;
use memwide_perf_abi::tracepoint::{FieldReader, FieldValue, Symbols};
use memwide_perf_abi::{Attr, attr_kind};
use rustc_hash::FxHashMap;

/// Fields that every tracepoint has, which samples say elsewhere.
const COMMON: &str = "common_";

/// Different values of a field whose names are kept; hostile files must not fill memory.
const NAMES_MAX: usize = 1 << 10;

/// One field, ready to be written.
#[derive(Debug)]
struct Planned {
    name: String,
    reader: FieldReader,
    symbols: Option<Symbols>,
    /// Names of the values seen so far.
    names: FxHashMap<u64, Option<Box<str>>>,
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
            name: field.name.clone(),
            reader: FieldReader::new(field),
            symbols: Symbols::of(tracepoint, &field.name),
            names: FxHashMap::default(),
        });
        Some(Self {
            planned: planned.collect(),
        })
    }

    /// `"fields":` an object of all fields that lie within the raw data, and `"names":` one of the names the recorded kernel
    /// gives their values, if it names any.
    pub(super) fn write_json(&mut self, line: &mut Line, raw: &[u8]) {
        line.raw("\"fields\":{");
        let mut separator = "";
        for planned in &self.planned {
            let Some(value) = planned.reader.value(raw) else {
                continue;
            };
            line.raw(separator);
            separator = ",";
            line.json(&planned.name);
            line.raw(":");
            write_value(line, value, true);
        }
        line.raw("},");
        let mut any = false;
        for planned in &mut self.planned {
            let (name, Some(symbol)) = planned.named(raw) else {
                continue;
            };
            line.raw(if any { "," } else { "\"names\":{" });
            any = true;
            line.json(name);
            line.raw(":");
            line.json(symbol);
        }
        if any {
            line.raw("},");
        }
    }

    /// `name=value` or `name=value(NAME)`, separated by blanks.
    pub(super) fn write_text(&mut self, line: &mut Line, raw: &[u8]) {
        for planned in &mut self.planned {
            if let Some(value) = planned.reader.value(raw) {
                line.raw(" ");
                line.shown(&planned.name);
                line.raw("=");
                write_value(line, value, false);
                if let (_, Some(symbol)) = planned.named(raw) {
                    line.raw("(");
                    line.shown(symbol);
                    line.raw(")");
                }
            }
        }
    }
}

impl Planned {
    /// The field's name, and that of its value.
    fn named(&mut self, raw: &[u8]) -> (&str, Option<&str>) {
        let Some((symbols, value)) = self.symbols.as_ref().zip(self.reader.unsigned(raw)) else {
            return (&self.name, None);
        };
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let name = self.names.entry(value);
        let name = name.or_insert_with(|| symbols.name(value).map(String::into_boxed_str));
        (&self.name, name.as_deref())
    }
}

fn write_value(line: &mut Line, value: FieldValue<'_>, json: bool) {
    let quote = |line: &mut Line| {
        if json {
            line.raw("\"");
        }
    };
    match value {
        FieldValue::Text(text) => {
            let text = String::from_utf8_lossy(text);
            if json {
                line.json(&text);
            } else {
                line.shown(&text);
            }
        }
        FieldValue::Signed(number) => line.signed(number),
        FieldValue::Unsigned(number) => line.decimal(number),
        FieldValue::Pointer(address) => {
            quote(line);
            line.hex(address);
            quote(line);
        }
        FieldValue::Numbers(numbers) => {
            line.raw("[");
            for (at, one) in numbers.iter().enumerate() {
                line.raw(if at == 0 { "" } else { "," });
                write_value(line, one, json);
            }
            line.raw("]");
        }
        FieldValue::Bytes(bytes) => {
            quote(line);
            line.hex_bytes(bytes);
            quote(line);
        }
        _ => line.raw("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::file::{Field, Tracepoint};

    fn field(ty: &str, name: &str, offset: usize, size: usize, signed: bool) -> Field {
        Field {
            name: name.to_owned(),
            ty: ty.to_owned(),
            offset,
            size,
            signed,
            long_size: 8,
            ..Field::default()
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
                print_fmt: "\"%s\", __print_symbolic(REC->pid, {-2, \"nobody\"})".to_owned(),
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
            "\"fields\":{\"comm\":\"a\\\"b\",\"pid\":-2,\"ptr\":\"0xffff800000001000\",\"pair\":[1,4294967295],\
             \"name\":\"main\",\"list\":[1,32770],\"odd\":\"0102ff\"},"
        );
    }

    #[test]
    fn cut_anywhere_the_object_stays_json() {
        let (mut fields, raw) = (fields(), raw());
        for cut in 0..=raw.len() {
            let mut line = Line::default();
            line.raw("{");
            fields.write_json(&mut line, &raw[..cut]);
            line.replace_last("}");
            let object: serde_json::Value = serde_json::from_slice(line.bytes()).unwrap();
            assert!(object.is_object(), "cut at {cut}");
        }
    }
}

//! The `format` file of a tracepoint.

use crate::bytes::Order;

/// A tracepoint and the fields of its raw data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tracepoint {
    /// `config` of the events that sample it.
    pub id: u64,
    /// System, as `sched`.
    pub system: String,
    /// Name in the system, as `sched_switch`.
    pub name: String,
    /// Fields, the common ones first.
    pub fields: Vec<Field>,
    /// How the kernel prints it.
    pub print_fmt: String,
}

/// A field of a tracepoint's raw data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Field {
    /// Name.
    pub name: String,
    /// C type, with `[n]` for arrays; `__data_loc` types are offset (low half) and length (high
    /// half) of data elsewhere in the record, `__rel_loc` the same relative to the field's end.
    pub ty: String,
    /// Bytes from the start of the raw data.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Whether it is a signed number.
    pub signed: bool,
    /// Byte order of the recording machine: raw data keeps it.
    pub order: Order,
    /// Bytes of a `long` on the recording machine.
    pub long_size: usize,
}

impl Tracepoint {
    /// `system:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }

    /// The field with a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Tracepoint {
    /// Reads the text of a `format` file; `None` without name or id. The machine is a 64-bit little-endian one unless lines
    /// `byte_order:big` and `long_size:4` before the fields say otherwise: the kernel writes none, whoever passes a format
    /// on may.
    pub fn parse(system: &str, text: &str) -> Option<Self> {
        parse(system, text, Order::Little, 8)
    }
}

/// Line of a format text that is passed on from a big-endian machine.
const BIG_ENDIAN: &str = "byte_order:big";

/// Reads a format text; `None` without name or id.
pub(super) fn parse(
    system: &str,
    text: &str,
    order: Order,
    long_size: usize,
) -> Option<Tracepoint> {
    let mut tracepoint = Tracepoint {
        system: system.to_owned(),
        ..Tracepoint::default()
    };
    let mut id = None;
    let (mut order, mut long_size) = (order, long_size);
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("name:") {
            name.trim().clone_into(&mut tracepoint.name);
        } else if let Some(number) = line.strip_prefix("ID:") {
            id = number.trim().parse().ok();
        } else if let Some(format) = line.strip_prefix("print fmt:") {
            format.trim().clone_into(&mut tracepoint.print_fmt);
        } else if line == BIG_ENDIAN {
            order = Order::Big;
        } else if let Some(size) = line.strip_prefix("long_size:") {
            long_size = size.trim().parse().unwrap_or(long_size);
        } else if line.starts_with("field:") {
            tracepoint
                .fields
                .extend(parse_field(line).map(|field| Field {
                    order,
                    long_size,
                    ..field
                }));
        }
    }
    tracepoint.id = id?;
    (!tracepoint.name.is_empty()).then_some(tracepoint)
}

/// `field:unsigned short common_type; offset:0; size:2; signed:0;`, separated by tabs.
fn parse_field(line: &str) -> Option<Field> {
    let mut field = Field::default();
    for part in line.split(';') {
        let Some((key, value)) = part.trim().split_once(':') else {
            continue;
        };
        match key {
            "field" => declare(&mut field, value.trim()),
            "offset" => field.offset = value.trim().parse().ok()?,
            "size" => field.size = value.trim().parse().ok()?,
            "signed" => field.signed = value.trim() != "0",
            _ => {}
        }
    }
    (!field.name.is_empty()).then_some(field)
}

/// Splits `char comm[16]` and the like into type and name.
fn declare(field: &mut Field, declaration: &str) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let (plain, array) = declaration.find('[').map_or((declaration, ""), |at| {
        // `__data_loc char[] name` has the brackets in the type.
        let (before, brackets) = declaration.split_at(at);
        if brackets.trim_end().ends_with(']') {
            (before, brackets.trim_end())
        } else {
            (declaration, "")
        }
    });
    let plain = plain.trim_end();
    let name_at = plain.trim_end_matches(is_name).len();
    let (ty, name) = plain.split_at(name_at);
    name.clone_into(&mut field.name);
    field.ty = format!("{}{array}", ty.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoint::FieldReader;

    const FORMAT: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:const void * ptr;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:1;\n\
        \nprint fmt: \"prev_comm=%s\", REC->prev_comm\n";

    #[test]
    fn fields_have_name_type_and_place() {
        let tracepoint = Tracepoint::parse("sched", FORMAT).unwrap();
        assert_eq!(
            (tracepoint.id, tracepoint.full_name().as_str()),
            (316, "sched:sched_switch")
        );
        let seen: Vec<_> = tracepoint
            .fields
            .iter()
            .map(|f| (f.name.as_str(), f.ty.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("common_type", "unsigned short"),
                ("prev_comm", "char[16]"),
                ("prev_pid", "pid_t"),
                ("ptr", "const void *"),
                ("name", "__data_loc char[]"),
            ]
        );
        assert_eq!(tracepoint.print_fmt, "\"prev_comm=%s\", REC->prev_comm");
    }

    #[test]
    fn a_format_that_is_passed_on_may_name_its_machine() {
        let text = format!("byte_order:big\nlong_size:4\n{FORMAT}");
        let field = &Tracepoint::parse("sched", &text).unwrap().fields[0];
        assert_eq!((field.order, field.long_size), (Order::Big, 4));
    }

    #[test]
    fn characters_of_several_bytes_are_no_boundary_trouble() {
        let text = FORMAT.replace(
            "unsigned short common_type",
            "unsigned short commo\u{fffd}_type",
        );
        let tracepoint = Tracepoint::parse("sched", &text).unwrap();
        assert_eq!(tracepoint.fields[0].name, "_type");
        assert_eq!(tracepoint.fields[0].ty, "unsigned short commo\u{fffd}");
    }

    #[test]
    fn values_are_read_from_raw_data_in_its_byte_order() {
        for order in [Order::Little, Order::Big] {
            let tracepoint = parse("sched", FORMAT, order, 8).unwrap();
            let word = |value: u32| match order {
                Order::Little => value.to_le_bytes(),
                Order::Big => value.to_be_bytes(),
            };
            let mut raw = vec![0; 44];
            raw[8..12].copy_from_slice(b"bash");
            raw[24..28].copy_from_slice(&word((-2i32).cast_unsigned()));
            raw[40..44].copy_from_slice(&word(0x0004_002c));
            raw.extend(b"abc\0");
            let field = |name| FieldReader::new(tracepoint.field(name).unwrap());
            assert_eq!(field("prev_comm").text(&raw), Some(&b"bash"[..]));
            assert_eq!(field("prev_pid").signed(&raw), Some(-2));
            assert_eq!(field("name").text(&raw), Some(&b"abc"[..]));
            assert_eq!(field("prev_pid").unsigned(&raw[..26]), None);
        }
    }
}

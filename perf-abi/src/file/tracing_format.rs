//! The `format` file of a tracepoint.

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

impl Field {
    /// The field's bytes in the raw data of a sample.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// An unsigned number, zero-extended; `None` if the field is not 1 to 8 bytes.
    pub fn unsigned(&self, raw: &[u8]) -> Option<u64> {
        let bytes = self.bytes(raw)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(u64::from_le_bytes(word))
    }

    /// A signed number, sign-extended.
    pub fn signed(&self, raw: &[u8]) -> Option<i64> {
        let unused = 64 - 8 * u32::try_from(self.size).ok()?.min(8);
        Some((self.unsigned(raw)? << unused).cast_signed() >> unused)
    }

    /// A string: a `char` array or dynamic data, up to its NUL.
    pub fn text<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let relative = self.ty.starts_with("__rel_loc");
        if !relative && !self.ty.starts_with("__data_loc") {
            return self.bytes(raw).map(crate::bytes::until_nul);
        }
        let place = self.unsigned(raw)?;
        let base = if relative {
            self.offset.checked_add(self.size)?
        } else {
            0
        };
        let from = base.checked_add(usize::try_from(place & 0xffff).ok()?)?;
        let len = usize::try_from((place >> 16) & 0xffff).ok()?;
        raw.get(from..from.checked_add(len)?)
            .map(crate::bytes::until_nul)
    }
}

/// Reads a format text; `None` without name or id.
pub(super) fn parse(system: &str, text: &str) -> Option<Tracepoint> {
    let mut tracepoint = Tracepoint {
        system: system.to_owned(),
        ..Tracepoint::default()
    };
    let mut id = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("name:") {
            name.trim().clone_into(&mut tracepoint.name);
        } else if let Some(number) = line.strip_prefix("ID:") {
            id = number.trim().parse().ok();
        } else if let Some(format) = line.strip_prefix("print fmt:") {
            format.trim().clone_into(&mut tracepoint.print_fmt);
        } else if line.starts_with("field:") {
            tracepoint.fields.extend(parse_field(line));
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

    const FORMAT: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:const void * ptr;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:1;\n\
        \nprint fmt: \"prev_comm=%s\", REC->prev_comm\n";

    #[test]
    fn fields_have_name_type_and_place() {
        let tracepoint = parse("sched", FORMAT).unwrap();
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
    fn characters_of_several_bytes_are_no_boundary_trouble() {
        let text = FORMAT.replace(
            "unsigned short common_type",
            "unsigned short commo\u{fffd}_type",
        );
        let tracepoint = parse("sched", &text).unwrap();
        assert_eq!(tracepoint.fields[0].name, "_type");
        assert_eq!(tracepoint.fields[0].ty, "unsigned short commo\u{fffd}");
    }

    #[test]
    fn values_are_read_from_raw_data() {
        let tracepoint = parse("sched", FORMAT).unwrap();
        let mut raw = vec![0; 44];
        raw[8..12].copy_from_slice(b"bash");
        raw[24..28].copy_from_slice(&(-2i32).to_le_bytes());
        raw[40..44].copy_from_slice(&0x0004_002c_u32.to_le_bytes());
        raw.extend(b"abc\0");
        let field = |name| tracepoint.field(name).unwrap();
        assert_eq!(field("prev_comm").text(&raw), Some(&b"bash"[..]));
        assert_eq!(field("prev_pid").signed(&raw), Some(-2));
        assert_eq!(field("name").text(&raw), Some(&b"abc"[..]));
        assert_eq!(field("prev_pid").unsigned(&raw[..26]), None);
    }
}

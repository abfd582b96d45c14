//! Tracing data: the tracepoint formats of the recording machine.
//!
//! ```text
//! 0x17 0x08 0x44 "tracing"; "0.6\0"; u8 big_endian; u8 long_size; u32 page_size;
//! "header_page\0" u64 size, data; "header_event\0" u64 size, data;
//! u32 nr { u64 size, format };                                  // ftrace's own
//! u32 nr { "system\0" u32 nr { u64 size, format } };
//! u32 size, kallsyms; u32 size, printk formats; u64 size, saved cmdlines;   // the last since 0.6
//! ```

use super::features::len32;
use super::tracing_format::{self, Tracepoint};
use crate::bytes::{Cursor, Order, Put, len64};

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The tracepoints a file describes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracingData {
    /// Byte order of the recording machine, and of the raw data of tracepoints.
    pub order: Order,
    /// Bytes of a `long` on the recording machine.
    pub long_size: u8,
    /// Bytes of a page on the recording machine.
    pub page_size: u32,
    /// The tracepoints, in the order of the file.
    pub tracepoints: Vec<Tracepoint>,
}

/// What a writer needs to describe tracepoints: the contents of files below tracefs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracingFiles {
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// For each system, the `format` files of its tracepoints.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// `printk_formats`; may be empty.
    pub printk_formats: Vec<u8>,
    /// `saved_cmdlines`; may be empty.
    pub saved_cmdlines: Vec<u8>,
    /// Bytes of a page.
    pub page_size: u32,
}

impl TracingData {
    /// Reads tracing data; `None` if it is not that, or is cut before the tracepoints end.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        if cursor.bytes(MAGIC.len()).ok()? != MAGIC {
            return None;
        }
        nul_terminated(&mut cursor)?; // version
        let order = if cursor.u8().ok()? == 0 {
            Order::Little
        } else {
            Order::Big
        };
        let mut cursor = Cursor::with_order(cursor.rest(), order);
        let mut data = Self {
            order,
            long_size: cursor.u8().ok()?,
            page_size: cursor.u32().ok()?,
            tracepoints: Vec::new(),
        };
        let long_size = usize::from(data.long_size);
        for _header in 0..2 {
            nul_terminated(&mut cursor)?;
            sized(&mut cursor)?;
        }
        for _ftrace in 0..cursor.u32().ok()? {
            sized(&mut cursor)?;
        }
        for _system in 0..cursor.u32().ok()? {
            let system = String::from_utf8_lossy(nul_terminated(&mut cursor)?).into_owned();
            for _event in 0..cursor.u32().ok()? {
                let text = String::from_utf8_lossy(sized(&mut cursor)?);
                data.tracepoints
                    .extend(tracing_format::parse(&system, &text, order, long_size));
            }
        }
        Some(data)
    }

    /// The tracepoint with an id: `config` of its attr.
    pub fn tracepoint(&self, id: u64) -> Option<&Tracepoint> {
        self.tracepoints
            .iter()
            .find(|tracepoint| tracepoint.id == id)
    }
}

impl TracingFiles {
    /// The tracing data of a little-endian 64-bit machine, as perf reads it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(b"0.6\0");
        out.push(0);
        out.push(8);
        out.put_u32(self.page_size);
        for (name, data) in [
            (&b"header_page\0"[..], &self.header_page),
            (b"header_event\0", &self.header_event),
        ] {
            out.extend_from_slice(name);
            put_sized(&mut out, data);
        }
        out.put_u32(0); // none of ftrace's own
        out.put_u32(len32(self.systems.len()));
        for (system, formats) in &self.systems {
            out.extend_from_slice(system.as_bytes());
            out.push(0);
            out.put_u32(len32(formats.len()));
            for format in formats {
                put_sized(&mut out, format);
            }
        }
        out.put_u32(0); // kallsyms: not needed to read events
        out.put_u32(len32(self.printk_formats.len()));
        out.extend_from_slice(&self.printk_formats);
        put_sized(&mut out, &self.saved_cmdlines);
        out
    }
}

fn put_sized(out: &mut Vec<u8>, data: &[u8]) {
    out.put_u64(len64(data.len()));
    out.extend_from_slice(data);
}

fn sized<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(cursor.u64().ok()?).ok()?;
    cursor.bytes(len).ok()
}

fn nul_terminated<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let mut ahead = *cursor;
    let text = ahead.rest_str();
    cursor.bytes(text.len()).ok()?;
    (cursor.u8().ok()? == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> TracingFiles {
        let format = |name: &str, id: u32| {
            format!(
                "name: {name}\nID: {id}\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n"
            )
            .into_bytes()
        };
        TracingFiles {
            header_page: b"page".to_vec(),
            header_event: b"event".to_vec(),
            systems: vec![
                ("sched".to_owned(), vec![format("sched_switch", 300)]),
                (
                    "kmem".to_owned(),
                    vec![format("kmalloc", 7), format("kfree", 8)],
                ),
            ],
            page_size: 4096,
            ..TracingFiles::default()
        }
    }

    #[test]
    fn tracepoints_are_found_by_id() {
        let data = TracingData::parse(&files().encode()).unwrap();
        let name = |id| data.tracepoint(id).map(Tracepoint::full_name);
        assert_eq!(name(300).as_deref(), Some("sched:sched_switch"));
        assert_eq!(name(8).as_deref(), Some("kmem:kfree"));
        assert_eq!(name(9), None);
        assert_eq!((data.page_size, data.long_size), (4096, 8));
    }

    #[test]
    fn cut_anywhere_it_is_refused_or_whole() {
        let bytes = files().encode();
        let whole = TracingData::parse(&bytes);
        for cut in 0..bytes.len() {
            let parsed = TracingData::parse(&bytes[..cut]);
            assert!(parsed.is_none() || parsed == whole, "cut at {cut}");
        }
    }
}

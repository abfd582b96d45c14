//! Build ids of the files that samples fell into.
//!
//! ```text
//! { struct perf_event_header; u32 pid; u8 build_id[20]; u8 size; u8 reserved[3]; char filename[]; }
//! ```
//!
//! `size` holds only if the header's misc says so; before, ids always had 20 bytes.

use crate::bytes::{Cursor, Order, Put};
use crate::{BuildId, HEADER_LEN, kind, misc};

/// The build id of one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuildIdEntry {
    /// −1 for files of the host, else the pid of a guest.
    pub pid: i32,
    /// `misc` of the entry: its cpu mode says kernel or user.
    pub misc: u16,
    /// The build id.
    pub build_id: BuildId,
    /// The file, or `[kernel.kallsyms]`.
    pub filename: Vec<u8>,
}

pub(super) fn parse(section: &[u8], order: Order) -> Vec<BuildIdEntry> {
    let mut rest = section;
    let mut entries = Vec::new();
    while let Some((entry, after)) = parse_one(rest, order) {
        entries.push(entry);
        rest = after;
    }
    entries
}

fn parse_one(bytes: &[u8], order: Order) -> Option<(BuildIdEntry, &[u8])> {
    let mut head = Cursor::with_order(bytes, order);
    head.u32().ok()?; // perf leaves the type 0
    let misc = head.u16().ok()?;
    let size = usize::from(head.u16().ok()?);
    let (entry, rest) = bytes.split_at_checked(size)?;
    let entry = parse_body(entry.get(HEADER_LEN..)?, misc, order)?;
    Some((entry, rest))
}

/// The entry from what follows its header.
pub(super) fn parse_body(body: &[u8], misc: u16, order: Order) -> Option<BuildIdEntry> {
    let mut cursor = Cursor::with_order(body, order);
    let pid = cursor.u32().ok()?.cast_signed();
    let id = cursor.array::<20>().ok()?;
    let size = cursor.u8().ok()?;
    cursor.array::<3>().ok()?;
    let size = if misc & misc::BUILD_ID_SIZE == 0 {
        20
    } else {
        size
    };
    Some(BuildIdEntry {
        pid,
        misc,
        build_id: BuildId::new(id, size),
        filename: cursor.rest_str().to_vec(),
    })
}

pub(super) fn encode(entries: &[BuildIdEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        let id = entry.build_id;
        let mut body = Vec::new();
        body.put_u32(entry.pid.cast_unsigned());
        body.extend_from_slice(&id.padded());
        body.push(u8::try_from(id.as_bytes().len()).unwrap_or(20));
        body.extend_from_slice(&[0; 3]);
        // perf pads names to 64 bytes.
        let name = crate::bytes::until_nul(&entry.filename);
        body.extend_from_slice(name);
        body.resize(
            body.len() + (name.len() + 1).next_multiple_of(64) - name.len(),
            0,
        );
        let misc = entry.misc | misc::BUILD_ID_SIZE;
        // A path that does not fit into a record is left out: `out` is unchanged then.
        let _too_long = crate::encode::raw(&mut out, kind::HEADER_BUILD_ID, misc, &body);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &[u8]) -> BuildIdEntry {
        BuildIdEntry {
            pid: -1,
            misc: misc::USER | misc::BUILD_ID_SIZE,
            build_id: BuildId::from_slice(id).unwrap(),
            filename: b"/usr/bin/true".to_vec(),
        }
    }

    #[test]
    fn ids_of_any_size_are_read_back() {
        let entries = [entry(&[7; 20]), entry(&[8; 16])];
        assert_eq!(parse(&encode(&entries), Order::Little), entries);
    }

    #[test]
    fn without_a_size_an_id_has_20_bytes() {
        let mut bytes = encode(&[entry(&[9; 20])]);
        bytes[4..6].copy_from_slice(&misc::USER.to_le_bytes());
        bytes[32] = 3;
        assert_eq!(parse(&bytes, Order::Little)[0].build_id.as_bytes(), [9; 20]);
    }

    #[test]
    fn a_cut_entry_ends_the_list() {
        let bytes = encode(&[entry(&[7; 20]), entry(&[8; 16])]);
        for cut in bytes.len() / 2..bytes.len() {
            assert_eq!(parse(&bytes[..cut], Order::Little).len(), 1);
        }
    }
}

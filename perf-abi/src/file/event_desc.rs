//! Names and ids of the events, as the feature holds them.
//!
//! ```text
//! u32 nr; u32 attr_size; { attr[attr_size]; u32 nr_ids; string name; u64 ids[nr_ids]; } [nr];
//! ```

use super::features::{len32, put_string, string};
use crate::Attr;
use crate::bytes::{Cursor, Order, Put};

/// One event as described in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDesc {
    /// What it was asked for.
    pub attr: Attr,
    /// Its name.
    pub name: String,
    /// Its ids.
    pub ids: Vec<u64>,
}

pub(super) fn parse(mut cursor: Cursor<'_>, order: Order) -> Option<Vec<EventDesc>> {
    let count = usize::try_from(cursor.u32().ok()?).ok()?;
    let attr_size = usize::try_from(cursor.u32().ok()?).ok()?;
    if count.checked_mul(attr_size.checked_add(8)?)? > cursor.left() {
        return None;
    }
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        let attr = Attr::parse_ordered(cursor.bytes(attr_size).ok()?, order).ok()?;
        let ids = usize::try_from(cursor.u32().ok()?).ok()?;
        let name = string(&mut cursor)?;
        if ids.checked_mul(8)? > cursor.left() {
            return None;
        }
        let ids = (0..ids).map(|_| cursor.u64().ok()).collect::<Option<_>>()?;
        events.push(EventDesc { attr, name, ids });
    }
    Some(events)
}

pub(super) fn encode(events: &[EventDesc]) -> Vec<u8> {
    let size = super::writer::attr_size(events.iter().map(|event| &event.attr));
    let mut out = Vec::new();
    out.put_u32(len32(events.len()));
    out.put_u32(len32(size));
    for event in events {
        out.extend_from_slice(&event.attr.encode(size));
        out.put_u32(len32(event.ids.len()));
        put_string(&mut out, &event.name);
        for id in &event.ids {
            out.put_u64(*id);
        }
    }
    out
}

//! perf's own records.

use super::Turn;
use crate::bytes::Order;
use crate::{ATTR_SIZE_VER0, Attr, kind};

pub(super) fn record(turn: &mut Turn<'_>, kind: u32) {
    match kind {
        kind::HEADER_ATTR => header_attr(turn),
        kind::HEADER_TRACING_DATA | kind::HEADER_BUILD_ID => turn.u32s(1),
        kind::HEADER_EVENT_TYPE | kind::HEADER_FEATURE | kind::COMPRESSED2 => turn.u64s(1),
        kind::ID_INDEX | kind::STAT_CONFIG | kind::STAT_ROUND => turn.rest_u64s(),
        kind::AUXTRACE_INFO => {
            turn.u32s(2);
            turn.rest_u64s();
        }
        kind::AUXTRACE => {
            turn.u64s(3);
            turn.u32s(4);
        }
        kind::AUXTRACE_ERROR => auxtrace_error(turn),
        kind::THREAD_MAP => {
            turn.u64s(1);
            while !turn.rest().is_empty() {
                turn.u64s(1);
                turn.skip(16);
            }
        }
        kind::CPU_MAP => cpu_map(turn),
        kind::STAT => {
            turn.u64s(1);
            turn.u32s(2);
            turn.u64s(3);
        }
        kind::EVENT_UPDATE => {
            let what = turn.u64();
            turn.u64s(1);
            match what {
                1 => turn.u64s(1), // the scale, a double
                3 => cpu_map(turn),
                _ => {} // texts
            }
        }
        kind::TIME_CONV => turn.u64s(5),
        kind::BPF_METADATA => {
            turn.skip(crate::file::BPF_NAME_LEN);
            turn.u64s(1);
        }
        kind::SCHEDSTAT_CPU => {
            schedstat(turn);
            turn.u32s(6);
            turn.rest_u64s();
        }
        kind::SCHEDSTAT_DOMAIN => {
            schedstat(turn);
            turn.u32s(usize::MAX);
        }
        // Nothing but bytes, or unknown.
        _ => {}
    }
}

/// `{ u64 timestamp; u32 cpu; u16 version; u16 domain or padding; … }`
fn schedstat(turn: &mut Turn<'_>) {
    turn.u64s(1);
    turn.u32s(1);
    turn.u16s(2);
}

fn header_attr(turn: &mut Turn<'_>) {
    let body = turn.rest();
    let Some(size) = Order::Big.u32_at(body, 4) else {
        return;
    };
    let size = match usize::try_from(size) {
        Ok(0) | Err(_) => ATTR_SIZE_VER0,
        Ok(size) => size,
    };
    let Some(bytes) = body.get_mut(..size) else {
        return;
    };
    if let Ok(attr) = Attr::parse_ordered(bytes, Order::Big) {
        let recorded = attr.size;
        bytes.copy_from_slice(&attr.encode(size));
        if let Some(place) = bytes.get_mut(4..8) {
            place.copy_from_slice(&recorded.to_le_bytes());
        }
    }
    turn.skip(size);
    turn.rest_u64s(); // the ids
}

fn auxtrace_error(turn: &mut Turn<'_>) {
    turn.u32s(5);
    let format = turn.u32();
    turn.u64s(1);
    if format > 0 {
        turn.u64s(1);
    }
    turn.skip(64); // the message
    if format > 1 {
        turn.u32s(2);
    }
}

/// `{ u16 type; { u16 nr; u16 cpu[nr]; } or { u16 nr, long_size; mask words } or { u8 any, pad; u16 first, last; } }`
fn cpu_map(turn: &mut Turn<'_>) {
    match turn.u16() {
        0 => turn.u16s(usize::MAX),
        1 => {
            turn.u16s(1);
            if turn.u16() == 4 {
                turn.u32s(usize::MAX);
            } else {
                turn.skip(4);
                turn.rest_u64s();
            }
        }
        _ => {
            turn.skip(2);
            turn.u16s(2);
        }
    }
}

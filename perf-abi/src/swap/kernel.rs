//! The kernel's records other than samples.

use super::Turn;
use crate::file::EventTable;
use crate::kind;
use crate::record::{FILE_ID_LEN, holds_build_id};

pub(super) fn record(turn: &mut Turn<'_>, kind: u32, misc: u16, events: &EventTable) {
    match kind {
        kind::MMAP => {
            turn.u32s(2);
            turn.u64s(3);
            turn.skip_text();
        }
        kind::MMAP2 => mmap2(turn, misc),
        kind::COMM => {
            turn.u32s(2);
            turn.skip_text();
        }
        kind::FORK | kind::EXIT => turn.u32s(4),
        kind::READ | kind::ITRACE_START | kind::SWITCH_CPU_WIDE | kind::NAMESPACES => turn.u32s(2),
        kind::KSYMBOL => {
            turn.u64s(1);
            turn.u32s(1);
            turn.u16s(2);
            turn.skip_text();
        }
        kind::BPF_EVENT => {
            turn.u16s(2);
            turn.u32s(1);
            turn.skip(8); // the tag
        }
        kind::CGROUP => {
            turn.u64s(1);
            turn.skip_text();
        }
        kind::TEXT_POKE => {
            turn.u64s(1);
            let (old, new) = (turn.u16(), turn.u16());
            turn.skip(usize::from(old) + usize::from(new));
            turn.align();
        }
        // Words only.
        kind::LOST
        | kind::THROTTLE
        | kind::UNTHROTTLE
        | kind::AUX
        | kind::LOST_SAMPLES
        | kind::SWITCH
        | kind::AUX_OUTPUT_HW_ID
        | kind::CALLCHAIN_DEFERRED => {}
        // Of a type without a name only the sample id is known.
        _ => turn.skip_to_last(events.sample_id_len()),
    }
    turn.rest_u64s();
}

fn mmap2(turn: &mut Turn<'_>, misc: u16) {
    turn.u32s(2);
    turn.u64s(3);
    let file = turn.rest().first_chunk();
    if file.is_some_and(|file| holds_build_id(misc, file)) {
        turn.skip(FILE_ID_LEN);
    } else {
        turn.u32s(2);
        turn.u64s(2);
    }
    turn.u32s(2);
    turn.skip_text();
}

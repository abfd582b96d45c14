//! Context switches.

use super::Body;
use crate::bytes::{Cursor, Put};
use crate::{RecordError, misc};

/// The task of the sample id is switched; no fields of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Switched out, not in.
    pub out: bool,
    /// Preempted when switched out.
    pub preempted: bool,
}

impl Switch {
    pub(crate) fn own_misc(self) -> u16 {
        let out = if self.out { misc::SWITCH_OUT } else { 0 };
        let preempted = if self.preempted {
            misc::SWITCH_OUT_PREEMPT
        } else {
            0
        };
        out | preempted
    }
}

impl<'a> Body<'a> for Switch {
    fn parse(misc: u16, _cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            out: misc & misc::SWITCH_OUT != 0,
            preempted: misc & misc::SWITCH_OUT_PREEMPT != 0,
        })
    }

    fn put(&self, _out: &mut Vec<u8>) {}
}

/// A switch on a monitored CPU: `{ u32 next_prev_pid, next_prev_tid; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SwitchCpuWide {
    /// Direction.
    pub switch: Switch,
    /// Process id of the task that follows (switch out) or came before (switch in).
    pub next_prev_pid: u32,
    /// Its thread id.
    pub next_prev_tid: u32,
}

impl<'a> Body<'a> for SwitchCpuWide {
    fn parse(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            switch: Switch::parse(misc, cursor)?,
            next_prev_pid: cursor.u32()?,
            next_prev_tid: cursor.u32()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.next_prev_pid);
        out.put_u32(self.next_prev_tid);
    }
}

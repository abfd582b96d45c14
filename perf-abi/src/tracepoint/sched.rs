//! Scheduling: which task runs where, tasks coming and going.

use super::FieldReader;
use super::event::Fields;

/// Another task runs on the CPU of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch<'a> {
    /// Name of the task that stops.
    pub prev_comm: &'a [u8],
    /// Its thread id.
    pub prev_tid: i32,
    /// Its priority.
    pub prev_prio: i32,
    /// Why it stops, in the recorded kernel's bits; 0: it could have gone on (preempted).
    pub prev_state: i64,
    /// Name of the task that goes on.
    pub next_comm: &'a [u8],
    /// Its thread id.
    pub next_tid: i32,
    /// Its priority.
    pub next_prio: i32,
}

#[derive(Debug, Clone)]
pub(super) struct SwitchFields {
    prev: TaskFields,
    next: TaskFields,
    prev_state: FieldReader,
}

impl SwitchFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            prev: TaskFields::new(fields, "prev_comm", "prev_pid", "prev_prio")?,
            next: TaskFields::new(fields, "next_comm", "next_pid", "next_prio")?,
            prev_state: fields.get("prev_state")?,
        })
    }

    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<Switch<'a>> {
        let (prev_comm, prev_tid, prev_prio) = self.prev.read(raw)?;
        let (next_comm, next_tid, next_prio) = self.next.read(raw)?;
        Some(Switch {
            prev_comm,
            prev_tid,
            prev_prio,
            prev_state: self.prev_state.signed(raw)?,
            next_comm,
            next_tid,
            next_prio,
        })
    }
}

/// A task became runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wakeup<'a> {
    /// Its name.
    pub comm: &'a [u8],
    /// Its thread id.
    pub tid: i32,
    /// Its priority.
    pub prio: i32,
    /// CPU it is to run on.
    pub target_cpu: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) struct WakeupFields {
    task: TaskFields,
    cpu: Option<FieldReader>,
}

impl WakeupFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            task: TaskFields::new(fields, "comm", "pid", "prio")?,
            cpu: fields.any(&["target_cpu", "cpu"]),
        })
    }

    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<Wakeup<'a>> {
        let (comm, tid, prio) = self.task.read(raw)?;
        let cpu = self.cpu.and_then(|cpu| cpu.unsigned(raw));
        Some(Wakeup {
            comm,
            tid,
            prio,
            target_cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        })
    }
}

/// A task was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fork<'a> {
    /// Name of the task that started it.
    pub parent_comm: &'a [u8],
    /// Its thread id.
    pub parent_tid: i32,
    /// Name of the new task.
    pub child_comm: &'a [u8],
    /// Its thread id.
    pub child_tid: i32,
}

#[derive(Debug, Clone)]
pub(super) struct ForkFields {
    parent_comm: FieldReader,
    parent_tid: FieldReader,
    child_comm: FieldReader,
    child_tid: FieldReader,
}

impl ForkFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            parent_comm: fields.get("parent_comm")?,
            parent_tid: fields.get("parent_pid")?,
            child_comm: fields.get("child_comm")?,
            child_tid: fields.get("child_pid")?,
        })
    }

    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<Fork<'a>> {
        Some(Fork {
            parent_comm: self.parent_comm.text(raw)?,
            parent_tid: number(&self.parent_tid, raw)?,
            child_comm: self.child_comm.text(raw)?,
            child_tid: number(&self.child_tid, raw)?,
        })
    }
}

/// A program was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exec<'a> {
    /// File that was executed.
    pub filename: &'a [u8],
    /// Thread id now: that of the process's leader.
    pub tid: i32,
    /// Thread id before.
    pub old_tid: i32,
}

#[derive(Debug, Clone)]
pub(super) struct ExecFields {
    filename: FieldReader,
    tid: FieldReader,
    old_tid: FieldReader,
}

impl ExecFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            filename: fields.get("filename")?,
            tid: fields.get("pid")?,
            old_tid: fields.get("old_pid")?,
        })
    }

    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<Exec<'a>> {
        Some(Exec {
            filename: self.filename.text(raw)?,
            tid: number(&self.tid, raw)?,
            old_tid: number(&self.old_tid, raw)?,
        })
    }
}

/// A task ended, is forgotten, or is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit<'a> {
    /// Its name.
    pub comm: &'a [u8],
    /// Its thread id; 0 if any child is waited for.
    pub tid: i32,
    /// Its priority.
    pub prio: i32,
}

#[derive(Debug, Clone)]
pub(super) struct ExitFields(TaskFields);

impl ExitFields {
    pub(super) fn new(fields: &Fields<'_>) -> Option<Self> {
        TaskFields::new(fields, "comm", "pid", "prio").map(Self)
    }

    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<Exit<'a>> {
        let (comm, tid, prio) = self.0.read(raw)?;
        Some(Exit { comm, tid, prio })
    }
}

/// Name, thread id and priority.
#[derive(Debug, Clone)]
struct TaskFields {
    comm: FieldReader,
    tid: FieldReader,
    prio: FieldReader,
}

impl TaskFields {
    fn new(fields: &Fields<'_>, comm: &str, tid: &str, prio: &str) -> Option<Self> {
        Some(Self {
            comm: fields.get(comm)?,
            tid: fields.get(tid)?,
            prio: fields.get(prio)?,
        })
    }

    fn read<'a>(&self, raw: &'a [u8]) -> Option<(&'a [u8], i32, i32)> {
        Some((
            self.comm.text(raw)?,
            number(&self.tid, raw)?,
            number(&self.prio, raw)?,
        ))
    }
}

fn number(field: &FieldReader, raw: &[u8]) -> Option<i32> {
    i32::try_from(field.signed(raw)?).ok()
}

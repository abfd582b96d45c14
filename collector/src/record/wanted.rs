//! From the names asked for to events this machine has.

use super::{RecordError, RecordNote, RecordOptions, StackCopies};
use crate::config::EventConfig;
use crate::count::{CounterAbsent, split};
use crate::events::machine::Machine;
use crate::events::{Absent, EventSpec, resolve};
use memwide_perf_abi::sample;

/// Recorded unless events are named …
const FAULTS: [&str; 2] = RecordOptions::FAULTS;
/// … and these where they exist.
const PRECISE: [&str; 3] = RecordOptions::PRECISE;

pub(super) const LOADS: &str = "cpu/mem-loads,ldlat=30/P";
pub(super) const STORES: &str = "cpu/mem-stores/P";
pub(super) const IBS: &str = "ibs_op//";

/// Registers that perf takes too, by its numbers (`asm/perf_regs.h`): on x86 all but those of segments, which the kernel refuses.
const USER_REGISTERS: u64 = if cfg!(target_arch = "x86_64") {
    0xff_0fff
} else {
    (1 << 33) - 1
};

/// Frames of a callchain, at most: the kernel's own default.
const FRAMES_MAX: u16 = 127;

/// An event to open.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) spec: EventSpec,
    /// Nobody asked for it by name: without it there is still a recording.
    pub(super) optional: bool,
}

/// The events to open; notes say what the machine does not have.
pub(super) fn wanted(
    options: &RecordOptions,
    machine: &Machine,
    notes: &mut Vec<RecordNote>,
    missing: &mut Vec<(String, CounterAbsent)>,
) -> Result<Vec<Wanted>, RecordError> {
    let named: Vec<&str> = options.events.iter().flat_map(|list| split(list)).collect();
    let mut all = Vec::new();
    for name in if named.is_empty() { &FAULTS } else { &*named } {
        let spec =
            find(name, options, machine).map_err(|absent| RecordError::absent(name, absent))?;
        all.push(Wanted {
            spec,
            optional: false,
        });
    }
    if named.is_empty() {
        let (mut any, mut why) = (false, None);
        for name in PRECISE {
            match find(name, options, machine) {
                Ok(spec) => {
                    any = true;
                    all.push(Wanted {
                        spec,
                        optional: true,
                    });
                }
                Err(absent) => why = Some(absent.reason),
            }
        }
        if let (false, Some(reason)) = (any, why) {
            let note = format!("without precise memory events: {reason}");
            notes.push(RecordNote::Without(note));
        }
    }
    all.extend(optional(&options.optional, options, machine, missing));
    // The first event counted in software has the larger ring, and minor faults are many.
    all.sort_by_key(|wanted| wanted.spec.name != FAULTS[0]);
    Ok(all)
}

/// Those of the events that are there; `missing` gets the others.
pub(super) fn optional(
    names: &[String],
    options: &RecordOptions,
    machine: &Machine,
    missing: &mut Vec<(String, CounterAbsent)>,
) -> Vec<Wanted> {
    let mut all = Vec::new();
    for name in names.iter().flat_map(|list| split(list)) {
        match find(name, options, machine) {
            Ok(spec) => all.push(Wanted {
                spec,
                optional: true,
            }),
            Err(absent) => missing.push((name.to_owned(), absent.into())),
        }
    }
    all
}

fn find(name: &str, options: &RecordOptions, machine: &Machine) -> Result<EventSpec, Absent> {
    let full = match name {
        "mem-loads" => LOADS,
        "mem-stores" => STORES,
        "ibs_op" => IBS,
        other => other,
    };
    let event = EventConfig {
        // A file is there to be looked at closely: every fault, unless fewer are wanted.
        period: options.period.or(FAULTS.contains(&full).then_some(1)),
        callchain: options.callchain,
        ..EventConfig::named(full)
    };
    let mut spec = resolve(&event, FRAMES_MAX, machine)?;
    let copies = options.stacks.as_ref();
    if let Some(copies) = copies.filter(|copies| copies.are_of(name)) {
        let attr = &mut spec.attr;
        attr.sample_type |= sample::CALLCHAIN | sample::REGS_USER | sample::STACK_USER;
        attr.sample_regs_user = USER_REGISTERS;
        attr.sample_stack_user = u32::from(copies.bytes);
        // The user's frames are made from the copy.
        attr.flags = attr.flags.with_exclude_callchain_user(true);
    }
    Ok(spec)
}

impl StackCopies {
    fn are_of(&self, name: &str) -> bool {
        self.events.is_empty() || self.events.iter().any(|event| event == name)
    }
}

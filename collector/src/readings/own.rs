//! What the collector itself costs.

use super::{Changes, Out};
use crate::events::machine::Machine;
use crate::metrics;

pub(super) fn read(machine: &Machine, changes: &mut Changes, out: &mut Out) {
    if let Some(cpu) = cpu_ns(machine)
        && let Some(used) = changes.of("own", "cpu", cpu)
    {
        let reading = out.change("cpu", used, "ns");
        out.read.own_cost.push(reading);
    }
    let statm = machine.proc_text("self/statm").unwrap_or_default();
    let resident = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    if let Some(pages) = resident {
        let bytes = pages * Machine::page_size() as u64;
        let reading = out.level("resident", bytes);
        out.read.own_cost.push(reading);
        metrics::RESIDENT.set(bytes);
    }
    let handler = metrics::HANDLER.duration().as_nanos();
    let handler = u64::try_from(handler).unwrap_or(u64::MAX);
    for (name, counter, unit) in [
        ("samples", metrics::SAMPLES.get(), "samples"),
        ("lost", metrics::LOST.get(), "samples"),
        ("excluded", metrics::EXCLUDED.get(), "samples"),
        ("handler", handler, "ns"),
        ("packed", metrics::PACKED_BYTES.get(), "bytes"),
        ("sent", metrics::SENT_BYTES.get(), "bytes"),
    ] {
        if let Some(change) = changes.of("own", name, counter) {
            let reading = out.change(name, change, unit);
            out.read.own_cost.push(reading);
        }
    }
}

/// Of all threads, user and kernel.
fn cpu_ns(machine: &Machine) -> Option<u64> {
    let stat = machine.proc_text("self/stat")?;
    // The name in brackets may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let tick = rustix::param::clock_ticks_per_second();
    Some((user + system).saturating_mul(1_000_000_000 / tick.max(1)))
}

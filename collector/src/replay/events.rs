//! The events of a file, described as a collector describes its own.

use std::fmt::Write;

use memwide_model::{Cpu, LatencyKind, Tier};
use memwide_perf_abi::file::{Event, Features, TracingData};
use memwide_perf_abi::{ATTR_SIZE_KNOWN, Attr, Order, attr_kind, sample};
use memwide_proto::v1::EventDesc;

/// Descriptions in the file's order; `attrs` are those of the records as they are sent.
pub(super) fn describe(
    events: &[Event],
    attrs: &[Attr],
    features: &Features,
    tracing: Option<&TracingData>,
) -> Vec<EventDesc> {
    let pmus = features.pmu_mappings().unwrap_or_default();
    let cpu = Cpu::parse(
        &features.cpuid().unwrap_or_default(),
        &features.arch().unwrap_or_default(),
    );
    let numbered = (0_u32..).zip(events.iter().zip(attrs));
    numbered
        .map(|(ordinal, (event, attr))| {
            let pmu = pmus.iter().find(|(kind, _)| *kind == attr.kind);
            let pmu = pmu.map_or_else(|| kind_name(attr.kind).to_owned(), |(_, name)| name.clone());
            let tier = tier(attr, &pmu);
            EventDesc {
                ordinal,
                population: population(&event.name, attr, &pmu),
                latency_kind: u32::from(latency(&event.name, attr, &pmu, cpu).code()),
                threshold_cycles: threshold(&event.name),
                name: event.name.clone(),
                pmu,
                attr: attr.encode(ATTR_SIZE_KNOWN + attr.unknown.len()),
                ids: event.ids.clone(),
                format: tracing
                    .filter(|_| attr.kind == attr_kind::TRACEPOINT)
                    .and_then(|tracing| format_of(tracing, attr.config))
                    .unwrap_or_default(),
                tier: tier.name().to_owned(),
                side_band: false,
            }
        })
        .collect()
}

fn kind_name(kind: u32) -> &'static str {
    match kind {
        attr_kind::HARDWARE | attr_kind::HW_CACHE | attr_kind::RAW => "cpu",
        attr_kind::SOFTWARE => "software",
        attr_kind::TRACEPOINT => "tracepoint",
        attr_kind::BREAKPOINT => "breakpoint",
        _ => "unknown",
    }
}

fn is_software(attr: &Attr) -> bool {
    matches!(
        attr.kind,
        attr_kind::SOFTWARE | attr_kind::TRACEPOINT | attr_kind::BREAKPOINT
    )
}

/// Precise: what gives an access with its source. A software event may carry the field, always empty.
fn tier(attr: &Attr, pmu: &str) -> Tier {
    if is_software(attr) {
        Tier::Software
    } else if attr.samples(sample::DATA_SRC) || pmu.starts_with("ibs") || pmu.starts_with("arm_spe")
    {
        Tier::Precise
    } else {
        Tier::Event
    }
}

/// Load latency samples randomly tagged loads above a threshold: their periods estimate nothing. IBS in cycles mode
/// neither. Of everything else the period counts what the event counts.
fn population(name: &str, attr: &Attr, pmu: &str) -> String {
    let loads = threshold(name) > 0 || name.contains("mem-loads");
    let ibs_cycles = pmu == "ibs_op" && attr.config & (1 << 19) == 0;
    if loads || ibs_cycles || pmu == "ibs_fetch" {
        String::new()
    } else if name.contains("mem-stores") {
        "retired stores".to_owned()
    } else {
        name.to_owned()
    }
}

/// What weights measure: the CPU says it, for what an event of it samples.
fn latency(name: &str, attr: &Attr, pmu: &str, cpu: Cpu) -> LatencyKind {
    let weighs = attr.sample_type & (sample::WEIGHT | sample::WEIGHT_STRUCT) != 0;
    if pmu.starts_with("ibs_op") {
        // Also where the kernel wrote no weight: it is in the registers.
        LatencyKind::IbsMiss
    } else if !weighs || is_software(attr) {
        LatencyKind::None
    } else if pmu.starts_with("arm_spe") {
        LatencyKind::SpeTotal
    } else if name.contains("mem-stores") || STORES.contains(&(attr.config & 0xffff)) {
        cpu.store_latency()
    } else {
        cpu.load_latency()
    }
}

/// Event and umask of Intel's sampled stores: `MEM_TRANS_RETIRED.PRECISE_STORE` (later `STORE_SAMPLE`),
/// `MEM_UOPS_RETIRED.ALL_STORES` (later `MEM_INST_RETIRED.ALL_STORES`).
const STORES: [u64; 2] = [0x02cd, 0x82d0];

/// `ldlat=N` in the name, in cycles; 0: none.
fn threshold(name: &str) -> u32 {
    let Some((_, rest)) = name.split_once("ldlat=") else {
        return 0;
    };
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let number = rest.get(..end).unwrap_or_default();
    match number.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap_or(0),
        None => number.parse().unwrap_or(0),
    }
}

/// A tracepoint's format file, as the kernel writes it.
fn format_of(tracing: &TracingData, id: u64) -> Option<String> {
    let tracepoint = tracing.tracepoint(id)?;
    // What differs from the machines a format is written for by default stands before it.
    let mut text = String::new();
    if tracing.order == Order::Big {
        text += "byte_order:big\n";
    }
    if tracing.long_size != 8 {
        let _ = writeln!(text, "long_size:{}", tracing.long_size);
    }
    let _ = writeln!(text, "name: {}\nID: {id}\nformat:", tracepoint.name);
    for field in &tracepoint.fields {
        // Brackets stand behind the name, except those of `__data_loc char[]`.
        let (ty, array) = match field.ty.find('[') {
            Some(at) if !field.ty.starts_with("__") => field.ty.split_at(at),
            _ => (field.ty.as_str(), ""),
        };
        let _ = writeln!(
            text,
            "\tfield:{ty} {}{array};\toffset:{};\tsize:{};\tsigned:{};",
            field.name,
            field.offset,
            field.size,
            u8::from(field.signed)
        );
    }
    let _ = writeln!(text, "\nprint fmt: {}", tracepoint.print_fmt);
    Some(text)
}

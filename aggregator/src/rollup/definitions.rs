//! Definitions and host facts as rows, each content once a day.

use memwide_model::{ContentHash, FunctionId, LatencyKind, MappingId, Region, Source, Tier};
use memwide_proto::v1::{self, mapping_identity::Kind};
use memwide_store::rows::{
    CPU_NODE_UNKNOWN, DataDef, DataRow, EventRow, Events, FunctionRow, FunctionsDef, HostRow,
    Hosts, LocationRow, Locations, MappingRow, Mappings, Nameless, NamelessRow, NativeBlock,
    StackRow, Stacks, SymbolTableRow, SymbolTables, WorkloadRow, Workloads,
};
use prost::Message as _;

use super::chunks::{Chunks, short};
use super::memory::{Host, Memory};

/// Frames kept of a stack, innermost first.
const FRAMES_MAX: usize = 1_024;

/// CPUs whose node is kept; Linux has no more.
const CPUS_MAX: u32 = 8_192;

/// Bytes kept of a host's capabilities as JSON.
const CAPABILITIES_BYTES_MAX: usize = 64 << 10;

/// Definitions gathered for a flush.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    events: Chunks<Events>,
    functions: Chunks<FunctionsDef>,
    mappings: Chunks<Mappings>,
    symbols: Chunks<SymbolTables>,
    locations: Chunks<Locations>,
    nameless: Chunks<Nameless>,
    stacks: Chunks<Stacks>,
    data: Chunks<DataDef>,
    workloads: Chunks<Workloads>,
    hosts: Chunks<Hosts>,
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
        }
    }
    out
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unknown => "unknown",
        Kind::BuildId => "build-id",
        Kind::Content => "content",
        Kind::Kernel => "kernel",
        Kind::Module => "module",
        Kind::Vdso => "vdso",
        Kind::Path => "path",
        Kind::Jit => "jit",
        Kind::Bpf => "bpf",
    }
}

fn code(code: u32) -> u8 {
    u8::try_from(code).unwrap_or(u8::MAX)
}

impl Definitions {
    pub(super) fn bytes(&self) -> u64 {
        self.events.bytes()
            + self.functions.bytes()
            + self.mappings.bytes()
            + self.symbols.bytes()
            + self.locations.bytes()
            + self.nameless.bytes()
            + self.stacks.bytes()
            + self.data.bytes()
            + self.workloads.bytes()
            + self.hosts.bytes()
    }

    pub(super) fn messages(&self) -> u64 {
        self.events.messages()
            + self.functions.messages()
            + self.mappings.messages()
            + self.symbols.messages()
            + self.locations.messages()
            + self.nameless.messages()
            + self.stacks.messages()
            + self.data.messages()
            + self.workloads.messages()
            + self.hosts.messages()
    }

    pub(super) fn finish(self, blocks: &mut Vec<NativeBlock>) {
        blocks.extend(self.events.finish());
        blocks.extend(self.mappings.finish());
        blocks.extend(self.symbols.finish());
        blocks.extend(self.functions.finish());
        blocks.extend(self.locations.finish());
        blocks.extend(self.nameless.finish());
        blocks.extend(self.stacks.finish());
        blocks.extend(self.data.finish());
        blocks.extend(self.workloads.finish());
        blocks.extend(self.hosts.finish());
    }

    /// Writes what of a host's `sent` is new today; `seconds` is the batch's close.
    pub(super) fn add(
        &mut self,
        memory: &mut Memory,
        host: &str,
        sent: &v1::Definitions,
        seconds: u32,
    ) {
        let today = seconds / 86_400;
        for def in &sent.events {
            memory.learn_event(def);
            let content = ContentHash::of("events").bytes(&def.encode_to_vec());
            if memory.is_news(today, &content) {
                self.add_event(def, seconds);
            }
        }
        for def in &sent.functions {
            let content = ContentHash::of("functions")
                .number(def.function_id)
                .number(def.rank.into())
                .bytes(def.name.as_bytes())
                .bytes(def.linkage_name.as_bytes())
                .bytes(def.file.as_bytes())
                .number(u64::from(def.line))
                .number(def.size)
                .number(def.file_offset);
            if memory.is_news(today, &content) {
                let (name, linkage_name) = (short(&def.name), short(&def.linkage_name));
                let file = short(&def.file);
                self.functions
                    .room(0, 60 + name.len() + linkage_name.len() + file.len())
                    .push(&FunctionRow {
                        function_id: def.function_id,
                        mapping_id: def.mapping_id,
                        start: def.start,
                        name,
                        linkage_name,
                        rank: code(def.rank),
                        size: def.size,
                        source_file: file,
                        source_line: def.line,
                        file_offset: def.file_offset,
                        last_seen: seconds,
                    });
            }
        }
        for def in &sent.mappings {
            if memory.is_news(
                today,
                &ContentHash::of("mappings").bytes(&def.encode_to_vec()),
            ) {
                self.add_mapping(def, seconds);
            }
        }
        for def in &sent.symbols {
            let content = ContentHash::of("symbols")
                .bytes(host.as_bytes())
                .bytes(&def.encode_to_vec());
            if memory.is_news(today, &content) {
                let (host, reason) = (short(host), short(&def.reason));
                let remedy = short(&def.remedy);
                self.symbols
                    .room(0, 32 + host.len() + reason.len() + remedy.len())
                    .push(&SymbolTableRow {
                        mapping_id: def.mapping_id,
                        host,
                        rank: code(def.rank),
                        functions: def.functions,
                        reason,
                        remedy,
                        last_seen: seconds,
                    });
            }
        }
        for def in &sent.locations {
            let content = ContentHash::of("locations")
                .number(def.location_id)
                .number(def.function_id)
                .number(u64::from(def.is_offset));
            if memory.is_news(today, &content) {
                self.locations.room(0, 40).push(&LocationRow {
                    location_id: def.location_id,
                    mapping_id: def.mapping_id,
                    address: def.address,
                    function_id: def.function_id,
                    last_seen: seconds,
                });
                if def.function_id == FunctionId::unresolved(MappingId(def.mapping_id)).0 {
                    self.nameless.room(0, 40).push(&NamelessRow {
                        location_id: def.location_id,
                        stored_as: def.function_id,
                        mapping_id: def.mapping_id,
                        address: def.address,
                        is_offset: u8::from(def.is_offset),
                        last_seen: seconds,
                    });
                }
            }
        }
        for def in &sent.stacks {
            if memory.is_news(today, &ContentHash::of("stacks").number(def.stack_id)) {
                let frames = &def.locations[..def.locations.len().min(FRAMES_MAX)];
                let row = StackRow {
                    stack_id: def.stack_id,
                    locations: frames,
                    last_seen: seconds,
                };
                self.stacks.room(0, 24 + 8 * frames.len()).push(&row);
            }
        }
        for def in &sent.data {
            let content = ContentHash::of("data")
                .number(def.data_id)
                .bytes(def.name.as_bytes());
            if memory.is_news(today, &content) {
                let name = short(&def.name);
                self.data.room(0, 32 + name.len()).push(&DataRow {
                    data_id: def.data_id,
                    region: Region::from_code(code(def.region)).unwrap_or(Region::Unknown),
                    mapping_id: def.mapping_id,
                    name,
                    last_seen: seconds,
                });
            }
        }
        self.add_workloads(memory, &sent.workloads, seconds);
    }

    pub(super) fn add_workloads(
        &mut self,
        memory: &mut Memory,
        sent: &[v1::Workload],
        seconds: u32,
    ) {
        for def in sent {
            if !memory.is_news(
                seconds / 86_400,
                &ContentHash::of("workloads").bytes(&def.encode_to_vec()),
            ) {
                continue;
            }
            let texts = [
                &def.namespace,
                &def.pod,
                &def.container,
                &def.service,
                &def.cgroup_path,
            ];
            let bytes = 40 + texts.iter().map(|text| short(text).len()).sum::<usize>();
            self.workloads.room(0, bytes).push(&WorkloadRow {
                workload_id: def.workload_id,
                namespace: short(&def.namespace),
                pod: short(&def.pod),
                container: short(&def.container),
                service: short(&def.service),
                cgroup_path: short(&def.cgroup_path),
                cgroup_id: def.cgroup_id,
                last_seen: seconds,
            });
        }
    }

    fn add_event(&mut self, def: &v1::EventDef, seconds: u32) {
        let attr = hex(&def.attr[..def.attr.len().min(1_024)]);
        let bytes = 80 + short(&def.name).len() + attr.len() + short(&def.population).len();
        self.events.room(0, bytes).push(&EventRow {
            event_id: def.event_id,
            name: short(&def.name),
            pmu: short(&def.pmu),
            tier: Tier::from_code(code(def.tier)).unwrap_or(Tier::Software),
            period_mode: short(&def.period_mode),
            period: def.period,
            threshold_cycles: def.threshold_cycles,
            latency_kind: LatencyKind::from_code(code(def.latency_kind))
                .unwrap_or(LatencyKind::Unknown),
            population: short(&def.population),
            cpu_model: short(&def.cpu_model),
            cpuid: short(&def.cpuid),
            attr: &attr,
            last_seen: seconds,
        });
    }

    fn add_mapping(&mut self, def: &v1::MappingDef, seconds: u32) {
        let identity = def.identity.clone().unwrap_or_default();
        let (id, path) = (
            hex(&identity.id[..identity.id.len().min(64)]),
            short(&identity.path),
        );
        let module = path
            .rsplit('/')
            .find(|part| !part.is_empty())
            .unwrap_or(path);
        self.mappings
            .room(0, 40 + id.len() + 2 * path.len())
            .push(&MappingRow {
                mapping_id: def.mapping_id,
                kind: kind_name(identity.kind()),
                build_id: &id,
                path,
                module,
                last_seen: seconds,
            });
    }

    /// Writes the facts of a source's host: on change, and once a day.
    pub(super) fn add_host(
        &mut self,
        memory: &mut Memory,
        source: &Source,
        batch: &v1::DecodedBatch,
        seconds: u32,
    ) {
        let today = seconds / 86_400;
        if let Some(facts) = &batch.facts {
            memory.hosts.insert(
                *source,
                Host {
                    facts: facts.clone(),
                    written_day: None,
                },
            );
        }
        let Some(host) = memory.hosts.get_mut(source) else {
            return;
        };
        if host.written_day == Some(today) {
            return;
        }
        host.written_day = Some(today);
        let facts = &host.facts;
        let mut tiers: Vec<&str> = facts
            .capabilities
            .iter()
            .filter(|one| one.available && !one.tier.is_empty())
            .map(|one| &*one.tier)
            .collect();
        tiers.sort_unstable();
        tiers.dedup();
        tiers.truncate(16);
        let capabilities = capabilities_json(&facts.capabilities);
        let texts = [
            &facts.kind,
            &facts.arch,
            &facts.os_release,
            &facts.cpu_vendor,
            &facts.cpu_desc,
            &facts.cpuid,
            &facts.remote_means,
            &facts.virtualization,
            &facts.collector_version,
            &batch.host,
        ];
        let cpu_nodes = cpu_nodes(&facts.nodes);
        let bytes = 128
            + 8 * cpu_nodes.len()
            + capabilities.len()
            + texts.iter().map(|text| short(text).len()).sum::<usize>();
        let day = u16::try_from(today).unwrap_or(u16::MAX);
        self.hosts.room(day, bytes).push(&HostRow {
            time: seconds,
            host: short(&batch.host),
            host_id: host_id(source),
            kind: short(&facts.kind),
            arch: short(&facts.arch),
            os_release: short(&facts.os_release),
            cpu_vendor: short(&facts.cpu_vendor),
            cpu_model: short(&facts.cpu_desc),
            cpuid: short(&facts.cpuid),
            cpus: facts.cpus_online,
            nodes: u16::try_from(facts.nodes.len()).unwrap_or(u16::MAX),
            cpu_nodes: &cpu_nodes,
            remote_means: short(&facts.remote_means),
            virtualization: short(&facts.virtualization),
            tiers: &tiers,
            capabilities: &capabilities,
            facts_id: facts_id(facts),
            version: short(&facts.collector_version),
        });
    }
}

/// The host's id as columns hold it.
pub(super) fn host_id(source: &Source) -> u64 {
    ContentHash::of("host").bytes(&source.host.0).finish()
}

/// Hash of all facts; labels go in order of their names.
fn facts_id(facts: &v1::HostFacts) -> u64 {
    let mut labels: Vec<_> = facts.labels.iter().collect();
    labels.sort();
    let rest = v1::HostFacts {
        labels: std::collections::HashMap::default(),
        ..facts.clone()
    };
    let hash = ContentHash::of("facts").bytes(&rest.encode_to_vec());
    labels
        .iter()
        .fold(hash, |hash, (name, value)| {
            hash.bytes(name.as_bytes()).bytes(value.as_bytes())
        })
        .finish()
}

/// Node of each CPU, by its number.
fn cpu_nodes(nodes: &[v1::Node]) -> Vec<u64> {
    let mut of = Vec::new();
    for node in nodes {
        for cpu in node.cpus.iter().filter(|cpu| **cpu < CPUS_MAX) {
            let cpu = *cpu as usize;
            if of.len() <= cpu {
                of.resize(cpu + 1, CPU_NODE_UNKNOWN);
            }
            if let Some(known) = of.get_mut(cpu) {
                *known = node.node.into();
            }
        }
    }
    of
}

fn capabilities_json(capabilities: &[v1::Capability]) -> String {
    let one = |capability: &v1::Capability| {
        serde_json::json!({
            "name": capability.name,
            "tier": capability.tier,
            "available": capability.available,
            "reason": capability.reason,
            "remedy": capability.remedy,
        })
    };
    let text = capabilities
        .iter()
        .map(one)
        .collect::<serde_json::Value>()
        .to_string();
    if text.len() > CAPABILITIES_BYTES_MAX {
        "[]".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_node_and_a_hostile_number_makes_no_room() {
        let node = |node, cpus: &[u32]| v1::Node {
            node,
            cpus: cpus.to_vec(),
            ..v1::Node::default()
        };
        let nodes = [node(0, &[0, 3]), node(1, &[1, u32::MAX]), node(7, &[])];
        assert_eq!(cpu_nodes(&nodes), [0, 1, CPU_NODE_UNKNOWN, 0]);
        assert_eq!(cpu_nodes(&[]), [0_u64; 0]);
    }
}

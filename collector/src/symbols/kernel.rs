//! Tables of the kernel and its modules, relative to where each was loaded.

use std::collections::BTreeMap;
use std::fs;

use memwide_objects::{Kallsyms, Limits, ObjectId, parse_modules};
use memwide_proto::v1::MappingIdentity;
use memwide_proto::v1::mapping_identity::Kind;

use crate::events::machine::Machine;
use crate::events::rights::{Cap, Rights};
use crate::uplink::SymbolAnswer;

/// Encoded tables of one kernel, as of one reading of kallsyms.
#[derive(Debug, Default)]
pub(crate) struct KernelTables {
    kernel: Option<(Vec<u8>, Vec<u8>)>,
    /// By name: build id and table.
    modules: BTreeMap<String, (Vec<u8>, Vec<u8>)>,
}

impl KernelTables {
    /// Of the running kernel.
    pub(crate) fn read(machine: &Machine) -> Result<Self, String> {
        let text = fs::read(machine.proc.join("kallsyms")).map_err(|error| error.to_string())?;
        let notes = |path: &str| {
            let id = ObjectId::of_notes(&fs::read(machine.sys.join(path)).ok()?)?;
            Some(id.as_bytes().to_vec())
        };
        let modules = fs::read(machine.proc.join("modules")).unwrap_or_default();
        Self::new(
            &text,
            notes("kernel/notes").unwrap_or_default(),
            &modules,
            |name| notes(&format!("module/{name}/notes/.note.gnu.build-id")).unwrap_or_default(),
        )
    }

    /// Of a text of `/proc/kallsyms`, with what else is known.
    pub(crate) fn new(
        kallsyms: &[u8],
        build_id: Vec<u8>,
        modules: &[u8],
        module_id: impl Fn(&str) -> Vec<u8>,
    ) -> Result<Self, String> {
        let all =
            Kallsyms::parse(kallsyms, &Limits::default()).map_err(|error| error.to_string())?;
        let base = all.text().map(|text| text.start);
        let bases: BTreeMap<String, u64> = parse_modules(modules)
            .unwrap_or_default()
            .into_iter()
            .map(|module| (module.name, module.base))
            .collect();
        let (kernel, module_tables) = all.into_tables();
        let mut tables = Self {
            kernel: base.map(|base| (build_id, kernel.relative_to(base).encode())),
            modules: BTreeMap::new(),
        };
        for module in module_tables {
            if let Some(base) = bases.get(&module.name) {
                let table = module.table.relative_to(*base).encode();
                let id = module_id(&module.name);
                tables.modules.insert(module.name, (id, table));
            }
        }
        Ok(tables)
    }

    /// The table of this identity, if it is of this kernel.
    pub(crate) fn find(&self, asked: &MappingIdentity) -> Option<SymbolAnswer> {
        let (id, table) = if asked.kind() == Kind::Kernel {
            self.kernel.as_ref()?
        } else {
            let name = asked.path.trim_start_matches('[').trim_end_matches(']');
            self.modules.get(name)?
        };
        if !asked.id.is_empty() && *id != asked.id {
            return None;
        }
        Some(SymbolAnswer {
            identity: MappingIdentity {
                id: id.clone(),
                ..asked.clone()
            },
            table: table.clone(),
        })
    }
}

/// Whether the kernel shows its addresses.
pub(super) fn visible(machine: &Machine) -> Result<(), String> {
    use std::io::{BufRead, BufReader};
    let path = machine.proc.join("kallsyms");
    let file = fs::File::open(path).map_err(|error| format!("kallsyms: {error}"))?;
    // The first lines may be per-CPU symbols at 0; a thousand are not.
    let hidden = BufReader::new(file)
        .lines()
        .take(1_000)
        .map_while(Result::ok)
        .all(|line| line.starts_with("0000000000000000 "));
    if hidden {
        Err("the kernel hides its addresses".to_owned())
    } else {
        Ok(())
    }
}

/// What would show them: the kernel shows its addresses to everybody with `kptr_restrict` 0 and `perf_event_paranoid` up to 1, and
/// to `CAP_SYSLOG` with `kptr_restrict` up to 1. A setting that cannot be read may be any.
pub(super) fn remedy(machine: &Machine) -> String {
    let strict = machine.setting("kptr_restrict").unwrap_or(2);
    let paranoid = machine.setting("perf_event_paranoid").unwrap_or(2);
    let rights = Rights::read(machine);
    let mut ways = Vec::new();
    let mut with_right = Vec::new();
    if !rights.has(Cap::Syslog) {
        with_right.push("give the process CAP_SYSLOG");
    }
    if strict > 1 {
        with_right.push("sysctl kernel.kptr_restrict=1");
    }
    // Elsewhere the capability does not count.
    if rights.in_first_user && !with_right.is_empty() {
        ways.push(with_right.join(" and "));
    }
    let mut for_all = Vec::new();
    if strict > 0 {
        for_all.push("kernel.kptr_restrict=0");
    }
    if paranoid > 1 {
        for_all.push("kernel.perf_event_paranoid=1");
    }
    if !for_all.is_empty() {
        ways.push(format!("sysctl {}", for_all.join(" ")));
    }
    ways.join(", or ")
}

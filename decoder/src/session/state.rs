//! What is known of the symbols of a mapping, in words: why code of it has no names, and what helps.

use crate::identity::Kind;
use crate::symbols::{Object, TableState};
use memwide_model::{ContentHash, MappingId};
use memwide_objects::Source;
use memwide_proto::v1;

/// For whoever asks why something has no name; `None` while that is not settled.
pub(super) fn symbols_of(
    mapping: MappingId,
    object: &Object,
    state: &TableState,
) -> Option<v1::SymbolsDef> {
    let (rank, functions, reason) = match state {
        TableState::Missing | TableState::Requested => return None,
        TableState::Present(loaded) => {
            let functions = loaded.table().functions().len() as u64;
            let reason = match loaded.rank() {
                _ if functions == 0 => "the file has neither symbols nor starts of functions",
                rank if rank == Source::None as u8 => {
                    "stripped: starts of functions are known, their names are not"
                }
                rank if rank == Source::DynSym as u8 && object.identity.kind != Kind::Vdso => {
                    "stripped: only exported functions have names"
                }
                _ => "",
            };
            (loaded.rank(), functions, reason)
        }
        TableState::Unavailable(reason) => (0, 0, &**reason),
    };
    let remedy = if reason.is_empty() {
        ""
    } else {
        remedy(object.identity.kind)
    };
    Some(v1::SymbolsDef {
        mapping_id: mapping.0,
        rank: u32::from(rank),
        functions,
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    })
}

fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::BuildId | Kind::Content => {
            "memwide symbols add FILE, with its debug file or the file before it was stripped"
        }
        Kind::Kernel => {
            "give the collector CAP_SYSLOG, or set kernel.kptr_restrict to 0 or 1; memwide symbols add VMLINUX names what is stored"
        }
        Kind::Module => {
            "give the collector CAP_SYSLOG, or set kernel.kptr_restrict to 0 or 1; memwide symbols add NAME.ko names what is stored"
        }
        Kind::Jit => {
            "start the runtime so that it writes /tmp/perf-PID.map: node --perf-basic-prof, java with -XX:+DumpPerfMapAtExit or an agent"
        }
        Kind::Path => {
            "link the program with a build id (-Wl,--build-id), or keep its file where it was while it runs"
        }
        Kind::Vdso | Kind::Bpf | Kind::Unknown => "",
    }
}

/// Tells versions of one definition apart.
pub(super) fn detail(of: &v1::SymbolsDef) -> u64 {
    ContentHash::of("symbols")
        .number(u64::from(of.rank))
        .number(of.functions)
        .bytes(of.reason.as_bytes())
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::symbols::{Objects, What};
    use crate::table::Loaded;
    use memwide_objects::{Flags, Segments, Symbol, SymbolTable, Symbols, SymbolsBuilder};
    use std::sync::Arc;

    fn told(source: Option<Source>) -> (u32, String, String) {
        let mut objects = Objects::default();
        let identity = Identity::new(Kind::BuildId, &[5; 20], "/bin/prog");
        let at = objects.intern(identity, What::File, 0).unwrap();
        let object = objects.get(at).unwrap();
        let mut builder = SymbolsBuilder::default();
        if let Some(source) = source {
            builder.push(Symbol {
                start: 1,
                size: 1,
                name: "a",
                source,
                flags: Flags::NONE,
            });
        }
        let table =
            SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default());
        let loaded = Loaded::new(table, object.mapping, Kind::BuildId);
        let state = TableState::Present(Arc::new(loaded));
        let found = symbols_of(object.mapping, object, &state).unwrap();
        (found.rank, found.reason, found.remedy)
    }

    #[test]
    fn whoever_lacks_names_is_told_why_and_what_helps() {
        for (source, rank, why) in [
            (None, 0, "neither symbols"),
            (Some(Source::None), 0, "starts of functions are known"),
            (Some(Source::DynSym), 1, "only exported"),
        ] {
            let (found, reason, remedy) = told(source);
            assert_eq!(found, rank);
            assert!(reason.contains(why), "{reason}");
            assert!(remedy.contains("memwide symbols add"), "{remedy}");
        }
        assert_eq!(
            told(Some(Source::SymTab)),
            (2, String::new(), String::new())
        );
    }
}

//! Tables that a person brings: checked as those of collectors, kept for all decoders, told to what was stored before.

use super::tables::Tables;
use super::{Shared, history};
use crate::identity::{Identity, Kind};
use crate::table::Loaded;
use memwide_model::MappingId;
use memwide_objects::WireError;
use memwide_proto::limits::SYMBOL_TABLE_BYTES_MAX;
use memwide_proto::v1;
use memwide_proto::v1::names_server::Names;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};
use xxhash_rust::xxh3::xxh3_64;

/// Serves `Names`.
pub(super) struct NamesService {
    pub(super) shared: Arc<Shared>,
}

/// What came, checked.
struct Brought {
    mapping: MappingId,
    kind: Kind,
    identity: v1::MappingIdentity,
    bytes: Vec<u8>,
}

async fn receive(mut pieces: Streaming<v1::NamesPiece>) -> Result<Brought, Status> {
    let wrong = |text: String| Status::invalid_argument(text);
    let first = pieces.message().await?;
    let first = first.ok_or_else(|| wrong("nothing came".to_owned()))?;
    let identity = first.identity.clone().unwrap_or_default();
    let kind = Kind::of_wire(identity.kind);
    let is_known = matches!(
        kind,
        Kind::BuildId | Kind::Content | Kind::Kernel | Kind::Module
    );
    if identity.id.is_empty() || !is_known {
        return Err(wrong(
            "the table is of no file with a build id or a content hash, and of no kernel"
                .to_owned(),
        ));
    }
    let (total, checksum) = (first.total_bytes, first.checksum);
    if total > SYMBOL_TABLE_BYTES_MAX {
        return Err(wrong(format!(
            "the table has {total} bytes, at most {SYMBOL_TABLE_BYTES_MAX} are taken"
        )));
    }
    let mut bytes = first.data.to_vec();
    while bytes.len() as u64 <= total {
        let Some(piece) = pieces.message().await? else {
            break;
        };
        bytes.extend_from_slice(&piece.data);
    }
    if bytes.len() as u64 != total || xxh3_64(&bytes) != checksum {
        return Err(wrong(format!(
            "what came are not the {total} bytes that were announced"
        )));
    }
    let mapping = Identity::new(kind, &identity.id, &identity.path).mapping_id();
    Ok(Brought {
        mapping,
        kind,
        identity,
        bytes,
    })
}

/// What became of it.
struct Taken {
    loaded: Arc<Loaded>,
    before: u8,
    kept: bool,
}

/// Reads the table and keeps it, if its names are better than what is known. One of a debug file takes the segments of the
/// program from the table that a collector shipped, or waits for that; the kernel's has none and needs none.
fn take(tables: &Tables, brought: &Brought) -> Result<Taken, Status> {
    let (mapping, kind, identity) = (brought.mapping, brought.kind, &brought.identity);
    let table = tables.decode(&brought.bytes);
    let table = table.map_err(|error: WireError| Status::invalid_argument(error.to_string()))?;
    tables.look();
    let before = tables.rank(mapping).unwrap_or_default();
    let mut taken = Taken {
        kept: true,
        before,
        loaded: Arc::new(Loaded::new(table, mapping, kind)),
    };
    if taken.loaded.rank() <= before {
        return Ok(taken);
    }
    // Better names of a few functions are worth less than names of all.
    let names = |loaded: &Loaded| loaded.table().functions().len();
    let known = tables.find(mapping, kind).map(|(known, _)| known);
    let more = known.as_deref().map_or(0, names);
    if before > 0 && more > names(&taken.loaded).saturating_mul(2) {
        return Err(Status::failed_precondition(format!(
            "it names {} functions, and {more} have names already: is it the whole file?",
            names(&taken.loaded)
        )));
    }
    if let (Kind::Module, Some(known)) = (kind, &known) {
        return take_module(tables, brought, taken, known);
    }
    if taken.loaded.table().holds_code() || matches!(kind, Kind::Kernel | Kind::Module) {
        let committed = tables.commit(mapping, identity, &taken.loaded, &brought.bytes);
        taken.kept = committed.kept;
        return Ok(taken);
    }
    let Some(base) = known else {
        let rank = taken.loaded.rank();
        taken.kept = tables.put_names(mapping, identity, rank, &brought.bytes);
        return Ok(taken);
    };
    let names = taken.loaded.table().clone();
    let (named, committed) = tables.commit_named(mapping, kind, identity, names, &base);
    (taken.loaded, taken.kept) = (named, committed.kept);
    Ok(taken)
}

/// Better names of a module that is loaded somewhere: its file says where its code lies, kallsyms knows, and has its data.
fn take_module(
    tables: &Tables,
    brought: &Brought,
    mut taken: Taken,
    known: &Loaded,
) -> Result<Taken, Status> {
    let (mapping, kind, identity) = (brought.mapping, brought.kind, &brought.identity);
    let table = taken.loaded.table();
    if !table.is_laid_out_as(known.table()) {
        return Err(Status::failed_precondition(format!(
            "its functions lie elsewhere than those of {} where it is loaded; the names of its kallsyms stay",
            identity.path
        )));
    }
    let table = table.clone().with_objects_of(known.table());
    let (named, committed) = tables.commit_named(mapping, kind, identity, table, known);
    (taken.loaded, taken.kept) = (named, committed.kept);
    Ok(taken)
}

#[tonic::async_trait]
impl Names for NamesService {
    async fn add(
        &self,
        request: Request<Streaming<v1::NamesPiece>>,
    ) -> Result<Response<v1::NamesAdded>, Status> {
        let brought = receive(request.into_inner()).await?;
        let (mapping, kind) = (brought.mapping, brought.kind);
        let tables = Arc::clone(&self.shared.tables);
        let work = tokio::task::spawn_blocking(move || take(&tables, &brought));
        let taken = work
            .await
            .map_err(|_| Status::internal("reading the table broke off"))?;
        let taken = taken?;
        let (rank, before) = (taken.loaded.rank(), taken.before);
        let told = if rank > before {
            history::tell_table(&self.shared, mapping, &taken.loaded).await
        } else {
            history::tell(&self.shared, mapping, kind).await
        };
        let functions = told.map_err(|error| Status::unavailable(error.to_string()))?;
        tracing::info!(%mapping, rank, before, functions, "a person brought symbols");
        Ok(Response::new(v1::NamesAdded {
            mapping_id: mapping.0,
            rank: u32::from(rank),
            rank_before: u32::from(before),
            functions,
            kept: taken.kept,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_objects::{Flags, Segments, Source, Symbol, SymbolTable, Symbols, SymbolsBuilder};

    fn brought(functions: u64, source: Source) -> Brought {
        let mut builder = SymbolsBuilder::default();
        for at in 0..functions {
            builder.push(Symbol {
                start: 0x100 + at * 0x40,
                size: 0x40,
                name: "some",
                source,
                flags: Flags::NONE,
            });
        }
        let table =
            SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default());
        Brought {
            mapping: MappingId(7),
            kind: Kind::Kernel,
            identity: v1::MappingIdentity::default(),
            bytes: table.encode(),
        }
    }

    #[test]
    fn better_names_of_a_few_functions_do_not_take_the_place_of_many() {
        let folder = tempfile::tempdir().unwrap();
        let tables = Tables::new(folder.path(), 1 << 20).unwrap();
        let whole = take(&tables, &brought(100, Source::DynSym)).unwrap();
        assert_eq!((whole.before, whole.loaded.rank()), (0, 1));
        let few = take(&tables, &brought(9, Source::SymTab)).err().unwrap();
        assert!(
            few.message().contains("names 9 functions, and 100"),
            "{few}"
        );
        let most = take(&tables, &brought(80, Source::SymTab)).unwrap();
        assert_eq!((most.before, most.loaded.rank()), (1, 2));
    }
}

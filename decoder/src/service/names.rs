//! Tables that a person brings: checked as those of collectors, kept for all decoders, told to what was stored before.

use super::{Shared, history};
use crate::identity::{Identity, Kind};
use crate::table::Loaded;
use memwide_model::MappingId;
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
    if identity.id.is_empty() || !matches!(kind, Kind::BuildId | Kind::Content) {
        return Err(wrong(
            "the table is of no file with a build id or a content hash".to_owned(),
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

#[tonic::async_trait]
impl Names for NamesService {
    async fn add(
        &self,
        request: Request<Streaming<v1::NamesPiece>>,
    ) -> Result<Response<v1::NamesAdded>, Status> {
        let brought = receive(request.into_inner()).await?;
        let (mapping, kind) = (brought.mapping, brought.kind);
        let tables = Arc::clone(&self.shared.tables);
        let work = tokio::task::spawn_blocking(move || {
            let table = tables.decode(&brought.bytes)?;
            let loaded = Arc::new(Loaded::new(table, mapping, kind));
            tables.look();
            let before = tables.rank(mapping).unwrap_or_default();
            let rank = loaded.rank();
            let is_better = rank > before;
            let kept = is_better
                && tables
                    .commit(mapping, &brought.identity, &loaded, &brought.bytes)
                    .kept;
            // It stays in memory while it is told.
            Ok::<_, memwide_objects::WireError>((loaded, rank, before, is_better, kept))
        });
        let done = work
            .await
            .map_err(|_| Status::internal("reading the table broke off"))?;
        let (_loaded, rank, before, is_better, kept) =
            done.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let told = history::tell(&self.shared, mapping, kind).await;
        let functions = told.map_err(|error| Status::unavailable(error.to_string()))?;
        tracing::info!(%mapping, rank, before, functions, "a person brought symbols");
        Ok(Response::new(v1::NamesAdded {
            mapping_id: mapping.0,
            rank: u32::from(rank),
            rank_before: u32::from(before),
            functions,
            kept: kept || !is_better,
        }))
    }
}

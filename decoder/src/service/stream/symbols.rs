//! Symbol tables of a stream: asked for, shipped, waited for, replaced by better ones.

use super::{End, Served, Waiting};
use crate::metrics::{self, TableEnd};
use crate::service::parcels::Arrived;
use crate::service::shelf::Half;
use crate::service::wanted::{self, Next};
use crate::service::{history, job};
use crate::session::Want;
use memwide_model::MappingId;
use memwide_proto::v1;
use memwide_proto::v1::decoder_message::Message as ToCollector;
use std::sync::Arc;
use tokio::time::Instant;

impl Served {
    /// Sees to it that tables come; the first batch of the queue waits for them.
    pub(super) async fn wait_for(&mut self, wants: Vec<Want>) -> Result<(), End> {
        let tables = wants.iter().map(|want| want.mapping).collect();
        for want in wants {
            self.session().table_requested(want.mapping);
            self.wanted.add(want);
        }
        self.waiting = Some(Waiting {
            tables,
            until: Instant::now() + self.shared.config.symbol_wait(),
        });
        self.decide().await
    }

    /// Takes what is there by now, and asks the collector for what it is this stream's turn to ship.
    pub(super) async fn decide(&mut self) -> Result<(), End> {
        let undecided = self.wanted.undecided();
        if undecided.is_empty() {
            return Ok(());
        }
        let tables = Arc::clone(&self.shared.tables);
        let (there, asks) = self
            .on_worker(move |work| {
                let (mut there, mut asks) = (Vec::new(), Vec::new());
                for next in wanted::decide(&tables, undecided) {
                    match next {
                        // Gone again: it is decided anew.
                        Next::There(want) => {
                            if job::find_one(&mut work.session, &tables, &want) {
                                there.push(want.mapping);
                            }
                        }
                        Next::Ask(want, half) => asks.push((want, half)),
                    }
                }
                (there, asks)
            })
            .await?;
        for mapping in there {
            self.wanted.close(mapping);
        }
        for (want, half) in asks {
            self.wanted.is_ours(want.mapping);
            self.ask(want, half).await?;
        }
        self.tell_late();
        Ok(())
    }

    async fn ask(&mut self, want: Want, half: Option<Half>) -> Result<(), End> {
        metrics::TABLES.add(TableEnd::Asked, 1);
        let mapping = want.mapping;
        let Some(request) = self.parcels.ask(mapping, half) else {
            self.wanted.close(mapping);
            return Ok(());
        };
        let (offset, checksum) = self.parcels.resumes(request);
        if offset > 0 {
            metrics::TABLES.add(TableEnd::Resumed, 1);
        }
        self.answer(ToCollector::Symbols(v1::SymbolRequest {
            request,
            identity: Some(want.identity),
            pid: want.pid,
            start: want.start,
            end: want.end,
            file: want.file,
            offset,
            checksum,
            jit_dump: want.jit_dump.map(String::from).unwrap_or_default(),
        }))
        .await
    }

    /// Looks for tables that others ship, and for better ones than those in use.
    pub(super) async fn look(&mut self) -> Result<(), End> {
        if self.wanted.waits_for_others() {
            if self.wanted.undecided().iter().any(Want::is_shared) {
                let tables = Arc::clone(&self.shared.tables);
                self.on_worker(move |_| tables.look()).await?;
            }
            self.decide().await?;
        }
        if std::mem::take(&mut self.outdated) {
            let tables = Arc::clone(&self.shared.tables);
            self.on_worker(move |work| job::improve(&mut work.session, &tables))
                .await?;
            self.tell_late();
        }
        Ok(())
    }

    /// Takes a piece of a table.
    pub(super) async fn take_symbols(&mut self, chunk: v1::SymbolChunk) -> Result<(), End> {
        let identity = chunk.identity.clone();
        let (of, data) = ((chunk.checksum, chunk.total_bytes), chunk.data.clone());
        match self.parcels.receive(chunk) {
            Arrived::Nothing => Ok(()),
            Arrived::Piece(mapping, offset) => {
                let tables = Arc::clone(&self.shared.tables);
                if !self.wanted.is_shared(mapping) {
                    return Ok(());
                }
                self.on_worker(move |_| tables.progress(mapping, of, offset, &data))
                    .await
            }
            Arrived::Unavailable(mapping, reason) => {
                metrics::TABLES.add(TableEnd::Unavailable, 1);
                self.session().table_unavailable(mapping, &reason);
                self.release(mapping).await?;
                self.decide().await
            }
            Arrived::Refused(mapping, reason) => {
                metrics::TABLES.add(TableEnd::Refused, 1);
                tracing::warn!(source = %self.source, %mapping, reason, "a collector sent a broken symbol table");
                self.session().table_unavailable(mapping, &reason);
                let tables = Arc::clone(&self.shared.tables);
                self.on_worker(move |_| tables.spoiled(mapping)).await?;
                self.release(mapping).await?;
                self.decide().await
            }
            Arrived::Table(mapping, bytes) => {
                let tables = Arc::clone(&self.shared.tables);
                let (is_own, next) = (!self.wanted.is_shared(mapping), self.order.next());
                let mut archive = self.archive.take();
                let (archive, better) = self
                    .on_worker(move |work| {
                        if let Some(archive) = archive.as_mut().filter(|_| is_own) {
                            archive.symbols(next, mapping, identity.as_ref(), &bytes);
                        }
                        let better = job::take(
                            &mut work.session,
                            &tables,
                            mapping,
                            identity.as_ref(),
                            &bytes,
                        );
                        (archive, better)
                    })
                    .await?;
                self.archive = archive;
                self.release(mapping).await?;
                if let Some(better) = better {
                    history::tell_later(&self.shared, better, better);
                }
                self.tell_late();
                self.decide().await
            }
        }
    }

    /// This stream does not ship a table any more.
    async fn release(&mut self, mapping: MappingId) -> Result<(), End> {
        let wanted = self.wanted.take(mapping);
        let tables = Arc::clone(&self.shared.tables);
        if wanted.is_some_and(|(want, is_ours)| is_ours && want.is_shared()) {
            self.on_worker(move |_| tables.done(mapping)).await?;
        }
        Ok(())
    }

    /// Samples went on without these tables: their names are told to what was stored meanwhile.
    fn tell_late(&mut self) {
        for (stored_as, mapping) in self.session().take_late() {
            history::tell_later(&self.shared, stored_as, mapping);
        }
    }
}

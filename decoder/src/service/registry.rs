//! Which stream has which source: the newest wins. State of a source outlives its stream for a while.

use crate::session::Session;
use memwide_model::Source;
use memwide_service::{CancellationToken, clock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;

/// State of a source; `None` before its first stream, and after a decode that broke.
type Slot = Arc<tokio::sync::Mutex<Option<Box<Session>>>>;

#[derive(Debug)]
struct Entry {
    slot: Slot,
    /// Cancelled when a newer stream of the source comes.
    replaced: CancellationToken,
    /// When the last stream ended; `None` while one is open.
    left: Option<Instant>,
    /// Counts streams, so that an older one does not mark a newer one's end.
    generation: u64,
}

/// All sources of this process.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Mutex<HashMap<Source, Entry>>,
    keep: Duration,
    kept: usize,
}

/// The right to serve a source, until dropped or replaced.
#[derive(Debug)]
pub(super) struct Seat {
    registry: Arc<Registry>,
    source: Source,
    generation: u64,
    /// Cancelled when a newer stream of the source has come.
    pub(super) replaced: CancellationToken,
    state: OwnedMutexGuard<Option<Box<Session>>>,
}

impl Registry {
    pub(super) fn new(keep: Duration, kept: usize) -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::default(),
            keep,
            kept,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Source, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets states that were left too long ago: nobody may ever come again.
    pub(super) fn sweep(&self) {
        forget(&mut self.lock(), self.keep, self.kept, clock::instant());
    }

    /// Takes the source over from an older stream, which is told, and waits until that has let go.
    pub(super) async fn sit(self: &Arc<Self>, source: Source) -> Seat {
        let replaced = CancellationToken::new();
        let (slot, generation) = {
            let mut entries = self.lock();
            forget(&mut entries, self.keep, self.kept, clock::instant());
            let entry = entries.entry(source).or_insert_with(|| Entry {
                slot: Slot::default(),
                replaced: replaced.clone(),
                left: None,
                generation: 0,
            });
            if entry.generation > 0 {
                entry.replaced.cancel();
            }
            entry.replaced = replaced.clone();
            entry.left = None;
            entry.generation += 1;
            (Arc::clone(&entry.slot), entry.generation)
        };
        Seat {
            registry: Arc::clone(self),
            source,
            generation,
            replaced,
            state: slot.lock_owned().await,
        }
    }
}

/// Forgets states that were left too long ago, and the oldest beyond `kept`.
fn forget(entries: &mut HashMap<Source, Entry>, keep: Duration, kept: usize, now: Instant) {
    entries.retain(|_, entry| {
        entry
            .left
            .is_none_or(|left| now.duration_since(left) < keep)
    });
    let mut idle: Vec<_> = entries
        .iter()
        .filter_map(|(source, entry)| Some((entry.left?, *source)))
        .collect();
    if idle.len() > kept {
        idle.sort_unstable();
        for (_, source) in &idle[..idle.len() - kept] {
            entries.remove(source);
        }
    }
}

impl Seat {
    /// The state, made where there is none.
    pub(super) fn get_or_insert_with(
        &mut self,
        make: impl FnOnce() -> Box<Session>,
    ) -> &mut Session {
        self.state.get_or_insert_with(make)
    }

    /// Takes the state out, for work elsewhere; put it back with [`Seat::put`].
    pub(super) fn take(&mut self) -> Option<Box<Session>> {
        self.state.take()
    }

    /// Puts the state back.
    pub(super) fn put(&mut self, session: Box<Session>) {
        *self.state = Some(session);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut entries = self.registry.lock();
        if let Some(entry) = entries.get_mut(&self.source)
            && entry.generation == self.generation
        {
            entry.left = Some(clock::instant());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_model::{BootId, HostId};

    fn source(epoch: u64) -> Source {
        Source {
            host: HostId([1; 16]),
            boot: BootId([2; 16]),
            epoch,
        }
    }

    #[tokio::test]
    async fn the_newest_stream_of_a_source_replaces_the_older_and_gets_its_state() {
        let registry = Registry::new(Duration::from_mins(1), 8);
        let mut first = registry.sit(source(1)).await;
        first.put(Box::new(Session::new(&source(1), "host")));
        let second = tokio::spawn({
            let registry = Arc::clone(&registry);
            async move { registry.sit(source(1)).await }
        });
        first.replaced.cancelled().await;
        assert!(!second.is_finished(), "two streams hold one source");
        drop(first);
        let mut second = second.await.unwrap();
        assert!(second.take().is_some());
        assert!(!second.replaced.is_cancelled());
    }

    #[tokio::test]
    async fn states_are_forgotten_though_nobody_comes() {
        let registry = Registry::new(Duration::ZERO, 8);
        let mut seat = registry.sit(source(1)).await;
        seat.put(Box::new(Session::new(&source(1), "host")));
        registry.sweep();
        assert_eq!(registry.lock().len(), 1, "its stream is there");
        drop(seat);
        registry.sweep();
        assert_eq!(registry.lock().len(), 0);
    }

    #[tokio::test]
    async fn states_beyond_the_bound_are_forgotten_oldest_first() {
        let registry = Registry::new(Duration::from_mins(1), 1);
        for epoch in 1..=3 {
            let mut seat = registry.sit(source(epoch)).await;
            seat.put(Box::new(Session::new(&source(epoch), "host")));
        }
        let mut newest = registry.sit(source(3)).await;
        assert!(newest.take().is_some());
        let mut oldest = registry.sit(source(1)).await;
        assert!(oldest.take().is_none());
    }
}

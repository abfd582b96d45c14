//! Channels bounded in bytes.
//!
//! Items of a profiler differ in size by three orders of magnitude, so a bound in items is either
//! no bound or no use. Here a sender waits until the bytes of its item fit. An item heavier than
//! the whole queue passes alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};

/// Something with a size in memory.
pub trait Weigh {
    /// Bytes this item keeps alive while it waits.
    fn weight_bytes(&self) -> usize;
}

impl Weigh for Vec<u8> {
    fn weight_bytes(&self) -> usize {
        self.len()
    }
}

/// Both bounds of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that may wait.
    pub bytes: usize,
    /// Items that may wait, whatever their size: bounds what the queue itself costs.
    pub items: usize,
}

/// What went through a queue so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// Items sent.
    pub in_items: u64,
    /// Bytes sent.
    pub in_bytes: u64,
    /// Items received.
    pub out_items: u64,
    /// Bytes received.
    pub out_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    room: Arc<Semaphore>,
    capacity: u32,
    in_items: AtomicU64,
    in_bytes: AtomicU64,
    out_items: AtomicU64,
    out_bytes: AtomicU64,
}

impl Shared {
    fn flow(&self) -> Flow {
        // ATOMICS: statistics only, nothing is ordered by them.
        Flow {
            in_items: self.in_items.load(Ordering::Relaxed),
            in_bytes: self.in_bytes.load(Ordering::Relaxed),
            out_items: self.out_items.load(Ordering::Relaxed),
            out_bytes: self.out_bytes.load(Ordering::Relaxed),
        }
    }
}

struct Parcel<T> {
    item: T,
    bytes: u64,
    permit: OwnedSemaphorePermit,
}

/// Why an item was not queued; it comes back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// No room now.
    #[error("queue is full")]
    Full(T),
    /// Nobody receives any more.
    #[error("queue is closed")]
    Closed(T),
}

/// Nobody receives any more; the item comes back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue is closed")]
pub struct SendError<T>(pub T);

/// The sending end; clones share the bounds.
#[derive(Debug)]
pub struct Sender<T> {
    parcels: mpsc::Sender<Parcel<T>>,
    shared: Arc<Shared>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            parcels: self.parcels.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> std::fmt::Debug for Parcel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parcel")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    parcels: mpsc::Receiver<Parcel<T>>,
    shared: Arc<Shared>,
}

/// An item whose bytes count as waiting until this is dropped.
#[derive(Debug)]
pub struct Held<T> {
    /// The item.
    pub item: T,
    _permit: OwnedSemaphorePermit,
}

/// A queue within `bounds`; each is at least 1, and bytes are at most 4 GiB.
pub fn bounded<T: Weigh>(bounds: Bounds) -> (Sender<T>, Receiver<T>) {
    let capacity = u32::try_from(bounds.bytes.max(1)).unwrap_or(u32::MAX);
    let shared = Arc::new(Shared {
        room: Arc::new(Semaphore::new(capacity as usize)),
        capacity,
        in_items: AtomicU64::new(0),
        in_bytes: AtomicU64::new(0),
        out_items: AtomicU64::new(0),
        out_bytes: AtomicU64::new(0),
    });
    let (sender, receiver) = mpsc::channel(bounds.items.max(1));
    (
        Sender {
            parcels: sender,
            shared: Arc::clone(&shared),
        },
        Receiver {
            parcels: receiver,
            shared,
        },
    )
}

impl<T: Weigh> Sender<T> {
    /// Waits for room; fails only when nobody receives any more.
    pub async fn send(&self, item: T) -> Result<(), SendError<T>> {
        let bytes = item.weight_bytes();
        let room = Arc::clone(&self.shared.room);
        let permit = tokio::select! {
            permit = room.acquire_many_owned(self.permits(bytes)) => permit,
            () = self.parcels.closed() => return Err(SendError(item)),
        };
        let Ok(permit) = permit else {
            return Err(SendError(item));
        };
        let bytes = bytes as u64;
        let parcel = Parcel {
            item,
            bytes,
            permit,
        };
        match self.parcels.send(parcel).await {
            Ok(()) => {
                self.count(bytes);
                Ok(())
            }
            Err(mpsc::error::SendError(parcel)) => Err(SendError(parcel.item)),
        }
    }

    /// Queues the item if there is room now.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let bytes = item.weight_bytes();
        let room = Arc::clone(&self.shared.room);
        let permit = match room.try_acquire_many_owned(self.permits(bytes)) {
            Ok(permit) => permit,
            Err(_) if self.parcels.is_closed() => return Err(TrySendError::Closed(item)),
            Err(TryAcquireError::NoPermits) => return Err(TrySendError::Full(item)),
            Err(TryAcquireError::Closed) => return Err(TrySendError::Closed(item)),
        };
        let bytes = bytes as u64;
        let parcel = Parcel {
            item,
            bytes,
            permit,
        };
        match self.parcels.try_send(parcel) {
            Ok(()) => {
                self.count(bytes);
                Ok(())
            }
            Err(mpsc::error::TrySendError::Full(parcel)) => Err(TrySendError::Full(parcel.item)),
            Err(mpsc::error::TrySendError::Closed(parcel)) => {
                Err(TrySendError::Closed(parcel.item))
            }
        }
    }

    /// As [`Sender::send`], for threads outside the runtime.
    pub fn send_blocking(
        &self,
        runtime: &tokio::runtime::Handle,
        item: T,
    ) -> Result<(), SendError<T>> {
        runtime.block_on(self.send(item))
    }

    fn permits(&self, bytes: usize) -> u32 {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        bytes.clamp(1, self.shared.capacity)
    }

    fn count(&self, bytes: u64) {
        // ATOMICS: statistics only.
        self.shared.in_items.fetch_add(1, Ordering::Relaxed);
        self.shared.in_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl<T> Sender<T> {
    /// Bytes waiting, items being sent included.
    pub fn waiting_bytes(&self) -> usize {
        self.shared.capacity as usize - self.shared.room.available_permits()
    }

    /// What went through so far.
    pub fn flow(&self) -> Flow {
        self.shared.flow()
    }

    /// Whether nobody receives any more.
    pub fn is_closed(&self) -> bool {
        self.parcels.is_closed()
    }
}

impl<T> Receiver<T> {
    /// The next item; its bytes are free at once. `None` when all senders are gone.
    pub async fn recv(&mut self) -> Option<T> {
        self.recv_held().await.map(|held| held.item)
    }

    /// The next item; its bytes count as waiting until the answer is dropped.
    pub async fn recv_held(&mut self) -> Option<Held<T>> {
        let parcel = self.parcels.recv().await?;
        Some(self.open(parcel))
    }

    /// The next item if one is waiting.
    pub fn try_recv(&mut self) -> Option<T> {
        let parcel = self.parcels.try_recv().ok()?;
        Some(self.open(parcel).item)
    }

    /// As [`Receiver::recv`], for threads outside the runtime.
    pub fn recv_blocking(&mut self) -> Option<T> {
        let parcel = self.parcels.blocking_recv()?;
        Some(self.open(parcel).item)
    }

    /// Refuses further items; those waiting can still be received.
    pub fn close(&mut self) {
        self.parcels.close();
    }

    /// What went through so far.
    pub fn flow(&self) -> Flow {
        self.shared.flow()
    }

    fn open(&self, parcel: Parcel<T>) -> Held<T> {
        // ATOMICS: statistics only.
        self.shared.out_items.fetch_add(1, Ordering::Relaxed);
        self.shared
            .out_bytes
            .fetch_add(parcel.bytes, Ordering::Relaxed);
        Held {
            item: parcel.item,
            _permit: parcel.permit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn queue(bytes: usize) -> (Sender<Vec<u8>>, Receiver<Vec<u8>>) {
        bounded(Bounds { bytes, items: 100 })
    }

    #[tokio::test]
    async fn bytes_that_do_not_fit_are_refused_and_come_back() {
        let (sender, mut receiver) = queue(10);
        sender.try_send(vec![1; 6]).unwrap();
        let refused = sender.try_send(vec![2; 5]);
        assert_eq!(refused, Err(TrySendError::Full(vec![2; 5])));
        assert_eq!(sender.waiting_bytes(), 6);
        assert_eq!(receiver.recv().await, Some(vec![1; 6]));
        sender.try_send(vec![2; 5]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_waits_for_room() {
        let (sender, mut receiver) = queue(10);
        sender.send(vec![1; 10]).await.unwrap();
        let pause = Duration::from_secs(1);
        let waited = tokio::time::timeout(pause, sender.send(vec![2; 1])).await;
        assert!(waited.is_err(), "sent into a full queue");
        receiver.recv().await.unwrap();
        sender.send(vec![2; 1]).await.unwrap();
    }

    #[tokio::test]
    async fn an_item_heavier_than_the_queue_passes_alone() {
        let (sender, mut receiver) = queue(10);
        sender.try_send(vec![0; 1000]).unwrap();
        assert!(sender.try_send(vec![0; 1]).is_err());
        assert_eq!(receiver.recv().await.map(|item| item.len()), Some(1000));
        assert_eq!(sender.waiting_bytes(), 0);
    }

    #[tokio::test]
    async fn a_held_item_keeps_its_bytes_until_dropped() {
        let (sender, mut receiver) = queue(10);
        sender.try_send(vec![0; 10]).unwrap();
        let held = receiver.recv_held().await.unwrap();
        assert!(sender.try_send(vec![0; 1]).is_err());
        drop(held);
        sender.try_send(vec![0; 1]).unwrap();
    }

    #[tokio::test]
    async fn the_flow_counts_both_ends() {
        let (sender, mut receiver) = queue(100);
        sender.send(vec![0; 30]).await.unwrap();
        sender.send(vec![0; 12]).await.unwrap();
        receiver.recv().await.unwrap();
        let expected = Flow {
            in_items: 2,
            in_bytes: 42,
            out_items: 1,
            out_bytes: 30,
        };
        assert_eq!(sender.flow(), expected);
    }

    #[tokio::test]
    async fn a_waiting_sender_learns_that_nobody_receives() {
        let (sender, receiver) = queue(10);
        sender.send(vec![0; 10]).await.unwrap();
        let (sent, ()) = tokio::join!(sender.send(vec![7]), async move { drop(receiver) });
        assert_eq!(sent, Err(SendError(vec![7])));
        let refused = sender.try_send(vec![7]);
        assert!(matches!(refused, Err(TrySendError::Closed(_))));
    }

    #[tokio::test]
    async fn the_end_comes_after_all_items() {
        let (sender, mut receiver) = queue(10);
        sender.send(vec![1]).await.unwrap();
        drop(sender);
        assert_eq!(receiver.recv().await, Some(vec![1]));
        assert_eq!(receiver.recv().await, None);
    }
}

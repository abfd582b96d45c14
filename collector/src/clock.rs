//! Perf's clock and the wall clock: anchors that tie them together.
//!
//! Perf's own clock (no `clockid`: it would switch multi-record PEBS off) cannot be read from outside of the kernel. But a
//! thread that renames itself makes the kernel write a COMM record with perf's time. The wall clock read before and
//! after bounds that moment: exact to half the distance, a few microseconds, on every machine.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use memwide_perf_abi::{Records, TrailerLayout, kind};
use memwide_proto::v1::ClockAnchor;
use memwide_service::clock::{monotonic_ns, unix_ns};

/// Renames a request makes; the one with the narrowest window counts.
const TRIES: u32 = 4;

/// A rename waiting to be found in a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    tid: u32,
    /// The new name, at most 15 bytes.
    name: String,
    wall_before_ns: u64,
    wall_after_ns: u64,
    monotonic_ns: u64,
}

/// A moment on three clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "units stand in names")]
pub(crate) struct Anchor {
    pub(crate) perf_ns: u64,
    pub(crate) wall_ns: u64,
    pub(crate) uncertainty_ns: u64,
    monotonic_ns: u64,
}

impl Anchor {
    /// An anchor of now.
    #[cfg(test)]
    pub(crate) fn for_tests(perf_ns: u64) -> Self {
        Self {
            perf_ns,
            wall_ns: unix_ns(),
            uncertainty_ns: 1,
            monotonic_ns: monotonic_ns(),
        }
    }

    /// Perf's time now, for records that stand in for the kernel's. Off by what the clocks drift since the anchor.
    pub(crate) fn perf_now(&self) -> u64 {
        let since = monotonic_ns().saturating_sub(self.monotonic_ns);
        self.perf_ns.saturating_add(since)
    }
}

impl From<&Anchor> for ClockAnchor {
    fn from(anchor: &Anchor) -> Self {
        Self {
            perf_ns: anchor.perf_ns,
            wall_ns: anchor.wall_ns,
            uncertainty_ns: anchor.uncertainty_ns,
        }
    }
}

/// The thread that renames itself. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Namer {
    ask: SyncSender<()>,
    markers: Receiver<Marker>,
}

impl Namer {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (ask, asked) = sync_channel::<()>(1);
        let (found, markers) = sync_channel(1);
        std::thread::Builder::new()
            .name("mw-clock".to_owned())
            .spawn(move || {
                let tid = rustix::thread::gettid()
                    .as_raw_nonzero()
                    .get()
                    .unsigned_abs();
                let mut number = 0_u32;
                while asked.recv().is_ok() {
                    let mut best: Option<Marker> = None;
                    for _ in 0..TRIES {
                        number = number.wrapping_add(1);
                        if let Some(marker) = rename(tid, number)
                            && best
                                .as_ref()
                                .is_none_or(|best| marker.width() < best.width())
                        {
                            best = Some(marker);
                        }
                    }
                    if best.is_none_or(|best| found.send(best).is_err()) {
                        return;
                    }
                }
            })?;
        Ok(Self { ask, markers })
    }

    /// Makes a marker; `None` when the thread cannot rename itself.
    pub(crate) fn mark(&self) -> Option<Marker> {
        self.ask.send(()).ok()?;
        self.markers.recv().ok()
    }
}

fn rename(tid: u32, number: u32) -> Option<Marker> {
    let name = format!("mw-clk{number:08x}");
    let c_name = std::ffi::CString::new(name.as_str()).ok()?;
    let monotonic_before = monotonic_ns();
    let wall_before_ns = unix_ns();
    let renamed = rustix::thread::set_name(&c_name);
    let wall_after_ns = unix_ns();
    let monotonic_after = monotonic_ns();
    // A wall clock that was set back in between gives no window.
    (renamed.is_ok() && wall_after_ns >= wall_before_ns).then(|| Marker {
        tid,
        name,
        wall_before_ns,
        wall_after_ns,
        monotonic_ns: monotonic_before.midpoint(monotonic_after),
    })
}

impl Marker {
    /// The thread that renamed itself.
    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    fn width(&self) -> u64 {
        self.wall_after_ns - self.wall_before_ns
    }

    /// Looks for the rename among side-band records.
    pub(crate) fn find(&self, side_band: &[u8], trailer: TrailerLayout) -> Option<Anchor> {
        for record in Records::new(side_band) {
            let record = record.ok()?;
            if record.kind != kind::COMM {
                continue;
            }
            let Ok(memwide_perf_abi::Record::Comm(comm)) = memwide_perf_abi::Record::parse(record)
            else {
                continue;
            };
            if comm.tid != self.tid || comm.comm != self.name.as_bytes() {
                continue;
            }
            let perf_ns = trailer.parse(&record).ok()?.time?;
            return Some(Anchor {
                perf_ns,
                wall_ns: self.wall_before_ns.midpoint(self.wall_after_ns),
                uncertainty_ns: self.width().div_ceil(2).max(1),
                monotonic_ns: self.monotonic_ns,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::side_band_layout;
    use memwide_perf_abi::{Comm, Record, SampleId, encode};

    #[test]
    fn a_rename_is_found_by_thread_and_name_and_gives_its_time() {
        let namer = Namer::start().unwrap();
        let marker = namer.mark().unwrap();
        let trailer = side_band_layout().trailer();
        let mut side_band = Vec::new();
        let mut put = |tid, name: &str, time| {
            let comm = Comm {
                pid: std::process::id(),
                tid,
                comm: name.as_bytes(),
                exec: false,
            };
            let id = SampleId {
                time: Some(time),
                ..SampleId::default()
            };
            encode::record(&mut side_band, &Record::Comm(comm), 0, Some((trailer, &id))).unwrap();
        };
        put(marker.tid, "other", 1);
        put(marker.tid + 1, &marker.name, 2);
        put(marker.tid, &marker.name, 3);
        let anchor = marker.find(&side_band, trailer).unwrap();
        assert_eq!(anchor.perf_ns, 3);
        assert!(anchor.wall_ns >= marker.wall_before_ns && anchor.wall_ns <= marker.wall_after_ns);
        assert!(anchor.perf_now() >= 3);
    }

    #[test]
    fn every_marker_has_its_own_name() {
        let namer = Namer::start().unwrap();
        let (one, two) = (namer.mark().unwrap(), namer.mark().unwrap());
        assert_ne!(one.name, two.name);
        assert!(one.name.len() <= 15 && one.wall_after_ns <= two.wall_before_ns);
    }
}

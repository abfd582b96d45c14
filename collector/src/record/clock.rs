//! Where perf's clock and the wall clock stand, from an event on a thread of our own: it needs no rights over others.

use std::io;

use memwide_perf_abi::{SampleLayout, attr_kind};

use crate::clock::{Anchor, Namer};
use crate::events::machine::Machine;
use crate::events::{BASE, DUMMY, base_attr};
use crate::ring::Ring;
use crate::sys::{Descriptor, Place};

/// Renames looked for before giving up.
const TRIES: u32 = 10;

/// An anchor of now, and whether only user mode may be recorded.
pub(super) fn anchor() -> io::Result<(Anchor, bool)> {
    let gone = || io::Error::other("the clock's thread cannot rename itself");
    let namer = Namer::start()?;
    let place = Place {
        pid: Some(namer.mark().ok_or_else(gone)?.tid()),
        cpu: None,
    };
    let mut attr = base_attr(attr_kind::SOFTWARE, DUMMY, BASE);
    attr.flags = attr.flags.with_comm(true);
    let (event, user_only) = match Descriptor::open_at(&attr, place, None) {
        Ok(event) => (event, false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            attr.flags = attr.flags.with_exclude_kernel(true);
            match Descriptor::open_at(&attr, place, None) {
                Ok(event) => (event, true),
                Err(_) => return Err(error),
            }
        }
        // Kernels before 6.0.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attr.read_format = 0;
            (Descriptor::open_at(&attr, place, None)?, false)
        }
        Err(error) => return Err(error),
    };
    let page = Machine::page_size();
    let mut ring = Ring::map(&event, page as u64, page)?;
    let trailer = SampleLayout::new(&attr)
        .map_err(io::Error::other)?
        .trailer();
    event.enable()?;
    let mut records = Vec::new();
    for _ in 0..TRIES {
        let marker = namer.mark().ok_or_else(gone)?;
        records.clear();
        ring.copy_new(&mut records);
        ring.commit();
        if let Some(anchor) = marker.find(&records, trailer) {
            return Ok((anchor, user_only));
        }
    }
    Err(io::Error::other(
        "the kernel records no names: clocks cannot be tied together",
    ))
}

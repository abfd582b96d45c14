//! Perf descriptors: the system calls that no safe wrapper offers. The ring is the only other place with `unsafe`.
#![expect(unsafe_code, reason = "ioctl on perf descriptors")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use memwide_perf_abi::Attr;
use perf_event::events::Software;
use perf_event::{Builder, Counter};
use perf_event_open_sys::bindings::{
    __BindgenBitfieldUnit, PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP, perf_event_attr,
};
use perf_event_open_sys::ioctls;

/// Bytes of the attr that the binding has fields for; also the size recorded in event descriptions.
pub(crate) const ATTR_BYTES: usize = size_of::<perf_event_attr>();

/// Whose events a descriptor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// A task; `None`: all of them, on one CPU.
    pub(crate) pid: Option<u32>,
    /// A CPU; `None`: wherever the task runs.
    pub(crate) cpu: Option<u32>,
}

/// An open event.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OwnedFd,
    /// The kernel's id: word 1 of its samples.
    pub(crate) id: u64,
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Counter> for Descriptor {
    fn from(counter: Counter) -> Self {
        let id = counter.id();
        // SAFETY: `into_raw_fd` gives up the only owner of an open descriptor; it has exactly this new one.
        let fd = unsafe { OwnedFd::from_raw_fd(counter.into_raw_fd()) };
        Self { fd, id }
    }
}

impl Descriptor {
    /// Opens `attr` on `cpu` for every process.
    pub(crate) fn open(attr: &Attr, cpu: u32) -> io::Result<Self> {
        let mut builder = Builder::new(Software::DUMMY);
        builder.any_pid().one_cpu(cpu as usize);
        fill(builder.attrs_mut(), attr);
        Ok(builder.build()?.into())
    }

    /// Opens `attr` in the group that `leader` leads.
    pub(crate) fn open_in_group(attr: &Attr, cpu: u32, leader: &Self) -> io::Result<Self> {
        let place = Place {
            pid: None,
            cpu: Some(cpu),
        };
        Self::open_at(attr, place, Some(leader))
    }

    /// Opens `attr` for the tasks and CPUs of `place`, alone or in the group that `leader` leads.
    pub(crate) fn open_at(attr: &Attr, place: Place, leader: Option<&Self>) -> io::Result<Self> {
        let number = |id: Option<u32>| id.map_or(-1, |id| i32::try_from(id).unwrap_or(i32::MAX));
        let leader = leader.map_or(-1, |leader| leader.fd.as_raw_fd());
        Self::open_raw(attr, number(place.pid), number(place.cpu), leader, 0)
    }

    /// Opens `attr` on a CPU for the tasks of a cgroup, whose folder this is, and of those below it.
    pub(crate) fn open_in_cgroup(attr: &Attr, folder: &impl AsFd, cpu: u32) -> io::Result<Self> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        Self::open_raw(
            attr,
            folder.as_fd().as_raw_fd(),
            cpu,
            -1,
            PERF_FLAG_PID_CGROUP,
        )
    }

    fn open_raw(attr: &Attr, pid: i32, cpu: i32, leader: i32, flags: u32) -> io::Result<Self> {
        let mut builder = Builder::new(Software::DUMMY);
        let kernel_attr = builder.attrs_mut();
        fill(kernel_attr, attr);
        // SAFETY: `kernel_attr` is a whole attr with its own size in it, and lives through the call; what the numbers stand for is
        // the kernel's to check.
        let fd = unsafe {
            perf_event_open_sys::perf_event_open(
                kernel_attr,
                pid,
                cpu,
                leader,
                std::os::raw::c_ulong::from(PERF_FLAG_FD_CLOEXEC | flags),
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut id = 0;
        // SAFETY: the call above gave this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open; the kernel writes one u64 to `id`.
        check(unsafe { ioctls::ID(fd.as_raw_fd(), &raw mut id) })?;
        Ok(Self { fd, id })
    }

    /// Writes what it records into the ring of `leader`, which must be of the same CPU and clock.
    pub(crate) fn share_ring_of(&self, leader: &Self) -> io::Result<()> {
        // SAFETY: both descriptors are open while borrowed; the call takes numbers only.
        check(unsafe { ioctls::SET_OUTPUT(self.fd.as_raw_fd(), leader.fd.as_raw_fd()) })
    }

    /// Starts it.
    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; the call takes numbers only.
        check(unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Changes its period, in events.
    pub(crate) fn set_period(&self, period: u64) -> io::Result<()> {
        let place = (&raw const period).expose_provenance() as u64;
        // SAFETY: the descriptor is open; the kernel reads one u64 at `place`, where `period` lives through the call.
        check(unsafe { ioctls::PERIOD(self.fd.as_raw_fd(), place) })
    }

    /// Has the kernel ask this of a tracepoint's fields before it counts a hit.
    pub(crate) fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is open; the kernel reads a string that ends in 0 and lives through the call.
        check(unsafe { ioctls::SET_FILTER(self.fd.as_raw_fd(), filter.as_ptr().cast_mut()) })
    }

    /// Stops it; what is in its ring stays.
    pub(crate) fn disable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; the call takes numbers only.
        check(unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }
}

/// `FS_IOC_GETVERSION`: `_IOR('v', 1, long)`.
const GET_VERSION: libc::Ioctl = 0x8008_7601;

/// What tells files of one inode number apart, where the file system says it.
pub(crate) fn generation(file: &impl AsFd) -> Option<u32> {
    // File systems write a 32-bit or a long number.
    let mut version = 0_u64;
    // SAFETY: the descriptor is open while borrowed; the kernel writes at most eight bytes to `version`.
    check(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), GET_VERSION, &raw mut version) }).ok()?;
    u32::try_from(version & u64::from(u32::MAX)).ok()
}

fn check(outcome: i32) -> io::Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Copies field by field; the size stays the binding's.
fn fill(to: &mut perf_event_attr, from: &Attr) {
    to.type_ = from.kind;
    to.config = from.config;
    to.__bindgen_anon_1.sample_period = from.sample_period;
    to.sample_type = from.sample_type;
    to.read_format = from.read_format;
    to._bitfield_1 = __BindgenBitfieldUnit::new(from.flags.0.to_le_bytes());
    to.__bindgen_anon_2.wakeup_events = from.wakeup;
    to.bp_type = from.bp_type;
    to.__bindgen_anon_3.config1 = from.config1;
    to.__bindgen_anon_4.config2 = from.config2;
    to.branch_sample_type = from.branch_sample_type;
    to.sample_regs_user = from.sample_regs_user;
    to.sample_stack_user = from.sample_stack_user;
    to.sample_max_stack = from.sample_max_stack;
    to.config3 = from.config3;
}

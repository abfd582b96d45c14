//! The flag bits of `perf_event_attr`, each with a name.

/// The 64 flag bits of an attr; bits without a name are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AttrFlags(pub u64);

macro_rules! flags {
    ($($get:ident, $with:ident = $bit:literal, $text:literal;)*) => {
        impl AttrFlags {
            $(
                #[doc = $text]
                pub fn $get(self) -> bool {
                    self.0 & (1 << $bit) != 0
                }

                #[doc = concat!("Sets or clears `", stringify!($get), "`.")]
                #[must_use]
                pub fn $with(self, on: bool) -> Self {
                    Self(if on { self.0 | (1 << $bit) } else { self.0 & !(1 << $bit) })
                }
            )*
        }
    };
}

flags! {
    disabled, with_disabled = 0, "Off when opened.";
    inherit, with_inherit = 1, "Children inherit it.";
    pinned, with_pinned = 2, "Must always be on the PMU.";
    exclusive, with_exclusive = 3, "Alone on the PMU.";
    exclude_user, with_exclude_user = 4, "Does not count user mode.";
    exclude_kernel, with_exclude_kernel = 5, "Does not count kernel mode.";
    exclude_hv, with_exclude_hv = 6, "Does not count the hypervisor.";
    exclude_idle, with_exclude_idle = 7, "Does not count when idle.";
    mmap, with_mmap = 8, "Writes MMAP records of executable mappings.";
    comm, with_comm = 9, "Writes COMM records.";
    freq, with_freq = 10, "The period field holds a frequency.";
    inherit_stat, with_inherit_stat = 11, "Counts of each task.";
    enable_on_exec, with_enable_on_exec = 12, "Starts at the next exec.";
    task, with_task = 13, "Writes FORK and EXIT records.";
    watermark, with_watermark = 14, "The wakeup field counts bytes.";
    mmap_data, with_mmap_data = 17, "Writes MMAP records of data mappings too.";
    sample_id_all, with_sample_id_all = 18, "Records other than samples end in a sample id.";
    exclude_host, with_exclude_host = 19, "Does not count the host.";
    exclude_guest, with_exclude_guest = 20, "Does not count guests.";
    exclude_callchain_kernel, with_exclude_callchain_kernel = 21, "No kernel frames in callchains.";
    exclude_callchain_user, with_exclude_callchain_user = 22, "No user frames in callchains.";
    mmap2, with_mmap2 = 23, "MMAP2 instead of MMAP records.";
    comm_exec, with_comm_exec = 24, "COMM records say whether an exec caused them.";
    use_clockid, with_use_clockid = 25, "Times are of the clock in the attr.";
    context_switch, with_context_switch = 26, "Writes SWITCH records.";
    write_backward, with_write_backward = 27, "The ring is written backward.";
    namespaces, with_namespaces = 28, "Writes NAMESPACES records.";
    ksymbol, with_ksymbol = 29, "Writes KSYMBOL records.";
    bpf_event, with_bpf_event = 30, "Writes BPF_EVENT records.";
    aux_output, with_aux_output = 31, "Its output goes to the AUX area.";
    cgroup, with_cgroup = 32, "Writes CGROUP records.";
    text_poke, with_text_poke = 33, "Writes TEXT_POKE records.";
    build_id, with_build_id = 34, "MMAP2 records carry build ids.";
    inherit_thread, with_inherit_thread = 35, "Only threads inherit it.";
    remove_on_exec, with_remove_on_exec = 36, "Gone after an exec.";
    sigtrap, with_sigtrap = 37, "Sends SIGTRAP to the task.";
    defer_callchain, with_defer_callchain = 38, "User callchains may come later.";
    defer_output, with_defer_output = 39, "Writes CALLCHAIN_DEFERRED records.";
}

impl AttrFlags {
    /// Skid allowed: 0 any, 1 constant, 2 zero asked for, 3 zero required.
    pub fn precise_ip(self) -> u8 {
        u8::from(self.0 & (1 << 15) != 0) | (u8::from(self.0 & (1 << 16) != 0) << 1)
    }

    /// Sets the skid allowed (0 to 3).
    #[must_use]
    pub fn with_precise_ip(self, precise: u8) -> Self {
        Self((self.0 & !(3 << 15)) | (u64::from(precise & 3) << 15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_set_and_read_at_their_bit() {
        let flags = AttrFlags::default()
            .with_freq(true)
            .with_precise_ip(2)
            .with_mmap_data(true)
            .with_build_id(true);
        assert_eq!(flags.0, 1 << 10 | 1 << 16 | 1 << 17 | 1 << 34);
        assert!(flags.freq() && flags.build_id() && !flags.mmap());
        assert_eq!(
            (flags.precise_ip(), flags.with_precise_ip(1).precise_ip()),
            (2, 1)
        );
        assert_eq!(flags.with_freq(false).0, flags.0 & !(1 << 10));
    }
}

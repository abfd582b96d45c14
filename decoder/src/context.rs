//! In which context a sample was taken: the mode, the task, and the entry frames of kernel chains.

use memwide_model::Context;

/// What the name of a kernel function says, if it is the way into the kernel.
pub(crate) fn entry_context(name: &str) -> Option<Context> {
    const NAMES: [(&str, Context); 53] = [
        ("asm_exc_nmi", Context::Nmi),
        ("exc_nmi", Context::Nmi),
        ("end_repeat_nmi", Context::Nmi),
        ("default_do_nmi", Context::Nmi),
        ("nmi_handle", Context::Nmi),
        ("__do_softirq", Context::Softirq),
        ("do_softirq", Context::Softirq),
        ("handle_softirqs", Context::Softirq),
        ("__softirqentry_text_start", Context::Softirq),
        ("hrtimer_interrupt", Context::Timer),
        ("sysvec_apic_timer_interrupt", Context::Timer),
        ("asm_sysvec_apic_timer_interrupt", Context::Timer),
        ("smp_apic_timer_interrupt", Context::Timer),
        ("apic_timer_interrupt", Context::Timer),
        ("local_apic_timer_interrupt", Context::Timer),
        ("arch_timer_handler_virt", Context::Timer),
        ("arch_timer_handler_phys", Context::Timer),
        ("common_interrupt", Context::Irq),
        ("asm_common_interrupt", Context::Irq),
        ("do_IRQ", Context::Irq),
        ("handle_irq_event", Context::Irq),
        ("ret_from_intr", Context::Irq),
        ("el0_irq", Context::Irq),
        ("el1_irq", Context::Irq),
        ("el0t_64_irq", Context::Irq),
        ("el0t_64_irq_handler", Context::Irq),
        ("el1h_64_irq", Context::Irq),
        ("el1h_64_irq_handler", Context::Irq),
        ("gic_handle_irq", Context::Irq),
        ("asm_exc_page_fault", Context::Fault),
        ("exc_page_fault", Context::Fault),
        ("do_user_addr_fault", Context::Fault),
        ("do_kern_addr_fault", Context::Fault),
        ("do_page_fault", Context::Fault),
        ("page_fault", Context::Fault),
        ("async_page_fault", Context::Fault),
        ("do_mem_abort", Context::Fault),
        ("el0_da", Context::Fault),
        ("el0_ia", Context::Fault),
        ("do_syscall_64", Context::Syscall),
        ("x64_sys_call", Context::Syscall),
        ("entry_SYSCALL_64_after_hwframe", Context::Syscall),
        ("entry_SYSCALL_64", Context::Syscall),
        ("el0_svc", Context::Syscall),
        ("el0_svc_common", Context::Syscall),
        // A new task's way out of the call that made it.
        ("schedule_tail", Context::Syscall),
        ("do_idle", Context::Idle),
        ("cpu_startup_entry", Context::Idle),
        ("default_idle", Context::Idle),
        ("cpuidle_enter", Context::Idle),
        ("cpuidle_enter_state", Context::Idle),
        ("kthread", Context::Kthread),
        ("worker_thread", Context::Kthread),
    ];
    const PREFIXES: [(&str, Context); 8] = [
        ("asm_sysvec_", Context::Irq),
        ("sysvec_", Context::Irq),
        ("__x64_sys_", Context::Syscall),
        ("__ia32_sys_", Context::Syscall),
        ("__arm64_sys_", Context::Syscall),
        ("entry_SYSENTER", Context::Syscall),
        ("entry_INT80", Context::Syscall),
        ("asm_exc_", Context::Fault),
    ];
    let exact = NAMES.iter().find(|(known, _)| *known == name);
    let exact = exact.or_else(|| PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)));
    exact.map(|(_, context)| *context)
}

/// Whose code ran, from the record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The host's kernel.
    Kernel,
    /// A process of the host.
    User,
    /// Kernel or process of a guest.
    Guest,
    /// Hypervisor, or not told.
    Other,
}

impl Mode {
    /// From the low bits of a record's `misc`.
    pub fn of(misc: u16) -> Self {
        use memwide_perf_abi::misc as m;
        match misc & m::CPUMODE_MASK {
            m::KERNEL => Self::Kernel,
            m::USER => Self::User,
            m::GUEST_KERNEL | m::GUEST_USER => Self::Guest,
            _ => Self::Other,
        }
    }
}

/// What is known of the task that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Task {
    /// The idle task of a CPU.
    pub(crate) idle: bool,
    /// A thread of the kernel.
    pub(crate) kthread: bool,
    /// This profiler.
    pub(crate) profiler: bool,
}

/// The context of a sample; `entry` is what the innermost entry frame of its kernel chain said.
pub(crate) fn context(mode: Mode, task: Task, entry: Option<Context>) -> Context {
    match mode {
        Mode::Guest => Context::Guest,
        Mode::Other => Context::Unknown,
        _ if task.profiler => Context::Profiler,
        Mode::User => Context::User,
        Mode::Kernel => match entry {
            // Threads of the kernel make no calls; they too begin where a new task does.
            Some(Context::Syscall) if task.kthread => Context::Kthread,
            // A thread's own start says no more than the task does.
            Some(found) if !matches!(found, Context::Kthread | Context::Idle) => found,
            _ if task.idle => Context::Idle,
            _ if task.kthread => Context::Kthread,
            Some(found) => found,
            None => Context::Kernel,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_are_known_by_name() {
        for (name, context) in [
            ("asm_exc_page_fault", Some(Context::Fault)),
            ("do_syscall_64", Some(Context::Syscall)),
            ("__x64_sys_mmap", Some(Context::Syscall)),
            ("sysvec_apic_timer_interrupt", Some(Context::Timer)),
            ("sysvec_reschedule_ipi", Some(Context::Irq)),
            ("handle_softirqs", Some(Context::Softirq)),
            ("schedule_tail", Some(Context::Syscall)),
            ("clear_page_erms", None),
        ] {
            assert_eq!(entry_context(name), context, "{name}");
        }
    }

    #[test]
    fn the_chain_speaks_before_the_task_and_the_mode_before_both() {
        let idle = Task {
            idle: true,
            ..Task::default()
        };
        let kthread = Task {
            kthread: true,
            ..Task::default()
        };
        let own = Task {
            profiler: true,
            ..Task::default()
        };
        for (mode, task, entry, shown) in [
            (Mode::User, Task::default(), None, Context::User),
            (Mode::User, own, None, Context::Profiler),
            (Mode::Kernel, own, Some(Context::Syscall), Context::Profiler),
            (
                Mode::Kernel,
                Task::default(),
                Some(Context::Fault),
                Context::Fault,
            ),
            (Mode::Kernel, idle, Some(Context::Irq), Context::Irq),
            (Mode::Kernel, idle, Some(Context::Kthread), Context::Idle),
            (
                Mode::Kernel,
                kthread,
                Some(Context::Syscall),
                Context::Kthread,
            ),
            (Mode::Kernel, kthread, None, Context::Kthread),
            (
                Mode::Kernel,
                Task::default(),
                Some(Context::Kthread),
                Context::Kthread,
            ),
            (Mode::Kernel, Task::default(), None, Context::Kernel),
            (Mode::Guest, own, None, Context::Guest),
            (Mode::Other, Task::default(), None, Context::Unknown),
        ] {
            assert_eq!(
                context(mode, task, entry),
                shown,
                "{mode:?} {task:?} {entry:?}"
            );
        }
    }
}

//! Formats of tracepoints, as short as they can be and still mean something.

use std::fmt::Write;

/// Name, fields, what is printed. A field is a C type, a name and its bytes.
type Format = (
    &'static str,
    &'static [(&'static str, &'static str, usize)],
    &'static str,
);

const FORMATS: [Format; 14] = [
    (
        "kmalloc",
        &[
            ("unsigned long", "call_site", 8),
            ("const void *", "ptr", 8),
            ("size_t", "bytes_req", 8),
            ("size_t", "bytes_alloc", 8),
            ("unsigned long", "gfp_flags", 8),
            ("int", "node", 4),
        ],
        "gfp=%s\", __print_flags(REC->gfp_flags, \"|\", {1, \"A\"})",
    ),
    (
        "kmem_cache_free",
        &[
            ("unsigned long", "call_site", 8),
            ("const void *", "ptr", 8),
            ("__data_loc char[]", "name", 4),
        ],
        "name=%s\", __get_str(name)",
    ),
    (
        "mm_page_alloc",
        &[
            ("unsigned long", "pfn", 8),
            ("unsigned int", "order", 4),
            ("unsigned long", "gfp_flags", 8),
            ("int", "migratetype", 4),
        ],
        "pfn=%lx\", REC->pfn",
    ),
    (
        "mm_page_free",
        &[("unsigned long", "pfn", 8), ("unsigned int", "order", 4)],
        "pfn=%lx\", REC->pfn",
    ),
    (
        "rss_stat",
        &[
            ("unsigned int", "mm_id", 4),
            ("unsigned int", "curr", 4),
            ("int", "member", 4),
            ("long", "size", 8),
        ],
        "type=%s\", __print_symbolic(REC->member, { 0, \"FILE\" }, { (1 << 1) + 1, \"ANON\" })",
    ),
    (
        "sched_switch",
        &[
            ("char", "prev_comm[16]", 16),
            ("pid_t", "prev_pid", 4),
            ("int", "prev_prio", 4),
            ("long", "prev_state", 8),
            ("char", "next_comm[16]", 16),
            ("pid_t", "next_pid", 4),
            ("int", "next_prio", 4),
        ],
        "%s\", REC->prev_comm",
    ),
    (
        "sched_wakeup",
        &[
            ("char", "comm[16]", 16),
            ("pid_t", "pid", 4),
            ("int", "prio", 4),
            ("int", "target_cpu", 4),
        ],
        "%s\", REC->comm",
    ),
    (
        "sched_process_fork",
        &[
            ("char", "parent_comm[16]", 16),
            ("pid_t", "parent_pid", 4),
            ("__rel_loc char[]", "child_comm", 4),
            ("pid_t", "child_pid", 4),
        ],
        "%s\", REC->parent_comm",
    ),
    (
        "sched_process_exec",
        &[
            ("__data_loc char[]", "filename", 4),
            ("pid_t", "pid", 4),
            ("pid_t", "old_pid", 4),
        ],
        "%s\", __get_str(filename)",
    ),
    (
        "sched_process_exit",
        &[
            ("char", "comm[16]", 16),
            ("pid_t", "pid", 4),
            ("int", "prio", 4),
        ],
        "%s\", REC->comm",
    ),
    (
        "sys_enter_mmap",
        &[
            ("int", "__syscall_nr", 4),
            ("unsigned long", "addr", 8),
            ("unsigned long", "len", 8),
            ("unsigned long", "prot", 8),
            ("unsigned long", "flags", 8),
            ("unsigned long", "fd", 8),
            ("unsigned long", "off", 8),
        ],
        "addr: 0x%08lx\", ((unsigned long)(REC->addr))",
    ),
    (
        "sys_exit_mmap",
        &[("int", "__syscall_nr", 4), ("long", "ret", 8)],
        "0x%lx\", REC->ret",
    ),
    (
        "page_fault_user",
        &[
            ("unsigned long", "address", 8),
            ("unsigned long", "ip", 8),
            ("unsigned long", "error_code", 8),
        ],
        "address=%p\", (void *)REC->address",
    ),
    (
        "damon_aggregated",
        &[
            ("unsigned long", "target_id", 8),
            ("unsigned int", "nr_regions", 4),
            ("unsigned long", "start", 8),
            ("unsigned long", "end", 8),
            ("unsigned int", "nr_accesses", 4),
            ("unsigned int", "age", 4),
        ],
        "%lu\", REC->target_id",
    ),
];

/// Name and text of each; ids count from 1.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, String)> {
    FORMATS
        .iter()
        .zip(1..)
        .map(|((name, fields, printed), id)| {
            let mut text = format!("name: {name}\nID: {id}\nformat:\n");
            let mut offset = 0_usize;
            let common = [
                ("unsigned short", "common_type", 2),
                ("int", "common_pid", 4),
            ];
            for (kind, field, size) in common.iter().chain(fields.iter()) {
                offset = offset.next_multiple_of(*size);
                let signed = u8::from(matches!(*kind, "int" | "long" | "pid_t"));
                let _ = writeln!(
                    text,
                    "\tfield:{kind} {field};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
                );
                offset += size;
            }
            let _ = writeln!(text, "\nprint fmt: \"{printed}");
            (*name, text)
        })
}

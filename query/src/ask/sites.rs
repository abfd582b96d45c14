//! Frames of callchains by name, and whose code a callchain is: that of the program, below it what the kernel does for it.

use super::table::Table;

/// A frame's name: frames are parted by semicolons.
pub(super) const FRAME: &str = "replaceAll(multiIf(f.function != '', f.function, f.module != '', concat('[', f.module, ']'), '[unknown]'), ';', ':')";

/// Names of scheduler and tracing that say nothing of what a thread waits for; the same as of files.
const SKIPPED: &str = "'^(__schedule|schedule|io_schedule|preempt_schedule|__cond_resched|_cond_resched|__traceiter_|trace_|perf_|__bpf_trace|irqentry_exit|exit_to_user_mode)'";

/// Frames of the callchains of rows of a table that `conditions` hold for: `stack_id`, `at` (1: innermost), `name`, `module`,
/// `is_kernel`.
pub(super) fn frames(table: Table, conditions: &str) -> String {
    let rows = table.rows();
    format!(
        "SELECT st.stack_id AS stack_id, st.at AS at, {FRAME} AS name, f.module AS module, \
         l.mapping_id IN (SELECT mapping_id FROM mappings WHERE kind IN ('kernel', 'module', 'bpf')) AS is_kernel FROM \
         (SELECT stack_id, at, location FROM (SELECT k.stack_id AS stack_id, any(k.locations) AS locations FROM stacks AS k \
         WHERE k.stack_id IN (SELECT s.stack_id FROM {rows} AS s WHERE {conditions} AND s.stack_id != 0) GROUP BY stack_id) \
         ARRAY JOIN locations AS location, arrayEnumerate(locations) AS at) AS st \
         LEFT JOIN (SELECT l.location_id AS location_id, argMax(l.function_id, l.last_seen) AS function_id, \
         any(l.mapping_id) AS mapping_id FROM locations AS l GROUP BY location_id) AS l ON l.location_id = st.location \
         LEFT JOIN late_functions AS late ON late.location_id = st.location AND late.stored_as = l.function_id \
         LEFT JOIN function_names AS f ON f.function_id = if(late.function_id != 0, late.function_id, l.function_id)"
    )
}

/// For each of those callchains `function` and `module` of the innermost frame of the program, and `kernel`, the innermost
/// kernel function that says what is done; empty: there is none.
pub(super) fn sites(table: Table, conditions: &str) -> String {
    format!(
        "SELECT stack_id, arrayFirst(f -> NOT f.4, arr) AS own, own.2 AS function, own.3 AS module, \
         arrayFirst(f -> f.4 AND NOT startsWith(f.2, '[') AND NOT match(f.2, {SKIPPED}), arr).2 AS kernel FROM \
         (SELECT stack_id, arraySort(groupArray((at, name, module, is_kernel))) AS arr FROM ({}) GROUP BY stack_id)",
        frames(table, conditions)
    )
}

-- The view `functions` without joins to `closes`: half the time on 5 million rows.

CREATE OR REPLACE VIEW ${view:functions} AS
WITH
-- Through when each partition is closed, by partition + 1: two fewer joins of every row. A partition beyond the array is
-- closed through 1970.
(
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes} GROUP BY part)
) AS through,
rows AS (
    SELECT
        h.time AS time, h.function_id AS function_id, h.host AS host, h.workload_id AS workload_id,
        h.event_id AS event_id, h.event AS event, h.tier AS tier, h.latency_kind AS latency_kind, h.op AS op,
        h.level AS level, h.outcome AS outcome, h.locality AS locality, h.locality_basis AS locality_basis,
        h.context AS context, h.comm AS comm, h.n AS n, h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w,
        h.sum_wp AS sum_wp, h.sum_wpwp AS sum_wpwp, h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked,
        h.n_blocked AS n_blocked, h.n_hitm AS n_hitm, h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd,
        h.n_peer AS n_peer, h.n_page_remote AS n_page_remote, h.n_page_known AS n_page_known
    FROM ${read:functions_1h} AS h
    WHERE h.close <= through[h.part + 1]
    UNION ALL
    SELECT
        o.time, o.function_id, o.host, o.workload_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level,
        o.outcome, o.locality, o.locality_basis, o.context, o.comm, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp,
        o.sum_wpwp, o.n_stlb_walk, o.n_locked, o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer,
        o.n_page_remote, o.n_page_known
    FROM ${read:samples_as_functions} AS o
    WHERE o.ingested > through[o.part + 1]
)
SELECT
    r.time AS time,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    r.host AS host,
    w.namespace AS namespace,
    w.pod AS pod,
    w.container AS container,
    w.service AS service,
    r.comm AS comm,
    r.event AS event,
    r.tier AS tier,
    r.latency_kind AS latency_kind,
    r.op AS op,
    r.level AS level,
    r.outcome AS outcome,
    r.locality AS locality,
    r.locality_basis AS locality_basis,
    r.context AS context,
    r.n AS samples,
    r.sum_w AS weight,
    r.sum_wp AS latency_cycles,
    if(e.population = '', NULL, r.sum_p) AS est_events,
    r.sum_p AS sum_p,
    r.sum_pp AS sum_pp,
    r.sum_wpwp AS sum_wpwp,
    r.n_stlb_walk AS n_stlb_walk,
    r.n_locked AS n_locked,
    r.n_blocked AS n_blocked,
    r.n_hitm AS n_hitm,
    r.n_hitm_rmt AS n_hitm_rmt,
    r.n_fwd AS n_fwd,
    r.n_peer AS n_peer,
    r.n_page_remote AS n_page_remote,
    r.n_page_known AS n_page_known,
    r.function_id AS function_id,
    r.workload_id AS workload_id,
    r.event_id AS event_id
FROM rows AS r
LEFT JOIN ${read:function_names} AS f ON f.function_id = r.function_id
LEFT JOIN ${read:workload_names} AS w ON w.workload_id = r.workload_id
LEFT JOIN (
    SELECT event_id, argMax(population, last_seen) AS population FROM ${read:events} GROUP BY event_id
) AS e ON e.event_id = r.event_id
COMMENT 'Who, where: closed hours from functions_1h and the open rest from samples. Sum samples, weight, latency_cycles, est_events and n_* again.';

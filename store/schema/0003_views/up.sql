-- Views: a first query is one line.

CREATE VIEW IF NOT EXISTS ${view:function_names} AS
SELECT
    function_id,
    argMax(f.name, (f.rank, f.last_seen)) AS function,
    argMax(f.linkage_name, (f.rank, f.last_seen)) AS linkage_name,
    any(m.module) AS module,
    any(m.build_id) AS build_id
FROM ${read:functions_def} AS f
LEFT JOIN (
    SELECT mapping_id, argMax(module, last_seen) AS module, argMax(build_id, last_seen) AS build_id
    FROM ${read:mappings}
    GROUP BY mapping_id
) AS m ON m.mapping_id = f.mapping_id
GROUP BY function_id
COMMENT 'The best name of each function, with its file.';

CREATE VIEW IF NOT EXISTS ${view:workload_names} AS
SELECT
    workload_id,
    argMax(w.namespace, w.last_seen) AS namespace,
    argMax(w.pod, w.last_seen) AS pod,
    argMax(w.container, w.last_seen) AS container,
    argMax(w.service, w.last_seen) AS service
FROM ${read:workloads} AS w
GROUP BY workload_id
COMMENT 'The newest description of each workload.';

CREATE VIEW IF NOT EXISTS ${view:samples_as_functions} AS
SELECT
    toStartOfHour(s.time) AS time,
    s.function_id AS function_id,
    s.host AS host,
    s.workload_id AS workload_id,
    s.event_id AS event_id,
    s.event AS event,
    s.tier AS tier,
    s.latency_kind AS latency_kind,
    s.op AS op,
    s.level AS level,
    s.outcome AS outcome,
    s.locality AS locality,
    s.locality_basis AS locality_basis,
    s.context AS context,
    s.comm AS comm,
    s.part AS part,
    s.ingested AS ingested,
    toUInt64(1) AS n,
    toFloat64(s.period) AS sum_p,
    sum_p * sum_p AS sum_pp,
    toFloat64(s.weight) AS sum_w,
    sum_w * sum_p AS sum_wp,
    sum_wp * sum_wp AS sum_wpwp,
    toUInt64(s.tlb = 'walk') AS n_stlb_walk,
    toUInt64(s.locked) AS n_locked,
    toUInt64(s.blocked NOT IN ('unknown', 'no')) AS n_blocked,
    toUInt64(s.snoop = 'hitm') AS n_hitm,
    toUInt64(s.snoop = 'hitm' AND s.hw_locality = 'remote') AS n_hitm_rmt,
    toUInt64(s.snoop = 'fwd') AS n_fwd,
    toUInt64(s.snoop = 'peer') AS n_peer,
    toUInt64(s.page_locality = 'remote') AS n_page_remote,
    toUInt64(s.page_locality != 'unknown') AS n_page_known
FROM ${read:samples} AS s
COMMENT 'Each sample as a row of functions_1h; what functions_1h is closed from.';

CREATE VIEW IF NOT EXISTS ${view:functions} AS
WITH rows AS (
    SELECT
        h.time AS time, h.function_id AS function_id, h.host AS host, h.workload_id AS workload_id,
        h.event_id AS event_id, h.event AS event, h.tier AS tier, h.latency_kind AS latency_kind, h.op AS op,
        h.level AS level, h.outcome AS outcome, h.locality AS locality, h.locality_basis AS locality_basis,
        h.context AS context, h.comm AS comm, h.n AS n, h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w,
        h.sum_wp AS sum_wp, h.sum_wpwp AS sum_wpwp, h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked,
        h.n_blocked AS n_blocked, h.n_hitm AS n_hitm, h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd,
        h.n_peer AS n_peer, h.n_page_remote AS n_page_remote, h.n_page_known AS n_page_known
    FROM ${read:functions_1h} AS h
    LEFT JOIN (SELECT part, max(closed_through) AS through FROM ${read:closes} GROUP BY part) AS c ON c.part = h.part
    WHERE h.close <= c.through
    UNION ALL
    SELECT
        o.time, o.function_id, o.host, o.workload_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level,
        o.outcome, o.locality, o.locality_basis, o.context, o.comm, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp,
        o.sum_wpwp, o.n_stlb_walk, o.n_locked, o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer,
        o.n_page_remote, o.n_page_known
    FROM ${read:samples_as_functions} AS o
    LEFT JOIN (SELECT part, max(closed_through) AS through FROM ${read:closes} GROUP BY part) AS c ON c.part = o.part
    WHERE o.ingested > c.through
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

CREATE VIEW IF NOT EXISTS ${view:accesses} AS
SELECT
    -- Joined tables have columns of these names too: without names of their own they would be called `s.…` outside.
    s.* EXCEPT (function_id, workload_id, data_id),
    s.function_id AS function_id,
    s.workload_id AS workload_id,
    s.data_id AS data_id,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    d.data_symbol AS data_symbol,
    w.namespace AS namespace,
    w.pod AS pod,
    w.container AS container,
    w.service AS service
FROM ${read:samples} AS s
LEFT JOIN ${read:function_names} AS f ON f.function_id = s.function_id
LEFT JOIN ${read:workload_names} AS w ON w.workload_id = s.workload_id
LEFT JOIN (
    SELECT data_id, argMax(name, last_seen) AS data_symbol FROM ${read:data_def} GROUP BY data_id
) AS d ON d.data_id = s.data_id
COMMENT 'Samples with the names of their function, data and workload.';

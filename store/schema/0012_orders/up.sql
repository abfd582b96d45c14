-- Rows of hours and minutes in further orders, so that questions over a day read what they are about: a host, a workload or a
-- function out of functions_1h, and hours out of mix_1m and ledger_1m.
--
-- Projections are parts of the parts of their table: they come and go with them, also when a day is replaced, and the engine
-- picks the one of which least has to be read. `ignore`: a merge sums rows with equal keys in the table and leaves them apart
-- in a projection. As nothing but sums, maxima and states are kept, both answer alike. Parts written before have no
-- projections and are read as before.

ALTER TABLE ${local:functions_1h} MODIFY SETTING deduplicate_merge_projection_mode = 'ignore';

ALTER TABLE ${local:functions_1h}
    ADD PROJECTION IF NOT EXISTS of_hosts (SELECT * ORDER BY (host, time, function_id)),
    ADD PROJECTION IF NOT EXISTS of_workloads (SELECT * ORDER BY (workload_id, time, function_id)),
    ADD PROJECTION IF NOT EXISTS of_functions (SELECT * ORDER BY (function_id, time, host));

ALTER TABLE ${local:mix_1m} MODIFY SETTING deduplicate_merge_projection_mode = 'ignore';

ALTER TABLE ${local:mix_1m}
    ADD PROJECTION IF NOT EXISTS of_hours (
        SELECT toStartOfHour(time), host, workload_id, event_id, event, tier, op, level, outcome, locality,
            locality_basis, context, sum(n), sum(sum_p), sum(sum_pp), sum(sum_w), sum(sum_wp), sum(n_stlb_walk),
            sum(n_locked), sum(n_blocked), sum(n_hitm), sum(n_hitm_rmt), sum(n_fwd), sum(n_peer), sum(n_page_remote),
            sum(n_page_known)
        GROUP BY toStartOfHour(time), host, workload_id, event_id, event, tier, op, level, outcome, locality,
            locality_basis, context
    );

ALTER TABLE ${local:ledger_1m} MODIFY SETTING deduplicate_merge_projection_mode = 'ignore';

ALTER TABLE ${local:ledger_1m}
    ADD PROJECTION IF NOT EXISTS of_hours (
        SELECT toStartOfHour(time), reason, host, tier, sum(records)
        GROUP BY toStartOfHour(time), reason, host, tier
    );

-- As sites_1h_all: without names, which are joined to sums.
CREATE VIEW IF NOT EXISTS ${view:functions_1h_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.function_id AS function_id, h.host AS host, h.workload_id AS workload_id, h.event_id AS event_id,
    h.event AS event, h.tier AS tier, h.latency_kind AS latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome,
    h.locality AS locality, h.locality_basis AS locality_basis, h.context AS context, h.comm AS comm, h.n AS n,
    h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w, h.sum_wp AS sum_wp, h.sum_wpwp AS sum_wpwp,
    h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked, h.n_blocked AS n_blocked, h.n_hitm AS n_hitm,
    h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd, h.n_peer AS n_peer, h.n_page_remote AS n_page_remote,
    h.n_page_known AS n_page_known
FROM ${read:functions_1h} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    o.time, o.function_id, o.host, o.workload_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level, o.outcome,
    o.locality, o.locality_basis, o.context, o.comm, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp, o.sum_wpwp,
    o.n_stlb_walk, o.n_locked, o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer, o.n_page_remote, o.n_page_known
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1]
COMMENT 'Functions by host: closed rows of functions_1h and the open rest from samples, without names. Sum again.';

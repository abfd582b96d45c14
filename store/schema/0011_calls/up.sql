-- Where allocations come from and where threads wait, by minute; what questions need besides in the tables of migration 10;
-- and of each closed table a view `…_all` with what is not closed, without names, which questions read.
-- `closes_of_calls` says how far the tables that are new are closed: those of migration 10 may be further.

CREATE TABLE IF NOT EXISTS ${table:allocs_1m} (
    time DateTime('UTC') COMMENT 'begin of the minute, UTC' CODEC(DoubleDelta, ZSTD(1)),
    kind LowCardinality(String) COMMENT 'what the event counts: pages, kernel objects or calls that change the address space' CODEC(ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: none' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the thread' CODEC(ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    stack_id UInt64 COMMENT 'callchain, see stacks; 0: none' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) COMMENT 'in which context the CPU was' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    calls SimpleAggregateFunction(sum, Float64) COMMENT 'calls that the samples stand for' CODEC(ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (kind, toStartOfHour(time), host)
ORDER BY (kind, toStartOfHour(time), host, workload_id, pid, comm, function_id, stack_id, event, event_id, tier, context, time, part, close)
TTL greatest(time, ingested) + INTERVAL 14 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Allocations by process, callchain and minute, closed from samples; allocs_1m_all adds what is not closed. Kept 14 days.';

CREATE TABLE IF NOT EXISTS ${table:offcpu_1m} (
    time DateTime('UTC') COMMENT 'begin of the minute in which the thread left the CPU, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: none' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process' CODEC(T64, ZSTD(1)),
    tid UInt32 COMMENT 'thread' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the thread' CODEC(ZSTD(1)),
    stack_id UInt64 COMMENT 'callchain, see stacks; 0: none' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples: times the thread left a CPU' CODEC(T64, ZSTD(1)),
    spells SimpleAggregateFunction(sum, UInt64) COMMENT 'times of which is known when it came back' CODEC(T64, ZSTD(1)),
    off_ns SimpleAggregateFunction(sum, UInt64) COMMENT 'time off the CPU in these spells, nanoseconds' CODEC(T64, ZSTD(1)),
    off_ns_max SimpleAggregateFunction(max, UInt64) COMMENT 'the longest of them, nanoseconds' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (toStartOfHour(time), host)
ORDER BY (toStartOfHour(time), host, workload_id, pid, tid, comm, stack_id, event, event_id, tier, time, part, close)
TTL greatest(time, ingested) + INTERVAL 14 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Time off the CPU by thread, callchain and minute, closed from the switches in samples; offcpu_1m_all adds what is not closed. Kept 14 days.';

CREATE TABLE IF NOT EXISTS ${table:closes_of_calls} (
    part UInt16 COMMENT 'partition of the stream' CODEC(T64, ZSTD(1)),
    closed_through DateTime('UTC') COMMENT 'ingest time, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(closed_through)}
ORDER BY (part)
SETTINGS ${window}
COMMENT 'How far allocs_1m and offcpu_1m are closed, by partition.';

ALTER TABLE ${table:sites_1h}
    ADD COLUMN IF NOT EXISTS n_measured SimpleAggregateFunction(sum, Nullable(UInt64)) COMMENT 'samples with a latency; null: closed before that was counted' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS hosts AggregateFunction(uniq, UInt64) COMMENT 'state that counts hosts by cityHash64 of their names; empty where n_measured is null';

ALTER TABLE ${table:data_1h}
    ADD COLUMN IF NOT EXISTS n_measured SimpleAggregateFunction(sum, Nullable(UInt64)) COMMENT 'samples with a latency; null: closed before that was counted' CODEC(ZSTD(1));

ALTER TABLE ${table:faults_1m}
    ADD COLUMN IF NOT EXISTS n_addr SimpleAggregateFunction(sum, Nullable(UInt64)) COMMENT 'samples with an address; null: closed before that was counted' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS pages AggregateFunction(uniqExact, UInt64) COMMENT 'state that counts pages by cityHash64 of host, process and page; empty where n_addr is null';

CREATE OR REPLACE VIEW ${view:samples_as_functions} AS
SELECT
    toStartOfHour(s.time) AS time,
    if(l.function_id != 0, l.function_id, s.function_id) AS function_id,
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
    toUInt64(s.page_locality != 'unknown') AS n_page_known,
    toStartOfMinute(s.time) AS minute,
    s.location_id AS location_id,
    s.data_id AS data_id,
    s.region AS region,
    s.cpu AS cpu,
    s.pid AS pid,
    s.tid AS tid,
    s.addr AS addr,
    s.page_shift AS page_shift,
    s.page_node AS page_node,
    toUInt8(if(s.page_shift = 0, 12, s.page_shift)) AS page_bits,
    bitShiftLeft(bitShiftRight(s.addr, page_bits), page_bits) AS page,
    bitShiftLeft(bitShiftRight(s.addr, 6), 6) AS line,
    toUInt8(bitAnd(s.addr, 63)) AS offset,
    if(s.region IN ('file', 'shared') AND s.phys_addr != 0, bitShiftLeft(bitShiftRight(s.phys_addr, 6), 6), 0) AS phys_line,
    toUInt64(s.op IN ('load', 'load+store')) AS n_loads,
    toUInt64(s.op IN ('store', 'load+store')) AS n_stores,
    -- What can share a line: precise accesses with an address.
    s.addr != 0 AND s.tier = 'precise' AND (s.op IN ('load', 'store', 'load+store') OR s.locked != 0) AS of_line,
    s.op IN ('store', 'load+store') OR s.locked != 0 AS writes,
    if(s.weight = 0, toInt16(-1), toInt16(floor(log2(s.weight) * 4))) AS bucket,
    toUInt64(s.suspect = 'saturated') AS n_saturated,
    multiIf(
        match(s.event, '^minor-faults(:|$)'), 'minor', match(s.event, '^major-faults(:|$)'), 'major',
        match(s.event, '^(page-faults|faults)(:|$)'), 'all', startsWith(s.event, 'exceptions:page_fault'), 'exception', ''
    ) AS fault_kind,
    toFloat64(greatest(s.period, 1)) AS faults,
    toUInt64(s.weight > 0) AS n_measured,
    toUInt64(s.addr != 0) AS n_addr,
    cityHash64(s.host, s.pid, bitShiftRight(s.addr, 12)) AS fault_page,
    s.stack_id AS stack_id,
    multiIf(
        match(s.event, '^kmem:mm_page_alloc(:|$)'), 'pages allocated',
        match(s.event, '^kmem:mm_page_free(_batched)?(:|$)'), 'pages freed',
        match(s.event, '^kmem:(kmalloc|kmem_cache_alloc)(_node)?(:|$)'), 'kernel objects allocated',
        match(s.event, '^kmem:(kfree|kmem_cache_free)(:|$)'), 'kernel objects freed',
        match(s.event, '^(syscalls:sys_(enter|exit)_mmap|mmap:.*)(:|$)'), 'mmap',
        match(s.event, '^syscalls:sys_(enter|exit)_munmap(:|$)'), 'munmap',
        match(s.event, '^syscalls:sys_(enter|exit)_mremap(:|$)'), 'mremap',
        match(s.event, '^syscalls:sys_(enter|exit)_brk(:|$)'), 'brk',
        match(s.event, '^filemap:mm_filemap_add_to_page_cache(:|$)'), 'page cache filled',
        match(s.event, '^filemap:mm_filemap_delete_from_page_cache(:|$)'), 'page cache emptied', ''
    ) AS alloc_kind,
    faults AS calls
FROM ${read:samples} AS s
LEFT JOIN ${read:late_functions} AS l ON l.location_id = s.location_id AND l.stored_as = s.function_id
COMMENT 'Each sample as a row of what is summed from samples at a close.';

CREATE VIEW IF NOT EXISTS ${view:sites_1h_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.function_id AS function_id, h.location_id AS location_id, h.event_id AS event_id, h.event AS
    event, h.tier AS tier, h.latency_kind AS latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome,
    h.locality AS locality, h.locality_basis AS locality_basis, h.n AS n, h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w
    AS sum_w, h.sum_wp AS sum_wp, h.sum_wpwp AS sum_wpwp, h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked,
    h.n_blocked AS n_blocked, h.n_hitm AS n_hitm, h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd, h.n_peer AS n_peer,
    h.n_page_remote AS n_page_remote, h.n_page_known AS n_page_known, h.n_measured AS n_measured, h.hosts AS hosts
FROM ${read:sites_1h} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    o.time, o.function_id, o.location_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level, o.outcome,
    o.locality, o.locality_basis, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp, o.sum_wpwp, o.n_stlb_walk, o.n_locked,
    o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer, o.n_page_remote, o.n_page_known, toNullable(o.n_measured) AS
    n_measured, arrayReduce('uniqState', [cityHash64(o.host)]) AS hosts
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1]
COMMENT 'Places in the code: closed rows of sites_1h and the open rest from samples, without names. Sum again.';

CREATE VIEW IF NOT EXISTS ${view:data_1h_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.data_id AS data_id, h.region AS region, h.function_id AS function_id, h.host AS host,
    h.workload_id AS workload_id, h.event_id AS event_id, h.event AS event, h.tier AS tier, h.latency_kind AS
    latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome, h.locality AS locality, h.locality_basis AS
    locality_basis, h.n AS n, h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w, h.sum_wp AS sum_wp, h.sum_wpwp AS
    sum_wpwp, h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked, h.n_blocked AS n_blocked, h.n_hitm AS n_hitm,
    h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd, h.n_peer AS n_peer, h.n_page_remote AS n_page_remote, h.n_page_known
    AS n_page_known, h.n_measured AS n_measured
FROM ${read:data_1h} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    o.time, o.data_id, o.region, o.function_id, o.host, o.workload_id, o.event_id, o.event, o.tier, o.latency_kind,
    o.op, o.level, o.outcome, o.locality, o.locality_basis, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp, o.sum_wpwp,
    o.n_stlb_walk, o.n_locked, o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer, o.n_page_remote, o.n_page_known,
    toNullable(o.n_measured) AS n_measured
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1]
COMMENT 'Data: closed rows of data_1h and the open rest from samples, without names. Sum again.';

CREATE VIEW IF NOT EXISTS ${view:latency_1h_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.function_id AS function_id, h.event_id AS event_id, h.event AS event, h.tier AS tier,
    h.latency_kind AS latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome, h.locality AS locality,
    h.locality_basis AS locality_basis, h.bucket AS bucket, h.n AS n, h.sum_p AS sum_p, h.sum_w AS sum_w, h.n_saturated
    AS n_saturated
FROM ${read:latency_1h} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    o.time, o.function_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level, o.outcome, o.locality,
    o.locality_basis, o.bucket, o.n, o.sum_p, o.sum_w, o.n_saturated
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1]
COMMENT 'Latencies: closed rows of latency_1h and the open rest from samples, without names. Sum again.';

CREATE VIEW IF NOT EXISTS ${view:faults_1m_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.kind AS kind, h.host AS host, h.workload_id AS workload_id, h.pid AS pid, h.comm AS comm,
    h.function_id AS function_id, h.data_id AS data_id, h.region AS region, h.event_id AS event_id, h.event AS event,
    h.tier AS tier, h.latency_kind AS latency_kind, h.context AS context, h.n AS n, h.faults AS faults, h.n_page_remote
    AS n_page_remote, h.n_page_known AS n_page_known, h.n_addr AS n_addr, h.pages AS pages
FROM ${read:faults_1m} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    o.minute AS time, o.fault_kind AS kind, o.host, o.workload_id, o.pid, o.comm, o.function_id, o.data_id, o.region,
    o.event_id, o.event, o.tier, o.latency_kind, o.context, o.n, o.faults, o.n_page_remote, o.n_page_known,
    toNullable(o.n_addr) AS n_addr, arrayReduce('uniqExactState', if(o.n_addr = 0, emptyArrayUInt64(),
    [o.fault_page])) AS pages
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1] AND o.fault_kind != ''
COMMENT 'Page faults: closed rows of faults_1m and the open rest from samples, without names. Sum again.';

CREATE VIEW IF NOT EXISTS ${view:allocs_1m_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_calls} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.kind AS kind, h.host AS host, h.workload_id AS workload_id, h.pid AS pid, h.comm AS comm,
    h.function_id AS function_id, h.stack_id AS stack_id, h.event_id AS event_id, h.event AS event, h.tier AS tier,
    h.context AS context, h.n AS n, h.calls AS calls
FROM ${read:allocs_1m} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    o.minute AS time, o.alloc_kind AS kind, o.host, o.workload_id, o.pid, o.comm, o.function_id, o.stack_id, o.event_id,
    o.event, o.tier, o.context, o.n, o.calls
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1] AND o.alloc_kind != ''
COMMENT 'Allocations: closed rows of allocs_1m and the open rest from samples, without names. Sum again.';

-- A switch is sampled in the thread that leaves: it came to the CPU at the switch before on that CPU, and was off from where
-- it had left to there; not where it had left that CPU itself, as somebody ran there unseen. What is not closed yet goes on from the last switch of each thread and CPU of the day before.
-- An event with /threads=N/ is of one thread of N: of the others only that they left is known, so they are left out.
CREATE VIEW IF NOT EXISTS ${view:offcpu_1m_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_calls} GROUP BY part)
) AS through
SELECT h.time AS time, h.host AS host, h.workload_id AS workload_id, h.pid AS pid, h.tid AS tid, h.comm AS comm,
    h.stack_id AS stack_id, h.event_id AS event_id, h.event AS event, h.tier AS tier, h.n AS n, h.spells AS spells,
    h.off_ns AS off_ns, h.off_ns_max AS off_ns_max
FROM ${read:offcpu_1m} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT toStartOfMinute(fromUnixTimestamp64Nano(b.t, 'UTC')) AS time, b.host, b.workload_id, b.pid, b.tid, b.comm,
    b.stack_id, b.event_id, b.event, b.tier, toUInt64(b.fresh) AS n, toUInt64(b.told AND b.back >= b.t) AS spells,
    toUInt64(if(spells > 0, b.back - b.t, 0)) AS off_ns, off_ns AS off_ns_max
FROM (
    SELECT w.*,
        leadInFrame(w.came) OVER (PARTITION BY w.part, w.host, w.tid ORDER BY w.t, w.fresh ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS back,
        leadInFrame(w.fresh) OVER (PARTITION BY w.part, w.host, w.tid ORDER BY w.t, w.fresh ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS told
    FROM (
        SELECT k.*,
            if(lagInFrame(k.who) OVER (PARTITION BY k.part, k.host, k.cpu ORDER BY k.t, k.fresh ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) = k.tid,
                0,
                lagInFrame(k.t) OVER (PARTITION BY k.part, k.host, k.cpu ORDER BY k.t, k.fresh ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS came
        FROM (
            SELECT s.part AS part, s.host AS host, s.cpu AS cpu, s.tid AS tid, s.tid AS who, toUnixTimestamp64Nano(s.time) AS t,
                s.workload_id AS workload_id, s.pid AS pid, s.comm AS comm, s.stack_id AS stack_id, s.event_id AS event_id,
                s.event AS event, s.tier AS tier, 1 AS fresh
            FROM ${read:samples} AS s
            WHERE s.ingested > through[s.part + 1] AND match(s.event, '^sched:sched_switch(:|/|$)') AND s.period <= 1
            UNION ALL
            SELECT s.part, s.host, argMax(s.cpu, s.time), s.tid, s.tid, toUnixTimestamp64Nano(max(s.time)),
                argMax(s.workload_id, s.time), argMax(s.pid, s.time), argMax(s.comm, s.time), argMax(s.stack_id, s.time),
                argMax(s.event_id, s.time), argMax(s.event, s.time), argMax(s.tier, s.time), 0
            FROM ${read:samples} AS s
            WHERE s.ingested <= through[s.part + 1] AND s.ingested > through[s.part + 1] - 86400
                AND match(s.event, '^sched:sched_switch(:|/|$)') AND s.period <= 1
            GROUP BY s.part, s.host, s.tid
            UNION ALL
            SELECT s.part, s.host, s.cpu, 0, argMax(s.tid, s.time), toUnixTimestamp64Nano(max(s.time)), 0, 0, '', 0, 0, '', any(s.tier), 0
            FROM ${read:samples} AS s
            WHERE s.ingested <= through[s.part + 1] AND s.ingested > through[s.part + 1] - 86400
                AND match(s.event, '^sched:sched_switch(:|/|$)') AND s.period <= 1
            GROUP BY s.part, s.host, s.cpu
        ) AS k
    ) AS w
    WHERE w.tid != 0
        AND (NOT match(w.event, '/threads=') OR bitAnd(w.tid, toUInt32OrZero(extract(w.event, '/threads=([0-9]+)/')) - 1) = 1)
) AS b
WHERE b.fresh OR b.told
COMMENT 'Time off the CPU: closed rows of offcpu_1m and the open rest from the switches in samples, without names. Sum again; of off_ns_max the largest.';

CREATE VIEW IF NOT EXISTS ${view:fleet_1d_all} AS
WITH (
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through
SELECT
    h.time AS time, h.function_id AS function_id, h.event_id AS event_id, h.event AS event, h.tier AS tier,
    h.latency_kind AS latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome, h.locality AS locality,
    h.locality_basis AS locality_basis, h.n AS n, h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w, h.sum_wp AS
    sum_wp, h.sum_wpwp AS sum_wpwp, h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked, h.n_blocked AS n_blocked,
    h.n_hitm AS n_hitm, h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd, h.n_peer AS n_peer, h.n_page_remote AS
    n_page_remote, h.n_page_known AS n_page_known, h.hosts AS hosts
FROM ${read:fleet_1d} AS h
WHERE h.close <= through[h.part + 1]
UNION ALL
SELECT
    toStartOfDay(o.time) AS time, o.function_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level, o.outcome,
    o.locality, o.locality_basis, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp, o.sum_wpwp, o.n_stlb_walk, o.n_locked,
    o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer, o.n_page_remote, o.n_page_known, arrayReduce('uniqState',
    [cityHash64(o.host)]) AS hosts
FROM ${read:samples_as_functions} AS o
WHERE o.ingested > through[o.part + 1]
COMMENT 'Functions by day over all hosts: closed rows of fleet_1d and the open rest from samples, without names. Sum again.';

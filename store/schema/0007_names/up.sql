-- Names that come later than what they name: better ones win by their rank, and samples stored before the starts of their
-- functions were known find their function by their place. Nothing stored is written again.

ALTER TABLE ${whole:functions_def}
    ADD COLUMN IF NOT EXISTS size UInt64 COMMENT 'bytes from the start on; 0: not known' CODEC(T64, ZSTD(1)) AFTER rank,
    ADD COLUMN IF NOT EXISTS source_file String COMMENT 'file of the source; empty: not known' CODEC(ZSTD(1)) AFTER size,
    ADD COLUMN IF NOT EXISTS source_line UInt32 COMMENT 'line in that file; 0: not known' CODEC(T64, ZSTD(1)) AFTER source_file,
    ADD COLUMN IF NOT EXISTS file_offset UInt64 COMMENT 'place of its start in the file, plus 1; 0: not known' CODEC(ZSTD(1)) AFTER source_line;

CREATE TABLE IF NOT EXISTS ${table:symbols} (
    mapping_id UInt64 COMMENT 'mapping, see mappings' CODEC(ZSTD(1)),
    host LowCardinality(String) COMMENT 'host that it is mapped on' CODEC(ZSTD(1)),
    rank UInt8 COMMENT 'rank of the best name: 0 none, 1 dynamic symbols, 2 symbol table, 3 symbol table of a debug file, 4 with lines of the source' CODEC(T64, ZSTD(1)),
    functions UInt64 COMMENT 'functions whose starts are known' CODEC(T64, ZSTD(1)),
    reason String COMMENT 'why there are no better names; empty: nothing is missing' CODEC(ZSTD(1)),
    remedy String COMMENT 'what to do about it' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (mapping_id, host)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What is known of the symbols of each mapping, by host.';

CREATE TABLE IF NOT EXISTS ${table:nameless} (
    location_id UInt64 COMMENT 'location' CODEC(ZSTD(1)),
    stored_as UInt64 COMMENT 'what stands for a function in rows stored so' CODEC(ZSTD(1)),
    mapping_id UInt64 COMMENT 'mapping it lies in, see mappings' CODEC(ZSTD(1)),
    address UInt64 COMMENT 'address in the file of the mapping' CODEC(ZSTD(1)),
    is_offset UInt8 COMMENT '1: the address is an offset in the file, whose segments were not known' CODEC(T64, ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (location_id, stored_as)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Places whose function was not known when they were stored.';

CREATE OR REPLACE VIEW ${view:function_names} AS
SELECT
    function_id,
    argMax(f.name, (f.rank, f.last_seen)) AS function,
    argMax(f.linkage_name, (f.rank, f.last_seen)) AS linkage_name,
    argMax(f.source_file, (f.rank, f.last_seen)) AS source_file,
    argMax(f.source_line, (f.rank, f.last_seen)) AS source_line,
    max(f.rank) AS rank,
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

CREATE VIEW IF NOT EXISTS ${view:late_functions} AS
WITH
starts AS (
    SELECT d.mapping_id AS mapping_id, toUInt8(0) AS is_offset, d.start AS start, any(d.function_id) AS function_id, max(d.size) AS extent
    FROM ${read:functions_def} AS d
    WHERE d.size != 0 AND d.mapping_id IN (SELECT mapping_id FROM ${read:nameless})
    GROUP BY mapping_id, start
    UNION ALL
    SELECT d.mapping_id AS mapping_id, toUInt8(1) AS is_offset, toUInt64(d.file_offset - 1) AS start, any(d.function_id) AS function_id, max(d.size) AS extent
    FROM ${read:functions_def} AS d
    WHERE d.size != 0 AND d.file_offset != 0 AND d.mapping_id IN (SELECT mapping_id FROM ${read:nameless})
    GROUP BY mapping_id, start
),
places AS (
    SELECT n.location_id AS location_id, n.stored_as AS stored_as, any(n.mapping_id) AS mapping_id, any(n.address) AS address,
        any(n.is_offset) AS is_offset
    FROM ${read:nameless} AS n
    GROUP BY location_id, stored_as
)
SELECT p.location_id AS location_id, p.stored_as AS stored_as, s.function_id AS function_id
FROM places AS p
ASOF INNER JOIN starts AS s ON s.mapping_id = p.mapping_id AND s.is_offset = p.is_offset AND p.address >= s.start
WHERE p.address - s.start < s.extent
COMMENT 'Functions of places that were stored before the starts of their functions were known.';

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
    toUInt64(s.page_locality != 'unknown') AS n_page_known
FROM ${read:samples} AS s
LEFT JOIN ${read:late_functions} AS l ON l.location_id = s.location_id AND l.stored_as = s.function_id
COMMENT 'Each sample as a row of functions_1h; what functions_1h is closed from.';

CREATE OR REPLACE VIEW ${view:accesses} AS
SELECT
    -- Joined tables have columns of these names too: without names of their own they would be called `s.…` outside.
    s.* EXCEPT (function_id, location_id, workload_id, data_id, event_id),
    s.location_id AS location_id,
    if(l.function_id != 0, l.function_id, s.function_id) AS function_id,
    s.workload_id AS workload_id,
    s.data_id AS data_id,
    s.event_id AS event_id,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    f.source_file AS source_file,
    f.source_line AS source_line,
    d.data_symbol AS data_symbol,
    w.namespace AS namespace,
    w.pod AS pod,
    w.container AS container,
    w.service AS service,
    e.pmu AS pmu,
    e.cpu_model AS cpu_model,
    e.cpuid AS cpuid
FROM ${read:samples} AS s
LEFT JOIN ${read:late_functions} AS l ON l.location_id = s.location_id AND l.stored_as = s.function_id
LEFT JOIN ${read:function_names} AS f ON f.function_id = if(l.function_id != 0, l.function_id, s.function_id)
LEFT JOIN ${read:workload_names} AS w ON w.workload_id = s.workload_id
LEFT JOIN (
    SELECT data_id, argMax(name, last_seen) AS data_symbol FROM ${read:data_def} GROUP BY data_id
) AS d ON d.data_id = s.data_id
LEFT JOIN (
    SELECT event_id, argMax(pmu, last_seen) AS pmu, argMax(cpu_model, last_seen) AS cpu_model, argMax(cpuid, last_seen) AS cpuid
    FROM ${read:events}
    GROUP BY event_id
) AS e ON e.event_id = s.event_id
COMMENT 'Samples with the names of their function, data and workload, and with what their data_src is to be read by.';

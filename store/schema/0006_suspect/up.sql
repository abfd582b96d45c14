-- What is known against a row, and what classifying it again needs. Rows from before have the defaults.

ALTER TABLE ${table:samples}
    ADD COLUMN IF NOT EXISTS mem_region Enum8('unknown' = 0, 'reserved' = 1, 'local-shared-cache' = 2, 'local-cache' = 3, 'other-io' = 4, 'other-shared-cache' = 5, 'other-cache' = 6, 'mmio' = 7, 'mem0' = 8, 'mem1' = 9, 'mem2' = 10, 'mem3' = 11, 'mem4' = 12, 'mem5' = 13, 'mem6' = 14, 'mem7' = 15) COMMENT 'which part of the memory system answered' CODEC(ZSTD(1)) AFTER locality_basis,
    ADD COLUMN IF NOT EXISTS suspect Enum8('none' = 0, 'unnamed-bits' = 1, 'hit-and-miss' = 2, 'levels-disagree' = 3, 'mmio-as-ram' = 4, 'erratum' = 5, 'saturated' = 6, 'rip-invalid' = 7) COMMENT 'what is known against the row; the first that applies' CODEC(ZSTD(1)) AFTER mem_region,
    ADD COLUMN IF NOT EXISTS decoder_version LowCardinality(String) COMMENT 'version of the decoder that made the row, with the revision of its taxonomy; empty: not told' CODEC(ZSTD(1)) AFTER suspect;

ALTER TABLE ${whole:events}
    ADD COLUMN IF NOT EXISTS cpuid LowCardinality(String) COMMENT 'identification of the CPU it was opened on as perf writes it; empty: not known' CODEC(ZSTD(1)) AFTER cpu_model;

CREATE OR REPLACE VIEW ${view:accesses} AS
SELECT
    -- Joined tables have columns of these names too: without names of their own they would be called `s.…` outside.
    s.* EXCEPT (function_id, workload_id, data_id, event_id),
    s.function_id AS function_id,
    s.workload_id AS workload_id,
    s.data_id AS data_id,
    s.event_id AS event_id,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    d.data_symbol AS data_symbol,
    w.namespace AS namespace,
    w.pod AS pod,
    w.container AS container,
    w.service AS service,
    e.pmu AS pmu,
    e.cpu_model AS cpu_model,
    e.cpuid AS cpuid
FROM ${read:samples} AS s
LEFT JOIN ${read:function_names} AS f ON f.function_id = s.function_id
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

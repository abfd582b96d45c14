-- Definitions: what ids mean. They outlive every table that refers to them.

CREATE TABLE IF NOT EXISTS ${table:events} (
    event_id UInt64 CODEC(ZSTD(1)) COMMENT 'event',
    name String CODEC(ZSTD(1)) COMMENT 'name as perf writes it',
    pmu LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'PMU',
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) CODEC(ZSTD(1)) COMMENT 'how much the event can say',
    period_mode LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'fixed, frequency or every',
    period UInt64 CODEC(T64, ZSTD(1)) COMMENT 'period in events, or frequency in samples a second',
    threshold_cycles UInt32 CODEC(T64, ZSTD(1)) COMMENT 'latency threshold, cycles; 0: none',
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) CODEC(ZSTD(1)) COMMENT 'what weights measure; kinds are never added',
    population LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the sum of periods counts; empty: nothing',
    cpu_model LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'model of the CPU',
    attr String CODEC(ZSTD(1)) COMMENT 'perf_event_attr, hex',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (event_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What events are.';

CREATE TABLE IF NOT EXISTS ${table:functions_def} (
    function_id UInt64 CODEC(ZSTD(1)) COMMENT 'function',
    mapping_id UInt64 CODEC(ZSTD(1)) COMMENT 'mapping it lies in, see mappings',
    start UInt64 CODEC(ZSTD(1)) COMMENT 'address of its start in the file of the mapping',
    name String CODEC(ZSTD(1)) COMMENT 'name for people',
    linkage_name String CODEC(ZSTD(1)) COMMENT 'name in the symbol table',
    rank UInt8 CODEC(T64, ZSTD(1)) COMMENT 'how good the source of the name is',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (function_id, rank)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Names of functions; of several rows the one of the highest rank counts.';

CREATE TABLE IF NOT EXISTS ${table:mappings} (
    mapping_id UInt64 CODEC(ZSTD(1)) COMMENT 'mapping',
    kind LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what it is',
    build_id String CODEC(ZSTD(1)) COMMENT 'build id, hex; empty: none',
    path String CODEC(ZSTD(1)) COMMENT 'path',
    module LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'last part of the path',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (mapping_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Files, or what stands for one.';

CREATE TABLE IF NOT EXISTS ${table:locations} (
    location_id UInt64 CODEC(ZSTD(1)) COMMENT 'location',
    mapping_id UInt64 CODEC(ZSTD(1)) COMMENT 'mapping it lies in, see mappings',
    address UInt64 CODEC(ZSTD(1)) COMMENT 'address in the file of the mapping',
    function_id UInt64 CODEC(ZSTD(1)) COMMENT 'function it belongs to, see functions_def',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (location_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Places of instructions.';

CREATE TABLE IF NOT EXISTS ${table:stacks} (
    stack_id UInt64 CODEC(ZSTD(1)) COMMENT 'stack',
    locations Array(UInt64) CODEC(ZSTD(1)) COMMENT 'locations, innermost first',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (stack_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Callchains.';

CREATE TABLE IF NOT EXISTS ${table:data_def} (
    data_id UInt64 CODEC(ZSTD(1)) COMMENT 'data',
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) CODEC(ZSTD(1)) COMMENT 'kind of memory',
    mapping_id UInt64 CODEC(ZSTD(1)) COMMENT 'mapping it lies in; 0: none',
    name String CODEC(ZSTD(1)) COMMENT 'name of the variable or region',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (data_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What data addresses belong to.';

CREATE TABLE IF NOT EXISTS ${table:workloads} (
    workload_id UInt64 CODEC(ZSTD(1)) COMMENT 'workload',
    namespace LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'namespace of the pod',
    pod LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'pod',
    container LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'container',
    service LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'service',
    cgroup_path String CODEC(ZSTD(1)) COMMENT 'path of the cgroup',
    cgroup_id UInt64 CODEC(ZSTD(1)) COMMENT 'number of the cgroup',
    last_seen DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the definition was last sent, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (workload_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What processes run for.';

-- Definitions: what ids mean. They outlive every table that refers to them.

CREATE TABLE IF NOT EXISTS ${table:events} (
    event_id UInt64 COMMENT 'event' CODEC(ZSTD(1)),
    name String COMMENT 'name as perf writes it' CODEC(ZSTD(1)),
    pmu LowCardinality(String) COMMENT 'PMU' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    period_mode LowCardinality(String) COMMENT 'fixed, frequency or every' CODEC(ZSTD(1)),
    period UInt64 COMMENT 'period in events, or frequency in samples a second' CODEC(T64, ZSTD(1)),
    threshold_cycles UInt32 COMMENT 'latency threshold, cycles; 0: none' CODEC(T64, ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    population LowCardinality(String) COMMENT 'what the sum of periods counts; empty: nothing' CODEC(ZSTD(1)),
    cpu_model LowCardinality(String) COMMENT 'model of the CPU' CODEC(ZSTD(1)),
    attr String COMMENT 'perf_event_attr, hex' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (event_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What events are.';

CREATE TABLE IF NOT EXISTS ${table:functions_def} (
    function_id UInt64 COMMENT 'function' CODEC(ZSTD(1)),
    mapping_id UInt64 COMMENT 'mapping it lies in, see mappings' CODEC(ZSTD(1)),
    start UInt64 COMMENT 'address of its start in the file of the mapping' CODEC(ZSTD(1)),
    name String COMMENT 'name for people' CODEC(ZSTD(1)),
    linkage_name String COMMENT 'name in the symbol table' CODEC(ZSTD(1)),
    rank UInt8 COMMENT 'how good the source of the name is' CODEC(T64, ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (function_id, rank)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Names of functions; of several rows the one of the highest rank counts.';

CREATE TABLE IF NOT EXISTS ${table:mappings} (
    mapping_id UInt64 COMMENT 'mapping' CODEC(ZSTD(1)),
    kind LowCardinality(String) COMMENT 'what it is' CODEC(ZSTD(1)),
    build_id String COMMENT 'build id, hex; empty: none' CODEC(ZSTD(1)),
    path String COMMENT 'path' CODEC(ZSTD(1)),
    module LowCardinality(String) COMMENT 'last part of the path' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (mapping_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Files, or what stands for one.';

CREATE TABLE IF NOT EXISTS ${table:locations} (
    location_id UInt64 COMMENT 'location' CODEC(ZSTD(1)),
    mapping_id UInt64 COMMENT 'mapping it lies in, see mappings' CODEC(ZSTD(1)),
    address UInt64 COMMENT 'address in the file of the mapping' CODEC(ZSTD(1)),
    function_id UInt64 COMMENT 'function it belongs to, see functions_def' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (location_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Places of instructions.';

CREATE TABLE IF NOT EXISTS ${table:stacks} (
    stack_id UInt64 COMMENT 'stack' CODEC(ZSTD(1)),
    locations Array(UInt64) COMMENT 'locations, innermost first' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (stack_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'Callchains.';

CREATE TABLE IF NOT EXISTS ${table:data_def} (
    data_id UInt64 COMMENT 'data' CODEC(ZSTD(1)),
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) COMMENT 'kind of memory' CODEC(ZSTD(1)),
    mapping_id UInt64 COMMENT 'mapping it lies in; 0: none' CODEC(ZSTD(1)),
    name String COMMENT 'name of the variable or region' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (data_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What data addresses belong to.';

CREATE TABLE IF NOT EXISTS ${table:workloads} (
    workload_id UInt64 COMMENT 'workload' CODEC(ZSTD(1)),
    namespace LowCardinality(String) COMMENT 'namespace of the pod' CODEC(ZSTD(1)),
    pod LowCardinality(String) COMMENT 'pod' CODEC(ZSTD(1)),
    container LowCardinality(String) COMMENT 'container' CODEC(ZSTD(1)),
    service LowCardinality(String) COMMENT 'service' CODEC(ZSTD(1)),
    cgroup_path String COMMENT 'path of the cgroup' CODEC(ZSTD(1)),
    cgroup_id UInt64 COMMENT 'number of the cgroup' CODEC(ZSTD(1)),
    last_seen DateTime('UTC') COMMENT 'when the definition was last sent, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(last_seen)}
ORDER BY (workload_id)
TTL last_seen + INTERVAL 430 DAY
SETTINGS ${window}
COMMENT 'What processes run for.';

-- What is read beside the rings: changes of counters over an interval, and levels.

CREATE TABLE IF NOT EXISTS ${table:pressure} (
    time DateTime64(9, 'UTC') COMMENT 'moment, or end of the interval, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: the whole host, or a process' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process; 0: not of one' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the process' CODEC(ZSTD(1)),
    metric LowCardinality(String) COMMENT 'what was read' CODEC(ZSTD(1)),
    mode LowCardinality(String) COMMENT ':u or :k where modes are counted apart, else empty' CODEC(ZSTD(1)),
    value Float64 COMMENT 'in the unit beside it' CODEC(Gorilla, ZSTD(1)),
    unit LowCardinality(String) COMMENT 'unit of value' CODEC(ZSTD(1)),
    interval_ns UInt64 COMMENT 'value is the change over so many ns; 0: a level' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested DateTime('UTC') COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:MergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (metric, toStartOfHour(time), host)
ORDER BY (metric, toStartOfHour(time), host, workload_id, pid, time)
TTL greatest(toDateTime(time), ingested) + INTERVAL 30 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Stalls, reclaim, swap, compaction, kills: of hosts, containers and units. Kept 30 days.';

CREATE TABLE IF NOT EXISTS ${table:rss} (
    time DateTime64(9, 'UTC') COMMENT 'moment, or end of the interval, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: the whole host, or a process' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process; 0: not of one' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the process' CODEC(ZSTD(1)),
    metric LowCardinality(String) COMMENT 'what was read' CODEC(ZSTD(1)),
    mode LowCardinality(String) COMMENT ':u or :k where modes are counted apart, else empty' CODEC(ZSTD(1)),
    value Float64 COMMENT 'in the unit beside it' CODEC(Gorilla, ZSTD(1)),
    unit LowCardinality(String) COMMENT 'unit of value' CODEC(ZSTD(1)),
    interval_ns UInt64 COMMENT 'value is the change over so many ns; 0: a level' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested DateTime('UTC') COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:MergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (metric, toStartOfHour(time), host)
ORDER BY (metric, toStartOfHour(time), host, workload_id, pid, time)
TTL greatest(toDateTime(time), ingested) + INTERVAL 30 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Memory of hosts, containers, units and of the largest processes. Kept 30 days.';

CREATE TABLE IF NOT EXISTS ${table:counters} (
    time DateTime64(9, 'UTC') COMMENT 'moment, or end of the interval, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: the whole host, or a process' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process; 0: not of one' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the process' CODEC(ZSTD(1)),
    metric LowCardinality(String) COMMENT 'what was read' CODEC(ZSTD(1)),
    mode LowCardinality(String) COMMENT ':u or :k where modes are counted apart, else empty' CODEC(ZSTD(1)),
    value Float64 COMMENT 'in the unit beside it' CODEC(Gorilla, ZSTD(1)),
    unit LowCardinality(String) COMMENT 'unit of value' CODEC(ZSTD(1)),
    interval_ns UInt64 COMMENT 'value is the change over so many ns; 0: a level' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested DateTime('UTC') COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:MergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (metric, toStartOfHour(time), host)
ORDER BY (metric, toStartOfHour(time), host, workload_id, pid, time)
TTL greatest(toDateTime(time), ingested) + INTERVAL 30 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'What counters counted, and what the collectors themselves cost (metrics that begin with collector). Kept 30 days.';

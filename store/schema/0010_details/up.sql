-- Tables summed from `samples` (fleet_1d: from functions_1h) when a partition's rows are closed, between two blocks of the
-- sink: a sum over a close has a fraction of the rows that flushes every few seconds would bring, and is as exact, as
-- nothing ingested before a close comes after it. `closes_of_details` says how far; what lies behind is in `samples` only.

CREATE TABLE IF NOT EXISTS ${table:fleet_1d} (
    time DateTime('UTC') COMMENT 'begin of the day, UTC' CODEC(DoubleDelta, ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) COMMENT 'operation' CODEC(ZSTD(1)),
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) COMMENT 'where the data was looked for' CODEC(ZSTD(1)),
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) COMMENT 'whether it was there' CODEC(ZSTD(1)),
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far' CODEC(ZSTD(1)),
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) COMMENT 'what locality rests on' CODEC(ZSTD(1)),
    cpu_model LowCardinality(String) COMMENT 'model of the CPU the event was opened on' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    sum_p SimpleAggregateFunction(sum, Float64) COMMENT 'sum of periods, events' CODEC(ZSTD(1)),
    sum_pp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared periods, events²' CODEC(ZSTD(1)),
    sum_w SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weights, cycles of latency_kind' CODEC(ZSTD(1)),
    sum_wp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weight × period, cycles × events' CODEC(ZSTD(1)),
    sum_wpwp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared weight × period' CODEC(ZSTD(1)),
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) COMMENT 'samples found by a page walk' CODEC(T64, ZSTD(1)),
    n_locked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of locked instructions' CODEC(T64, ZSTD(1)),
    n_blocked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of blocked loads' CODEC(T64, ZSTD(1)),
    n_hitm SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found the line modified in another cache' CODEC(T64, ZSTD(1)),
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found it modified on another node' CODEC(T64, ZSTD(1)),
    n_fwd SimpleAggregateFunction(sum, UInt64) COMMENT 'samples forwarded from another cache' CODEC(T64, ZSTD(1)),
    n_peer SimpleAggregateFunction(sum, UInt64) COMMENT 'samples served by a peer cache' CODEC(T64, ZSTD(1)),
    n_page_remote SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page lies on another node' CODEC(T64, ZSTD(1)),
    n_page_known SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page node is known' CODEC(T64, ZSTD(1)),
    hosts AggregateFunction(uniq, UInt64) COMMENT 'state that counts hosts by cityHash64 of their names',
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, time, function_id)
ORDER BY (locality, level, time, function_id, event, event_id, tier, latency_kind, op, outcome, locality_basis, cpu_model, part, close)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Functions by day over all hosts, closed from functions_1h. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:sites_1h} (
    time DateTime('UTC') COMMENT 'begin of the hour, UTC' CODEC(DoubleDelta, ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    location_id UInt64 COMMENT 'place of the instruction, see locations' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) COMMENT 'operation' CODEC(ZSTD(1)),
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) COMMENT 'where the data was looked for' CODEC(ZSTD(1)),
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) COMMENT 'whether it was there' CODEC(ZSTD(1)),
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far' CODEC(ZSTD(1)),
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) COMMENT 'what locality rests on' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    sum_p SimpleAggregateFunction(sum, Float64) COMMENT 'sum of periods, events' CODEC(ZSTD(1)),
    sum_pp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared periods, events²' CODEC(ZSTD(1)),
    sum_w SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weights, cycles of latency_kind' CODEC(ZSTD(1)),
    sum_wp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weight × period, cycles × events' CODEC(ZSTD(1)),
    sum_wpwp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared weight × period' CODEC(ZSTD(1)),
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) COMMENT 'samples found by a page walk' CODEC(T64, ZSTD(1)),
    n_locked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of locked instructions' CODEC(T64, ZSTD(1)),
    n_blocked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of blocked loads' CODEC(T64, ZSTD(1)),
    n_hitm SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found the line modified in another cache' CODEC(T64, ZSTD(1)),
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found it modified on another node' CODEC(T64, ZSTD(1)),
    n_fwd SimpleAggregateFunction(sum, UInt64) COMMENT 'samples forwarded from another cache' CODEC(T64, ZSTD(1)),
    n_peer SimpleAggregateFunction(sum, UInt64) COMMENT 'samples served by a peer cache' CODEC(T64, ZSTD(1)),
    n_page_remote SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page lies on another node' CODEC(T64, ZSTD(1)),
    n_page_known SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page node is known' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (function_id, time, location_id)
ORDER BY (function_id, time, location_id, event, event_id, tier, latency_kind, op, level, outcome, locality, locality_basis, part, close)
TTL greatest(time, ingested) + INTERVAL 90 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Places in the code by hour over all hosts, closed from samples; the view sites adds what is not closed. Kept 90 days.';

CREATE TABLE IF NOT EXISTS ${table:latency_1h} (
    time DateTime('UTC') COMMENT 'begin of the hour, UTC' CODEC(DoubleDelta, ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) COMMENT 'operation' CODEC(ZSTD(1)),
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) COMMENT 'where the data was looked for' CODEC(ZSTD(1)),
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) COMMENT 'whether it was there' CODEC(ZSTD(1)),
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far' CODEC(ZSTD(1)),
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) COMMENT 'what locality rests on' CODEC(ZSTD(1)),
    bucket Int16 COMMENT 'latencies from 2^(bucket/4) to below 2^((bucket+1)/4) cycles of latency_kind; -1: none was measured' CODEC(T64, ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    sum_p SimpleAggregateFunction(sum, Float64) COMMENT 'sum of periods, events' CODEC(ZSTD(1)),
    sum_w SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weights, cycles of latency_kind' CODEC(ZSTD(1)),
    n_saturated SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose latency was the largest that can be told' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, time, function_id)
ORDER BY (locality, level, time, function_id, event, event_id, tier, latency_kind, op, outcome, locality_basis, bucket, part, close)
TTL greatest(time, ingested) + INTERVAL 90 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'How long accesses took, by function and hour over all hosts, closed from samples; the view latency adds what is not closed. Kept 90 days.';

CREATE TABLE IF NOT EXISTS ${table:data_1h} (
    time DateTime('UTC') COMMENT 'begin of the hour, UTC' CODEC(DoubleDelta, ZSTD(1)),
    data_id UInt64 COMMENT 'what the data address belongs to, see data_def; 0: not known' CODEC(ZSTD(1)),
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) COMMENT 'kind of memory of the data address' CODEC(ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: none' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) COMMENT 'operation' CODEC(ZSTD(1)),
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) COMMENT 'where the data was looked for' CODEC(ZSTD(1)),
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) COMMENT 'whether it was there' CODEC(ZSTD(1)),
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far' CODEC(ZSTD(1)),
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) COMMENT 'what locality rests on' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    sum_p SimpleAggregateFunction(sum, Float64) COMMENT 'sum of periods, events' CODEC(ZSTD(1)),
    sum_pp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared periods, events²' CODEC(ZSTD(1)),
    sum_w SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weights, cycles of latency_kind' CODEC(ZSTD(1)),
    sum_wp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weight × period, cycles × events' CODEC(ZSTD(1)),
    sum_wpwp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared weight × period' CODEC(ZSTD(1)),
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) COMMENT 'samples found by a page walk' CODEC(T64, ZSTD(1)),
    n_locked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of locked instructions' CODEC(T64, ZSTD(1)),
    n_blocked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of blocked loads' CODEC(T64, ZSTD(1)),
    n_hitm SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found the line modified in another cache' CODEC(T64, ZSTD(1)),
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found it modified on another node' CODEC(T64, ZSTD(1)),
    n_fwd SimpleAggregateFunction(sum, UInt64) COMMENT 'samples forwarded from another cache' CODEC(T64, ZSTD(1)),
    n_peer SimpleAggregateFunction(sum, UInt64) COMMENT 'samples served by a peer cache' CODEC(T64, ZSTD(1)),
    n_page_remote SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page lies on another node' CODEC(T64, ZSTD(1)),
    n_page_known SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page node is known' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (region, time, data_id, function_id, host)
ORDER BY (region, time, data_id, function_id, host, workload_id, event, event_id, tier, latency_kind, op, level, outcome, locality, locality_basis, part, close)
TTL greatest(time, ingested) + INTERVAL 90 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Variables and kinds of memory by function, host and hour, closed from samples; the view data adds what is not closed. Kept 90 days.';

CREATE TABLE IF NOT EXISTS ${table:pages_1h} (
    time DateTime('UTC') COMMENT 'begin of the hour, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process; 0: the rest' CODEC(T64, ZSTD(1)),
    page UInt64 COMMENT 'address at which the page begins; 0: the rest' CODEC(ZSTD(1)),
    page_shift UInt8 COMMENT 'base-2 logarithm of the page size, bytes; 0: not known, page counts as 4 KiB' CODEC(T64, ZSTD(1)),
    data_id UInt64 COMMENT 'what the data address belongs to, see data_def; 0: not known' CODEC(ZSTD(1)),
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) COMMENT 'kind of memory of the data address' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    sum_p SimpleAggregateFunction(sum, Float64) COMMENT 'sum of periods, events' CODEC(ZSTD(1)),
    sum_pp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared periods, events²' CODEC(ZSTD(1)),
    sum_w SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weights, cycles of latency_kind' CODEC(ZSTD(1)),
    sum_wp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weight × period, cycles × events' CODEC(ZSTD(1)),
    sum_wpwp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared weight × period' CODEC(ZSTD(1)),
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) COMMENT 'samples found by a page walk' CODEC(T64, ZSTD(1)),
    n_locked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of locked instructions' CODEC(T64, ZSTD(1)),
    n_blocked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of blocked loads' CODEC(T64, ZSTD(1)),
    n_hitm SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found the line modified in another cache' CODEC(T64, ZSTD(1)),
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found it modified on another node' CODEC(T64, ZSTD(1)),
    n_fwd SimpleAggregateFunction(sum, UInt64) COMMENT 'samples forwarded from another cache' CODEC(T64, ZSTD(1)),
    n_peer SimpleAggregateFunction(sum, UInt64) COMMENT 'samples served by a peer cache' CODEC(T64, ZSTD(1)),
    n_page_remote SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page lies on another node' CODEC(T64, ZSTD(1)),
    n_page_known SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page node is known' CODEC(T64, ZSTD(1)),
    n_loads SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that load' CODEC(T64, ZSTD(1)),
    n_stores SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that store' CODEC(T64, ZSTD(1)),
    page_nodes SimpleAggregateFunction(groupUniqArrayArray, Array(UInt8)) COMMENT 'NUMA nodes it was seen on; 255: not known; empty in the rest' CODEC(ZSTD(1)),
    cpus SimpleAggregateFunction(groupUniqArrayArray, Array(UInt16)) COMMENT 'CPUs that accessed it; empty in the rest' CODEC(ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (host, time, pid, page)
ORDER BY (host, time, pid, page, page_shift, region, data_id, event, event_id, tier, latency_kind, part, close)
TTL greatest(time, ingested) + INTERVAL 30 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Of each host, hour, event and close the 1000 pages with most samples, and the exact rest in rows of page 0; closed from samples. Kept 30 days.';

CREATE TABLE IF NOT EXISTS ${table:lines_1m} (
    time DateTime('UTC') COMMENT 'begin of the minute, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process; 0: the rest' CODEC(T64, ZSTD(1)),
    line UInt64 COMMENT 'address at which the cache line of 64 bytes begins; 0: the rest' CODEC(ZSTD(1)),
    offset UInt8 COMMENT 'byte in the line; 0 in the rest' CODEC(T64, ZSTD(1)),
    phys_line UInt64 COMMENT 'physical address of the line where the memory is shared between processes; 0: not shared, or not known' CODEC(ZSTD(1)),
    data_id UInt64 COMMENT 'what the data address belongs to, see data_def; 0: not known' CODEC(ZSTD(1)),
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) COMMENT 'kind of memory of the data address' CODEC(ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def; 0 in the rest' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    sum_p SimpleAggregateFunction(sum, Float64) COMMENT 'sum of periods, events' CODEC(ZSTD(1)),
    sum_pp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared periods, events²' CODEC(ZSTD(1)),
    sum_w SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weights, cycles of latency_kind' CODEC(ZSTD(1)),
    sum_wp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of weight × period, cycles × events' CODEC(ZSTD(1)),
    sum_wpwp SimpleAggregateFunction(sum, Float64) COMMENT 'sum of squared weight × period' CODEC(ZSTD(1)),
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) COMMENT 'samples found by a page walk' CODEC(T64, ZSTD(1)),
    n_locked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of locked instructions' CODEC(T64, ZSTD(1)),
    n_blocked SimpleAggregateFunction(sum, UInt64) COMMENT 'samples of blocked loads' CODEC(T64, ZSTD(1)),
    n_hitm SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found the line modified in another cache' CODEC(T64, ZSTD(1)),
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that found it modified on another node' CODEC(T64, ZSTD(1)),
    n_fwd SimpleAggregateFunction(sum, UInt64) COMMENT 'samples forwarded from another cache' CODEC(T64, ZSTD(1)),
    n_peer SimpleAggregateFunction(sum, UInt64) COMMENT 'samples served by a peer cache' CODEC(T64, ZSTD(1)),
    n_page_remote SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page lies on another node' CODEC(T64, ZSTD(1)),
    n_page_known SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page node is known' CODEC(T64, ZSTD(1)),
    n_loads SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that load' CODEC(T64, ZSTD(1)),
    n_stores SimpleAggregateFunction(sum, UInt64) COMMENT 'samples that store' CODEC(T64, ZSTD(1)),
    tids SimpleAggregateFunction(groupUniqArrayArray, Array(UInt32)) COMMENT 'threads that accessed it; empty in the rest' CODEC(ZSTD(1)),
    cpus SimpleAggregateFunction(groupUniqArrayArray, Array(UInt16)) COMMENT 'CPUs that accessed it; empty in the rest' CODEC(ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (host, toStartOfHour(time), pid, line)
ORDER BY (host, toStartOfHour(time), pid, line, offset, phys_line, region, data_id, function_id, event, event_id, tier, latency_kind, time, part, close)
TTL greatest(time, ingested) + INTERVAL 14 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Precise loads and stores of cache lines that another cache had to answer, or that several CPUs use and one writes, within a process, hour and close; all others in rows of line 0. Closed from samples. Kept 14 days.';

CREATE TABLE IF NOT EXISTS ${table:faults_1m} (
    time DateTime('UTC') COMMENT 'begin of the minute, UTC' CODEC(DoubleDelta, ZSTD(1)),
    kind LowCardinality(String) COMMENT 'minor, major, all (both together) or exception: what the event counts' CODEC(ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: none' CODEC(ZSTD(1)),
    pid UInt32 COMMENT 'process' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the thread' CODEC(ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    data_id UInt64 COMMENT 'what the data address belongs to, see data_def; 0: not known' CODEC(ZSTD(1)),
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) COMMENT 'kind of memory of the data address' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) COMMENT 'in which context the CPU was' CODEC(ZSTD(1)),
    n SimpleAggregateFunction(sum, UInt64) COMMENT 'samples' CODEC(T64, ZSTD(1)),
    faults SimpleAggregateFunction(sum, Float64) COMMENT 'faults that the samples stand for' CODEC(ZSTD(1)),
    n_page_remote SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page lies on another node' CODEC(T64, ZSTD(1)),
    n_page_known SimpleAggregateFunction(sum, UInt64) COMMENT 'samples whose page node is known' CODEC(T64, ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (kind, toStartOfHour(time), host)
ORDER BY (kind, toStartOfHour(time), host, workload_id, pid, comm, function_id, region, data_id, event, event_id, tier, latency_kind, context, time, part, close)
TTL greatest(time, ingested) + INTERVAL 14 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Page faults by process, function, memory and minute, closed from samples; the view faults adds what is not closed. Kept 14 days.';

CREATE TABLE IF NOT EXISTS ${table:closes_of_details} (
    part UInt16 COMMENT 'partition of the stream' CODEC(T64, ZSTD(1)),
    closed_through DateTime('UTC') COMMENT 'ingest time, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(closed_through)}
ORDER BY (part)
SETTINGS ${window}
COMMENT 'How far fleet_1d, sites_1h, latency_1h, data_1h, pages_1h, lines_1m and faults_1m are closed, by partition.';

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
    toFloat64(greatest(s.period, 1)) AS faults
FROM ${read:samples} AS s
LEFT JOIN ${read:late_functions} AS l ON l.location_id = s.location_id AND l.stored_as = s.function_id
COMMENT 'Each sample as a row of what is summed from samples at a close.';

CREATE VIEW IF NOT EXISTS ${view:sites} AS
WITH
-- Through when each partition is closed, by partition + 1, as in the view functions.
(
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through,
rows AS (
    SELECT h.time AS time, h.function_id AS function_id, h.location_id AS location_id, h.event_id AS event_id,
        h.event AS event, h.tier AS tier, h.latency_kind AS latency_kind, h.op AS op, h.level AS level,
        h.outcome AS outcome, h.locality AS locality, h.locality_basis AS locality_basis, h.n AS n,
        h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w, h.sum_wp AS sum_wp, h.sum_wpwp AS sum_wpwp,
        h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked, h.n_blocked AS n_blocked, h.n_hitm AS n_hitm,
        h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd, h.n_peer AS n_peer, h.n_page_remote AS n_page_remote,
        h.n_page_known AS n_page_known
    FROM ${read:sites_1h} AS h
    WHERE h.close <= through[h.part + 1]
    UNION ALL
    SELECT o.time, o.function_id, o.location_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level, o.outcome,
        o.locality, o.locality_basis, o.n, o.sum_p, o.sum_pp, o.sum_w, o.sum_wp, o.sum_wpwp, o.n_stlb_walk,
        o.n_locked, o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer, o.n_page_remote, o.n_page_known
    FROM ${read:samples_as_functions} AS o
    WHERE o.ingested > through[o.part + 1]
)
SELECT
    r.time AS time,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    l.address AS address,
    r.event AS event,
    r.tier AS tier,
    r.latency_kind AS latency_kind,
    r.op AS op,
    r.level AS level,
    r.outcome AS outcome,
    r.locality AS locality,
    r.locality_basis AS locality_basis,
    r.n AS samples,
    r.sum_p AS sum_p,
    r.sum_pp AS sum_pp,
    r.sum_w AS weight,
    r.sum_wp AS latency_cycles,
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
    r.location_id AS location_id,
    r.event_id AS event_id
FROM rows AS r
LEFT JOIN ${read:function_names} AS f ON f.function_id = r.function_id
LEFT JOIN (SELECT location_id, any(address) AS address FROM ${read:locations} GROUP BY location_id) AS l ON l.location_id = r.location_id
COMMENT 'Where in the code: closed hours from sites_1h and the open rest from samples. Sum samples, weight, latency_cycles and n_* again.';

CREATE VIEW IF NOT EXISTS ${view:latency} AS
WITH
-- Through when each partition is closed, by partition + 1, as in the view functions.
(
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through,
rows AS (
    SELECT h.time AS time, h.function_id AS function_id, h.event_id AS event_id, h.event AS event, h.tier AS tier,
        h.latency_kind AS latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome, h.locality AS locality,
        h.locality_basis AS locality_basis, h.bucket AS bucket, h.n AS n, h.sum_p AS sum_p, h.sum_w AS sum_w,
        h.n_saturated AS n_saturated
    FROM ${read:latency_1h} AS h
    WHERE h.close <= through[h.part + 1]
    UNION ALL
    SELECT o.time, o.function_id, o.event_id, o.event, o.tier, o.latency_kind, o.op, o.level, o.outcome, o.locality,
        o.locality_basis, o.bucket, o.n, o.sum_p, o.sum_w, o.n_saturated
    FROM ${read:samples_as_functions} AS o
    WHERE o.ingested > through[o.part + 1]
)
SELECT
    r.time AS time,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    r.event AS event,
    r.tier AS tier,
    r.latency_kind AS latency_kind,
    r.op AS op,
    r.level AS level,
    r.outcome AS outcome,
    r.locality AS locality,
    r.locality_basis AS locality_basis,
    r.bucket AS bucket,
    r.n AS samples,
    r.sum_p AS sum_p,
    r.sum_w AS weight,
    r.n_saturated AS n_saturated,
    r.function_id AS function_id,
    r.event_id AS event_id
FROM rows AS r
LEFT JOIN ${read:function_names} AS f ON f.function_id = r.function_id
COMMENT 'How long accesses took: closed hours from latency_1h and the open rest from samples. Sum samples again; a bucket holds 2^(bucket/4) to below 2^((bucket+1)/4) cycles.';

CREATE VIEW IF NOT EXISTS ${view:data} AS
WITH
-- Through when each partition is closed, by partition + 1, as in the view functions.
(
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through,
rows AS (
    SELECT h.time AS time, h.data_id AS data_id, h.region AS region, h.function_id AS function_id, h.host AS host,
        h.workload_id AS workload_id, h.event_id AS event_id, h.event AS event, h.tier AS tier,
        h.latency_kind AS latency_kind, h.op AS op, h.level AS level, h.outcome AS outcome, h.locality AS locality,
        h.locality_basis AS locality_basis, h.n AS n, h.sum_p AS sum_p, h.sum_pp AS sum_pp, h.sum_w AS sum_w,
        h.sum_wp AS sum_wp, h.sum_wpwp AS sum_wpwp, h.n_stlb_walk AS n_stlb_walk, h.n_locked AS n_locked,
        h.n_blocked AS n_blocked, h.n_hitm AS n_hitm, h.n_hitm_rmt AS n_hitm_rmt, h.n_fwd AS n_fwd,
        h.n_peer AS n_peer, h.n_page_remote AS n_page_remote, h.n_page_known AS n_page_known
    FROM ${read:data_1h} AS h
    WHERE h.close <= through[h.part + 1]
    UNION ALL
    SELECT o.time, o.data_id, o.region, o.function_id, o.host, o.workload_id, o.event_id, o.event, o.tier,
        o.latency_kind, o.op, o.level, o.outcome, o.locality, o.locality_basis, o.n, o.sum_p, o.sum_pp, o.sum_w,
        o.sum_wp, o.sum_wpwp, o.n_stlb_walk, o.n_locked, o.n_blocked, o.n_hitm, o.n_hitm_rmt, o.n_fwd, o.n_peer,
        o.n_page_remote, o.n_page_known
    FROM ${read:samples_as_functions} AS o
    WHERE o.ingested > through[o.part + 1]
)
SELECT
    r.time AS time,
    d.data_symbol AS data_symbol,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    r.region AS region,
    r.host AS host,
    r.event AS event,
    r.tier AS tier,
    r.latency_kind AS latency_kind,
    r.op AS op,
    r.level AS level,
    r.outcome AS outcome,
    r.locality AS locality,
    r.locality_basis AS locality_basis,
    w.namespace AS namespace,
    w.pod AS pod,
    w.container AS container,
    w.service AS service,
    r.n AS samples,
    r.sum_p AS sum_p,
    r.sum_pp AS sum_pp,
    r.sum_w AS weight,
    r.sum_wp AS latency_cycles,
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
    r.data_id AS data_id,
    r.function_id AS function_id,
    r.workload_id AS workload_id,
    r.event_id AS event_id
FROM rows AS r
LEFT JOIN ${read:function_names} AS f ON f.function_id = r.function_id
LEFT JOIN (
    SELECT data_id, argMax(name, last_seen) AS data_symbol FROM ${read:data_def} GROUP BY data_id
) AS d ON d.data_id = r.data_id
LEFT JOIN ${read:workload_names} AS w ON w.workload_id = r.workload_id
COMMENT 'Which data: closed hours from data_1h and the open rest from samples. Sum samples, weight, latency_cycles and n_* again.';

CREATE VIEW IF NOT EXISTS ${view:faults} AS
WITH
-- Through when each partition is closed, by partition + 1, as in the view functions.
(
    SELECT groupArrayInsertAt(toDateTime(0, 'UTC'))(closed, toUInt32(part))
    FROM (SELECT part, max(closed_through) AS closed FROM ${read:closes_of_details} GROUP BY part)
) AS through,
rows AS (
    SELECT h.time AS time, h.kind AS kind, h.host AS host, h.workload_id AS workload_id, h.pid AS pid, h.comm AS comm,
        h.function_id AS function_id, h.data_id AS data_id, h.region AS region, h.event_id AS event_id,
        h.event AS event, h.tier AS tier, h.latency_kind AS latency_kind, h.context AS context, h.n AS n,
        h.faults AS faults, h.n_page_remote AS n_page_remote, h.n_page_known AS n_page_known
    FROM ${read:faults_1m} AS h
    WHERE h.close <= through[h.part + 1]
    UNION ALL
    SELECT o.minute AS time, o.fault_kind AS kind, o.host, o.workload_id, o.pid, o.comm, o.function_id, o.data_id,
        o.region, o.event_id, o.event, o.tier, o.latency_kind, o.context, o.n, o.faults, o.n_page_remote,
        o.n_page_known
    FROM ${read:samples_as_functions} AS o
    WHERE o.ingested > through[o.part + 1]
        AND o.fault_kind != ''
)
SELECT
    r.time AS time,
    d.data_symbol AS data_symbol,
    f.function AS function,
    f.module AS module,
    f.build_id AS build_id,
    r.kind AS kind,
    r.host AS host,
    r.pid AS pid,
    r.comm AS comm,
    r.region AS region,
    r.event AS event,
    r.tier AS tier,
    r.latency_kind AS latency_kind,
    r.context AS context,
    w.namespace AS namespace,
    w.pod AS pod,
    w.container AS container,
    w.service AS service,
    r.n AS samples,
    r.faults AS faults,
    r.n_page_remote AS n_page_remote,
    r.n_page_known AS n_page_known,
    r.workload_id AS workload_id,
    r.function_id AS function_id,
    r.data_id AS data_id,
    r.event_id AS event_id
FROM rows AS r
LEFT JOIN ${read:function_names} AS f ON f.function_id = r.function_id
LEFT JOIN (
    SELECT data_id, argMax(name, last_seen) AS data_symbol FROM ${read:data_def} GROUP BY data_id
) AS d ON d.data_id = r.data_id
LEFT JOIN ${read:workload_names} AS w ON w.workload_id = r.workload_id
COMMENT 'Where page faults come from: closed minutes from faults_1m and the open rest from samples. Sum samples and faults again.';

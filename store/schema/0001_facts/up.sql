-- Facts: what happened, each row with its time. `part` and `ingested` are added by the sink.

CREATE TABLE IF NOT EXISTS ${table:samples} (
    time DateTime64(9, 'UTC') COMMENT 'when the sample was taken, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    source_id UInt64 COMMENT 'source the sample came in with' CODEC(ZSTD(1)),
    batch UInt64 COMMENT 'batch of the source' CODEC(T64, ZSTD(1)),
    cpu UInt16 COMMENT 'CPU' CODEC(T64, ZSTD(1)),
    pid UInt32 COMMENT 'process' CODEC(T64, ZSTD(1)),
    tid UInt32 COMMENT 'thread' CODEC(T64, ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the thread' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: none' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) COMMENT 'in which context the CPU was' CODEC(ZSTD(1)),
    ip UInt64 COMMENT 'instruction address' CODEC(ZSTD(1)),
    function_id UInt64 COMMENT 'function, see functions_def' CODEC(ZSTD(1)),
    location_id UInt64 COMMENT 'place of the instruction, see locations' CODEC(ZSTD(1)),
    stack_id UInt64 COMMENT 'callchain, see stacks; 0: none' CODEC(ZSTD(1)),
    addr UInt64 COMMENT 'data address; 0: none' CODEC(ZSTD(1)),
    phys_addr UInt64 COMMENT 'physical data address; 0: none' CODEC(ZSTD(1)),
    data_id UInt64 COMMENT 'what the data address belongs to, see data_def; 0: not known' CODEC(ZSTD(1)),
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) COMMENT 'kind of memory of the data address' CODEC(ZSTD(1)),
    data_src UInt64 COMMENT 'perf_mem_data_src as sampled' CODEC(ZSTD(1)),
    period UInt64 COMMENT 'events this sample stands for; 0: not given' CODEC(T64, ZSTD(1)),
    weight UInt32 COMMENT 'latency, cycles of latency_kind; 0: none' CODEC(T64, ZSTD(1)),
    ins_lat UInt16 COMMENT 'instruction latency, cycles; 0: none' CODEC(T64, ZSTD(1)),
    retire_lat UInt16 COMMENT 'retire latency, cycles; 0: none' CODEC(T64, ZSTD(1)),
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) COMMENT 'what weights measure; kinds are never added' CODEC(ZSTD(1)),
    page_shift UInt8 COMMENT 'base-2 logarithm of the page size, bytes; 0: not known' CODEC(T64, ZSTD(1)),
    page_node UInt8 COMMENT 'NUMA node of the page; 255: not known' CODEC(T64, ZSTD(1)),
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) COMMENT 'operation' CODEC(ZSTD(1)),
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) COMMENT 'where the data was looked for' CODEC(ZSTD(1)),
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) COMMENT 'whether it was there' CODEC(ZSTD(1)),
    snoop Enum8('unknown' = 0, 'none' = 1, 'miss' = 2, 'hit' = 3, 'peer' = 4, 'fwd' = 5, 'hitm' = 6) COMMENT 'what other caches answered' CODEC(ZSTD(1)),
    tlb Enum8('unknown' = 0, 'l1-hit' = 1, 'l2-hit' = 2, 'l1-or-l2-hit' = 3, 'walk' = 4, 'fault' = 5, 'miss' = 6) COMMENT 'address translation' CODEC(ZSTD(1)),
    locked UInt8 COMMENT '1: a locked instruction' CODEC(T64, ZSTD(1)),
    blocked Enum8('unknown' = 0, 'no' = 1, 'data' = 2, 'address' = 3, 'data+address' = 4) COMMENT 'why the load had to wait' CODEC(ZSTD(1)),
    hw_locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far by the word of the hardware' CODEC(ZSTD(1)),
    page_locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far by the node of the page' CODEC(ZSTD(1)),
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far' CODEC(ZSTD(1)),
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) COMMENT 'what locality rests on' CODEC(ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested DateTime('UTC') COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1)),
    INDEX ingested_range ingested TYPE minmax GRANULARITY 1
)
ENGINE = ${engine:MergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, toStartOfHour(time), function_id, host)
ORDER BY (locality, level, toStartOfHour(time), function_id, host, time)
TTL greatest(toDateTime(time), ingested) + INTERVAL 3 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'One row a sample. Kept 3 days.';

CREATE TABLE IF NOT EXISTS ${table:mix_1m} (
    time DateTime('UTC') COMMENT 'begin of the minute, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    workload_id UInt64 COMMENT 'workload, see workloads; 0: none' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'how much the event can say' CODEC(ZSTD(1)),
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) COMMENT 'operation' CODEC(ZSTD(1)),
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) COMMENT 'where the data was looked for' CODEC(ZSTD(1)),
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) COMMENT 'whether it was there' CODEC(ZSTD(1)),
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) COMMENT 'near or far' CODEC(ZSTD(1)),
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) COMMENT 'what locality rests on' CODEC(ZSTD(1)),
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) COMMENT 'in which context the CPU was' CODEC(ZSTD(1)),
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
    part SimpleAggregateFunction(max, UInt16) COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (event, locality, level, toStartOfHour(time), host)
ORDER BY (event, locality, level, toStartOfHour(time), host, workload_id, op, outcome, locality_basis, context, event_id, tier, time)
TTL greatest(time, ingested) + INTERVAL 14 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'What each host minute consists of, without functions. Kept 14 days.';

CREATE TABLE IF NOT EXISTS ${table:functions_1h} (
    time DateTime('UTC') COMMENT 'begin of the hour, UTC' CODEC(DoubleDelta, ZSTD(1)),
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
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) COMMENT 'in which context the CPU was' CODEC(ZSTD(1)),
    comm LowCardinality(String) COMMENT 'name of the thread' CODEC(ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    close DateTime('UTC') COMMENT 'ingest time through which the row was closed, UTC' CODEC(ZSTD(1)),
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
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the newest block in the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, time, function_id, host)
ORDER BY (locality, level, time, function_id, host, workload_id, comm, event, event_id, tier, latency_kind, op, outcome, locality_basis, context, part, close)
TTL greatest(time, ingested) + INTERVAL 90 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Functions by host and hour, closed from samples by ingest time; read it through the view functions. Kept 90 days.';

CREATE TABLE IF NOT EXISTS ${table:fleet_1h} (
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
    cpu_model LowCardinality(String) COMMENT 'model of the CPU' CODEC(ZSTD(1)),
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
    host_id UInt64 EPHEMERAL COMMENT 'host, counted in hosts',
    hosts AggregateFunction(uniq, UInt64) DEFAULT arrayReduce('uniqState', [host_id]) COMMENT 'state that counts hosts',
    part SimpleAggregateFunction(max, UInt16) COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, time, function_id)
ORDER BY (locality, level, time, function_id, event, event_id, tier, latency_kind, op, outcome, locality_basis, cpu_model)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Functions by hour over all hosts. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:ledger_1m} (
    time DateTime('UTC') COMMENT 'minute in which the batch was closed, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    source_id UInt64 COMMENT 'source' CODEC(ZSTD(1)),
    event_id UInt64 COMMENT 'event, see events' CODEC(ZSTD(1)),
    event LowCardinality(String) COMMENT 'name of the event' CODEC(ZSTD(1)),
    tier Enum8('none' = 0, 'software' = 1, 'event' = 2, 'precise' = 3) COMMENT 'tier of the event' CODEC(ZSTD(1)),
    reason Enum8('produced' = 1, 'stored' = 2, 'batches' = 3, 'lost' = 4, 'residue' = 5, 'throttled_s' = 6, 'blind_s' = 7, 'collision_share' = 8, 'gap' = 9, 'undecodable' = 10, 'refused' = 11, 'expired' = 12, 'unresolved' = 13, 'partial' = 14) COMMENT 'what is counted' CODEC(ZSTD(1)),
    records SimpleAggregateFunction(sum, UInt64) COMMENT 'records' CODEC(T64, ZSTD(1)),
    seconds SimpleAggregateFunction(sum, Float64) COMMENT 'seconds, or a share where the reason is one' CODEC(ZSTD(1)),
    last_batch SimpleAggregateFunction(max, UInt64) COMMENT 'last batch that added to the row' CODEC(T64, ZSTD(1)),
    part SimpleAggregateFunction(max, UInt16) COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (reason, toStartOfHour(time), host, source_id)
ORDER BY (reason, toStartOfHour(time), host, source_id, event, event_id, tier, time)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'What was produced, stored and lost, and why. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:hosts} (
    time DateTime('UTC') COMMENT 'when the facts were read, UTC' CODEC(DoubleDelta, ZSTD(1)),
    host LowCardinality(String) COMMENT 'name of the host' CODEC(ZSTD(1)),
    host_id UInt64 COMMENT 'host' CODEC(ZSTD(1)),
    kind LowCardinality(String) COMMENT 'live, import or simulated' CODEC(ZSTD(1)),
    arch LowCardinality(String) COMMENT 'architecture' CODEC(ZSTD(1)),
    os_release LowCardinality(String) COMMENT 'release of the kernel' CODEC(ZSTD(1)),
    cpu_vendor LowCardinality(String) COMMENT 'vendor of the CPU' CODEC(ZSTD(1)),
    cpu_model LowCardinality(String) COMMENT 'model of the CPU' CODEC(ZSTD(1)),
    cpuid LowCardinality(String) COMMENT 'identification of the CPU as perf writes it' CODEC(ZSTD(1)),
    cpus UInt32 COMMENT 'CPUs' CODEC(T64, ZSTD(1)),
    nodes UInt16 COMMENT 'NUMA nodes' CODEC(T64, ZSTD(1)),
    remote_means LowCardinality(String) COMMENT 'what remote means to its hardware' CODEC(ZSTD(1)),
    virtualization LowCardinality(String) COMMENT 'hypervisor; empty: none' CODEC(ZSTD(1)),
    tiers Array(String) COMMENT 'tiers its events can reach' CODEC(ZSTD(1)),
    capabilities String COMMENT 'capabilities and what is missing, JSON' CODEC(ZSTD(1)),
    facts_id UInt64 COMMENT 'hash of the facts' CODEC(ZSTD(1)),
    version LowCardinality(String) COMMENT 'version of its collector' CODEC(ZSTD(1)),
    part UInt16 COMMENT 'partition of the stream the row came by' CODEC(T64, ZSTD(1)),
    ingested DateTime('UTC') COMMENT 'when the block of the row was made, UTC' CODEC(ZSTD(1))
)
ENGINE = ${engine:ReplacingMergeTree(time)}
PARTITION BY toDate(time)
ORDER BY (host, host_id, toDate(time), facts_id)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Facts of hosts, one row a day and change. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:closes} (
    part UInt16 COMMENT 'partition of the stream' CODEC(T64, ZSTD(1)),
    closed_through DateTime('UTC') COMMENT 'ingest time, UTC' CODEC(ZSTD(1))
)
ENGINE = ${everywhere:ReplacingMergeTree(closed_through)}
ORDER BY (part)
SETTINGS ${window}
COMMENT 'How far functions_1h is closed, by partition.';

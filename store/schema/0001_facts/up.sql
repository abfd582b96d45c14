-- Facts: what happened, each row with its time. `part` and `ingested` are added by the sink.

CREATE TABLE IF NOT EXISTS ${table:samples} (
    time DateTime64(9, 'UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'when the sample was taken, UTC',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the host',
    source_id UInt64 CODEC(ZSTD(1)) COMMENT 'source the sample came in with',
    batch UInt64 CODEC(T64, ZSTD(1)) COMMENT 'batch of the source',
    cpu UInt16 CODEC(T64, ZSTD(1)) COMMENT 'CPU',
    pid UInt32 CODEC(T64, ZSTD(1)) COMMENT 'process',
    tid UInt32 CODEC(T64, ZSTD(1)) COMMENT 'thread',
    comm LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the thread',
    workload_id UInt64 CODEC(ZSTD(1)) COMMENT 'workload, see workloads; 0: none',
    event_id UInt64 CODEC(ZSTD(1)) COMMENT 'event, see events',
    event LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the event',
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) CODEC(ZSTD(1)) COMMENT 'how much the event can say',
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) CODEC(ZSTD(1)) COMMENT 'in which context the CPU was',
    ip UInt64 CODEC(ZSTD(1)) COMMENT 'instruction address',
    function_id UInt64 CODEC(ZSTD(1)) COMMENT 'function, see functions_def',
    location_id UInt64 CODEC(ZSTD(1)) COMMENT 'place of the instruction, see locations',
    stack_id UInt64 CODEC(ZSTD(1)) COMMENT 'callchain, see stacks; 0: none',
    addr UInt64 CODEC(ZSTD(1)) COMMENT 'data address; 0: none',
    phys_addr UInt64 CODEC(ZSTD(1)) COMMENT 'physical data address; 0: none',
    data_id UInt64 CODEC(ZSTD(1)) COMMENT 'what the data address belongs to, see data_def; 0: not known',
    region Enum8('unknown' = 0, 'global' = 1, 'heap' = 2, 'stack' = 3, 'file' = 4, 'anonymous' = 5, 'shared' = 6, 'kernel' = 7, 'vdso' = 8) CODEC(ZSTD(1)) COMMENT 'kind of memory of the data address',
    data_src UInt64 CODEC(ZSTD(1)) COMMENT 'perf_mem_data_src as sampled',
    period UInt64 CODEC(T64, ZSTD(1)) COMMENT 'events this sample stands for; 0: not given',
    weight UInt32 CODEC(T64, ZSTD(1)) COMMENT 'latency, cycles of latency_kind; 0: none',
    ins_lat UInt16 CODEC(T64, ZSTD(1)) COMMENT 'instruction latency, cycles; 0: none',
    retire_lat UInt16 CODEC(T64, ZSTD(1)) COMMENT 'retire latency, cycles; 0: none',
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) CODEC(ZSTD(1)) COMMENT 'what weights measure; kinds are never added',
    page_shift UInt8 CODEC(T64, ZSTD(1)) COMMENT 'base-2 logarithm of the page size, bytes; 0: not known',
    page_node UInt8 CODEC(T64, ZSTD(1)) COMMENT 'NUMA node of the page; 255: not known',
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) CODEC(ZSTD(1)) COMMENT 'operation',
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) CODEC(ZSTD(1)) COMMENT 'where the data was looked for',
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) CODEC(ZSTD(1)) COMMENT 'whether it was there',
    snoop Enum8('unknown' = 0, 'none' = 1, 'miss' = 2, 'hit' = 3, 'peer' = 4, 'fwd' = 5, 'hitm' = 6) CODEC(ZSTD(1)) COMMENT 'what other caches answered',
    tlb Enum8('unknown' = 0, 'l1-hit' = 1, 'l2-hit' = 2, 'l1-or-l2-hit' = 3, 'walk' = 4, 'fault' = 5, 'miss' = 6) CODEC(ZSTD(1)) COMMENT 'address translation',
    locked UInt8 CODEC(T64, ZSTD(1)) COMMENT '1: a locked instruction',
    blocked Enum8('unknown' = 0, 'no' = 1, 'data' = 2, 'address' = 3, 'data+address' = 4) CODEC(ZSTD(1)) COMMENT 'why the load had to wait',
    hw_locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) CODEC(ZSTD(1)) COMMENT 'near or far by the word of the hardware',
    page_locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) CODEC(ZSTD(1)) COMMENT 'near or far by the node of the page',
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) CODEC(ZSTD(1)) COMMENT 'near or far',
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) CODEC(ZSTD(1)) COMMENT 'what locality rests on',
    part UInt16 CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream the row came by',
    ingested DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the block of the row was made, UTC',
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
    time DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'begin of the minute, UTC',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the host',
    workload_id UInt64 CODEC(ZSTD(1)) COMMENT 'workload, see workloads; 0: none',
    event_id UInt64 CODEC(ZSTD(1)) COMMENT 'event, see events',
    event LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the event',
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) CODEC(ZSTD(1)) COMMENT 'how much the event can say',
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) CODEC(ZSTD(1)) COMMENT 'operation',
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) CODEC(ZSTD(1)) COMMENT 'where the data was looked for',
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) CODEC(ZSTD(1)) COMMENT 'whether it was there',
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) CODEC(ZSTD(1)) COMMENT 'near or far',
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) CODEC(ZSTD(1)) COMMENT 'what locality rests on',
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) CODEC(ZSTD(1)) COMMENT 'in which context the CPU was',
    n SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples',
    sum_p SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of periods, events',
    sum_pp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of squared periods, events²',
    sum_w SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of weights, cycles of latency_kind',
    sum_wp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of weight × period, cycles × events',
    sum_wpwp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of squared weight × period',
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples found by a page walk',
    n_locked SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples of locked instructions',
    n_blocked SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples of blocked loads',
    n_hitm SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples that found the line modified in another cache',
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples that found it modified on another node',
    n_fwd SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples forwarded from another cache',
    n_peer SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples served by a peer cache',
    n_page_remote SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples whose page lies on another node',
    n_page_known SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples whose page node is known',
    part SimpleAggregateFunction(max, UInt16) CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream the row came by',
    ingested SimpleAggregateFunction(max, DateTime('UTC')) CODEC(ZSTD(1)) COMMENT 'when the block of the row was made, UTC'
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (event, locality, level, toStartOfHour(time), host)
ORDER BY (event, locality, level, toStartOfHour(time), host, workload_id, op, outcome, locality_basis, context, event_id, tier, time)
TTL greatest(time, ingested) + INTERVAL 14 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'What each host minute consists of, without functions. Kept 14 days.';

CREATE TABLE IF NOT EXISTS ${table:functions_1h} (
    time DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'begin of the hour, UTC',
    function_id UInt64 CODEC(ZSTD(1)) COMMENT 'function, see functions_def',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the host',
    workload_id UInt64 CODEC(ZSTD(1)) COMMENT 'workload, see workloads; 0: none',
    event_id UInt64 CODEC(ZSTD(1)) COMMENT 'event, see events',
    event LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the event',
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) CODEC(ZSTD(1)) COMMENT 'how much the event can say',
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) CODEC(ZSTD(1)) COMMENT 'what weights measure; kinds are never added',
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) CODEC(ZSTD(1)) COMMENT 'operation',
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) CODEC(ZSTD(1)) COMMENT 'where the data was looked for',
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) CODEC(ZSTD(1)) COMMENT 'whether it was there',
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) CODEC(ZSTD(1)) COMMENT 'near or far',
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) CODEC(ZSTD(1)) COMMENT 'what locality rests on',
    context Enum8('unknown' = 0, 'user' = 1, 'syscall' = 2, 'fault' = 3, 'irq' = 4, 'softirq' = 5, 'timer' = 6, 'nmi' = 7, 'idle' = 8, 'kthread' = 9, 'profiler' = 10, 'kernel' = 11, 'guest' = 12) CODEC(ZSTD(1)) COMMENT 'in which context the CPU was',
    comm LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the thread',
    part UInt16 CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream the row came by',
    close DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'ingest time through which the row was closed, UTC',
    n SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples',
    sum_p SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of periods, events',
    sum_pp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of squared periods, events²',
    sum_w SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of weights, cycles of latency_kind',
    sum_wp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of weight × period, cycles × events',
    sum_wpwp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of squared weight × period',
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples found by a page walk',
    n_locked SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples of locked instructions',
    n_blocked SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples of blocked loads',
    n_hitm SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples that found the line modified in another cache',
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples that found it modified on another node',
    n_fwd SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples forwarded from another cache',
    n_peer SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples served by a peer cache',
    n_page_remote SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples whose page lies on another node',
    n_page_known SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples whose page node is known',
    ingested SimpleAggregateFunction(max, DateTime('UTC')) CODEC(ZSTD(1)) COMMENT 'when the newest block in the row was made, UTC'
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, time, function_id, host)
ORDER BY (locality, level, time, function_id, host, workload_id, comm, event, event_id, tier, latency_kind, op, outcome, locality_basis, context, part, close)
TTL greatest(time, ingested) + INTERVAL 90 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Functions by host and hour, closed from samples by ingest time; read it through the view functions. Kept 90 days.';

CREATE TABLE IF NOT EXISTS ${table:fleet_1h} (
    time DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'begin of the hour, UTC',
    function_id UInt64 CODEC(ZSTD(1)) COMMENT 'function, see functions_def',
    event_id UInt64 CODEC(ZSTD(1)) COMMENT 'event, see events',
    event LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the event',
    tier Enum8('software' = 1, 'event' = 2, 'precise' = 3) CODEC(ZSTD(1)) COMMENT 'how much the event can say',
    latency_kind Enum8('none' = 0, 'use' = 1, 'cache' = 2, 'retire' = 3, 'ibs-miss' = 4, 'ibs-tag-to-retire' = 5, 'spe-total' = 6, 'unknown' = 7) CODEC(ZSTD(1)) COMMENT 'what weights measure; kinds are never added',
    op Enum8('unknown' = 0, 'load' = 1, 'store' = 2, 'load+store' = 3, 'prefetch' = 4, 'exec' = 5, 'none' = 6) CODEC(ZSTD(1)) COMMENT 'operation',
    level Enum8('unknown' = 0, 'L0' = 1, 'L1' = 2, 'LFB' = 3, 'L2' = 4, 'L2-MHB' = 5, 'L3' = 6, 'L4' = 7, 'any-cache' = 8, 'MSC' = 9, 'RAM' = 10, 'CXL' = 11, 'PMEM' = 12, 'IO' = 13, 'uncached' = 14, 'none' = 15) CODEC(ZSTD(1)) COMMENT 'where the data was looked for',
    outcome Enum8('unknown' = 0, 'hit' = 1, 'miss' = 2) CODEC(ZSTD(1)) COMMENT 'whether it was there',
    locality Enum8('unknown' = 0, 'local' = 1, 'remote' = 2) CODEC(ZSTD(1)) COMMENT 'near or far',
    locality_basis Enum8('none' = 0, 'hw' = 1, 'page' = 2) CODEC(ZSTD(1)) COMMENT 'what locality rests on',
    cpu_model LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'model of the CPU',
    n SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples',
    sum_p SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of periods, events',
    sum_pp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of squared periods, events²',
    sum_w SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of weights, cycles of latency_kind',
    sum_wp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of weight × period, cycles × events',
    sum_wpwp SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'sum of squared weight × period',
    n_stlb_walk SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples found by a page walk',
    n_locked SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples of locked instructions',
    n_blocked SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples of blocked loads',
    n_hitm SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples that found the line modified in another cache',
    n_hitm_rmt SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples that found it modified on another node',
    n_fwd SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples forwarded from another cache',
    n_peer SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples served by a peer cache',
    n_page_remote SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples whose page lies on another node',
    n_page_known SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'samples whose page node is known',
    host_id UInt64 EPHEMERAL COMMENT 'host, counted in hosts',
    hosts AggregateFunction(uniq, UInt64) DEFAULT arrayReduce('uniqState', [host_id]) COMMENT 'state that counts hosts',
    part SimpleAggregateFunction(max, UInt16) CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream the row came by',
    ingested SimpleAggregateFunction(max, DateTime('UTC')) CODEC(ZSTD(1)) COMMENT 'when the block of the row was made, UTC'
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (locality, level, time, function_id)
ORDER BY (locality, level, time, function_id, event, event_id, tier, latency_kind, op, outcome, locality_basis, cpu_model)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Functions by hour over all hosts. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:ledger_1m} (
    time DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'minute in which the batch was closed, UTC',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the host',
    source_id UInt64 CODEC(ZSTD(1)) COMMENT 'source',
    event_id UInt64 CODEC(ZSTD(1)) COMMENT 'event, see events',
    event LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the event',
    tier Enum8('none' = 0, 'software' = 1, 'event' = 2, 'precise' = 3) CODEC(ZSTD(1)) COMMENT 'tier of the event',
    reason Enum8('produced' = 1, 'stored' = 2, 'batches' = 3, 'lost' = 4, 'residue' = 5, 'throttled_s' = 6, 'blind_s' = 7, 'collision_share' = 8, 'gap' = 9, 'undecodable' = 10, 'refused' = 11, 'expired' = 12, 'unresolved' = 13, 'partial' = 14) CODEC(ZSTD(1)) COMMENT 'what is counted',
    records SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'records',
    seconds SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)) COMMENT 'seconds, or a share where the reason is one',
    last_batch SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'last batch that added to the row',
    part SimpleAggregateFunction(max, UInt16) CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream the row came by',
    ingested SimpleAggregateFunction(max, DateTime('UTC')) CODEC(ZSTD(1)) COMMENT 'when the block of the row was made, UTC'
)
ENGINE = ${engine:AggregatingMergeTree}
PARTITION BY toDate(time)
PRIMARY KEY (reason, toStartOfHour(time), host, source_id)
ORDER BY (reason, toStartOfHour(time), host, source_id, event, event_id, tier, time)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'What was produced, stored and lost, and why. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:hosts} (
    time DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'when the facts were read, UTC',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the host',
    host_id UInt64 CODEC(ZSTD(1)) COMMENT 'host',
    kind LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'live, import or simulated',
    arch LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'architecture',
    os_release LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'release of the kernel',
    cpu_vendor LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'vendor of the CPU',
    cpu_model LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'model of the CPU',
    cpuid LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'identification of the CPU as perf writes it',
    cpus UInt32 CODEC(T64, ZSTD(1)) COMMENT 'CPUs',
    nodes UInt16 CODEC(T64, ZSTD(1)) COMMENT 'NUMA nodes',
    remote_means LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what remote means to its hardware',
    virtualization LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hypervisor; empty: none',
    tiers Array(String) CODEC(ZSTD(1)) COMMENT 'tiers its events can reach',
    capabilities String CODEC(ZSTD(1)) COMMENT 'capabilities and what is missing, JSON',
    facts_id UInt64 CODEC(ZSTD(1)) COMMENT 'hash of the facts',
    version LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of its collector',
    part UInt16 CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream the row came by',
    ingested DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'when the block of the row was made, UTC'
)
ENGINE = ${engine:ReplacingMergeTree(time)}
PARTITION BY toDate(time)
ORDER BY (host, host_id, toDate(time), facts_id)
TTL greatest(time, ingested) + INTERVAL 400 DAY
SETTINGS ${window}, ttl_only_drop_parts = 1
COMMENT 'Facts of hosts, one row a day and change. Kept 400 days.';

CREATE TABLE IF NOT EXISTS ${table:closes} (
    part UInt16 CODEC(T64, ZSTD(1)) COMMENT 'partition of the stream',
    closed_through DateTime('UTC') CODEC(ZSTD(1)) COMMENT 'ingest time, UTC'
)
ENGINE = ${everywhere:ReplacingMergeTree(closed_through)}
ORDER BY (part)
SETTINGS ${window}
COMMENT 'How far functions_1h is closed, by partition.';

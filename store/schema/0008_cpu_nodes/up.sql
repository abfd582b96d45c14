-- Which node each CPU belongs to: without it nobody can say from where a page on a node is used.

ALTER TABLE ${table:hosts}
    ADD COLUMN IF NOT EXISTS cpu_nodes Array(UInt64) COMMENT 'NUMA node of each CPU, by the number of the CPU; 65535: not known; empty: none is known' CODEC(ZSTD(1)) AFTER nodes;

//! Metrics of the collector.

use memwide_service::declare_metrics;

declare_metrics! {
    pub counter SAMPLES = "collector_ring_samples_total", Samples, "Samples taken from the rings.";
    pub counter LOST = "collector_lost_samples_total", Samples, "Samples the kernel had no room for, by the events' own counts.";
    pub counter RESIDUE = "collector_residue_samples_total", Samples, "Samples counted by events, neither in the rings nor reported lost.";
    pub counter CLAIMED = "collector_claimed_samples_total", Samples, "Samples that carried the id of another recorder's event and got the one of their ring's.";
    pub counter EXCLUDED = "collector_excluded_samples_total", Samples, "Samples taken from the rings and not kept: the selection does not ask for them.";
    pub gauge SAMPLE_COST = "collector_sample_cost_seconds", Seconds, "What a sample costs the program it interrupts: measured at the start, or as configured.";
    pub counter HANDLER = "collector_handler_seconds_total", Seconds, "Time that samples took from programs: their number times the cost of one.";
    pub counter SIDE_BAND = "collector_side_band_records_total", Records, "Side-band records taken from the rings or synthesized.";
    pub counter RAW_BYTES = "collector_raw_bytes_total", Bytes, "Bytes of records before packing.";
    pub counter PACKED_BYTES = "collector_packed_bytes_total", Bytes, "Bytes of records after packing.";
    pub counter BATCHES = "collector_spooled_batches_total", Batches, "Batches written to the spool.";
    pub counter SNAPSHOTS = "collector_snapshot_batches_total", Batches, "Batches that hold the state of all processes.";
    pub gauge SPOOL_BYTES = "collector_spool_bytes", Bytes, "Bytes in the spool.";
    pub counter GAPPED = "collector_gap_batches_total", Batches, "Batches whose samples were given up by the spool's bound.";
    pub counter CORRUPT = "collector_spool_corrupt_items_total", Items, "Pieces of the spool that were unreadable.";
    pub counter SENT = "collector_sent_batches_total", Batches, "Batches sent, repetitions included.";
    pub counter SENT_BYTES = "collector_sent_bytes_total", Bytes, "Bytes of messages sent to decoders.";
    pub counter ACKED = "collector_acked_batches_total", Batches, "Batches committed by the pipeline.";
    pub counter RECONNECTS = "collector_uplink_retries_total", Retries, "Times an uplink was tried again.";
    pub gauge BUDGET_USED = "collector_budget_used_ratio", Ratio, "Cost of sampling as a share of its budget: the largest of CPU time, time in the kernel and bytes.";
    pub counter PERIOD_CHANGES = "collector_changed_events_total", Events, "Events that got another period, to keep the budget.";
    pub gauge STOPPED = "collector_stopped_events", Events, "Events that are stopped by file, signal or centrally.";
    pub gauge BOOSTED = "collector_boosted_events", Events, "Events with shorter periods for a while, for some processes.";
    pub gauge CENTRAL_VERSION = "collector_central_settings_version", Version, "Central settings in force; 0: the host's own file alone.";
    pub counter CENTRAL_REFUSED = "collector_central_refused_messages_total", Messages, "Central settings, and boosts, that were not taken.";
    pub counter CENTRAL_DAMAGED = "collector_central_damaged_files_total", Files, "Starts that could not read what the centre had said: the host's own file is in force alone.";
    pub gauge RESIDENT = "collector_resident_bytes", Bytes, "Memory of the collector's process, rings included.";
    pub counter SYMBOL_REQUESTS = "collector_symbol_requests_total", Requests, "Requests for symbol tables.";
    pub counter SYMBOL_FAILURES = "collector_symbol_failed_requests_total", Requests, "Requests for symbol tables without an answer.";
}

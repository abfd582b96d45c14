//! Every metric of this package.

use memwide_service::{declare_metrics, label_set};

label_set! {
    /// What became of a batch.
    pub enum Offer("outcome") {
        /// Applied.
        Applied => "applied",
        /// Applied or covered before.
        Duplicate => "duplicate",
        /// An earlier one was due.
        Ahead => "ahead",
        /// Its source had left the cursor.
        Expired => "expired",
        /// Its columns do not fit together; counted as undecodable.
        Malformed => "malformed",
    }
}

label_set! {
    /// How an attempt to commit a flush ended.
    pub enum FlushEnd("outcome") {
        /// In the stream.
        Committed => "committed",
        /// In the stream, though the answer was lost.
        Recovered => "recovered",
        /// Refused for now; tried again.
        Retried => "retried",
        /// Another publisher owns the partition.
        Fenced => "fenced",
    }
}

declare_metrics! {
    pub counter BATCHES = "aggregator_offered_batches_total", Batches, "Batches that arrived.", by Offer;
    pub counter SAMPLES = "aggregator_applied_samples_total", Samples, "Samples that became rows.";
    pub counter FLUSHES = "aggregator_ended_flushes_total", Flushes, "Attempts to commit a flush.", by FlushEnd;
    pub counter FLUSHED_ROWS = "aggregator_flushed_rows_total", Rows, "Rows committed to the stream.";
    pub counter FLUSHED = "aggregator_flushed_bytes_total", Bytes, "Compressed rows committed to the stream.";
    pub gauge PENDING = "aggregator_pending_bytes", Bytes, "Rows built and not committed, before compression.";
    pub gauge STREAMS = "aggregator_open_streams", Streams, "Decoder streams open now.";
    pub histogram COMMIT = "aggregator_commit_seconds", Seconds, "From the start of a flush to its commit.",
        [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
    pub counter BLOCKS = "sink_stored_blocks_total", Blocks, "Blocks whose rows are all in the store.";
    pub counter STORED_ROWS = "sink_stored_rows_total", Rows, "Rows inserted, repeats included.";
    pub counter STORE_RETRIES = "sink_store_retries_total", Retries, "Inserts tried again.";
    pub counter DEAD = "sink_dead_letter_messages_total", Messages, "Messages the store refused for good.";
    pub gauge BLOCKED = "sink_blocked_partitions", Partitions, "Partitions that stand still until somebody repairs the store; `/readyz` says which and why.";
    pub counter CLOSES = "sink_closed_partitions_total", Partitions, "Hour closes published.";
    pub histogram INSERT = "sink_insert_seconds", Seconds, "Time of one insert.",
        [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
}

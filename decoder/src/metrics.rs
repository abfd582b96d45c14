//! Every metric of this package.

use memwide_service::{declare_metrics, label_set};

label_set! {
    /// Where a symbol table came from, or that there is none.
    pub enum TableEnd("outcome") {
        /// Another session of this process had it.
        Memory => "memory",
        /// The disk cache had it.
        Disk => "disk",
        /// The collector shipped it.
        Shipped => "shipped",
        /// The collector has none.
        Unavailable => "unavailable",
        /// What was shipped is no table.
        Refused => "refused",
    }
}

declare_metrics! {
    pub counter BATCHES = "decoder_decoded_batches_total", Batches, "Batches decoded and handed on, repeats included.";
    pub counter SAMPLES = "decoder_decoded_samples_total", Samples, "Rows decoded, repeats included.";
    pub counter POISONED = "decoder_poisoned_batches_total", Batches, "Batches given up as undecodable.";
    pub counter TABLES = "decoder_symbol_requests_total", Requests, "Symbol tables that sessions wanted.", by TableEnd;
    pub gauge STREAMS = "decoder_open_streams", Streams, "Collector streams open now.";
    pub histogram DECODE = "decoder_decode_seconds", Seconds, "Time to decode one batch.",
        [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0];
}

//! Every metric of this package.

use memwide_service::{declare_metrics, label_set};

label_set! {
    /// Where a symbol table came from, or that there is none.
    pub enum TableEnd("outcome") {
        /// Another session of this process had it.
        Memory => "memory",
        /// The folder that decoders share had it.
        Disk => "disk",
        /// A collector was asked.
        Asked => "asked",
        /// Another stream or decoder ships it; this one waits.
        Waited => "waited",
        /// An upload that had broken off went on.
        Resumed => "resumed",
        /// A better table replaced the one in use.
        Better => "better",
        /// The collector shipped it.
        Shipped => "shipped",
        /// The collector has none.
        Unavailable => "unavailable",
        /// What was shipped is no table.
        Refused => "refused",
    }
}

label_set! {
    /// What became of a batch, a piece of the history or a table that was to be archived.
    pub enum ArchiveEnd("outcome") {
        /// It is in the archive.
        Written => "written",
        /// It is not: the archive is at its bound.
        Full => "full",
        /// It is not: the disk refused it.
        Disk => "disk",
    }
}

label_set! {
    /// What became of putting a file of the archive up.
    pub enum UploadEnd("outcome") {
        /// It is in the bucket, and no longer here.
        Stored => "stored",
        /// It stays here, and is tried again.
        Failed => "failed",
    }
}

declare_metrics! {
    pub counter BATCHES = "decoder_decoded_batches_total", Batches, "Batches decoded and handed on, repeats included.";
    pub counter SAMPLES = "decoder_decoded_samples_total", Samples, "Rows decoded, repeats included.";
    pub counter POISONED = "decoder_poisoned_batches_total", Batches, "Batches given up as undecodable.";
    pub counter TABLES = "decoder_symbol_requests_total", Requests, "Symbol tables that sessions wanted.", by TableEnd;
    pub counter TOLD = "decoder_told_symbols_total", Symbols, "Names sent to what was stored before they were known.";
    pub counter LEASES_LOST = "decoder_lost_lease_requests_total", Requests, "Uploads that another decoder took over.";
    pub counter SHELF_EVICTED = "decoder_symbol_store_evicted_files_total", Files, "Symbol tables removed to make room.";
    pub counter SHELF_DAMAGED = "decoder_symbol_store_damaged_files_total", Files, "Kept symbol tables that were damaged.";
    pub counter SHELF_FULL = "decoder_symbol_store_refused_files_total", Files, "Symbol tables not kept: no room, all others in use.";
    pub gauge SHELF_BYTES = "decoder_symbol_store_bytes", Bytes, "Size of the symbol tables kept for all decoders.";
    pub counter UNRESOLVED = "decoder_unresolved_rows_total", Rows, "Rows whose symbol table had not come in time.";
    pub gauge WAITING = "decoder_waiting_symbol_requests", Requests, "Symbol tables that streams wait for now.";
    pub gauge CENTRAL_VERSION = "decoder_central_settings_version", Version, "Settings of collectors in force here; 0: none are read.";
    pub gauge CENTRAL_WRONG = "decoder_central_wrong_files", Files, "1 while the file of collectors' settings is wrong or away.";
    pub counter CENTRAL_TAKEN = "decoder_central_taken_messages_total", Messages, "Answers of collectors that took their settings, repeats included.";
    pub counter CENTRAL_REFUSED = "decoder_central_refused_messages_total", Messages, "Answers of collectors that refused their settings, repeats included.";
    pub counter ARCHIVED = "decoder_archived_batches_total", Batches, "Batches, histories and tables that were to be archived.", by ArchiveEnd;
    pub counter ARCHIVE_REMOVED = "decoder_archive_removed_files_total", Files, "Folders of days that were removed from the archive as too old or too much.";
    pub gauge ARCHIVE_BYTES = "decoder_archive_bytes", Bytes, "Size of the archive; with archive_url: of what waits here to go up.";
    pub counter ARCHIVE_UPLOADS = "decoder_archive_uploaded_files_total", Files, "Files of the archive that were to go up into the object store.", by UploadEnd;
    pub counter ARCHIVE_UPLOADED_BYTES = "decoder_archive_uploaded_bytes_total", Bytes, "Bytes of the archive that went up into the object store.";
    pub gauge STREAMS = "decoder_open_streams", Streams, "Collector streams open now.";
    pub histogram DECODE = "decoder_decode_seconds", Seconds, "Time to decode one batch.",
        [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0];
}

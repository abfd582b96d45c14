//! Metrics of children.

crate::label_set! {
    /// Why a child was started again.
    pub enum Cause("cause") {
        /// It ended by itself.
        Died => "died",
        /// It did not become ready in time.
        NotReady => "not_ready",
        /// It said that it could not do its work, until it was stopped.
        Unwell => "unwell",
    }
}

crate::declare_metrics! {
    pub counter RESTARTS = "child_restarts_total", Restarts, "Starts of nats-server or the engine after the first, by what had happened to the one before.", by Cause;
}

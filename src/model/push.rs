//! What is sent to collectors, and how that went.

states! {
    /// A kind of data that is sent.
    Signal {
        /// Metrics.
        Metrics = "metrics",
        /// Log records.
        Logs = "logs",
    }
}

states! {
    /// How an export ended.
    ExportResult {
        /// The collector took it.
        Delivered = "delivered",
        /// It did not, after all repetitions: its points are lost, its log records are sent again.
        Failed = "failed",
    }
}

/// Exports since the exporter started, by signal and result. A signal that is not sent has none.
pub type Exports = [Option<[u64; ExportResult::ALL.len()]>; Signal::ALL.len()];

//! What an operator decides, in one value. Filled by the command line.

use crate::thresholds::Thresholds;
use std::path::PathBuf;

/// Where the pages of the web server are, other than the metrics.
pub mod paths {
    /// The landing page.
    pub const HOME: &str = "/";
    /// The frame as JSON.
    pub const STATUS: &str = "/api/v1/status";
    /// Whether the process lives.
    pub const HEALTHY: &str = "/-/healthy";
    /// Whether it has something to serve.
    pub const READY: &str = "/-/ready";
    /// All of them: the metrics may not be at one of these.
    pub const TAKEN: [&str; 4] = [HOME, STATUS, HEALTHY, READY];
}

/// The port of the exporter, on the list of default ports.
pub const DEFAULT_LISTEN: &str = ":10058";

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses to listen on.
    pub listen: Vec<String>,
    /// Path of the metrics.
    pub telemetry_path: String,
    /// Requests answered at a time; one more gets 503.
    pub max_requests: usize,
    /// Where the state file lives.
    pub state_directory: Option<PathBuf>,
    /// The numbers that decide.
    pub thresholds: Thresholds,
}

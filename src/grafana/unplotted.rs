//! Stable metrics that no panel shows, and why not.

use crate::catalog::Metric;

/// Each with its reason. A test holds that nothing else is missing, and that nothing here is shown.
pub const UNPLOTTED: &[(&Metric, &str)] = &[];

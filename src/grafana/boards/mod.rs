//! The dashboards.

pub(super) mod fleet;
pub(super) mod incident;
pub(super) mod one_box;
mod tiles;
mod training;
pub(super) mod workloads;

//! TODO

#[macro_use] // the macros that declare closed sets and groups of readings
pub mod model;
pub mod capture;
pub mod catalog;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod derive;
pub mod docs;
pub mod engine;
pub mod export;
pub mod server;
pub mod sources;
pub mod thresholds;
pub mod units;

//! gb10-exporter: what an NVIDIA DGX Spark or another GB10 machine is really doing, for Prometheus.
//!
//! On these machines CPU and GPU share one memory pool, `nvidia-smi` answers `[N/A]`, page cache hides
//! room from CUDA, and a box can freeze seconds after it looked fine. This page is the map of the
//! program; every module's own page says the rest.
//!
//! # The one idea
//!
//! Every fact is written once, as a row of a table, and everything printed iterates tables.
//!
//! | fact | its row is in |
//! | --- | --- |
//! | a **reading** (an input): id, unit, source, accessor | the `readings!` groups of [`model`], collected by [`model::fields::all`] |
//! | a **metric** (an output): name, unit, kind, labels, help, how to take it from a frame | [`catalog`] |
//! | a **number that decides**: unit, default, range, where it comes from | [`thresholds`] |
//! | an **alert**: severity, condition, patience, texts, the scenarios that prove it | [`rules`] |
//! | a **state**: a label value, a word in JSON | one `states!` enum in [`model`], or of a plan in [`planning`], with `ALL` and `as_str` |
//! | a **unit factor** such as 1024 or 1e-3 | [`units`] |
//!
//! # The way of a figure
//!
//! ```text
//!  /proc  /sys  NVML  nvidia-smi                       bytes and calls, at the edge
//!     |  sources: read + parse; units fixed here
//!     v
//!  Snapshot      plain facts of one instant, each a Reading (a value, or why not)
//!     |  derive: (state, snapshot, thresholds) -> verdicts                pure
//!     v
//!  Frame = Snapshot + Verdicts + thresholds + health   one Arc, swapped each tick
//!     |  catalog: each row turns a frame into samples                     pure
//!     v
//!  export: Prometheus text, JSON, terminal, HTML       formats only
//!  otlp: instruments and log records, sent to collectors on a thread of its own
//! ```
//!
//! The [`engine`] drives it: each of its lanes reads at a fixed period, on a thread of its own; a ticker
//! puts the lanes' last rounds together once a second, derives, and publishes the frame. A scrape
//! reads the last frame from memory and waits for nobody.
//!
//! A replay has no lanes: the engine's player takes each second's snapshot from a scenario and goes the
//! same way from there.
//!
//! # Layers
//!
//! A module may use those that its row names, and nothing else of this crate. `tests/architecture.rs`
//! holds this table.
//!
//! | layer | may use | must not contain |
//! | --- | --- | --- |
//! | [`units`] | nothing | input and output, clock |
//! | [`thresholds`] | units | input and output, clock |
//! | [`model`] | units, thresholds | input and output, clock |
//! | [`derive`](mod@derive) | model, units, thresholds | input and output, clock, logging, metric names |
//! | [`planning`] | model, units, thresholds | input and output, clock, logging, metric names |
//! | [`catalog`] | model, units | input and output, clock |
//! | [`sources`] | model, units | clock, thresholds, metric names |
//! | [`capture`] | model, units, sources | clock |
//! | [`config`] | model, thresholds, units | |
//! | [`export`] | catalog, model, units | input and output, clock |
//! | [`rules`] | catalog, model, thresholds, units | input and output, clock, metric names |
//! | [`grafana`] | catalog, model, thresholds, units | input and output, clock, metric names |
//! | [`docs`] | catalog, config, planning, rules, thresholds, model, units | |
//! | [`clock`] | model | |
//! | [`engine`] | sources, derive, capture, model, thresholds, config, clock, units | metric names |
//! | [`server`] | engine, export, model, config | |
//! | [`client`] | nothing | |
//! | [`alertmanager`] | catalog, client, clock, config, engine, rules | |
//! | [`otlp`] | catalog, clock, config, engine, model, sources | |
//! | [`cli`] | everything; nobody uses it | |
//!
//! # Invariants
//!
//! 1. A value that could not be read is absent: never 0, never NaN, never the last good one. Why it is
//!    absent is exported beside it (`gb10_source_state`, `gb10_reading_missing`).
//! 2. The parts of the pool add up to the pool, exactly, on every frame. A remainder is called
//!    unaccounted and is never blamed on a holder without evidence ([`derive::partition`]).
//! 3. [`clock`] alone asks what time it is. Everything else is handed a [`model::moment::Moment`], so
//!    that a recorded hour can be replayed.
//! 4. A reading, a metric name, a deciding number, a state's name: one place each.
//! 5. Pure layers cannot fail. A [`model::reading::Reading`] is a `Result` by type only: it is data.
//! 6. The exporter never makes things worse: no `smaps` (it stalls a 200 GB process for seconds), no
//!    CUDA context (but for `doctor --cuda`, in a child that is killed in time), no command sent to a device that may be dead, no write outside its own files (but for `flush`, which a person runs), no
//!    root, bounded memory. One thread asks the GPU's driver, and one program stands in for it at a
//!    time.
//! 7. Labels come from closed sets. No pids, no command lines, no free text on stable metrics.
//! 8. A file or a driver that blocks stops its own lane. A disk that blocks stops the keeper of the state file. A
//!    client that is slow stops itself. Nothing stops the ticker, and if something did, frames would
//!    grow old and scrapes be refused, not served frozen.
//! 9. Verdicts say what they rest on and may be unknown. Status, page, JSON and metrics agree because
//!    all read the frame.
//! 10. Unsafe code is in two files: beside the calls of NVML that its wrapper lacks, and beside the one
//!     question to CUDA, which only a child process asks.
//!
//! # Where does it go?
//!
//! - *Another line of `/proc/meminfo`:* a row in [`model::memory::Meminfo`]. JSON, the missing list and
//!   docs/METRICS.md follow.
//! - *Another file:* a module below [`sources`] with `parse` and `read`, a group in [`model`], a variant
//!   of [`model::source::Source`] and a line in [`model::snapshot`]. The compiler names what is left.
//! - *Another question to the GPU:* a row among the questions of [`sources::gpu`], a field of
//!   [`model::gpu::Gpu`] with its row, a key in docs/CAPTURES.md and in the stand-ins below tests/fakes. `record` notes the answer by itself.
//! - *Another training log:* a reader below [`sources::train`], a variant of
//!   [`model::training::LogFormat`], its shape for messages, a log in tests/logs and its malformed twin.
//! - *Another kind of message of the kernel:* a row in the table of [`sources::kernel_log`], a variant of
//!   [`model::kernel_log::MessageKind`], a line of the real thing for its tests, and whether it is an event.
//! - *Another program to be known by name:* a row in the table of [`sources::processes::classes`], a class in
//!   [`model::workload::Class`] if it is of none; its flags that bound memory, a row in
//!   [`sources::processes::caps`].
//! - *Another sign of eviction:* a variant of [`model::contention::Symptom`], which says whether it proves
//!   anything, and its figures in [`derive::pressure`].
//! - *Another panel:* a row in a dashboard below [`grafana`]. Its number stays, and what only an alert shows
//!   is in [`grafana::unplotted`] with the reason.
//! - *Another metric:* a row in [`catalog`]; its name in OpenTelemetry follows from that, or is a row of
//!   [`catalog::otlp::CONVENTIONS`] where a convention fits. Then `make docs`, and read the diff of the golden scrapes.
//! - *Another number that decides:* a row in [`thresholds`]; the YAML file and `thresholds` follow.
//! - *Another belief about the hardware that wants checking on it:* a row in the table of `doctor` (below
//!   [`cli`]), with its limits and their reason.
//! - *Another column of files of samples:* a row in the tables of [`sources::samples`]; another metric
//!   that is read back from a Prometheus, a row in [`catalog::history`].
//! - *Another model by name, another measured run:* a row in [`planning::shapes`] or [`planning::rows`];
//!   docs/PLANNING.md and its error follow. *Another thing that spoils runs:* a row in the checks of `preflight`
//!   (below [`cli`]).
//! - *Another setting:* a row in [`config::table`]; flag, environment variable, YAML key, help and the
//!   output of `config` follow.
//! - *Another alert:* its name and panel in [`catalog::links`], a row in [`rules`] with the scenarios in which it fires and those in
//!   which it must not, its runbook in `alerts/runbooks`. Then `make docs`, and read what docs/ALERTS.md says of it.
//! - *Another verdict:* a module below [`derive`](mod@derive), plain data for it in [`model`], its states in
//!   [`catalog::verdicts`], its transitions in the engine's journal of events, and a scenario in
//!   tests/scenarios in which it must speak and one in which it must not.
//!
//! # Reading order
//!
//! [`model::reading`], [`model::fields`], [`model::snapshot`], [`derive::partition`], [`derive::pool`],
//! [`model::frame`], [`catalog`], then [`engine`].

// Tests may unwrap: there a panic is the message.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

#[macro_use] // the macros that declare closed sets and groups of readings
pub mod model;

pub mod alertmanager;
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
pub mod grafana;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod planning;
pub mod rules;
pub mod server;
pub mod sources;
pub mod thresholds;
pub mod units;

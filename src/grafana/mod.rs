//! The Grafana dashboards: panels as rows of a builder, queries made of the metric table.
//!
//! A query is made from a row of [`crate::catalog`] and takes its unit from there, so a metric that is
//! renamed is renamed in every panel. Panels stand on shelves, one below the other, so none can overlap.
//! Every panel says what is normal on this hardware and what it shows when it has nothing to show.
//!
//! The form is Grafana's classic JSON, which files and imports understand.

mod boards;
mod colour;
mod frame;
mod json;
mod panel;
mod query;
pub mod unplotted;
mod verdict;

use crate::catalog::links::Board;
use panel::Dashboard;

/// A dashboard as it is built.
fn built(board: Board) -> Dashboard {
    match board {
        Board::Box => boards::one_box::dashboard(),
        Board::Workloads => boards::workloads::dashboard(),
        Board::Fleet => boards::fleet::dashboard(),
        Board::Incident => boards::incident::dashboard(),
    }
}

/// The name of a dashboard's file.
#[must_use]
pub fn file_name(board: Board) -> String {
    format!("{}.json", board.as_str())
}

/// A dashboard as a file. With `source` that data source is chosen at first; without, Grafana's default
/// of the kind is.
#[must_use]
pub fn dashboard(board: Board, source: Option<&str>) -> String {
    format!("{:#}\n", json::dashboard(&built(board), source))
}

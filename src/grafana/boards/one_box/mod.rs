//! One box: is it fine, what holds the pool, does it throttle, who fights.

mod health;
mod heat;
mod now;
mod pool;
mod pressure;

pub(super) use pool::main_parts;
pub(super) use pressure::{messages, stalls, swap_and_reclaim};

use super::super::panel::{Dashboard, Shelf};
use super::tiles;
use crate::catalog::links::Board;

pub(in crate::grafana) fn dashboard() -> Dashboard {
    let verdicts = vec![
        tiles::pool_verdict(100),
        tiles::throttle_verdict(101),
        tiles::contention_verdict(102),
        tiles::pressure_verdict(103),
        tiles::safe_to_start(104),
        tiles::firing(105),
    ];
    let mut shelves = vec![
        Shelf::Panels(3, verdicts),
        Shelf::Panels(5, vec![tiles::verdicts(108, 24)]),
        Shelf::Panels(3, now::tiles()),
        Shelf::Panels(10, vec![pool::parts(), pool::headroom()]),
        Shelf::Panels(8, vec![heat::power(), heat::temperature(), heat::clock()]),
    ];
    shelves.extend(pool::shelves());
    shelves.extend(heat::shelves());
    shelves.extend(pressure::shelves());
    shelves.extend(health::shelves());
    Dashboard {
        board: Board::Box,
        title: "GB10: Box",
        about: "One GB10 machine. With several boxes chosen, amounts are added up, states and temperatures are \
                those of the worst; the dashboard Fleet tells boxes apart.",
        span: "1h",
        refresh: "15s",
        shelves,
    }
}

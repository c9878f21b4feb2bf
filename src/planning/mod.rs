//! Will it fit? What a job takes, from its model's shape and its options, and what that means on a pool.
//!
//! No input or output, no clock: shapes come from a table or from files that were read elsewhere, the
//! pool's state from a frame. Every figure carries its formula, and what is not known exactly is a range.

pub mod blocks;
pub mod choice;
pub mod compare;
pub mod estimate;
pub mod ladder;
pub mod linears;
mod load;
pub mod plan;
pub mod rows;
pub mod serving;
pub mod shapes;
pub mod verdict;

#[cfg(test)]
mod tests;

//! The processes that matter: what they are, which bound they were given, which unit they belong to.
//!
//! A command line and an environment may hold passwords, prompts and people's names. They are reduced
//! here to a class, a cap and a unit; [`command`] holds them meanwhile, in types that cannot be printed.

pub mod caps;
pub mod classes;
pub mod command;
mod files;
mod groups;
mod reader;
mod stat;
pub mod unit;

pub use reader::Reader;

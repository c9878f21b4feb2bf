//! `/proc/stat`, of which only `btime` is taken.

use super::meminfo::complete;
use crate::model::fields::Group;
use crate::model::machine::Stat;
use crate::model::reading::Missing;
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::{kernel_number, whole_lines};

const PATH: &str = "/proc/stat";

/// Finds the boot time. The `intr` line of a large machine is tens of kilobytes: lines are looked at
/// by their start only.
#[must_use]
pub fn parse(text: &str) -> Stat {
    let mut out = Stat::absent(Missing::NotPresent);
    if let Some(value) = whole_lines(text).lines().find_map(|line| line.strip_prefix("btime ")) {
        out.put("btime", || kernel_number(value));
    }
    out
}

/// Reads the live file into `out`.
///
/// # Errors
/// The file's failure, or that it has no boot time.
pub fn read(files: &dyn Files, out: &mut Stat) -> Result<(), ReadError> {
    match files.text(PATH) {
        Ok(text) => *out = parse(&text),
        Err(error) => {
            *out = Stat::absent(error.reason());
            return Err(error.at(PATH));
        }
    }
    complete(PATH, out.missing_required())
}

//! `/proc/vmstat`

use super::meminfo::complete;
use crate::model::fields::Group;
use crate::model::memory::Vmstat;
use crate::model::reading::Missing;
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::{kernel_number, whole_lines};

const PATH: &str = "/proc/vmstat";

/// `name value` lines.
#[must_use]
pub fn parse(text: &str) -> Vmstat {
    let mut out = Vmstat::absent(Missing::NotPresent);
    for line in whole_lines(text).lines() {
        if let Some((name, value)) = line.split_once(' ') {
            out.put(name, || kernel_number(value));
        }
    }
    out
}

/// Reads the live file into `out`.
///
/// # Errors
/// The file's failure, or the required lines that it lacks.
pub fn read(files: &dyn Files, out: &mut Vmstat) -> Result<(), ReadError> {
    match files.text(PATH) {
        Ok(text) => *out = parse(&text),
        Err(error) => {
            *out = Vmstat::absent(error.reason());
            return Err(error.at(PATH));
        }
    }
    complete(PATH, out.missing_required())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Count;

    #[test]
    fn a_negative_count_is_malformed_and_alone() {
        let stat = parse("nr_free_pages -3\npgmajfault 17\noom_kill 1");
        assert_eq!(stat.nr_free_pages, Err(Missing::Malformed));
        assert_eq!(stat.major_faults, Ok(Count(17)));
        assert_eq!(stat.oom_kill, Err(Missing::NotPresent));
    }
}

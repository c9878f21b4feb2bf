//! `/proc/pressure/{cpu,memory,io}`

use crate::model::fields::Group;
use crate::model::pressure::Pressure;
use crate::model::reading::{Missing, Reading};
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::{shown, whole};
use crate::units::Seconds;
use procfs::parse_pressure_record;

/// Stall totals of one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// Some tasks stood still.
    pub some: Reading<Seconds>,
    /// All tasks stood still; for the CPU there is no such line on older kernels and a constant 0 on
    /// newer ones.
    pub full: Reading<Seconds>,
}

/// The `some` and `full` lines.
///
/// # Errors
/// A line is not a pressure record, or there is none.
pub fn parse(path: &str, text: &str) -> Result<Stalls, ReadError> {
    let mut out = Stalls { some: Err(Missing::NotPresent), full: Err(Missing::NotPresent) };
    let mut lines = 0;
    for line in whole(path, text)?.lines() {
        let slot = match line.split_once(' ') {
            Some(("some", _)) => &mut out.some,
            Some(("full", _)) => &mut out.full,
            _ => return Err(unlike(path, line)),
        };
        // The crate slices after the first word without looking: only whole records go in.
        let total = parse_pressure_record(line).map_err(|_| unlike(path, line))?.total;
        *slot = Ok(Seconds::from_micro(total));
        lines += 1;
    }
    if lines == 0 { Err(unlike(path, text)) } else { Ok(out) }
}

fn unlike(path: &str, line: &str) -> ReadError {
    ReadError::malformed(
        path,
        format!("expected \"some avg10=.. avg60=.. avg300=.. total=..\", found {}", shown(line)),
    )
}

/// Reads the three live files into `out`.
///
/// # Errors
/// The failure of a file, when all are missing or one failed in earnest.
pub fn read(files: &dyn Files, out: &mut Pressure) -> Result<(), ReadError> {
    *out = Pressure::absent(Missing::NotPresent);
    let mut worst = Worst::default();
    let mut one = |name: &str, some: &mut Reading<Seconds>, full: &mut Reading<Seconds>| {
        let path = format!("/proc/pressure/{name}");
        let stalls =
            files.text(&path).map_err(|e| e.at(&path)).and_then(|text| parse(&path, &text));
        match worst.note(stalls) {
            Ok(stalls) => (*some, *full) = (stalls.some, stalls.full),
            Err(reason) => (*some, *full) = (Err(reason), Err(reason)),
        }
    };
    one("cpu", &mut out.cpu_some, &mut Err(Missing::NotPresent));
    one("memory", &mut out.memory_some, &mut out.memory_full);
    one("io", &mut out.io_some, &mut out.io_full);
    worst.outcome()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_become_seconds_and_a_missing_full_line_is_not_present() {
        let stalls = parse("p", "some avg10=1.05 avg60=2.37 avg300=0.77 total=2773934\n").unwrap();
        assert_eq!(stalls.some, Ok(Seconds(2.773_934)));
        assert_eq!(stalls.full, Err(Missing::NotPresent));
    }

    #[test]
    fn a_record_cut_anywhere_is_refused_without_a_panic() {
        let whole = "some avg10=0.00 avg60=0.00 avg300=0.00 total=17\n";
        for end in 0..whole.len() {
            assert!(parse("p", &whole[..end]).is_err(), "cut at {end}");
        }
    }
}

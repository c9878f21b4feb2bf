//! `/proc/loadavg` and `/proc/uptime`, parsed by the procfs crate.

use crate::model::fields::Group;
use crate::model::machine::{Load, Uptime};
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::shown;
use crate::units::{Count, Seconds};
use procfs::FromRead;

const LOADAVG: &str = "/proc/loadavg";
const UPTIME: &str = "/proc/uptime";

/// Load averages, in hundredths as the kernel prints them: a float would add digits it never had.
///
/// # Errors
/// The text is not a loadavg line.
pub fn parse(text: &str) -> Result<Load, ReadError> {
    let bad = || {
        ReadError::malformed(
            LOADAVG,
            format!("expected three loads, a/b and a pid, found {}", shown(text)),
        )
    };
    let load = procfs::LoadAverage::from_read(text.as_bytes()).map_err(|_| bad())?;
    let hundredths = |value: f32| hundredths(value).ok_or_else(bad);
    Ok(Load {
        one_hundredths: Ok(Count(hundredths(load.one)?)),
        five_hundredths: Ok(Count(hundredths(load.five)?)),
        fifteen_hundredths: Ok(Count(hundredths(load.fifteen)?)),
        runnable: Ok(Count(u64::from(load.cur))),
        tasks: Ok(Count(u64::from(load.max))),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a small positive number"
)]
fn hundredths(value: f32) -> Option<u64> {
    (value.is_finite() && (0.0..1e9).contains(&value))
        .then(|| (f64::from(value) * 100.0).round() as u64)
}

/// Reads the live load into `out`.
///
/// # Errors
/// The file's failure, or what it said instead.
pub fn read(files: &dyn Files, out: &mut Load) -> Result<(), ReadError> {
    let load = files.text(LOADAVG).map_err(|e| e.at(LOADAVG)).and_then(|text| parse(&text));
    *out = load.clone().unwrap_or_else(|e| Load::absent(e.reason()));
    load.map(drop)
}

/// Time since boot.
///
/// # Errors
/// The text is not an uptime line.
pub fn parse_uptime(text: &str) -> Result<Uptime, ReadError> {
    procfs::Uptime::from_read(text.as_bytes())
        .ok()
        .map(|uptime| uptime.uptime)
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .map(|seconds| Uptime { since_boot: Ok(Seconds(seconds)) })
        .ok_or_else(|| {
            ReadError::malformed(
                UPTIME,
                format!("expected two numbers of seconds, found {}", shown(text)),
            )
        })
}

/// Reads the live uptime into `out`.
///
/// # Errors
/// The file's failure, or what it said instead.
pub fn read_uptime(files: &dyn Files, out: &mut Uptime) -> Result<(), ReadError> {
    let uptime = files.text(UPTIME).map_err(|e| e.at(UPTIME)).and_then(|text| parse_uptime(&text));
    *out = uptime.clone().unwrap_or_else(|e| Uptime::absent(e.reason()));
    uptime.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_keep_the_kernels_digits() {
        let load = parse("0.89 0.28 12.10 1/76 1869\n").unwrap();
        assert_eq!(load.one_hundredths, Ok(Count(89)));
        assert_eq!(load.fifteen_hundredths, Ok(Count(1210)));
        assert_eq!(load.tasks, Ok(Count(76)));
        for text in ["", "0.89", "a b c 1/2 3", "NaN 0 0 1/2 3", "-1 0 0 1/2 3"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn uptime_must_be_a_real_number() {
        assert_eq!(parse_uptime("61.43 98.07\n").unwrap().since_boot, Ok(Seconds(61.43)));
        for text in ["", "inf 1", "-3 1", "x y"] {
            assert!(parse_uptime(text).is_err(), "{text:?}");
        }
    }
}

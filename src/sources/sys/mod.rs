//! Sources below `/sys`, and the one file of `/etc`.

use crate::model::reading::{Missing, Reading};
use crate::units::Celsius;

pub mod dmi;
pub mod hwmon;
pub mod os_release;
pub mod thermal;

/// A temperature in thousandths of a degree, if it can be one: a sensor that is off or bogus reports
/// figures far below absolute zero or in the tens of thousands, and one published monitor shows them.
fn temperature(milli: i64) -> Reading<Celsius> {
    if (-100_000..=250_000).contains(&milli) {
        Ok(Celsius::from_milli(milli))
    } else {
        Err(Missing::Malformed)
    }
}

//! `/sys/class/thermal`: ACPI thermal zones.

use super::temperature;
use crate::model::reading::{Missing, Reading};
use crate::model::sensors::ThermalZone;
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::{index_after, signed, word};
use crate::units::Celsius;
use std::collections::BTreeSet;

const DIR: &str = "/sys/class/thermal";
/// More zones than any machine has; the rest is not read.
const MAX_ZONES: usize = 64;
/// A zone has at most 12 trips in the kernel.
const MAX_TRIPS: u32 = 12;

/// The last part of an ACPI path: `\_SB_.TSOC` names the zone `TSOC`.
#[must_use]
pub fn acpi_name(path: &str) -> Option<&str> {
    let name = path.trim().rsplit(['.', '\\']).next()?;
    (!name.is_empty()
        && name.len() <= 16
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    .then_some(name)
}

/// The trip of type `critical`, if the zone has one.
fn critical(files: &dyn Files, dir: &str) -> Reading<Celsius> {
    for trip in 0..MAX_TRIPS {
        match word(files, &format!("{dir}/trip_point_{trip}_type")) {
            Ok(kind) if kind == "critical" => {
                return signed(files, &format!("{dir}/trip_point_{trip}_temp"))
                    .map_err(|e| e.reason())
                    .and_then(temperature);
            }
            Ok(_) => {}
            Err(error) => return Err(error.reason()),
        }
    }
    Err(Missing::NotPresent)
}

/// Reads the live zones, in the order of their numbers.
///
/// # Errors
/// The directory's failure, or the failure of every zone.
pub fn read(files: &dyn Files) -> Result<Vec<ThermalZone>, ReadError> {
    let names = files.names(DIR).map_err(|e| e.at(DIR))?;
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|name| index_after("thermal_zone", name)).collect();
    numbers.sort_unstable();
    numbers.truncate(MAX_ZONES);
    if numbers.is_empty() {
        return Err(
            crate::sources::files::FileError::NotPresent.at(&format!("{DIR}/thermal_zone0"))
        );
    }
    let mut worst = Worst::default();
    let mut taken = BTreeSet::new();
    let mut zones = Vec::with_capacity(numbers.len());
    for number in numbers {
        let dir = format!("{DIR}/thermal_zone{number}");
        let by_index = format!("thermal_zone{number}");
        let name = word(files, &format!("{dir}/device/path"))
            .ok()
            .and_then(|path| acpi_name(&path).map(str::to_owned))
            .filter(|name| !taken.contains(name))
            .unwrap_or(by_index);
        taken.insert(name.clone());
        zones.push(ThermalZone {
            name,
            kind: word(files, &format!("{dir}/type")).map_err(|e| e.reason()),
            temperature: worst.note(signed(files, &format!("{dir}/temp"))).and_then(temperature),
            critical: critical(files, &dir),
        });
    }
    // One unreadable zone is its own reading's business; the source fails when all of them do.
    if zones.iter().all(|zone| zone.temperature.is_err()) {
        worst.outcome()?;
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_named_by_the_last_part_of_the_acpi_path() {
        assert_eq!(acpi_name("\\_SB_.TSOC\n"), Some("TSOC"));
        assert_eq!(acpi_name("\\TGPU"), Some("TGPU"));
        assert_eq!(acpi_name(""), None);
        assert_eq!(acpi_name("\\_SB.A B"), None);
    }

    #[test]
    fn figures_that_no_sensor_can_mean_are_not_temperatures() {
        assert_eq!(temperature(48_700), Ok(Celsius(48.7)));
        assert_eq!(temperature(-273_150), Err(Missing::Malformed));
        assert_eq!(temperature(65_261_850), Err(Missing::Malformed));
    }
}

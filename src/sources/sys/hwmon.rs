//! `/sys/class/hwmon`: sensor chips, matched by name; their order changes from boot to boot.

use super::temperature;
use crate::model::reading::{Missing, Reading};
use crate::model::sensors::{HwmonSensor, SensorValue};
use crate::sources::files::{FileError, Files, ReadError};
use crate::sources::lines::{index_after, label, signed, word};
use crate::units::{Joules, Watts};

const DIR: &str = "/sys/class/hwmon";

/// Chips that answer from memory, a register or ACPI. The others (nvme, the network cards) are asked
/// by sending a command to a device that may be dead: reading them could hang a lane, and what they
/// say is no part of the pool's or the GPU's story. The thermal zones appear here again as `acpitz`.
const READ: &[&str] = &["spbm", "dgx_ec_fan", "acpi_fan", "coretemp", "k10temp"];
/// More inputs than any of these chips has.
const MAX_INPUTS: usize = 256;

fn convert(kind: &str, raw: i64) -> Reading<SensorValue> {
    let positive = || u64::try_from(raw).map_err(|_| Missing::Malformed);
    Ok(match kind {
        "temp" => SensorValue::Temperature(temperature(raw)?),
        "power" => SensorValue::Power(Watts::from_micro(positive()?)),
        "energy" => SensorValue::Energy(Joules::from_micro(positive()?)),
        "fan" => SensorValue::Fan(positive()?),
        _ => return Err(Missing::Malformed),
    })
}

/// The kind and the number of an input file: `power3_input` is `("power", 3)`.
fn input(file: &str) -> Option<(&'static str, u32)> {
    let stem = file.strip_suffix("_input")?;
    ["temp", "power", "energy", "fan"]
        .into_iter()
        .find_map(|kind| Some((kind, index_after(kind, stem)?)))
}

fn chip(
    files: &dyn Files,
    dir: &str,
    name: &str,
    out: &mut Vec<HwmonSensor>,
) -> Result<(), ReadError> {
    let listed = files.names(dir).map_err(|e| e.at(dir))?;
    let mut inputs: Vec<_> = listed.iter().filter_map(|file| input(file)).collect();
    inputs.sort_unstable();
    for (kind, number) in inputs {
        if out.len() >= MAX_INPUTS {
            return Ok(());
        }
        let stem = format!("{kind}{number}");
        let value = signed(files, &format!("{dir}/{stem}_input"))
            .map_err(|e| e.reason())
            .and_then(|raw| convert(kind, raw));
        let title = word(files, &format!("{dir}/{stem}_label"))
            .map(|l| format!(".{l}"))
            .unwrap_or_default();
        out.push(HwmonSensor { name: label(&format!("{name}.{stem}{title}")), value });
    }
    Ok(())
}

/// Reads the live chips, sorted by name.
///
/// # Errors
/// The directory's failure, or that of a chip whose inputs cannot be listed.
pub fn read(files: &dyn Files) -> Result<Vec<HwmonSensor>, ReadError> {
    let listed = files.names(DIR).map_err(|e| e.at(DIR))?;
    let mut numbers: Vec<u32> =
        listed.iter().filter_map(|entry| index_after("hwmon", entry)).collect();
    if numbers.is_empty() {
        return Err(FileError::NotPresent.at(&format!("{DIR}/hwmon0")));
    }
    numbers.sort_unstable();
    let mut out = Vec::new();
    let mut chips = Vec::with_capacity(numbers.len());
    for number in numbers {
        match word(files, &format!("{DIR}/hwmon{number}/name")) {
            Ok(name) => chips.push((name, number)),
            // Without its name nobody knows whether it is one to read; that is worth a reason.
            Err(error) => {
                let name = format!("hwmon{number}");
                out.push(HwmonSensor { name, value: Err(error.reason()) });
            }
        }
    }
    chips.sort();
    let mut last = String::new();
    let mut same = 0;
    for (name, number) in chips {
        same = if name == last { same + 1 } else { 0 };
        last.clone_from(&name);
        if READ.contains(&name.as_str()) {
            let unique = if same == 0 { name } else { format!("{name}#{same}") };
            chip(files, &format!("{DIR}/hwmon{number}"), &unique, &mut out)?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_told_by_their_file_names() {
        assert_eq!(input("power3_input"), Some(("power", 3)));
        assert_eq!(input("temp12_input"), Some(("temp", 12)));
        assert_eq!(input("temp1_max"), None);
        assert_eq!(input("in0_input"), None);
    }

    #[test]
    fn impossible_figures_are_refused() {
        assert_eq!(convert("power", 25_000_000), Ok(SensorValue::Power(Watts(25.0))));
        assert_eq!(convert("power", -1), Err(Missing::Malformed));
        assert_eq!(convert("temp", 65_261_850), Err(Missing::Malformed));
    }
}

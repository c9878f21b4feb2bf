//! `/sys/class/hwmon`: sensor chips, matched by name; their order changes from boot to boot.

use super::temperature;
use crate::model::reading::{Missing, Reading};
use crate::model::sensors::{CAP, HwmonSensor, SensorValue};
use crate::sources::files::{FileError, Files, ReadError};
use crate::sources::lines::{index_after, label, signed, word};
use crate::units::{Joules, Watts};

const DIR: &str = "/sys/class/hwmon";

/// Chips that answer from memory, a register or ACPI. The others (nvme, the network cards) are asked
/// by sending a command to a device that may be dead: reading them could hang a lane, and what they
/// say is no part of the pool's or the GPU's story. The thermal zones appear here again as `acpitz`.
const READ: &[&str] = &[SPBM, "dgx_ec_fan", "acpi_fan", "coretemp", "k10temp"];
/// The chip of the module's power controller: it keeps to limits, and has states that are no inputs.
const SPBM: &str = "spbm";
/// Its states, files of its own beside the inputs. `tj_max_c` is left out: a rise above an ambient that
/// is not told is no temperature.
const STATES: [&str; 2] = ["prochot", "pl_level"];
/// More inputs than any of these chips has.
const MAX_INPUTS: usize = 256;

/// The kind of what has no input file's name.
const STATE: &str = "state";

fn convert(kind: &str, raw: i64) -> Reading<SensorValue> {
    let positive = || u64::try_from(raw).map_err(|_| Missing::Malformed);
    Ok(match kind {
        "temp" => SensorValue::Temperature(temperature(raw)?),
        "power" => SensorValue::Power(Watts::from_micro(positive()?)),
        "energy" => SensorValue::Energy(Joules::from_micro(positive()?)),
        "fan" => SensorValue::Fan(positive()?),
        STATE => SensorValue::State(positive()?),
        _ => return Err(Missing::Malformed),
    })
}

/// The kind and the number of a file of that ending: `power3_input` is `("power", 3)`.
fn numbered(file: &str, ending: &str) -> Option<(&'static str, u32)> {
    let stem = file.strip_suffix(ending)?;
    ["temp", "power", "energy", "fan"]
        .into_iter()
        .find_map(|kind| Some((kind, index_after(kind, stem)?)))
}

fn chip(
    files: &dyn Files,
    dir: &str,
    name: &str,
    limits: bool,
    out: &mut Vec<HwmonSensor>,
) -> Result<(), ReadError> {
    let listed = files.names(dir).map_err(|e| e.at(dir))?;
    let mut put = |name: String, kind: &str, file: &str| {
        if out.len() < MAX_INPUTS {
            let raw = signed(files, &format!("{dir}/{file}")).map_err(|e| e.reason());
            let value = raw.and_then(|raw| convert(kind, raw));
            out.push(HwmonSensor { name, value });
        }
    };
    let mut inputs: Vec<_> = listed.iter().filter_map(|file| numbered(file, "_input")).collect();
    inputs.sort_unstable();
    inputs.truncate(MAX_INPUTS);
    for (kind, number) in inputs {
        let stem = format!("{kind}{number}");
        let title = word(files, &format!("{dir}/{stem}_label"))
            .map(|l| format!(".{l}"))
            .unwrap_or_default();
        let name = label(&format!("{name}.{stem}{title}"));
        let cap = format!("{stem}_cap");
        put(name.clone(), kind, &format!("{stem}_input"));
        if limits && kind == "power" && listed.contains(&cap) {
            put(format!("{name}{CAP}"), kind, &cap);
        }
    }
    for state in STATES.iter().filter(|state| limits && listed.iter().any(|file| file == *state)) {
        put(format!("{name}.{state}"), STATE, state);
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
            chip(files, &format!("{DIR}/hwmon{number}"), &unique, last == SPBM, &mut out)?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sensors::SensorName;

    #[test]
    fn inputs_are_told_by_their_file_names() {
        assert_eq!(numbered("power3_input", "_input"), Some(("power", 3)));
        assert_eq!(numbered("temp12_input", "_input"), Some(("temp", 12)));
        assert_eq!(numbered("temp1_max", "_input"), None);
        assert_eq!(numbered("in0_input", "_input"), None);
    }

    #[test]
    fn impossible_figures_are_refused() {
        assert_eq!(convert("power", 25_000_000), Ok(SensorValue::Power(Watts(25.0))));
        assert_eq!(convert("power", -1), Err(Missing::Malformed));
        assert_eq!(convert("temp", 65_261_850), Err(Missing::Malformed));
    }

    /// A chip of these files in its directory.
    struct One(&'static str, &'static [(&'static str, Result<&'static str, FileError>)]);

    impl Files for One {
        fn text(&self, path: &str) -> Result<String, FileError> {
            let file = path.strip_prefix(DIR).and_then(|path| path.strip_prefix("/hwmon3/"));
            let found = self.1.iter().find(|(name, _)| Some(*name) == file);
            match found {
                Some((_, text)) => text.clone().map(str::to_owned),
                None if file == Some("name") => Ok(self.0.to_owned()),
                None => Err(FileError::NotPresent),
            }
        }
        fn names(&self, path: &str) -> Result<Vec<String>, FileError> {
            if path == DIR {
                return Ok(vec!["hwmon3".to_owned()]);
            }
            Ok(self.1.iter().map(|(name, _)| (*name).to_owned()).collect())
        }
    }

    fn sensors(chip: &One) -> Vec<(String, Reading<SensorValue>)> {
        read(chip).unwrap().into_iter().map(|sensor| (sensor.name, sensor.value)).collect()
    }

    const FILES: &[(&str, Result<&str, FileError>)] = &[
        ("power11_label", Ok("pl1")),
        ("power11_input", Ok("17950000")),
        ("power11_cap", Ok("140000000")),
        ("power12_input", Ok("18010000")),
        ("power12_cap", Err(FileError::Denied)),
        ("power1_input", Ok("24870000")),
        ("prochot", Ok("0")),
        ("pl_level", Ok("-1")),
    ];

    #[test]
    fn the_power_controller_has_limits_and_states() {
        let watts = |watts| Ok(SensorValue::Power(Watts(watts)));
        let want = [
            ("spbm.power1", watts(24.87)),
            ("spbm.power11.pl1", watts(17.95)),
            ("spbm.power11.pl1.cap", watts(140.0)),
            ("spbm.power12", watts(18.01)),
            ("spbm.power12.cap", Err(Missing::Denied)),
            ("spbm.prochot", Ok(SensorValue::State(0))),
            ("spbm.pl_level", Err(Missing::Malformed)),
        ];
        assert_eq!(sensors(&One("spbm", FILES)), want.map(|(name, v)| (name.to_owned(), v)));
        let parts: Vec<_> = read(&One("spbm", FILES)).unwrap();
        let parts: Vec<_> = parts.iter().map(HwmonSensor::parts).collect();
        let of = |kind, label, cap| SensorName { chip: "spbm", kind, label, cap };
        assert_eq!(parts[1..3], [of("power", "pl1", false), of("power", "pl1", true)]);
        assert_eq!(parts[4..6], [of("power", "", true), of("prochot", "", false)]);
    }

    #[test]
    fn another_chip_has_inputs_only() {
        let names: Vec<_> = sensors(&One("acpi_fan", FILES)).into_iter().map(|s| s.0).collect();
        assert_eq!(names, ["acpi_fan.power1", "acpi_fan.power11.pl1", "acpi_fan.power12"]);
        assert_eq!(sensors(&One("nvme", FILES)), []);
    }

    #[test]
    fn without_its_limits_it_is_read_all_the_same() {
        let bare = One("spbm", &[("power11_label", Ok("pl1")), ("power11_input", Ok("17950000"))]);
        assert_eq!(sensors(&bare).len(), 1);
    }
}

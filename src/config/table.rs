//! The settings, once each.

use super::checks::{address, alertmanager, directory, label, one, telemetry_path};
pub use super::checks::{label_name, split_address};
use super::{Config, LogFormat};
use crate::model::gpu::GpuChoice;
use crate::model::naming::{OwnClass, UnitRules};
use crate::model::source::Source;
use crate::thresholds::Thresholds;
use crate::units::{GIB, Hertz, KIB, MIB, Unit};

/// One setting.
pub struct Row {
    /// Key in the YAML file, sections joined by dots. Flag and environment variable follow from it.
    pub key: &'static str,
    /// What stands for the value in the help.
    pub value_name: &'static str,
    /// Help.
    pub help: &'static str,
    /// A value for the example file, where nothing is the default.
    pub example: &'static str,
    /// Whether it may be given several times.
    pub many: bool,
    /// Which machine is read: `status` takes these too.
    pub machine: bool,
    /// Whether a reload takes it over.
    pub reloads: bool,
    set: fn(&mut Config, &[String]) -> Result<(), String>,
    /// The value in force, as it would be written.
    pub show: fn(&Config) -> Vec<String>,
}

impl Row {
    /// `--web.max-requests`, without the dashes in front.
    #[must_use]
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// `GB10_EXPORTER_WEB_MAX_REQUESTS`
    #[must_use]
    pub fn environment(&self) -> String {
        format!("GB10_EXPORTER_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// Whether these values would do.
    ///
    /// # Errors
    /// What was expected.
    pub fn check(&self, values: &[String]) -> Result<(), String> {
        (self.set)(&mut Config::default(), values)
    }
}

/// Classes of the operator's own.
const MAX_CLASSES: usize = 16;
const LEVELS: [&str; 5] = ["off", "error", "warn", "info", "debug"];

fn path_shown(path: &std::path::Path) -> Vec<String> {
    vec![path.display().to_string()]
}

/// Every setting but collectors and thresholds, which have tables of their own.
pub const ROWS: &[Row] = &[
    Row {
        key: "web.listen_address",
        value_name: "HOST:PORT",
        help: "Address to listen on; may be given several times. :PORT means all addresses, IPv4 and IPv6",
        example: "",
        many: true,
        machine: false,
        reloads: false,
        set: |c, values| {
            if values.is_empty() {
                return Err("expected at least one address".to_owned());
            }
            values.iter().try_for_each(|value| address(value))?;
            c.listen = values.to_vec();
            Ok(())
        },
        show: |c| c.listen.clone(),
    },
    Row {
        key: "web.telemetry_path",
        value_name: "PATH",
        help: "Path of the metrics",
        example: "",
        many: false,
        machine: false,
        reloads: false,
        set: |c, values| {
            let path = one(values)?;
            telemetry_path(path)?;
            path.clone_into(&mut c.telemetry_path);
            Ok(())
        },
        show: |c| vec![c.telemetry_path.clone()],
    },
    Row {
        key: "web.max_requests",
        value_name: "N",
        help: "Requests answered at a time; one more is refused with 503",
        example: "",
        many: false,
        machine: false,
        reloads: false,
        set: |c, values| {
            let text = one(values)?;
            let number: u16 = text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                format!("expected a whole number from 1 to {}, found {text:?}", u16::MAX)
            })?;
            c.max_requests = number.into();
            Ok(())
        },
        show: |c| vec![c.max_requests.to_string()],
    },
    Row {
        key: "state.directory",
        value_name: "DIR",
        help: "Directory for what is remembered from run to run (which boots ended badly). Created if \
               needed. Without it nothing is written anywhere. Default: the directory that systemd \
               gives a service with StateDirectory=",
        example: "/var/lib/gb10-exporter",
        many: false,
        machine: false,
        reloads: false,
        set: |c, values| {
            c.state_directory = Some(directory(values)?);
            Ok(())
        },
        show: |c| c.state_directory.iter().flat_map(|path| path_shown(path)).collect(),
    },
    Row {
        key: "train_log",
        value_name: "FILE",
        help: "Follow this training log: how long its steps take, and when they are slow; may be given several \
               times. It need not be there yet",
        example: "/home/me/run/train.log",
        many: true,
        machine: false,
        reloads: false,
        set: |c, values| {
            for (i, value) in values.iter().enumerate() {
                if value.is_empty() {
                    return Err("expected a file, found an empty name".to_owned());
                }
                if values[..i].contains(value) {
                    return Err(format!("{value} is there twice"));
                }
            }
            c.train_logs = values.iter().map(Into::into).collect();
            Ok(())
        },
        show: |c| c.train_logs.iter().flat_map(|path| path_shown(path)).collect(),
    },
    Row {
        key: "alertmanager.url",
        value_name: "URL",
        help: "Tell this Alertmanager of critical alerts at once, without waiting for a scrape; may be given several times, \
               once for each of a cluster. http://HOST:PORT, with a path if it has one",
        example: "http://alertmanager:9093",
        many: true,
        machine: false,
        reloads: false,
        set: |c, values| {
            c.alertmanagers =
                values.iter().map(|value| alertmanager(value)).collect::<Result<_, _>>()?;
            Ok(())
        },
        show: |c| c.alertmanagers.clone(),
    },
    Row {
        key: "alertmanager.label",
        value_name: "NAME=VALUE",
        help: "A label of those alerts; may be given several times. Give job and instance and whatever else the \
               target has in Prometheus, its external_labels and those of rules --label, so that its alerts and these are one",
        example: "job=gb10",
        many: true,
        machine: false,
        reloads: false,
        set: |c, values| {
            c.alert_labels = values.iter().map(|value| label(value)).collect::<Result<_, _>>()?;
            Ok(())
        },
        show: |c| c.alert_labels.iter().map(|(name, value)| format!("{name}={value}")).collect(),
    },
    Row {
        key: "workload.class",
        value_name: "NAME=PATTERNS",
        help: "Call programs that no class knows NAME: patterns are names of programs, Python modules or scripts, \
               or beginnings of them and *, separated by |; may be given several times",
        example: "my_server=serve.py|my-srv*",
        many: true,
        machine: true,
        reloads: false,
        set: |c, values| {
            let own: Vec<OwnClass> =
                values.iter().map(|value| OwnClass::parse(value)).collect::<Result<_, _>>()?;
            // Each is a label's value.
            if own.len() > MAX_CLASSES {
                return Err(format!("expected at most {MAX_CLASSES} classes, found {}", own.len()));
            }
            for (i, class) in own.iter().enumerate() {
                if own[..i].iter().any(|other| other.name == class.name) {
                    return Err(format!("{} is there twice; separate patterns by |", class.name));
                }
            }
            c.naming.own = own;
            Ok(())
        },
        show: |c| c.naming.own.iter().map(OwnClass::shown).collect(),
    },
    Row {
        key: "workload.unit",
        value_name: "FROM=TO",
        help: "Call the unit FROM, or all that begin with FROM where it ends in *, TO; may be given several times",
        example: "llm-*=llm",
        many: true,
        machine: true,
        reloads: false,
        set: |c, values| {
            c.naming.units.map =
                values.iter().map(|value| UnitRules::parse_map(value)).collect::<Result<_, _>>()?;
            Ok(())
        },
        show: |c| c.naming.units.map.iter().map(|(from, to)| format!("{from}={to}")).collect(),
    },
    Row {
        key: "workload.container_ids",
        value_name: "true|false",
        help: "Name containers and pods by their shortened ids; each restart is a new unit then",
        example: "",
        many: false,
        machine: true,
        reloads: false,
        set: |c, values| {
            let text = one(values)?;
            let on = text.parse().map_err(|_| format!("expected true or false, found {text:?}"))?;
            c.naming.units.container_ids = on;
            Ok(())
        },
        show: |c| vec![c.naming.units.container_ids.to_string()],
    },
    Row {
        key: "log.level",
        value_name: "LEVEL",
        help: "Log this much and less: off, error, warn, info, debug",
        example: "",
        many: false,
        machine: false,
        reloads: true,
        set: |c, values| {
            let level = one(values)?;
            if !LEVELS.contains(&level) {
                let near = nearest(level, LEVELS.into_iter());
                return Err(format!(
                    "expected one of {}, found {level:?}{near}",
                    LEVELS.join(", ")
                ));
            }
            level.clone_into(&mut c.log_level);
            Ok(())
        },
        show: |c| vec![c.log_level.clone()],
    },
    Row {
        key: "log.format",
        value_name: "FORMAT",
        help: "Log as logfmt or json",
        example: "",
        many: false,
        machine: false,
        reloads: false,
        set: |c, values| {
            let name = one(values)?;
            let format = LogFormat::ALL.iter().find(|format| format.as_str() == name);
            c.log_format = *format.ok_or_else(|| {
                let names: Vec<_> = LogFormat::ALL.iter().map(|f| f.as_str()).collect();
                format!("expected one of {}, found {name:?}", names.join(", "))
            })?;
            Ok(())
        },
        show: |c| vec![c.log_format.as_str().to_owned()],
    },
    Row {
        key: "path.procfs",
        value_name: "DIR",
        help: "Where procfs is mounted",
        example: "",
        many: false,
        machine: true,
        reloads: false,
        set: |c, values| {
            c.procfs = directory(values)?;
            Ok(())
        },
        show: |c| path_shown(&c.procfs),
    },
    Row {
        key: "path.sysfs",
        value_name: "DIR",
        help: "Where sysfs is mounted",
        example: "",
        many: false,
        machine: true,
        reloads: false,
        set: |c, values| {
            c.sysfs = directory(values)?;
            Ok(())
        },
        show: |c| path_shown(&c.sysfs),
    },
    Row {
        key: "path.rootfs",
        value_name: "DIR",
        help: "Where the rest of the machine is (for /etc/os-release)",
        example: "",
        many: false,
        machine: true,
        reloads: false,
        set: |c, values| {
            c.rootfs = directory(values)?;
            Ok(())
        },
        show: |c| path_shown(&c.rootfs),
    },
    Row {
        key: "path.nvml",
        value_name: "LIBRARY",
        help: "NVML library of the NVIDIA driver, a path or a name that the dynamic linker looks up",
        example: "",
        many: false,
        machine: true,
        reloads: false,
        set: |c, values| {
            one(values)?.clone_into(&mut c.nvml);
            Ok(())
        },
        show: |c| vec![c.nvml.clone()],
    },
    Row {
        key: "path.nvidia_smi",
        value_name: "PROGRAM",
        help: "nvidia-smi, a path or a name that is looked up in PATH; run only where NVML cannot be \
               loaded, or when asked for",
        example: "",
        many: false,
        machine: true,
        reloads: false,
        set: |c, values| {
            one(values)?.clone_into(&mut c.nvidia_smi);
            Ok(())
        },
        show: |c| vec![c.nvidia_smi.clone()],
    },
    Row {
        key: "collector.gpu",
        value_name: "HOW",
        help: "How the GPU is asked: nvml (the driver's library), smi (the program nvidia-smi), auto (smi \
               where the library cannot be loaded), off",
        example: "",
        many: false,
        machine: true,
        reloads: true,
        set: |c, values| {
            // Like the other collectors it can be a plain switch, too.
            let name = match one(values)? {
                "true" => GpuChoice::Auto.as_str(),
                "false" => GpuChoice::Off.as_str(),
                name => name,
            };
            let choice = GpuChoice::ALL.iter().find(|choice| choice.as_str() == name);
            c.gpu = *choice.ok_or_else(|| {
                let names: Vec<_> = GpuChoice::ALL.iter().map(|c| c.as_str()).collect();
                format!("expected one of {}, found {name:?}", names.join(", "))
            })?;
            Ok(())
        },
        show: |c| vec![c.gpu.as_str().to_owned()],
    },
];

/// The sources that are simply read or not.
pub fn switched() -> impl Iterator<Item = Source> {
    Source::ALL.iter().copied().filter(|source| *source != Source::Gpu)
}

/// Keys of collectors and thresholds begin with these.
pub const COLLECTOR: &str = "collector.";
/// See [`COLLECTOR`].
pub const THRESHOLD: &str = "thresholds.";

/// Every key that may be set.
pub fn keys() -> impl Iterator<Item = String> {
    ROWS.iter()
        .map(|row| row.key.to_owned())
        .chain(switched().map(|source| format!("{COLLECTOR}{}", source.as_str())))
        .chain(Thresholds::ROWS.iter().map(|row| format!("{THRESHOLD}{}", row().name)))
}

/// Sets one setting.
pub(super) fn set(config: &mut Config, key: &str, values: &[String]) -> Result<(), String> {
    if let Some(row) = ROWS.iter().find(|row| row.key == key) {
        return (row.set)(config, values);
    }
    if let Some(source) = key.strip_prefix(COLLECTOR).and_then(source_named) {
        let text = one(values)?;
        let on = text.parse().map_err(|_| format!("expected true or false, found {text:?}"))?;
        config.collectors[source.index()] = on;
        return Ok(());
    }
    if let Some(name) = key.strip_prefix(THRESHOLD)
        && let Some(row) = Thresholds::ROWS.iter().map(|row| row()).find(|row| row.name == name)
    {
        let text = one(values)?;
        let number = number(row.unit, text)?;
        if !(row.min..=row.max).contains(&number) {
            let (min, max) = (amount(row.unit, row.min), amount(row.unit, row.max));
            return Err(format!("expected {min} to {max}, found {text}"));
        }
        (row.set)(&mut config.thresholds, number);
        return Ok(());
    }
    Err(format!("unknown key{}", nearest(key, keys())))
}

/// A setting as it would be written, for any key; empty for one that is not set.
#[must_use]
pub fn shown(config: &Config, key: &str) -> Vec<String> {
    if let Some(row) = ROWS.iter().find(|row| row.key == key) {
        return (row.show)(config);
    }
    if let Some(source) = key.strip_prefix(COLLECTOR).and_then(source_named) {
        return vec![config.collectors[source.index()].to_string()];
    }
    let name = key.strip_prefix(THRESHOLD).unwrap_or_default();
    let row = Thresholds::ROWS.iter().map(|row| row()).find(|row| row.name == name);
    row.map(|row| amount(row.unit, (row.get)(&config.thresholds))).into_iter().collect()
}

fn source_named(name: &str) -> Option<Source> {
    switched().find(|source| source.as_str() == name)
}

/// A number with a unit as an operator writes it: `4GiB`, `16 MiB/s`, `30s`, `5m`, `3`.
fn number(unit: Unit, text: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, suffix) = (&text[..end], text[end..].trim());
    let units: &[(&str, f64)] = match unit {
        Unit::Bytes => {
            &[("GiB", exact(GIB)), ("MiB", exact(MIB)), ("KiB", exact(KIB)), ("B", 1.0), ("", 1.0)]
        }
        Unit::BytesPerSecond => {
            &[("GiB/s", exact(GIB)), ("MiB/s", exact(MIB)), ("KiB/s", exact(KIB)), ("", 1.0)]
        }
        Unit::Seconds => &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)],
        Unit::Watts | Unit::Celsius | Unit::Hertz => unit.written(),
        _ => &[("", 1.0)],
    };
    let expected = || {
        let names: Vec<_> =
            units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let with = if unit == Unit::Ratio {
            "a share such as 0.5".to_owned()
        } else if names.is_empty() && unit != Unit::Count {
            "a number".to_owned()
        } else if names.is_empty() {
            "a whole number".to_owned()
        } else {
            format!("a number with one of {}", names.join(", "))
        };
        format!("expected {with}, found {text:?}")
    };
    let factor = units.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor);
    let value: f64 = digits.parse().map_err(|_| expected())?;
    let value = value * factor.ok_or_else(expected)?;
    let whole = matches!(unit, Unit::Bytes | Unit::Count);
    if whole && value.fract() != 0.0 {
        return Err(expected());
    }
    Ok(value)
}

#[expect(clippy::cast_precision_loss, reason = "powers of two are exact")]
const fn exact(bytes: u64) -> f64 {
    bytes as f64
}

/// A number in a unit, as it is read back.
#[must_use]
pub fn amount(unit: Unit, value: f64) -> String {
    let scaled = |suffix: &str| {
        let (factor, name) = [(exact(GIB), "GiB"), (exact(MIB), "MiB"), (exact(KIB), "KiB")]
            .into_iter()
            .find(|(factor, _)| value >= *factor && (value / factor * 4.0).fract() == 0.0)
            .unwrap_or((1.0, if suffix.is_empty() { "B" } else { "" }));
        if name.is_empty() {
            format!("{value}")
        } else {
            format!("{}{name}{suffix}", value / factor)
        }
    };
    match unit {
        Unit::Bytes => scaled(""),
        Unit::BytesPerSecond => scaled("/s"),
        Unit::Seconds => format!("{value}s"),
        Unit::Watts => format!("{value}W"),
        Unit::Celsius => format!("{value}C"),
        Unit::Hertz => format!("{}MHz", value / Hertz::from_mega(1).0),
        _ => value.to_string(),
    }
}

/// `; did you mean "x"?`, when one of the names is near enough to be meant.
pub(super) fn nearest<S: AsRef<str>>(given: &str, names: impl Iterator<Item = S>) -> String {
    let best = names
        .map(|name| (distance(given, name.as_ref()), name))
        .min_by_key(|(distance, _)| *distance);
    match best {
        Some((distance, name)) if distance <= given.len().div_ceil(3).max(2) => {
            format!("; did you mean {:?}?", name.as_ref())
        }
        _ => String::new(),
    }
}

/// Edits that turn one word into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_shown() {
        for row in Thresholds::ROWS.iter().map(|row| row()) {
            for value in [row.default, row.min, row.max] {
                let text = amount(row.unit, value);
                assert_eq!(number(row.unit, &text), Ok(value), "{}: {text}", row.name);
            }
        }
        assert_eq!(number(Unit::Bytes, "4 GiB"), Ok(4_294_967_296.0));
        assert_eq!(number(Unit::Seconds, "5m"), Ok(300.0));
        for (unit, text) in [
            (Unit::Bytes, "4GB"),
            (Unit::Bytes, "many"),
            (Unit::Bytes, "-1"),
            (Unit::Bytes, "1.00001KiB"),
            (Unit::Seconds, "10 minutes"),
            (Unit::Count, "3s"),
            (Unit::Count, "3.5"),
        ] {
            assert!(number(unit, text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered_when_it_is_near() {
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = || ["web.listen_address", "web.max_requests"].into_iter();
        assert_eq!(nearest("web.max_request", names()), "; did you mean \"web.max_requests\"?");
        assert_eq!(nearest("colour", names()), "");
    }

    #[test]
    fn every_row_takes_its_own_default_or_example() {
        for row in ROWS {
            let shown = (row.show)(&Config::default());
            assert_eq!(shown.is_empty(), !row.example.is_empty(), "{}", row.key);
            let value = if shown.is_empty() { vec![row.example.to_owned()] } else { shown };
            assert_eq!(row.check(&value), Ok(()), "{}", row.key);
        }
        assert!(keys().count() > 30);
    }
}

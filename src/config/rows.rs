//! The settings one by one, but for those of OpenTelemetry, which have a table of their own.

use super::LogFormat;
use super::checks::{address, alertmanager, directory, flag, label, one, telemetry_path};
use super::table::{Row, nearest};
use crate::model::gpu::GpuChoice;
use crate::model::naming::{OwnClass, UnitRules};

/// Classes of the operator's own.
const MAX_CLASSES: usize = 16;
const LEVELS: [&str; 5] = ["off", "error", "warn", "info", "debug"];

fn path_shown(path: &std::path::Path) -> Vec<String> {
    vec![path.display().to_string()]
}

/// What the exporter serves, keeps and tells.
pub(super) const SERVING: &[Row] = &[
    Row {
        key: "web.listen_address",
        value_name: "HOST:PORT",
        help: "Address to listen on; may be given several times. :PORT means all addresses, IPv4 and IPv6",
        example: "",
        many: true,
        machine: false,
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
        reloads: false,
        set: |c, values| {
            c.alert_labels = values.iter().map(|value| label(value)).collect::<Result<_, _>>()?;
            Ok(())
        },
        show: |c| c.alert_labels.iter().map(|(name, value)| format!("{name}={value}")).collect(),
    },
];

/// What the machine is read by, and how the log is written.
pub(super) const MACHINE: &[Row] = &[
    Row {
        key: "workload.class",
        value_name: "NAME=PATTERNS",
        help: "Call programs that no class knows NAME: patterns are names of programs, Python modules or scripts, \
               or beginnings of them and *, separated by |; may be given several times",
        example: "my_server=serve.py|my-srv*",
        many: true,
        machine: true,
        standard: None,
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
        standard: None,
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
        standard: None,
        reloads: false,
        set: |c, values| {
            c.naming.units.container_ids = flag(values)?;
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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
        standard: None,
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

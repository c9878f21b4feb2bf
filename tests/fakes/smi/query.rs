//! The answers of the fake `nvidia-smi`, in the words and with the exit codes of the real one.

use crate::Answer;
use crate::fields::{self, Field};
use crate::state::{Code, NOT_SUPPORTED, State, UNKNOWN};
use std::fmt::Write;

const GPU_IS_LOST: Code = 15;

/// `--format=csv,...`.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) header: bool,
    pub(crate) units: bool,
}

impl Format {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let options: Vec<&str> = text.split(',').map(str::trim).collect();
        options.contains(&"csv").then(|| Self {
            header: !options.contains(&"noheader"),
            units: !options.contains(&"nounits"),
        })
    }

    /// A value with its unit.
    fn with_unit(self, value: String, unit: &str) -> String {
        if self.units && !unit.is_empty() { format!("{value} {unit}") } else { value }
    }
}

/// What stands in place of a value.
fn in_place_of_a_value(state: &State, code: Code) -> String {
    match code {
        NOT_SUPPORTED => state.raw("smi.unsupported").unwrap_or("[N/A]"),
        4 => "[Insufficient Permissions]",
        GPU_IS_LOST => "[GPU is lost]",
        UNKNOWN => "[Unknown Error]",
        _ => "ERR!",
    }
    .to_owned()
}

/// A column's title; the unit stays there whatever the format.
fn title(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} [{unit}]") }
}

fn refused(name: &str) -> Answer {
    (format!("Field \"{name}\" is not a valid field to query.\n\n"), 2)
}

/// The GPUs that are there; and what is said about the others, with the exit code of it all.
fn present(state: &State) -> Result<(Vec<u32>, String, u8), Answer> {
    let count: u32 = state.number("count").unwrap_or(0);
    let mut gpus = Vec::new();
    let mut said = String::new();
    let mut exit = 0;
    for gpu in 0..count {
        let Err(code) = state.succeeds(&format!("{gpu}.device"), true) else {
            gpus.push(gpu);
            continue;
        };
        let why = match code {
            GPU_IS_LOST => "GPU is lost.  Reboot the system to recover this GPU",
            4 => "Insufficient Permissions",
            _ => "Unknown Error",
        };
        let bus = state.peek(&format!("{gpu}.bus")).unwrap_or("");
        let _ = writeln!(said, "Unable to determine the device handle for GPU{gpu}: {bus}: {why}");
        exit = if code == GPU_IS_LOST { 15 } else { exit };
    }
    if gpus.is_empty() && exit == 0 {
        return Err((said + "No devices were found\n", 6));
    }
    Ok((gpus, said, exit))
}

/// `--query-gpu=...`
pub(crate) fn gpus(state: &State, names: &str, format: Format) -> Answer {
    let mut columns: Vec<&Field> = Vec::new();
    for name in names.split(',').map(str::trim) {
        match fields::find(state, name) {
            Some(field) => columns.push(field),
            None => return refused(name),
        }
    }
    let (gpus, mut out, exit) = match present(state) {
        Ok(present) => present,
        Err(answer) => return answer,
    };
    if format.header && !gpus.is_empty() {
        let titles: Vec<_> = columns.iter().map(|c| title(c.name, c.unit)).collect();
        out += &(titles.join(", ") + "\n");
    }
    for gpu in gpus {
        let row: Vec<_> = columns
            .iter()
            .map(|column| match column.value(state, gpu) {
                Ok(value) => format.with_unit(value, column.unit),
                Err(code) => in_place_of_a_value(state, code),
            })
            .collect();
        out += &(row.join(", ") + "\n");
    }
    (out, exit)
}

/// `--query-compute-apps=...`
pub(crate) fn compute_apps(state: &State, names: &str, format: Format) -> Answer {
    const COLUMNS: [(&str, &str); 5] = [
        ("gpu_uuid", ""),
        ("gpu_bus_id", ""),
        ("pid", ""),
        ("process_name", ""),
        ("used_gpu_memory", "MiB"),
    ];
    let mut columns = Vec::new();
    for name in names.split(',').map(str::trim) {
        let wanted = match name {
            "used_memory" => "used_gpu_memory",
            "name" => "process_name",
            other => other,
        };
        match COLUMNS.iter().find(|(column, _)| *column == wanted) {
            Some(column) => columns.push(*column),
            None => return refused(name),
        }
    }
    let (gpus, mut out, exit) = match present(state) {
        Ok(present) => present,
        Err(answer) => return answer,
    };
    if format.header && !gpus.is_empty() {
        let titles: Vec<_> = columns.iter().map(|(name, unit)| title(name, unit)).collect();
        out += &(titles.join(", ") + "\n");
    }
    for gpu in gpus {
        // A list that cannot be had is a row of its own.
        let rows = match state.processes(gpu, "compute") {
            Ok(list) => list.into_iter().map(Ok).collect(),
            Err(code) => vec![Err(code)],
        };
        for row in rows {
            let cells: Vec<_> = columns
                .iter()
                .map(|(name, unit)| match cell(state, gpu, name, row) {
                    Ok(value) => format.with_unit(value, unit),
                    Err(code) => in_place_of_a_value(state, code),
                })
                .collect();
            out += &(cells.join(", ") + "\n");
        }
    }
    (out, exit)
}

/// A process list's row: the process and its memory, or why there is no list.
type Row = Result<(u32, Option<u64>), Code>;

/// One cell of a process list, without its unit.
fn cell(state: &State, gpu: u32, name: &str, row: Row) -> Result<String, Code> {
    Ok(match name {
        "gpu_uuid" => state.get(&format!("{gpu}.uuid"))?.to_owned(),
        "gpu_bus_id" => state.get(&format!("{gpu}.bus"))?.to_owned(),
        "pid" => row?.0.to_string(),
        "process_name" => {
            let (pid, _) = row?;
            let name = state.get(&format!("{gpu}.process_name.{pid}"));
            // So it says of processes that it cannot look at.
            name.unwrap_or("[Not Found]").to_owned()
        }
        _ => fields::mib(row?.1.ok_or(NOT_SUPPORTED)?),
    })
}

/// `-L`
pub(crate) fn list(state: &State) -> Answer {
    let (gpus, mut out, exit) = match present(state) {
        Ok(present) => present,
        Err(answer) => return answer,
    };
    for gpu in gpus {
        let text = |key: &str| {
            let text = state.get(&format!("{gpu}.{key}"));
            text.map_or_else(|code| in_place_of_a_value(state, code), str::to_owned)
        };
        let _ = writeln!(out, "GPU {gpu}: {} (UUID: {})", text("name"), text("uuid"));
    }
    (out, exit)
}

/// `--version`
pub(crate) fn version(state: &State) -> String {
    let driver = state.get("driver").unwrap_or("N/A");
    let nvml = fields::short_nvml(state.get("nvml").unwrap_or("N/A"));
    let cuda = state
        .number::<u32>("cuda")
        .map_or("N/A".to_owned(), |cuda| format!("{}.{}", cuda / 1000, cuda % 1000 / 10));
    let start = format!("NVIDIA-SMI version  : {driver}\nNVML version        : {nvml}\n");
    if state.driver_is_at_least(610, 0) {
        return start
            + "DRIVER version      : Deprecated, see \"KMD version\" instead\n"
            + "CUDA version        : Deprecated, see \"CUDA UMD version\" instead\n"
            + &format!("KMD version         : {driver}\nCUDA UMD version    : {cuda}\n");
    }
    start + &format!("DRIVER version      : {driver}\nCUDA Version        : {cuda}\n")
}

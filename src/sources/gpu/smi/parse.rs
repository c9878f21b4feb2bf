//! What nvidia-smi prints, as facts. Pure text in, facts out.
//!
//! Its tables are not CSV in earnest: nothing is quoted, errors and warnings stand between the rows,
//! and a process may be called anything.

use super::super::answers::ProcessRow;
use super::super::gather::MAX_GPUS;
use super::fields::{FIELDS, Row, Value, missing};
use crate::model::gpu::{ClockKind, Gpu, MemoryFigures};
use crate::model::reading::{Missing, Reading};
use crate::sources::lines::{label, shown};
use crate::units::Bytes;

/// Why something is not as it should be, in words and as a reason.
pub(super) type Problem = (String, Missing);

/// Each of the three figures is rounded for itself, so that they may exceed the total by this.
const ROUNDING: Bytes = Bytes::from_mib(2);

/// The fields of a query that the driver does not know.
pub(super) fn refused<'a>(stdout: &'a str, stderr: &'a str) -> Vec<&'a str> {
    let name = |line: &'a str| {
        let (name, rest) = line.trim().strip_prefix("Field \"")?.split_once('"')?;
        rest.contains("not a valid field").then_some(name)
    };
    stdout.lines().chain(stderr.lines()).filter_map(name).collect()
}

/// The answer to a query for GPUs.
#[derive(Debug, PartialEq)]
pub(super) struct Table<'a> {
    /// The GPUs, by index.
    pub(super) gpus: Vec<Gpu>,
    pub(super) driver: Reading<String>,
    /// Lines that belong to no row.
    pub(super) notes: Vec<&'a str>,
    /// The first thing worth reporting.
    pub(super) problem: Option<Problem>,
}

/// Reads the answer to a query for the fields `asked`, which are places in [`FIELDS`].
pub(super) fn table<'a>(asked: &[usize], stdout: &'a str) -> Table<'a> {
    let mut table = Table {
        gpus: Vec::new(),
        driver: Err(Missing::NotAvailable),
        notes: Vec::new(),
        problem: None,
    };
    let mut columns = Columns::asked(asked);
    let mut rows = Vec::new();
    for line in stdout.split_inclusive('\n') {
        let cells = cells(line);
        if rows.is_empty()
            && let Some(header) = Columns::header(asked, &cells)
        {
            columns = header;
            continue;
        }
        if cells.len() == columns.0.len() && line.ends_with('\n') && cells.len() > 1 {
            rows.push(columns.row(asked, &cells, &mut table.problem));
        } else if let Some(row) = broken(asked, &cells) {
            let what = format!("a row that is cut short or has a comma too many: {}", shown(line));
            table.problem.get_or_insert((what, Missing::Malformed));
            rows.push(row);
        } else if !line.trim().is_empty() {
            table.notes.push(line.trim());
        }
    }
    let drivers = || rows.iter().map(|row| &row.driver);
    if let Some(driver) = drivers().find(|driver| driver.is_ok()).or_else(|| drivers().next()) {
        table.driver.clone_from(driver);
    }
    for (position, row) in rows.into_iter().take(MAX_GPUS as usize).enumerate() {
        table.add(position, row);
    }
    table
}

impl Table<'_> {
    /// Adds a GPU, in the order of their numbers.
    fn add(&mut self, position: usize, row: Row) {
        let index = match row.index {
            Ok(index) => index,
            // Rows come in the order of the index, which is all that is known of this one.
            Err(reason) if reason != Missing::Malformed => u32::try_from(position).unwrap_or(0),
            Err(_) => return,
        };
        let sensible = |figures: &MemoryFigures| {
            figures.free.plus(figures.used) <= figures.total.plus(ROUNDING)
        };
        let figures = row
            .total
            .and_then(|total| Ok(MemoryFigures { total, free: row.free?, used: row.used? }));
        let memory = match figures {
            Ok(figures) if !sensible(&figures) => Err(Missing::Malformed),
            other => other,
        };
        if figures != memory {
            let what = format!("GPU {index}: memory: an answer that cannot be");
            self.problem.get_or_insert((what, Missing::Malformed));
        }
        self.insert(Gpu { index, memory, ..row.gpu });
    }

    fn insert(&mut self, gpu: Gpu) {
        match self.gpus.binary_search_by_key(&gpu.index, |gpu| gpu.index) {
            Ok(_) => {
                let what = format!("GPU {}: two rows for one GPU", gpu.index);
                self.problem.get_or_insert((what, Missing::Malformed));
            }
            Err(place) => self.gpus.insert(place, gpu),
        }
    }

    /// Adds the GPUs that could not be reached at all, of which the other lines tell.
    pub(super) fn add_unreachable(&mut self, stderr: &str) {
        let notes = std::mem::take(&mut self.notes);
        for line in notes.iter().copied().chain(stderr.lines()) {
            let Some((index, bus, reason)) = unreachable(line) else { continue };
            let taken = |index: u32| self.gpus.iter().any(|gpu| gpu.index == index);
            let index = index.or_else(|| (0..MAX_GPUS).find(|index| !taken(*index))).unwrap_or(0);
            self.problem = Some((label(line), reason));
            if !taken(index) {
                let bus = bus.ok_or(reason);
                self.insert(Gpu { bus, ..Gpu::absent(index, reason) });
            }
        }
        self.notes = notes;
    }
}

/// The columns of an answer: the field, and the unit in the header.
struct Columns<'a>(Vec<(Option<usize>, Option<&'a str>)>);

impl<'a> Columns<'a> {
    /// As they were asked for.
    fn asked(asked: &[usize]) -> Self {
        Self(asked.iter().map(|field| (Some(*field), None)).collect())
    }

    /// As the header says, if this is one.
    fn header(asked: &[usize], cells: &[&'a str]) -> Option<Self> {
        let mut columns: Vec<_> = cells.iter().map(|cell| heading(cell)).collect();
        columns.first()?.0?;
        let in_order = columns.len() == asked.len()
            && columns
                .iter()
                .zip(asked)
                .all(|((found, _), asked)| found.is_none_or(|f| f == *asked));
        // A name of which only the driver knows stands where it was asked for, as long as everything
        // else does.
        if in_order {
            for ((found, _), asked) in columns.iter_mut().zip(asked) {
                *found = Some(*asked);
            }
        }
        Some(Self(columns))
    }

    fn row(&self, asked: &[usize], cells: &[&str], problem: &mut Option<Problem>) -> Row {
        let mut row = Row::absent(Missing::NoSymbol);
        for (place, field) in FIELDS.iter().enumerate() {
            let column = self.0.iter().position(|(found, _)| *found == Some(place));
            let value = match column {
                Some(column) => Value::new(cells[column], self.0[column].1),
                None if asked.contains(&place) => Value::absent(Missing::Malformed),
                None => Value::absent(Missing::NoSymbol),
            };
            (field.take)(&mut row, &value);
            let Some(reason) = value.why().filter(|reason| !harmless(*reason)) else { continue };
            let cell = column.map_or("missing".to_owned(), |column| shown(cells[column]));
            let gpu = row.index.map_or("GPU".to_owned(), |index| format!("GPU {index}"));
            problem.get_or_insert((format!("{gpu}: {}: {cell}", field.names[0]), reason));
        }
        // nvidia-smi has no field for these.
        row.gpu.energy = Err(Missing::NotAvailable);
        row.gpu.clocks_max[ClockKind::Video as usize] = Err(Missing::NotAvailable);
        row
    }
}

/// That a device does not have something, or the driver does not know it, is no fault of the source.
fn harmless(reason: Missing) -> bool {
    matches!(reason, Missing::Unsupported | Missing::NotAvailable | Missing::NoSymbol)
}

/// The cells of a line. A comma within brackets belongs to a remark.
fn cells(line: &str) -> Vec<&str> {
    let mut open = 0_u32;
    let split = |c: char| {
        match c {
            '[' => open += 1,
            ']' => open = open.saturating_sub(1),
            _ => {}
        }
        c == ',' && open == 0
    };
    line.split(split).map(str::trim).collect()
}

/// The field and the unit of `clocks.current.sm [MHz]`.
fn heading(cell: &str) -> (Option<usize>, Option<&str>) {
    let (name, remark) = cell.split_once('[').map_or((cell, None), |(n, r)| (n, Some(r)));
    let name = name.trim();
    let field = FIELDS.iter().position(|field| field.names.contains(&name));
    // Anything longer is a remark, not a unit.
    let unit = remark.and_then(|r| r.strip_suffix(']')).filter(|unit| unit.len() <= 4);
    (field, unit)
}

/// What a row says that has not as many cells as there are columns: whose it is, at most.
fn broken(asked: &[usize], cells: &[&str]) -> Option<Row> {
    let first = cells.first()?;
    let number = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
    let value = cells.len() > 1 && first.starts_with('[');
    if !number && !value {
        return None;
    }
    let mut row = Row::absent(Missing::Malformed);
    if asked.first() == Some(&0) {
        (FIELDS[0].take)(&mut row, &Value::new(first, None));
    }
    Some(row)
}

/// A GPU that did not even give a handle: its number, its address, and why.
///
/// `Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error`, where the number or
/// the address may be left out.
fn unreachable(line: &str) -> Option<(Option<u32>, Option<String>, Missing)> {
    let (_, rest) = line.split_once("device handle for GPU")?;
    let (mut index, mut bus, mut reason) = (None, None, Missing::Failed);
    for part in rest.split(": ").map(str::trim) {
        let lower = part.to_ascii_lowercase();
        if let Ok(number) = part.parse::<u32>() {
            index = Some(number).filter(|n| *n < MAX_GPUS);
        } else if part.contains(':') && part.contains('.') {
            bus = Some(label(part));
        } else if lower.contains("is lost") || lower.contains("reset") {
            reason = Missing::Lost;
        } else if missing(part) == Some(Missing::Denied) {
            reason = Missing::Denied;
        }
    }
    Some((index, bus, reason))
}

/// Why a run was of no use, from what it printed besides rows and from its exit code.
pub(super) fn verdict<'a>(code: Option<i32>, lines: impl Iterator<Item = &'a str>) -> Problem {
    const PHRASES: [(&str, Missing); 9] = [
        ("communicate with the nvidia driver", Missing::NoDriver),
        ("driver/library version mismatch", Missing::NoDriver),
        ("driver not loaded", Missing::NoDriver),
        ("couldn't find libnvidia-ml", Missing::NoLibrary),
        ("insufficient permissions", Missing::Denied),
        ("no devices were found", Missing::NotPresent),
        ("no devices found", Missing::NotPresent),
        ("gpu is lost", Missing::Lost),
        ("not a valid field", Missing::NoSymbol),
    ];
    let mut first = None;
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let lower = line.to_ascii_lowercase();
        if let Some((_, reason)) = PHRASES.iter().find(|(phrase, _)| lower.contains(phrase)) {
            return (label(line), *reason);
        }
        first = first.or(Some(line));
    }
    // The codes are those of NVML, as nvidia-smi's manual lists them.
    let reason = match code {
        Some(3) => Missing::Unsupported,
        Some(4) => Missing::Denied,
        Some(6) => Missing::NotPresent,
        Some(9 | 18) => Missing::NoDriver,
        Some(12) => Missing::NoLibrary,
        Some(13) => Missing::NoSymbol,
        Some(15) => Missing::Lost,
        Some(0) => Missing::Malformed,
        _ => Missing::Failed,
    };
    let end = match code {
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_owned(),
    };
    (first.map_or(end.clone(), |line| format!("{} ({end})", label(line))), reason)
}

/// The compute processes of all GPUs, by the GPU's identity.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Processes<'a> {
    pub(super) rows: Vec<(&'a str, ProcessRow)>,
    /// Why there is no list at all.
    pub(super) refused: Option<Missing>,
    pub(super) problem: Option<Problem>,
}

/// Reads rows of `gpu_uuid, pid, process_name, used_gpu_memory`.
pub(super) fn processes(stdout: &str) -> Processes<'_> {
    let mut found = Processes::default();
    for line in stdout.split_inclusive('\n') {
        match process(line) {
            Ok(Some(row)) => found.rows.push(row),
            Ok(None) => {}
            Err(Missing::Malformed) => {
                let what = format!("a process that cannot be: {}", shown(line));
                found.problem.get_or_insert((what, Missing::Malformed));
            }
            Err(reason) => found.refused = Some(reason),
        }
    }
    found
}

/// One row; none where the line names no process; a reason where it stands for the whole list.
fn process(line: &str) -> Reading<Option<(&str, ProcessRow)>> {
    let whole = line.ends_with('\n');
    let line = line.trim();
    let Some((uuid, rest)) = line.split_once(',') else {
        // "No running processes found", a warning, or why there is no list.
        return missing(line).map_or(Ok(None), Err);
    };
    let (pid, rest) = rest.split_once(',').ok_or(Missing::Malformed)?;
    // The name may hold commas, so the amount is what stands behind the last one.
    let (_, amount) = rest.rsplit_once(',').ok_or(Missing::Malformed)?;
    if uuid.trim() == "gpu_uuid" || missing(pid).is_some() {
        return Ok(None);
    }
    let pid = pid.trim().parse().map_err(|_| Missing::Malformed)?;
    if !whole {
        return Err(Missing::Malformed);
    }
    let bytes = match Value::new(amount, None).mib() {
        Ok(bytes) => Some(bytes.0),
        Err(Missing::Malformed) => return Err(Missing::Malformed),
        Err(_) => None,
    };
    Ok(Some((uuid.trim(), (pid, bytes))))
}

//! The lines of a table: headers, rows, and what stands between them.

use super::columns::{self, Columns};
use super::times::{self, Times};
use super::{Fault, SampleOptions};
use crate::model::samples::{SampleOrigin, SamplePoint, SampleRemark, SampleSeries};
use crate::sources::lines::{label, shown};
use std::collections::BTreeSet;

/// More samples than this are not held: 23 days of one a second.
const MAX_POINTS: usize = 2_000_000;
/// More GPUs than this are in no machine.
const MAX_GPUS: usize = 64;
/// How the tables of `nvidia-smi dmon` and `pmon` begin. They have no date, or one in two columns, and whole
/// watts.
const DMON: [&str; 3] = ["gpu", "date", "time"];
const NO_DMON: &str = "expected nvidia-smi --query-gpu=timestamp,temperature.gpu,power.draw --format=csv \
                       -l 5, found a table of nvidia-smi dmon or pmon";
const NO_HEADER: &str = "expected a header with a column timestamp, or rows of three cells: time, \
                         temperature, power";

/// Reads the lines of a file one after the other.
pub(super) struct Rows<'a> {
    options: &'a SampleOptions,
    columns: Option<Columns>,
    origin: Option<SampleOrigin>,
    times: Times,
    points: Vec<SamplePoint>,
    /// The GPUs that rows are of, in the order in which they appear.
    gpus: Vec<String>,
    /// The GPUs that our own columns are of.
    members: BTreeSet<u32>,
    left_out: u64,
    /// The first line that was left out, and what it should have been.
    first_left_out: Option<Fault>,
    half: Option<u64>,
}

/// The cells of a line. A quoted one may hold a comma, and a quotation mark written twice.
fn cells(line: &str) -> Vec<String> {
    let mut within = false;
    let at_comma = |c: char| {
        within ^= c == '"';
        c == ',' && !within
    };
    let bare = |cell: &str| {
        let cell = cell.trim();
        let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
        inner.map_or_else(|| cell.to_owned(), |inner| inner.replace("\"\"", "\""))
    };
    line.split(at_comma).map(bare).collect()
}

fn of_dmon(line: &str) -> bool {
    let comment = line.strip_prefix('#').map(|rest| rest.trim_start().to_ascii_lowercase());
    let first = comment.as_deref().and_then(|c| c.split([' ', ',']).next());
    first.is_some_and(|first| DMON.contains(&first))
}

impl<'a> Rows<'a> {
    pub(super) fn new(options: &'a SampleOptions) -> Self {
        Self {
            options,
            columns: None,
            origin: None,
            times: Times::new(&options.zone),
            points: Vec::new(),
            gpus: Vec::new(),
            members: BTreeSet::new(),
            left_out: 0,
            first_left_out: None,
            half: None,
        }
    }

    /// One line, with its end if it has one.
    pub(super) fn line(&mut self, number: u64, line: &str) -> Result<(), Fault> {
        let ended = line.ends_with('\n');
        // A byte order mark, and the zeros that a power cut leaves in a file.
        let line = line.trim_start_matches(['\u{feff}', '\0']).trim();
        if of_dmon(line) {
            return Err((number, NO_DMON.to_owned()));
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if !ended {
            self.half = Some(number);
            return Ok(());
        }
        let cells = cells(line);
        if columns::is_header(&cells) {
            return self.header(line, &cells).map_err(|what| (number, what));
        }
        if self.columns.is_none() && cells.len() == 3 && times::is_time(&cells[0]) {
            self.columns = Some(Columns::usual());
        }
        let Some(columns) = &self.columns else {
            let fault = (number, format!("{NO_HEADER}; found {}", shown(line)));
            // A warning of nvidia-smi may stand before everything.
            if cells.len() == 1 {
                self.leave_out(fault);
                return Ok(());
            }
            return Err(fault);
        };
        let (expected, found) = (columns.count, cells.len());
        if expected == found {
            return self.row(number, &cells);
        }
        let fault =
            (number, format!("expected {expected} columns, found {found}: {}", shown(line)));
        if found > expected {
            return Err(fault);
        }
        // Whoever was killed in the middle of a line left half of it, and messages stand alone.
        self.leave_out(fault);
        Ok(())
    }

    fn leave_out(&mut self, fault: Fault) {
        self.left_out += 1;
        self.first_left_out.get_or_insert(fault);
    }

    /// A header. Another one may follow in mid-file, after a rotation or an append, with other columns.
    fn header(&mut self, line: &str, titles: &[String]) -> Result<(), String> {
        let columns = Columns::header(titles, self.options.gpu)?;
        let origin = columns::origin(line, &columns);
        // One header of ours tells that the file is.
        if self.origin != Some(SampleOrigin::Sample) {
            self.origin = Some(origin);
        }
        self.members.extend(&columns.members);
        self.columns = Some(columns);
        Ok(())
    }

    fn row(&mut self, number: u64, cells: &[String]) -> Result<(), Fault> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let mine = match columns.identity {
            Some((place, indexed)) => is_mine(&mut self.gpus, self.options, &cells[place], indexed),
            None => true,
        };
        if !mine {
            return Ok(());
        }
        if self.points.len() == MAX_POINTS {
            return Err((number, format!("expected at most {MAX_POINTS} samples")));
        }
        let wall = self.times.take(number, &cells[columns.time])?;
        let mut point = SamplePoint::at(wall);
        match columns.fill(cells, &mut point) {
            Ok(()) => self.points.push(point),
            Err(Some(what)) => return Err((number, what)),
            Err(None) => self.leave_out((number, "expected a whole line".to_owned())),
        }
        Ok(())
    }

    /// The file ends after this many lines.
    pub(super) fn end(mut self, lines: u64) -> Result<SampleSeries, Fault> {
        // More pieces than samples: that is another format, not an accident.
        if usize::try_from(self.left_out).unwrap_or(usize::MAX) > self.points.len()
            && let Some(fault) = self.first_left_out
        {
            return Err(fault);
        }
        if self.points.is_empty() {
            let what = match (&self.columns, self.options.gpu, self.gpus.len()) {
                (None, ..) => NO_HEADER.to_owned(),
                (Some(_), Some(gpu), 1..) => {
                    format!("expected rows of GPU {gpu}, found those of {}", self.gpus.join(", "))
                }
                _ => "expected rows below the header".to_owned(),
            };
            return Err((lines.max(1), what));
        }
        let mut remarks = Vec::new();
        self.times.end(&mut self.points, &mut remarks);
        let several = self.gpus.len().max(self.members.len());
        match (self.options.gpu, several) {
            (Some(_), 0) => remarks.push(SampleRemark::GpuNotTold),
            (None, 2..) => {
                let own = self.members.first().map(ToString::to_string);
                let taken = self.gpus.into_iter().next().or(own).unwrap_or_default();
                remarks.push(SampleRemark::SeveralGpus { count: several, taken });
            }
            _ => {}
        }
        if let Some((first, _)) = self.first_left_out {
            remarks.push(SampleRemark::LeftOut { lines: self.left_out, first });
        }
        remarks.extend(self.half.map(SampleRemark::HalfLastLine));
        let origin = self.origin.unwrap_or(SampleOrigin::NvidiaSmi);
        Ok(SampleSeries { points: self.points, origin, remarks })
    }
}

/// Whether a row is of the GPU that is wanted. nvidia-smi lists GPUs by their index, so where it does not
/// tell that, the order in which they appear does.
fn is_mine(gpus: &mut Vec<String>, options: &SampleOptions, name: &str, indexed: bool) -> bool {
    // A lost GPU has no name any more, which does not make it one more GPU.
    if columns::absent(name).is_some() {
        return false;
    }
    let name = label(name);
    let place = gpus.iter().position(|known| *known == name).unwrap_or_else(|| {
        if gpus.len() < MAX_GPUS {
            gpus.push(name.clone());
        }
        gpus.len() - 1
    });
    match options.gpu {
        Some(gpu) if indexed => name.parse() == Ok(gpu),
        Some(gpu) => u32::try_from(place) == Ok(gpu),
        None => place == 0,
    }
}

//! Samples of temperature, power and more that something has noted beside a training run: files of our
//! own `sample`, tables of `nvidia-smi --format=csv`, and answers of a Prometheus.
//!
//! A file is read line by line and never held as a whole. Text in, points out; only [`load`] opens
//! something.

mod columns;
pub mod history;
mod rows;
mod times;

use crate::model::samples::SampleSeries;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The largest file that is read: years of samples every 30 seconds, months of every second.
const MAX_FILE: u64 = 256 * 1024 * 1024;
/// The longest line. A header of all readings has some ten KiB.
const MAX_LINE: usize = 64 * 1024;

/// What a file does not say itself.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// The zone of times that have none.
    pub zone: TimeZone,
    /// Which GPU, by the driver's index. Without it the first one.
    pub gpu: Option<u32>,
}

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The file cannot be read.
    #[error("{file} cannot be read")]
    Read {
        /// Its name.
        file: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is not what it should be.
    #[error("{file}:{line}: {what}")]
    Line {
        /// Its name.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What was expected, and what is there.
        what: String,
    },
}

/// A line that is not as it should be: its number, and what was expected.
type Fault = (u64, String);

/// Reads a file.
///
/// # Errors
/// It cannot be read, or a line is no sample.
pub fn load(path: &Path, options: &SampleOptions) -> Result<SampleSeries, SampleError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(input) => read(&file, BufReader::new(input), options),
        Err(error) => Err(SampleError::Read { file, error }),
    }
}

/// Reads what is at hand. `file` is what errors call it.
///
/// # Errors
/// As [`load`].
pub fn read(
    file: &str,
    mut input: impl BufRead,
    options: &SampleOptions,
) -> Result<SampleSeries, SampleError> {
    let fault = |(line, what)| SampleError::Line { file: file.to_owned(), line, what };
    let mut rows = rows::Rows::new(options);
    let mut bytes = Vec::new();
    let (mut line, mut total) = (0_u64, 0_u64);
    loop {
        bytes.clear();
        let limit = MAX_LINE as u64 + 1;
        let length = (&mut input)
            .take(limit)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| SampleError::Read { file: file.to_owned(), error })?;
        if length == 0 {
            return rows.end(line).map_err(fault);
        }
        line += 1;
        total += length as u64;
        if length > MAX_LINE {
            let what = format!("expected lines of at most {} KiB", MAX_LINE / 1024);
            return Err(fault((line, what)));
        }
        if total > MAX_FILE {
            let what = format!("expected at most {} MiB in all", MAX_FILE / (1024 * 1024));
            return Err(fault((line, what)));
        }
        // What is no text may stand in a message or in a name; in a figure it is found out there.
        rows.line(line, &String::from_utf8_lossy(&bytes)).map_err(fault)?;
    }
}

#[cfg(test)]
mod tests;

//! The GPU section of the capture that `FAKE_GPU_CAPTURE` names, as both fakes answer from it.
//! The format is that of docs/CAPTURES.md, read by the exporter's own parser.

use gb10_exporter::capture::Capture;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What NVML returns; 0 is success.
pub(crate) type Code = u32;

pub(crate) const NOT_SUPPORTED: Code = 3;
pub(crate) const DRIVER_NOT_LOADED: Code = 9;
pub(crate) const UNKNOWN: Code = 999;

/// The answers at one moment. None at all: no driver.
#[derive(Debug, Default)]
pub(crate) struct State {
    answers: BTreeMap<String, String>,
}

/// The capture's path.
pub(crate) fn path() -> PathBuf {
    std::env::var_os("FAKE_GPU_CAPTURE").map(PathBuf::from).unwrap_or_default()
}

/// A value, taken apart: how long the call takes, and what it gives.
fn answer(value: &str) -> (Duration, Result<&str, Code>) {
    let (wait, value) = match value.strip_prefix('~') {
        Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
        None => ("0", value),
    };
    let wait = Duration::from_millis(wait.parse().unwrap_or(0));
    let value = value.trim();
    match value.strip_prefix('!') {
        Some(code) => (wait, Err(code.parse().unwrap_or(UNKNOWN))),
        None => (wait, Ok(value)),
    }
}

impl State {
    /// Reads the capture. One that cannot be read is a machine without a driver, and says so.
    pub(crate) fn load(path: &Path) -> Self {
        match Capture::load(path) {
            Ok(capture) => Self { answers: capture.gpu.into_iter().collect() },
            Err(error) => {
                eprintln!("fake: {error}");
                Self::default()
            }
        }
    }

    /// What stands in the capture.
    pub(crate) fn raw(&self, key: &str) -> Option<&str> {
        self.answers.get(key).map(String::as_str)
    }

    /// The answer, at once.
    pub(crate) fn peek(&self, key: &str) -> Result<&str, Code> {
        self.raw(key).map_or(Err(NOT_SUPPORTED), |value| answer(value).1)
    }

    /// The answer, after the time that the call takes.
    pub(crate) fn get(&self, key: &str) -> Result<&str, Code> {
        let (wait, result) = answer(self.raw(key).ok_or(NOT_SUPPORTED)?);
        std::thread::sleep(wait);
        result
    }

    /// An answer that is a number, decimal or `0x`.
    pub(crate) fn number<T: TryFrom<i64>>(&self, key: &str) -> Result<T, Code> {
        number(self.get(key)?)
    }

    /// A question that succeeds unless the capture says otherwise: `init` and `N.device`.
    pub(crate) fn succeeds(&self, key: &str, wait: bool) -> Result<(), Code> {
        if self.answers.is_empty() {
            return Err(DRIVER_NOT_LOADED);
        }
        let Some(value) = self.raw(key) else { return Ok(()) };
        if wait { self.get(key).map(drop) } else { answer(value).1.map(drop) }
    }

    /// Whether the driver is at least this one, by `driver`.
    pub(crate) fn driver_is_at_least(&self, major: u32, minor: u32) -> bool {
        let Ok(driver) = self.peek("driver") else { return true };
        let mut parts = driver.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
    }

    /// `TOTAL,FREE,USED` of a GPU.
    pub(crate) fn memory(&self, gpu: u32) -> Result<[u64; 3], Code> {
        let list: Result<Vec<u64>, Code> =
            self.get(&format!("{gpu}.memory"))?.split(',').map(number).collect();
        list?.try_into().map_err(|_| UNKNOWN)
    }

    /// `PID:BYTES,...` of a GPU; a row without a figure has none.
    pub(crate) fn processes(&self, gpu: u32, kind: &str) -> Result<Vec<(u32, Option<u64>)>, Code> {
        let list = self.get(&format!("{gpu}.processes.{kind}"))?;
        list.split(',')
            .filter(|row| !row.trim().is_empty())
            .map(|row| {
                let (pid, bytes) = row.split_once(':').ok_or(UNKNOWN)?;
                let bytes = if bytes.trim() == "NA" { None } else { Some(number(bytes)?) };
                Ok((number(pid)?, bytes))
            })
            .collect()
    }
}

/// A number, decimal or `0x`. Something else in the capture is an unknown error.
pub(crate) fn number<T: TryFrom<i64>>(text: &str) -> Result<T, Code> {
    let text = text.trim();
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    T::try_from(value.map_err(|_| UNKNOWN)?).map_err(|_| UNKNOWN)
}

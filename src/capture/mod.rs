//! A machine at one instant, as text that anybody can read, write and replay.
//!
//! The format is described for people in docs/CAPTURES.md. A capture serves the sources' own readers
//! ([`Files`]), so a recorded machine goes through exactly the code that a live one does.

pub mod kernel;
pub mod mask;
mod processes;
pub mod scenario;
pub mod write;

use crate::model::fields::Group;
use crate::model::gpu::Gpus;
use crate::model::kernel_log::{KernelLog, LogPlace};
use crate::model::reading::Missing;
use crate::model::workload::Processes;
use crate::sources::kernel_log::{self, Tally};
use crate::sources::{FileError, Files, Machine, ReadError, gpu};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The first line of every capture.
const MAGIC: &str = "# gb10-exporter capture 1";
/// Opens a section.
const SECTION: &str = "==> ";
/// A capture is some tens of kilobytes; this is a mistake.
pub const MAX_SIZE: u64 = 4 * 1024 * 1024;

states! {
    /// How far a capture may be trusted.
    Kind {
        /// Read from a running machine.
        Raw = "raw",
        /// Put together around published figures.
        Reconstructed = "reconstructed",
        /// Made up.
        Invented = "invented",
    }
}

impl Kind {
    /// By its name.
    fn named(name: &str) -> Result<Self, String> {
        let kind = Self::ALL.iter().copied().find(|kind| kind.as_str() == name);
        kind.ok_or_else(|| format!("expected kind raw, reconstructed or invented, found {name:?}"))
    }
}

/// One recorded file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Section {
    Text(String),
    Error(FileError),
}

/// A recorded machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// How far to trust it.
    pub kind: Kind,
    /// What it is, in a line.
    pub title: String,
    /// Where its deciding figures come from.
    pub source: String,
    /// Remarks.
    pub notes: Vec<String>,
    /// GPU readings, `key = value`, in order.
    pub gpu: Vec<(String, String)>,
    /// The processes, if they were recorded.
    processes: Option<Processes>,
    /// Facts of the kernel's log, where it was read.
    kernel: Option<Vec<kernel::Fact>>,
    files: BTreeMap<String, Section>,
}

/// Why a capture cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be read.
    #[error("{path} cannot be read", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// It is not text, or far too large.
    #[error("{path} is not a capture: {1}", path = .0.display())]
    Unlike(PathBuf, &'static str),
    /// A line makes no sense.
    #[error("{path}:{line}: {what}", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What was expected there.
        what: String,
    },
}

impl Capture {
    /// Loads a capture.
    pub fn load(path: &Path) -> Result<Self, CaptureError> {
        let text = read(path)?;
        Self::parse(&text).map_err(|(line, what)| CaptureError::Line {
            path: path.to_owned(),
            line,
            what,
        })
    }

    /// Parses a capture; an error is a line number from 1 and what was expected there.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line)).peekable();
        if lines.next().map(|(_, line)| line.trim_end()) != Some(MAGIC) {
            return Err((1, format!("expected the first line to be {MAGIC:?}")));
        }
        let mut header = Header::default();
        while let Some((number, line)) = lines.next_if(|(_, line)| !line.starts_with(SECTION)) {
            header.line(line).map_err(|what| (number, what))?;
        }
        let mut capture = header.finish().map_err(|what| (1, what))?;
        while let Some((number, line)) = lines.next() {
            let mut body = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with(SECTION)) {
                body.push(line);
            }
            // One blank line before the next section is for the eye.
            if body.last() == Some(&"") {
                body.pop();
            }
            capture.section(number, line[SECTION.len()..].trim(), &body)?;
        }
        Ok(capture)
    }

    fn section(
        &mut self,
        number: usize,
        title: &str,
        body: &[&str],
    ) -> Result<(), (usize, String)> {
        if title == "gpu" {
            return self.gpu_section(number, body);
        }
        if title == processes::TITLE {
            let offset = |(line, what)| (number + 1 + line, what);
            let told = processes::parse(body).map_err(offset)?;
            return match self.processes.replace(told) {
                Some(_) => Err((number, "processes are there twice".to_owned())),
                None => Ok(()),
            };
        }
        if title == kernel::SECTION {
            let facts = kernel::section(number, body)?;
            if self.kernel.replace(facts).is_some() {
                return Err((number, format!("{title} is there twice")));
            }
            return Ok(());
        }
        let (path, mark) = match title.split_once(" !") {
            Some((path, mark)) => (path.trim_end(), Some(mark.trim())),
            None => (title, None),
        };
        if !["/proc/", "/sys/", "/etc/"].iter().any(|root| path.starts_with(root))
            || path.contains("/../")
        {
            return Err((
                number,
                format!(
                    "expected a path below /proc, /sys or /etc, gpu, processes or kernel_log; found {path:?}"
                ),
            ));
        }
        let section = match mark {
            None => Section::Text(body.iter().flat_map(|line| [line, "\n"]).collect()),
            Some("not_present") => Section::Error(FileError::NotPresent),
            Some("denied") => Section::Error(FileError::Denied),
            Some("too_large") => Section::Error(FileError::TooLarge),
            Some("not_text") => Section::Error(FileError::NotText),
            Some(other) => {
                let (word, why) = other.split_once(' ').unwrap_or((other, ""));
                if word != "failed" {
                    let expected =
                        "expected !not_present, !denied, !failed, !too_large or !not_text";
                    return Err((number, format!("{expected}, found !{other}")));
                }
                Section::Error(FileError::Failed(why.trim().to_owned()))
            }
        };
        if mark.is_some() && body.iter().any(|line| !line.is_empty()) {
            return Err((number + 1, format!("{path} is marked as unreadable and has content")));
        }
        if self.files.insert(path.to_owned(), section).is_some() {
            return Err((number, format!("{path} is there twice")));
        }
        Ok(())
    }

    fn gpu_section(&mut self, number: usize, body: &[&str]) -> Result<(), (usize, String)> {
        for (i, line) in body.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (key, value) = line.split_once('=').ok_or_else(|| {
                (number + 1 + i, format!("expected \"key = value\", found {line:?}"))
            })?;
            let (key, value) = (key.trim(), value.trim());
            gpu::recorded::check(key, value).map_err(|what| (number + 1 + i, what))?;
            if self.gpu.iter().any(|(known, _)| known == key) {
                return Err((number + 1 + i, format!("{key} is there twice")));
            }
            self.gpu.push((key.to_owned(), value.to_owned()));
        }
        self.check_gpus().map_err(|what| (number, what))
    }

    /// Every GPU that has keys is among those that are counted.
    fn check_gpus(&self) -> Result<(), String> {
        let count = self.gpu.iter().find(|(key, _)| key == "count");
        let count = count.and_then(|(_, value)| value.parse::<u32>().ok());
        for (key, _) in &self.gpu {
            let index = key.split_once('.').and_then(|(index, _)| index.parse::<u32>().ok());
            match (index, count) {
                (Some(index), Some(count @ 1..)) if index >= count => {
                    return Err(format!(
                        "{key}: count is {count}, so the last GPU is {}",
                        count - 1
                    ));
                }
                (Some(_), None)
                    if !self.gpu.iter().any(|(key, _)| key == "count" || key == "init") =>
                {
                    return Err(format!("{key} is there and count, the number of GPUs, is not"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Paths of the recorded files, and whether each can be read.
    pub fn paths(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.files.iter().map(|(path, section)| match section {
            Section::Text(text) => (path.as_str(), Some(text.as_str())),
            Section::Error(_) => (path.as_str(), None),
        })
    }
}

/// The text of a file, if it can be one of ours.
fn read(path: &Path) -> Result<String, CaptureError> {
    let failed = |e| CaptureError::Read(path.to_owned(), e);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(CaptureError::Unlike(path.to_owned(), "it is larger than 4 MiB"));
    }
    String::from_utf8(bytes)
        .map_err(|_| CaptureError::Unlike(path.to_owned(), "it is not UTF-8 text"))
}

/// An error and its cause in one line.
fn chain(error: &CaptureError) -> String {
    let cause = std::error::Error::source(error).map(|c| format!(": {c}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// The header's lines as they come.
#[derive(Default)]
struct Header {
    kind: Option<Kind>,
    title: Option<String>,
    source: Option<String>,
    notes: Vec<String>,
}

impl Header {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let (key, value) =
            line.strip_prefix('#').and_then(|rest| rest.split_once(':')).ok_or_else(|| {
                format!("expected \"# key: value\" or \"{SECTION}PATH\", found {line:?}")
            })?;
        let value = value.trim().to_owned();
        match key.trim() {
            "kind" => self.kind = Some(Kind::named(&value)?),
            "title" => self.title = Some(value),
            "source" => self.source = Some(value),
            "note" => self.notes.push(value),
            other => return Err(format!("expected kind, title, source or note, found {other:?}")),
        }
        Ok(())
    }

    fn finish(self) -> Result<Capture, String> {
        let lacks = |key: &str| format!("the header lacks \"# {key}: ...\"");
        Ok(Capture {
            kind: self.kind.ok_or_else(|| lacks("kind"))?,
            title: self.title.ok_or_else(|| lacks("title"))?,
            source: self.source.ok_or_else(|| lacks("source"))?,
            notes: self.notes,
            gpu: Vec::new(),
            processes: None,
            kernel: None,
            files: BTreeMap::new(),
        })
    }
}

impl Machine for Capture {
    fn gpu(&self, pace: &gpu::Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
        gpu::recorded::read(&self.gpu, pace, into)
    }

    fn note_gpu(
        &self,
        pace: &gpu::Pace<'_>,
        into: &mut Gpus,
        notes: &gpu::Notes,
    ) -> Result<(), ReadError> {
        notes.take_pairs(&self.gpu);
        self.gpu(pace, into)
    }

    fn processes(&self, into: &mut Processes) -> Result<(), ReadError> {
        let Some(told) = &self.processes else {
            *into = Processes::absent(Missing::NotPresent);
            return Err(FileError::NotPresent.at(processes::PATH));
        };
        into.clone_from(told);
        match &into.list {
            Ok(_) => Ok(()),
            Err(reason) => Err(ReadError::unlike(processes::PATH, *reason)),
        }
    }

    fn kernel_log(&self, into: &mut KernelLog) -> Result<(), ReadError> {
        match self.tally(LogPlace::Capture) {
            Some(mut tally) => *into = Ok(tally.told()),
            None => return kernel_log::none(into),
        }
        Ok(())
    }
}

impl Capture {
    /// The kernel's log, as far as it was recorded.
    fn tally(&self, place: LogPlace) -> Option<Tally> {
        let facts = self.kernel.as_ref()?;
        let mut tally = Tally::new(place);
        for fact in facts {
            fact.tell(&mut tally);
        }
        Some(tally)
    }
}

impl Files for Capture {
    fn text(&self, path: &str) -> Result<String, FileError> {
        match self.files.get(path) {
            Some(Section::Text(text)) => Ok(text.clone()),
            Some(Section::Error(error)) => Err(error.clone()),
            None => Err(FileError::NotPresent),
        }
    }

    fn names(&self, path: &str) -> Result<Vec<String>, FileError> {
        if let Some(Section::Error(error)) = self.files.get(path) {
            return Err(error.clone());
        }
        let below = format!("{path}/");
        let names: BTreeSet<&str> = self
            .files
            .range(below.clone()..)
            .take_while(|(file, _)| file.starts_with(&below))
            // Said not to be there for emphasis: the same as leaving it out.
            .filter(|(_, section)| **section != Section::Error(FileError::NotPresent))
            .filter_map(|(file, _)| file[below.len()..].split('/').next())
            .collect();
        if names.is_empty() {
            return Err(FileError::NotPresent);
        }
        Ok(names.into_iter().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests;

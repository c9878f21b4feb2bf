//! A recording as a capture, and a capture as text.

use super::mask::Mask;
use super::{Capture, Kind, MAGIC, SECTION, Section, kernel, processes};
use crate::model::kernel_log::KernelLog;
use crate::model::workload::Processes;
use crate::sources::FileError;
use crate::sources::lines::label;
use crate::sources::proc::nvidia;
use crate::sources::recorder::Outcomes;
use std::collections::BTreeMap;

/// What was read of a machine.
pub struct Recording {
    /// Its files.
    pub files: Outcomes,
    /// The GPU section.
    pub gpu: Vec<(String, String)>,
    /// The processes.
    pub processes: Option<Processes>,
    /// The kernel's log.
    pub kernel_log: KernelLog,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Recording {
    /// As a capture, masked.
    #[must_use]
    pub fn into_capture(self, source: &str, mask: &mut Mask) -> Capture {
        // First of all, so that the first GPU is always number 1.
        let masked = |(key, value): (String, String)| {
            let value = mask.gpu(&key, &value);
            (key, value)
        };
        let gpu: Vec<_> = self.gpu.into_iter().map(masked).collect();
        let mut notes: Vec<String> = self.notes.iter().map(|note| mask.line(note)).collect();
        let mut files = BTreeMap::new();
        for (path, outcome) in self.files {
            let section = match outcome {
                None => {
                    Section::Error(FileError::Failed("did not answer when recorded".to_owned()))
                }
                // Leaving it out says the same.
                Some(Err(FileError::NotPresent)) => continue,
                Some(Err(FileError::Failed(why))) => {
                    Section::Error(FileError::Failed(label(&mask.line(&why))))
                }
                Some(Err(error)) => Section::Error(error),
                Some(Ok(text)) => {
                    let masked = mask.file(&path, &text);
                    let held = as_held(&masked);
                    if held != masked {
                        notes.push(format!("{path}: line ends were put right"));
                    }
                    Section::Text(held)
                }
            };
            files.insert(path, section);
        }
        let title = title(&files, &gpu);
        let processes = self.processes.map(|processes| mask.processes(processes));
        let kernel = self.kernel_log.ok().map(|log| kernel::Diary::default().take(&log));
        let source = source.to_owned();
        Capture { kind: Kind::Raw, title, source, notes, gpu, processes, kernel, files }
    }
}

/// A text as the format can hold it: whole lines, none of which opens a section.
fn as_held(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix(SECTION) {
        Some(_) => format!(" {line}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Product, kernel, driver.
fn title(files: &BTreeMap<String, Section>, gpu: &[(String, String)]) -> String {
    let word = |path: &str| match files.get(path) {
        Some(Section::Text(text)) if !text.trim().is_empty() => Some(label(text)),
        _ => None,
    };
    let product = word("/sys/class/dmi/id/product_name");
    let kernel = word("/proc/sys/kernel/osrelease");
    let said = gpu.iter().find(|(key, value)| key == "driver" && !value.starts_with(['!', '~']));
    let driver = said.map(|(_, version)| version.clone()).or_else(|| {
        match files.get("/proc/driver/nvidia/version") {
            Some(Section::Text(text)) => nvidia::parse_version(text).ok(),
            _ => None,
        }
    });
    format!(
        "{}, kernel {}, {}",
        product.as_deref().unwrap_or("a machine without a product name"),
        kernel.as_deref().unwrap_or("unknown"),
        driver.map_or_else(|| "no NVIDIA driver".to_owned(), |driver| format!("driver {driver}"))
    )
}

impl Capture {
    /// The capture as text, which [`Capture::parse`] reads back.
    #[must_use]
    pub fn to_text(&self) -> String {
        let head = [
            format!("{MAGIC}\n# kind: {}\n", self.kind.as_str()),
            format!("# title: {}\n# source: {}\n", self.title, self.source),
        ];
        let notes = self.notes.iter().map(|note| format!("# note: {note}\n"));
        let files = self.files.iter().map(|(path, section)| match section {
            Section::Text(text) => format!("\n{SECTION}{path}\n{text}"),
            Section::Error(error) => format!("\n{SECTION}{path} {}\n", mark(error)),
        });
        let open = (!self.gpu.is_empty()).then(|| format!("\n{SECTION}gpu\n"));
        let gpu = self.gpu.iter().map(|(key, value)| format!("{key} = {value}\n"));
        let processes = self
            .processes
            .as_ref()
            .map(|told| format!("\n{SECTION}{}\n{}", processes::TITLE, processes::lines(told)));
        let log = self.kernel.iter().flat_map(|facts| {
            let title = format!("\n{SECTION}{}\n", kernel::SECTION);
            [title].into_iter().chain(facts.iter().map(kernel::Fact::line))
        });
        let parts = head.into_iter().chain(notes).chain(files).chain(open).chain(gpu);
        let parts = parts.chain(processes).chain(log);
        // The last section ends like the others, so that an empty line of its own stays its own.
        parts.chain(["\n".to_owned()]).collect()
    }
}

/// How the format says that a file could not be read.
fn mark(error: &FileError) -> String {
    match error {
        FileError::NotPresent => "!not_present".to_owned(),
        FileError::Denied => "!denied".to_owned(),
        FileError::TooLarge => "!too_large".to_owned(),
        FileError::NotText => "!not_text".to_owned(),
        FileError::Failed(why) => format!("!failed {why}").trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests;

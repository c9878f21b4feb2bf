//! A model's own files: its shape and the size of its weights, from config.json, safetensors or GGUF.
//!
//! Only headers are read. Whatever a file claims, time and memory stay bounded: a length is held against
//! what the file has left before anything is read or set aside for it.

pub mod config;
pub mod gguf;
pub mod safetensors;
#[cfg(test)]
mod tests;

use crate::model::shape::ModelFiles;
use crate::units::Bytes;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest config.json. Real ones have some KiB; with the names of labels a few hundred.
const MAX_CONFIG: u64 = 1024 * 1024;
/// Largest index. One of 100,000 tensors has about 10 MiB.
const MAX_INDEX: u64 = 32 * 1024 * 1024;
/// Largest number of parts of a GGUF.
const MAX_PARTS: u64 = 1000;

/// More than the weights of any model.
const MAX_WEIGHTS: u64 = 1_000_000_000_000_000;

/// What comes from a file or a path, for a person: short, and nothing in it that a terminal obeys.
fn plain(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// A path of a message.
fn place(path: &Path) -> String {
    plain(&path.to_string_lossy(), 1024)
}

/// Why a model's files tell nothing.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Not a path.
    #[error("{} is a remote address: download the model and give its directory or its file", plain(.0, 1024))]
    Remote(String),
    /// The system said so.
    #[error("{} cannot be read", place(.0))]
    Read(PathBuf, #[source] io::Error),
    /// Neither a file nor a directory.
    #[error("{} is neither a file nor a directory", place(.0))]
    Special(PathBuf),
    /// A file that is no model, or a broken one.
    #[error("{}: {what}", place(.path))]
    Unlike {
        /// Which.
        path: PathBuf,
        /// What was expected, and what was found.
        what: String,
    },
}

impl ModelError {
    fn unlike(path: &Path, what: impl Into<String>) -> Self {
        Self::Unlike { path: path.to_owned(), what: what.into() }
    }
}

/// Reads a model: its directory, its config.json or its GGUF file.
///
/// # Errors
/// What is wrong with which file.
pub fn read(place: &str) -> Result<ModelFiles, ModelError> {
    if place.contains("://") || place.starts_with("hf:") {
        return Err(ModelError::Remote(place.to_owned()));
    }
    let path = Path::new(place);
    let meta = fs::metadata(path).map_err(|e| ModelError::Read(path.to_owned(), e))?;
    if meta.is_dir() {
        return directory(path);
    }
    if !meta.is_file() {
        return Err(ModelError::Special(path.to_owned()));
    }
    match path.extension().and_then(|e| e.to_str()) {
        Some("gguf") => from_gguf(path),
        Some("json") if path.file_name().is_some_and(|name| name == "config.json") => {
            directory(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
        }
        Some("json") => of_config(path),
        Some("safetensors") => Err(ModelError::unlike(
            path,
            "weights alone do not tell the shape: give the directory, with config.json beside them",
        )),
        _ => Err(ModelError::unlike(
            path,
            "expected a directory with config.json, a config.json, or a .gguf file",
        )),
    }
}

/// Opens what must be a plain file: a pipe or a device would be waited for.
fn open(path: &Path) -> Result<(File, u64), ModelError> {
    let failed = |e| ModelError::Read(path.to_owned(), e);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ModelError::unlike(path, "is not a plain file"));
    }
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok((file, length))
}

/// A whole small file.
fn small(path: &Path, most: u64) -> Result<Vec<u8>, ModelError> {
    let (file, length) = open(path)?;
    if length > most {
        let what = format!("has {length} bytes; expected at most {most}");
        return Err(ModelError::unlike(path, what));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(most).read_to_end(&mut bytes).map_err(|e| ModelError::Read(path.to_owned(), e))?;
    Ok(bytes)
}

fn of_config(path: &Path) -> Result<ModelFiles, ModelError> {
    let bytes = small(path, MAX_CONFIG)?;
    config::parse(&bytes).map_err(|what| ModelError::unlike(path, what))
}

fn directory(path: &Path) -> Result<ModelFiles, ModelError> {
    let config = path.join("config.json");
    if !config.exists() {
        return match only_gguf(path)? {
            Some(file) => from_gguf(&file),
            None => Err(ModelError::unlike(
                path,
                "has no config.json; expected a model's directory as Hugging Face lays it out, or one .gguf file",
            )),
        };
    }
    let mut model = of_config(&config)?;
    if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        name.clone_into(&mut model.shape.name);
    }
    let index = path.join("model.safetensors.index.json");
    let single = path.join("model.safetensors");
    if index.exists() {
        of_index(path, &index, &mut model)?;
    } else if single.exists() {
        let (file, length) = open(&single)?;
        let header =
            safetensors::parse(file, length).map_err(|what| ModelError::unlike(&single, what))?;
        model.weights = Some(Bytes(header.bytes));
        model.largest = Some(Bytes(length));
    } else {
        model.notes.push(
            "no safetensors beside config.json: weights are parameters times bytes".to_owned(),
        );
    }
    Ok(model)
}

/// The one GGUF file of a directory, or the first part of it.
fn only_gguf(path: &Path) -> Result<Option<PathBuf>, ModelError> {
    /// A directory of more than this is none of a model.
    const MOST: usize = 10_000;
    let failed = |e| ModelError::Read(path.to_owned(), e);
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)?.take(MOST) {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|e| e == "gguf") {
            found.push(file);
        }
    }
    found.sort();
    let whole = |file: &PathBuf| part_of(file).is_none_or(|(_, part, _)| part == 1);
    found.retain(whole);
    match found.len() {
        0 | 1 => Ok(found.pop()),
        n => Err(ModelError::unlike(path, format!("has {n} models in GGUF: give the file"))),
    }
}

fn of_index(path: &Path, index: &Path, model: &mut ModelFiles) -> Result<(), ModelError> {
    let bytes = small(index, MAX_INDEX)?;
    let told = safetensors::index(&bytes).map_err(|what| ModelError::unlike(index, what))?;
    let mut lengths = Vec::new();
    for name in &told.files {
        match fs::metadata(path.join(name)) {
            Ok(meta) if meta.is_file() => lengths.push(meta.len()),
            _ => {}
        }
    }
    let there = lengths.iter().fold(0_u64, |a, b| a.saturating_add(*b));
    if lengths.len() == told.files.len() && there < told.total {
        let what = format!(
            "tells {} bytes of weights; its {} files have {there}: one is cut short",
            told.total,
            told.files.len()
        );
        return Err(ModelError::unlike(index, what));
    }
    if lengths.len() < told.files.len() {
        model.notes.push(format!(
            "{} of {} files of weights are not there; sizes are those of the index",
            told.files.len() - lengths.len(),
            told.files.len()
        ));
    }
    if !(1..=MAX_WEIGHTS).contains(&told.total) {
        let what =
            format!("metadata.total_size: expected 1 to {MAX_WEIGHTS}, found {}", told.total);
        return Err(ModelError::unlike(index, what));
    }
    model.weights = Some(Bytes(told.total));
    model.largest = lengths.iter().max().map(|bytes| Bytes(*bytes));
    Ok(())
}

/// `NAME-00001-of-00003.gguf` as its name, its part and how many there are.
fn part_of(path: &Path) -> Option<(String, u64, u64)> {
    let stem = path.file_stem()?.to_str()?;
    let (rest, parts) = stem.rsplit_once("-of-")?;
    let (name, part) = rest.rsplit_once('-')?;
    Some((name.to_owned(), part.parse().ok()?, parts.parse().ok()?))
}

fn from_gguf(path: &Path) -> Result<ModelFiles, ModelError> {
    let one = |path: &Path| {
        let (file, length) = open(path)?;
        let header = gguf::parse(io::BufReader::new(file), length);
        Ok((header.map_err(|what| ModelError::unlike(path, what))?, length))
    };
    let (mut header, mut largest) = one(path)?;
    if let Some((name, part, parts)) = part_of(path).filter(|(_, _, parts)| *parts > 1) {
        if part != 1 {
            let what = format!("is part {part} of {parts}: give the first");
            return Err(ModelError::unlike(path, what));
        }
        if parts > MAX_PARTS {
            let what = format!("is of {parts} parts; expected at most {MAX_PARTS}");
            return Err(ModelError::unlike(path, what));
        }
        for part in 2..=parts {
            let next = path.with_file_name(format!("{name}-{part:05}-of-{parts:05}.gguf"));
            let (more, length) = one(&next)?;
            header.add(&more);
            largest = largest.max(length);
        }
    }
    let mut model = header.model().map_err(|what| ModelError::unlike(path, what))?;
    model.largest = Some(Bytes(largest));
    Ok(model)
}

//! The header of a safetensors file, and the index of several.

use super::plain;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;

/// Largest header. The format allows 100 MB; one of 100,000 tensors has about 12 MB.
const MAX_HEADER: u64 = 32 * 1024 * 1024;
/// The length of the header is a number of 8 bytes before it.
const PREFIX: u64 = 8;
/// Most files of one model.
const MAX_FILES: usize = 10_000;

/// So much of a name is told.
const SHOWN: usize = 80;

/// What a header tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of all tensors.
    pub bytes: u64,
    /// How many there are.
    pub tensors: u64,
    /// Where the last one ends.
    end: u64,
}

#[derive(Deserialize, Serialize)]
struct Tensor {
    data_offsets: [u64; 2],
}

/// Adds up tensors as they come, so that no header becomes a tree in memory.
struct Sum;

impl<'de> Visitor<'de> for Sum {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let Tensor { data_offsets: [begin, end] } = map.next_value()?;
            let length = end.checked_sub(begin).ok_or_else(|| {
                de::Error::custom(format!("tensor {:?} ends before it begins", plain(&name, SHOWN)))
            })?;
            header.bytes = header.bytes.checked_add(length).ok_or_else(|| {
                de::Error::custom("its tensors have more bytes than can be counted")
            })?;
            header.end = header.end.max(end);
            header.tensors += 1;
        }
        Ok(header)
    }
}

/// Reads a header. `length` is that of the whole file.
///
/// # Errors
/// What was expected and what was found.
pub fn parse(mut file: impl Read, length: u64) -> Result<Header, String> {
    let mut prefix = [0; 8];
    file.read_exact(&mut prefix)
        .map_err(|_| format!("has {length} bytes; a safetensors file begins with 8 of a length"))?;
    let told = u64::from_le_bytes(prefix);
    let data = length.checked_sub(PREFIX).and_then(|rest| rest.checked_sub(told)).ok_or_else(
        || format!("tells a header of {told} bytes and has {length} in all: it is cut short, or no safetensors file"),
    )?;
    if told > MAX_HEADER {
        return Err(format!("tells a header of {told} bytes; expected at most {MAX_HEADER}"));
    }
    let mut bytes = Vec::new();
    file.take(told).read_to_end(&mut bytes).map_err(|e| format!("cannot be read: {e}"))?;
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let header = json.deserialize_map(Sum).map_err(|e| format!("its header is broken: {e}"))?;
    if header.bytes == 0 {
        return Err("has no tensors in it".to_owned());
    }
    if header.end > data || header.bytes > data {
        let most = header.end.max(header.bytes);
        return Err(format!("tells {most} bytes of tensors and has {data}: it is cut short"));
    }
    Ok(header)
}

/// What an index tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Bytes of all tensors.
    pub total: u64,
    /// The files.
    pub files: BTreeSet<String>,
}

#[derive(Deserialize)]
struct IndexFile {
    metadata: Metadata,
    weight_map: Files,
}

#[derive(Deserialize)]
struct Metadata {
    /// Some writers put it down as a number with a point.
    total_size: serde_json::Number,
}

/// The distinct files of a map of tensors.
struct Files(BTreeSet<String>);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileNames).map(Self)
    }
}

struct FileNames;

impl<'de> Visitor<'de> for FileNames {
    type Value = BTreeSet<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors with the names of their files")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut files = BTreeSet::new();
        while let Some((_, file)) = map.next_entry::<IgnoredAny, String>()? {
            // It stands in the model's directory; anything else is none of the model's business.
            if file.is_empty() || file.contains(['/', '\\', '\0']) || file.starts_with('.') {
                let file = plain(&file, SHOWN);
                return Err(de::Error::custom(format!("{file:?} is no name of a file beside it")));
            }
            files.insert(file);
            if files.len() > MAX_FILES {
                return Err(de::Error::custom(format!("more than {MAX_FILES} files")));
            }
        }
        Ok(files)
    }
}

/// Reads an index.
///
/// # Errors
/// What was expected and what was found.
pub fn index(bytes: &[u8]) -> Result<Index, String> {
    let index: IndexFile = serde_json::from_slice(bytes).map_err(|e| {
        format!("is no index of safetensors (metadata.total_size, weight_map): {e}")
    })?;
    let number = index.metadata.total_size;
    let total = number.as_u64().or_else(|| number.as_f64().and_then(whole)).ok_or_else(|| {
        format!("metadata.total_size: expected a number of bytes, found {number}")
    })?;
    if index.weight_map.0.is_empty() {
        return Err("weight_map: expected at least one tensor".to_owned());
    }
    Ok(Index { total, files: index.weight_map.0 })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a positive number below 2^53"
)]
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    ((0.0..EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

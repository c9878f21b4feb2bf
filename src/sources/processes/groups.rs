//! Memory of control groups. On these machines the GPU's is not in it.

use crate::model::reading::{Missing, Reading};
use crate::units::Bytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Groups whose memory is read in a round.
const MANY: usize = 64;
/// Version 1 writes no limit as the largest number of pages.
const NO_LIMIT: u64 = 1 << 62;

/// The groups that were read in this round, each once.
pub(super) struct Groups {
    sysfs: PathBuf,
    read: BTreeMap<String, (Reading<Bytes>, Reading<Bytes>)>,
}

impl Groups {
    pub(super) fn new(sysfs: &Path) -> Self {
        Self { sysfs: sysfs.to_owned(), read: BTreeMap::new() }
    }

    /// Another round.
    pub(super) fn forget(&mut self) {
        self.read.clear();
    }

    /// What a group accounts for, and its limit.
    pub(super) fn memory(&mut self, path: &str, v1: bool) -> (Reading<Bytes>, Reading<Bytes>) {
        let path = path.trim_start_matches('/');
        if let Some(known) = self.read.get(path) {
            return *known;
        }
        // A path that leads elsewhere is no group's.
        if self.read.len() >= MANY || path.split('/').any(|part| part == "..") {
            return (Err(Missing::NotAvailable), Err(Missing::NotAvailable));
        }
        let root = self.sysfs.join("fs/cgroup");
        let (root, names) = if v1 {
            (root.join("memory"), ["memory.usage_in_bytes", "memory.limit_in_bytes"])
        } else {
            (root, ["memory.current", "memory.max"])
        };
        let [current, limit] = names.map(|name| number(&root.join(path).join(name)));
        self.read.insert(path.to_owned(), (current, limit));
        (current, limit)
    }
}

/// A number of bytes; not present where there is no limit.
fn number(path: &Path) -> Reading<Bytes> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_string(&mut text));
    match read {
        Ok(_) if text.trim() == "max" => Err(Missing::NotPresent),
        Ok(_) => match text.trim().parse() {
            Ok(bytes) if bytes >= NO_LIMIT => Err(Missing::NotPresent),
            Ok(bytes) => Ok(Bytes(bytes)),
            Err(_) => Err(Missing::Malformed),
        },
        Err(error) => Err(match error.kind() {
            // The root has no such files.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Missing::NotPresent,
            io::ErrorKind::PermissionDenied => Missing::Denied,
            _ => Missing::Failed,
        }),
    }
}

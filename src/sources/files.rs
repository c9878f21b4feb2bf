//! How a source gets at text: from the live machine or from a recorded one.

use crate::model::reading::Missing;

/// Largest file that any source reads. The largest real one is `/proc/stat` of a machine with many
/// interrupts, some tens of KiB; a bigger one is not what it claims to be, and memory stays bounded.
pub const MAX_FILE: usize = 256 * 1024;

/// The machine's files, live or recorded.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// Says why there is none.
    fn text(&self, path: &str) -> Result<String, FileError>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// Says why there are none.
    fn names(&self, path: &str) -> Result<Vec<String>, FileError>;
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It does not exist.
    #[error("does not exist")]
    NotPresent,
    /// Permission.
    #[error("may not be read by this user")]
    Denied,
    /// The kernel said something else.
    #[error("cannot be read: {0}")]
    Failed(String),
    /// More than [`MAX_FILE`].
    #[error("is larger than {MAX_FILE} bytes")]
    TooLarge,
    /// Not text.
    #[error("is not UTF-8 text")]
    NotText,
}

impl FileError {
    /// The reason that readings from this file carry.
    #[must_use]
    pub const fn reason(&self) -> Missing {
        match self {
            Self::NotPresent => Missing::NotPresent,
            Self::Denied => Missing::Denied,
            Self::Failed(_) => Missing::Failed,
            Self::TooLarge | Self::NotText => Missing::Malformed,
        }
    }

    /// With the path, as a source's failure.
    #[must_use]
    pub fn at(self, path: &str) -> ReadError {
        ReadError::File { path: path.to_owned(), why: self }
    }
}

/// Why a source is not well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A file could not be read.
    #[error("{path} {why}")]
    File {
        /// Which.
        path: String,
        /// Why.
        why: FileError,
    },
    /// The GPU's driver could not be asked, or did not answer everything.
    #[error("{what}")]
    Gpu {
        /// What happened.
        what: String,
        /// The reason that readings carry.
        reason: Missing,
    },
    /// None of the places that would do can be read.
    #[error("{what}")]
    Nowhere {
        /// Which, why, and what to do about it.
        what: String,
        /// The reason that readings carry.
        reason: Missing,
    },
    /// A file does not say what the kernel documents.
    #[error("{path}: {what}")]
    Malformed {
        /// Which.
        path: String,
        /// What was expected.
        what: String,
    },
}

impl ReadError {
    /// A file does not say what it should.
    pub fn malformed(path: &str, what: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), what: what.into() }
    }

    /// A source that could not be read when it was recorded, for this reason.
    #[must_use]
    pub fn unlike(path: &str, reason: Missing) -> Self {
        match reason {
            Missing::NotPresent => FileError::NotPresent.at(path),
            Missing::Denied => FileError::Denied.at(path),
            Missing::Malformed => FileError::NotText.at(path),
            reason => FileError::Failed(reason.as_str().to_owned()).at(path),
        }
    }

    /// The reason that readings of this source carry.
    #[must_use]
    pub const fn reason(&self) -> Missing {
        match self {
            Self::File { why, .. } => why.reason(),
            Self::Gpu { reason, .. } | Self::Nowhere { reason, .. } => *reason,
            Self::Malformed { .. } => Missing::Malformed,
        }
    }
}

/// Among the failures of several files of one source, the one to report: anything is worth more
/// than "does not exist", and nothing at all when some file could be read.
#[derive(Default)]
pub struct Worst {
    read: usize,
    failure: Option<ReadError>,
}

impl Worst {
    /// Notes one file's outcome and passes the value or its reason on.
    pub fn note<T>(&mut self, result: Result<T, ReadError>) -> Result<T, Missing> {
        match result {
            Ok(value) => {
                self.read += 1;
                Ok(value)
            }
            Err(error) => {
                let reason = error.reason();
                let known = self.failure.as_ref().map(ReadError::reason);
                let worse = known == Some(Missing::NotPresent) && reason != Missing::NotPresent;
                if known.is_none() || worse {
                    self.failure = Some(error);
                }
                Err(reason)
            }
        }
    }

    /// The source's outcome: fine when at least one file was read and none failed in earnest.
    ///
    /// # Errors
    /// The failure worth reporting.
    pub fn outcome(self) -> Result<(), ReadError> {
        match self.failure {
            Some(error) if self.read == 0 || error.reason() != Missing::NotPresent => Err(error),
            _ => Ok(()),
        }
    }
}

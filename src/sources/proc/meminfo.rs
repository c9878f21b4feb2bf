//! `/proc/meminfo`

use crate::model::fields::Group;
use crate::model::memory::Meminfo;
use crate::model::reading::Missing;
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::{kernel_number, whole_lines};

const PATH: &str = "/proc/meminfo";

/// `Name: value [kB]` lines. A line that is not there is "not present", one that makes no sense is
/// "malformed"; neither costs another line's reading.
#[must_use]
pub fn parse(text: &str) -> Meminfo {
    let mut out = Meminfo::absent(Missing::NotPresent);
    for line in whole_lines(text).lines() {
        if let Some((name, value)) = line.split_once(':') {
            out.put(name, || kernel_number(value));
        }
    }
    out
}

/// Reads the live file into `out`.
///
/// # Errors
/// The file's failure, or the required lines that it lacks.
pub fn read(files: &dyn Files, out: &mut Meminfo) -> Result<(), ReadError> {
    match files.text(PATH) {
        Ok(text) => *out = parse(&text),
        Err(error) => {
            *out = Meminfo::absent(error.reason());
            return Err(error.at(PATH));
        }
    }
    complete(PATH, out.missing_required())
}

/// Fails with the names of what is missing, if anything is.
pub(super) fn complete<'a>(
    path: &str,
    missing: impl Iterator<Item = &'a str>,
) -> Result<(), ReadError> {
    let names: Vec<_> = missing.take(4).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(ReadError::malformed(path, format!("no readable line {}", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Count};

    #[test]
    fn each_line_stands_for_itself() {
        let info = parse(
            "MemTotal:       127600748 kB\nSwapTotal: 17\nMemFree:  12 MB\nMemAvailable: lots kB\nBuffers:\n\
             Cached: 18446744073709551615 kB\nActive(anon):  7 kB\nHugePages_Total:    8192\nno colon here\n",
        );
        assert_eq!(info.total, Ok(Bytes::from_kib(127_600_748)));
        assert_eq!(info.free, Err(Missing::Malformed), "a unit that the kernel does not use");
        assert_eq!(info.swap_total, Err(Missing::Malformed), "an amount without its unit");
        assert_eq!(info.available, Err(Missing::Malformed));
        assert_eq!(info.buffers, Err(Missing::Malformed));
        assert_eq!(info.cached, Err(Missing::Malformed), "more than 64 bits of bytes");
        assert_eq!(info.active_anon, Ok(Bytes(7 * 1024)));
        assert_eq!(info.huge_pages_total, Ok(Count(8192)));
        assert_eq!(info.shmem, Err(Missing::NotPresent));
    }

    #[test]
    fn a_file_cut_short_names_what_it_lacks() {
        let info = parse("MemTotal:       127600748 kB\nMemFree:      12345678 kB");
        let error = complete(PATH, info.missing_required()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/proc/meminfo: no readable line MemFree, MemAvailable, Buffers, Cached"
        );
        assert_eq!(error.reason(), Missing::Malformed);
    }
}

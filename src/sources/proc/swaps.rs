//! `/proc/swaps`

use crate::model::memory::SwapArea;
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::{shown, whole};
use crate::units::Bytes;

const PATH: &str = "/proc/swaps";

/// A header and one line an area. Paths may hold escaped spaces, so the numbers are taken from the
/// end; an area is named by its kind and position, because a path is the operator's business.
///
/// # Errors
/// The header is missing, or a line lacks its numbers.
pub fn parse(text: &str) -> Result<Vec<SwapArea>, ReadError> {
    let mut lines = whole(PATH, text)?.lines();
    if !lines.next().is_some_and(|header| header.starts_with("Filename")) {
        return Err(ReadError::malformed(
            PATH,
            format!("expected a header, found {}", shown(text)),
        ));
    }
    lines
        .enumerate()
        .map(|(position, line)| {
            area(position, line).ok_or_else(|| {
                ReadError::malformed(
                    PATH,
                    format!("expected path, type, size, used, priority, found {}", shown(line)),
                )
            })
        })
        .collect()
}

fn area(position: usize, line: &str) -> Option<SwapArea> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let [path, kind, size, used, _priority] = words.as_slice() else { return None };
    let kind = match *kind {
        _ if path.starts_with("/dev/zram") => "zram",
        "file" => "file",
        "partition" => "partition",
        _ => "other",
    };
    Some(SwapArea {
        name: format!("{kind}{position}"),
        size: Bytes::from_kib(size.parse().ok()?),
        used: Bytes::from_kib(used.parse().ok()?),
    })
}

/// Reads the live file.
///
/// # Errors
/// The file's failure, or a line that makes no sense.
pub fn read(files: &dyn Files) -> Result<Vec<SwapArea>, ReadError> {
    parse(&files.text(PATH).map_err(|e| e.at(PATH))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_named_by_kind() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /swap.img                               file\t\t16777212\t54000\t\t-2\n\
            /dev/zram0                              partition\t8388604\t0\t\t100\n";
        let areas = parse(text).unwrap();
        assert_eq!(areas[0].name, "file0");
        assert_eq!(areas[0].used, Bytes::from_kib(54_000));
        assert_eq!(areas[1].name, "zram1");
        assert_eq!(parse("Filename\tType\n").unwrap(), [], "no swap is an empty list, not a fault");
        assert!(parse("").is_err());
        assert!(parse("Filename\n/x file 1\n").is_err());
    }
}

//! `/proc/buddyinfo`: free blocks by zone and order.

use crate::model::memory::ZoneBlocks;
use crate::sources::files::{Files, ReadError};
use crate::sources::lines::{label, shown, whole};

const PATH: &str = "/proc/buddyinfo";
/// No kernel has more orders; a longer line is not a buddyinfo line.
const MAX_ORDERS: usize = 32;

/// `Node 0, zone   Normal  4 3 2 1` lines.
///
/// # Errors
/// A line does not look like that.
pub fn parse(text: &str) -> Result<Vec<ZoneBlocks>, ReadError> {
    let zones: Vec<_> = whole(PATH, text)?
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            zone(line).ok_or_else(|| {
                ReadError::malformed(
                    PATH,
                    format!("expected \"Node N, zone NAME counts\", found {}", shown(line)),
                )
            })
        })
        .collect::<Result<_, _>>()?;
    if zones.is_empty() {
        return Err(ReadError::malformed(PATH, "no zones"));
    }
    Ok(zones)
}

fn zone(line: &str) -> Option<ZoneBlocks> {
    let (node, rest) = line.strip_prefix("Node ")?.split_once(", zone ")?;
    let node: u32 = node.trim().parse().ok()?;
    let mut words = rest.split_ascii_whitespace();
    let zone = label(words.next()?);
    let by_order: Vec<u64> = words
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()
        .filter(|v: &Vec<u64>| !v.is_empty() && v.len() <= MAX_ORDERS)?;
    let text = by_order.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    Some(ZoneBlocks { name: format!("node{node}.{zone}"), by_order, text })
}

/// Reads the live file.
///
/// # Errors
/// The file's failure, or a line that makes no sense.
pub fn read(files: &dyn Files) -> Result<Vec<ZoneBlocks>, ReadError> {
    parse(&files.text(PATH).map_err(|e| e.at(PATH))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_keep_their_node_and_orders() {
        let zones = parse(
            "Node 0, zone      DMA      0      1      2 \nNode 0, zone   Normal    167     96     27 \n",
        )
        .unwrap();
        assert_eq!(zones.len(), 2);
        assert_eq!(zones[1].name, "node0.Normal");
        assert_eq!(zones[1].by_order, [167, 96, 27]);
    }

    #[test]
    fn lines_that_make_no_sense_are_refused() {
        for text in
            ["", "Node 0, zone", "Node x, zone Normal 1", "Node 0, zone Normal 1 -2", "zone 3"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

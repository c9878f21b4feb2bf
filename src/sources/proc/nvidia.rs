//! `/proc/driver/nvidia`: what the kernel driver says of itself, without NVML.

use crate::model::fields::Group;
use crate::model::machine::Nvidia;
use crate::model::reading::{FromRaw, Missing, Reading};
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::{kernel_number, label};
use crate::units::Count;

const VERSION: &str = "/proc/driver/nvidia/version";
const PARAMS: &str = "/proc/driver/nvidia/params";

/// The driver's version: the first word of the NVRM line that looks like one. The words before it
/// differ between the open and the closed module and between architectures.
///
/// # Errors
/// There is no NVRM line with a version.
pub fn parse_version(text: &str) -> Result<String, ReadError> {
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines()
        .find_map(|line| line.strip_prefix("NVRM version:"))
        .and_then(|line| line.split_ascii_whitespace().find(is_version))
        .map(label)
        .ok_or_else(|| ReadError::malformed(VERSION, "no \"NVRM version:\" line with a version"))
}

/// The page pools' setting. Drivers before 590.44 do not have it.
#[must_use]
pub fn parse_pools(text: &str) -> Reading<Count> {
    text.lines()
        .find_map(|line| line.strip_prefix("EnableSystemMemoryPools:"))
        .map_or(Err(Missing::NotPresent), |value| kernel_number(value).and_then(Count::from_raw))
}

/// Reads the live driver into `out`. Without a driver the source is "not present".
///
/// # Errors
/// The failure of a file, when both are missing or one failed in earnest.
pub fn read(files: &dyn Files, out: &mut Nvidia) -> Result<(), ReadError> {
    *out = Nvidia::absent(Missing::NotPresent);
    let mut worst = Worst::default();
    let version =
        files.text(VERSION).map_err(|e| e.at(VERSION)).and_then(|text| parse_version(&text));
    out.driver_version = worst.note(version);
    let params = files.text(PARAMS).map_err(|e| e.at(PARAMS));
    out.page_pools = worst.note(params).and_then(|text| parse_pools(&text));
    worst.outcome()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_whatever_stands_before_it() {
        for (line, version) in [
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  590.48.01  Release Build  (x)",
                "590.48.01",
            ),
            ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23", "580.95.05"),
        ] {
            assert_eq!(parse_version(line).unwrap(), version);
        }
        assert!(parse_version("GCC version: 13.3.0").is_err());
    }

    #[test]
    fn pools_are_a_mask_or_absent() {
        assert_eq!(parse_pools("Foo: 1\nEnableSystemMemoryPools: 529\n"), Ok(Count(529)));
        assert_eq!(parse_pools("EnableSystemMemoryPools: yes"), Err(Missing::Malformed));
        assert_eq!(parse_pools("Foo: 1\n"), Err(Missing::NotPresent));
    }
}

//! `/proc/sys/vm` and the transparent huge page setting.

use crate::model::fields::Group;
use crate::model::machine::VmSettings;
use crate::model::reading::{Missing, Reading};
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::{number, shown};
use crate::units::{Bytes, Count};

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The choice in brackets: `always [madvise] never`.
///
/// # Errors
/// No choice is marked.
pub fn parse_choice(text: &str) -> Result<String, ReadError> {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(choice, _)| crate::sources::lines::label(choice))
        .ok_or_else(|| {
            ReadError::malformed(
                THP,
                format!("expected a choice in brackets, found {}", shown(text)),
            )
        })
}

/// Reads the live settings into `out`.
///
/// # Errors
/// The failure of a file, when all are missing or one failed in earnest.
pub fn read(files: &dyn Files, out: &mut VmSettings) -> Result<(), ReadError> {
    *out = VmSettings::absent(Missing::NotPresent);
    let mut worst = Worst::default();
    let mut count =
        |name: &str| -> Reading<u64> { worst.note(number(files, &format!("/proc/sys/vm/{name}"))) };
    out.swappiness = count("swappiness").map(Count);
    out.min_free = count("min_free_kbytes").map(Bytes::from_kib);
    out.watermark_scale_factor = count("watermark_scale_factor").map(Count);
    out.overcommit_memory = count("overcommit_memory").map(Count);
    out.vfs_cache_pressure = count("vfs_cache_pressure").map(Count);
    out.dirty_ratio = count("dirty_ratio").map(Count);
    out.dirty_background_ratio = count("dirty_background_ratio").map(Count);
    out.compaction_proactiveness = count("compaction_proactiveness").map(Count);
    out.nr_hugepages = count("nr_hugepages").map(Count);
    let choice = files.text(THP).map_err(|e| e.at(THP)).and_then(|text| parse_choice(&text));
    out.transparent_hugepage = worst.note(choice);
    worst.outcome()
}

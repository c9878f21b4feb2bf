//! `/proc/sys/kernel`: which kernel, which boot.

use crate::model::fields::Group;
use crate::model::machine::Kernel;
use crate::model::reading::Missing;
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::word;

/// Reads the live identity into `out`.
///
/// # Errors
/// The failure of a file, when all are missing or one failed in earnest.
pub fn read(files: &dyn Files, out: &mut Kernel) -> Result<(), ReadError> {
    *out = Kernel::absent(Missing::NotPresent);
    let mut worst = Worst::default();
    out.release = worst.note(word(files, "/proc/sys/kernel/osrelease"));
    out.arch = worst.note(word(files, "/proc/sys/kernel/arch"));
    out.boot_id = worst.note(word(files, "/proc/sys/kernel/random/boot_id"));
    worst.outcome()
}

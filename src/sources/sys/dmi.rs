//! `/sys/class/dmi/id`: who made the box. Serial numbers and UUIDs are root-only there and are never
//! asked for.

use crate::model::fields::Group;
use crate::model::machine::Dmi;
use crate::model::reading::Missing;
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::word;

/// Reads the live identity into `out`.
///
/// # Errors
/// The failure of a file, when all are missing or one failed in earnest.
pub fn read(files: &dyn Files, out: &mut Dmi) -> Result<(), ReadError> {
    *out = Dmi::absent(Missing::NotPresent);
    let mut worst = Worst::default();
    let mut text = |name: &str| worst.note(word(files, &format!("/sys/class/dmi/id/{name}")));
    out.sys_vendor = text("sys_vendor");
    out.product_name = text("product_name");
    out.board_vendor = text("board_vendor");
    out.board_name = text("board_name");
    out.bios_vendor = text("bios_vendor");
    out.bios_version = text("bios_version");
    out.bios_date = text("bios_date");
    worst.outcome()
}

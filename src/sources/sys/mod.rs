//! Sources below `/sys`, and the one file of `/etc`.

pub mod dmi;
pub mod hwmon;
pub mod os_release;
pub mod thermal;

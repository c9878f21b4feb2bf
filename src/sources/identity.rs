//! Which box this is, for those who collect from many. Never part of a snapshot: a recorded machine has none.

use super::files::Files;

/// How a box is told from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `/etc/machine-id`, made when the system was installed. The same file of D-Bus stands in for it.
    pub machine_id: Option<String>,
    /// The host's name.
    pub host_name: Option<String>,
}

/// Reads it. Nothing that takes root: serial numbers are left alone.
pub fn read(files: &(impl Files + ?Sized)) -> Identity {
    let word = |path: &str| {
        let text = files.text(path).ok()?;
        let word = text.trim();
        let plain =
            !word.is_empty() && word.len() <= 64 && word.chars().all(|c| c.is_ascii_graphic());
        plain.then(|| word.to_owned())
    };
    // An image that was made for many boxes has no identity yet, and says so.
    let id = |path: &str| word(path).filter(|id| id != "uninitialized");
    Identity {
        machine_id: id("/etc/machine-id").or_else(|| id("/var/lib/dbus/machine-id")),
        host_name: word("/proc/sys/kernel/hostname").filter(|name| name != "(none)"),
    }
}

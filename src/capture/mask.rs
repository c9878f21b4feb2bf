//! What a recording must not tell others: whose machine it is, and how to get at it.
//!
//! Names that are known (of the host, of users) are replaced wherever text is free; addresses,
//! identities and what looks like a secret are told by their shape. What the kernel writes itself,
//! words and numbers, keeps its structure: a masked machine reads like the real one.

mod shapes;

use crate::model::workload::Processes;
use shapes::{Run, runs};
use std::collections::BTreeMap;

states! {
    /// What was masked.
    Masked {
        /// Name of the host.
        Host = "host names",
        /// Name of a user, also as part of user@host.
        User = "user names",
        /// A path that somebody has named.
        Path = "paths",
        /// IPv4 and IPv6.
        Address = "IP addresses",
        /// Of a network card.
        Mac = "MAC addresses",
        /// Of a GPU or a boot.
        Uuid = "UUIDs",
        /// Serial numbers and what looks like one.
        Serial = "serial numbers",
        /// Passwords, tokens, keys.
        Secret = "secrets",
    }
}

/// Names that say nothing about anybody, because products, systems or everybody is called so.
const PUBLIC: &[&str] = &[
    "root",
    "/root",
    "user",
    "host",
    "localhost",
    "ubuntu",
    "debian",
    "nvidia",
    "spark",
    "dgx",
    "gb10",
    "linux",
    "admin",
    "nobody",
    "none",
    "(none)",
    "kernel",
    "release",
    "build",
    "gb10-exporter",
];
/// From this length on, a name is also found inside other words.
const UNMISTAKABLE: usize = 5;

/// Files with nothing but the kernel's own words and numbers. Names are not looked for there: a user may
/// be called `Normal`, like a zone of memory.
const OF_THE_KERNEL: &[&str] = &[
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/buddyinfo",
    "/proc/pressure/",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/stat",
    "/proc/sys/vm/",
    "/proc/sys/kernel/arch",
    "/sys/kernel/mm/transparent_hugepage/",
];
/// Four numbers with dots are a version here, unless they are an address of a private network.
const VERSIONS: &[&str] =
    &["/proc/sys/kernel/osrelease", "/sys/class/dmi/id/bios_version", "driver", "nvml", "vbios"];
/// Files of lines that are found again by their names.
const KEYED: &[&str] = &["/proc/driver/nvidia/params", "/etc/os-release"];
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const SWAPS: &str = "/proc/swaps";

/// What a text may hold.
#[derive(Clone, Copy)]
struct Text {
    /// Names that people gave.
    free: bool,
    /// A version.
    version: bool,
    /// The name of the line, before a colon or an equals sign.
    keyed: bool,
}

const FREE: Text = Text { free: true, version: false, keyed: false };

/// Masks texts, and counts what it has masked.
#[derive(Debug, Default)]
pub struct Mask {
    off: bool,
    names: Vec<(Masked, String)>,
    counts: BTreeMap<&'static str, usize>,
    /// The number that stands for an identity, by what it really is.
    identities: BTreeMap<String, usize>,
}

impl Mask {
    /// One that masks nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// With the names of this host and of its users.
    #[must_use]
    pub fn new(hosts: &[String], users: &[String]) -> Self {
        let known = |kind: Masked, names: &[String]| -> Vec<(Masked, String)> {
            let worth = |name: &&String| {
                name.len() > 1
                    && !name.chars().all(|c| c.is_ascii_digit() || c == '.')
                    && !PUBLIC.iter().any(|public| name.eq_ignore_ascii_case(public))
            };
            names.iter().filter(worth).map(|name| (kind, name.clone())).collect()
        };
        let mut names = known(Masked::Host, hosts);
        names.extend(known(Masked::User, users));
        // The longest first: a full name before the part of it before the first dot.
        names.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        Self { names, ..Self::default() }
    }

    /// What was masked, and how often.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Processes, whose units are names that people gave.
    #[must_use]
    pub fn processes(&mut self, mut processes: Processes) -> Processes {
        for proc in processes.list.iter_mut().flatten() {
            proc.unit = self.line(&proc.unit).into();
            if let Some(own) = &mut proc.class.own {
                *own = self.line(own).into();
            }
        }
        processes
    }

    fn count(&mut self, kind: Masked) {
        *self.counts.entry(kind.as_str()).or_default() += 1;
    }

    /// A file's text.
    #[must_use]
    pub fn file(&mut self, path: &str, text: &str) -> String {
        if self.off {
            return text.to_owned();
        }
        if path == BOOT_ID && !text.trim().is_empty() {
            let id = self.identity(text.trim());
            return text.replace(text.trim(), &id);
        }
        let of_kernel = OF_THE_KERNEL.iter().any(|own| path.starts_with(own))
            || ["_input", "/temp", "_temp"].iter().any(|end| path.ends_with(end));
        let how = Text {
            free: !of_kernel,
            version: VERSIONS.contains(&path),
            keyed: KEYED.contains(&path),
        };
        let lines = text.split_inclusive('\n').map(|line| match path {
            SWAPS => self.swap(line),
            _ => self.masked(line, how),
        });
        lines.collect()
    }

    /// A line of free text, which stays one.
    #[must_use]
    pub fn line(&mut self, text: &str) -> String {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if self.off { line } else { self.masked(&line, FREE) }
    }

    /// A value of the GPU section.
    #[must_use]
    pub fn gpu(&mut self, key: &str, value: &str) -> String {
        let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
        // Only text can tell anything: the rest are numbers, refusals and delays.
        let answer = value.rsplit(' ').next().unwrap_or_default();
        if self.off || answer.starts_with('!') {
            return value.to_owned();
        }
        let (delay, value) = match value.split_once(' ') {
            Some((delay, value)) if delay.starts_with('~') => (format!("{delay} "), value),
            _ => (String::new(), value),
        };
        let masked = match name {
            "uuid" => format!("GPU-{}", self.identity(value.trim_start_matches("GPU-"))),
            "name" | "vbios" | "driver" | "nvml" | "addressing_mode" => {
                self.masked(value, Text { version: VERSIONS.contains(&name), ..FREE })
            }
            _ if key.contains(".process_name.") => self.masked(value, FREE),
            _ => value.to_owned(),
        };
        format!("{delay}{masked}")
    }

    /// A number in place of an identity, the same for the same one.
    fn identity(&mut self, real: &str) -> String {
        let next = self.identities.len() + 1;
        let number = *self.identities.entry(real.to_ascii_lowercase()).or_insert(next);
        self.count(Masked::Uuid);
        format!("00000000-0000-0000-0000-{number:012}")
    }

    /// A row of the swap areas: somebody has named the file, the rest are numbers.
    fn swap(&mut self, line: &str) -> String {
        let usual =
            ["/dev/zram", "/dev/dm-", "/dev/sd", "/dev/nvme", "/dev/vd", "/dev/mmcblk", "/dev/md"];
        let plain = |path: &str| {
            ["/swap.img", "/swapfile", "/swap", "Filename"].contains(&path)
                || usual.iter().any(|start| {
                    path.strip_prefix(start).is_some_and(|rest| {
                        rest.len() <= 8 && rest.chars().all(|c| c.is_ascii_alphanumeric())
                    })
                })
        };
        let end = line.find(char::is_whitespace).unwrap_or(line.len());
        let (path, rest) = line.split_at(end);
        if plain(path) {
            return line.to_owned();
        }
        if !path.starts_with('/') {
            return self.masked(line, FREE);
        }
        self.count(Masked::Path);
        format!("/swap{rest}")
    }

    fn masked(&mut self, line: &str, how: Text) -> String {
        let name = if how.keyed { shapes::name_of_line(line) } else { "" };
        let mut value = line[name.len()..].to_owned();
        if how.free {
            value = self.people(&value);
            value = self.names(&value);
        }
        let mut text = self.secrets(&format!("{name}{value}"));
        text = self.identities(&text);
        text = self.addresses(&text, how);
        let number = value.trim().chars().all(|c| c.is_ascii_digit());
        if how.keyed && number { text } else { self.long_runs(&text, how) }
    }

    /// `user@host`, and whose home directory it is.
    fn people(&mut self, text: &str) -> String {
        let mail = |c: char| c.is_alphanumeric() || "._%+:-@".contains(c);
        let text = runs(text, mail, |run| {
            let (user, host) = run.text.split_once('@')?;
            let named = |part: &str| part.chars().any(char::is_alphanumeric);
            let masked = named(user) && named(host) && run.text != "user@host";
            masked.then(|| {
                self.count(Masked::User);
                "user@host".to_owned()
            })
        });
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, home, after)) = shapes::home(rest) {
            let end = after.find(|c: char| c.is_whitespace() || "/\"':,;)".contains(c));
            let (who, tail) = after.split_at(end.unwrap_or(after.len()));
            if !who.is_empty() && who != "user" {
                self.count(Masked::Path);
            }
            out += before;
            out += home;
            out += if who.is_empty() { "" } else { "user" };
            rest = tail;
        }
        out + rest
    }

    fn names(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (kind, name) in self.names.clone() {
            let word = if kind == Masked::Host { "host" } else { "user" };
            let (masked, times) =
                shapes::replace_word(&text, &name, word, name.len() >= UNMISTAKABLE);
            text = masked;
            for _ in 0..times {
                self.count(kind);
            }
        }
        text
    }

    /// Values whose names say that they are secret.
    fn secrets(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut done = 0;
        for (place, kind) in shapes::named_values(text) {
            if place.start < done {
                continue;
            }
            self.count(kind);
            out += &text[done..place.start];
            out += if kind == Masked::Serial { SERIAL } else { SECRET };
            done = place.end;
        }
        out + &text[done..]
    }

    fn identities(&mut self, text: &str) -> String {
        runs(
            text,
            |c| c.is_ascii_alphanumeric() || c == '-',
            |run| {
                let places = shapes::uuids(run.text);
                let mut out = run.text.to_owned();
                for place in places.into_iter().rev() {
                    if run.text[place.clone()].starts_with(MASKED_UUID) {
                        continue;
                    }
                    let id = self.identity(&run.text[place.clone()]);
                    out.replace_range(place, &id);
                }
                (out != run.text).then_some(out)
            },
        )
    }

    fn addresses(&mut self, text: &str, how: Text) -> String {
        let mut text = text.to_owned();
        for place in shapes::macs(&text).into_iter().rev() {
            if text[place.clone()].chars().any(|c| c.is_ascii_hexdigit() && c != '0') {
                self.count(Masked::Mac);
                text.replace_range(place, "00:00:00:00:00:00");
            }
        }
        text = runs(
            &text,
            |c| c.is_ascii_hexdigit() || c == ':' || c == '.',
            |run| {
                let bare = shapes::ipv6(run)?;
                self.count(Masked::Address);
                Some(run.text.replace(bare, "::"))
            },
        );
        runs(
            &text,
            |c| c.is_ascii_digit() || c == '.',
            |run| {
                let bare = shapes::ipv4(run.text, how.version)?;
                self.count(Masked::Address);
                Some(run.text.replace(bare, "0.0.0.0"))
            },
        )
    }

    fn long_runs(&mut self, text: &str, how: Text) -> String {
        let text = runs(
            text,
            |c| c.is_ascii_alphanumeric() || "+/_=-".contains(c),
            |run| {
                shapes::is_token(run.text).then(|| {
                    self.count(Masked::Secret);
                    SECRET.to_owned()
                })
            },
        );
        runs(
            &text,
            |c| c.is_ascii_alphanumeric(),
            |run: Run<'_>| {
                if shapes::is_random(run.text) {
                    self.count(Masked::Secret);
                    return Some(SECRET.to_owned());
                }
                let serial = how.free && !how.version && shapes::is_serial(run.text);
                serial.then(|| {
                    self.count(Masked::Serial);
                    SERIAL.to_owned()
                })
            },
        )
    }
}

/// What stands for a secret.
const SECRET: &str = "MASKED";
/// What stands for a serial number.
const SERIAL: &str = "SERIAL";
/// What stands for an identity begins so.
const MASKED_UUID: &str = "00000000-0000-0000-0000-0000000";

#[cfg(test)]
mod tests;

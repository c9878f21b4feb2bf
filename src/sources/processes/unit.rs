//! `/proc/PID/cgroup`: which unit a process belongs to, by a name that a restart does not change.
//!
//! Names of containers and pods are not there: a container is known by its runtime, or by its id where
//! the operator asks for that.

use crate::model::naming::{MAX_UNIT, OTHER, UnitRules, is_plain};
use std::sync::Arc;

/// A process of which nothing is known.
const UNKNOWN: &str = "unknown";
/// A container's id has so many digits.
const ID: usize = 64;
/// So many of them tell containers of one machine apart.
const SHORT_ID: usize = 12;
/// The same for pods.
const SHORT_POD: usize = 8;
/// Digits in a row that nobody chose: ids, times, counters.
const RUN: usize = 8;

/// A unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its name, normalised.
    pub name: Arc<str>,
    /// Its group's path below the hierarchy that accounts for memory; absent when that is out of sight.
    pub path: Option<String>,
    /// Whether that hierarchy is version 1's memory controller, not the unified one.
    pub v1: bool,
}

/// How a runtime calls the group of a container, before its id, and the word for it.
const SCOPES: &[(&str, &str)] = &[
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("libpod-conmon-", "podman"),
    ("libpod-payload-", "podman"),
    ("libpod-", "podman"),
    ("crio-conmon-", "crio"),
    ("crio-", "crio"),
];

/// How it calls what holds the groups of its containers, where they are called by their id alone.
const PARENTS: &[(&str, &str)] = &[
    ("docker", "docker"),
    ("libpod_parent", "podman"),
    ("containerd", "containerd"),
    ("k8s.io", "containerd"),
    ("moby", "docker"),
];

/// A name in the making.
struct Found {
    name: String,
    /// What it would be with ids.
    detailed: Option<String>,
    /// The container's id, shortened.
    id: Option<String>,
}

impl Found {
    fn plain(name: impl Into<String>) -> Self {
        Self { name: name.into(), detailed: None, id: None }
    }
}

/// The unit of a process.
#[must_use]
pub fn unit(cgroup_file: &str, rules: &UnitRules) -> Unit {
    let group = Group::of(cgroup_file);
    let found = group.as_ref().map_or_else(|| Found::plain(UNKNOWN), |group| name(group.named));
    let plain = clean(&found.name);
    let detailed = found.detailed.as_deref().map(clean);
    let shown = detailed.as_ref().filter(|_| rules.container_ids).unwrap_or(&plain);
    let called = [Some(&plain), detailed.as_ref(), found.id.as_ref()];
    let mapped = rules.map.iter().find(|(from, _)| {
        called.iter().flatten().any(|name| match from.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *name == from,
        })
    });
    let name = mapped.map_or_else(|| shown.clone(), |(_, to)| clean(to));
    Unit {
        name: name.into(),
        path: group.as_ref().and_then(Group::path),
        v1: group.is_some_and(|group| group.v1),
    }
}

/// The groups of a process that matter here.
struct Group<'a> {
    /// The path that names it.
    named: &'a str,
    /// That of the hierarchy that accounts for memory.
    memory: &'a str,
    v1: bool,
}

impl<'a> Group<'a> {
    /// `ID:CONTROLLERS:PATH` lines. Version 2 has no controllers there; where both versions are in use
    /// memory may belong to either.
    fn of(file: &'a str) -> Option<Self> {
        let lines = || {
            file.lines().filter_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                Some((fields.next()?, fields.next()?))
            })
        };
        let with = |controller: &str| {
            lines()
                .find(|(names, _)| names.split(',').any(|name| name == controller))
                .map(|(_, path)| path)
        };
        let unified = lines().find(|(names, _)| names.is_empty()).map(|(_, path)| path);
        let first = with("memory");
        let memory = first.or(unified)?;
        let known = |path: &&str| !path.trim_matches('/').is_empty();
        let named = [Some(memory), unified, with("name=systemd")]
            .into_iter()
            .flatten()
            .find(known)
            .unwrap_or(memory);
        Some(Self { named, memory, v1: first.is_some() })
    }

    /// A path that leads out of what this process sees, or to a group that is gone, leads nowhere.
    fn path(&self) -> Option<String> {
        let inside =
            self.memory.starts_with('/') && self.memory.split('/').all(|part| part != "..");
        (inside && !self.memory.ends_with(GONE)).then(|| self.memory.to_owned())
    }
}

/// What the kernel puts behind the path of a group that was removed.
const GONE: &str = " (deleted)";

/// The name for a group's path.
fn name(path: &str) -> Found {
    let path = path.strip_suffix(GONE).unwrap_or(path);
    let parts: Vec<String> =
        path.split('/').filter(|part| !part.is_empty() && *part != "..").map(unescape).collect();
    pod(&parts)
        .or_else(|| container(&parts))
        .unwrap_or_else(|| Found::plain(service(&parts).unwrap_or_else(|| last(&parts))))
}

/// A pod of Kubernetes.
fn pod(parts: &[String]) -> Option<Found> {
    let at = parts.iter().position(|part| part.contains("kubepods"))?;
    let uid = parts[at..].iter().find_map(|part| {
        let uid = part.rsplit_once("pod").map(|(_, uid)| uid)?.get(..SHORT_POD)?;
        is_hex(uid).then(|| uid.to_owned())
    });
    let id = parts[at..].iter().rev().find_map(|part| {
        let id = part.trim_end_matches(".scope").rsplit(['-', ':']).next()?;
        short_id(id)
    });
    Some(Found { name: "kubepods".into(), detailed: uid.map(|uid| format!("pod-{uid}")), id })
}

/// A container: the outermost, where one runs inside another.
fn container(parts: &[String]) -> Option<Found> {
    parts.iter().enumerate().find_map(|(at, part)| {
        let scope = |(prefix, word): &(&str, &'static str)| {
            let id = part.strip_prefix(prefix)?;
            Some((*word, short_id(id.strip_suffix(".scope").unwrap_or(id))?))
        };
        let parent = || {
            let above = parts.get(at.checked_sub(1)?)?;
            let (_, word) = PARENTS.iter().find(|(name, _)| name == above)?;
            Some((*word, short_id(part)?))
        };
        if part.starts_with("lxc.payload") || (part == "lxc" && parts.len() > at + 1) {
            return Some(Found::plain("lxc"));
        }
        let (word, id) = SCOPES.iter().find_map(scope).or_else(parent)?;
        Some(Found { name: word.into(), detailed: Some(format!("{word}-{id}")), id: Some(id) })
    })
}

/// The innermost unit of systemd's. A scope is made anew for every session, so its slice stands for it.
fn service(parts: &[String]) -> Option<String> {
    for (at, part) in parts.iter().enumerate().rev() {
        if let Some(name) = part.strip_suffix(".service") {
            return Some(settled(name));
        }
        if let Some(name) = part.strip_suffix(".slice") {
            return Some(settled(name));
        }
        if let Some(name) = part.strip_suffix(".scope") {
            let slice = parts[..at].iter().rev().find_map(|part| part.strip_suffix(".slice"));
            let transient = is_run(name);
            return Some(settled(slice.filter(|_| !transient).unwrap_or(name)));
        }
    }
    None
}

/// What `systemd-run` calls a unit of which it is not told a name.
fn is_run(name: &str) -> bool {
    name.strip_prefix("run-").and_then(|rest| rest.strip_prefix(['u', 'r', 'p'])).is_some_and(
        |rest| {
            rest.bytes().any(|b| b.is_ascii_digit())
                && rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-' || b == b'i')
        },
    )
}

/// The last part that has a name of its own.
fn last(parts: &[String]) -> String {
    parts
        .iter()
        .rev()
        .map(|part| settled(part))
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| if parts.is_empty() { "root" } else { UNKNOWN }.to_owned())
}

/// A name without what changes from start to start.
fn settled(name: &str) -> String {
    if is_run(name) {
        return "run".to_owned();
    }
    let mut kept = String::new();
    let mut rest = name;
    while !rest.is_empty() {
        let made_up = made_up(rest);
        // As far as the next word.
        let word = rest.find(SEPARATORS).unwrap_or(rest.len());
        let end = if made_up > 0 { made_up } else { word };
        let next = rest[end..].find(|c| !SEPARATORS.contains(&c)).map_or(rest.len(), |at| end + at);
        if made_up == 0 {
            kept.push_str(&rest[..next]);
        }
        rest = &rest[next..];
    }
    // A separator at the end led to what is gone.
    if kept.len() < name.len() { kept.trim_end_matches(SEPARATORS).to_owned() } else { kept }
}

/// The digits of a UUID, group by group.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// What stands between the words of a name.
const SEPARATORS: [char; 6] = ['-', '_', '.', '@', ':', ' '];

/// The length of the id, time or counter at the start of a name; 0 when there is none.
fn made_up(text: &str) -> usize {
    let mut end = 0;
    let mut words = text.split('-');
    let uuid = UUID.iter().all(|digits| {
        words.next().is_some_and(|word| {
            // Something else may follow the last group.
            let word = if *digits == 12 { word.get(..12).unwrap_or(word) } else { word };
            end += digits + 1;
            word.len() == *digits && is_hex(word)
        })
    });
    if uuid {
        return end - 1;
    }
    let word = &text[..text.find(SEPARATORS).unwrap_or(text.len())];
    let counts = word.len() >= RUN && is_hex(word) && word.bytes().any(|b| b.is_ascii_digit());
    if counts { word.len() } else { 0 }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn short_id(text: &str) -> Option<String> {
    (text.len() == ID && is_hex(text)).then(|| text[..SHORT_ID].to_owned())
}

/// systemd writes a character that has a meaning of its own as `\x2d`.
fn unescape(part: &str) -> String {
    let mut out = String::new();
    let mut rest = part;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.push_str(before);
        let digits = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = digits {
            out.push(char::from(byte));
            rest = &after[2..];
        } else {
            out.push_str("\\x");
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// A name as it may be shown.
fn clean(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(MAX_UNIT).collect();
    match name.as_str() {
        "" => UNKNOWN.to_owned(),
        OTHER => format!("{OTHER}_"),
        _ => name,
    }
}

#[cfg(test)]
mod tests;

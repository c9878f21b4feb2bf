//! `/proc/PID/cmdline` and `/proc/PID/environ`, held so that they cannot leak.
//!
//! Neither type implements Debug or Serialize: what may leave is what [`super::classes`] and
//! [`super::caps`] make of them.

use super::files::wipe_text;
use crate::units::Ratio;

/// A chain of programs that start each other is followed so far.
const MAX_PROGRAMS: usize = 8;

/// Shells. What one runs is a process of its own, or has taken the shell's place.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ash", "ksh", "mksh", "fish", "busybox"];

/// Programs that only run another one.
struct Wrapper {
    name: &'static str,
    /// The word that must come first, where the program can do other things too.
    verb: Option<&'static str>,
    /// Options that take the next argument as their value.
    with_value: &'static [&'static str],
    /// Arguments of its own before the program.
    own: usize,
}

const fn wrapper(
    name: &'static str,
    verb: Option<&'static str>,
    with_value: &'static [&'static str],
    own: usize,
) -> Wrapper {
    Wrapper { name, verb, with_value, own }
}

const UV: &[&str] = &[
    "-p",
    "--python",
    "--project",
    "--directory",
    "--with",
    "--with-editable",
    "--with-requirements",
    "--extra",
    "--group",
    "--only-group",
    "--env-file",
    "--package",
    "--index",
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--cache-dir",
    "--config-file",
    "--from",
];
const CONDA: &[&str] = &["-n", "--name", "-p", "--prefix", "--cwd", "-e", "--environment"];
const SUDO: &[&str] =
    &["-u", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt", "-C", "-D", "-R", "-T"];
const NUMACTL: &[&str] = &[
    "-C",
    "--physcpubind",
    "-N",
    "--cpunodebind",
    "-m",
    "--membind",
    "-i",
    "--interleave",
    "-p",
    "--preferred",
    "-w",
    "--weighted-interleave",
];

const WRAPPERS: &[Wrapper] = &[
    wrapper("nohup", None, &[], 0),
    wrapper("setsid", None, &[], 0),
    wrapper("nice", None, &["-n", "--adjustment"], 0),
    wrapper("ionice", None, &["-c", "--class", "-n", "--classdata"], 0),
    wrapper("chrt", None, &["-T", "-P", "-D"], 1),
    wrapper("taskset", None, &[], 1),
    wrapper("numactl", None, NUMACTL, 0),
    wrapper("stdbuf", None, &["-i", "-o", "-e"], 0),
    wrapper("env", None, &["-u", "--unset", "-C", "--chdir"], 0),
    wrapper("time", None, &["-f", "--format", "-o", "--output"], 0),
    wrapper("timeout", None, &["-s", "--signal", "-k", "--kill-after"], 1),
    wrapper("sudo", None, SUDO, 0),
    wrapper("tini", None, &["-p", "-e"], 0),
    wrapper("dumb-init", None, &["-r", "--rewrite"], 0),
    wrapper("docker-init", None, &["-p", "-e"], 0),
    wrapper("catatonit", None, &[], 0),
    wrapper("uv", Some("run"), UV, 0),
    wrapper("uvx", None, UV, 0),
    wrapper("poetry", Some("run"), &["-C", "--directory", "-P", "--project"], 0),
    wrapper("pipenv", Some("run"), &[], 0),
    wrapper("pixi", Some("run"), &["-e", "--environment", "--manifest-path"], 0),
    wrapper("conda", Some("run"), CONDA, 0),
    wrapper("mamba", Some("run"), CONDA, 0),
    wrapper("micromamba", Some("run"), CONDA, 0),
];

impl Wrapper {
    /// The command that it runs.
    fn inside<'a>(&self, args: &'a [String]) -> Option<&'a [String]> {
        let mut verb = self.verb;
        let mut own = self.own;
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            if first == "--" {
                return Some(after);
            }
            // uv starts a Python module itself.
            if first == "-m" && !self.with_value.contains(&"-m") {
                return Some(rest);
            }
            if first.starts_with('-') {
                let value = usize::from(self.with_value.contains(&first.as_str()));
                rest = after.get(value..)?;
                continue;
            }
            match verb {
                Some(word) if word == first => verb = None,
                Some(_) => return None,
                None if is_assignment(first) => {}
                None if own > 0 => own -= 1,
                None => return Some(rest),
            }
            rest = after;
        }
        None
    }
}

/// Programs and modules that start a Python program named among their arguments.
const LAUNCHERS: &[&str] = &[
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate-launch",
    "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli",
    "deepspeed",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
    "debugpy",
];

/// What a program was started as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An executable, or what a process calls itself.
    Binary,
    /// What runs a script.
    Interpreter,
    /// A file that an interpreter runs.
    Script,
    /// A module of Python's.
    Module,
}

/// A program that a command line names.
pub(super) struct Program<'a> {
    /// What it was started as.
    pub(super) kind: Kind,
    /// Its path, or the module's name.
    pub(super) name: &'a str,
    /// Its arguments.
    args: &'a [String],
}

impl<'a> Program<'a> {
    /// Its name without directories.
    pub(super) fn base(&self) -> &'a str {
        base(self.name)
    }

    /// Its first argument that is no option.
    pub(super) fn verb(&self) -> Option<&'a str> {
        self.args.iter().map(String::as_str).find(|arg| !arg.starts_with('-'))
    }

    /// The value of a flag, the last one when it is given several times; empty when the value is
    /// missing. `_` and `-` are the same in its name, and a name may be shortened down to `shortest`.
    pub(super) fn value(&self, flag: &str, shortest: &str) -> Option<&'a str> {
        let mut found = None;
        let mut args = self.args.iter();
        while let Some(arg) = args.next().filter(|arg| *arg != "--") {
            let (head, glued) = match arg.split_once('=') {
                Some((head, value)) => (head, Some(value)),
                None => (arg.as_str(), None),
            };
            if same_flag(head, flag, shortest) {
                let next = || args.as_slice().first().map_or("", String::as_str);
                found = Some(glued.unwrap_or_else(next));
            }
        }
        found
    }
}

fn same_flag(head: &str, flag: &str, shortest: &str) -> bool {
    if !head.starts_with("--") {
        return head == flag;
    }
    let plain = |byte| if byte == b'_' { b'-' } else { byte };
    // Nothing is copied: a copy would have to be wiped, too.
    (shortest.len()..=flag.len()).contains(&head.len())
        && head.bytes().zip(flag.bytes()).all(|(a, b)| plain(a) == plain(b))
}

/// `/proc/PID/cmdline`. What it holds is overwritten before it is freed.
pub struct CommandLine {
    args: Vec<String>,
    cut: bool,
}

impl Drop for CommandLine {
    fn drop(&mut self) {
        self.args.drain(..).for_each(wipe_text);
    }
}

/// An argument as text. One that had to grow would leave its beginning behind.
fn text(arg: &[u8]) -> String {
    let longest = char::REPLACEMENT_CHARACTER.len_utf8();
    let mut text = String::with_capacity(match std::str::from_utf8(arg) {
        Ok(_) => arg.len(),
        Err(_) => arg.len() * longest,
    });
    for chunk in arg.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

impl CommandLine {
    /// From the file's bytes; `cut` when there may be more of it.
    #[must_use]
    pub fn new(raw: &[u8], cut: bool) -> Self {
        let end = raw.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let whole = end < raw.len() || !cut;
        let args = match end {
            0 => Vec::new(),
            _ => raw[..end].split(|byte| *byte == 0).map(text).collect(),
        };
        let mut line = Self { args, cut };
        if !whole {
            // Half a value is another value.
            line.args.pop().into_iter().for_each(wipe_text);
        }
        // A program that gave itself a title has its old arguments overwritten by one text.
        if let [title] = line.args.as_slice()
            && title.contains(char::is_whitespace)
        {
            let args = title.split_whitespace().map(str::to_owned).collect();
            return Self { args, cut };
        }
        line
    }

    /// Whether there may be more arguments than can be seen.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether nothing is left of it: a kernel thread, or a process that has ended.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// The programs that it names, the outermost first, without shells and wrappers.
    pub(super) fn programs(&self) -> Vec<Program<'_>> {
        let mut found = Vec::new();
        walk(&self.args, &mut found);
        found
    }
}

/// What is run when an argument list is.
fn walk<'a>(args: &'a [String], found: &mut Vec<Program<'a>>) {
    let mut args = args;
    for _ in 0..MAX_PROGRAMS {
        let Some((first, after)) = args.split_first() else { return };
        let name = base(first);
        if SHELLS.contains(&name.trim_start_matches('-')) {
            return;
        }
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            let Some(inside) = wrapper.inside(after) else { return };
            args = inside;
            continue;
        }
        if first == "-m" {
            python(args, found);
        } else if is_python(name) {
            found.push(Program { kind: Kind::Interpreter, name: first, args: &[] });
            python(after, found);
        } else if is_node(name) {
            found.push(Program { kind: Kind::Interpreter, name: first, args: &[] });
            let script = after.iter().position(|arg| !arg.starts_with('-'));
            if let Some([script, args @ ..]) = script.map(|at| &after[at..]) {
                found.push(Program { kind: Kind::Script, name: script, args });
            }
        } else {
            let kind = if is_file_of_python(first) { Kind::Script } else { Kind::Binary };
            run(kind, first, after, found);
        }
        return;
    }
}

/// What Python's own arguments say that it runs.
fn python<'a>(args: &'a [String], found: &mut Vec<Program<'a>>) {
    let mut args = args;
    while let Some((first, after)) = args.split_first() {
        args = after;
        let Some(letters) = first.strip_prefix('-') else {
            return run(Kind::Script, first, after, found);
        };
        if letters.is_empty() {
            return;
        }
        let long = letters.starts_with('-');
        let mut takes_next = letters == "-check-hash-based-pycs";
        for (at, letter) in letters.char_indices().take_while(|_| !long) {
            let glued = &letters[at + letter.len_utf8()..];
            match letter {
                'm' if glued.is_empty() => {
                    let Some((module, rest)) = after.split_first() else { return };
                    return run(Kind::Module, module, rest, found);
                }
                'm' => return run(Kind::Module, glued, after, found),
                // A program in an argument has no name, and is nobody's business.
                'c' => return,
                'X' | 'W' => {
                    takes_next = glued.is_empty();
                    break;
                }
                _ => {}
            }
        }
        args = args.get(usize::from(takes_next)..).unwrap_or_default();
    }
}

/// A program, and the one that it launches.
fn run<'a>(kind: Kind, name: &'a str, args: &'a [String], found: &mut Vec<Program<'a>>) {
    found.push(Program { kind, name, args });
    let called = if kind == Kind::Module { name } else { base(name) };
    if found.len() >= MAX_PROGRAMS || !LAUNCHERS.contains(&called) {
        return;
    }
    let module = |arg: &String| arg == "-m" || arg == "--module";
    let script = |arg: &String| !arg.starts_with('-') && is_file_of_python(arg);
    match args.iter().position(|arg| module(arg) || script(arg)).map(|at| &args[at..]) {
        Some([flag, name, rest @ ..]) if module(flag) => run(Kind::Module, name, rest, found),
        Some([name, rest @ ..]) if script(name) => run(Kind::Script, name, rest, found),
        _ => {}
    }
}

/// A path's last component.
pub(super) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a path is that of a Python script, and not of a program that happens to be written in it.
pub(super) fn is_file_of_python(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension == "py")
}

/// Whether a program or a thread of that name is Python.
pub(super) fn is_python(name: &str) -> bool {
    // torch gives its main thread a name of its own.
    name == "pt_main_thread"
        || ["python", "pypy", "ipython"].iter().any(|python| {
            name.strip_prefix(python)
                .is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        })
}

/// Whether a program or a thread of that name is Node.js.
pub(super) fn is_node(name: &str) -> bool {
    ["node", "nodejs", "node-MainThread"].contains(&name)
}

fn is_assignment(arg: &str) -> bool {
    arg.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// A number above 0 and not above 1.
pub(super) fn share(text: &str) -> Option<Ratio> {
    let share: f64 = text.trim().parse().ok()?;
    (share > 0.0 && share <= 1.0).then_some(Ratio(share))
}

/// A share that an environment may set.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Share {
    /// It does not.
    Unset,
    /// What it sets is no share.
    Malformed,
    /// It does.
    Of(Ratio),
}

/// What is kept of `/proc/PID/environ`: whether some variables are there, and one number.
pub struct Environment {
    nim: bool,
    torchrun: bool,
    managed_memory: bool,
    cuda_fraction: Share,
}

/// A variable, and what is kept of it.
type Keep = (&'static str, fn(&mut Environment, &str));

const VARIABLES: &[Keep] = &[
    ("NIM_MODEL_NAME", |kept, _| kept.nim = true),
    ("NIM_CACHE_PATH", |kept, _| kept.nim = true),
    ("NIM_MODEL_PROFILE", |kept, _| kept.nim = true),
    ("LOCAL_RANK", |kept, _| kept.torchrun = true),
    // llama.cpp asks whether it is set, not to what.
    ("GGML_CUDA_ENABLE_UNIFIED_MEMORY", |kept, _| kept.managed_memory = true),
    // What TGI's launcher takes for --cuda-memory-fraction and hands to its shards.
    ("CUDA_MEMORY_FRACTION", |kept, text| {
        kept.cuda_fraction = share(text).map_or(Share::Malformed, Share::Of);
    }),
];

impl Environment {
    /// From the file's bytes.
    #[must_use]
    pub fn new(raw: &[u8]) -> Self {
        let mut kept = Self {
            nim: false,
            torchrun: false,
            managed_memory: false,
            cuda_fraction: Share::Unset,
        };
        for entry in raw.split(|byte| *byte == 0) {
            let Some(at) = entry.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&entry[..at], &entry[at + 1..]);
            if let Some((_, keep)) = VARIABLES.iter().find(|(known, _)| known.as_bytes() == name) {
                keep(&mut kept, std::str::from_utf8(value).unwrap_or_default());
            }
        }
        kept
    }

    /// Whether this is in the container of an NVIDIA NIM.
    #[must_use]
    pub const fn is_nim(&self) -> bool {
        self.nim
    }

    /// Whether torchrun or something alike started it as one of several.
    #[must_use]
    pub const fn is_torchrun(&self) -> bool {
        self.torchrun
    }

    /// Whether llama.cpp takes managed memory, which the driver counts only in part.
    #[must_use]
    pub const fn has_managed_memory(&self) -> bool {
        self.managed_memory
    }

    /// The share of the GPU's memory that TGI may take.
    pub(super) const fn cuda_fraction(&self) -> Share {
        self.cuda_fraction
    }
}

#[cfg(test)]
pub(super) mod tests;

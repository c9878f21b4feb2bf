//! Which bound a process was given: one table of the flags of each engine.
//!
//! What is not on the command line is never assumed: engines have changed their defaults, and a wrong
//! bound is worse than none.

use super::classes::{Match, classify, program_of};
use super::command::{CommandLine, Environment, Program, Share, share};
use crate::model::workload::{CapSetting, Class, ClassName};
use crate::units::{Bytes, KIB};
use Match::{Command, Module, Path, Program as Named};

/// How the value of a flag is read.
#[derive(Clone, Copy)]
enum Reads {
    /// A share of the pool.
    Whole,
    /// Bytes for the key-value cache.
    KvBytes,
    /// A share of what is free.
    OfFree,
    /// A bound that cannot be told as a share of the pool.
    Untold,
}

/// A flag that bounds what an engine takes.
struct Flag {
    name: &'static str,
    /// argparse takes the beginning of a name for the name, as long as no other begins so.
    shortest: &'static str,
    reads: Reads,
}

const fn flag(name: &'static str, shortest: &'static str, reads: Reads) -> Flag {
    Flag { name, shortest, reads }
}

/// A file of settings.
struct File {
    flag: &'static str,
    /// What it says counts more than the command line.
    wins: bool,
}

const fn file(flag: &'static str, wins: bool) -> File {
    File { flag, wins }
}

/// An engine with flags of its own.
struct Engine {
    class: Class,
    /// The programs that take its flags.
    takes: &'static [Match],
    /// What counts most comes first.
    flags: &'static [Flag],
    files: &'static [File],
}

const ENGINES: &[Engine] = &[
    Engine {
        class: Class::Vllm,
        takes: &[
            Named("vllm"),
            Module("vllm.entrypoints"),
            Path("vllm/entrypoints"),
            Module("dynamo.vllm"),
            Command("trl", &["vllm-serve"]),
            Module("trl.scripts.vllm_serve"),
            Module("vllm_nvext.entrypoints"),
            Module("nim_llm_sdk.entrypoints"),
        ],
        flags: &[
            // vLLM's own log recommends the short form.
            flag("--kv-cache-memory-bytes", "--kv-cache-memory", Reads::KvBytes),
            // A patch that owners of these machines use: GiB instead of a share.
            flag("--gpu-memory-utilization-gb", "--gpu-memory-utilization-gb", Reads::Untold),
            flag("--gpu-memory-utilization", "--gpu-memory", Reads::Whole),
        ],
        files: &[file("--config", false)],
    },
    Engine {
        class: Class::Sglang,
        takes: &[
            Named("sglang"),
            Module("sglang.launch_server"),
            Module("sglang.srt"),
            Path("sglang/launch_server.py"),
            Module("dynamo.sglang"),
        ],
        flags: &[flag("--mem-fraction-static", "--mem-fraction", Reads::OfFree)],
        files: &[file("--config", false)],
    },
    Engine {
        class: Class::TensorrtLlm,
        takes: &[
            Named("trtllm-serve"),
            Named("trtllm-bench"),
            Module("tensorrt_llm"),
            Path("tensorrt_llm/commands"),
            Module("dynamo.trtllm"),
        ],
        flags: &[
            flag(
                "--kv_cache_free_gpu_memory_fraction",
                "--kv_cache_free_gpu_memory_fraction",
                Reads::OfFree,
            ),
            flag(
                "--kv_cache_free_gpu_mem_fraction",
                "--kv_cache_free_gpu_mem_fraction",
                Reads::OfFree,
            ),
            flag("--free_gpu_memory_fraction", "--free_gpu_memory_fraction", Reads::OfFree),
        ],
        // "Overwrites the parameters", its help says.
        files: &[
            file("--extra_llm_api_options", true),
            file("--config", true),
            file("--extra-engine-args", true),
            file("--override-engine-args", true),
        ],
    },
    Engine {
        class: Class::Tgi,
        takes: &[
            Named("text-generation-launcher"),
            Named("text-generation-server"),
            Named("text-generation-router"),
            Module("text_generation_server"),
        ],
        flags: &[flag("--cuda-memory-fraction", "--cuda-memory-fraction", Reads::Whole)],
        files: &[],
    },
];

impl Engine {
    /// The bound that a process of it was given.
    fn cap(&self, line: Option<&CommandLine>, env: Option<&Environment>) -> CapSetting {
        // One that gave itself a title, or a program around its Python interface.
        let Some((line, program)) =
            line.and_then(|line| Some((line, program_of(line, self.takes)?)))
        else {
            return CapSetting::Unknown;
        };
        let given = |file: &&File| program.value(file.flag, file.flag).is_some();
        let files: Vec<&File> = self.files.iter().filter(given).collect();
        if files.iter().any(|file| file.wins) {
            return CapSetting::Unknown;
        }
        match self.flagged(&program) {
            Some(cap) => cap,
            None if line.is_cut() || !files.is_empty() => CapSetting::Unknown,
            None if self.class == Class::Tgi => from_environment(env),
            None => CapSetting::None,
        }
    }

    /// What its flags say.
    fn flagged(&self, program: &Program<'_>) -> Option<CapSetting> {
        self.flags.iter().find_map(|flag| {
            let text = program.value(flag.name, flag.shortest)?;
            Some(flag.reads.cap(text).unwrap_or(CapSetting::Unknown))
        })
    }
}

impl Reads {
    fn cap(self, text: &str) -> Option<CapSetting> {
        match self {
            Self::Whole => share(text).map(CapSetting::Whole),
            Self::KvBytes => bytes(text).map(CapSetting::KvOnly),
            Self::OfFree => share(text).map(CapSetting::FractionOfFree),
            Self::Untold => None,
        }
    }
}

fn from_environment(env: Option<&Environment>) -> CapSetting {
    match env.map(Environment::cuda_fraction) {
        Some(Share::Of(share)) => CapSetting::Whole(share),
        Some(Share::Unset) => CapSetting::None,
        Some(Share::Malformed) | None => CapSetting::Unknown,
    }
}

/// The letters that vLLM takes behind a number: small ones decimal, capital ones binary.
const SUFFIXES: &[(char, u64)] = &[
    ('k', 1000),
    ('m', 1000_u64.pow(2)),
    ('g', 1000_u64.pow(3)),
    ('t', 1000_u64.pow(4)),
    ('K', KIB),
    ('M', KIB.pow(2)),
    ('G', KIB.pow(3)),
    ('T', KIB.pow(4)),
];

/// Bytes as vLLM reads them: "36864M", "25.6g", or a plain number. Only decimal units have fractions.
fn bytes(text: &str) -> Option<Bytes> {
    let text = text.trim();
    let suffix = SUFFIXES
        .iter()
        .find_map(|(letter, unit)| Some((text.strip_suffix(*letter)?, *unit, *letter)));
    let (number, unit, fractions) = match suffix {
        Some((number, unit, letter)) => (number, unit, letter.is_ascii_lowercase()),
        None => (text, 1, false),
    };
    let (whole, part) = match number.split_once('.') {
        Some(_) if !fractions => return None,
        Some(halves) => halves,
        None => (number, "0"),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = part.parse::<u128>().ok()?.checked_mul(unit.into())? / scale;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let bytes = whole.checked_add(u64::try_from(part).ok()?)?;
    (bytes > 0).then_some(Bytes(bytes))
}

/// The bound that a process was given.
#[must_use]
pub fn cap(class: &ClassName, line: Option<&CommandLine>, env: Option<&Environment>) -> CapSetting {
    if class.own.is_some() {
        return own(line, env);
    }
    match class.class {
        Class::Vllm | Class::Sglang | Class::TensorrtLlm | Class::Tgi => ENGINES
            .iter()
            .find(|engine| engine.class == class.class)
            .map_or(CapSetting::Unknown, |engine| engine.cap(line, env)),
        // Its own program chooses, unless somebody overrode it in sight of everybody.
        Class::Nim => ENGINES
            .iter()
            .map(|engine| engine.cap(line, env))
            .find(|cap| !matches!(cap, CapSetting::None | CapSetting::Unknown))
            .unwrap_or(CapSetting::Unknown),
        Class::Triton => CapSetting::Unknown,
        Class::LlamaCpp | Class::Ollama | Class::LmStudio => CapSetting::Fixed,
        Class::LlamaSwap
        | Class::Comfyui
        | Class::Ray
        | Class::Trl
        | Class::Axolotl
        | Class::Unsloth
        | Class::LlamaFactory
        | Class::Torchtune
        | Class::Nemo
        | Class::Deepspeed
        | Class::Accelerate
        | Class::Torchrun
        | Class::Python
        | Class::Notebook
        | Class::Compiler
        | Class::Desktop
        | Class::Other => CapSetting::None,
    }
}

/// The bound of what the operator has a name for: whatever is below that name.
fn own(line: Option<&CommandLine>, env: Option<&Environment>) -> CapSetting {
    let Some(line) = line else { return CapSetting::Unknown };
    match classify("", Some(line), env, None, &[], false) {
        Some(class) => cap(&class, Some(line), env),
        None => CapSetting::None,
    }
}

#[cfg(test)]
mod tests;

//! What a process is: one table of what its name, its command line and its directory tell.

use super::command::{
    CommandLine, Environment, Kind, Program, base, is_file_of_python, is_node, is_python,
};
use crate::model::naming::OwnClass;
use crate::model::workload::{Class, ClassName, Family};

/// The kernel keeps so many bytes of a thread's name.
const COMM: usize = 15;

/// What is looked at.
pub(super) enum Match {
    /// What a process calls itself begins so, in small or capital letters.
    Title(&'static str),
    /// A program or script of that name.
    Program(&'static str),
    /// The same, with one of these verbs as its first argument.
    Command(&'static str, &'static [&'static str]),
    /// The same, below a directory of that name.
    ProgramBelow(&'static str, &'static str),
    /// A module, or one inside it.
    Module(&'static str),
    /// Parts of a path in a row.
    Path(&'static str),
    /// A script of that name in a directory of that name.
    ScriptIn(&'static str, &'static str),
    /// A word in the path of a Python script, however it is written.
    Word(&'static str),
    /// A Python program with that flag.
    Flag(&'static str),
}

use Match::{Command, Flag, Module, Path, Program as Named, ProgramBelow, ScriptIn, Title, Word};

/// A class and what tells it. Of one program the first row that matches counts.
struct Row {
    class: Class,
    what: Match,
    /// The name alone is not enough: others have it who do nothing with the GPU.
    on_gpu: bool,
}

const fn row(class: Class, what: Match) -> Row {
    Row { class, what, on_gpu: false }
}

const fn on_gpu(class: Class, what: Match) -> Row {
    Row { class, what, on_gpu: true }
}

const ROWS: &[Row] = &[
    row(Class::Nim, Module("vllm_nvext")),
    row(Class::Nim, Module("nim_llm_sdk")),
    row(Class::Vllm, Title("vllm::")),
    row(Class::Vllm, Command("vllm", &["serve", "run-batch"])),
    row(Class::Vllm, Module("vllm.entrypoints")),
    row(Class::Vllm, Path("vllm/entrypoints")),
    row(Class::Vllm, Module("dynamo.vllm")),
    row(Class::Vllm, Command("trl", &["vllm-serve"])),
    row(Class::Vllm, Module("trl.scripts.vllm_serve")),
    on_gpu(Class::Vllm, Named("vllm")),
    on_gpu(Class::Vllm, Module("vllm")),
    row(Class::Sglang, Title("sglang::")),
    row(Class::Sglang, Command("sglang", &["serve"])),
    row(Class::Sglang, Module("sglang.launch_server")),
    row(Class::Sglang, Module("sglang.srt")),
    row(Class::Sglang, Path("sglang/launch_server.py")),
    row(Class::Sglang, Module("dynamo.sglang")),
    on_gpu(Class::Sglang, Named("sglang")),
    on_gpu(Class::Sglang, Module("sglang")),
    row(Class::TensorrtLlm, Named("trtllm-serve")),
    row(Class::TensorrtLlm, Named("trtllm-bench")),
    row(Class::TensorrtLlm, Module("tensorrt_llm")),
    row(Class::TensorrtLlm, Path("tensorrt_llm/commands")),
    row(Class::TensorrtLlm, Module("dynamo.trtllm")),
    row(Class::LlamaSwap, Named("llama-swap")),
    // Both bring a llama-server of their own.
    row(Class::Ollama, ProgramBelow("llama-server", "ollama")),
    row(Class::Ollama, Command("ollama", &["serve", "start", "runner"])),
    row(Class::Ollama, Named("ollama_llama_server")),
    row(Class::LmStudio, Path(".lmstudio/extensions")),
    row(Class::LmStudio, Path(".lmstudio/.internal")),
    row(Class::LmStudio, Path(".lmstudio/llmster")),
    row(Class::LmStudio, Named("llmster")),
    row(Class::LmStudio, Named("lm-studio")),
    row(Class::LmStudio, Title("LM-Studio")),
    row(Class::LmStudio, Title("LM Studio")),
    row(Class::LlamaCpp, Named("llama-server")),
    row(Class::LlamaCpp, Named("llama-cli")),
    row(Class::LlamaCpp, Named("llama-run")),
    row(Class::LlamaCpp, Named("llama-bench")),
    row(Class::LlamaCpp, Named("llama-batched-bench")),
    row(Class::LlamaCpp, Named("llama-perplexity")),
    row(Class::LlamaCpp, Named("llama-mtmd-cli")),
    row(Class::LlamaCpp, Named("llama-embedding")),
    row(Class::LlamaCpp, Named("rpc-server")),
    row(Class::LlamaCpp, Named("ggml-rpc-server")),
    row(Class::LlamaCpp, Command("llama", &["serve", "run", "cli"])),
    row(Class::LlamaCpp, Module("llama_cpp.server")),
    row(Class::Tgi, Named("text-generation-launcher")),
    row(Class::Tgi, Named("text-generation-router")),
    row(Class::Tgi, Named("text-generation-server")),
    row(Class::Tgi, Module("text_generation_server")),
    row(Class::Triton, Named("tritonserver")),
    row(Class::Triton, Named("triton_python_backend_stub")),
    row(Class::Comfyui, ScriptIn("main.py", "ComfyUI")),
    row(Class::Comfyui, Command("comfy", &["launch"])),
    row(Class::Ray, Title("ray::")),
    row(Class::Ray, Named("raylet")),
    row(Class::Ray, Named("gcs_server")),
    row(Class::Ray, Command("ray", &["start"])),
    row(Class::Ray, Path("ray/_private")),
    row(Class::Ray, Path("ray/dashboard")),
    row(Class::Ray, Path("ray/autoscaler")),
    row(Class::Trl, Command("trl", &["sft", "dpo", "grpo", "kto", "reward", "rloo"])),
    row(Class::Trl, Module("trl")),
    row(Class::Axolotl, Named("axolotl")),
    row(Class::Axolotl, Module("axolotl")),
    row(Class::Unsloth, Named("unsloth")),
    row(Class::Unsloth, Named("unsloth-cli.py")),
    row(Class::Unsloth, Module("unsloth")),
    row(Class::LlamaFactory, Named("llamafactory-cli")),
    row(Class::LlamaFactory, Command("lmf", &["train", "webui", "chat", "api", "export", "eval"])),
    row(Class::LlamaFactory, Module("llamafactory")),
    row(Class::Torchtune, Command("tune", &["run"])),
    row(Class::Torchtune, Module("torchtune")),
    row(Class::Nemo, Command("nemo", &["llm", "vlm", "diffusion", "experiment"])),
    row(Class::Nemo, Command("automodel", &["finetune", "pretrain", "kd"])),
    row(Class::Nemo, Module("nemo")),
    row(Class::Nemo, Module("nemo_run")),
    row(Class::Nemo, Module("nemo_rl")),
    row(Class::Nemo, Module("nemo_automodel")),
    row(Class::Nemo, Module("megatron")),
    row(Class::Nemo, Named("pretrain_gpt.py")),
    row(Class::Notebook, Module("ipykernel_launcher")),
    row(Class::Notebook, Module("ipykernel")),
    row(Class::Notebook, Path("ipykernel_launcher.py")),
    row(Class::Notebook, Named("jupyter-lab")),
    row(Class::Notebook, Named("jupyter-notebook")),
    row(Class::Notebook, Named("jupyter-server")),
    row(Class::Notebook, Named("jupyterhub-singleuser")),
    row(Class::Notebook, Command("jupyter", &["lab", "notebook", "server"])),
    row(Class::Notebook, Module("jupyter")),
    row(Class::Notebook, Module("jupyterlab")),
    row(Class::Notebook, Module("jupyter_server")),
    row(Class::Notebook, Module("notebook")),
    row(Class::Deepspeed, Named("deepspeed")),
    row(Class::Deepspeed, Module("deepspeed")),
    row(Class::Accelerate, Command("accelerate", &["launch"])),
    row(Class::Accelerate, Named("accelerate-launch")),
    row(Class::Accelerate, Module("accelerate.commands")),
    row(Class::Torchrun, Named("torchrun")),
    row(Class::Torchrun, Module("torch.distributed.run")),
    row(Class::Torchrun, Module("torch.distributed.launch")),
    row(Class::Unsloth, Word("unsloth")),
    row(Class::Axolotl, Word("axolotl")),
    row(Class::LlamaFactory, Word("llamafactory")),
    row(Class::Torchtune, Word("torchtune")),
    row(Class::Comfyui, Word("comfyui")),
    row(Class::Trl, Word("trl")),
    row(Class::Nemo, Word("nemo")),
    row(Class::Nemo, Word("megatron")),
    row(Class::Deepspeed, Flag("--deepspeed")),
    row(Class::Compiler, Named("nvcc")),
    row(Class::Compiler, Named("cicc")),
    row(Class::Compiler, Named("ptxas")),
    row(Class::Compiler, Named("cudafe++")),
    row(Class::Compiler, Named("fatbinary")),
    row(Class::Compiler, Named("nvlink")),
    row(Class::Compiler, Named("ninja")),
    row(Class::Compiler, Named("cc1")),
    row(Class::Compiler, Named("cc1plus")),
    row(Class::Compiler, Named("clang")),
    row(Class::Compiler, Named("clang++")),
    row(Class::Compiler, Named("ld")),
    row(Class::Compiler, Named("ld.gold")),
    row(Class::Compiler, Named("lld")),
    row(Class::Compiler, Named("ld.lld")),
    on_gpu(Class::Desktop, Named("Xorg")),
    on_gpu(Class::Desktop, Named("Xwayland")),
    on_gpu(Class::Desktop, Named("Xtigervnc")),
    on_gpu(Class::Desktop, Title("gnome-")),
    on_gpu(Class::Desktop, Title("gdm")),
    on_gpu(Class::Desktop, Named("mutter")),
    on_gpu(Class::Desktop, Title("kwin_")),
    on_gpu(Class::Desktop, Title("plasma")),
    on_gpu(Class::Desktop, Named("xfwm4")),
    on_gpu(Class::Desktop, Named("cinnamon")),
    on_gpu(Class::Desktop, Named("sway")),
    on_gpu(Class::Desktop, Named("weston")),
    on_gpu(Class::Desktop, Named("labwc")),
    on_gpu(Class::Desktop, Title("xdg-desktop-por")),
    on_gpu(Class::Desktop, Named("nautilus")),
    on_gpu(Class::Desktop, Named("nvidia-settings")),
    on_gpu(Class::Desktop, Named("sunshine")),
    on_gpu(Class::Desktop, Title("firefox")),
    on_gpu(Class::Desktop, Named("thunderbird")),
    on_gpu(Class::Desktop, Title("chrom")),
    on_gpu(Class::Desktop, Named("msedge")),
    on_gpu(Class::Desktop, Named("brave")),
    on_gpu(Class::Desktop, Named("code")),
    on_gpu(Class::Desktop, Named("slack")),
    on_gpu(Class::Desktop, Named("totem")),
    on_gpu(Class::Desktop, Named("vlc")),
    on_gpu(Class::Desktop, Named("mpv")),
];

/// Engines that run inside a NIM.
const IN_A_NIM: &[Class] = &[Class::Vllm, Class::Sglang, Class::TensorrtLlm, Class::Triton];

impl Match {
    /// Whether a program is meant.
    fn program(&self, program: &Program<'_>, cwd: Option<&str>) -> bool {
        let interpreter = program.kind == Kind::Interpreter;
        let module = program.kind == Kind::Module;
        let named = |name: &str| !interpreter && !module && program.base() == name;
        match *self {
            Title(prefix) => {
                program.kind == Kind::Binary
                    && (begins(program.name, prefix) || begins(program.base(), prefix))
            }
            Named(name) => named(name),
            Command(name, verbs) => {
                named(name) && program.verb().is_some_and(|verb| verbs.contains(&verb))
            }
            ProgramBelow(name, dir) => named(name) && program.name.split('/').any(|d| d == dir),
            Module(name) => {
                module
                    && program
                        .name
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
            Path(parts) => !module && has_parts(program.name, parts),
            ScriptIn(script, dir) => {
                program.kind == Kind::Script
                    && named(script)
                    && directory(program.name, cwd).is_some_and(|d| d.eq_ignore_ascii_case(dir))
            }
            Word(word) => program.kind == Kind::Script && has_word(program.name, word),
            Flag(flag) => {
                (module || program.kind == Kind::Script) && program.value(flag, flag).is_some()
            }
        }
    }

    /// Whether a thread's name alone says so.
    fn comm(&self, comm: &str) -> bool {
        match *self {
            Title(prefix) => begins(comm, prefix),
            Named(name) => cut(name) == comm,
            // These words are no use without the verb, but for programs that are called nothing else.
            Command(name @ ("vllm" | "sglang" | "ollama"), _) => name == comm,
            _ => false,
        }
    }

    /// Whether a process with that thread name may be meant once its command line is read.
    fn may_be(&self, comm: &str) -> bool {
        match *self {
            Command(name, _) | ProgramBelow(name, _) => cut(name) == comm,
            _ => self.comm(comm),
        }
    }
}

/// A thread's name as the kernel cuts it.
fn cut(name: &str) -> &str {
    name.get(..COMM).unwrap_or(name)
}

fn begins(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Whether parts of a path stand in a row in another.
fn has_parts(path: &str, parts: &str) -> bool {
    path.match_indices(parts).any(|(at, _)| {
        (at == 0 || path[..at].ends_with('/')) && {
            let after = &path[at + parts.len()..];
            after.is_empty() || after.starts_with('/')
        }
    })
}

/// The directory of a script: that of its path, or else where the process is.
fn directory<'a>(path: &'a str, cwd: Option<&'a str>) -> Option<&'a str> {
    match path.rsplit_once('/') {
        Some((dir, _)) if dir != "." => Some(base(dir)),
        _ => cwd.map(|cwd| base(cwd.trim_end_matches('/'))),
    }
}

/// Whether a word stands in the path of a Python script, with or without other characters inside:
/// "LLaMA-Factory" is "llamafactory".
fn has_word(path: &str, word: &str) -> bool {
    if !is_file_of_python(path) {
        return false;
    }
    // Where an environment lies says nothing about a program that is installed in it.
    let installed = path.rfind("-packages/").map_or(0, |at| at + "-packages/".len());
    path[installed..].split('/').any(|part| {
        let words: Vec<String> = part
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        (0..words.len()).any(|from| spells(&words[from..], word))
    })
}

/// Whether words that follow each other make up another.
fn spells(words: &[String], word: &str) -> bool {
    let mut rest = word;
    for next in words {
        match rest.strip_prefix(next.as_str()) {
            Some("") => return true,
            Some(left) => rest = left,
            None => return false,
        }
    }
    false
}

/// What a process shows of itself.
struct Seen<'a> {
    comm: &'a str,
    /// Absent when there is no command line to go by.
    programs: Option<Vec<Program<'a>>>,
    cwd: Option<&'a str>,
}

impl Seen<'_> {
    /// The class that tells most; of two that tell as much, that of the innermost program.
    fn class(&self, on_gpu: bool) -> Option<Class> {
        let rows = || ROWS.iter().filter(|row| on_gpu || !row.on_gpu);
        // What a process calls itself counts beside its command line.
        let titled = rows().find(|row| matches!(row.what, Title(_)) && row.what.comm(self.comm));
        if let Some(row) = titled {
            return Some(row.class);
        }
        let Some(programs) = &self.programs else {
            return rows().find(|row| row.what.comm(self.comm)).map(|row| row.class);
        };
        let of = |program| rows().find(|row| row.what.program(program, self.cwd));
        programs.iter().filter_map(of).map(|row| row.class).max_by_key(|class| class.precision())
    }

    fn is_python(&self) -> bool {
        let program = |p: &Program<'_>| p.kind == Kind::Interpreter && is_python(p.base());
        is_python(self.comm) || self.programs.iter().flatten().any(program)
    }
}

/// The class of a process, where anything tells it; of one that uses the GPU something always does.
#[must_use]
pub fn classify(
    comm: &str,
    line: Option<&CommandLine>,
    env: Option<&Environment>,
    cwd: Option<&str>,
    own: &[OwnClass],
    on_gpu: bool,
) -> Option<ClassName> {
    let programs = line.filter(|line| !line.is_empty()).map(CommandLine::programs);
    let seen = Seen { comm, programs, cwd };
    if let Some(own) = own.iter().find(|own| is_own(own, &seen)) {
        return Some(ClassName { class: Class::Other, own: Some(own.name.clone()) });
    }
    let mut class = seen.class(on_gpu);
    if class.is_none() && on_gpu {
        class = Some(if seen.is_python() { Class::Python } else { Class::Other });
    }
    if let Some(env) = env {
        // Whoever opens a shell in the container has the same variables.
        let engine = class.is_some_and(|class| IN_A_NIM.contains(&class))
            || (on_gpu && matches!(class, Some(Class::Python | Class::Other)));
        let plain = class.is_none() || class == Some(Class::Python);
        if env.is_nim() && engine {
            class = Some(Class::Nim);
        } else if env.is_torchrun() && plain && seen.is_python() {
            class = Some(Class::Torchrun);
        }
    }
    class.map(ClassName::from)
}

/// The class that a thread's name alone tells, as of a process that is no more.
#[must_use]
pub fn named(comm: &str) -> Option<Class> {
    Seen { comm, programs: None, cwd: None }.class(true)
}

/// Whether the command line of a process with that thread name is worth reading. Every process of the
/// box is asked, so shells, the desktop and compilers, whose name is enough, are not.
#[must_use]
pub fn wants_command_line(comm: &str) -> bool {
    // Node.js calls its first thread so.
    is_python(comm)
        || is_node(comm)
        || comm == "MainThread"
        || ROWS.iter().any(|row| {
            !matches!(row.class.family(), Family::Compiler | Family::Desktop)
                && row.what.may_be(comm)
        })
}

/// The program of a command line that one of these rows means.
pub(super) fn program_of<'a>(line: &'a CommandLine, rows: &[Match]) -> Option<Program<'a>> {
    line.programs().into_iter().rev().find(|p| rows.iter().any(|row| row.program(p, None)))
}

/// Whether a process has named itself as one that works for a server: `VLLM::EngineCore`, `sglang::scheduler`.
pub(super) fn works_for_another(comm: &[u8]) -> bool {
    comm.windows(2).any(|pair| pair == b"::")
}

/// Whether a process of this name may be of an operator's class, which its command line would tell.
pub(super) fn own_wants_command_line(own: &OwnClass, comm: &str) -> bool {
    own.patterns.iter().any(|pattern| fits(cut(pattern), comm))
}

/// Whether a process is of an operator's class.
fn is_own(own: &OwnClass, seen: &Seen<'_>) -> bool {
    let is = |text: &str| own.patterns.iter().any(|pattern| fits(pattern, text));
    let program = |program: &Program<'_>| {
        is(program.base()) || program.kind == Kind::Module && is(program.name)
    };
    match &seen.programs {
        Some(programs) => is(seen.comm) || programs.iter().any(program),
        None => own_wants_command_line(own, seen.comm),
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == pattern,
    }
}

#[cfg(test)]
mod tests;

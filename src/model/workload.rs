//! Jobs on the box: which processes belong together, what they hold, and what they may still take.

mod rows;

pub use rows::{FIELDS, IS};

use super::reading::{Missing, Reading};
use crate::units::{Bytes, Count, Ratio, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

states! {
    /// What a program is, where its name or its command line tells.
    Class {
        /// vLLM: its server, its engine's core, its workers.
        Vllm = "vllm",
        /// SGLang.
        Sglang = "sglang",
        /// TensorRT-LLM.
        TensorrtLlm = "tensorrt_llm",
        /// An NVIDIA NIM, whatever engine it runs.
        Nim = "nim",
        /// llama.cpp.
        LlamaCpp = "llama_cpp",
        /// llama-swap, which starts and stops other servers.
        LlamaSwap = "llama_swap",
        /// Ollama and its runners.
        Ollama = "ollama",
        /// LM Studio.
        LmStudio = "lm_studio",
        /// Text Generation Inference.
        Tgi = "tgi",
        /// Triton Inference Server.
        Triton = "triton",
        /// ComfyUI.
        Comfyui = "comfyui",
        /// Ray.
        Ray = "ray",
        /// TRL.
        Trl = "trl",
        /// Axolotl.
        Axolotl = "axolotl",
        /// Unsloth.
        Unsloth = "unsloth",
        /// LLaMA-Factory.
        LlamaFactory = "llama_factory",
        /// torchtune.
        Torchtune = "torchtune",
        /// NeMo and Megatron.
        Nemo = "nemo",
        /// DeepSpeed.
        Deepspeed = "deepspeed",
        /// Hugging Face Accelerate.
        Accelerate = "accelerate",
        /// torchrun, and processes that it started.
        Torchrun = "torchrun",
        /// A Python program of another kind that uses the GPU.
        Python = "python",
        /// A notebook.
        Notebook = "notebook",
        /// Compilers and what drives them.
        Compiler = "compiler",
        /// The desktop and its programs.
        Desktop = "desktop",
        /// Anything else that uses the GPU.
        Other = "other",
    }
}

states! {
    /// What a class of programs does.
    Family {
        /// Serves a model.
        Server = "server",
        /// Starts others that do the work.
        Launcher = "launcher",
        /// Trains.
        Trainer = "trainer",
        /// Waits for somebody to type.
        Notebook = "notebook",
        /// Compiles.
        Compiler = "compiler",
        /// Draws.
        Desktop = "desktop",
        /// Not to be told.
        Other = "other",
    }
}

impl Class {
    /// What it does.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::Vllm
            | Self::Sglang
            | Self::TensorrtLlm
            | Self::Nim
            | Self::LlamaCpp
            | Self::Ollama
            | Self::LmStudio
            | Self::Tgi
            | Self::Triton
            | Self::Comfyui => Family::Server,
            Self::LlamaSwap | Self::Ray => Family::Launcher,
            Self::Trl
            | Self::Axolotl
            | Self::Unsloth
            | Self::LlamaFactory
            | Self::Torchtune
            | Self::Nemo
            | Self::Deepspeed
            | Self::Accelerate
            | Self::Torchrun => Family::Trainer,
            Self::Notebook => Family::Notebook,
            Self::Compiler => Family::Compiler,
            Self::Desktop => Family::Desktop,
            Self::Python | Self::Other => Family::Other,
        }
    }

    /// How much it tells: of the classes of a tree of processes the one that tells most names the job.
    #[must_use]
    pub const fn precision(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::Python => 1,
            Self::Torchrun | Self::Accelerate | Self::Ray => 2,
            Self::Deepspeed | Self::Notebook => 3,
            _ => 4,
        }
    }
}

/// A class, or what an operator's configuration calls a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassName {
    /// The class; [`Class::Other`] for one of the operator's own.
    pub class: Class,
    /// The name of one of the operator's own.
    pub own: Option<Arc<str>>,
}

impl From<Class> for ClassName {
    fn from(class: Class) -> Self {
        Self { class, own: None }
    }
}

impl ClassName {
    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.own.as_deref().unwrap_or(self.class.as_str())
    }

    /// How much it tells. What the operator names is what it is.
    #[must_use]
    pub const fn precision(&self) -> u8 {
        match self.own {
            Some(_) => 5,
            None => self.class.precision(),
        }
    }
}

states! {
    /// What bounds a job's GPU memory.
    CapKind {
        /// All that it takes is a share of the pool (vLLM's --gpu-memory-utilization).
        Whole = "whole",
        /// Its key-value cache alone has a size (vLLM's --kv-cache-memory-bytes).
        KvOnly = "kv_only",
        /// It takes a share of what was free when it started (SGLang, TensorRT-LLM).
        FractionOfFree = "fraction_of_free",
        /// What it has loaded is all that it takes: model and context (llama.cpp, Ollama).
        Fixed = "fixed",
        /// Nothing does.
        None = "none",
        /// It cannot be seen from outside: a configuration file, a container's wrapper, the Python interface.
        Unknown = "unknown",
    }
}

/// A cap as a command line sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CapSetting {
    /// A share of the pool.
    Whole(Ratio),
    /// Bytes for the key-value cache.
    KvOnly(Bytes),
    /// A share of what is free at the start.
    FractionOfFree(Ratio),
    /// What it has loaded.
    Fixed,
    /// None.
    None,
    /// Not to be seen.
    Unknown,
}

impl CapSetting {
    /// Its kind.
    #[must_use]
    pub const fn kind(self) -> CapKind {
        match self {
            Self::Whole(_) => CapKind::Whole,
            Self::KvOnly(_) => CapKind::KvOnly,
            Self::FractionOfFree(_) => CapKind::FractionOfFree,
            Self::Fixed => CapKind::Fixed,
            Self::None => CapKind::None,
            Self::Unknown => CapKind::Unknown,
        }
    }
}

/// A process that uses the GPU or is of a known class, reduced: nothing of its command line or its
/// environment but what [`CapSetting`] and [`ClassName`] say.
#[derive(Clone, Debug, PartialEq)]
pub struct Proc {
    /// Its name among readings: its pid, or what a scenario calls it.
    pub name: String,
    /// Its pid.
    pub pid: u32,
    /// The pid of the nearest ancestor that is listed too; 0 when there is none.
    pub parent: u32,
    /// When it started, in time since boot. With the pid it is an identity: pids come again.
    pub started: Seconds,
    /// Its class.
    pub class: ClassName,
    /// Its unit: service, slice or container, normalised so that a restart has the same.
    pub unit: Arc<str>,
    /// The cap that it was given.
    pub cap: CapSetting,
    /// Whether it works for a server: an engine's core, a rank, a runner.
    pub worker: bool,
    /// Whether it has ended and its parent has not taken note of it.
    pub zombie: bool,
    /// Memory that is resident.
    pub resident: Reading<Bytes>,
    /// The most that was resident.
    pub resident_peak: Reading<Bytes>,
    /// Anonymous memory that is resident.
    pub anonymous: Reading<Bytes>,
    /// Pages of files that it has mapped and that are resident.
    pub file: Reading<Bytes>,
    /// Shared memory that is resident.
    pub shared: Reading<Bytes>,
    /// Memory that may not be swapped.
    pub locked: Reading<Bytes>,
    /// Memory in swap.
    pub swap: Reading<Bytes>,
    /// Page faults that had to wait for a disk, so far.
    pub major_faults: Reading<Count>,
    /// CPU time so far.
    pub cpu: Reading<Seconds>,
    /// What its control group accounts for. On these machines that is not the GPU's memory.
    pub group_current: Reading<Bytes>,
    /// The limit of that; not present where there is none.
    pub group_limit: Reading<Bytes>,
}

impl Proc {
    /// A process of which only its identity is known.
    #[must_use]
    pub fn new(name: &str, pid: u32, class: ClassName, reason: Missing) -> Self {
        Self {
            name: name.to_owned(),
            pid,
            parent: 0,
            started: Seconds(0.0),
            class,
            unit: "unknown".into(),
            cap: CapSetting::Unknown,
            worker: false,
            zombie: false,
            resident: Err(reason),
            resident_peak: Err(reason),
            anonymous: Err(reason),
            file: Err(reason),
            shared: Err(reason),
            locked: Err(reason),
            swap: Err(reason),
            major_faults: Err(reason),
            cpu: Err(reason),
            group_current: Err(reason),
            group_limit: Err(reason),
        }
    }
}

states! {
    /// How much of the box's processes can be seen.
    View {
        /// All of them.
        Full = "full",
        /// Other users' processes are hidden (hidepid).
        OwnOnly = "own_only",
        /// The GPU is used by processes that are not to be seen here: in a container without the host's pids.
        OtherNamespace = "other_namespace",
        /// The GPU is in use and its driver lists nobody.
        Nobody = "nobody",
        /// Not to be told.
        Unknown = "unknown",
    }
}

impl View {
    /// What helps where not all can be seen.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Full | Self::Unknown => None,
            Self::OwnOnly => Some("run the exporter as root, or mount /proc without hidepid"),
            Self::OtherNamespace | Self::Nobody => {
                Some("give the exporter's container the host's pids (--pid=host, hostPID: true)")
            }
        }
    }
}

/// The processes that matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Processes {
    /// Those that use the GPU or are of a known class, by pid.
    pub list: Reading<Vec<Proc>>,
    /// How many processes there are in all.
    pub count: Reading<Count>,
    /// How many of them could not be looked at.
    pub denied: Reading<Count>,
    /// Whether some were left out because there are too many.
    pub left_out: Reading<Count>,
}

impl super::fields::Group for Processes {
    fn absent(reason: Missing) -> Self {
        Self { list: Err(reason), count: Err(reason), denied: Err(reason), left_out: Err(reason) }
    }
}

states! {
    /// What a job is doing.
    Phase {
        /// It has begun and holds next to nothing yet.
        Starting = "starting",
        /// What it holds grows: a model is loaded.
        Loading = "loading",
        /// It has stopped growing a moment ago, or compiles: graphs are captured, caches laid out.
        Warming = "warming",
        /// What it holds is settled, and it works.
        Serving = "serving",
        /// What it holds is settled, and it does nothing.
        Idle = "idle",
        /// Not to be told.
        Unknown = "unknown",
    }
}

/// What bounds a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cap {
    /// What kind of bound it is.
    pub kind: CapKind,
    /// What was set.
    pub setting: CapSetting,
    /// The bound in bytes: of all that it takes, or, for a key-value cache, of that alone.
    pub bytes: Reading<Bytes>,
    /// Whether it holds more than the bound and what starting takes: then it is no bound.
    pub exceeded: bool,
}

/// Processes that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its class: that of the process of it that tells most.
    pub class: ClassName,
    /// Its unit.
    pub unit: Arc<str>,
    /// The pid of its first process.
    pub pid: u32,
    /// When that started, in time since boot.
    pub started: Seconds,
    /// How many processes.
    pub processes: u64,
    /// What the driver charges to it, on all GPUs.
    pub gpu: Reading<Bytes>,
    /// The part of it that lies in the machine's pool.
    pub in_pool: Reading<Bytes>,
    /// Resident memory, mapped files included.
    pub resident: Reading<Bytes>,
    /// Anonymous and shared resident memory: what it holds beside the GPU's.
    pub host: Reading<Bytes>,
    /// Mapped files that are resident.
    pub file: Reading<Bytes>,
    /// Memory in swap.
    pub swap: Reading<Bytes>,
    /// What the control group of its first process accounts for.
    pub group: Reading<Bytes>,
    /// The limit of that, which does not bind the GPU's memory.
    pub group_limit: Reading<Bytes>,
    /// What bounds it.
    pub cap: Cap,
    /// What it is doing; not present for what neither loads nor serves.
    pub phase: Reading<Phase>,
    /// The most that it held at once, files included, while it loaded.
    pub load_peak: Reading<Bytes>,
    /// What it held when it had settled.
    pub settled: Reading<Bytes>,
    /// Share of a CPU that it uses, in CPUs.
    pub cpus: Reading<Ratio>,
    /// Major faults a second of its processes.
    pub faults: Reading<f64>,
    /// Whether its first process is one that works for a server and not one itself.
    pub worker: bool,
    /// The job that its first process was part of, where that one has lost its own.
    pub left: Option<JobId>,
    /// How it came to be known.
    pub sight: Sight,
    /// Whether something compiles below it.
    pub compiles: bool,
}

/// Which job: the pid of its first process and its start in ticks, for pids come again.
pub type JobId = (u32, u64);

/// How a job came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Only the driver names it, and it may be a process that is not listed yet.
    Unsure,
    /// It was there before.
    Found,
    /// It began under the exporter's eyes.
    Begun,
    /// All of its processes have ended, and their parent has not taken note of it.
    Ended,
}

impl Sight {
    /// Whether it is sure that there is such a job and that it runs.
    #[must_use]
    pub const fn runs(self) -> bool {
        matches!(self, Self::Found | Self::Begun)
    }
}

impl Job {
    /// Which job it is.
    #[must_use]
    pub fn id(&self) -> JobId {
        (self.pid, self.started.ticks())
    }

    /// What it holds of the pool, as far as that is known.
    #[must_use]
    pub fn held(&self) -> Bytes {
        let of = |reading: Reading<Bytes>| reading.map_or(0, |bytes| bytes.0);
        Bytes(of(self.in_pool).saturating_add(of(self.host)))
    }
}

/// All jobs of one class and unit: what series are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The class.
    pub class: ClassName,
    /// The unit; "other" for those that have no series of their own.
    pub unit: Arc<str>,
    /// Processes.
    pub processes: u64,
    /// What the driver charges to them.
    pub gpu: Reading<Bytes>,
    /// Resident memory.
    pub resident: Reading<Bytes>,
    /// Memory in swap.
    pub swap: Reading<Bytes>,
    /// What their control groups account for.
    pub group: Reading<Bytes>,
    /// Major faults since the exporter first saw the workload; not present for "other".
    pub major_faults: Reading<Count>,
    /// Jobs that began under the exporter's eyes; not present for "other".
    pub starts: Reading<Count>,
    /// Jobs that have ended, by the [`Phase`] that they were in; not present for "other".
    pub ends: Reading<[u64; Phase::ALL.len()]>,
    /// The bounds of its jobs, added up; absent when one has none.
    pub cap: Reading<Bytes>,
    /// How many jobs have which kind of bound, by [`CapKind`].
    pub cap_kinds: [u64; CapKind::ALL.len()],
    /// How many jobs are in which phase, by [`Phase`]; not present for what neither loads nor serves.
    pub phases: Reading<[u64; Phase::ALL.len()]>,
    /// The most that one of its jobs held while it loaded, as far back as the state file goes.
    pub load_peak: Reading<Bytes>,
}

/// Who holds the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Workloads {
    /// How much can be seen.
    pub view: Reading<View>,
    /// The jobs, largest first.
    pub jobs: Reading<Arc<Vec<Job>>>,
    /// By class and unit.
    pub totals: Reading<Arc<Vec<Workload>>>,
    /// Whether the driver's lists could be read.
    pub driver: Reading<()>,
    /// Every process that is there; nothing while that cannot be told. Who is not among them has ended.
    pub present: Option<Arc<BTreeSet<JobId>>>,
}

/// What was learned about a workload; the state file keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedWorkload {
    /// Its class in words.
    pub class: String,
    /// Its unit.
    pub unit: String,
    /// The most that it held while it loaded.
    pub load_peak: Option<Bytes>,
    /// What it held when it had settled.
    pub settled: Option<Bytes>,
    /// When it was last seen, seconds since 1970.
    pub seen: u64,
}

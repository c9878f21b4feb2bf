//! What others measured: the anchors that a plan is compared with, and the rows that the model is held to.

use super::choice::{AdapterDtype, Dtype, Engine, Loader, Loss, Method, Optimizer, Targets};
use super::plan::{Plan, Serving};
use super::shapes::{find, nearest};
use crate::model::shape::Shape;
use crate::units::{Bytes, Ratio};

states! {
    /// What a figure counts.
    Counted {
        /// What torch had allocated at the peak, on one of these machines.
        Allocated = "allocated",
        /// What torch had set aside, used or not, on one of these machines.
        Reserved = "reserved",
        /// What the whole box had in use, on one of these machines.
        System = "system",
        /// A minimum that a project publishes, for other machines.
        Published = "published",
    }
}

/// What the model is held to in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Everything that the estimate needs is told: its error counts.
    Whole,
    /// Not everything is, and why it cannot count.
    Part(&'static str),
}

/// What a row says of the size of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It ran, so it is not to be judged as too large.
    Ran,
    /// It was too large, and has to be judged so.
    DidNotFit,
    /// Nothing, and why.
    Nothing(&'static str),
}

/// One row.
pub struct Row {
    /// Its name in the table.
    pub id: &'static str,
    /// What was run.
    pub what: &'static str,
    /// Who published it.
    pub source: &'static str,
    /// What was measured; nothing where it did not fit.
    pub measured: Option<Bytes>,
    /// What that counts.
    pub counted: Counted,
    /// What it says of the size of its job.
    pub known: Known,
    /// What is told of it.
    pub told: Told,
    plan: fn() -> Option<Plan>,
}

impl Row {
    /// It as a plan, where enough is told for one.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        (self.plan)()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of a table, positive and far below 2^53"
)]
const fn times(number: f64, unit: f64) -> Bytes {
    Bytes((number * unit) as u64)
}

const fn gib(number: f64) -> Bytes {
    times(number, Bytes::from_gib(1).as_f64())
}

const fn gb(number: f64) -> Bytes {
    times(number, 1e9)
}

fn named(name: &str, method: Method, with: impl FnOnce(&mut Plan)) -> Option<Plan> {
    let mut plan = Plan::of(find(name)?.shape(), method);
    with(&mut plan);
    Some(plan)
}

/// A model of which the row tells only how large it is.
fn sized(parameters: u64, with: impl FnOnce(&mut Plan)) -> Option<Plan> {
    let shape = nearest(parameters).first()?.shape();
    let mut plan = Plan::of(Shape { parameters: Some(parameters), ..shape }, Method::Lora);
    plan.targets = Targets::Attention;
    with(&mut plan);
    Some(plan)
}

/// The GPT of 354.6 million parameters that several rows train in full.
fn gpt(batch: u64, seq: u64) -> Option<Plan> {
    named("gpt2-medium", Method::Full, |plan| {
        plan.shape.parameters = Some(354_600_000);
        (plan.batch, plan.seq) = (batch, seq);
        (plan.checkpointing, plan.loss) = (false, Loss::Kept);
        plan.optimizer = Optimizer::AdamwFused;
    })
}

fn of_27b(seq: u64, loss: Loss, checkpointing: bool) -> Option<Plan> {
    named("qwen3.8-27b", Method::Lora, |plan| {
        plan.targets = Targets::Attention;
        (plan.seq, plan.loss, plan.checkpointing) = (seq, loss, checkpointing);
        plan.loader = Loader::Streamed;
    })
}

fn super_120b(batch: u64, seq: u64, loss: Loss) -> Option<Plan> {
    sized(120_000_000_000, |plan| {
        (plan.dtype, plan.rank, plan.loader) = (Dtype::Nvfp4, 8, Loader::Streamed);
        (plan.batch, plan.seq, plan.loss) = (batch, seq, loss);
    })
}

fn nano_30b(batch: u64, seq: u64) -> Option<Plan> {
    named("nemotron-3-nano-30b-a3b", Method::Lora, |plan| {
        (plan.dtype, plan.rank, plan.checkpointing) = (Dtype::Nvfp4, 8, false);
        plan.targets = Targets::Attention;
        (plan.batch, plan.seq, plan.loader) = (batch, seq, Loader::Streamed);
    })
}

fn glm_air(seq: u64) -> Option<Plan> {
    named("glm-4.5-air", Method::Lora, |plan| {
        (plan.dtype, plan.rank, plan.targets) = (Dtype::Nvfp4, 32, Targets::Attention);
        (plan.seq, plan.loss, plan.loader) = (seq, Loss::Fused, Loader::Streamed);
    })
}

/// GPT-2 medium with adapters of rank 8 on one short sequence.
fn gpt_adapters(method: Method) -> Option<Plan> {
    named("gpt2-medium", method, |plan| (plan.rank, plan.seq) = (8, 256))
}

fn vllm(utilization: f64) -> Serving {
    let utilization = Some(Ratio(utilization));
    Serving { engine: Engine::Vllm, utilization, ..Serving::default() }
}

/// A model that vLLM serves with a share of the pool. What its shape does not tell, its files do.
fn served(shape: Shape, stored: Bytes, utilization: f64) -> Plan {
    let mut plan = Plan::of(shape, Method::Inference);
    (plan.stored, plan.packed, plan.loader) = (Some(stored), true, Loader::Streamed);
    plan.serving = vllm(utilization);
    plan
}

/// The same of a model of which only the size is told.
fn served_of(parameters: u64, stored: Bytes, utilization: f64) -> Option<Plan> {
    let shape = nearest(parameters).first()?.shape();
    Some(served(Shape { parameters: Some(parameters), ..shape }, stored, utilization))
}

fn served_27b(utilization: f64) -> Option<Plan> {
    named("qwen3.8-27b", Method::Inference, |plan| {
        (plan.dtype, plan.loader) = (Dtype::Nvfp4, Loader::Streamed);
        plan.serving = vllm(utilization);
    })
}

/// The load of a model of 120 billion parameters in four bits.
fn loaded_120b(loader: Loader) -> Option<Plan> {
    let shape = nearest(120_000_000_000).first()?.shape();
    let shape = Shape { parameters: Some(120_000_000_000), ..shape };
    let mut plan = Plan::of(shape, Method::Inference);
    (plan.stored, plan.packed, plan.loader) = (Some(gb(81.6)), true, loader);
    Some(plan)
}

const NOTES: &str = "manavsehgal/ai-field-notes";
const SETUP: &str = "natolambert/dgx-spark-setup";
const OWNERS: &str = "public owner reports";
const FITTED: &str =
    "the box's own use and the loss's 28.9 bytes were fitted to these two rows; here with 12";
const CUSTOM: &str = "a trainer of its own on NVFP4; which matrices are quantised, and the transient of experts, are not told";
const SIZE_ONLY: &str =
    "a trainer of its own on NVFP4 and a model of which only the size is told here";
const FP8: &str = "what kernels in FP8 keep is not told; counted as if they were in bf16";
const RESERVED: &str = "what torch had set aside is told, and not what it had allocated";
const LEFT: &str = "what was left is told, and not what it took";
const START: &str = "what the box had in use is told, and not what the job took";
/// Two starts that took all memory there was, far beyond the share that their engine was given. Others ran with
/// the same share and more (A29, A30), and nothing that is told sets them apart: it is a range of every such plan.
const BEYOND: &str = "it took all there was while it started, whatever its share: at that share and above others ran (A29, A30)";
const UNCHECKED: &str =
    "checkpointing took no effect there, and which kernels kept what is not told";

/// Declares the table.
macro_rules! rows {
    ($( $id:literal $what:literal, $source:expr, $measured:expr, $counted:ident, $known:ident $(($why:expr))?, $told:expr, $plan:expr; )+) => {
        /// Every row.
        pub const ROWS: &[Row] = &[$( Row {
            id: $id,
            what: $what,
            source: $source,
            measured: $measured,
            counted: Counted::$counted,
            known: Known::$known $(($why))?,
            told: $told,
            plan: || $plan,
        }, )+];
    };
}

rows! {
    "A01" "GPT-354.6M bf16 full, fused AdamW, no checkpointing, 2x1024", NOTES, Some(gib(5.26)), Allocated, Ran, Told::Whole, gpt(2, 1024);
    "A02" "GPT-354.6M bf16 full, fused AdamW, no checkpointing, 8x1024", NOTES, Some(gib(13.83)), Allocated, Ran, Told::Whole, gpt(8, 1024);
    "A03" "GPT-354.6M bf16 full, fused AdamW, no checkpointing, 4x2048", NOTES, Some(gib(13.85)), Allocated, Ran, Told::Whole, gpt(4, 2048);
    "A04" "GPT-354.6M bf16 full, fused AdamW, no checkpointing, 16x2048", NOTES, Some(gib(49.24)), Allocated, Ran, Told::Whole, gpt(16, 2048);
    "A05" "GPT-354.6M fp32 parameters under autocast, no dropout, 4x1024", NOTES, Some(gib(11.28)), Allocated, Ran, Told::Whole,
        gpt(4, 1024).map(|plan| Plan { dtype: Dtype::Fp32, ..plan });
    "A06" "GPT-354.6M in FP8, 4x1024", NOTES, Some(gib(8.03)), Allocated, Ran, Told::Part(FP8), gpt(4, 1024);
    "A06" "GPT-354.6M in FP8, 16x1024", NOTES, Some(gib(24.33)), Allocated, Ran, Told::Part(FP8), gpt(16, 1024);
    "A07" "Qwen3.8-27B LoRA r16 attention bf16, checkpointing, chunked loss, 1x10,592", OWNERS, Some(gib(65.82)), Allocated, Ran, Told::Whole,
        of_27b(10_592, Loss::Chunked, true);
    "A08" "Qwen3.8-27B LoRA r16 attention bf16, checkpointing, default loss, 1x10,592", OWNERS, Some(gib(89.41)), Allocated, Ran, Told::Whole,
        of_27b(10_592, Loss::Default, true);
    "A09" "Qwen3.8-27B LoRA r16 attention bf16, checkpointing, chunked loss, 1x35,258", OWNERS, Some(gib(88.80)), Allocated, Ran, Told::Whole,
        of_27b(35_258, Loss::Chunked, true);
    "A10" "Qwen3.8-27B LoRA r16 attention bf16, checkpointing, chunked loss, 1x65,536", OWNERS, None, Allocated, DidNotFit, Told::Whole,
        of_27b(65_536, Loss::Chunked, true);
    "A35" "Qwen3.8-27B LoRA r16 attention bf16, no checkpointing, chunked loss, 1x10,592", OWNERS, None, Allocated, DidNotFit, Told::Whole,
        of_27b(10_592, Loss::Chunked, false);
    "A23" "Llama-3.1-Nemotron-Nano-8B LoRA r16 attention, Unsloth, adamw_8bit, short rows (as 128 tokens)", OWNERS, Some(gb(16.94)), Allocated, Ran, Told::Whole,
        named("llama-3.1-8b", Method::Lora, |plan| {
            (plan.targets, plan.adapter_dtype) = (Targets::Attention, AdapterDtype::Bf16);
            (plan.optimizer, plan.loss, plan.seq) = (Optimizer::Adamw8bit, Loss::Fused, 128);
        });
    "A11" "Qwen3-0.6B full, checkpointing, 2x1024", SETUP, Some(gb(21.0)), System, Ran, Told::Part(FITTED),
        named("qwen3-0.6b", Method::Full, |plan| (plan.batch, plan.seq) = (2, 1024));
    "A12" "Qwen3-0.6B full, checkpointing, 8x1024", SETUP, Some(gb(47.0)), System, Ran, Told::Part(FITTED),
        named("qwen3-0.6b", Method::Full, |plan| (plan.batch, plan.seq) = (8, 1024));
    "A13" "Qwen3-0.6B DPO, 2x1024", SETUP, Some(gb(24.0)), System, Ran, Told::Part("whether a second model is the reference is not told"),
        named("qwen3-0.6b", Method::Dpo, |plan| (plan.batch, plan.seq) = (2, 1024));
    "A14" "GLM-4.5-Air NVFP4 LoRA r32 attention, fused loss, 1x4096", OWNERS, Some(gb(72.77)), Allocated, Ran, Told::Part(CUSTOM), glm_air(4096);
    "A15" "GLM-4.5-Air NVFP4 LoRA r32 attention, fused loss, 1x8192", OWNERS, Some(gb(74.15)), Allocated, Ran, Told::Part(CUSTOM), glm_air(8192);
    "A16" "120B NVFP4 LoRA r8, 1x1024", OWNERS, Some(gb(92.96)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(1, 1024, Loss::Default);
    "A16" "120B NVFP4 LoRA r8, 1x1536", OWNERS, Some(gb(93.24)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(1, 1536, Loss::Default);
    "A17" "120B NVFP4 LoRA r8, 1x4096", OWNERS, Some(gb(99.18)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(1, 4096, Loss::Default);
    "A17" "120B NVFP4 LoRA r8, 2x2048", OWNERS, Some(gb(99.17)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(2, 2048, Loss::Default);
    "A18" "120B NVFP4 LoRA r8, 2x1536", OWNERS, Some(gb(96.26)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(2, 1536, Loss::Default);
    "A18" "120B NVFP4 LoRA r8, 4x1024", OWNERS, Some(gb(99.15)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(4, 1024, Loss::Default);
    "A18" "120B NVFP4 LoRA r8, 4x1536", OWNERS, Some(gb(104.97)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(4, 1536, Loss::Default);
    "A19" "120B NVFP4 LoRA r8, chunked loss, 1x16,384", OWNERS, Some(gb(101.9)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(1, 16_384, Loss::Chunked);
    "A36" "120B NVFP4 LoRA r8, default loss, 1x8192", OWNERS, Some(gb(105.08)), Allocated, Ran, Told::Part(SIZE_ONLY), super_120b(1, 8192, Loss::Default);
    "A20" "Nemotron-Nano-30B NVFP4 LoRA, unchecked, 1x1024", OWNERS, Some(gb(31.39)), Allocated, Ran, Told::Part(UNCHECKED), nano_30b(1, 1024);
    "A20" "Nemotron-Nano-30B NVFP4 LoRA, unchecked, 1x2048", OWNERS, Some(gb(41.02)), Allocated, Ran, Told::Part(UNCHECKED), nano_30b(1, 2048);
    "A20" "Nemotron-Nano-30B NVFP4 LoRA, unchecked, 1x4096", OWNERS, Some(gb(60.56)), Allocated, Ran, Told::Part(UNCHECKED), nano_30b(1, 4096);
    "A21" "Nemotron-Nano-30B NVFP4 LoRA, unchecked, 2x4096", OWNERS, Some(gb(99.62)), Allocated, Ran, Told::Part(UNCHECKED), nano_30b(2, 4096);
    "A21" "Nemotron-Nano-30B NVFP4 LoRA, unchecked, 4x2048", OWNERS, Some(gb(99.59)), Allocated, Ran, Told::Part(UNCHECKED), nano_30b(4, 2048);
    "A21" "Nemotron-Nano-30B NVFP4 LoRA, unchecked, 4x4096", OWNERS, None, Allocated, DidNotFit, Told::Part(UNCHECKED), nano_30b(4, 4096);
    "A22" "Nemotron-Nano-30B bf16 LoRA r8, 1x1536", OWNERS, Some(gb(67.5)), Allocated, Ran, Told::Part("sampled, not a peak; targets are not told"),
        named("nemotron-3-nano-30b-a3b", Method::Lora, |plan| {
            (plan.rank, plan.seq, plan.loader) = (8, 1536, Loader::Streamed);
        });
    "A24" "Qwen2.5-3B LoRA r16 all, checkpointing, 4x1024", NOTES, Some(gib(20.0)), System, Ran, Told::Part("how it was measured is not told"),
        named("qwen2.5-3b", Method::Lora, |plan| (plan.batch, plan.seq) = (4, 1024));
    "A25" "TinyLlama-1.1B QLoRA r16, 1x2048", OWNERS, Some(gb(4.143)), Allocated, Ran, Told::Part("targets and checkpointing are not told"),
        named("tinyllama-1.1b", Method::Qlora, |_| {});
    "A26" "GPT-2-medium QLoRA r8, 1x256", OWNERS, Some(gib(12.27)), Reserved, Ran, Told::Part(RESERVED), gpt_adapters(Method::Qlora);
    "A26" "GPT-2-medium LoRA r8, 1x256", OWNERS, Some(gib(1.42)), Reserved, Ran, Told::Part(RESERVED), gpt_adapters(Method::Lora);
    "A27" "286M pretraining, Muon, 64x1024", OWNERS, Some(gb(31.5)), Allocated, Ran, Told::Part("its shape is not told"), None;
    "A28" "Nemotron-30B bf16 LoRA, loaded on the CPU first", "NVIDIA-NeMo/Automodel#3532", None, Allocated, DidNotFit, Told::Whole,
        named("nemotron-3-nano-30b-a3b", Method::Lora, |plan| plan.loader = Loader::CpuFirst);
    "A29" "Nemotron-3.5-Lightning-30B NVFP4, vLLM at .80", OWNERS, None, System, Ran, Told::Part(LEFT),
        Some(served(find("nemotron-3-nano-30b-a3b")?.shape(), gib(21.5), 0.8));
    "A30" "Qwen3.8-27B NVFP4, vLLM at .50", OWNERS, None, System, Ran, Told::Part(LEFT), served_27b(0.5);
    "A30" "Qwen3.8-27B NVFP4, vLLM at .76", OWNERS, None, System, Ran, Told::Part(LEFT), served_27b(0.76);
    "A31" "Step-3.7-Flash Q3_K_XL, llama.cpp, 131,072 tokens: 83 + 12 GiB", OWNERS, Some(gib(99.0)), System, Ran, Told::Part("its shape is not told"), None;
    "A32" "120B NVFP4, SGLang, buffered load: 157 GB", "sgl-project/sglang#20580", None, Allocated, DidNotFit, Told::Part("the load alone"), loaded_120b(Loader::Buffered);
    "A32" "120B NVFP4, SGLang, streamed load: 81.6 GB", "sgl-project/sglang#20580", None, Allocated, Ran, Told::Part("the load alone"), loaded_120b(Loader::Streamed);
    "A33" "gemma-4-26B-A4B bf16, vLLM at .70: 112 GiB of the box in use, then it hung", "vllm-project/vllm#46307", None, System, Nothing(BEYOND), Told::Part(START),
        served_of(26_000_000_000, gib(48.0), 0.7);
    "A34" "DeepSeek-V4-Flash, vLLM, 8,224 tokens at once: 5.30 GiB of activations", OWNERS, None, Allocated, Nothing("one term of it is told, from which the range of `working` comes"),
        Told::Part("one term of it is told"), None;
    "A37" "Qwen3.8-Flash-Next NVFP4, vLLM at .70: 29 GiB available, then 2.5 within 9 s", "vllm-project/vllm#56824", None, System, Nothing(BEYOND), Told::Part(START),
        served_of(180_000_000_000, gib(76.96), 0.7);
}

/// What projects publish as minima for other machines: parameters, QLoRA and LoRA in GB.
pub const PUBLISHED: &[(u64, f64, f64)] = &[
    (3_000_000_000, 3.5, 8.0),
    (7_000_000_000, 5.0, 19.0),
    (8_000_000_000, 6.0, 22.0),
    (9_000_000_000, 6.5, 24.0),
    (11_000_000_000, 7.5, 29.0),
    (14_000_000_000, 8.5, 33.0),
    (27_000_000_000, 22.0, 64.0),
    (32_000_000_000, 26.0, 76.0),
    (40_000_000_000, 30.0, 96.0),
    (70_000_000_000, 41.0, 164.0),
    (81_000_000_000, 48.0, 192.0),
    (90_000_000_000, 53.0, 212.0),
    (405_000_000_000, 237.0, 950.0),
];

/// The published minimum for a method and a size, of the nearest size.
#[must_use]
pub fn published(method: Method, parameters: u64) -> Option<(u64, Bytes)> {
    let nearest = PUBLISHED.iter().min_by_key(|(size, _, _)| size.abs_diff(parameters))?;
    let (size, qlora, lora) = *nearest;
    let close = size.abs_diff(parameters) <= size / 4;
    let figure = match method {
        Method::Qlora => qlora,
        Method::Lora => lora,
        _ => return None,
    };
    close.then(|| (size, times(figure, 1e9)))
}

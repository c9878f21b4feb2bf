//! What is planned, and what an estimate of it consists of.

use super::choice::{
    AdapterDtype, Dtype, Engine, KvDtype, Loader, Loss, Method, Optimizer, Targets,
};
use crate::model::shape::Shape;
use crate::units::{Bytes, Ratio};

/// A job that is planned.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Plan {
    /// The model.
    pub shape: Shape,
    /// Other models of this size, where only a number of parameters is known: what follows from the
    /// shape is a range over them.
    pub alike: Vec<Shape>,
    /// What is to be done with it.
    pub method: Method,
    /// How its weights are held.
    pub dtype: Dtype,
    /// What its files take where they are used as they are. It wins over parameters times bytes.
    pub stored: Option<Bytes>,
    /// Whether that is quantised already.
    pub packed: bool,
    /// The largest of its files.
    pub largest_file: Option<Bytes>,
    /// Sequences in a step; pairs for DPO.
    pub batch: u64,
    /// Tokens in a sequence.
    pub seq: u64,
    /// Rank of adapters.
    pub rank: u64,
    /// What is given adapters.
    pub targets: Targets,
    /// How they are held.
    pub adapter_dtype: AdapterDtype,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Whether activations are computed anew in the backward pass.
    pub checkpointing: bool,
    /// Whether gradients are kept over several batches.
    pub accumulation: bool,
    /// How the loss is taken.
    pub loss: Loss,
    /// Tokens in a piece of a chunked loss.
    pub chunk: u64,
    /// How weights are loaded.
    pub loader: Loader,
    /// What a loader holds beside the weights while it streams; the largest file where that is known.
    pub staging: Option<Bytes>,
    /// Whether torch's allocator may grow its segments.
    pub expandable: bool,
    /// Whether embedding, head and norms are raised to fp32 (PEFT's preparation for k-bit training).
    /// Not said: either.
    pub raised: Option<bool>,
    /// How it is served.
    pub serving: Serving,
}

/// How a model is served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Serving {
    /// By what.
    pub engine: Engine,
    /// Sequences at a time.
    pub sequences: u64,
    /// Tokens in each.
    pub context: u64,
    /// How the cache is held.
    pub kv: KvDtype,
    /// The share of the pool that the engine takes.
    pub utilization: Option<Ratio>,
    /// Tokens that it works on at once.
    pub batched_tokens: Option<u64>,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            engine: Engine::Torch,
            sequences: 1,
            context: 8192,
            kv: KvDtype::Bf16,
            utilization: None,
            batched_tokens: None,
        }
    }
}

impl Plan {
    /// A plan with every default.
    #[must_use]
    pub const fn of(shape: Shape, method: Method) -> Self {
        Self {
            shape,
            alike: Vec::new(),
            method,
            dtype: match method {
                Method::Qlora => Dtype::Nf4,
                _ => Dtype::Bf16,
            },
            stored: None,
            packed: false,
            largest_file: None,
            batch: 1,
            seq: 2048,
            rank: 16,
            targets: Targets::All,
            adapter_dtype: AdapterDtype::Fp32,
            optimizer: Optimizer::Adamw,
            checkpointing: true,
            accumulation: false,
            loss: Loss::Default,
            chunk: 2048,
            loader: Loader::Auto,
            staging: None,
            expandable: false,
            raised: None,
            serving: Serving {
                engine: Engine::Torch,
                sequences: 1,
                context: 8192,
                kv: KvDtype::Bf16,
                utilization: None,
                batched_tokens: None,
            },
        }
    }

    /// Whether it trains.
    #[must_use]
    pub fn trains(&self) -> bool {
        self.method != Method::Inference
    }

    /// Sequences that go through the model in a step.
    #[must_use]
    pub const fn sequences(&self) -> u64 {
        match self.method {
            // The chosen and the rejected answer.
            Method::Dpo => self.batch.saturating_mul(2),
            _ => self.batch,
        }
    }

    /// Tokens in a step.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.sequences().saturating_mul(self.seq)
    }
}

states! {
    /// What takes memory.
    TermId {
        /// The model's weights.
        Weights = "weights",
        /// Embedding, head and norms of quantised weights, which are not quantised.
        Embeddings = "embeddings",
        /// Adapters.
        Adapters = "adapters",
        /// Gradients.
        Gradients = "gradients",
        /// The optimizer's states.
        Optimizer = "optimizer",
        /// The bf16 copy that autocast keeps of fp32 weights.
        CastCache = "cast_cache",
        /// A temporary of an optimizer that is not fused.
        StepTemporary = "step_temporary",
        /// What is kept of the forward pass for the backward pass.
        Activations = "activations",
        /// Logits and what the loss makes of them.
        Logits = "logits",
        /// The activations of the one layer that is computed anew.
        Transient = "transient",
        /// One matrix in bf16, while it is used.
        Dequantised = "dequantised",
        /// The cache of keys and values.
        KvCache = "kv_cache",
        /// States of fixed size for each sequence.
        State = "state",
        /// Activations of the tokens that an engine works on at once.
        Working = "working",
        /// What an engine takes of the pool by its share, over all of the above.
        Share = "share",
        /// What an engine may take beyond its share while it starts.
        Start = "start",
    }
}

impl TermId {
    /// Whether it is read from the model's files.
    #[must_use]
    pub const fn of_weights(self) -> bool {
        matches!(self, Self::Weights | Self::Embeddings)
    }
}

/// One part of an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// What it is.
    pub id: TermId,
    /// How it comes about.
    pub formula: String,
    /// The formula with its numbers.
    pub inputs: String,
    /// How much.
    pub bytes: Bytes,
    /// How much at most, where that is not known exactly; otherwise the same.
    pub high: Bytes,
}

/// What a plan takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Its parts at the peak, which add up to `alloc`.
    pub terms: Vec<Term>,
    /// What is there too, but not at the peak.
    pub beside: Vec<Term>,
    /// What weights, adapters, gradients and the optimizer take together.
    pub fixed: Bytes,
    /// The sum of the terms.
    pub alloc: Bytes,
    /// The same with every term at its most.
    pub alloc_high: Bytes,
    /// What the allocator sets aside beyond what is used.
    pub slack: Bytes,
    /// How much more that is than what varies, as a factor.
    pub slack_factor: Ratio,
    /// CUDA context, libraries, and the program itself.
    pub context: Bytes,
    /// All of it.
    pub pool: Bytes,
    /// All of it with every term at its most.
    pub pool_high: Bytes,
    /// All of it without slack.
    pub pool_low: Bytes,
    /// While it loads.
    pub load: Load,
    /// Whether its engine would refuse to start, whatever the pool has left.
    pub refused: bool,
    /// What should be known about the figures.
    pub notes: Vec<String>,
}

/// The peak while weights are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The weights.
    pub weights: Bytes,
    /// What is there beside them while they are loaded.
    pub extra: Bytes,
    /// At most.
    pub extra_high: Bytes,
    /// How that comes about.
    pub formula: String,
    /// Weights and what is beside them.
    pub alloc: Bytes,
    /// With the context.
    pub pool: Bytes,
    /// At most.
    pub pool_high: Bytes,
}

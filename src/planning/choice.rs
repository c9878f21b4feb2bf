//! What a person can choose, each a closed set, with the bytes that follow from it.

use crate::model::pool::Reader;

states! {
    /// What is to be done with the model.
    Method {
        /// Every parameter is trained.
        Full = "full",
        /// Adapters are trained beside weights that stay as they are.
        Lora = "lora",
        /// The same on weights quantised to four bits.
        Qlora = "qlora",
        /// Pairs of answers: adapters, two sequences for each example, and a reference.
        Dpo = "dpo",
        /// Groups of answers that the model itself writes: adapters, a reference, and a cache while it writes.
        Grpo = "grpo",
        /// It answers.
        Inference = "inference",
    }
}

states! {
    /// How weights are held in memory.
    Dtype {
        /// 4 bytes a parameter.
        Fp32 = "fp32",
        /// 2 bytes a parameter; fp16 takes the same.
        Bf16 = "bf16",
        /// 1 byte for each parameter of the layers' matrices.
        Fp8 = "fp8",
        /// 1 byte for each parameter of the layers' matrices.
        Int8 = "int8",
        /// bitsandbytes NF4 with double quantisation: 0.5 + 1/64 + 4/(64 * 256) bytes.
        Nf4 = "nf4",
        /// NF4 without double quantisation: 0.5 + 4/64 bytes.
        Nf4Single = "nf4-single",
        /// 0.5 + 1/32 bytes.
        Mxfp4 = "mxfp4",
        /// 0.5 + 1/16 bytes, and 4 for each tensor.
        Nvfp4 = "nvfp4",
    }
}

impl Dtype {
    /// Bytes for each parameter of the layers' matrices.
    #[must_use]
    pub const fn linear(self) -> f64 {
        match self {
            Self::Fp32 => 4.0,
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Int8 => 1.0,
            Self::Nf4 => 0.515_869_140_625,
            Self::Nf4Single | Self::Nvfp4 => 0.5625,
            Self::Mxfp4 => 0.53125,
        }
    }

    /// Bytes for every other parameter: only matrices are quantised.
    #[must_use]
    pub const fn rest(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            _ => 2,
        }
    }

    /// Whether it is a quantised form.
    #[must_use]
    pub const fn quantised(self) -> bool {
        !matches!(self, Self::Fp32 | Self::Bf16)
    }

    /// Whether a matrix is turned into bf16 before it is used, one at a time.
    #[must_use]
    pub const fn dequantised(self) -> bool {
        matches!(self, Self::Nf4 | Self::Nf4Single)
    }
}

states! {
    /// Which matrices are given adapters.
    Targets {
        /// All of the layers but experts, which trainers keep as one tensor that adapters do not find.
        All = "all",
        /// Those of attention, or of what stands in its place.
        Attention = "attention",
    }
}

states! {
    /// How adapters and their gradients are held.
    AdapterDtype {
        /// PEFT's default.
        Fp32 = "fp32",
        /// Unsloth's.
        Bf16 = "bf16",
    }
}

impl AdapterDtype {
    /// Bytes a parameter.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Bf16 => 2,
        }
    }
}

states! {
    /// The optimizer.
    Optimizer {
        /// torch's, not fused: two states of the parameters' type, and one temporary of the parameters' size at the step.
        Adamw = "adamw",
        /// The same without the temporary.
        AdamwFused = "adamw-fused",
        /// Two states of one byte.
        Adamw8bit = "adamw-8bit",
        /// Two states of four bytes, whatever the parameters' type.
        AdamwFp32 = "adamw-fp32-states",
        /// The same and a copy of the parameters in fp32 (DeepSpeed, Megatron).
        AdamwMaster = "adamw-master",
    }
}

impl Optimizer {
    /// Bytes of states for each trained parameter of so many bytes.
    #[must_use]
    pub const fn states(self, parameter: u64) -> u64 {
        match self {
            Self::Adamw | Self::AdamwFused => 2 * parameter,
            Self::Adamw8bit => 2,
            Self::AdamwFp32 => 8,
            // The copy, two states, and gradients that are kept in fp32: 18 bytes with weights and gradients.
            Self::AdamwMaster => 14,
        }
    }

    /// Whether the step needs one temporary of the size of the parameters.
    #[must_use]
    pub const fn temporary(self) -> bool {
        matches!(self, Self::Adamw)
    }
}

states! {
    /// How the loss is taken of the logits, the largest single tensor of many runs.
    Loss {
        /// Hugging Face's: logits, an fp32 copy, and its gradient.
        Default = "default",
        /// In pieces of some tokens.
        Chunked = "chunked",
        /// In one kernel that keeps no logits (Liger, Unsloth).
        Fused = "fused",
        /// In bf16, without an fp32 copy.
        Bf16 = "bf16",
        /// As the default, and the outputs stay alive for metrics.
        Kept = "kept",
        /// An explicit fp32 copy, and a second one for the shift by a token.
        Shifted = "fp32-shifted",
        /// What an old accelerate in fp32 and a copy for the shift were fitted to.
        Legacy = "legacy",
    }
}

impl Loss {
    /// Bytes for each token and word of the vocabulary, where it keeps logits at all.
    #[must_use]
    pub const fn element(self) -> f64 {
        match self {
            Self::Default | Self::Chunked => 12.0,
            Self::Fused => 0.0,
            Self::Bf16 => 8.1,
            Self::Kept => 14.1,
            Self::Shifted => 18.1,
            Self::Legacy => 28.9,
        }
    }
}

states! {
    /// How weights get from their files into the pool.
    Loader {
        /// Not said: somewhere between streamed and mapped.
        Auto = "auto",
        /// A piece at a time through a bounce buffer (safetensors 0.8 and later, fastsafetensors, llama.cpp --no-mmap).
        Streamed = "streamed",
        /// Mapped and copied, both there at once (safetensors before 0.8 with device=cuda, llama.cpp with mmap).
        Mapped = "mapped",
        /// Built in the CPU's memory, then moved (`.to("cuda")`, a state dict first).
        CpuFirst = "cpu-first",
        /// All tensors are collected in a list before they are used.
        Buffered = "buffered",
        /// One file of weights at a time, whole.
        Shard = "shard",
    }
}

states! {
    /// What serves a model, or stands for those that train.
    Engine {
        /// PyTorch: it asks the driver for more as it needs it.
        Torch = "torch",
        /// vLLM 0.24 and later.
        Vllm = "vllm",
        /// vLLM before 0.24.
        VllmOld = "vllm-old",
        /// SGLang.
        Sglang = "sglang",
        /// TensorRT-LLM.
        Tensorrt = "tensorrt-llm",
        /// llama.cpp.
        LlamaCpp = "llama.cpp",
        /// Ollama.
        Ollama = "ollama",
    }
}

impl Engine {
    /// The figure by which it judges what is left. Allocations themselves are served from either.
    #[must_use]
    pub const fn reader(self) -> Reader {
        match self {
            Self::Torch | Self::Vllm | Self::LlamaCpp => Reader::Available,
            Self::VllmOld | Self::Sglang | Self::Tensorrt | Self::Ollama => Reader::Free,
        }
    }

    /// Whether it takes a share of the pool (`--utilization`) and gives what is left of it to its cache.
    #[must_use]
    pub const fn takes_a_share(self) -> bool {
        matches!(self, Self::Vllm | Self::VllmOld)
    }

    /// Tokens that it works on at once unless told otherwise.
    #[must_use]
    pub const fn batched_tokens(self) -> u64 {
        match self {
            Self::LlamaCpp | Self::Ollama => 512,
            _ => 2048,
        }
    }
}

states! {
    /// How the cache of keys and values is held.
    KvDtype {
        /// 2 bytes.
        Bf16 = "bf16",
        /// 1 byte.
        Fp8 = "fp8",
        /// llama.cpp's q8_0: 34 bytes for 32 numbers.
        Q8 = "q8_0",
    }
}

impl KvDtype {
    /// Bytes for 32 numbers.
    #[must_use]
    pub const fn of_32(self) -> u64 {
        match self {
            Self::Bf16 => 64,
            Self::Fp8 => 32,
            Self::Q8 => 34,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantised_types_are_what_their_blocks_are() {
        let double = 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0);
        assert!((Dtype::Nf4.linear() - double).abs() < f64::EPSILON);
        assert!((Dtype::Nf4Single.linear() - (0.5 + 4.0 / 64.0)).abs() < f64::EPSILON);
        assert!((Dtype::Mxfp4.linear() - (0.5 + 1.0 / 32.0)).abs() < f64::EPSILON);
    }

    #[test]
    fn trained_parameters_take_the_bytes_of_the_published_cases() {
        // Weights + gradients + states.
        let full = |optimizer: Optimizer| 2 + 2 + optimizer.states(2);
        assert_eq!(full(Optimizer::Adamw), 8);
        assert_eq!(full(Optimizer::AdamwFp32), 12);
        assert_eq!(full(Optimizer::AdamwMaster), 18);
        assert_eq!(full(Optimizer::Adamw8bit), 6);
        assert_eq!(4 + 4 + Optimizer::AdamwFused.states(4), 16);
    }
}

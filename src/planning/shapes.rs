//! Models that are known by name: their shapes, and where those are published.

use crate::model::shape::{Attention, Delta, Latent, Layers, Mixer, Mlp, Shape, StateSpace};

/// A model that is known by name.
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// The repository on Hugging Face whose config.json tells its shape.
    pub source: &'static str,
    /// All parameters, as published.
    pub published: u64,
    /// Where else its shape is published and was compared with. Without one it is its number of parameters that
    /// says whether the shape is right.
    pub seen: Option<&'static str>,
    /// Whether that number is an input, because the model has parts that its shape does not tell.
    pub told: bool,
    shape: fn() -> Shape,
}

impl Named {
    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let parameters = self.told.then_some(self.published);
        Shape { name: self.name.to_owned(), parameters, ..(self.shape)() }
    }
}

/// L, hidden, ffn, heads, kv heads, head width, vocabulary; as config.json has them.
struct Dense(u64, u64, u64, u64, u64, u64, u64);

impl Dense {
    fn shape(self, tied: bool, with: impl FnOnce(&mut Attention)) -> Shape {
        let Self(depth, hidden, ffn, heads, kv_heads, head_dim, vocab) = self;
        let attention = attention(heads, kv_heads, head_dim, with);
        let mlp = Mlp::Dense { ffn, gated: true };
        let layers = Layers { count: depth, mixer: Mixer::Attention(attention), mlp };
        shape(hidden, vocab, tied, vec![layers])
    }
}

fn attention(
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    with: impl FnOnce(&mut Attention),
) -> Attention {
    let mut attention = Attention {
        heads,
        kv_heads,
        head_dim,
        gated: false,
        qk_norm: false,
        bias: false,
        window: None,
    };
    with(&mut attention);
    attention
}

fn shape(hidden: u64, vocab: u64, tied: bool, layers: Vec<Layers>) -> Shape {
    Shape { name: String::new(), hidden, vocab, tied, dropout: false, layers, parameters: None }
}

fn plain(_: &mut Attention) {}

fn qk_norm(attention: &mut Attention) {
    attention.qk_norm = true;
}

fn bias(attention: &mut Attention) {
    attention.bias = true;
}

/// Every layer alternates between all that came before and a window of 128 tokens.
fn gpt_oss(depth: u64, experts: u64) -> Shape {
    let layers = [None, Some(128)].map(|window| Layers {
        count: depth / 2,
        mixer: Mixer::Attention(attention(64, 8, 64, |a| (a.bias, a.window) = (true, window))),
        mlp: Mlp::Experts { count: experts, active: 4, ffn: 2880, shared: 0, gated: true },
    });
    shape(2880, 201_088, false, layers.to_vec())
}

/// One layer in six looks at all that came before, the others at a window of 1,024 tokens.
fn gemma3(full: u64, sliding: u64, hidden: u64, ffn: u64, heads: u64, head_dim: u64) -> Shape {
    let layers = [(full, None), (sliding, Some(1024))].map(|(count, window)| Layers {
        count,
        mixer: Mixer::Attention(attention(heads, heads / 2, head_dim, |a| {
            (a.qk_norm, a.window) = (true, window);
        })),
        mlp: Mlp::Dense { ffn, gated: true },
    });
    shape(hidden, 262_208, true, layers.to_vec())
}

fn deepseek_v3() -> Shape {
    let latent =
        Latent { heads: 128, q_rank: Some(1536), kv_rank: 512, rope: 64, nope: 128, value: 128 };
    let experts = Mlp::Experts { count: 256, active: 8, ffn: 2048, shared: 2048, gated: true };
    let layers = [(3, Mlp::Dense { ffn: 18_432, gated: true }), (58, experts)];
    let layers = layers.map(|(count, mlp)| Layers { count, mixer: Mixer::Latent(latent), mlp });
    shape(7168, 129_280, false, layers.to_vec())
}

fn glm_air() -> Shape {
    let experts = Mlp::Experts { count: 128, active: 8, ffn: 1408, shared: 1408, gated: true };
    let mixer = Mixer::Attention(attention(96, 8, 128, bias));
    let layers = [(1, Mlp::Dense { ffn: 10_944, gated: true }), (45, experts)];
    let layers = layers.map(|(count, mlp)| Layers { count, mixer, mlp });
    shape(4096, 151_552, false, layers.to_vec())
}

/// Three layers in four keep a state of fixed size.
fn qwen38() -> Shape {
    let full = attention(24, 4, 256, |a| (a.gated, a.qk_norm) = (true, true));
    let delta = Delta { key_heads: 16, value_heads: 48, key_dim: 128, value_dim: 128, conv: 4 };
    let mlp = Mlp::Dense { ffn: 17_408, gated: true };
    let layers = vec![
        Layers { count: 16, mixer: Mixer::Attention(full), mlp },
        Layers { count: 48, mixer: Mixer::Delta(delta), mlp },
    ];
    shape(5120, 248_320, false, layers)
}

/// A layer carries the past or works on tokens, not both.
fn nemotron_nano() -> Shape {
    let mamba = StateSpace { heads: 64, head_dim: 64, groups: 8, state: 128, conv: 4 };
    let experts = Mlp::Experts { count: 128, active: 6, ffn: 1856, shared: 3712, gated: false };
    let attention = Mixer::Attention(attention(32, 2, 128, plain));
    let layers = vec![
        Layers { count: 6, mixer: attention, mlp: Mlp::None },
        Layers { count: 23, mixer: Mixer::StateSpace(mamba), mlp: Mlp::None },
        Layers { count: 23, mixer: Mixer::None, mlp: experts },
    ];
    shape(2688, 131_072, false, layers)
}

fn qwen3_moe() -> Shape {
    let layers = Layers {
        count: 48,
        mixer: Mixer::Attention(attention(32, 4, 128, qk_norm)),
        mlp: Mlp::Experts { count: 128, active: 8, ffn: 768, shared: 0, gated: true },
    };
    shape(2048, 151_936, false, vec![layers])
}

/// GPT-2 medium with the positions that it learns; trained with dropout.
fn gpt2_medium() -> Shape {
    let layers = Layers {
        count: 24,
        mixer: Mixer::Attention(attention(16, 16, 64, plain)),
        mlp: Mlp::Dense { ffn: 4096, gated: false },
    };
    Shape { dropout: true, ..shape(1024, 50_257, true, vec![layers]) }
}

/// Declares the table.
macro_rules! named {
    ($( $name:literal, $published:literal $(+ $told:ident)? $(@ $seen:literal)?, $source:literal, $shape:expr; )+) => {
        /// Every model that is known by name.
        pub const NAMED: &[Named] = &[$( Named {
            name: $name,
            source: $source,
            published: $published,
            seen: seen!($($seen)?),
            told: told!($($told)?),
            shape: || $shape,
        }, )+];
    };
}

macro_rules! seen {
    () => {
        None
    };
    ($seen:literal) => {
        Some($seen)
    };
}

macro_rules! told {
    () => {
        false
    };
    (told) => {
        true
    };
}

named! {
    "tinyllama-1.1b", 1_100_048_384, "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        Dense(22, 2048, 5632, 32, 4, 64, 32_000).shape(false, plain);
    "llama-3.2-1b", 1_235_814_400, "meta-llama/Llama-3.2-1B",
        Dense(16, 2048, 8192, 32, 8, 64, 128_256).shape(true, plain);
    "llama-3.2-3b", 3_212_749_824, "meta-llama/Llama-3.2-3B",
        Dense(28, 3072, 8192, 24, 8, 128, 128_256).shape(true, plain);
    "llama-3.1-8b", 8_030_261_248, "meta-llama/Llama-3.1-8B",
        Dense(32, 4096, 14_336, 32, 8, 128, 128_256).shape(false, plain);
    "llama-3.1-70b", 70_553_706_496, "meta-llama/Llama-3.1-70B",
        Dense(80, 8192, 28_672, 64, 8, 128, 128_256).shape(false, plain);
    "llama-3.1-405b", 405_853_388_800, "meta-llama/Llama-3.1-405B",
        Dense(126, 16_384, 53_248, 128, 8, 128, 128_256).shape(false, plain);
    "mistral-7b", 7_248_023_552, "mistralai/Mistral-7B-v0.3",
        Dense(32, 4096, 14_336, 32, 8, 128, 32_768).shape(false, plain);
    "qwen2.5-3b", 3_085_938_688, "Qwen/Qwen2.5-3B",
        Dense(36, 2048, 11_008, 16, 2, 128, 151_936).shape(true, bias);
    "qwen2.5-7b", 7_615_616_512, "Qwen/Qwen2.5-7B",
        Dense(28, 3584, 18_944, 28, 4, 128, 152_064).shape(false, bias);
    "qwen2.5-14b", 14_770_033_664, "Qwen/Qwen2.5-14B",
        Dense(48, 5120, 13_824, 40, 8, 128, 152_064).shape(false, bias);
    "qwen2.5-32b", 32_763_876_352, "Qwen/Qwen2.5-32B",
        Dense(64, 5120, 27_648, 40, 8, 128, 152_064).shape(false, bias);
    "qwen2.5-72b", 72_706_203_648, "Qwen/Qwen2.5-72B",
        Dense(80, 8192, 29_568, 64, 8, 128, 152_064).shape(false, bias);
    "qwen3-0.6b", 596_049_920, "Qwen/Qwen3-0.6B",
        Dense(28, 1024, 3072, 16, 8, 128, 151_936).shape(true, qk_norm);
    "qwen3-1.7b", 1_720_574_976, "Qwen/Qwen3-1.7B",
        Dense(28, 2048, 6144, 16, 8, 128, 151_936).shape(true, qk_norm);
    "qwen3-4b", 4_022_468_096, "Qwen/Qwen3-4B",
        Dense(36, 2560, 9728, 32, 8, 128, 151_936).shape(true, qk_norm);
    "qwen3-8b", 8_190_735_360, "Qwen/Qwen3-8B",
        Dense(36, 4096, 12_288, 32, 8, 128, 151_936).shape(false, qk_norm);
    "qwen3-14b", 14_768_307_200, "Qwen/Qwen3-14B",
        Dense(40, 5120, 17_408, 40, 8, 128, 151_936).shape(false, qk_norm);
    "qwen3-32b", 32_762_123_264, "Qwen/Qwen3-32B",
        Dense(64, 5120, 25_600, 64, 8, 128, 151_936).shape(false, qk_norm);
    "qwen3-30b-a3b", 30_532_122_624, "Qwen/Qwen3-30B-A3B", qwen3_moe();
    "qwen3.8-27b", 28_294_494_304 + told @ "the published vectors", "Qwen/Qwen3.8-27B", qwen38();
    "gemma-3-12b", 12_187_325_040 + told @ "AI-Hypercomputer/maxtext", "google/gemma-3-12b-it",
        gemma3(8, 40, 3840, 15_360, 16, 256);
    "gemma-3-27b", 27_432_406_640 + told @ "AI-Hypercomputer/maxtext", "google/gemma-3-27b-it",
        gemma3(10, 52, 5376, 21_504, 32, 128);
    "gpt2-medium", 354_823_168 + told @ "karpathy/nanoGPT", "openai-community/gpt2-medium", gpt2_medium();
    "gpt-oss-20b", 20_914_757_184 + told @ "AI-Hypercomputer/maxtext", "openai/gpt-oss-20b", gpt_oss(24, 32);
    "gpt-oss-120b", 116_829_156_672 + told @ "AI-Hypercomputer/maxtext", "openai/gpt-oss-120b", gpt_oss(36, 128);
    "glm-4.5-air", 106_852_251_264 @ "vllm-project/vime", "zai-org/GLM-4.5-Air", glm_air();
    "nemotron-3-nano-30b-a3b", 31_577_937_344 @ "jax-ml/jax-llm-examples", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", nemotron_nano();
    "deepseek-v3", 671_026_419_200, "deepseek-ai/DeepSeek-V3", deepseek_v3();
}

/// What names of tuned and base models end in; their shape is the same.
const TUNED: [&str; 6] = ["-instruct", "-base", "-it", "-pt", "-chat", "-hf"];

/// The model of a name; case, an owner before it and what it was tuned for do not matter.
#[must_use]
pub fn find(name: &str) -> Option<&'static Named> {
    let lower = name.to_lowercase();
    named(&lower).or_else(|| {
        let alone = match lower.split_once('/') {
            // A path, or an address.
            Some((owner, rest))
                if owner.is_empty() || owner.starts_with('.') || rest.contains('/') =>
            {
                return None;
            }
            Some((_, rest)) => rest,
            None => &lower,
        };
        let alone = alone.strip_prefix("meta-").unwrap_or(alone);
        named(TUNED.iter().find_map(|end| alone.strip_suffix(end)).unwrap_or(alone))
    })
}

fn named(lower: &str) -> Option<&'static Named> {
    NAMED.iter().find(|named| {
        let source = named.source.to_lowercase();
        lower == named.name || lower == source || source.split('/').nth(1) == Some(lower)
    })
}

/// The dense models that are nearest to a number of parameters, nearest first.
#[must_use]
pub fn nearest(parameters: u64) -> Vec<&'static Named> {
    // On a scale of ratios: a model of twice the size is as far as one of half.
    let distance = |named: &Named| {
        let (more, less) = (named.published.max(parameters), named.published.min(parameters));
        u128::from(more) * 1000 / u128::from(less.max(1))
    };
    let usual = |named: &&Named| {
        let shape = named.shape();
        !shape.experts() && !shape.hybrid() && !shape.dropout
    };
    let mut all: Vec<_> = NAMED.iter().filter(usual).collect();
    all.sort_by_key(|named| distance(named));
    all.truncate(3);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::linears::parameters;

    #[test]
    fn shapes_have_the_parameters_that_are_published() {
        for named in NAMED {
            let counted = parameters(&Shape { parameters: None, ..named.shape() }).all;
            let off = counted.abs_diff(named.published);
            if named.told {
                // The number cannot tell whether the shape is right.
                assert!(
                    named.seen.is_some(),
                    "{}: its shape was compared with nothing",
                    named.name
                );
                // Vision towers, heads for further tokens, biases.
                assert!(off * 100 < named.published * 6, "{}: {counted}", named.name);
            } else {
                assert!(off * 1000 < named.published, "{}: {counted}", named.name);
            }
        }
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        for text in [
            "llama-3.1-8b",
            "Llama-3.1-8B",
            "meta-llama/Llama-3.1-8B",
            "meta-llama/Meta-Llama-3.1-8B-Instruct",
            "unsloth/Llama-3.1-8B-Instruct",
        ] {
            assert_eq!(find(text).unwrap().name, "llama-3.1-8b", "{text}");
        }
        // Paths and addresses are not names.
        for text in ["llama", "./llama-3.1-8b", "/llama-3.1-8b", "hf://meta-llama/Llama-3.1-8B"] {
            assert!(find(text).is_none(), "{text}");
        }
        let names: Vec<_> = nearest(70_000_000_000).iter().map(|named| named.name).collect();
        assert_eq!(names, ["llama-3.1-70b", "qwen2.5-72b", "qwen2.5-32b"]);
    }
}

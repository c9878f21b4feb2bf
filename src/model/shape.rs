//! The shape of a language model, as its files or its publisher tell it: what memory follows from.

use crate::units::Bytes;

/// A model as far as memory is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What it is called.
    pub name: String,
    /// Width of the hidden states.
    pub hidden: u64,
    /// Tokens in the vocabulary.
    pub vocab: u64,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether it is trained with dropout, whose masks are kept.
    pub dropout: bool,
    /// Its layers, like ones together, in any order.
    pub layers: Vec<Layers>,
    /// All parameters, where they are told. Without it they are counted from the layers, and what a
    /// model has beside its language (a vision tower, heads that predict further tokens) is not in them.
    pub parameters: Option<u64>,
}

/// So many layers of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layers {
    /// How many.
    pub count: u64,
    /// What carries a token's past.
    pub mixer: Mixer,
    /// What works on each token.
    pub mlp: Mlp,
}

/// What carries a token's past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixer {
    /// Attention; grouped where it has fewer key than query heads.
    Attention(Attention),
    /// Multi-head latent attention (DeepSeek): one compressed key and value for all heads.
    Latent(Latent),
    /// Gated delta net: a state of fixed size.
    Delta(Delta),
    /// Mamba 2: a state of fixed size.
    StateSpace(StateSpace),
    /// Nothing: a layer of a model that takes turns.
    None,
}

/// Attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Whether the query projection also makes a gate, and is twice as wide.
    pub gated: bool,
    /// Whether queries and keys are normalised.
    pub qk_norm: bool,
    /// Whether the projections have biases.
    pub bias: bool,
    /// How many tokens back it looks, where that is bounded.
    pub window: Option<u64>,
}

/// Multi-head latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latent {
    /// Heads.
    pub heads: u64,
    /// Rank of the queries, where they are compressed too.
    pub q_rank: Option<u64>,
    /// Rank of keys and values.
    pub kv_rank: u64,
    /// Width of a head's part that carries the position.
    pub rope: u64,
    /// Width of a head's part that does not.
    pub nope: u64,
    /// Width of a head's value.
    pub value: u64,
}

/// Gated delta net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Key heads.
    pub key_heads: u64,
    /// Value heads.
    pub value_heads: u64,
    /// Width of a key head.
    pub key_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Length of the convolution.
    pub conv: u64,
}

/// Mamba 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSpace {
    /// Heads.
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Groups that share what is written to and read from the state.
    pub groups: u64,
    /// Size of the state for each channel.
    pub state: u64,
    /// Length of the convolution.
    pub conv: u64,
}

/// What works on each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mlp {
    /// The same for every token.
    Dense {
        /// Inner width.
        ffn: u64,
        /// Whether it has a gate (SwiGLU): three matrices and not two.
        gated: bool,
    },
    /// Experts, of which each token visits some.
    Experts {
        /// How many.
        count: u64,
        /// How many a token visits.
        active: u64,
        /// Inner width of one.
        ffn: u64,
        /// Inner width of what every token visits besides; 0 where there is nothing.
        shared: u64,
        /// Whether they have gates.
        gated: bool,
    },
    /// Nothing: a layer of a model that takes turns.
    None,
}

/// What a model's files tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFiles {
    /// Its shape.
    pub shape: Shape,
    /// What its weights take as they are stored.
    pub weights: Option<Bytes>,
    /// The largest of its files of weights.
    pub largest: Option<Bytes>,
    /// How its weights are stored, in the words of the files.
    pub stored: String,
    /// Whether that is a quantised form.
    pub quantised: bool,
    /// Whether only engines read it, and no trainer goes on from it.
    pub serves_only: bool,
    /// What should be known about how it was read.
    pub notes: Vec<String>,
}

/// A product that stops at the largest number instead of wrapping.
#[must_use]
pub fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |a, b| a.saturating_mul(*b))
}

/// A sum that stops at the largest number instead of wrapping.
#[must_use]
pub fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

impl Shape {
    /// How many layers there are.
    #[must_use]
    pub fn depth(&self) -> u64 {
        sum(self.layers.iter().map(|layers| layers.count))
    }

    /// The first attention among its layers that sees everything, or any at all.
    #[must_use]
    pub fn attention(&self) -> Option<Attention> {
        let all = || {
            self.layers.iter().filter_map(|layers| match layers.mixer {
                Mixer::Attention(attention) => Some(attention),
                _ => None,
            })
        };
        all().find(|attention| attention.window.is_none()).or_else(|| all().next())
    }

    /// Whether some of its layers keep a state of fixed size.
    #[must_use]
    pub fn hybrid(&self) -> bool {
        self.layers.iter().any(|layers| {
            matches!(layers.mixer, Mixer::Delta(_) | Mixer::StateSpace(_) | Mixer::None)
        })
    }

    /// Whether some of its layers have experts.
    #[must_use]
    pub fn experts(&self) -> bool {
        self.layers.iter().any(|layers| matches!(layers.mlp, Mlp::Experts { .. }))
    }

    /// Whether its layers have gates.
    #[must_use]
    pub fn gated(&self) -> bool {
        self.layers.iter().any(|layers| match layers.mlp {
            Mlp::Dense { gated, .. } | Mlp::Experts { gated, .. } => gated,
            Mlp::None => false,
        })
    }
}

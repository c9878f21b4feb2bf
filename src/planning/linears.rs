//! The matrices of a model: what is counted, quantised and given adapters.

use crate::model::shape::{Attention, Delta, Latent, Layers, Mixer, Mlp, Shape, StateSpace};
use crate::model::shape::{product, sum};

/// What a matrix is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What carries a token's past.
    Mixer,
    /// What works on every token.
    Mlp,
    /// One of the experts. Trainers keep them as one tensor, which adapters for linears do not find.
    Expert,
    /// Small ones that are neither quantised on purpose nor given adapters: routers, gates of heads.
    Small,
}

/// Matrices of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// What they are part of.
    pub part: Part,
    /// Width of what goes in.
    pub inputs: u64,
    /// Width of what comes out.
    pub outputs: u64,
    /// How many there are in the whole model.
    pub count: u64,
}

/// Every matrix of the layers.
#[must_use]
pub fn linears(shape: &Shape) -> Vec<Linear> {
    let mut out = Vec::new();
    for layers in &shape.layers {
        mixer(shape.hidden, layers, &mut out);
        mlp(shape.hidden, layers, &mut out);
    }
    out
}

fn mixer(hidden: u64, layers: &Layers, out: &mut Vec<Linear>) {
    let mut add = |part, inputs, outputs| {
        out.push(Linear { part, inputs, outputs, count: layers.count });
    };
    match layers.mixer {
        Mixer::Attention(a) => {
            let width = product(&[a.heads, a.head_dim]);
            let narrow = product(&[a.kv_heads, a.head_dim]);
            add(Part::Mixer, hidden, if a.gated { width.saturating_mul(2) } else { width });
            add(Part::Mixer, hidden, narrow);
            add(Part::Mixer, hidden, narrow);
            add(Part::Mixer, width, hidden);
        }
        Mixer::Latent(l) => {
            let query = product(&[l.heads, l.nope.saturating_add(l.rope)]);
            if let Some(rank) = l.q_rank {
                add(Part::Mixer, hidden, rank);
                add(Part::Mixer, rank, query);
            } else {
                add(Part::Mixer, hidden, query);
            }
            add(Part::Mixer, hidden, l.kv_rank.saturating_add(l.rope));
            add(Part::Mixer, l.kv_rank, product(&[l.heads, l.nope.saturating_add(l.value)]));
            add(Part::Mixer, product(&[l.heads, l.value]), hidden);
        }
        Mixer::Delta(d) => {
            let values = product(&[d.value_heads, d.value_dim]);
            add(Part::Mixer, hidden, delta_channels(d));
            add(Part::Mixer, hidden, values);
            add(Part::Mixer, values, hidden);
            add(Part::Small, hidden, d.value_heads);
            add(Part::Small, hidden, d.value_heads);
        }
        Mixer::StateSpace(s) => {
            let inner = product(&[s.heads, s.head_dim]);
            add(Part::Mixer, hidden, sum([inner, state_space_channels(s), s.heads]));
            add(Part::Mixer, inner, hidden);
        }
        Mixer::None => {}
    }
}

/// What goes through the convolution of a delta net: queries, keys and values.
#[must_use]
pub fn delta_channels(d: Delta) -> u64 {
    sum([product(&[2, d.key_heads, d.key_dim]), product(&[d.value_heads, d.value_dim])])
}

/// What goes through the convolution of a Mamba layer.
#[must_use]
pub fn state_space_channels(s: StateSpace) -> u64 {
    sum([product(&[s.heads, s.head_dim]), product(&[2, s.groups, s.state])])
}

fn mlp(hidden: u64, layers: &Layers, out: &mut Vec<Linear>) {
    let mut add = |part, ffn, gated, many: u64| {
        let ways = if gated { 2 } else { 1 };
        let count = layers.count.saturating_mul(many);
        out.push(Linear { part, inputs: hidden, outputs: ffn, count: count.saturating_mul(ways) });
        out.push(Linear { part, inputs: ffn, outputs: hidden, count });
    };
    match layers.mlp {
        Mlp::Dense { ffn, gated } => add(Part::Mlp, ffn, gated, 1),
        Mlp::Experts { count, ffn, shared, gated, .. } => {
            add(Part::Expert, ffn, gated, count);
            if shared > 0 {
                add(Part::Mlp, shared, gated, 1);
            }
            let router = layers.count;
            out.push(Linear { part: Part::Small, inputs: hidden, outputs: count, count: router });
        }
        Mlp::None => {}
    }
}

/// Parameters by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// All of them.
    pub all: u64,
    /// Those of the matrices of the layers, which are what is quantised.
    pub linears: u64,
    /// Embedding, head, norms and whatever else there is.
    pub rest: u64,
}

/// Counts them. A number that was told wins over what can be counted; the difference is in the rest.
#[must_use]
pub fn parameters(shape: &Shape) -> Parameters {
    let linears = sum(linears(shape)
        .iter()
        .filter(|linear| linear.part != Part::Small)
        .map(|linear| product(&[linear.inputs, linear.outputs, linear.count])));
    let embedding = product(&[shape.vocab, shape.hidden, if shape.tied { 1 } else { 2 }]);
    let counted = sum([linears, embedding, small(shape)]);
    let all = shape.parameters.unwrap_or(counted);
    // A told number that is far from what is counted is of a model of another size: the share of matrices
    // is kept.
    let alike = all.abs_diff(counted) <= counted / 10 && all >= linears;
    let linears = if alike { linears } else { share(linears, all, counted) };
    Parameters { all, linears, rest: all.saturating_sub(linears) }
}

fn share(part: u64, of: u64, whole: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(of) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Norms, biases, convolutions and small matrices.
fn small(shape: &Shape) -> u64 {
    let small_linears = linears(shape);
    let routers = small_linears
        .iter()
        .filter(|linear| linear.part == Part::Small)
        .map(|linear| product(&[linear.inputs, linear.outputs, linear.count]));
    let layers = shape.layers.iter().map(|layers| {
        let of_mixer = match layers.mixer {
            Mixer::Attention(a) => shape.hidden.saturating_add(beside_attention(a)),
            Mixer::Latent(Latent { q_rank, kv_rank, .. }) => {
                sum([shape.hidden, q_rank.unwrap_or(0), kv_rank])
            }
            Mixer::Delta(d) => sum([
                shape.hidden,
                product(&[delta_channels(d), d.conv]),
                product(&[2, d.value_heads]),
                d.value_dim,
            ]),
            Mixer::StateSpace(s) => sum([
                shape.hidden,
                product(&[state_space_channels(s), s.conv.saturating_add(1)]),
                product(&[3, s.heads]),
                product(&[s.heads, s.head_dim]),
            ]),
            Mixer::None => 0,
        };
        let of_mlp = if layers.mlp == Mlp::None { 0 } else { shape.hidden };
        product(&[layers.count, of_mixer.saturating_add(of_mlp)])
    });
    sum(layers.chain(routers).chain([shape.hidden]))
}

fn beside_attention(a: Attention) -> u64 {
    let norms = if a.qk_norm { product(&[2, a.head_dim]) } else { 0 };
    let wide = product(&[a.heads.saturating_add(a.kv_heads.saturating_mul(2)), a.head_dim]);
    norms.saturating_add(if a.bias { wide } else { 0 })
}

/// Parameters of adapters of a rank: rank * (in + out) for each matrix.
#[must_use]
pub fn adapters(shape: &Shape, rank: u64, wanted: impl Fn(Part) -> bool) -> u64 {
    let targeted = linears(shape).into_iter().filter(|linear| wanted(linear.part));
    sum(targeted
        .map(|linear| product(&[rank, linear.inputs.saturating_add(linear.outputs), linear.count])))
}

/// Parameters of the largest single matrix of the layers.
#[must_use]
pub fn largest(shape: &Shape) -> u64 {
    linears(shape).iter().map(|l| product(&[l.inputs, l.outputs])).max().unwrap_or(0)
}

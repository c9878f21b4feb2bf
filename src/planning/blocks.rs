//! What one layer keeps for the backward pass, and what it takes while it is computed anew: bytes for each
//! token and each channel of the hidden state, from the shape's ratios.
//!
//! f is the MLP's width, q that of the queries and k that of the keys, each over the hidden state's. The
//! numbers were counted from the storages that are alive in Hugging Face models with flash attention in
//! bf16; they are linear in the ratios to less than a percent.

use super::choice::{AdapterDtype, Dtype, Method, Targets};
use super::plan::Plan;
use crate::model::shape::{Attention, Mixer, Mlp, Shape};
use std::fmt::Write;

/// The ratios of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Width of the MLP that a token goes through.
    pub f: f64,
    /// Width of the query projection, gate included.
    pub q: f64,
    /// Width of the keys.
    pub k: f64,
    /// Width of queries and keys that are normalised: without the gate, which is not. 0 where none are.
    pub normed: f64,
    /// Whether q has a gate in it, which is as wide as the queries.
    pub gated: bool,
}

impl Ratios {
    /// Their values, as a formula's inputs.
    fn words(self) -> String {
        const DIGITS: f64 = 1e6;
        let [f, q, k] = [self.f, self.q, self.k].map(|ratio| (ratio * DIGITS).round() / DIGITS);
        format!("f {f}, q {q}, k {k}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "widths of layers are far below 2^53")]
fn ratio(width: u64, hidden: u64) -> f64 {
    width as f64 / hidden.max(1) as f64
}

/// The ratios by which all layers of a shape are judged: those of its attention, and of its widest MLP.
#[must_use]
pub fn ratios(shape: &Shape) -> Ratios {
    let hidden = shape.hidden;
    let f = shape.layers.iter().map(|layers| match layers.mlp {
        Mlp::Dense { ffn, .. } => ffn,
        Mlp::Experts { active, ffn, shared, .. } => {
            active.saturating_mul(ffn).saturating_add(shared)
        }
        Mlp::None => 0,
    });
    let f = ratio(f.max().unwrap_or(0), hidden);
    let gated = shape.attention().is_some_and(|attention| attention.gated);
    let (q, k, normed) = match shape.attention() {
        Some(Attention { heads, kv_heads, head_dim, gated, qk_norm, .. }) => {
            let plain = ratio(heads.saturating_mul(head_dim), hidden);
            let k = ratio(kv_heads.saturating_mul(head_dim), hidden);
            (if gated { 2.0 * plain } else { plain }, k, if qk_norm { plain + k } else { 0.0 })
        }
        // Keys and values of latent attention are made as wide as the queries before they are used.
        None => match shape.layers.iter().find_map(|layers| match layers.mixer {
            Mixer::Latent(latent) => Some(latent),
            _ => None,
        }) {
            Some(latent) => {
                let q = ratio(
                    latent.heads.saturating_mul(latent.nope.saturating_add(latent.rope)),
                    hidden,
                );
                (q, q, 0.0)
            }
            None => (1.0, 1.0, 0.0),
        },
    };
    Ratios { f, q, k, normed, gated }
}

/// A coefficient and how it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficient {
    /// Bytes for each token and channel.
    pub bytes: f64,
    /// As a formula of f, q and k.
    pub formula: String,
    /// The values of those.
    pub inputs: String,
}

/// a + b f + c q + d k, and so much more for normalised queries and keys.
struct Row(f64, f64, f64, f64, f64);

impl Row {
    fn at(&self, ratios: Ratios) -> Coefficient {
        let Self(fixed, of_f, of_q, of_k, normed) = self;
        let mut formula = format!("{fixed} + {of_f}f + {of_q}q + {of_k}k");
        if ratios.normed > 0.0 {
            let queries = if ratios.gated { "q/2" } else { "q" };
            let _ = write!(formula, " + {normed}({queries}+k)");
        }
        let Ratios { f, q, k, normed: widths, .. } = ratios;
        let bytes = fixed + of_f * f + of_q * q + of_k * k + normed * widths;
        Coefficient { bytes, formula, inputs: ratios.words() }
    }
}

const fn full(gated: bool) -> Row {
    if gated { Row(16.0, 8.0, 4.0, 4.0, 6.0) } else { Row(16.0, 4.0, 4.0, 4.0, 6.0) }
}

/// What a layer keeps when nothing is computed anew.
#[must_use]
pub fn kept(plan: &Plan) -> Coefficient {
    let r = ratios(&plan.shape);
    if plan.method == Method::Full {
        if plan.shape.dropout && plan.dtype == Dtype::Bf16 {
            return Coefficient {
                bytes: 34.0,
                formula: "34 of a GPT block with dropout".to_owned(),
                inputs: r.words(),
            };
        }
        return full(plan.shape.gated()).at(r);
    }
    let row = match (plan.targets, plan.adapter_dtype) {
        (Targets::All, AdapterDtype::Fp32) => Row(28.0, 10.0, 8.0, 4.0, 4.0),
        (Targets::All, AdapterDtype::Bf16) => Row(12.0, 8.0, 4.0, 4.0, 4.0),
        (Targets::Attention, AdapterDtype::Fp32) => Row(20.0, 6.0, 8.0, 4.0, 4.0),
        (Targets::Attention, AdapterDtype::Bf16) => Row(10.0, 6.0, 4.0, 4.0, 4.0),
    };
    row.at(r)
}

/// What the one layer takes that is computed anew.
#[must_use]
pub fn transient(plan: &Plan) -> Coefficient {
    let r = ratios(&plan.shape);
    if plan.method == Method::Full {
        let kept = kept(plan);
        return Coefficient {
            bytes: kept.bytes + 6.0 * r.f + 8.0,
            formula: format!("{} + 6f + 8", kept.formula),
            inputs: kept.inputs,
        };
    }
    let row = match (plan.targets, plan.adapter_dtype) {
        (Targets::All, AdapterDtype::Fp32) => Row(41.0, 13.5, 7.7, 3.7, 4.0),
        (Targets::All, AdapterDtype::Bf16) => Row(15.7, 11.8, 3.9, 3.8, 4.0),
        (Targets::Attention, AdapterDtype::Fp32) => Row(23.6, 12.0, 7.7, 3.7, 4.0),
        (Targets::Attention, AdapterDtype::Bf16) => Row(13.9, 12.0, 3.9, 3.8, 4.0),
    };
    row.at(r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::shapes::find;

    fn kept_by(model: &str, method: Method, targets: Targets, adapters: AdapterDtype) -> f64 {
        let mut plan = Plan::of(find(model).unwrap().shape(), method);
        (plan.targets, plan.adapter_dtype) = (targets, adapters);
        kept(&plan).bytes
    }

    /// The columns of two models that are published beside the formulas.
    #[test]
    fn a_layer_keeps_what_was_counted() {
        use AdapterDtype::{Bf16, Fp32};
        use Targets::{All, Attention};
        for (method, targets, adapters, llama, qwen) in [
            (Method::Full, All, Fp32, 49.0, 52.5),
            (Method::Lora, All, Fp32, 72.0, 72.0),
            (Method::Lora, All, Bf16, 45.0, 46.0),
            (Method::Lora, Attention, Fp32, 50.0, 52.0),
            (Method::Lora, Attention, Bf16, 36.0, 38.0),
        ] {
            for (model, bytes) in [("llama-3.1-8b", llama), ("qwen3-8b", qwen)] {
                let counted = kept_by(model, method, targets, adapters);
                assert!((counted - bytes).abs() < 1e-9, "{model} {targets:?}: {counted}");
            }
        }
    }
}

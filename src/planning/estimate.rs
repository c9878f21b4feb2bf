//! What a plan takes: each term with its formula, and their sum at the peak.

use super::blocks;
use super::choice::{Dtype, Loss, Method, Optimizer, Targets};
use super::linears::{Parameters, Part, adapters, largest, linears as linears_of, parameters};
use super::load;
use super::plan::{Estimate, Plan, Term, TermId};
use super::serving;
use crate::model::shape::{product, sum};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Ratio};

/// 12345678 as 12,345,678.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A factor as a person would write it: what a sum of floats adds at its end is rounded away.
pub(super) fn shown(factor: f64) -> f64 {
    const DIGITS: f64 = 1e12;
    (factor * DIGITS).round() / DIGITS
}

/// So many things of a fraction of bytes each, to the nearest byte.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "exact up to 2^53 bytes, and a float cast saturates"
)]
pub(super) fn times(count: u64, each: f64) -> Bytes {
    Bytes((count as f64 * each).round() as u64)
}

impl Term {
    pub(super) fn new(id: TermId, bytes: Bytes, formula: &str, inputs: String) -> Self {
        Self { id, formula: formula.to_owned(), inputs, bytes, high: bytes }
    }

    pub(super) fn up_to(mut self, high: Bytes) -> Self {
        self.high = self.high.max(high);
        self
    }
}

/// Estimates a plan. `pool` is the size of the pool, which an engine that takes a share of it goes by.
#[must_use]
pub fn estimate(plan: &Plan, pool: Option<Bytes>, t: &Thresholds) -> Estimate {
    let mut estimate = of_shape(plan, pool, t);
    // Only a number of parameters is known: the shape is one of several.
    for shape in &plan.alike {
        let other = Plan { shape: shape.clone(), alike: Vec::new(), ..plan.clone() };
        widen(&mut estimate, &of_shape(&other, pool, t));
    }
    estimate
}

fn widen(into: &mut Estimate, other: &Estimate) {
    for term in &mut into.terms {
        let same = other.terms.iter().find(|theirs| theirs.id == term.id);
        term.high = term.high.max(same.map_or(Bytes(0), |theirs| theirs.high));
    }
    into.alloc_high = into.alloc_high.max(other.alloc_high);
    into.pool_high = into.pool_high.max(other.pool_high);
    into.pool_low = into.pool_low.min(other.pool_low);
    into.load.pool_high = into.load.pool_high.max(other.load.pool_high);
}

fn of_shape(plan: &Plan, pool: Option<Bytes>, t: &Thresholds) -> Estimate {
    let mut parts = Parts::default();
    weights(plan, &mut parts);
    if plan.trains() {
        training(plan, &mut parts);
    } else {
        serving::terms(plan, pool, &mut parts);
    }
    parts.finish(plan, t)
}

/// The terms of an estimate as they come.
#[derive(Default)]
pub(super) struct Parts {
    /// There for as long as the job runs.
    pub fixed: Vec<Term>,
    /// There at the peak.
    pub varying: Vec<Term>,
    /// There at another time.
    pub beside: Vec<Term>,
    /// Whether its engine would refuse to start.
    pub refused: bool,
    /// Remarks.
    pub notes: Vec<String>,
}

fn total(terms: &[Term], of: fn(&Term) -> Bytes) -> Bytes {
    terms.iter().map(of).sum()
}

impl Parts {
    fn finish(self, plan: &Plan, t: &Thresholds) -> Estimate {
        let Self { fixed, varying, beside, refused, notes } = self;
        let factor = match (plan.trains(), plan.expandable) {
            (false, _) => Ratio(1.0),
            (true, false) => t.plan_slack,
            (true, true) => t.plan_slack_expandable,
        };
        let context = if plan.trains() { t.plan_context_training } else { t.plan_context_serving };
        let weights = fixed.iter().filter(|term| term.id.of_weights()).map(|term| term.bytes);
        let load = load::peak(plan, weights.sum(), context, t);
        let base = total(&fixed, |term| term.bytes);
        let dynamic = total(&varying, |term| term.bytes);
        let slack = dynamic.scaled(factor.0 - 1.0);
        let alloc = base.plus(dynamic);
        let (high, high_dynamic) =
            (total(&fixed, |term| term.high), total(&varying, |term| term.high));
        let per_parameter = |term: &&Term| {
            matches!(term.id, TermId::Gradients) && !fixed.iter().any(|one| one.id == term.id)
        };
        let gradients: Bytes =
            varying.iter().chain(&beside).filter(per_parameter).map(|term| term.bytes).sum();
        Estimate {
            fixed: base.plus(gradients),
            alloc,
            alloc_high: high.plus(high_dynamic),
            slack,
            slack_factor: factor,
            context,
            pool: alloc.plus(slack).plus(context),
            pool_high: high
                .plus(high_dynamic)
                .plus(high_dynamic.scaled(factor.0 - 1.0))
                .plus(context),
            pool_low: alloc.plus(context),
            load,
            refused,
            terms: [fixed, varying].concat(),
            beside,
            notes,
        }
    }
}

/// The weights. They are the first of the fixed terms.
fn weights(plan: &Plan, parts: &mut Parts) {
    let Parameters { all, linears, rest } = parameters(&plan.shape);
    let dtype = plan.dtype;
    if let Some(stored) = plan.stored {
        parts.fixed.push(Term::new(
            TermId::Weights,
            stored,
            "the sum of the tensors in its files",
            grouped(stored.0),
        ));
    } else if !dtype.quantised() {
        parts.fixed.push(Term::new(
            TermId::Weights,
            Bytes(product(&[all, dtype.rest()])),
            "parameters x bytes",
            format!("{} x {} ({})", grouped(all), dtype.rest(), dtype.as_str()),
        ));
    } else {
        let scales = scales(plan);
        let (formula, inputs) = match scales {
            0 => ("parameters of matrices x bytes", String::new()),
            count => (
                "parameters of matrices x bytes + 4 a matrix",
                format!(" + 4 x {}", grouped(count)),
            ),
        };
        let quantised = Term::new(
            TermId::Weights,
            times(linears, dtype.linear()).plus(Bytes(product(&[scales, 4]))),
            formula,
            format!("{} x {}{inputs} ({})", grouped(linears), dtype.linear(), dtype.as_str()),
        );
        parts.fixed.push(match attention_kept(plan, linears) {
            Some(high) => quantised.up_to(high),
            None => quantised,
        });
        let raises = plan.trains() && dtype.dequantised();
        let (low, high) = match plan.raised {
            Some(true) if raises => (4, 4),
            None if raises => (2, 4),
            _ => (2, 2),
        };
        parts.fixed.push(
            Term::new(
                TermId::Embeddings,
                Bytes(product(&[rest, low])),
                "other parameters x bytes",
                format!("{} x {low}", grouped(rest)),
            )
            .up_to(Bytes(product(&[rest, high]))),
        );
        if high > low {
            parts.notes.push(
                "PEFT's preparation for k-bit training raises embedding, head and norms to fp32: the upper figure"
                    .to_owned(),
            );
        }
    }
}

/// Matrices that carry a scale of four bytes for the whole of them.
fn scales(plan: &Plan) -> u64 {
    if plan.dtype != Dtype::Nvfp4 {
        return 0;
    }
    let all = linears_of(&plan.shape).into_iter().filter(|linear| linear.part != Part::Small);
    sum(all.map(|linear| linear.count))
}

/// Many checkpoints of models with experts quantise the experts and leave attention in bf16.
fn attention_kept(plan: &Plan, linears: u64) -> Option<Bytes> {
    if !plan.shape.experts() || plan.dtype.dequantised() {
        return None;
    }
    let mixers = linears_of(&plan.shape).into_iter().filter(|linear| linear.part == Part::Mixer);
    let kept = mixers.fold(0_u64, |sum, linear| {
        sum.saturating_add(product(&[linear.inputs, linear.outputs, linear.count]))
    });
    let kept = kept.min(linears);
    Some(times(linears - kept, plan.dtype.linear()).plus(Bytes(product(&[2, kept]))))
}

fn training(plan: &Plan, parts: &mut Parts) {
    if plan.method == Method::Full {
        full(plan, parts);
    } else {
        lora(plan, parts);
    }
    match plan.method {
        Method::Dpo => parts.notes.push(
            "a pair counts as two sequences; the reference is the model without its adapters"
                .to_owned(),
        ),
        Method::Grpo => serving::rollouts(plan, parts),
        _ => {}
    }
    if plan.shape.hybrid() {
        parts.notes.push(
            "layers with a state are counted as if they were attention: theirs was never measured"
                .to_owned(),
        );
    }
}

/// Two states of one byte, with the scales of their blocks.
const EIGHT_BIT_STATES: f64 = 2.03;

/// Every parameter is trained: gradients and activations are not there at once, unless gradients are kept
/// over several batches.
fn full(plan: &Plan, parts: &mut Parts) {
    let all = parameters(&plan.shape).all;
    let bytes = plan.dtype.rest();
    let states = plan.optimizer.states(bytes);
    let optimizer = Term::new(
        TermId::Optimizer,
        Bytes(product(&[all, states])),
        "parameters x bytes of states",
        format!("{} x {states} ({})", grouped(all), plan.optimizer.as_str()),
    );
    parts.fixed.push(if plan.optimizer == Optimizer::Adamw8bit {
        parts.notes.push(
            "8-bit optimizers may keep the states of the embedding in 32 bits: the upper figure"
                .to_owned(),
        );
        let embedding = product(&[plan.shape.vocab, plan.shape.hidden]).min(all);
        let small = times(all - embedding, EIGHT_BIT_STATES);
        optimizer.up_to(small.plus(Bytes(product(&[embedding, 8]))))
    } else {
        optimizer
    });
    if plan.dtype == Dtype::Fp32 {
        parts.fixed.push(Term::new(
            TermId::CastCache,
            Bytes(product(&[all, 2])),
            "parameters x 2, while autocast is on",
            format!("{} x 2", grouped(all)),
        ));
    }
    let gradients = Term::new(
        TermId::Gradients,
        Bytes(product(&[all, bytes])),
        "parameters x bytes",
        format!("{} x {bytes}", grouped(all)),
    );
    let mut at_step = vec![gradients.clone()];
    if plan.optimizer.temporary() {
        at_step.push(Term::new(
            TermId::StepTemporary,
            Bytes(product(&[all, bytes])),
            "parameters x bytes, at the step of an optimizer that is not fused",
            format!("{} x {bytes}", grouped(all)),
        ));
    }
    let (mut in_backward, idle) = activations(plan);
    if plan.accumulation {
        in_backward.push(gradients);
    }
    let at = |terms: &[Term]| total(terms, |term| term.bytes);
    let (peak, mut other) = if at(&in_backward) >= at(&at_step) {
        (in_backward, at_step)
    } else {
        (at_step, in_backward)
    };
    other.retain(|term| peak.iter().all(|one| one.id != term.id));
    parts.varying.extend(peak);
    parts.beside.extend(other);
    parts.beside.extend(idle);
}

/// Adapters: small, so all that belongs to them counts as always there.
fn lora(plan: &Plan, parts: &mut Parts) {
    let wanted = |part: Part| match plan.targets {
        Targets::All => matches!(part, Part::Mixer | Part::Mlp),
        Targets::Attention => part == Part::Mixer,
    };
    let count = adapters(&plan.shape, plan.rank, wanted);
    let bytes = plan.adapter_dtype.bytes();
    let states = plan.optimizer.states(bytes);
    let widths = count / plan.rank.max(1);
    let mut add = |id, each: u64, formula: &str| {
        let inputs = match id {
            TermId::Adapters => format!("{} x {} x {each}", plan.rank, grouped(widths)),
            _ => format!("{} x {each}", grouped(count)),
        };
        parts.fixed.push(Term::new(id, Bytes(product(&[count, each])), formula, inputs));
    };
    add(TermId::Adapters, bytes, "rank x (in + out) of each matrix x bytes");
    add(TermId::Gradients, bytes, "parameters of adapters x bytes");
    add(TermId::Optimizer, states, "parameters of adapters x bytes of states");
    if plan.targets == Targets::All && plan.shape.experts() {
        parts.notes.push(
            "experts are given no adapters: trainers keep them as one tensor that adapters do not find"
                .to_owned(),
        );
    }
    let (peak, idle) = activations(plan);
    parts.varying.extend(peak);
    parts.beside.extend(idle);
}

/// Activations, logits and the layer that is computed anew: what there is at the peak, and what there is
/// at another time.
fn activations(plan: &Plan) -> (Vec<Term>, Vec<Term>) {
    let u = product(&[plan.tokens(), plan.shape.hidden]);
    let depth = plan.shape.depth();
    let sizes = format!(
        "{depth} layers x {} (u = {} x {})",
        grouped(u),
        grouped(plan.tokens()),
        grouped(plan.shape.hidden)
    );
    let logits = logits(plan, u);
    if !plan.checkpointing {
        let kept = blocks::kept(plan);
        let each = product(&[depth, u]);
        let activations = Term::new(
            TermId::Activations,
            times(each, kept.bytes),
            &format!("({}) x layers x u", kept.formula),
            format!("{}: {} x {sizes}", kept.inputs, shown(kept.bytes)),
        );
        return (vec![activations, logits], Vec::new());
    }
    let checkpoints = Term::new(
        TermId::Activations,
        Bytes(product(&[2, depth, u])),
        "2 x layers x u (checkpoints)",
        format!("2 x {sizes}"),
    );
    let layer = recomputed(plan, u);
    let at = |terms: &[Term]| total(terms, |term| term.bytes);
    let high = total(&layer, |term| term.high);
    if logits.bytes >= at(&layer) {
        let logits = logits.up_to(high);
        (vec![checkpoints, logits], layer)
    } else {
        ([vec![checkpoints], layer].concat(), vec![logits])
    }
}

/// The layer that is computed anew in the backward pass.
fn recomputed(plan: &Plan, u: u64) -> Vec<Term> {
    let coefficient = blocks::transient(plan);
    let bytes = times(u, coefficient.bytes);
    let mut transient = Term::new(
        TermId::Transient,
        bytes,
        &format!("({}) x u, one layer recomputed", coefficient.formula),
        format!("{}: {} x {}", coefficient.inputs, shown(coefficient.bytes), grouped(u)),
    );
    if plan.shape.experts() {
        // Trainers of experts in four bits were seen to take twice what a dense layer does.
        transient = transient.up_to(bytes.plus(bytes));
    }
    let mut layer = vec![transient];
    if plan.dtype.dequantised() {
        let one = largest(&plan.shape);
        layer.push(Term::new(
            TermId::Dequantised,
            Bytes(product(&[2, one])),
            "2 x the largest matrix, in bf16 while it is used",
            format!("2 x {}", grouped(one)),
        ));
    }
    layer
}

fn logits(plan: &Plan, u: u64) -> Term {
    let vocab = plan.shape.vocab;
    if plan.loss == Loss::Fused {
        return Term::new(
            TermId::Logits,
            Bytes(product(&[2, u])),
            "2 x u (a fused loss keeps no logits)",
            format!("2 x {}", grouped(u)),
        );
    }
    let tokens =
        if plan.loss == Loss::Chunked { plan.tokens().min(plan.chunk) } else { plan.tokens() };
    Term::new(
        TermId::Logits,
        times(product(&[tokens, vocab]), plan.loss.element()),
        "tokens x vocabulary x bytes",
        format!("{} x {} x {}", grouped(tokens), grouped(vocab), plan.loss.element()),
    )
}

//! What serving a model takes: the cache of keys and values, states of fixed size, and the engine.

use super::choice::Engine;
use super::estimate::{Parts, grouped, times};
use super::linears::{delta_channels, state_space_channels};
use super::plan::{Plan, Serving, Term, TermId};
use crate::model::shape::{Mixer, Shape, product, sum};
use crate::units::{Bytes, Ratio};

/// The most that a token worked on was seen to take: 5.30 GiB for 8,224 of them, on one of the largest
/// models that these machines hold.
const WORKING_TOKENS: f64 = 8224.0;
const WORKING_GIB: f64 = 5.30;
/// The most that vLLM was seen to take beyond its share while it started: of the 117 GiB that an idle box has
/// available, 2.5 were left, beside a share of 85.2 and a context of 3. Others took nothing beyond it.
const START: Bytes = Bytes::from_gib(26);
/// SGLang's transients that no setting of its own bounds.
const SGLANG: (Bytes, Bytes) = (Bytes(25_000_000_000), Bytes(40_000_000_000));

/// The cache of one sequence of so many tokens, without states of fixed size.
#[must_use]
pub fn cache(shape: &Shape, tokens: u64, serving: &Serving) -> Bytes {
    let numbers = sum(shape.layers.iter().map(|layers| {
        let numbers = match layers.mixer {
            Mixer::Attention(a) => {
                let seen = a.window.map_or(tokens, |window| window.min(tokens));
                product(&[2, seen, a.kv_heads, a.head_dim])
            }
            // One compressed key and value for all heads, so no factor of two.
            Mixer::Latent(l) => product(&[tokens, l.kv_rank.saturating_add(l.rope)]),
            Mixer::Delta(_) | Mixer::StateSpace(_) | Mixer::None => 0,
        };
        product(&[layers.count, numbers])
    }));
    let bytes = u128::from(numbers) * u128::from(serving.kv.of_32()) / 32;
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// What each kind of layer keeps of its tokens, in numbers.
fn layers_of(shape: &Shape, tokens: u64) -> String {
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for layers in &shape.layers {
        let each = match layers.mixer {
            Mixer::Attention(a) => {
                let seen = a.window.map_or(tokens, |window| window.min(tokens));
                format!("2 x {} x {} x {}", grouped(seen), a.kv_heads, a.head_dim)
            }
            Mixer::Latent(l) => {
                format!("{} x {}", grouped(tokens), l.kv_rank.saturating_add(l.rope))
            }
            Mixer::Delta(_) | Mixer::StateSpace(_) | Mixer::None => continue,
        };
        match kinds.iter_mut().find(|(kind, _)| *kind == each) {
            Some((_, count)) => *count = count.saturating_add(layers.count),
            None => kinds.push((each, layers.count)),
        }
    }
    let all: Vec<String> = kinds.iter().map(|(each, count)| format!("{count} x {each}")).collect();
    all.join(" + ")
}

/// The states of fixed size of one sequence: in fp32, and the convolution's past in bf16.
#[must_use]
pub fn state(shape: &Shape) -> Bytes {
    Bytes(sum(shape.layers.iter().map(|layers| {
        let (state, channels, conv) = match layers.mixer {
            Mixer::Delta(d) => {
                (product(&[d.value_heads, d.key_dim, d.value_dim]), delta_channels(d), d.conv)
            }
            Mixer::StateSpace(s) => {
                (product(&[s.heads, s.head_dim, s.state]), state_space_channels(s), s.conv)
            }
            _ => return 0,
        };
        let past = product(&[channels, conv.saturating_sub(1), 2]);
        product(&[layers.count, product(&[state, 4]).saturating_add(past)])
    })))
}

/// The terms of serving. The weights are there already.
pub(super) fn terms(plan: &Plan, pool: Option<Bytes>, parts: &mut Parts) {
    let serving = &plan.serving;
    let mut inside = cache_terms(plan, serving.sequences, serving.context);
    inside.push(working(plan));
    if serving.engine.takes_a_share() && serving.utilization.is_none() {
        let needed: Bytes = parts.fixed.iter().chain(&inside).map(|term| term.high).sum();
        parts.notes.push(untold(needed, pool));
    }
    let (Some(Ratio(share)), true, Some(pool)) =
        (serving.utilization, serving.engine.takes_a_share(), pool)
    else {
        parts.fixed.extend(inside);
        return;
    };
    // The engine takes its share whole: what weights and activations leave of it is cache.
    let taken = pool.scaled(share);
    let weights: Bytes = parts.fixed.iter().map(|term| term.bytes).sum();
    let needed: Bytes = inside.iter().map(|term| term.bytes).sum();
    let rest = taken.less(weights);
    let per_token = cache(&plan.shape, serving.context, serving).0 / serving.context.max(1);
    if needed > rest {
        parts.refused = true;
        parts.notes.push(format!(
            "a share of {} leaves {rest} for cache and activations; {needed} are asked for: the engine refuses to start",
            Ratio(share)
        ));
    } else if let Some(tokens) = rest.0.checked_div(per_token) {
        parts.notes.push(format!(
            "what the share leaves is room for at most {} tokens of cache",
            grouped(tokens)
        ));
    }
    let formula =
        "what the engine takes of the pool by its share, less weights, cache and activations";
    let inputs = format!("{} x {} less the others", Ratio(share), grouped(pool.0));
    let over = taken.less(weights.plus(needed));
    // Whatever is more of one is less of another: the share is all that it takes.
    for term in &mut inside {
        term.high = term.bytes;
    }
    parts.fixed.extend(inside);
    parts.fixed.push(Term::new(TermId::Share, over, formula, inputs));
    let formula = "beyond its share while it starts: mostly nothing, twice all that there was";
    let inputs = format!("0 to {START} (A33, A37)");
    parts.fixed.push(Term::new(TermId::Start, Bytes(0), formula, inputs).up_to(START));
}

/// What an engine takes that is not told its share, and the least that would do.
fn untold(needed: Bytes, pool: Option<Bytes>) -> String {
    let least = pool
        .and_then(|pool| needed.share_of(pool))
        .map(|Ratio(share)| (share * 100.0).ceil() / 100.0);
    let told = match least {
        Some(share) if share <= 1.0 => format!(", here with {share:.2} or more"),
        _ => String::new(),
    };
    format!(
        "this is the least that it needs; vLLM takes 0.9 of the pool or more unless it is told: plan with --utilization{told}"
    )
}

fn cache_terms(plan: &Plan, sequences: u64, tokens: u64) -> Vec<Term> {
    let mut out = Vec::new();
    let one = cache(&plan.shape, tokens, &plan.serving);
    out.push(Term::new(
        TermId::KvCache,
        Bytes(product(&[one.0, sequences])),
        "sequences x (layers x 2 x tokens x key heads x width) x bytes; of latent attention layers x tokens x width",
        format!(
            "{sequences} x ({}) x {} ({})",
            layers_of(&plan.shape, tokens),
            f64::from(u32::try_from(plan.serving.kv.of_32()).unwrap_or(u32::MAX)) / 32.0,
            plan.serving.kv.as_str()
        ),
    ));
    let fixed = state(&plan.shape);
    if fixed > Bytes(0) {
        out.push(Term::new(
            TermId::State,
            Bytes(product(&[fixed.0, sequences])),
            "sequences x states of fixed size",
            format!("{sequences} x {}", grouped(fixed.0)),
        ));
    }
    out
}

/// What an engine works with. Only how it grows is known, so it is a range.
fn working(plan: &Plan) -> Term {
    let engine = plan.serving.engine;
    if engine == Engine::Sglang {
        let (low, high) = SGLANG;
        return Term::new(
            TermId::Working,
            low,
            "SGLang's transients, as seen",
            format!("{low} to {high}"),
        )
        .up_to(high);
    }
    let tokens = plan.serving.batched_tokens.unwrap_or(engine.batched_tokens());
    let high = times(tokens, Bytes::from_gib(1).as_f64() * WORKING_GIB / WORKING_TOKENS);
    let formula = "tokens worked on at once x 0 to 5.30 GiB / 8,224, the most that was seen";
    Term::new(TermId::Working, Bytes(0), formula, grouped(tokens)).up_to(high)
}

/// What writing answers takes before they are trained on: it is over when the step begins, unless an engine
/// stays beside the trainer.
pub(super) fn rollouts(plan: &Plan, parts: &mut Parts) {
    let terms = cache_terms(plan, plan.batch, plan.seq);
    parts.beside.extend(terms);
    parts.notes.push(
        "answers are written before the step, with the cache below; an engine that stays beside the trainer (vLLM colocated) takes its share on top, and has to be planned apart"
            .to_owned(),
    );
}

//! A plan as a document. Amounts are bytes; new keys may appear within format 1, none changes its meaning.

use super::Told;
use crate::model::pool::Reader;
use crate::model::reading::Reading;
use crate::planning::choice::Loss;
use crate::planning::linears::parameters;
use crate::planning::plan::{Plan, Term};
use crate::planning::rows::Known;
use crate::planning::verdict::Outcome;
use crate::units::Bytes;
use serde_json::{Value, json};

const FORMAT: u32 = 1;

/// The whole document.
pub(super) fn document(told: &Told) -> Value {
    let e = &told.estimate;
    json!({
        "format": FORMAT,
        "plan": plan(&told.job.plan),
        "assumed": told.job.assumed,
        "terms": e.terms.iter().map(term).collect::<Vec<_>>(),
        "beside": e.beside.iter().map(term).collect::<Vec<_>>(),
        "static_bytes": e.fixed.0,
        "alloc_bytes": e.alloc.0,
        "alloc_high_bytes": e.alloc_high.0,
        "slack_bytes": e.slack.0,
        "slack_factor": e.slack_factor.0,
        "context_bytes": e.context.0,
        "pool_bytes": e.pool.0,
        "pool_low_bytes": e.pool_low.0,
        "pool_high_bytes": e.pool_high.0,
        "load": {
            "weights_bytes": e.load.weights.0,
            "extra_bytes": e.load.extra.0,
            "extra_high_bytes": e.load.extra_high.0,
            "formula": e.load.formula,
            "alloc_bytes": e.load.alloc.0,
            "pool_bytes": e.load.pool.0,
            "pool_high_bytes": e.load.pool_high.0,
        },
        "budget": budget(told),
        "verdict": verdict(told),
        "without_others": told.alone.map(|(held, outcome)| json!({
            "held_bytes": held.0,
            "outcome": outcome.as_str(),
        })),
        "anchors": anchors(told),
        "ladder": ladder(told),
        "notes": told.job.notes.iter().chain(&e.notes).collect::<Vec<_>>(),
        "warnings": told.warnings,
    })
}

fn plan(plan: &Plan) -> Value {
    let mut out = json!({
        "model": plan.shape.name,
        "parameters": parameters(&plan.shape).all,
        "layers": plan.shape.depth(),
        "method": plan.method.as_str(),
        "dtype": plan.stored.is_none().then(|| plan.dtype.as_str()),
        "stored_bytes": plan.stored.map(|bytes| bytes.0),
        "loader": plan.loader.as_str(),
        "staging_bytes": plan.staging.map(|bytes| bytes.0),
        "engine": plan.serving.engine.as_str(),
    });
    let more = if plan.trains() {
        json!({
            "batch": plan.batch,
            "seq": plan.seq,
            "rank": plan.rank,
            "targets": plan.targets.as_str(),
            "adapter_dtype": plan.adapter_dtype.as_str(),
            "optimizer": plan.optimizer.as_str(),
            "checkpointing": plan.checkpointing,
            "accumulation": plan.accumulation,
            "loss": plan.loss.as_str(),
            "chunk": (plan.loss == Loss::Chunked).then_some(plan.chunk),
            "raised": plan.raised,
            "expandable_segments": plan.expandable,
        })
    } else {
        json!({
            "sequences": plan.serving.sequences,
            "context": plan.serving.context,
            "kv_dtype": plan.serving.kv.as_str(),
            "utilization": plan.serving.utilization.map(|share| share.0),
            "batched_tokens": plan.serving.batched_tokens,
        })
    };
    if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
        out.extend(more);
    }
    out
}

fn term(term: &Term) -> Value {
    json!({
        "id": term.id.as_str(),
        "bytes": term.bytes.0,
        "high_bytes": term.high.0,
        "formula": term.formula,
        "inputs": term.inputs,
    })
}

/// As the status document has it: a figure, or why there is none.
fn figure(reading: Reading<Bytes>) -> Value {
    match reading {
        Ok(bytes) => json!(bytes.0),
        Err(reason) => json!({ "missing": reason.as_str() }),
    }
}

fn budget(told: &Told) -> Value {
    let budget = &told.left.budget;
    json!({
        "of": told.left.of,
        "watched": told.left.watched,
        "size_bytes": figure(budget.size),
        "available_bytes": figure(budget.available),
        "free_bytes": figure(budget.free),
        "flushable_bytes": figure(budget.flushable),
        "held_by_jobs_bytes": figure(told.left.held()),
        "claimed_bytes": figure(budget.claimed[told.verdicts.reader as usize]),
        "contiguous_bytes": figure(budget.contiguous),
        "reserve_bytes": told.thresholds.reserve.0,
        "comfort_bytes": told.thresholds.plan_comfort.0,
        "room_bytes": figure(budget.room(told.verdicts.reader).map(|room| room.less(told.thresholds.reserve))),
    })
}

fn verdict(told: &Told) -> Value {
    let v = &told.verdicts;
    let by = |of: &[Outcome; Reader::ALL.len()]| {
        json!({
            Reader::Free.as_str(): of[Reader::Free as usize].as_str(),
            Reader::Available.as_str(): of[Reader::Available as usize].as_str(),
        })
    };
    json!({
        "outcome": v.whole().as_str(),
        "reader": v.reader.as_str(),
        "load": by(&v.load),
        "steady": by(&v.steady),
    })
}

/// Whether it fits, if it says so.
const fn fits(known: Known) -> Option<bool> {
    match known {
        Known::Ran => Some(true),
        Known::DidNotFit => Some(false),
        Known::Nothing(_) => None,
    }
}

fn anchors(told: &Told) -> Value {
    let each = told.anchors.iter().map(|anchor| {
        json!({
            "id": anchor.id,
            "what": anchor.what,
            "known_as": anchor.counted.as_str(),
            "source": anchor.source,
            "measured_bytes": anchor.measured.map(|bytes| bytes.0),
            "estimated_bytes": anchor.estimated.map(|bytes| bytes.0),
            "fits": fits(anchor.known),
            "near": anchor.near,
            "ratio": anchor.ratio.map(|share| share.0),
            "far_off": anchor.far,
        })
    });
    each.collect()
}

fn ladder(told: &Told) -> Value {
    let each = told.ladder.iter().map(|rung| {
        json!({
            "rung": rung.id.as_str(),
            "action": rung.action,
            "effect_bytes": rung.effect.0,
            "helps": rung.helps,
            "alone": rung.alone.as_str(),
            "with_earlier": rung.together.as_str(),
            "remark": rung.remark,
        })
    });
    each.collect()
}

//! The peak while a model is loaded: its weights, and what its loader holds beside them.

use super::choice::Loader;
use super::estimate::grouped;
use super::linears::{largest, parameters};
use super::plan::{Load, Plan};
use crate::model::shape::product;
use crate::thresholds::Thresholds;
use crate::units::Bytes;

/// The largest file of weights on record. One that is not known may be as large.
const LARGEST_SHARD: Bytes = Bytes(36_000_000_000);

/// What a loader holds beside the weights, at most, and how that comes about.
struct Extra(Bytes, Bytes, String);

/// The peak of a plan's load.
pub(super) fn peak(plan: &Plan, weights: Bytes, context: Bytes, t: &Thresholds) -> Load {
    let Extra(extra, extra_high, formula) = if plan.dtype.dequantised() && plan.stored.is_none() {
        quantising(plan, t)
    } else {
        plain(plan, weights, t)
    };
    let alloc = weights.plus(extra);
    Load {
        weights,
        extra,
        extra_high,
        formula,
        alloc,
        pool: alloc.plus(context),
        pool_high: weights.plus(extra_high).plus(context),
    }
}

fn staging(plan: &Plan, weights: Bytes, t: &Thresholds) -> (Bytes, &'static str) {
    let (staging, what) = match (plan.staging, plan.largest_file) {
        (Some(given), _) => (given, "what it holds while it streams, as given"),
        (None, Some(file)) => (file.min(t.plan_staging), "its largest file, or a usual one"),
        (None, None) => (t.plan_staging, "a usual file of weights"),
    };
    (staging.min(weights), what)
}

fn plain(plan: &Plan, weights: Bytes, t: &Thresholds) -> Extra {
    let (stage, what) = staging(plan, weights, t);
    let exactly = |bytes: Bytes, text: &str| {
        Extra(bytes, bytes, format!("weights + {text} ({})", grouped(bytes.0)))
    };
    match plan.loader {
        Loader::Streamed => exactly(stage, what),
        Loader::Mapped => exactly(weights, "the same again: mapped file and copy"),
        Loader::CpuFirst => exactly(weights, "the same again in the CPU's memory"),
        Loader::Buffered => exactly(weights, "the whole file in a list"),
        Loader::Shard => match plan.largest_file {
            Some(file) => exactly(file, "its largest file"),
            None => Extra(
                stage,
                LARGEST_SHARD.min(weights).max(stage),
                format!("weights + its largest file ({} or more)", grouped(stage.0)),
            ),
        },
        Loader::Auto => Extra(
            stage,
            weights,
            format!(
                "weights + {what} ({}) when streamed, + the same again when mapped",
                grouped(stage.0)
            ),
        ),
    }
}

/// Weights that are quantised while they are loaded: the files are in bf16, and their pages are cache that
/// can be taken back.
fn quantising(plan: &Plan, t: &Thresholds) -> Extra {
    let file = Bytes(product(&[2, parameters(&plan.shape).all]));
    let tensor = Bytes(product(&[2, largest(&plan.shape)]));
    let shard = plan.largest_file.unwrap_or(t.plan_staging).min(file).max(tensor);
    let exactly = |bytes: Bytes, text: &str| {
        Extra(bytes, bytes, format!("quantised weights + {text} ({})", grouped(bytes.0)))
    };
    match plan.loader {
        Loader::Streamed => exactly(tensor, "one matrix in bf16"),
        Loader::Mapped | Loader::Shard => exactly(shard, "one file in bf16"),
        Loader::CpuFirst | Loader::Buffered => exactly(file, "all of it in bf16"),
        Loader::Auto => Extra(
            tensor,
            shard,
            format!("quantised weights + one matrix in bf16 ({}), or one file", grouped(tensor.0)),
        ),
    }
}

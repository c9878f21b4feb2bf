//! The measured plans that are nearest to one, and how far the model is from what was measured.

use super::choice::Method;
use super::estimate::estimate;
use super::linears::parameters;
use super::plan::{Estimate, Plan};
use super::rows::{Counted, Known, PUBLISHED, ROWS, Row, Told, published};
use super::verdict::{Budget, Need, Outcome, judge, verdicts};
use crate::model::pool::Reader;
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Ratio};

/// So many anchors are shown.
const SHOWN: usize = 3;
/// Plans whose sizes differ by less than this factor in one thing are near each other.
const NEAR: f64 = 1.5;

/// A known combination beside a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Anchor {
    /// Its name.
    pub id: &'static str,
    /// What it was.
    pub what: String,
    /// How it is known.
    pub counted: Counted,
    /// Who published it.
    pub source: &'static str,
    /// What was measured; nothing where it did not fit.
    pub measured: Option<Bytes>,
    /// What the model says of the anchor itself.
    pub estimated: Option<Bytes>,
    /// What it says of the size of its job.
    pub known: Known,
    /// Whether it is so near that the plan should take about as much.
    pub near: bool,
    /// The plan's share of what was measured for it, where it is near.
    pub ratio: Option<Ratio>,
    /// Whether that is far off.
    pub far: bool,
}

#[expect(clippy::cast_precision_loss, reason = "ratios of sizes")]
fn apart(a: u64, b: u64) -> f64 {
    (a.max(1) as f64 / b.max(1) as f64).ln().abs()
}

/// How far a plan is from another: logarithms of ratios, so that half and double are as far.
fn distance(plan: &Plan, other: &Plan) -> f64 {
    let all = |plan: &Plan| parameters(&plan.shape).all;
    let mut far = apart(all(plan), all(other)) * 3.0;
    if plan.trains() && other.trains() {
        far += apart(plan.tokens(), other.tokens());
    }
    let unlike = [
        (family(plan) != family(other), 6.0),
        (plan.dtype != other.dtype, 2.0),
        (plan.checkpointing != other.checkpointing, 2.0),
        (plan.loss != other.loss, 0.5),
        (plan.targets != other.targets, 0.2),
    ];
    far + unlike.iter().filter(|(differs, _)| *differs).map(|(_, cost)| cost).sum::<f64>()
}

/// Methods that take about the same.
const fn family(plan: &Plan) -> u8 {
    match plan.method {
        Method::Full => 0,
        Method::Lora | Method::Qlora | Method::Dpo | Method::Grpo => 1,
        Method::Inference => 2,
    }
}

/// The anchors that are nearest to a plan, nearest first.
#[must_use]
pub fn anchors(plan: &Plan, estimated: &Estimate, t: &Thresholds) -> Vec<Anchor> {
    let mut near: Vec<(f64, &Row, Plan)> = ROWS
        .iter()
        .filter_map(|row| Some((row, row.plan()?)))
        .filter(|(_, other)| family(other) == family(plan))
        .map(|(row, other)| (distance(plan, &other), row, other))
        .collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    near.truncate(SHOWN);
    let mut out: Vec<Anchor> = near
        .into_iter()
        .map(|(far, row, other)| {
            let near = far < NEAR.ln() && row.counted == Counted::Allocated;
            beside(row, &other, estimated, near, t)
        })
        .collect();
    out.extend(minimum(plan, estimated));
    out
}

fn beside(row: &Row, other: &Plan, plan: &Estimate, near: bool, t: &Thresholds) -> Anchor {
    let ratio = row.measured.filter(|_| near).and_then(|measured| plan.alloc.share_of(measured));
    Anchor {
        id: row.id,
        what: row.what.to_owned(),
        counted: row.counted,
        source: row.source,
        measured: row.measured,
        estimated: Some(estimate(other, None, t).alloc),
        known: row.known,
        near,
        ratio,
        far: ratio.is_some_and(|Ratio(share)| (share - 1.0).abs() > t.plan_far_off.0),
    }
}

/// What a project publishes as the least for a model of this size on another machine.
fn minimum(plan: &Plan, estimated: &Estimate) -> Option<Anchor> {
    let (size, bytes) = published(plan.method, parameters(&plan.shape).all)?;
    debug_assert!(PUBLISHED.iter().any(|(of, _, _)| *of == size));
    Some(Anchor {
        id: "Unsloth",
        what: format!(
            "least for {} of {} billion parameters",
            plan.method.as_str(),
            size / 1_000_000_000
        ),
        counted: Counted::Published,
        source: "Unsloth's requirements, for machines with memory of their own",
        measured: Some(bytes),
        estimated: None,
        known: Known::Ran,
        near: false,
        ratio: estimated.alloc.share_of(bytes),
        far: false,
    })
}

/// A row beside what the model says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Its name.
    pub id: &'static str,
    /// Its estimate.
    pub estimate: Estimate,
    /// How far that is from what was measured, as a share of it.
    pub error: Option<f64>,
    /// Whether that counts.
    pub counts: bool,
}

/// Every row that can be planned, beside its estimate. `pool` is the pool that they were measured on.
#[must_use]
pub fn held(pool: Bytes, t: &Thresholds) -> Vec<(&'static Row, Held)> {
    let of = |row: &'static Row| {
        let plan = row.plan()?;
        let estimate = estimate(&plan, Some(pool), t);
        let error = row.measured.map(|m| estimate.alloc.as_f64() / m.as_f64() - 1.0);
        let counts = row.told == Told::Whole && error.is_some();
        Some((row, Held { id: row.id, estimate, error, counts }))
    };
    ROWS.iter().filter_map(of).collect()
}

/// A row as it would have been judged on a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What it takes of the pool, while it loads or runs, whichever is more.
    pub pool: Bytes,
    /// At most.
    pub pool_high: Bytes,
    /// The verdict, by what is available.
    pub outcome: Outcome,
    /// Whether it is the estimate that is judged. Where too little is told for one, it is what was measured.
    pub estimated: bool,
}

/// Judges a row, where anything is told that can be judged. `pool` is the pool that they were measured on.
#[must_use]
pub fn judged(row: &Row, pool: Bytes, budget: &Budget, t: &Thresholds) -> Option<Judged> {
    if let Some(plan) = row.plan() {
        let estimate = estimate(&plan, Some(pool), t);
        let outcome = verdicts(&estimate, Reader::Available, budget, t).whole();
        return Some(Judged {
            pool: estimate.pool.max(estimate.load.pool),
            pool_high: estimate.pool_high.max(estimate.load.pool_high),
            outcome,
            estimated: true,
        });
    }
    let bytes = row.measured?;
    let need = Need { low: bytes, usual: bytes, high: bytes };
    let outcome = judge(need, budget.room(Reader::Available), t);
    Some(Judged { pool: bytes, pool_high: bytes, outcome, estimated: false })
}

/// Whether a verdict is wrong, by what a row says. A start that took all memory for no reason that is told must
/// at least not pass as a plain yes.
#[must_use]
pub fn wrong(row: &Row, outcome: Outcome) -> bool {
    match row.known {
        Known::Ran => outcome == Outcome::DoesNotFit,
        Known::DidNotFit => outcome != Outcome::DoesNotFit,
        Known::Nothing(_) => outcome == Outcome::Fits,
    }
}

/// The median and the worst error of the rows that count, each without its sign, and the worst one's name.
#[must_use]
pub fn errors(held: &[(&'static Row, Held)]) -> Option<(f64, f64, &'static str)> {
    let mut errors: Vec<(f64, &'static str)> = held
        .iter()
        .filter(|(_, held)| held.counts)
        .filter_map(|(_, held)| Some((held.error?.abs(), held.id)))
        .collect();
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (worst, name) = *errors.last()?;
    Some((errors[errors.len() / 2].0, worst, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::shapes::find;

    /// A box at rest: 110 to 117 GiB available are on record, and the runs were made with most of it.
    const AVAILABLE: Bytes = Bytes::from_gib(117);
    const POOL: Bytes = Bytes::from_kib(127_600_748);

    #[test]
    fn the_model_is_near_what_was_measured() {
        let held = held(POOL, &Thresholds::default());
        let (median, worst, name) = errors(&held).unwrap();
        assert!(median <= 0.05, "median {median}");
        assert!(worst < 0.07 && name == "A01", "{name}: {worst}");
        assert!(held.iter().filter(|(_, held)| held.counts).count() >= 9);
    }

    /// The published rows have these numbers.
    const PUBLISHED_ROWS: std::ops::RangeInclusive<u32> = 1..=37;
    /// Of them, those that did not fit: killed, machine down, out of memory, or more than the pool.
    const TOO_LARGE: &[&str] = &["A10", "A21", "A28", "A32", "A35"];
    /// Those that say nothing of the size of a job; each says why.
    const NO_SIZE: &[&str] = &["A33", "A34", "A37"];

    /// None is left out, and none is counted as something else than what its publisher says.
    #[test]
    fn every_published_row_ran_or_did_not_fit_or_says_why_it_tells_no_size() {
        for number in PUBLISHED_ROWS {
            let id = format!("A{number:02}");
            let all: Vec<&Row> = ROWS.iter().filter(|row| row.id == id).collect();
            assert!(!all.is_empty(), "{id} is in no class");
            let has = |is: fn(&Row) -> bool| all.iter().any(|row| is(row));
            let too_large = has(|row| row.known == Known::DidNotFit);
            let no_size = has(|row| matches!(row.known, Known::Nothing(_)));
            assert_eq!(too_large, TOO_LARGE.contains(&id.as_str()), "{id}");
            assert_eq!(no_size, NO_SIZE.contains(&id.as_str()), "{id}");
        }
        let known = |row: &Row| PUBLISHED_ROWS.clone().any(|n| row.id == format!("A{n:02}"));
        assert!(ROWS.iter().all(known));
    }

    #[test]
    fn what_ran_is_not_refused_and_what_did_not_is() {
        let t = Thresholds::default();
        let budget = Budget { size: Ok(POOL), ..Budget::given(AVAILABLE) };
        let (mut refused, mut ran) = (0, 0);
        for row in ROWS {
            let Some(judged) = judged(row, POOL, &budget, &t) else {
                assert!(matches!(row.known, Known::Nothing(_)), "{} cannot be judged", row.id);
                continue;
            };
            let (id, what) = (row.id, row.what);
            assert!(!wrong(row, judged.outcome), "{id} {what}: {judged:?}");
            refused += usize::from(row.known == Known::DidNotFit);
            ran += usize::from(row.known == Known::Ran);
        }
        assert!(refused >= 5 && ran >= 40, "{refused} did not fit, {ran} ran");
    }

    #[test]
    fn a_plan_far_off_its_anchor_says_so() {
        let t = Thresholds::default();
        let mut plan = ROWS.iter().find(|row| row.id == "A07").unwrap().plan().unwrap();
        let first = |plan: &Plan| anchors(plan, &estimate(plan, None, &t), &t).remove(0);
        let same = first(&plan);
        assert_eq!((same.id, same.near, same.far), ("A07", true, false));
        // The same in all but the size of its weights.
        plan.stored = Some(Bytes::from_gib(90));
        assert!(first(&plan).far);
        let other = Plan::of(find("llama-3.2-1b").unwrap().shape(), Method::Full);
        assert!(!first(&other).near);
    }
}

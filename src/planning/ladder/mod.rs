//! What to do when it does not fit, in order: what costs its user least comes first. Reducing the batch is
//! never the first step.

#[cfg(test)]
mod tests;

use super::choice::{Dtype, KvDtype, Loader, Loss, Method, Optimizer};
use super::estimate::{estimate, grouped};
use super::linears::parameters;
use super::plan::{Estimate, Plan};
use super::shapes::NAMED;
use super::verdict::{Budget, Need, Outcome, Verdicts, judge, verdicts};
use crate::model::pool::Reader;
use crate::model::shape::Shape;
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Ratio, SignedBytes};

/// Lengths and sizes are looked for in steps of this many tokens.
const STEP: u64 = 128;
/// Shares of the pool are looked for in steps of this.
const SHARE_STEP: f64 = 0.05;

states! {
    /// A rung of the ladder.
    RungId {
        /// Flush the page cache.
        Flush = "flush",
        /// Load in pieces.
        Loader = "streamed_loader",
        /// Pack shorter sequences.
        Packing = "shorter_packing",
        /// A smaller batch.
        Batch = "smaller_batch",
        /// A loss that keeps fewer logits.
        Loss = "fused_loss",
        /// Compute activations anew.
        Checkpointing = "checkpointing",
        /// An optimizer without a temporary at the step.
        Fused = "fused_optimizer",
        /// A smaller optimizer.
        Optimizer = "smaller_optimizer",
        /// Segments that grow.
        Segments = "expandable_segments",
        /// Train adapters in bf16.
        Lora = "bf16_lora",
        /// Train adapters on four bits.
        Qlora = "qlora",
        /// A shorter context.
        Context = "shorter_context",
        /// Fewer sequences at a time.
        Sequences = "fewer_sequences",
        /// A smaller type for the cache.
        KvDtype = "smaller_cache_type",
        /// A smaller share of the pool.
        Share = "smaller_share",
        /// Quantised weights.
        Quantised = "quantised_weights",
        /// A smaller model.
        Model = "smaller_model",
        /// Several machines.
        Machines = "more_machines",
    }
}

/// A rung.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// Which.
    pub id: RungId,
    /// What to do.
    pub action: String,
    /// How much less the plan takes at its worse peak; for a flush, how much more is free.
    pub effect: SignedBytes,
    /// The verdict with this rung alone.
    pub alone: Outcome,
    /// The verdict with this one and those before it that help.
    pub together: Outcome,
    /// Whether it helps.
    pub helps: bool,
    /// What should be known about it.
    pub remark: String,
}

/// What the ladder is climbed with.
struct Climb<'a> {
    plan: &'a Plan,
    before: Estimate,
    budget: &'a Budget,
    reader: Reader,
    t: &'a Thresholds,
    /// The plan with every rung so far that helps.
    changed: Plan,
    /// The pool with the flush, if that helps.
    flushed: Budget,
    rungs: Vec<Rung>,
}

/// Every rung for a plan, in order.
#[must_use]
pub fn ladder(plan: &Plan, budget: &Budget, t: &Thresholds) -> Vec<Rung> {
    let mut climb = Climb {
        plan,
        before: estimate(plan, budget.size.ok(), t),
        budget,
        reader: plan.serving.engine.reader(),
        t,
        changed: plan.clone(),
        flushed: *budget,
        rungs: Vec::new(),
    };
    climb.flush();
    if plan.trains() {
        climb.training();
    } else {
        climb.serving();
    }
    climb.last();
    climb.rungs
}

impl Climb<'_> {
    fn estimate(&self, plan: &Plan) -> Estimate {
        estimate(plan, self.budget.size.ok(), self.t)
    }

    fn verdicts(&self, plan: &Plan, budget: &Budget) -> Verdicts {
        verdicts(&self.estimate(plan), self.reader, budget, self.t)
    }

    fn whole(&self, plan: &Plan, budget: &Budget) -> Outcome {
        self.verdicts(plan, budget).whole()
    }

    fn fits(&self, plan: &Plan) -> bool {
        matches!(self.whole(plan, self.budget), Outcome::Fits | Outcome::Tight)
    }

    /// What is to be known about a length, a batch or the like that can be shortened up to `most`.
    fn longest(&self, most: u64, step: u64, what: &str, set: impl Fn(&mut Plan, u64)) -> String {
        match self.largest(most, step, set) {
            _ if self.whole(self.plan, self.budget) == Outcome::Unknown => {
                "what is left is not known, so neither is the most that fits".to_owned()
            }
            _ if self.fits(self.plan) => "it fits as it is; less leaves more to spare".to_owned(),
            Some(most) => format!("the most that fits is {}{what}", grouped(most)),
            None => "no value fits by itself".to_owned(),
        }
    }

    fn flush(&mut self) {
        let mut after = *self.budget;
        after.free = match (self.budget.free, self.budget.flushable) {
            (Ok(free), Ok(more)) => Ok(free.plus(more)),
            (free, _) => free,
        };
        let gain = self.budget.flushable.unwrap_or(Bytes(0));
        let alone = self.whole(self.plan, &after);
        let helps = self.reader == Reader::Free && gain > Bytes(0) && self.budget.free.is_ok();
        let remark = match (self.budget.flushable, self.reader) {
            (Err(reason), _) => {
                let why = reason.as_str().replace('_', " ");
                format!("what a flush returns is not known ({why})")
            }
            (Ok(_), Reader::Available) => {
                "what is available counts it already; it spares engines and drivers that go by free memory, and the taking back under load".to_owned()
            }
            (Ok(_), Reader::Free) => "needs root; between runs, never while one is in a step".to_owned(),
        };
        if helps {
            self.flushed = after;
        }
        self.rungs.push(Rung {
            id: RungId::Flush,
            action: "gb10-exporter flush".to_owned(),
            effect: gain.signed_less(Bytes(0)),
            alone,
            together: alone,
            helps,
            remark,
        });
    }

    /// A rung that changes the plan.
    fn rung(&mut self, id: RungId, action: &str, remark: &str, change: impl Fn(&mut Plan)) {
        let mut alone = self.plan.clone();
        change(&mut alone);
        let estimate = self.estimate(&alone);
        let mut effect = worst(&self.before).signed_less(worst(&estimate));
        if effect.0 == 0 {
            // A range that gets narrower.
            effect = self.before.load.pool_high.signed_less(estimate.load.pool_high);
        }
        let alone = verdicts(&estimate, self.reader, self.budget, self.t).whole();
        let helps = effect.0 > 0 || alone.rank() < self.whole(self.plan, self.budget).rank();
        if helps {
            change(&mut self.changed);
        }
        let together = self.whole(&self.changed, &self.flushed);
        let remark = match (helps || effect.0 != 0, self.plan.serving.utilization) {
            (true, _) => remark,
            (false, Some(_)) => "its engine takes its share all the same",
            (false, None) => "what it saves is not there at the peak",
        };
        self.rungs.push(Rung {
            id,
            action: action.to_owned(),
            effect,
            alone,
            together,
            helps,
            remark: remark.to_owned(),
        });
    }

    /// The largest value up to `most` with which the plan fits, in steps.
    fn largest(&self, most: u64, step: u64, set: impl Fn(&mut Plan, u64)) -> Option<u64> {
        let fits = |value: u64| {
            let mut plan = self.plan.clone();
            set(&mut plan, value);
            self.fits(&plan)
        };
        let step = step.max(1);
        // More never takes less, so halving finds it.
        let (mut low, mut high) = (0, most / step);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle * step) { low = middle } else { high = middle - 1 }
        }
        (low > 0).then_some(low * step)
    }

    fn training(&mut self) {
        let plan = self.plan;
        let half = (plan.seq / 2).max(STEP.min(plan.seq));
        let step = STEP.min(plan.seq);
        let remark = self.longest(plan.seq, step, " tokens", |p, seq| p.seq = seq);
        self.rung(RungId::Packing, &format!("--seq {half}"), &remark, |p| p.seq = half.min(p.seq));
        if plan.batch > 1 {
            let half = plan.batch / 2;
            let accumulate = "; gradient accumulation keeps the effective batch";
            let remark = self.longest(plan.batch, 1, accumulate, |p, batch| p.batch = batch);
            self.rung(RungId::Batch, &format!("--batch {half}"), &remark, |p| p.batch = half);
        } else {
            self.idle(RungId::Batch, "--batch 1", "it is 1 already");
        }
        self.within_the_method();
        self.streamed();
        self.method();
    }

    /// What leaves the method as it is.
    fn within_the_method(&mut self) {
        let plan = self.plan;
        if plan.loss == Loss::Fused {
            self.idle(RungId::Loss, "--loss fused", "its loss keeps no logits already");
        } else {
            self.rung(
                RungId::Loss,
                "--loss fused",
                "no logits are kept (Liger, Unsloth); --loss chunked keeps those of --chunk tokens",
                |p| p.loss = Loss::Fused,
            );
        }
        if plan.checkpointing {
            self.idle(RungId::Checkpointing, "checkpointing", "it is on already");
        } else {
            self.rung(
                RungId::Checkpointing,
                "checkpointing (without --no-checkpointing)",
                "a third more time; see that it takes effect, models with code of their own ignore it",
                |p| p.checkpointing = true,
            );
        }
        self.optimizer();
        self.rung(
            RungId::Segments,
            "--expandable-segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
            "less is set aside and not used",
            |p| p.expandable = true,
        );
    }

    fn optimizer(&mut self) {
        let (fused, eight) = ("--optimizer adamw-fused", "--optimizer adamw-8bit");
        match (self.plan.method, self.plan.optimizer.temporary()) {
            (Method::Full, true) => self.rung(
                RungId::Fused,
                fused,
                "the same states, and no temporary of the parameters' size at the step",
                |p| p.optimizer = Optimizer::AdamwFused,
            ),
            (Method::Full, false) => {
                self.idle(RungId::Fused, fused, "its optimizer has no temporary already");
            }
            _ => self.idle(RungId::Fused, fused, "adapters are small, and so is their temporary"),
        }
        if self.plan.optimizer == Optimizer::Adamw8bit {
            self.idle(RungId::Optimizer, eight, "it has 8 bits already");
        } else {
            self.rung(RungId::Optimizer, eight, "states of one byte", |p| {
                p.optimizer = Optimizer::Adamw8bit;
            });
        }
    }

    fn streamed(&mut self) {
        self.rung(
            RungId::Loader,
            "--loader streamed",
            "safetensors 0.8 and later, or --no-mmap: the load's peak, not what runs",
            |p| p.loader = Loader::Streamed,
        );
    }

    /// Another method: adapters in bf16 first, four bits after them, for dequantised copies and upcasts
    /// take back a part of what they save.
    fn method(&mut self) {
        match self.plan.method {
            Method::Full => {
                self.rung(
                    RungId::Lora,
                    "--method lora --dtype bf16",
                    "trains adapters instead of everything",
                    |p| (p.method, p.dtype) = (Method::Lora, Dtype::Bf16),
                );
                self.qlora();
            }
            Method::Qlora => {
                let mut bf16 = self.plan.clone();
                (bf16.method, bf16.dtype) = (Method::Lora, Dtype::Bf16);
                let remark = if self.fits(&bf16) {
                    "takes more and fits: no dequantised copies and no upcasts"
                } else {
                    "does not fit in bf16: stay with four bits"
                };
                self.rung(RungId::Lora, "--method lora --dtype bf16", remark, |p| {
                    (p.method, p.dtype) = (Method::Lora, Dtype::Bf16);
                });
            }
            _ if self.plan.dtype.quantised() || self.plan.packed => {
                self.idle(RungId::Qlora, "--dtype nf4", "its weights are quantised already");
            }
            _ => self.qlora(),
        }
    }

    fn qlora(&mut self) {
        // Preferences and groups of answers stay what they are, on weights of four bits.
        let keeps = matches!(self.plan.method, Method::Dpo | Method::Grpo);
        self.rung(
            RungId::Qlora,
            if keeps { "--dtype nf4" } else { "--method qlora" },
            "after bf16 adapters: matrices are dequantised as they are used, and loading may hold a whole file",
            |p| {
                (p.dtype, p.stored) = (Dtype::Nf4, None);
                if !keeps {
                    p.method = Method::Qlora;
                }
            },
        );
    }

    fn serving(&mut self) {
        let plan = self.plan;
        let serving = plan.serving;
        let step = STEP.min(serving.context);
        let remark =
            self.longest(serving.context, step, " tokens", |p, tokens| p.serving.context = tokens);
        let half = (serving.context / 2).max(1);
        self.rung(RungId::Context, &format!("--context {half}"), &remark, |p| {
            p.serving.context = half;
        });
        if serving.sequences > 1 {
            let fewer = serving.sequences / 2;
            let remark =
                self.longest(serving.sequences, 1, " at a time", |p, n| p.serving.sequences = n);
            self.rung(RungId::Sequences, &format!("--sequences {fewer}"), &remark, |p| {
                p.serving.sequences = fewer;
            });
        } else {
            self.idle(RungId::Sequences, "--sequences 1", "it is 1 already");
        }
        match serving.kv {
            KvDtype::Bf16 => {
                self.rung(RungId::KvDtype, "--kv-dtype fp8", "half of the cache", |p| {
                    p.serving.kv = KvDtype::Fp8;
                });
            }
            _ => self.idle(RungId::KvDtype, "--kv-dtype fp8", "its cache is quantised already"),
        }
        if let Some(Ratio(share)) = serving.utilization {
            self.share(share);
        }
        self.streamed();
        if !plan.dtype.quantised() && !plan.packed {
            self.rung(
                RungId::Quantised,
                "--dtype fp8",
                "or a four-bit checkpoint (nvfp4, mxfp4)",
                |p| (p.dtype, p.stored) = (Dtype::Fp8, None),
            );
        }
    }

    /// Another share of the pool: a larger one where the engine would refuse to start, else a smaller one.
    fn share(&mut self, share: f64) {
        let (share, remark) = if self.before.refused {
            let needed = self.budget.size.ok().and_then(|pool| self.before.alloc.share_of(pool));
            if needed.is_some_and(|Ratio(needed)| needed > 1.0) {
                let remark = "the whole pool does not hold weights and cache";
                self.idle(RungId::Share, "--utilization 1.00", remark);
                return;
            }
            let share =
                needed.map_or(share, |Ratio(needed)| (needed / SHARE_STEP).ceil() * SHARE_STEP);
            (share.min(1.0), "the least that holds weights and cache")
        } else {
            (self.share_that_fits(share), "0.80 to 0.85 is what owners run alone on a box")
        };
        self.rung(RungId::Share, &format!("--utilization {share:.2}"), remark, |p| {
            p.serving.utilization = Some(Ratio(share));
        });
    }

    /// The largest share below one with which the plan runs in comfort; where none does, one that is smaller.
    fn share_that_fits(&self, share: f64) -> f64 {
        let below = (1..20_u32).rev().map(|n| f64::from(n) * SHARE_STEP);
        let mut plan = self.plan.clone();
        let mut fits = |share: f64| {
            plan.serving.utilization = Some(Ratio(share));
            self.verdicts(&plan, self.budget).steady[self.reader as usize] == Outcome::Fits
        };
        let mut below = below.filter(|other| *other < share);
        below.find(|share| fits(*share)).unwrap_or((share - 2.0 * SHARE_STEP).max(SHARE_STEP))
    }

    /// The last resorts: a smaller model, or more machines.
    fn last(&mut self) {
        let smaller = NAMED.iter().filter(|named| {
            named.published < parameters(&self.plan.shape).all && named.published > 500_000_000
        });
        let with = |shape: Shape| Plan {
            shape,
            alike: Vec::new(),
            stored: None,
            packed: false,
            largest_file: None,
            ..self.plan.clone()
        };
        let fitting = smaller
            .filter(|named| {
                let plan = with(named.shape());
                worst(&self.estimate(&plan)) < worst(&self.before) && self.fits(&plan)
            })
            .max_by_key(|named| named.published);
        match fitting {
            Some(named) => {
                let shape = named.shape();
                let remark = "the largest of the table that fits with these options";
                let action = format!("--model {}", named.name);
                self.rung(RungId::Model, &action, remark, |p| {
                    p.shape = shape.clone();
                    p.alike.clear();
                    (p.stored, p.largest_file) = (None, None);
                });
            }
            None => self.idle(
                RungId::Model,
                "a smaller model",
                "none of the table fits with these options",
            ),
        }
        self.machines();
    }

    /// Sharded over machines like this one: each holds its context and its part of the rest.
    fn machines(&mut self) {
        let Ok(room) = self.budget.room(self.reader) else {
            self.idle(RungId::Machines, "more machines", "what is left of one is not known");
            return;
        };
        let context = self.before.context;
        let each = room.less(self.t.plan_comfort).less(context);
        let whole = self.before.pool.less(context);
        match whole.0.div_ceil(each.0.max(1)) {
            _ if each == Bytes(0) => {
                self.idle(RungId::Machines, "more machines", "this one has no room to share");
            }
            0 | 1 => self.idle(RungId::Machines, "more machines", "one is enough while it runs"),
            n => {
                let part = Bytes(whole.0.div_ceil(n)).plus(context);
                let need = Need { low: part, usual: part, high: part };
                let runs = judge(need, Ok(room), self.t);
                self.rungs.push(Rung {
                    id: RungId::Machines,
                    action: format!("at least {n} machines like this one"),
                    effect: self.before.pool.signed_less(part),
                    alone: runs,
                    together: runs,
                    helps: true,
                    remark: "while it runs; each holds its context and its part of the rest, and has to load its part alone".to_owned(),
                });
            }
        }
    }

    /// A rung that has nothing to change.
    fn idle(&mut self, id: RungId, action: &str, remark: &str) {
        let alone = self.whole(self.plan, self.budget);
        let together = self.whole(&self.changed, &self.flushed);
        self.rungs.push(Rung {
            id,
            action: action.to_owned(),
            effect: SignedBytes(0),
            alone,
            together,
            helps: false,
            remark: remark.to_owned(),
        });
    }
}

/// The worse of the two peaks.
fn worst(estimate: &Estimate) -> Bytes {
    estimate.pool.max(estimate.load.pool)
}

//! docs/PLANNING.md: the model behind `plan`, where it comes from, and how far it is from what was measured.

use super::GENERATED;
use crate::planning::choice::{Dtype, Engine, Loader, Loss, Method, Optimizer};
use crate::planning::compare::{Held, errors, held, judged, wrong};
use crate::planning::plan::TermId;
use crate::planning::rows::{Known, ROWS, Row, Told};
use crate::planning::shapes::NAMED;
use crate::planning::verdict::Budget;
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use std::fmt::Write;

/// The pool that the rows were measured on, and what an idle one has available.
const POOL: Bytes = Bytes::from_kib(127_600_748);
const IDLE: Bytes = Bytes::from_gib(117);

const FORMULAS: &str = "\
## The model

L layers, h hidden, V vocabulary, s tokens in a sequence, b sequences in a step, u = s x b x h. f is the width of the MLP, q that of
the queries (doubled where they make a gate, too), k that of the keys, each over h.

```text
allocated = weights + what belongs to adapters
          + with checkpointing     2 L u + max(logits, T u + one matrix in bf16 where weights are NF4)
          + without                saved L u + logits
full      = weights + states + max(gradients + a temporary at the step, activations)   (gradients + activations with accumulation)
pool      = allocated + (slack - 1) x what varies within a step + context
load      = weights + what the loader holds beside them + context
```

| case | saved, bytes for each token and channel of a layer | T, the layer that is computed anew |
| --- | --- | --- |
| full | 16 + 8f + 4q + 4k (+ 6(q+k) where queries and keys are normalised) | saved + 6f + 8 |
| full, no gate in the MLP | 16 + 4f + 4q + 4k | saved + 6f + 8 |
| full, GPT block with dropout | 34 | saved + 6f + 8 |
| LoRA on all matrices, fp32 adapters | 28 + 10f + 8q + 4k (+ 4(q+k)) | 41 + 13.5f + 7.7q + 3.7k (+ 4(q+k)) |
| LoRA on all matrices, bf16 adapters | 12 + 8f + 4q + 4k (+ 4(q+k)) | 15.7 + 11.8f + 3.9q + 3.8k (+ 4(q+k)) |
| LoRA on attention, fp32 adapters | 20 + 6f + 8q + 4k (+ 4(q+k)) | 23.6 + 12f + 7.7q + 3.7k (+ 4(q+k)) |
| LoRA on attention, bf16 adapters | 10 + 6f + 4q + 4k (+ 4(q+k)) | 13.9 + 12f + 3.9q + 3.8k (+ 4(q+k)) |

In brackets q is without the gate, which is not normalised.

The first row of a GPT block is Korthikanti's for flash attention. The others were counted from the storages that are alive in Hugging
Face models on a device without memory (transformers 5.24, PEFT 0.21.2, torch 2.15); they are linear in the ratios to less than a percent.

A job **fits** when its pool figure leaves `plan.comfort` available, is **tight** when it leaves the reserve (`pool.reserve`) or would fit
without the allocator's slack, and does not fit otherwise. Where a term is a range, the upper end must leave the reserve. The load and the
running job are judged apart, each for what is available (MemAvailable) and for what is free (MemFree); the engine's own figure decides.
";

const LIMITS: &str = "\
## What it does not know

- The transient of layers with experts: once to twice that of a dense layer was seen, so it is a range.
- Layers with a state (Mamba, delta nets) in training: counted as if they were attention.
- Fused kernels (Liger, Unsloth) save about 8 + 2f a layer beside the logits; that is derived and not counted.
- A full fine-tune by preference, images, and heads for further tokens beside the weights that they bring.
- An engine that stays beside a trainer (GRPO with vLLM colocated): plan the two apart.
- What vLLM tries out while it starts. Its share does not bound it: most starts took nothing beyond it, two took all memory there was
  (A33, A37). So a plan with a share carries that as a range, and such a plan is tight at most where the range would not fit.
- Contiguity: drivers found no memory while GiB were free in small blocks. `plan` warns of it where the machine tells it, and cannot
  count it.
- Checkpointing that takes no effect, as with models that bring code of their own. Watch the first steps.
- A limit of a control group: it does not bind the GPU's memory.
";

/// The document.
#[must_use]
pub fn planning() -> String {
    let t = Thresholds::default();
    let mut out = format!(
        "{GENERATED}# Planning\n\nWhat `gb10-exporter plan` computes, from the tables in `src/planning`. GiB are 2^30 bytes, GB 10^9.\n\n{FORMULAS}"
    );
    words(&mut out);
    shapes(&mut out);
    let held = held(POOL, &t);
    measured(&mut out, &held);
    verdicts(&mut out, &t);
    let _ = write!(out, "\n{LIMITS}");
    out
}

/// The closed sets of the options.
fn words(out: &mut String) {
    let mut table = |title: &str, rows: Vec<(&str, &str, String)>| {
        let _ =
            write!(out, "\n### {title}\n\n| word | what it is | bytes |\n| --- | --- | --- |\n");
        for (word, text, bytes) in rows {
            let _ = writeln!(out, "| `{word}` | {text} | {bytes} |");
        }
    };
    macro_rules! rows {
        ($set:ty, $bytes:expr) => {
            <$set>::ALL.iter().map(|one| (one.as_str(), one.describe(), $bytes(*one))).collect()
        };
    }
    let none = String::new;
    table("Terms", rows!(TermId, |_| none()));
    table("Methods", rows!(Method, |_| none()));
    table(
        "Types of weights",
        rows!(Dtype, |d: Dtype| format!(
            "{} a parameter of a matrix, {} of others",
            d.linear(),
            d.rest()
        )),
    );
    table(
        "Optimizers",
        rows!(Optimizer, |o: Optimizer| format!(
            "{} of states for bf16, {} for fp32",
            o.states(2),
            o.states(4)
        )),
    );
    table("Losses", rows!(Loss, |l: Loss| format!("{} for each token and word", l.element())));
    table("Loaders", rows!(Loader, |_| none()));
    table("Engines", rows!(Engine, |e: Engine| format!("goes by {} memory", e.reader().as_str())));
}

fn shapes(out: &mut String) {
    let _ = write!(
        out,
        "\n## Models by name\n\nShapes are those of config.json of the repository on Hugging Face. Each was compared: with a public copy \
         elsewhere, or by the parameters that it adds up to, which are within a thousandth of the published number. Layers for further tokens \
         are left out, for trainers do not load them, and engines only where they are told to: the files of `glm-4.5-air` have \
         110468824832 parameters with them.\n\n\
         | name | parameters | layers | hidden | vocabulary | repository | compared with |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for named in NAMED {
        let shape = named.shape();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            named.name,
            named.published,
            shape.depth(),
            shape.hidden,
            shape.vocab,
            named.source,
            named.seen.unwrap_or("its parameters")
        );
    }
}

fn percent(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}

fn measured(out: &mut String, held: &[(&'static Row, Held)]) {
    let _ = write!(
        out,
        "\n## Held against what others measured\n\nRows of owners of these machines, with what torch had allocated at the peak. A row counts where \
         everything is told that the model needs.\n\n| row | what was run | measured | estimated | error | counts |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    for (row, held) in held {
        let (Some(measured), Some(error)) = (row.measured, held.error) else { continue };
        let counts = match row.told {
            Told::Whole => "yes".to_owned(),
            Told::Part(why) => format!("no: {why}"),
        };
        let kind = row.counted.as_str();
        let _ = writeln!(
            out,
            "| {} | {} [{}] | {measured} {kind} | {} | {} | {counts} |",
            row.id,
            row.what,
            row.source,
            held.estimate.alloc,
            percent(error)
        );
    }
    if let Some((median, worst, name)) = errors(held) {
        let _ = write!(
            out,
            "\nOf the rows that count the median error is **{:.1} %**, without its sign, and the worst is {:.1} %: {name}. \
             It is the \
             smallest step of them, and whether its gradients were there beside the activations is not told: \
             with the gradients added it is 6 % too high.\n",
            median * 100.0,
            worst * 100.0
        );
    }
}

fn verdicts(out: &mut String, t: &Thresholds) {
    let _ = write!(
        out,
        "\n## Verdicts on them\n\nOn a pool of {POOL} with {IDLE} available, which an idle box has. Every published row is here: it ran, and must not be \
         judged as too large; or it did not fit, and must be judged so; or it says nothing of the size of its job, and why.\n\n\
         | row | what was run | what happened | of the pool | verdict |\n| --- | --- | --- | --- | --- |\n"
    );
    let budget = Budget { size: Ok(POOL), ..Budget::given(IDLE) };
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    rows.sort_by_key(|row| row.id);
    for row in rows {
        let happened = match row.known {
            Known::Ran => "ran".to_owned(),
            Known::DidNotFit => "did not fit".to_owned(),
            Known::Nothing(why) => format!("nothing of its size: {why}"),
        };
        let (takes, verdict) = match judged(row, POOL, &budget, t) {
            Some(one) => {
                let upper = if one.pool_high > one.pool {
                    format!(" to {}", one.pool_high)
                } else {
                    String::new()
                };
                let by = if one.estimated { "" } else { " as measured" };
                let mark = if wrong(row, one.outcome) { " (WRONG)" } else { "" };
                (format!("{}{upper}{by}", one.pool), format!("{}{mark}", one.outcome.as_str()))
            }
            None => (String::new(), "none".to_owned()),
        };
        let _ = writeln!(out, "| {} | {} | {happened} | {takes} | {verdict} |", row.id, row.what);
    }
}

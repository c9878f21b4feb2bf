//! A plan for a person: a worksheet that can be checked line by line.

use super::Told;
use crate::model::pool::Reader;
use crate::model::reading::Reading;
use crate::planning::compare::Anchor;
use crate::planning::ladder::Rung;
use crate::planning::linears::parameters;
use crate::planning::plan::Term;
use crate::planning::verdict::Outcome;
use crate::units::{Bytes, Ratio};
use std::fmt::{self, Write};

/// Width of a term's name.
const NAME: usize = 16;

/// The whole worksheet.
pub(super) fn worksheet(told: &Told) -> String {
    let mut out = String::new();
    // A String takes whatever is written.
    let _ = [head, takes, loads, left, verdict, anchors, ladder]
        .iter()
        .try_for_each(|part| part(&mut out, told));
    out
}

fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Fits => "fits",
        Outcome::Tight => "tight",
        Outcome::DoesNotFit => "does not fit",
        Outcome::Unknown => "unknown",
    }
}

fn range(usual: Bytes, high: Bytes) -> String {
    if high > usual { format!("{usual} to {high}") } else { usual.to_string() }
}

fn head(out: &mut String, told: &Told) -> fmt::Result {
    let plan = &told.job.plan;
    let all = Ratio(Bytes(parameters(&plan.shape).all).as_f64() / 1e9).0;
    writeln!(out, "{} of {} ({all:.2} billion parameters)", plan.method.as_str(), plan.shape.name)?;
    if !told.job.assumed.is_empty() {
        writeln!(out, "Not said, so taken: {}", told.job.assumed.join(", "))?;
    }
    for note in told.job.notes.iter().chain(&told.estimate.notes) {
        writeln!(out, "Note: {note}")?;
    }
    if !plan.alike.is_empty() {
        writeln!(
            out,
            "Note: only its size is known; what follows from its shape is a range over models of about that size"
        )?;
    }
    Ok(())
}

fn term(out: &mut String, sign: &str, term: &Term) -> fmt::Result {
    let amount = range(term.bytes, term.high);
    writeln!(
        out,
        "{sign} {:<NAME$} {amount:>12}  {}\n{:33}= {}",
        term.id.as_str(),
        term.formula,
        "",
        term.inputs
    )
}

fn takes(out: &mut String, told: &Told) -> fmt::Result {
    let e = &told.estimate;
    writeln!(out, "\nWhat it takes while it runs")?;
    for (i, one) in e.terms.iter().enumerate() {
        term(out, if i == 0 { " " } else { "+" }, one)?;
    }
    let line = |out: &mut String, sign: &str, name: &str, amount: String, what: &str| {
        writeln!(out, "{sign} {name:<NAME$} {amount:>12}  {what}")
    };
    line(out, "=", "allocated", range(e.alloc, e.alloc_high), &format!("{} bytes", e.alloc.0))?;
    let share = Ratio(e.slack_factor.0 - 1.0);
    if e.slack > Bytes(0) {
        let what = format!("{share} of what varies, set aside by the allocator");
        line(out, "+", "slack", e.slack.to_string(), &what)?;
    }
    line(
        out,
        "+",
        "context",
        e.context.to_string(),
        "CUDA context, libraries, the program itself",
    )?;
    line(out, "=", "of the pool", range(e.pool, e.pool_high), &format!("{} bytes", e.pool.0))?;
    for one in &e.beside {
        term(out, "·", one)?;
    }
    if !e.beside.is_empty() {
        writeln!(out, "  (· is there at another time than the peak and not added)")?;
    }
    Ok(())
}

fn loads(out: &mut String, told: &Told) -> fmt::Result {
    let load = &told.estimate.load;
    writeln!(out, "\nWhat it takes while it loads ({})", told.job.plan.loader.as_str())?;
    writeln!(out, "  {:<NAME$} {:>12}", "weights", load.weights)?;
    writeln!(
        out,
        "+ {:<NAME$} {:>12}  {}",
        "beside them",
        range(load.extra, load.extra_high),
        load.formula
    )?;
    writeln!(
        out,
        "= {:<NAME$} {:>12}  with the context",
        "of the pool",
        range(load.pool, load.pool_high)
    )
}

fn figure(reading: Reading<Bytes>) -> String {
    match reading {
        Ok(bytes) => bytes.to_string(),
        Err(reason) => format!("not known ({})", reason.as_str()),
    }
}

fn left(out: &mut String, told: &Told) -> fmt::Result {
    let budget = &told.left.budget;
    writeln!(out, "\nWhat is left ({})", told.left.of)?;
    let mut line = |name: &str, reading, what: &str| {
        writeln!(out, "  {name:<NAME$} {:>12}  {what}", figure(reading))
    };
    line("available", budget.available, "MemAvailable: cache that can be taken back counts")?;
    line("free", budget.free, "MemFree: what CUDA calls free")?;
    line("a flush returns", budget.flushable, "at the least")?;
    line(
        "claimed",
        budget.claimed[told.verdicts.reader as usize],
        "what running jobs may still take by their caps, and what ended ones hold",
    )?;
    line("reserve", Ok(told.thresholds.reserve), "kept for the operating system and the driver")?;
    line("comfort", Ok(told.thresholds.plan_comfort), "left available by a plan that fits")
}

fn verdict(out: &mut String, told: &Told) -> fmt::Result {
    let v = &told.verdicts;
    let engine = told.job.plan.serving.engine.as_str();
    writeln!(
        out,
        "\nVerdict: {} (by {} memory, which {engine} goes by)",
        words(v.whole()),
        v.reader.as_str()
    )?;
    for reader in [Reader::Available, Reader::Free] {
        writeln!(
            out,
            "  by {:<12} while it loads: {}; while it runs: {}",
            reader.as_str(),
            words(v.load[reader as usize]),
            words(v.steady[reader as usize])
        )?;
    }
    if v.load[v.reader as usize] == Outcome::DoesNotFit
        && v.steady[v.reader as usize] != Outcome::DoesNotFit
    {
        writeln!(
            out,
            "  It is the load that does not fit: the remedy is the loader (--loader streamed), not a smaller model."
        )?;
    }
    Ok(())
}

fn anchors(out: &mut String, told: &Told) -> fmt::Result {
    writeln!(out, "\nKnown combinations, nearest first")?;
    for anchor in &told.anchors {
        let Anchor { id, what, counted, source, measured, fits, .. } = anchor;
        let measured = match measured {
            Some(bytes) => format!("{bytes} {}", counted.as_str()),
            None if *fits => "ran".to_owned(),
            None => "did not fit".to_owned(),
        };
        let compared = match (anchor.ratio, anchor.near) {
            (Some(share), true) => format!(
                "; this plan takes {share} of it{}",
                if anchor.far { ": FAR OFF" } else { "" }
            ),
            _ => String::new(),
        };
        writeln!(out, "  {id}: {what}: {measured}{compared} [{source}]")?;
    }
    Ok(())
}

fn ladder(out: &mut String, told: &Told) -> fmt::Result {
    writeln!(out, "\nIf it does not fit, in this order")?;
    for (i, rung) in told.ladder.iter().enumerate() {
        let Rung { action, effect, alone, together, helps, remark, .. } = rung;
        let effect = match effect.0 {
            0 => "no effect".to_owned(),
            more if more < 0 => format!("{} more", Bytes(more.unsigned_abs())),
            less => {
                let words = if i == 0 { "more free" } else { "less" };
                format!("{} {words}", Bytes(less.unsigned_abs()))
            }
        };
        let verdict = if *helps {
            format!("{}; with those before it {}", words(*alone), words(*together))
        } else {
            "does not help".to_owned()
        };
        writeln!(out, "{:>3}. {action}: {effect}: {verdict}", i + 1)?;
        if !remark.is_empty() {
            writeln!(out, "     {remark}")?;
        }
    }
    Ok(())
}

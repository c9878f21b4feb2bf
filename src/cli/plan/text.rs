//! A plan for a person: a worksheet that can be checked line by line.

use super::super::columns::{TIED, wrapped};
use super::Told;
use crate::model::pool::Reader;
use crate::model::reading::Reading;
use crate::planning::compare::Anchor;
use crate::planning::estimate::grouped;
use crate::planning::ladder::Rung;
use crate::planning::linears::parameters;
use crate::planning::plan::Term;
use crate::planning::rows::Counted;
use crate::planning::verdict::Outcome;
use crate::units::{Bytes, Ratio};
use std::fmt::{self, Write};

/// Width of a term's name, of an amount, and of the upper end of a range.
const NAME: usize = 16;
const AMOUNT: usize = 11;
const UPPER: usize = 15;
/// Where the text beside an amount begins.
const TEXT: usize = 2 + NAME + 1 + AMOUNT + UPPER + 1;

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

/// A line of a sum.
fn line(sign: &str, name: &str, usual: Bytes, high: Bytes, text: &str) -> String {
    let upper = if high > usual { format!(" to {high}") } else { String::new() };
    let name = name.replace('_', " ");
    let head = format!("{sign} {name:<NAME$} {:>AMOUNT$}{upper:<UPPER$} ", usual.to_string());
    wrapped(if text.is_empty() { head.trim_end() } else { &head }, TEXT, text)
}

fn head(out: &mut String, told: &Told) -> fmt::Result {
    let plan = &told.job.plan;
    let all = Ratio(Bytes(parameters(&plan.shape).all).as_f64() / 1e9).0;
    writeln!(out, "{} of {} ({all:.2} billion parameters)", plan.method.as_str(), plan.shape.name)?;
    if !told.job.assumed.is_empty() {
        let tied = |words: &String| words.replace(' ', &TIED.to_string());
        let assumed: Vec<String> = told.job.assumed.iter().map(tied).collect();
        out.write_str(&wrapped("Not said, so taken: ", 4, &assumed.join(", ")))?;
    }
    for note in told.job.notes.iter().chain(&told.estimate.notes) {
        out.write_str(&wrapped("Note: ", 6, note))?;
    }
    if !plan.alike.is_empty() {
        let note = "only its size is known; what follows from its shape is a range over models of about that size";
        out.write_str(&wrapped("Note: ", 6, note))?;
    }
    Ok(())
}

fn term(out: &mut String, sign: &str, term: &Term) -> fmt::Result {
    out.write_str(&line(sign, term.id.as_str(), term.bytes, term.high, &term.formula))?;
    out.write_str(&wrapped(&format!("{:TEXT$}= ", ""), TEXT + 2, &term.inputs))
}

fn takes(out: &mut String, told: &Told) -> fmt::Result {
    let e = &told.estimate;
    writeln!(out, "\nWhat it takes while it runs")?;
    for (i, one) in e.terms.iter().enumerate() {
        term(out, if i == 0 { " " } else { "+" }, one)?;
    }
    let mut add = |sign: &str, name: &str, usual, high, text: &str| {
        out.write_str(&line(sign, name, usual, high, text))
    };
    let bytes = |bytes: Bytes| format!("{} bytes", grouped(bytes.0));
    add("=", "allocated", e.alloc, e.alloc_high, &bytes(e.alloc))?;
    if e.slack > Bytes(0) {
        let share = Ratio(e.slack_factor.0 - 1.0);
        let what = format!("{share} of what varies within a step, set aside by the allocator");
        add("+", "slack", e.slack, e.slack, &what)?;
    }
    let what = "CUDA context, libraries, the program itself";
    add("+", "context", e.context, e.context, what)?;
    add("=", "of the pool", e.pool, e.pool_high, &bytes(e.pool))?;
    for one in &e.beside {
        term(out, "·", one)?;
    }
    if !e.beside.is_empty() {
        writeln!(out, "  (· is there at another time than the peak, and is not added)")?;
    }
    Ok(())
}

fn loads(out: &mut String, told: &Told) -> fmt::Result {
    let load = &told.estimate.load;
    writeln!(out, "\nWhat it takes while it loads ({})", told.job.plan.loader.as_str())?;
    for text in [
        line(" ", "weights", load.weights, load.weights, ""),
        line("+", "beside them", load.extra, load.extra_high, &load.formula),
        line("=", "of the pool", load.pool, load.pool_high, "with the context"),
    ] {
        out.write_str(&text)?;
    }
    Ok(())
}

fn left(out: &mut String, told: &Told) -> fmt::Result {
    let budget = &told.left.budget;
    writeln!(out, "\nWhat is left ({})", told.left.of)?;
    let mut line = |name: &str, reading: Reading<Bytes>, what: &str| {
        out.write_str(&match reading {
            Ok(bytes) => line(" ", name, bytes, bytes, what),
            Err(reason) => {
                format!("  {name:<NAME$} not known ({})\n", reason.as_str().replace('_', " "))
            }
        })
    };
    line("available", budget.available, "MemAvailable: cache that can be taken back counts")?;
    line("free", budget.free, "MemFree: what CUDA calls free")?;
    line("a flush returns", budget.flushable, "at the least")?;
    line(
        "in large blocks",
        budget.contiguous,
        "free in blocks of 2 MiB and more, where the driver takes from",
    )?;
    line(
        "others hold",
        told.left.held(),
        "on the GPU, at the least; off what is available already",
    )?;
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
        let what = "It is the load that does not fit: the remedy is the loader (--loader streamed), not a smaller model.";
        out.write_str(&wrapped("  ", 2, what))?;
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
        let compared = match anchor.ratio {
            Some(share) if anchor.far => format!("; this plan allocates {share} of it: far off"),
            Some(share) => format!("; this plan allocates {share} of it"),
            None => match anchor.estimated {
                Some(bytes) if anchor.measured.is_some() && *counted == Counted::Allocated => {
                    format!("; the same formulas give {bytes}")
                }
                _ => String::new(),
            },
        };
        let text = format!("{id}: {what}: {measured}{compared} [{source}]");
        out.write_str(&wrapped("  ", 6, &text))?;
    }
    Ok(())
}

fn ladder(out: &mut String, told: &Told) -> fmt::Result {
    writeln!(out, "\nIf it does not fit, in this order")?;
    for (i, rung) in told.ladder.iter().enumerate() {
        let Rung { action, effect, alone, together, helps, remark, .. } = rung;
        let bytes = Bytes(effect.0.unsigned_abs());
        let effect = match (effect.0, i) {
            (0, _) => String::new(),
            (..0, _) => format!("{bytes} more: "),
            (_, 0) => format!("{bytes} more free: "),
            _ => format!("{bytes} less: "),
        };
        let verdict = match (*helps, i) {
            (false, _) => "does not help".to_owned(),
            (true, 0) => words(*alone).to_owned(),
            (true, _) => format!("{}; with those before it {}", words(*alone), words(*together)),
        };
        let head = format!("{:>3}. ", i + 1);
        out.write_str(&wrapped(&head, 5, &format!("{action}: {effect}{verdict}")))?;
        if !remark.is_empty() {
            out.write_str(&wrapped("     ", 5, remark))?;
        }
    }
    Ok(())
}

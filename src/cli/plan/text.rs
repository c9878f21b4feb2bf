//! A plan for a person: a worksheet that can be checked line by line.

use super::super::columns::{TIED, Tone, wrapped};
use super::Told;
use crate::model::pool::Reader;
use crate::model::reading::{Missing, Reading};
use crate::planning::choice::Method;
use crate::planning::compare::Anchor;
use crate::planning::estimate::grouped;
use crate::planning::ladder::Rung;
use crate::planning::linears::parameters;
use crate::planning::plan::Term;
use crate::planning::rows::{Counted, Known};
use crate::planning::verdict::{Outcome, needs};
use crate::units::{Bytes, Ratio};
use std::fmt::{self, Write};

/// Width of a term's name, of an amount, and of the upper end of a range.
const NAME: usize = 16;
const AMOUNT: usize = 11;
const UPPER: usize = 15;
/// Where the text beside an amount begins.
const TEXT: usize = 2 + NAME + 1 + AMOUNT + UPPER + 1;

/// The whole worksheet.
pub(super) fn worksheet(told: &Told, colour: bool) -> String {
    let mut out = String::new();
    // A String takes whatever is written.
    let _ = head(&mut out, told)
        .and_then(|()| verdict(&mut out, told, colour))
        .and_then(|()| said(&mut out, told))
        .and_then(|()| takes(&mut out, told))
        .and_then(|()| loads(&mut out, told))
        .and_then(|()| left(&mut out, told))
        .and_then(|()| anchors(&mut out, told))
        .and_then(|()| ladder(&mut out, told))
        .and_then(|()| first_step(&mut out, told, colour));
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

const fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Fits => Tone::Good,
        Outcome::Tight => Tone::Near,
        Outcome::DoesNotFit => Tone::Bad,
        Outcome::Unknown => Tone::Unknown,
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
    let method = match plan.method {
        Method::Full => "full fine-tune",
        other => other.as_str(),
    };
    writeln!(out, "{method} of {} ({all:.2} billion parameters)", plan.shape.name)
}

/// What was taken because nothing was said, and what should be known.
fn said(out: &mut String, told: &Told) -> fmt::Result {
    let plan = &told.job.plan;
    writeln!(out)?;
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
        let what = format!("{share} of what varies in a step, kept by the allocator");
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
    let mut notes = Vec::new();
    writeln!(out, "\nWhat is left ({})", told.left.of)?;
    let mut line = |name: &str, reading: Reading<Bytes>, what: &str| {
        out.write_str(&match reading {
            Ok(bytes) => line(" ", name, bytes, bytes, what),
            Err(reason) => {
                let why = match reason {
                    Missing::Pending if !told.left.watched => "from one look".to_owned(),
                    _ => format!("({})", reason.as_str().replace('_', " ")),
                };
                format!("  {name:<NAME$} not known {why}\n")
            }
        })
    };
    line("available", budget.available, "MemAvailable: cache that can be taken back counts")?;
    line("free", budget.free, "MemFree: what CUDA calls free")?;
    line("a flush returns", budget.flushable, "at the least")?;
    line(
        "in large blocks",
        budget.contiguous,
        "in blocks of 2 MiB and more, which the driver takes",
    )?;
    line("others hold", told.left.held(), "on the GPU at the least; not in what is available")?;
    let claimed = budget.claimed[told.verdicts.reader as usize];
    match &told.left.status {
        Some(_) if told.left.watched => {
            line("claimed", claimed, "what running jobs may still take, and ended ones hold")?;
        }
        Some(_) => {
            line("claimed", claimed, "what running jobs may still take by their caps")?;
            let what = "One look cannot tell what jobs take beyond that, or what ended ones have not given back: a running exporter can (--url).";
            notes.push(what);
        }
        None => line("claimed", claimed, "as given: nothing beside what is in use already")?,
    }
    line("reserve", Ok(told.thresholds.reserve), "kept for the operating system and the driver")?;
    line("comfort", Ok(told.thresholds.plan_comfort), "left available by a plan that fits")?;
    notes.iter().try_for_each(|note| out.write_str(&wrapped("  ", 2, note)))
}

/// The verdict before all else, with what it compares.
fn verdict(out: &mut String, told: &Told, colour: bool) -> fmt::Result {
    let (v, e) = (&told.verdicts, &told.estimate);
    let engine = told.job.plan.serving.engine.as_str();
    let paint =
        |outcome, width: usize| tone(outcome).paint(&format!("{:<width$}", words(outcome)), colour);
    let whole = v.whole();
    let by = v.reader.as_str();
    writeln!(out, "Verdict: {} (by {by} memory, which {engine} goes by)", paint(whole, 0))?;
    let room = |reader: Reader| match told.left.budget.room(reader) {
        Ok(room) => format!("{} {room}", reader.as_str()),
        Err(_) => format!("{} not known", reader.as_str()),
    };
    let heads = [Reader::Available, Reader::Free].map(room);
    writeln!(out, "  {:<16}{:<28}{:<23}{}", "", "takes", heads[0], heads[1])?;
    let (load, steady) = needs(e);
    for (name, need, outcomes) in
        [("while it loads", load, v.load), ("while it runs", steady, v.steady)]
    {
        let upper =
            if need.high > need.usual { format!(" to {}", need.high) } else { String::new() };
        let takes = format!("{}{upper}", need.usual);
        let [free, available] = [Reader::Free, Reader::Available].map(|r| outcomes[r as usize]);
        let line = format!("  {name:<16}{takes:<28}{}{}", paint(available, 23), paint(free, 0));
        writeln!(out, "{line}")?;
    }
    if v.load[v.reader as usize] == Outcome::DoesNotFit
        && v.steady[v.reader as usize] != Outcome::DoesNotFit
    {
        let what = "It is the load that does not fit: the remedy is the loader (--loader streamed), not a smaller model.";
        out.write_str(&wrapped("  ", 2, what))?;
    }
    if let Some((held, outcome)) = told.alone {
        let what = without(held, outcome);
        out.write_str(&wrapped("  ", 2, &format!("{what}.")))?;
    }
    Ok(())
}

fn anchors(out: &mut String, told: &Told) -> fmt::Result {
    writeln!(out, "\nKnown combinations, nearest first")?;
    for anchor in &told.anchors {
        let Anchor { id, what, counted, source, measured, known, .. } = anchor;
        let measured = match (measured, known) {
            (Some(bytes), _) => format!("{bytes} {}", counted.as_str()),
            (None, Known::Ran) => "ran".to_owned(),
            (None, Known::DidNotFit) => "did not fit".to_owned(),
            (None, Known::Nothing(why)) => (*why).to_owned(),
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
        let tied = |outcome| words(outcome).replace(' ', &TIED.to_string());
        let verdict = match (*helps, i) {
            (false, _) => "does not help".to_owned(),
            _ if i == 0 || alone == together => tied(*alone),
            _ => format!("alone {}, with those before it {}", tied(*alone), tied(*together)),
        };
        let head = format!("{:>3}. ", i + 1);
        out.write_str(&wrapped(&head, 5, &format!("{action}: {effect}{verdict}")))?;
        if !remark.is_empty() {
            out.write_str(&wrapped("     ", 5, remark))?;
        }
    }
    Ok(())
}

/// What it would be if others had given back what they hold.
fn without(held: Bytes, outcome: Outcome) -> String {
    let verdict = match outcome {
        Outcome::Tight => "it would be tight",
        _ => "it would fit",
    };
    format!("Without the jobs that hold {held} on the GPU {verdict}: stop them first")
}

/// The end of the sheet, which stands last in a terminal: what to do first.
fn first_step(out: &mut String, told: &Told, colour: bool) -> fmt::Result {
    let whole = told.verdicts.whole();
    let fits = |outcome: Outcome| outcome.rank() < whole.rank() && outcome != Outcome::Unknown;
    let mut rungs = told.ladder.iter().zip(1..).filter(|(rung, _)| rung.helps);
    let alone = rungs.clone().find(|(rung, _)| fits(rung.alone));
    let together = rungs.find(|(rung, _)| fits(rung.together));
    let what = match (whole, alone, together) {
        (Outcome::Fits, ..) => "none of these is needed".to_owned(),
        _ if told.alone.is_some_and(|(_, outcome)| outcome == Outcome::Fits) => {
            "stop what holds the memory first (above), then look again".to_owned()
        }
        (Outcome::Unknown, ..) => "what is left is not known".to_owned(),
        (_, Some((rung, n)), _) => {
            format!(
                "the first step that alone makes it {}: {n}. {}",
                words(rung.alone).replace("fits", "fit"),
                rung.action
            )
        }
        (_, None, Some((rung, n))) => {
            format!(
                "what helps of steps 1 to {n} together makes it {}",
                words(rung.together).replace("fits", "fit")
            )
        }
        _ => "no step of these makes it fit".to_owned(),
    };
    let text = wrapped("", 2, &format!("\u{1}: {what}"));
    let verdict = tone(whole).paint(words(whole), colour);
    write!(out, "\n{}", text.replacen('\u{1}', &verdict, 1))
}

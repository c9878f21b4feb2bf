//! The status as a person reads it in a terminal.

mod board;
mod contention;
mod gpu;
mod kernel_log;
mod training;
mod workload;

use super::looks::{Look, in_bar, look};
use super::status::{ExhaustionPart, Figure, SourcePart, Status};
use crate::model::pool::{Block, Reader, Segment, Window};
use crate::model::reading::Missing;
use crate::model::source::{Source, SourceState};
use crate::units::{Bytes, GIB, Seconds, SignedBytes};
use std::fmt::Write;

/// Width of the bar.
const BAR: usize = 64;
/// Longer events are cut.
const WIDTH: usize = 150;
/// Events shown.
const EVENTS: usize = 5;

/// The whole view. `colour` only on a terminal.
#[must_use]
pub fn render(status: &Status, colour: bool) -> String {
    let mut out = String::with_capacity(4096);
    // Writing to a String cannot fail.
    let _ = header(&mut out, status)
        .and_then(|()| gpu::alarms(&mut out, status))
        .and_then(|()| contention::alarms(&mut out, status))
        .and_then(|()| pool(&mut out, status, colour))
        .and_then(|()| gpu::memory(&mut out, status))
        .and_then(|()| workload::holders(&mut out, status))
        .and_then(|()| contention::contention(&mut out, status))
        .and_then(|()| left(&mut out, status))
        .and_then(|()| trend(&mut out, status))
        .and_then(|()| gpu::gpus(&mut out, status))
        .and_then(|()| training::training(&mut out, status))
        .and_then(|()| board::board(&mut out, status))
        .and_then(|()| board::module(&mut out, status))
        .and_then(|()| kernel_log::kernel_log(&mut out, status))
        .and_then(|()| events(&mut out, status))
        .and_then(|()| unread(&mut out, status));
    out
}

type Written = std::fmt::Result;

fn header(out: &mut String, status: &Status) -> Written {
    let of = |key: &str| status.machine.get(key).map(String::as_str);
    let product = match (of("vendor"), of("product")) {
        (Some(vendor), Some(product)) if product.starts_with(vendor) => product.to_owned(),
        (Some(vendor), Some(product)) => format!("{vendor} {product}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "unnamed machine".to_owned(),
    };
    let kernel = of("kernel").map(|k| format!(", kernel {k}")).unwrap_or_default();
    let state = status.sources.get("nvidia").and_then(|source| source.state.as_deref());
    let driver = match (of("nvidia_driver"), state) {
        (Some(version), _) => format!(", NVIDIA driver {version}"),
        (None, Some("not_present")) => ", no NVIDIA kernel driver".to_owned(),
        (None, state) => format!(", NVIDIA driver not read ({})", state.unwrap_or("pending")),
    };
    if let Some(title) = &status.replay {
        writeln!(out, "REPLAY, no live machine: {title}")?;
    }
    writeln!(out, "{product}{kernel}{driver}\n")
}

fn gib(figure: &Figure<u64>) -> String {
    match figure {
        Figure::Value(bytes) => Bytes(*bytes).to_string(),
        Figure::Missing { missing } => format!("not read ({missing})"),
    }
}

fn pool(out: &mut String, status: &Status, colour: bool) -> Written {
    let pool = &status.pool;
    writeln!(
        out,
        "Pool {}, {} used, {} available",
        gib(&pool.size),
        gib(&pool.used),
        gib(&pool.available)
    )?;
    if let Some(bar) = bar(status, colour) {
        writeln!(out, "  {bar}")?;
    }
    for &segment in Segment::ALL {
        let Some(figure) = pool.segments.get(segment.as_str()) else { continue };
        // Parts that the box does not use would only push the others out of sight.
        if figure.value() == Some(&0) && !matches!(segment, Segment::Free | Segment::Unaccounted) {
            continue;
        }
        let Look { letter, name, remark, .. } =
            look(segment, gpu::shared(status), gpu::cuda(status));
        let share = match (figure.value(), pool.size.value()) {
            (Some(part), Some(size)) => {
                Bytes(*part).share_of(Bytes(*size)).map(|r| format!("{:5.1} %", r.0 * 100.0))
            }
            _ => None,
        };
        let line = format!(
            "  {letter} {name:<20} {:>12} {}  {remark}",
            gib(figure),
            share.unwrap_or_default()
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    if pool.driver_page_pools.value() == Some(&true) {
        writeln!(
            out,
            "  This driver keeps freed pages in pools and gives them back under pressure: part of what is"
        )?;
        writeln!(out, "  unaccounted may be such pages, which is neither a leak nor a job.")?;
    }
    if let Some(over) = pool.overcounted.value().filter(|over| **over > 0) {
        writeln!(
            out,
            "  The kernel's counters exceed the pool by {}; taken off its parts, kernel first.",
            Bytes(*over)
        )?;
    }
    writeln!(out)
}

/// The bar: each part's share in characters. Every part that is there gets at least its rounding,
/// and the whole is always as long.
fn bar(status: &Status, colour: bool) -> Option<String> {
    let size = *status.pool.size.value()?;
    let mut out = String::from("[");
    let (mut sum, mut drawn) = (0_u64, 0);
    for segment in in_bar() {
        let part = status
            .pool
            .segments
            .get(segment.as_str())
            .and_then(Figure::value)
            .copied()
            .unwrap_or(0);
        sum = sum.saturating_add(part);
        let until = cells(sum, size).max(drawn);
        let Look { letter, terminal: c, .. } = look(segment, true, true);
        let run: String = std::iter::repeat_n(letter, until - drawn).collect();
        if colour && !run.is_empty() {
            let _ = write!(out, "\x1b[48;5;{c};38;5;16m{run}\x1b[0m");
        } else {
            out.push_str(&run);
        }
        drawn = until;
    }
    out.push(']');
    Some(out)
}

fn cells(part: u64, whole: u64) -> usize {
    let cells = u128::from(part) * BAR as u128 * 2 / u128::from(whole.max(1));
    usize::try_from(cells.div_ceil(2)).unwrap_or(BAR).min(BAR)
}

fn left(out: &mut String, status: &Status) -> Written {
    let pool = &status.pool;
    writeln!(out, "Left for the next program, above a reserve of {}", Bytes(pool.reserve))?;
    let cuda = gpu::cuda(status);
    for &reader in Reader::ALL {
        let who = match (reader, cuda) {
            (Reader::Free, true) => "CUDA's own query, older engines (MemFree)",
            (Reader::Available, true) => "newer vLLM (MemAvailable)",
            (Reader::Free, false) => "programs that go by MemFree",
            (Reader::Available, false) => "programs that go by MemAvailable",
        };
        let words = match pool.headroom.get(reader.as_str()) {
            Some(Figure::Value(bytes)) => {
                // Cache that can be taken back is in the way of one reader only.
                let cache_only = reader == Reader::Free
                    && pool.headroom.get(Reader::Available.as_str()).and_then(Figure::value)
                        >= Some(&0);
                let note = match *bytes {
                    b if b < 0 && cache_only => "  page cache is in the way",
                    b if b < 0 => "  below the reserve",
                    b if b.unsigned_abs() < pool.comfort => "  tight",
                    _ => "",
                };
                format!("{:>12}{note}", SignedBytes(*bytes))
            }
            Some(Figure::Missing { missing }) => format!("not read ({missing})"),
            None => continue,
        };
        writeln!(out, "  {who:<44} {words}")?;
    }
    if let Some(hidden) = pool.hidden_from_free.value().filter(|h| cuda && **h >= GIB) {
        writeln!(out, "  {} can be had that CUDA's query does not show.", Bytes(*hidden))?;
    }
    let pooled = pool.driver_page_pools.value() == Some(&true);
    if let Figure::Value(bytes) = pool.flushable {
        writeln!(
            out,
            "  Flushing the page cache returns about {}{} (needs root; never mid-step).",
            Bytes(bytes),
            if pooled { ", and what the driver has pooled" } else { "" },
        )?;
    }
    let blocks: Vec<String> = Block::ALL
        .iter()
        .filter_map(|b| {
            Some(format!(
                "{} in {}",
                Bytes(*pool.contiguous_free.get(b.as_str())?.value()?),
                b.as_str()
            ))
        })
        .collect();
    if !blocks.is_empty() {
        writeln!(out, "  Free in contiguous blocks of at least: {}", blocks.join(", "))?;
    }
    writeln!(out)
}

fn trend(out: &mut String, status: &Status) -> Written {
    let pool = &status.pool;
    let words = match &pool.exhaustion {
        ExhaustionPart::Unknown { missing } if missing == "pending" => {
            "not judged yet: too few samples".to_owned()
        }
        ExhaustionPart::Unknown { missing } => format!("not known ({missing})"),
        ExhaustionPart::Roomy => "not judged: plenty is available".to_owned(),
        ExhaustionPart::Steady => "not falling".to_owned(),
        ExhaustionPart::Falling { seconds, bytes_per_second, over_seconds } => format!(
            "FALLING {:.2} GiB/s over {}: the reserve is reached in {}",
            -bytes_per_second / Bytes(GIB).as_f64(),
            Seconds(*over_seconds),
            Seconds(*seconds),
        ),
    };
    writeln!(out, "Available memory is {words}.")?;
    if pool.exhaustion_imminent.value() == Some(&true) {
        writeln!(out, "  THE POOL IS RUNNING OUT: stop the newest job.")?;
    } else if pool.below_reserve.value() == Some(&true) {
        writeln!(out, "  It is below the reserve.")?;
    }
    let running = status.exporter.running_seconds;
    let mut shorter = 0.0;
    for &window in Window::ALL {
        let length = window.length().as_secs_f64();
        // A window longer than the exporter has watched says the same as the one before it.
        let watched = std::mem::replace(&mut shorter, length) <= running && running >= 1.0;
        let Some(part) = pool.windows.get(window.as_str()).filter(|_| watched) else { continue };
        if let (Figure::Value(min), Figure::Value(fall)) = (&part.available_min, &part.fall_max) {
            let fall = if *fall == 0 { "none".to_owned() } else { Bytes(*fall).to_string() };
            let (over, within) = (Seconds(length.min(running)), Seconds(pool.fall_within));
            let min = Bytes(*min);
            writeln!(out, "  last {over}: lowest {min}, largest fall in {within}: {fall}")?;
        }
    }
    if let (Some(size), Some(free)) = (status.swap.size.value(), status.swap.free.value()) {
        let used = size.saturating_sub(*free);
        let words = match (*size, used) {
            (0, _) => "none".to_owned(),
            (_, 0) => format!("{}, unused", Bytes(*size)),
            _ => format!("{} of {} used", Bytes(used), Bytes(*size)),
        };
        writeln!(out, "Swap: {words}.")?;
    }
    writeln!(out)
}

fn events(out: &mut String, status: &Status) -> Written {
    if status.boot.previous_unclean.value() == Some(&true) {
        writeln!(out, "The boot before this one ended without an orderly stop.\n")?;
    }
    if status.events.is_empty() {
        return Ok(());
    }
    writeln!(out, "Lately")?;
    for event in status.events.iter().rev().take(EVENTS).rev() {
        let ago = Seconds((status.at - event.at).max(0.0));
        let line = format!("  {ago} ago, {} {}: {}", event.subject, event.event, event.evidence);
        writeln!(out, "{}", cut(&line))?;
    }
    writeln!(out)
}

/// A line that fits: the whole of it is in the log and in JSON.
fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    line.chars().take(WIDTH - 1).chain(['…']).collect()
}

/// What could not be read: whole sources, and single readings of sources that are well otherwise. What
/// a machine does not have is named with its source only.
fn unread(out: &mut String, status: &Status) -> Written {
    let state = |source: &SourcePart| source.state.clone().unwrap_or_else(|| "pending".to_owned());
    let sources: Vec<String> = status
        .sources
        .iter()
        .filter(|(_, source)| source.state.as_deref() != Some("ok"))
        // A recorded machine lacks nothing when the exporter's own process is not on it.
        .filter(|(name, source)| {
            // Nor when no log is followed, nor the kernel's, which is told above.
            ![Source::Process, Source::Processes, Source::Training, Source::KernelLog]
                .map(Source::as_str)
                .contains(&name.as_str())
                || source.state.as_deref() != Some(SourceState::NotPresent.as_str())
        })
        .map(|(name, source)| {
            let why = source.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
            format!("{name:<12} {}{why}", state(source))
        })
        .collect();
    let readings = status.readings.iter().filter_map(|(id, reading)| {
        // What the machine, the device or an older library does not have is no failure.
        let lacks = [Missing::NotPresent, Missing::Unsupported, Missing::NoSymbol];
        let reason = reading.missing.as_deref()?;
        if lacks.iter().any(|known| known.as_str() == reason) {
            return None;
        }
        let well = status.sources.get(&reading.source)?.state.as_deref() == Some("ok");
        well.then(|| format!("{id}: {reason}"))
    });
    let figureless = status.gpus.iter().filter_map(|gpu| {
        let count = gpu.processes_without_figure.value().filter(|count| **count > 0)?;
        Some(format!("gpu.processes[{}]: {count} without a figure", gpu.index))
    });
    let lines: Vec<String> = sources.into_iter().chain(readings).chain(figureless).collect();
    if lines.is_empty() {
        return writeln!(out, "Everything was read.");
    }
    writeln!(out, "Not read")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_never_overflows_the_bar() {
        assert_eq!(cells(0, 100), 0);
        assert_eq!(cells(100, 100), BAR);
        assert_eq!(cells(50, 100), BAR / 2);
        assert_eq!(cells(u64::MAX, 1), BAR);
        assert_eq!(cells(5, 0), BAR);
    }
}

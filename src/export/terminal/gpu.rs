//! The GPU in the terminal: what it does, and the four answers to "how much memory is there".

use super::super::status::{Figure, GpuPart, Status, ThrottlePart};
use super::{Written, gib};
use crate::model::gpu::EventReason;
use crate::model::pool::Segment;
use crate::model::sharing::{Attribution, Basis, Holder, MemoryReport, Sharing};
use crate::model::source::SourceState;
use crate::model::throttle::{CapBasis, ThrottleState};
use crate::units::{Bytes, GIB, Hertz, Seconds};
use std::fmt::Write;

/// Whether a GPU shares the pool, as far as can be told.
pub(super) fn shared(status: &Status) -> bool {
    cuda(status) || status.gpus.iter().any(shares)
}

/// Whether something is known about CUDA's view of the pool.
pub(super) fn cuda(status: &Status) -> bool {
    status.cuda.free.value().is_some()
}

fn shares(gpu: &GpuPart) -> bool {
    gpu.sharing == Sharing::Shared.as_str()
}

/// One GPU after the other.
pub(super) fn gpus(out: &mut String, status: &Status) -> Written {
    if status.gpus.is_empty() {
        let source = status.sources.get("gpu");
        let why = source.and_then(|s| s.message.as_deref().or(s.state.as_deref()));
        writeln!(out, "GPU: none is read ({}).", why.unwrap_or("pending"))?;
        // What was there before.
        for throttle in &status.throttle {
            writeln!(out, "GPU {}", throttle.gpu)?;
            works(out, throttle, status.at)?;
        }
        return writeln!(out);
    }
    for gpu in &status.gpus {
        let name = gpu.name.value().map_or("unnamed", String::as_str);
        let sharing = match (gpu.sharing.as_str(), gpu.basis.as_str()) {
            (s, b)
                if s == Sharing::Shared.as_str() && b != Basis::NoFigureAndAddressing.as_str() =>
            {
                "shares the pool with the CPU"
            }
            (s, _) if s == Sharing::Shared.as_str() => "shares the pool with the CPU, it seems",
            (s, _) if s == Sharing::Separate.as_str() => {
                "has memory of its own; the pool above is the CPU's alone"
            }
            _ => "may or may not share the pool",
        };
        writeln!(out, "GPU {} {name} {sharing}", gpu.index)?;
        writeln!(out, "  {}", doing(gpu))?;
        if let Some(reasons) = gpu.event_reasons.value().filter(|reasons| !reasons.is_empty()) {
            let normal = [EventReason::Idle, EventReason::SwPowerCap].map(EventReason::as_str);
            let all_normal = reasons.iter().all(|reason| normal.contains(&reason.as_str()));
            let note = if all_normal { " (normal)" } else { "" };
            writeln!(out, "  clock reasons: {}{note}", reasons.join(", "))?;
        }
        if let Some(throttle) = status.throttle.iter().find(|t| t.gpu == gpu.index) {
            works(out, throttle, status.at)?;
        }
        if gpu.hidden_processes == Some(true) {
            writeln!(
                out,
                "  It is in use and no process is listed: a container without the host's pids (--pid=host), or a"
            )?;
            writeln!(out, "  context that has just been closed.")?;
        }
    }
    writeln!(out)
}

/// The state by the last minutes, and what cannot be told. A state that is not the platform's own stands
/// out.
fn works(out: &mut String, throttle: &ThrottlePart, at: f64) -> Written {
    let state = throttle.state.as_str();
    let says = ThrottleState::ALL.iter().find(|known| known.as_str() == state);
    let name = match says {
        Some(
            ThrottleState::Thermal | ThrottleState::PowerDelivery | ThrottleState::StalledBusy,
        ) => state.to_uppercase(),
        _ => state.to_owned(),
    };
    let lasts = match says {
        Some(ThrottleState::Unknown) => String::new(),
        _ => format!(" for {}", Seconds((at - throttle.now.start).max(0.0))),
    };
    // One piece of evidence a line: together they are longer than any terminal.
    let mut evidence = throttle.evidence.split("; ");
    writeln!(out, "  throttle: {name}{lasts}: {}", evidence.next().unwrap_or_default())?;
    for piece in evidence {
        writeln!(out, "    {piece}")?;
    }
    // A module's limit says itself whether it is normal.
    let by_module = throttle.at_cap_by.as_deref() == Some(CapBasis::Module.as_str());
    if let Some(note) = says.filter(|_| !by_module).and_then(|state| meaning(*state)) {
        writeln!(out, "    {note}")?;
    }
    if let Some(advice) = &throttle.advice {
        writeln!(out, "    To do: {advice}.")?;
    }
    if let Some(cap) = throttle.clock_cap_hertz.value() {
        writeln!(out, "  clock cap: SM clock stays at {}, as if somebody had set it", Hertz(*cap))?;
    }
    // Why nothing at all can be told stands above.
    if says != Some(&ThrottleState::Unknown) {
        for (state, inputs) in &throttle.unreachable {
            writeln!(out, "  {state} cannot be told without {}", inputs.join(", "))?;
        }
    }
    Ok(())
}

/// What a state that asks for nothing means for who reads it.
const fn meaning(state: ThrottleState) -> Option<&'static str> {
    match state {
        ThrottleState::AtPowerCap => Some("Normal at full load: the platform's own limit."),
        ThrottleState::HeatingAtCap => {
            Some("The signature of heat; that it costs work is not proven.")
        }
        _ => None,
    }
}

/// What somebody has to do something about, before everything else.
pub(super) fn alarms(out: &mut String, status: &Status) -> Written {
    let mut any = false;
    for throttle in &status.throttle {
        let Some(advice) = &throttle.advice else { continue };
        any = true;
        writeln!(out, "!! GPU {} {}: {advice}.", throttle.gpu, throttle.state.to_uppercase())?;
    }
    if any { writeln!(out) } else { Ok(()) }
}

/// `96 % busy, 64 °C (32 °C to its maximum), 48.7 W, SM 2405 of 3003 MHz, P0`; what is not read is left out.
fn doing(gpu: &GpuPart) -> String {
    let mega = |map: &std::collections::BTreeMap<String, Figure<f64>>| {
        map.get("sm").and_then(Figure::value).map(|hertz| hertz / 1e6)
    };
    let margin = gpu.margin_celsius.value().map(|m| format!(" ({m:.0} °C to its maximum)"));
    let most = mega(&gpu.clock_max_hertz).map(|most| format!(" of {most:.0}"));
    let parts = [
        gpu.utilization.value().map(|share| format!("{:.0} % busy", share * 100.0)),
        gpu.celsius.value().map(|c| format!("{c:.0} °C{}", margin.unwrap_or_default())),
        gpu.watts.value().map(|w| format!("{w:.1} W")),
        mega(&gpu.clock_hertz).map(|now| format!("SM {now:.0}{} MHz", most.unwrap_or_default())),
        gpu.performance_state.value().map(|state| format!("P{state}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing is read".to_owned() } else { parts.join(", ") }
}

/// What NVML said about memory, what CUDA would call free, what is really available, who holds the
/// rest: one line each, whether or not the GPU is read.
pub(super) fn memory(out: &mut String, status: &Status) -> Written {
    let state = |name: &str| status.sources.get(name).and_then(|source| source.state.as_deref());
    let absent = Some(SourceState::NotPresent.as_str());
    if status.gpus.is_empty() && state("gpu") == absent && state("nvidia") == absent {
        return Ok(());
    }
    let separate = !status.gpus.is_empty() && all(status, Sharing::Separate);
    let title = if separate {
        "Memory, as each would put it. Not unified: the GPU has memory of its own, the pool is the host's alone."
    } else {
        "Memory, as each would put it"
    };
    writeln!(out, "{title}")?;
    let mut line = |who: &str, what: &str| writeln!(out, "  {who:<25} {what}");
    if status.gpus.is_empty() {
        let why = status.sources.get("gpu").and_then(|source| source.message.as_deref());
        line("the driver says", &format!("nothing: {}", why.unwrap_or("not asked yet")))?;
    }
    for gpu in &status.gpus {
        let of =
            if status.gpus.len() > 1 { format!(" of GPU {}", gpu.index) } else { String::new() };
        line(&format!("the driver says{of}"), &said(gpu))?;
    }
    line("CUDA would say", &cuda_says(status, separate))?;
    let available = if separate { "host memory available" } else { "really available" };
    let blind = match status.cuda.blind.value() {
        Some(blind) if *blind < 0 => {
            format!(", {} less than CUDA promises", Bytes(blind.unsigned_abs()))
        }
        Some(blind) if blind.unsigned_abs() >= GIB => {
            format!(", {} of it invisible to CUDA", Bytes(blind.unsigned_abs()))
        }
        _ => String::new(),
    };
    line(available, &format!("at most {}{blind}", gib(&status.pool.available)))?;
    line("who holds the rest", &holders(status))?;
    writeln!(out)
}

fn cuda_says(status: &Status, separate: bool) -> String {
    if let Some(free) = status.cuda.free.value() {
        return format!("{} is free (MemFree)", Bytes(*free));
    }
    if separate {
        let free = |gpu: &GpuPart| gpu.memory_reported.get("free").map(gib);
        let cards: Vec<String> = status.gpus.iter().filter_map(free).collect();
        return format!("{} is free on the card", cards.join(" and "));
    }
    "not known for this machine".to_owned()
}

fn all(status: &Status, sharing: Sharing) -> bool {
    status.gpus.iter().all(|gpu| gpu.sharing == sharing.as_str())
}

fn said(gpu: &GpuPart) -> String {
    let of = |name: &str| gpu.memory_reported.get(name).map(gib).unwrap_or_default();
    let is = |report: MemoryReport| gpu.memory_report == report.as_str();
    if is(MemoryReport::Unsupported) {
        let normal = if shares(gpu) { ", as is normal where the pool is shared" } else { "" };
        format!("nothing: not supported{normal}")
    } else if is(MemoryReport::Zero) {
        "0 bytes, which is no figure".to_owned()
    } else if is(MemoryReport::WholePool) {
        format!("{} in all, about the whole pool (not taken for a figure here)", of("total"))
    } else if is(MemoryReport::CarveOut) {
        format!("{} in all, a small part (not taken for a figure here)", of("total"))
    } else if is(MemoryReport::Dedicated) {
        format!("{} of its own, {} used, {} free", of("total"), of("used"), of("free"))
    } else {
        match gpu.memory_reported.get("total") {
            Some(Figure::Missing { missing }) => format!("nothing ({missing})"),
            _ => "nothing that can be".to_owned(),
        }
    }
}

/// The rest is what the kernel does not account for; what it does account for is in the list above.
fn holders(status: &Status) -> String {
    let part = &status.unaccounted;
    let is = |attribution: Attribution| part.attribution == attribution.as_str();
    let holder =
        |holder: Holder| part.holders.get(holder.as_str()).and_then(Figure::value).copied();
    let whole = status.pool.segments.get(Segment::Unaccounted.as_str()).map(gib);
    let whole = format!("{} unaccounted", whole.unwrap_or_default());
    if is(Attribution::NotShared) {
        return format!("{whole}, none of it the GPU's");
    }
    let Some(processes) = holder(Holder::GpuProcesses) else {
        return if is(Attribution::Hidden) {
            format!("{whole}: by whom cannot be seen from here")
        } else {
            format!("{whole}: by whom is not known, the GPU's processes cannot be read")
        };
    };
    let charged = match part.processes.value() {
        Some(0) | None => "no GPU process".to_owned(),
        Some(1) => format!("1 GPU process {}", Bytes(processes)),
        Some(n) => format!("{n} GPU processes {}", Bytes(processes)),
    };
    let mut out = format!("{whole}: {charged}");
    if is(Attribution::Partial) {
        out.push_str(" at least");
    }
    if let Some(charged) = part.charged.value().filter(|_| is(Attribution::Clamped)) {
        let _ = write!(out, " (charged with {}, more than is unaccounted)", Bytes(*charged));
    }
    if let Some(pools) = holder(Holder::PagePools).filter(|pools| *pools > 0) {
        let _ = write!(out, ", the driver's page pools about {}", Bytes(pools));
    }
    if let Some(unknown) = holder(Holder::Unknown) {
        let _ = write!(out, ", unknown {}", Bytes(unknown));
    }
    if let Some(idle) = part.idle_remainder.value() {
        let _ = write!(out, " (idle box: {})", Bytes(*idle));
    }
    out
}

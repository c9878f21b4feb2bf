//! The GPU in the terminal: what it does, and the four answers to "how much memory is there".

use super::super::status::{Figure, GpuPart, Status};
use super::{Written, gib};
use crate::model::sharing::{Attribution, Basis, Holder, MemoryReport, Sharing};
use crate::model::source::SourceState;
use crate::units::{Bytes, GIB};
use std::fmt::Write;

/// Whether a GPU shares the pool, or may. Without a GPU, or with cards of their own memory only, nothing
/// about CUDA's view of the pool is true.
pub(super) fn may_share(status: &Status) -> bool {
    let absent = |source: &str| {
        let state = status.sources.get(source).and_then(|source| source.state.as_deref());
        state == Some(SourceState::NotPresent.as_str())
    };
    if status.gpus.is_empty() {
        return !(absent("gpu") && absent("nvidia"));
    }
    !all(status, Sharing::Separate)
}

/// One GPU after the other.
pub(super) fn gpus(out: &mut String, status: &Status) -> Written {
    if status.gpus.is_empty() {
        let source = status.sources.get("gpu");
        let why = source.and_then(|s| s.message.as_deref().or(s.state.as_deref()));
        return writeln!(out, "GPU: none is read ({}).\n", why.unwrap_or("pending"));
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
            writeln!(out, "  clock reasons: {}", reasons.join(", "))?;
        }
        if gpu.hidden_processes {
            writeln!(
                out,
                "  It is in use and no process is to be seen: a container needs the host's pids (--pid=host)."
            )?;
        }
    }
    writeln!(out)
}

/// `96 % busy, 64 °C (32 °C left), 48.7 W, SM 2405 of 3003 MHz, P0`; what is not read is left out.
fn doing(gpu: &GpuPart) -> String {
    let mega = |map: &std::collections::BTreeMap<String, Figure<f64>>| {
        map.get("sm").and_then(Figure::value).map(|hertz| hertz / 1e6)
    };
    let margin = gpu.margin_celsius.value().map(|m| format!(" ({m:.0} °C left)"));
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
/// rest: one line each.
pub(super) fn memory(out: &mut String, status: &Status) -> Written {
    if status.gpus.is_empty() {
        return Ok(());
    }
    writeln!(out, "Memory, as each would put it")?;
    for gpu in &status.gpus {
        let of =
            if status.gpus.len() > 1 { format!(" of GPU {}", gpu.index) } else { String::new() };
        writeln!(out, "  {:<24} {}", format!("the driver says{of}"), said(gpu))?;
    }
    let cuda = match status.cuda.free.value() {
        Some(free) => format!("{} is free (MemFree)", Bytes(*free)),
        None if all(status, Sharing::Separate) => "what the driver says: its own memory".to_owned(),
        None => "not known for this part".to_owned(),
    };
    writeln!(out, "  {:<24} {cuda}", "CUDA would say")?;
    let blind = match status.cuda.blind.value() {
        Some(blind) if *blind >= GIB => {
            format!(", {} of it invisible to CUDA", Bytes(*blind))
        }
        _ => String::new(),
    };
    writeln!(out, "  {:<24} {}{blind}", "really available", gib(&status.pool.available))?;
    writeln!(out, "  {:<24} {}\n", "who holds the rest", holders(status))
}

fn all(status: &Status, sharing: Sharing) -> bool {
    status.gpus.iter().all(|gpu| gpu.sharing == sharing.as_str())
}

fn said(gpu: &GpuPart) -> String {
    let of = |name: &str| gpu.memory_reported.get(name).map(gib).unwrap_or_default();
    let is = |report: MemoryReport| gpu.memory_report == report.as_str();
    if is(MemoryReport::Unsupported) {
        "nothing: not supported, as is normal where the pool is shared".to_owned()
    } else if is(MemoryReport::Zero) {
        "0 bytes, which is no figure".to_owned()
    } else if is(MemoryReport::WholePool) {
        format!("{} in all, about the whole pool; not used here", of("total"))
    } else if is(MemoryReport::CarveOut) {
        format!("{} in all, a part carved out of the pool; not used here", of("total"))
    } else if is(MemoryReport::Dedicated) {
        format!("{} of its own, {} used, {} free", of("total"), of("used"), of("free"))
    } else {
        format!("nothing usable ({})", of("total"))
    }
}

fn holders(status: &Status) -> String {
    let part = &status.unaccounted;
    let is = |attribution: Attribution| part.attribution == attribution.as_str();
    let holder =
        |holder: Holder| part.holders.get(holder.as_str()).and_then(Figure::value).copied();
    if is(Attribution::NotShared) {
        return "no GPU: none shares the pool".to_owned();
    }
    let Some(processes) = holder(Holder::GpuProcesses) else {
        return if is(Attribution::Hidden) {
            "processes that cannot be seen from here".to_owned()
        } else {
            "not known: the GPU's processes cannot be read".to_owned()
        };
    };
    let count: u64 = status.gpus.iter().filter_map(|gpu| gpu.processes.value()).sum();
    let mut out = match count {
        0 => "no GPU process".to_owned(),
        1 => format!("1 GPU process {}", Bytes(processes)),
        n => format!("{n} GPU processes {}", Bytes(processes)),
    };
    if is(Attribution::Partial) {
        out.push_str(" at least");
    }
    if let Some(charged) = part.charged.value().filter(|_| is(Attribution::Clamped)) {
        let _ = write!(out, " (charged with {}, more than there is)", Bytes(*charged));
    }
    if let Some(pools) = holder(Holder::PagePools).filter(|pools| *pools > 0) {
        let _ = write!(out, "; the driver's page pools about {}", Bytes(pools));
    }
    if let Some(unknown) = holder(Holder::Unknown) {
        let _ = write!(out, "; unknown {}", Bytes(unknown));
    }
    if let Some(idle) = part.idle_remainder.value() {
        let _ = write!(out, " (idle box: {})", Bytes(*idle));
    }
    out
}

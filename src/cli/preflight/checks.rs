//! What has spoilt runs, a row each.

use super::{Finding, Seen};
use crate::cli::plan::reading;
use crate::export::status::{Figure, JobPart};
use crate::model::reading::Missing;
use crate::model::sharing::Holder;
use crate::model::throttle::ThrottleState;
use crate::model::workload::{CapKind, Class, View};
use crate::planning::verdict::Outcome;
use crate::units::{Bytes, Celsius, Hertz, SignedBytes};

type Check = (&'static str, fn(&Seen<'_>) -> Finding);

/// Every check, in the order of the output.
pub(super) const CHECKS: &[Check] = &[
    ("pool", pool),
    ("page_cache", page_cache),
    ("contiguity", contiguity),
    ("workloads", workloads),
    ("orphans", orphans),
    ("release", release),
    ("swap", swap),
    ("power_delivery", power_delivery),
    ("clock_cap", clock_cap),
    ("board", board),
    ("desktop", desktop),
    ("processes", processes),
    ("page_pools", page_pools),
    ("driver", driver),
    ("journal", journal),
];

/// Said where one look tells nothing.
const HISTORY: &str = "it takes minutes of watching; ask a running exporter (--url)";
/// Said where it was watched, and not everything can be seen.
const HIDDEN: &str = "none is seen, and not all processes may be";
const LADDER: &str = "gb10-exporter plan tells what makes room, in order";

fn pool(seen: &Seen<'_>) -> Finding {
    let room = seen.budget.room(seen.reader);
    let Ok(room) = room else {
        return Finding::unknown("what is available could not be read");
    };
    let Some(need) = seen.need else {
        let headroom = room.signed_less(seen.t.reserve);
        let evidence = format!("{headroom} above the reserve; no job was told (--need, --model)");
        return if headroom < SignedBytes(0) {
            Finding::fail(evidence, LADDER)
        } else if headroom.0.unsigned_abs() < seen.t.comfort.0 {
            Finding::warn(evidence, LADDER)
        } else {
            Finding::pass(evidence)
        };
    };
    let evidence = format!("{} needed, {room} left by {} memory", need.usual, seen.reader.as_str());
    match seen.fits {
        Outcome::Fits => Finding::pass(evidence),
        Outcome::Tight => Finding::warn(format!("tight: {evidence}"), LADDER),
        Outcome::DoesNotFit => Finding::fail(format!("does not fit: {evidence}"), LADDER),
        Outcome::Unknown => Finding::unknown(evidence),
    }
}

fn page_cache(seen: &Seen<'_>) -> Finding {
    let Ok(cache) = seen.budget.flushable else {
        return Finding::unknown("what a flush returns could not be read");
    };
    let evidence = format!("a flush returns {cache}");
    match seen.need.and_then(|need| seen.budget.cache_in_the_way(need.usual, seen.t)) {
        Some(_) => Finding::warn(evidence, "sudo gb10-exporter flush"),
        None => Finding::pass(evidence),
    }
}

fn contiguity(seen: &Seen<'_>) -> Finding {
    let Ok(blocks) = seen.budget.contiguous else {
        return Finding::unknown("blocks of free memory could not be read");
    };
    let evidence = format!("{blocks} free in blocks of 2 MiB and more, which the driver takes");
    if blocks < seen.t.contiguous_low {
        return Finding::warn(evidence, "sudo gb10-exporter flush --compact");
    }
    Finding::pass(evidence)
}

/// Whether all processes can be seen.
fn all_seen(seen: &Seen<'_>) -> bool {
    seen.status.holders.view.value().is_some_and(|view| view == View::Full.as_str())
}

/// The others' caps are judged, not that they are there.
fn workloads(seen: &Seen<'_>) -> Finding {
    let Some(jobs) = seen.status.holders.jobs.value() else {
        return Finding::unknown("processes could not be read");
    };
    let claims = &seen.status.contention.claims;
    // Heavy, not, or not to be told for want of its cap.
    let heavy = |job: &JobPart| {
        let mine = claims.iter().find(|claim| claim.pid == job.pid);
        mine.map_or(Some(false), |claim| claim.heavy.value().copied())
    };
    let of = |wanted: &dyn Fn(&JobPart) -> bool| {
        let others = jobs.iter().filter(|job| job.workload != Class::Desktop.as_str());
        let each = others.filter(|job| job.is_at_work()).filter(|job| wanted(job)).map(|job| {
            let kind = job.cap.kind.replace('_', " ");
            format!("{} in {} (pid {}), cap: {}", job.workload, job.unit, job.pid, kind)
        });
        let words = each.collect::<Vec<_>>().join("; ");
        (!words.is_empty()).then_some(words)
    };
    let unbounded = |job: &JobPart| job.cap.kind == CapKind::None.as_str() || job.cap.exceeded;
    if let Some(words) = of(&|job| heavy(job) == Some(true) && unbounded(job)) {
        return Finding::fail(words, "one heavy job at a time: stop it, or give it a cap");
    }
    let capped = |job: &JobPart| job.cap.kind != CapKind::Unknown.as_str();
    if let Some(words) = of(&|job| heavy(job) == Some(true) && !capped(job)) {
        let remedy =
            "what it may still take is not off what is left, for its cap is not known: stop it";
        return Finding::warn(words, remedy);
    }
    if let Some(words) = of(&|job| heavy(job) == Some(true)) {
        let remedy = match seen.budget.claimed[seen.reader as usize] {
            Ok(_) => "what it may still take by its cap is off what is left; stop it for more",
            Err(_) => {
                "what it may still take by its cap is not off what is left: ask a running exporter (--url)"
            }
        };
        return Finding::warn(words, remedy);
    }
    if let Some(words) = of(&|job| heavy(job).is_none()) {
        return Finding::warn(words, "its cap cannot be seen from outside: see to it");
    }
    match of(&|_| true) {
        Some(words) => Finding::pass(words),
        None if all_seen(seen) => Finding::pass("none on the GPU"),
        None => Finding::unknown(HIDDEN),
    }
}

fn orphans(seen: &Seen<'_>) -> Finding {
    let orphans = &seen.status.release.orphans;
    if orphans.is_empty() {
        return match (seen.watched, all_seen(seen)) {
            (false, _) => Finding::unknown(HISTORY),
            (true, false) => Finding::unknown(HIDDEN),
            (true, true) => Finding::pass("no worker without its server"),
        };
    }
    let each = orphans
        .iter()
        .map(|o| format!("{} in {} (pid {}) holds {}", o.workload, o.unit, o.pid, Bytes(o.held)));
    let pids: Vec<_> = orphans.iter().map(|o| o.pid.to_string()).collect();
    Finding::fail(each.collect::<Vec<_>>().join("; "), format!("kill {}", pids.join(" ")))
}

fn release(seen: &Seen<'_>) -> Finding {
    match &seen.status.release.pending {
        Figure::Value(bytes) if Bytes(*bytes) >= seen.t.release_from => Finding::fail(
            format!("{} of an ended job are not given back yet", Bytes(*bytes)),
            "wait (--wait 5m); releases of minutes are on record",
        ),
        Figure::Value(_) if seen.watched => Finding::pass("nothing of an ended job is still held"),
        _ if seen.watched => Finding::unknown("not watched for long enough yet"),
        _ => Finding::unknown(HISTORY),
    }
}

fn swap(seen: &Seen<'_>) -> Finding {
    let swap = &seen.status.swap;
    let (Some(size), Some(free)) = (swap.size.value(), swap.free.value()) else {
        return Finding::unknown("swap could not be read");
    };
    let swappiness = seen.status.readings.get("vm.swappiness");
    let swappiness = swappiness.and_then(|reading| reading.value.as_ref()?.as_u64());
    let used = Bytes(size.saturating_sub(*free));
    let words = swappiness.map_or("not read".to_owned(), |number| number.to_string());
    let evidence = format!("{used} of {} used, swappiness {words}", Bytes(*size));
    let eager = swappiness.is_none_or(|number| number > seen.t.preflight_swappiness.0);
    if used >= seen.t.preflight_swap && eager {
        let remedy = "sudo swapoff -a && sudo swapon -a, and sudo sysctl vm.swappiness=10";
        return Finding::warn(evidence, remedy);
    }
    Finding::pass(evidence)
}

fn power_delivery(seen: &Seen<'_>) -> Finding {
    let throttle = &seen.status.throttle;
    let fault = ThrottleState::PowerDelivery.as_str();
    if let Some(gpu) = throttle.iter().find(|gpu| gpu.state == fault) {
        let remedy =
            "unplug the supply for five minutes; a fault that stays is the supply's or the board's";
        return Finding::fail(gpu.evidence.clone(), remedy);
    }
    let known = throttle.iter().any(|gpu| {
        gpu.state != ThrottleState::Unknown.as_str()
            && gpu.state != ThrottleState::Idle.as_str()
            && !gpu.unreachable.contains_key(fault)
    });
    if known {
        return Finding::pass("power is delivered under load");
    }
    Finding::unknown(if seen.watched {
        "it shows under load, of which none was seen"
    } else {
        HISTORY
    })
}

fn clock_cap(seen: &Seen<'_>) -> Finding {
    let caps = seen.status.throttle.iter().map(|gpu| gpu.clock_cap_hertz.value());
    let cap = caps.flatten().copied().min_by(f64::total_cmp);
    match (cap, seen.status.throttle.is_empty()) {
        (Some(cap), _) => Finding::warn(
            format!("clocks seem to be held at {}", Hertz(cap)),
            "sudo nvidia-smi -rgc, unless it was set on purpose (it keeps some boxes cool)",
        ),
        (None, true) => Finding::unknown("no GB10 is seen"),
        (None, false) if seen.watched => Finding::pass("none is known of"),
        (None, false) => Finding::unknown(HISTORY),
    }
}

fn board(seen: &Seen<'_>) -> Finding {
    let status = seen.status;
    let hottest = status.hottest_zone.value().and_then(|name| {
        let zone = status.zones.iter().find(|zone| zone.zone == *name)?;
        Some((name, *zone.celsius.value()?))
    });
    let Some((zone, celsius)) = hottest else {
        return Finding::unknown("no thermal zone could be read");
    };
    let cutoff = status.cutoff_celsius;
    let evidence =
        format!("{zone} is at {}; boards cut power from {} on", Celsius(celsius), Celsius(cutoff));
    let remedy = "let it cool down; see to its fans and to the air before them";
    if celsius >= cutoff {
        Finding::fail(evidence, remedy)
    } else if celsius >= cutoff - seen.t.preflight_board_margin.0 {
        Finding::warn(evidence, remedy)
    } else {
        Finding::pass(evidence)
    }
}

fn desktop(seen: &Seen<'_>) -> Finding {
    let Some(jobs) = seen.status.holders.jobs.value() else {
        return Finding::unknown("processes could not be read");
    };
    let drawing = jobs.iter().filter(|job| job.workload == Class::Desktop.as_str());
    let held = drawing.map(|job| {
        let of = |figure: &Figure<u64>| figure.value().copied().unwrap_or(0);
        Bytes(of(&job.gpu_memory).saturating_add(of(&job.host)))
    });
    let held: Vec<Bytes> = held.collect();
    if held.is_empty() {
        return if all_seen(seen) { Finding::pass("none") } else { Finding::unknown(HIDDEN) };
    }
    let evidence = format!("one runs and holds {}", held.into_iter().sum::<Bytes>());
    // Its programs are what the kernel kills first.
    if matches!(seen.fits, Outcome::Tight | Outcome::DoesNotFit) {
        return Finding::warn(evidence, "sudo systemctl isolate multi-user.target");
    }
    Finding::pass(evidence)
}

fn processes(seen: &Seen<'_>) -> Finding {
    let Figure::Value(view) = &seen.status.holders.view else {
        return Finding::unknown("processes could not be read");
    };
    let known = View::ALL.iter().find(|one| one.as_str() == view);
    match known {
        Some(View::Full) => Finding::pass("all can be seen"),
        Some(View::Unknown) | None => Finding::unknown("whether all can be seen is not to be told"),
        Some(limited) => Finding::warn(
            limited.describe(),
            limited.advice().unwrap_or("run it where all processes can be seen"),
        ),
    }
}

fn page_pools(seen: &Seen<'_>) -> Finding {
    let held = reading(seen.status.unaccounted.holders.get(Holder::PagePools.as_str()));
    match (reading(Some(&seen.status.pool.driver_page_pools)), held) {
        (Ok(false), _) => Finding::pass("the driver keeps none"),
        (Ok(true), Ok(bytes)) if Bytes(bytes) >= seen.t.page_pools_from => Finding::warn(
            format!("the driver keeps {} of freed pages", Bytes(bytes)),
            "sudo gb10-exporter flush, or load the driver with NVreg_EnableSystemMemoryPools=0",
        ),
        (Ok(true), Ok(bytes)) => Finding::pass(format!("on, and {} are in them", Bytes(bytes))),
        (Ok(true), Err(reason)) => {
            Finding::unknown(format!("on; what is in them is not known ({})", reason.as_str()))
        }
        (Err(reason), _) => {
            let why = reason.as_str().replace('_', " ");
            Finding::unknown(format!("whether the driver keeps freed pages is not told ({why})"))
        }
    }
}

fn driver(seen: &Seen<'_>) -> Finding {
    let is = |reason: Missing| {
        matches!(&seen.status.gpu_driver.version, Figure::Missing { missing } if missing == reason.as_str())
            || matches!(&seen.status.gpu_driver.via, Figure::Missing { missing } if missing == reason.as_str())
            || seen
                .status
                .readings
                .values()
                .any(|one| one.missing.as_deref() == Some(reason.as_str()))
    };
    if is(Missing::VersionMismatch) {
        return Finding::fail(
            Missing::VersionMismatch.describe(),
            "reboot, or load the driver anew",
        );
    }
    match &seen.status.gpu_driver.version {
        Figure::Value(version) => Finding::pass(format!("{version} answers")),
        Figure::Missing { missing } => {
            Finding::unknown(format!("the driver does not answer ({missing})"))
        }
    }
}

fn journal(seen: &Seen<'_>) -> Finding {
    let Some(place) = &seen.journal else {
        return Finding::unknown("it is looked for on this machine only");
    };
    if place.is_dir() {
        return Finding::pass(format!("{} keeps it over a reboot", place.display()));
    }
    Finding::warn(
        format!("{} is not there: after a freeze nothing tells why", place.display()),
        "sudo mkdir -p /var/log/journal && sudo systemctl restart systemd-journald",
    )
}

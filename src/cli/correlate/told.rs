//! What `correlate` found, in words, as JSON and as curves.

use crate::export::plot::{self, Axis, Glyphs, Plot, Track};
use crate::model::reading::Reading;
use crate::model::samples::{SamplePoint, SampleSeries};
use crate::model::throttle::ThrottleState;
use crate::model::training::{
    Beside, Explained, Faster, LogFormat, Pace, ShortSpells, StretchKind,
};
use crate::units::{Bytes, Celsius, GIB, Hertz, Ratio, Seconds, Watts};
use anyhow::bail;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// How the log's times became those of the samples, and by how much they were moved.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// The log's own time stamps.
    Stamps,
    /// Somebody said so.
    Given(f64),
    /// The log ends when its file was written last.
    Written(f64),
    /// The run begins when the samples show a busy GPU.
    Busy(f64),
    /// Steps of which only tokens in a second are known fill the time from when the run began.
    Rates(f64),
}

impl Clock {
    /// A time of the log, since 1970.
    pub(super) fn wall(&self, at: Duration) -> Duration {
        let by = match self {
            Self::Stamps => 0.0,
            Self::Given(by) | Self::Written(by) | Self::Busy(by) | Self::Rates(by) => *by,
        };
        super::moved(at, by)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Stamps => "time_stamps",
            Self::Given(_) => "given",
            Self::Written(_) => "file_time",
            Self::Busy(_) => "gpu_busy",
            Self::Rates(_) => "token_rates",
        }
    }

    const fn told(self) -> &'static str {
        match self {
            Self::Stamps => "by the log's own time stamps",
            Self::Given(_) => "as you said",
            Self::Written(_) => {
                "estimated: the log's file was written last when its last step ended (--log-start says it better)"
            }
            Self::Rates(_) => {
                "estimated: the log tells tokens per second alone (--log-start and --log-end say when it was)"
            }
            Self::Busy(_) => {
                "estimated: the run begins when the samples show a busy GPU (--log-start says it better)"
            }
        }
    }
}

/// Everything.
pub(super) struct Told {
    pub format: LogFormat,
    pub remarks: Vec<String>,
    pub steps: usize,
    pub span: (Duration, Duration),
    pub pace: Pace,
    pub steady: Option<(Duration, Duration)>,
    pub explained: Vec<Explained>,
    pub short: ShortSpells,
    /// What is shorter is a short spell.
    pub short_of: Seconds,
    pub faster: Option<Faster>,
    pub step_times: Vec<(Duration, Seconds)>,
    pub series: SampleSeries,
    pub clock: Clock,
    pub zone: TimeZone,
}

/// Title, unit, and points of a curve.
type Curve = (&'static str, &'static str, Vec<(f64, f64)>);

/// A figure, or why there is none.
fn shown<T: std::fmt::Display>(reading: &Reading<T>) -> Option<String> {
    reading.as_ref().ok().map(ToString::to_string)
}

impl Told {
    /// Whether nothing is to be told of its pace.
    pub(super) fn healthy(&self) -> bool {
        self.explained.is_empty() && !self.short.many
    }

    /// Samples of another time say nothing, and nobody should take that for "unexplained".
    pub(super) fn must_overlap(&self) -> anyhow::Result<()> {
        let (Some(first), Some(last)) = (self.series.points.first(), self.series.points.last())
        else {
            bail!("there are no samples");
        };
        if self.span.0 > last.wall || self.span.1 < first.wall {
            bail!(
                "the run ({} to {}) and the samples ({} to {}) are of different times; --offset or --zone may be missing",
                self.date(self.span.0),
                self.date(self.span.1),
                self.date(first.wall),
                self.date(last.wall)
            );
        }
        Ok(())
    }

    fn date(&self, at: Duration) -> String {
        let at = Timestamp::UNIX_EPOCH.checked_add(at).unwrap_or(Timestamp::MAX);
        let t = self.zone.to_datetime(at);
        format!(
            "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        )
    }

    /// `2:00:05`, since the run began.
    fn after(&self, at: Duration) -> String {
        let seconds = at.saturating_sub(self.span.0).as_secs_f64().round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a float cast saturates"
        )]
        let seconds = seconds as u64;
        format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    /// The whole answer for a person.
    pub(super) fn text(&self, ascii: bool) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.head(&mut out);
        for explained in &self.explained {
            let _ = self.stretch(&mut out, explained);
        }
        let glyphs = if ascii { Glyphs::Ascii } else { Glyphs::Unicode };
        let curves = self.plot(|plot| plot::terminal(plot, plot::WIDTH, glyphs));
        let _ = writeln!(out, "{curves}");
        for remark in &self.remarks {
            let _ = writeln!(out, "note: {remark}");
        }
        out
    }

    fn head(&self, out: &mut String) -> std::fmt::Result {
        let (from, to) = self.span;
        let long = Seconds(to.saturating_sub(from).as_secs_f64());
        writeln!(
            out,
            "Run: {} reports ({}), {long} from {}",
            self.steps,
            self.format.as_str(),
            self.date(from)
        )?;
        writeln!(out, "Clock: {}", self.clock.told())?;
        let Ok(Seconds(base)) = self.pace.baseline else {
            return writeln!(
                out,
                "No steady beginning: too short, or its pace changed all the time. Nothing can be compared.\n"
            );
        };
        let steady =
            self.steady.map(|(from, to)| format!(" ({} to {})", self.after(from), self.after(to)));
        writeln!(
            out,
            "A step took {} in its own first steady minutes{}.",
            step(base),
            steady.unwrap_or_default()
        )?;
        let lost: f64 = self.explained.iter().map(|e| e.stretch.lost.0).sum();
        let count = self.explained.len();
        let s = if count == 1 { "" } else { "es" };
        if count > 0 {
            writeln!(out, "SLOWED: {count} stretch{s}, {} lost.", Seconds(lost))?;
        } else if self.short.many {
            writeln!(out, "SLOWED: by short spells alone.")?;
        } else {
            writeln!(out, "HEALTHY: no stretch of it was slow.")?;
        }
        self.beside_stretches(out)?;
        writeln!(out)
    }

    /// What is no stretch and not nothing.
    fn beside_stretches(&self, out: &mut String) -> std::fmt::Result {
        let ShortSpells { count, together, lost, .. } = self.short;
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            writeln!(
                out,
                "{count} short slow spell{s} (under {} each), together {together}; {lost} lost.",
                self.short_of
            )?;
        }
        if let Some(Faster { from, ratio }) = self.faster {
            writeln!(
                out,
                "Faster later: {ratio:.2} times as fast from {} on; its first steady minutes may themselves have been slow.",
                self.after(from)
            )?;
        }
        Ok(())
    }

    fn stretch(&self, out: &mut String, e: &Explained) -> std::fmt::Result {
        let (s, base) = (&e.stretch, self.pace.baseline.map_or(0.0, |Seconds(s)| s));
        let (from, to, date) = (self.after(s.from), self.after(s.to), self.date(s.from));
        let lost = s.lost;
        if s.kind == StretchKind::Stall {
            let silent = Seconds(s.to.saturating_sub(s.from).as_secs_f64());
            writeln!(
                out,
                "{from} to {to} into the run ({date} on): STALL, no report for {silent}; {lost} lost"
            )?;
        } else {
            let (each, ratio, steps) = (step(base * s.ratio), s.ratio, s.steps);
            writeln!(
                out,
                "{from} to {to} into the run ({date} on): steps took {each}, {ratio:.2} times as long; {steps} steps, {lost} lost"
            )?;
        }
        for (cause, evidence) in &e.causes {
            // A piece of evidence a line, as in the status.
            writeln!(out, "  {}: {}", cause.as_str(), evidence.replace("; ", "\n    "))?;
        }
        if e.causes.is_empty() {
            writeln!(out, "  unexplained: {}", nothing(e))?;
        }
        for (name, beside) in [("then", &e.during), ("before", &e.before)] {
            writeln!(out, "  {name:<7} {}", line(beside))?;
        }
        writeln!(out)
    }

    /// The curves: step time, and of the samples what there is.
    fn plot<R>(&self, draw: impl FnOnce(&Plot<'_>) -> R) -> R {
        let of = |value: &dyn Fn(&SamplePoint) -> Option<f64>| -> Vec<(f64, f64)> {
            let points = self.series.points.iter();
            points.filter_map(|p| Some((p.wall.as_secs_f64(), value(p)?))).collect()
        };
        let steps = self.step_times.iter().map(|(at, Seconds(s))| (at.as_secs_f64(), *s)).collect();
        let mega = Hertz::from_mega(1).0;
        let curves: Vec<Curve> = vec![
            ("step time", "s", steps),
            ("temperature", "°C", of(&|p| p.temperature.ok().map(|Celsius(c)| c))),
            ("power", "W", of(&|p| p.power.ok().map(|Watts(w)| w))),
            ("SM clock", "MHz", of(&|p| p.clock.ok().map(|Hertz(h)| h / mega))),
            ("utilization", "%", of(&|p| p.utilization.ok().map(|Ratio(r)| r * 100.0))),
            (
                "available memory",
                "GiB",
                of(&|p| p.available.ok().map(|b| b.as_f64() / Bytes(GIB).as_f64())),
            ),
        ];
        let tracks: Vec<Track<'_>> = curves
            .iter()
            .filter(|(.., points)| !points.is_empty())
            .map(|(title, unit, points)| Track { title, unit, points })
            .collect();
        let names: Vec<String> = self
            .explained
            .iter()
            .map(|e| {
                let causes: Vec<&str> = e.causes.iter().map(|(cause, _)| cause.as_str()).collect();
                let stall = e.stretch.kind == StretchKind::Stall;
                let nothing = if stall { "stall" } else { "unexplained" };
                if causes.is_empty() { nothing.to_owned() } else { causes.join(", ") }
            })
            .collect();
        let stretches: Vec<plot::Stretch<'_>> = self
            .explained
            .iter()
            .zip(&names)
            .map(|(e, name)| {
                (e.stretch.from.as_secs_f64(), e.stretch.to.as_secs_f64(), name.as_str())
            })
            .collect();
        draw(&Plot {
            title: "A training run beside its box",
            tracks: &tracks,
            stretches: &stretches,
            axis: Axis::Clock(self.zone.clone()),
        })
    }

    pub(super) fn svg(&self) -> String {
        self.plot(plot::svg)
    }

    pub(super) fn json(&self) -> Vec<u8> {
        let at = |at: Duration| at.as_secs_f64();
        let verdict = match (self.pace.baseline, self.healthy()) {
            (Err(_), _) => "unknown",
            (_, true) => "healthy",
            (_, false) => "slowed",
        };
        let document = json!({
            "format": 1,
            "verdict": verdict,
            "log": {"format": self.format.as_str(), "reports": self.steps},
            "clock": self.clock.word(),
            "from": at(self.span.0),
            "to": at(self.span.1),
            "baseline_step_seconds": self.pace.baseline.ok().map(|Seconds(s)| s),
            "steady": self.steady.map(|(from, to)| json!({"from": at(from), "to": at(to)})),
            "lost_seconds": self.explained.iter().map(|e| e.stretch.lost.0).sum::<f64>(),
            "stretches": self.explained.iter().map(stretch_json).collect::<Vec<Value>>(),
            "short_spells": {
                "count": self.short.count,
                "seconds": self.short.together.0,
                "lost_seconds": self.short.lost.0,
                "slowed": self.short.many,
            },
            "faster_later": self.faster.map(|f| json!({"from": at(f.from), "ratio": f.ratio})),
            "remarks": self.remarks,
        });
        let mut out = serde_json::to_vec_pretty(&document).unwrap_or_default();
        out.push(b'\n');
        out
    }
}

fn stretch_json(e: &Explained) -> Value {
    json!({
        "kind": e.stretch.kind.as_str(),
        "from": e.stretch.from.as_secs_f64(),
        "to": e.stretch.to.as_secs_f64(),
        "ratio": e.stretch.ratio,
        "steps": e.stretch.steps,
        "lost_seconds": e.stretch.lost.0,
        "causes": e.causes.iter().map(|(cause, evidence)| json!({"cause": cause.as_str(), "evidence": evidence})).collect::<Vec<Value>>(),
        "then": beside_json(&e.during),
        "before": beside_json(&e.before),
    })
}

fn beside_json(b: &Beside) -> Value {
    let states: serde_json::Map<String, Value> =
        b.states.iter().map(|(state, share)| (state.as_str().to_owned(), json!(share))).collect();
    let jobs: serde_json::Map<String, Value> =
        b.jobs.iter().map(|(state, share)| (state.as_str().to_owned(), json!(share))).collect();
    json!({
        "celsius": b.temperature.ok().map(|Celsius(c)| c),
        "peak_celsius": b.peak.ok().map(|Celsius(c)| c),
        "watts": b.power.ok().map(|Watts(w)| w),
        "sm_hertz": b.clock.ok().map(|Hertz(h)| h),
        "utilization": b.utilization.ok().map(|Ratio(r)| r),
        "available_min_bytes": b.available.ok().map(|bytes| bytes.0),
        "states": states,
        "evidence": b.evidence,
        "contention": jobs,
    })
}

/// Whether a state held for the larger part of a time.
fn mostly(beside: &Beside, state: ThrottleState) -> bool {
    beside.states.first().is_some_and(|(most, share)| *most == state && *share >= 0.5)
}

/// Why nothing is named.
fn nothing(e: &Explained) -> &'static str {
    if e.during.states.is_empty() {
        "there are no samples of it"
    } else if e.before.states.is_empty() {
        "there are no samples of the steady minutes to compare it with"
    } else if mostly(&e.during, ThrottleState::Unknown) {
        "the samples tell too little: utilization and power are needed, clocks help"
    } else if e.stretch.kind == StretchKind::Stall && mostly(&e.during, ThrottleState::Idle) {
        "the GPU was idle: the run waited for something that the samples do not show"
    } else {
        "nothing in the samples accounts for it"
    }
}

/// `8.00 s`, `350 ms`
fn step(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// `86.0 °C (peak 87.0 °C), 88.0 W, SM 1800 MHz, 96 % busy, at least 41.2 GiB available; thermal 92 %`
fn line(b: &Beside) -> String {
    let peak = shown(&b.peak).map(|peak| format!(" (peak {peak})")).unwrap_or_default();
    let parts = [
        shown(&b.temperature).map(|t| format!("{t}{peak}")),
        shown(&b.power),
        shown(&b.clock).map(|clock| format!("SM {clock}")),
        shown(&b.utilization).map(|share| format!("{share} busy")),
        shown(&b.available).map(|bytes| format!("at least {bytes} available")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "no samples".to_owned();
    }
    let states: Vec<String> = b
        .states
        .iter()
        .map(|(state, share)| format!("{} {}", state.as_str(), Ratio(*share)))
        .collect();
    let jobs: Vec<String> = b
        .jobs
        .iter()
        .map(|(state, share)| format!("{} {}", state.as_str(), Ratio(*share)))
        .collect();
    let jobs = if jobs.is_empty() { String::new() } else { format!("; jobs {}", jobs.join(", ")) };
    format!("{}; {}{jobs}", parts.join(", "), states.join(", "))
}

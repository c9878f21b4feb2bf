//! docs/ALERTS.md: the alert table, and what came of it when every scenario went through the rules.

use super::GENERATED;
use crate::rules::{Alert, Severity, all, expr};
use std::fmt::Write;

/// What the rules made of a scenario.
pub struct Outcome {
    /// Its name.
    pub scenario: String,
    /// raw, reconstructed or invented.
    pub kind: &'static str,
    /// What it is.
    pub title: String,
    /// Alerts that fired: name, severity, and the second at which they did first, with a scrape every
    /// 15 s and every 60 s.
    pub fired: Vec<(String, String, [Option<f64>; 2])>,
}

/// By how much an alert came before the end of a raw scenario; below zero, it came after it.
pub struct Lead {
    /// The scenario.
    pub scenario: String,
    /// The alert.
    pub alert: String,
    /// When the box or its job was lost.
    pub end: f64,
    /// Least and median over all scrape phases, with a scrape every 15 s; none where some phase misses it.
    pub fifteen: Option<(f64, f64)>,
    /// The same with a scrape every 5 s.
    pub five: Option<(f64, f64)>,
    /// By the exporter's own notice.
    pub own: Option<f64>,
}

/// What an alert said in a scenario.
#[derive(Clone)]
pub struct Notice {
    /// The alert.
    pub alert: String,
    /// Its severity.
    pub severity: String,
    /// Where it fired.
    pub scenario: String,
    /// Its description, as a person gets it.
    pub text: String,
}

/// Seconds as people write them.
fn clock(seconds: f64) -> String {
    let whole = crate::units::Count::rounded(seconds).0;
    match (whole / 3600, whole % 3600 / 60, whole % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, s) => format!("{h}h{m:02}m{s:02}s"),
    }
}

fn times(at: [Option<f64>; 2]) -> String {
    let text = |at: Option<f64>| at.map_or_else(|| "never".to_owned(), clock);
    format!("{} / {}", text(at[0]), text(at[1]))
}

fn row(alert: &Alert, outcomes: &[Outcome]) -> String {
    let name = alert.name.as_str();
    let severity = alert.severity.as_str();
    let proves = |outcome: &&Outcome| alert.fires.contains(&outcome.scenario.as_str());
    let fires: Vec<String> = outcomes
        .iter()
        .filter(proves)
        .map(|outcome| {
            let at = outcome.fired.iter().find(|(n, s, _)| n == name && s == severity);
            format!("{} ({})", outcome.scenario, times(at.map_or([None; 2], |(_, _, at)| *at)))
        })
        .collect();
    let silent: Vec<&str> = alert.silent.to_vec();
    let fires = if fires.is_empty() { alert.fires.join(", ") } else { fires.join(", ") };
    let time =
        |seconds: u32| if seconds == 0 { "-".to_owned() } else { expr::span(seconds.into()) };
    format!(
        "| [{name}](../alerts/runbooks/{name}.md) | {severity} | {} | {} | {} | {} | {fires} | {} |",
        alert.summary,
        time(alert.wait),
        time(alert.keep),
        time(alert.outlives),
        silent.join(", ")
    )
}

/// The whole page.
#[must_use]
pub fn alerts(outcomes: &[Outcome], leads: &[Lead], notices: &[Notice]) -> String {
    let mut out = format!(
        "{GENERATED}# Alerts\n\nEvery alert, from the table in `src/rules`. `alerts/gb10.rules.yml` has the rules; those that need other programs'\n\
         series or several boxes are in files of their own beside it. `gb10-exporter rules` prints them for other thresholds.\n\n\
         A time stands for the second of the scenario at which the alert fires, with a scrape and an evaluation every 15 s / every\n\
         60 s, measured with `promtool test rules`. Waits: how long it must hold before anybody is told. Kept: for how long after.\n\
         Outlives: for how long it goes on when the box falls silent while it fires.\n\n\
         | alert | severity | what is so | waits | kept | outlives | fires in | silent in |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for alert in all() {
        let _ = writeln!(out, "{}", row(alert, outcomes));
    }
    lead(&mut out, leads);
    out.push_str("\n## What they say\n\nEach description, as it came when the alert fired in the scenario, on a box called `box`.\n\n");
    for Notice { alert, severity, scenario, text } in notices {
        let _ = writeln!(out, "- **{alert}** ({severity}, {scenario}): {text}");
    }
    let _ = write!(
        out,
        "\n## Scenarios\n\nWhat fires in each scenario of `tests/scenarios`, the near misses among them, whatever the alert. Raw: the deciding\n\
         figures were recorded. Reconstructed: some were, others are filled in. Invented: made up.\n\n\
         | scenario | kind | what happens | critical and warning | info |\n| --- | --- | --- | --- | --- |\n"
    );
    for outcome in outcomes {
        let of = |info: bool| {
            let which = |severity: &str| (severity == Severity::Info.as_str()) == info;
            let fired = outcome.fired.iter().filter(|(_, severity, _)| which(severity));
            let parts: Vec<String> = fired
                .map(|(name, severity, at)| {
                    if info { name.clone() } else { format!("{name} ({severity}, {})", times(*at)) }
                })
                .collect();
            if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            outcome.scenario,
            outcome.kind,
            outcome.title,
            of(false),
            of(true)
        );
    }
    out
}

fn lead(out: &mut String, leads: &[Lead]) {
    let _ = write!(
        out,
        "\n## How long before\n\nBy how much an alert came before the recorded end of a raw scenario: the least and the median over every phase of the\n\
         scrapes, and by the exporter's own notice (`--alertmanager.url`). Rules are evaluated at once here: up to one evaluation interval comes on top, and `group_wait` until Alertmanager has grouped it.\n\
         Below zero it came after the end. Nothing is claimed for scenarios that are not raw.\n\n\
         | scenario | alert | end | every 15 s: least, median | every 5 s: least, median | the exporter itself |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    let two = |lead: Option<(f64, f64)>| {
        lead.map_or_else(
            || "some phases miss it".to_owned(),
            |(least, median)| format!("{least:+.0} s, {median:+.0} s"),
        )
    };
    for lead in leads {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            lead.scenario,
            lead.alert,
            clock(lead.end),
            two(lead.fifteen),
            two(lead.five),
            lead.own.map_or_else(|| "never".to_owned(), |own| format!("{own:+.0} s"))
        );
    }
}

//! The generated references: metrics, thresholds, command line, planning, OpenTelemetry.

mod planning;

pub use planning::planning;

mod alerts;
mod otlp;

pub use alerts::{Lead, Notice, Outcome, alerts};
pub use otlp::otlp;

use crate::catalog::{self, Stability};
use crate::config::Config;
use crate::config::table::{amount, rows, switched};
use crate::model::fields::{self, Presence};
use crate::model::gpu::{ClockKind, EventReason, Via};
use crate::model::module::{EnergyRail, Limit, Rail};
use crate::model::pool::{Block, Pinned, Reader, Segment, Window};
use crate::model::push::{ExportResult, Signal};
use crate::model::reading::Missing;
use crate::model::sharing::{Attribution, Holder, MemoryReport, Sharing};
use crate::model::source::{Lane, Source, SourceState};
use crate::model::throttle::{CapChange, Input, NEEDS, ThrottleState};
use crate::thresholds::Thresholds;
use clap::Command;
use std::fmt::Write;

const GENERATED: &str =
    "<!-- Generated from the tables in src/ by `make docs`. Do not edit. -->\n\n";

/// docs/METRICS.md
#[must_use]
pub fn metrics() -> String {
    let mut out = format!(
        "{GENERATED}# Metrics\n\nEvery metric, from the table in `src/catalog`. Base units; ratios from 0 to 1. A value that cannot be read\n\
         is absent, never 0; `gb10_reading_missing` says why, or for what follows from several readings the state set named\n\
         in its text. Stable names and labels do not change within a major\n\
         version; the others may.\n\n| metric | kind | unit | labels | what it is | from |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    for m in catalog::all() {
        let labels = m.labels.iter().map(|l| format!("`{l}`")).collect::<Vec<_>>().join(" ");
        let mark = if m.stability == Stability::Experimental { " (experimental)" } else { "" };
        let _ = writeln!(
            out,
            "| `{}`{mark} | {} | {} | {labels} | {} | {} |",
            m.name,
            m.kind.as_str(),
            m.unit.as_str(),
            m.help,
            m.from
        );
    }
    label_values(&mut out);
    needs(&mut out);
    let _ = write!(
        out,
        "\n## Readings\n\nWhat is read, and where: the values of the label `reading`, and the keys of `readings` in `/api/v1/status`.\n\
         An optional reading may be missing on a healthy machine.\n\n| reading | unit | source | what it is |\n| --- | --- | --- | --- |\n"
    );
    for field in fields::all() {
        let optional = if field.presence == Presence::Optional { " Optional." } else { "" };
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {}{optional} |",
            field.id,
            field.unit.as_str(),
            field.source.as_str(),
            field.doc.trim()
        );
    }
    out
}

/// The closed sets that label values come from.
fn label_values(out: &mut String) {
    macro_rules! sets {
        ($($label:literal: $set:ty,)+) => {
            $( states(out, $label, <$set>::ALL.iter().map(|s| (s.as_str(), s.describe()))); )+
        };
    }
    let _ = write!(out, "\n## Label values\n");
    sets! {
        "segment": Segment,
        "holder": Holder,
        "state of gb10_pool_attribution": Attribution,
        "reader": Reader,
        "window": Window,
        "block": Block,
        "kind of gb10_pool_pinned_bytes": Pinned,
        "state of gb10_gpu_memory_report": MemoryReport,
        "state of gb10_gpu_memory_sharing": Sharing,
        "clock": ClockKind,
        "reason of gb10_gpu_event_reason and gb10_gpu_event_reason_seconds_total": EventReason,
        "via": Via,
        "state of gb10_throttle_state; kind of its counters": ThrottleState,
        "input": Input,
        "change": CapChange,
        "rail of gb10_module_power_watts": Rail,
        "rail of gb10_module_energy_joules_total": EnergyRail,
        "limit": Limit,
        "lane": Lane,
        "source of gb10_source_state": Source,
        "state of gb10_source_state": SourceState,
        "reason of gb10_reading_missing": Missing,
        "signal": Signal,
        "result of gb10_otlp_exports_total": ExportResult,
    }
}

/// What each state of a GPU is judged by.
fn needs(out: &mut String) {
    let _ = write!(
        out,
        "\n## What each throttle state needs\n\nWhile an input is missing, the states that need it cannot be told \
         (`gb10_throttle_unreachable`); the others can.\n\n| state | needs |\n| --- | --- |\n"
    );
    for (state, groups) in NEEDS {
        let one_of = |group: &&[Input]| {
            group.iter().map(|input| input.as_str()).collect::<Vec<_>>().join(" or ")
        };
        let groups: Vec<String> = groups.iter().map(one_of).collect();
        let _ = writeln!(out, "| `{}` | {} |", state.as_str(), groups.join("; "));
    }
}

fn states<'a>(out: &mut String, label: &str, all: impl Iterator<Item = (&'a str, &'a str)>) {
    let _ = write!(out, "\n### {label}\n\n");
    for (name, text) in all {
        let _ = writeln!(out, "- `{name}`: {text}");
    }
}

/// docs/THRESHOLDS.md
#[must_use]
pub fn thresholds() -> String {
    let mut out = format!(
        "{GENERATED}# Thresholds\n\nEvery number that decides anything, from the table in `src/thresholds.rs`.\n\n\
         | threshold | default | range | what it decides | why this number |\n| --- | --- | --- | --- | --- |\n"
    );
    for row in Thresholds::ROWS.iter().map(|row| row()) {
        let range = format!("{} to {}", amount(row.unit, row.min), amount(row.unit, row.max));
        let _ = writeln!(
            out,
            "| `{}` | {} | {range} | {} | {} |",
            row.name,
            amount(row.unit, row.default),
            row.doc.trim(),
            row.provenance
        );
    }
    out
}

/// docs/CLI.md
#[must_use]
pub fn cli(command: &Command) -> String {
    let mut command = command.clone().term_width(100);
    command.build();
    let mut out = format!("{GENERATED}# Command line\n");
    let mut pages = Vec::new();
    with_subcommands(&command, &mut pages);
    for mut page in pages {
        let _ = write!(
            out,
            "\n## {}\n\n```text\n{}```\n",
            page.get_bin_name().unwrap_or(page.get_name()).to_owned(),
            page.render_long_help()
        );
    }
    out
}

/// deploy/gb10-exporter.yml: every setting with its default, commented out, and what it is for.
#[must_use]
pub fn example_config() -> String {
    let mut out = String::from(
        "# Settings of gb10-exporter: --config.file=/etc/gb10-exporter.yml\n#\n\
         # Every line is commented out and shows the default, or an example. Flags and environment win over this\n\
         # file. `gb10-exporter config check FILE` tells mistakes; `systemctl reload gb10-exporter` reads the\n\
         # file again. Generated from the tables in src/ by `make docs`.\n",
    );
    let defaults = Config::default();
    let mut section = "";
    for row in rows() {
        let (head, name) = row.key.split_once('.').unwrap_or(("", row.key));
        if head.is_empty() {
            out.push('\n');
        } else if head != section {
            let _ = write!(out, "\n# {head}:\n");
        }
        section = head;
        let restart = if row.reloads { "" } else { " Needs a restart." };
        comment(&mut out, &format!("{}.{restart}", row.help.trim_end_matches('.')));
        let values = (row.show)(&defaults);
        let values = if values.is_empty() { row.example.to_owned() } else { values.join("', '") };
        let value = if row.many { format!("['{values}']") } else { values };
        let indent = if head.is_empty() { "" } else { "  " };
        let _ = writeln!(out, "# {indent}{name}: {value}");
    }
    // The last row is the collector that is no plain switch; the others go on from it.
    debug_assert_eq!(section, "collector");
    comment(
        &mut out,
        "What is read. A source that is switched off is absent, with the reason disabled.",
    );
    for source in switched() {
        let _ = writeln!(
            out,
            "#   {}: true{:>w$} {}",
            source.as_str(),
            "#",
            source.describe(),
            w = 16 - source.as_str().len()
        );
    }
    let _ = write!(out, "\n# thresholds:\n");
    for row in Thresholds::ROWS.iter().map(|row| row()) {
        comment(&mut out, row.doc);
        let _ = writeln!(out, "#   {}: {}", row.name, amount(row.unit, row.default));
    }
    out
}

/// A remark of the example, wrapped.
fn comment(out: &mut String, text: &str) {
    const WIDTH: usize = 92;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(out, "#   # {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "#   # {line}");
}

/// A command and all below it, in the order of the help.
fn with_subcommands(command: &Command, out: &mut Vec<Command>) {
    out.push(command.clone());
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        with_subcommands(below, out);
    }
}

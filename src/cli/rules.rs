//! `rules`: the alert rules for the thresholds in force.

use super::{print, settings};
use crate::catalog::links;
use crate::config::table::{THRESHOLD, label_name};
use crate::config::{Config, Origin};
use crate::rules::{Format, Group, Options, render};
use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// The form of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A rule file: Prometheus, Mimir, Thanos, VictoriaMetrics
    Prometheus,
    /// A PrometheusRule of the Prometheus operator
    Kubernetes,
}

/// Groups that need series which not everybody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Extra {
    /// vLLM's own metrics are scraped, too
    Vllm,
    /// A blackbox exporter pings the boxes; its job is called after ping or icmp
    Ping,
    /// Several boxes of one kind
    Fleet,
}

#[derive(Debug, Args)]
pub(super) struct RulesArgs {
    /// The job under which Prometheus scrapes the exporters. Given, every expression selects it; else only
    /// those that ask whether an exporter answers do, with job gb10.
    #[arg(long, value_name = "JOB", value_parser = plain)]
    job: Option<String>,
    /// A label that every alert gets; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Where the runbooks can be read; the alert's name and .md are put behind it.
    #[arg(long, value_name = "URL", default_value = links::RUNBOOK_BASE, value_parser = plain)]
    runbook_base: String,
    /// Where Grafana is, for links to panels.
    #[arg(long, value_name = "URL", default_value = links::GRAFANA_BASE, value_parser = plain)]
    dashboard_base: String,
    /// A threshold that differs; may be given several times.
    #[arg(long, value_name = "THRESHOLD=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Take the thresholds of this configuration file; nothing else in it matters here.
    #[arg(long = "config.file", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Groups to write as well; may be given several times.
    #[arg(long, value_name = "GROUP")]
    with: Vec<Extra>,
    /// Write these groups only, without the usual ones.
    #[arg(long, requires = "with")]
    only: bool,
    /// Form of the file.
    #[arg(long, value_name = "FORM", default_value = "prometheus")]
    format: Form,
    /// Multiply every duration, for trying the rules on a replay at high speed.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    scale_durations: f64,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text)?;
    label_name(&name)?;
    if ["alertname", "severity", "instance", "job"].contains(&name.as_str()) {
        return Err(format!("{name} is set by the rule or by Prometheus"));
    }
    Ok((name, plain(&value)?))
}

/// Text that goes into expressions and templates as it is.
fn plain(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['"', '\\', '{', '}', '\n']) {
        Err("expected text without quotation marks, backslashes and braces".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected a number, found {text:?}"))?;
    if (0.001..=1000.0).contains(&number) {
        Ok(number)
    } else {
        Err("expected 0.001 to 1000".to_owned())
    }
}

pub(super) fn run(args: &RulesArgs) -> anyhow::Result<ExitCode> {
    let mut config = Config::default();
    config.thresholds = settings::thresholds(args.config.as_deref())?;
    for (name, value) in &args.set {
        config
            .set(&format!("{THRESHOLD}{name}"), std::slice::from_ref(value), Origin::Flag)
            .map_err(|what| anyhow!("--set {name}: {what}"))?;
    }
    if let Err(wrong) = config.contradictions() {
        bail!("{}: {}", wrong.keys[0], wrong.what);
    }
    let options = Options {
        thresholds: config.thresholds,
        job: args.job.clone().unwrap_or_else(|| links::JOB.to_owned()),
        every_selector: args.job.is_some(),
        labels: args.label.clone(),
        runbook_base: args.runbook_base.clone(),
        dashboard_base: args.dashboard_base.clone(),
        scale: args.scale_durations,
    };
    let wanted = |group: Group| match group {
        Group::Vllm => args.with.contains(&Extra::Vllm),
        Group::Ping => args.with.contains(&Extra::Ping),
        Group::Fleet => args.with.contains(&Extra::Fleet),
        _ => !args.only,
    };
    let groups: Vec<Group> = Group::ALL.iter().copied().filter(|group| wanted(*group)).collect();
    let format = match args.format {
        Form::Prometheus => Format::Prometheus,
        Form::Kubernetes => Format::Kubernetes,
    };
    let text = render(&groups, &options, format).context("cannot write the rules as YAML")?;
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

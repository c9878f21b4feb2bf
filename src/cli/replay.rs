//! `replay`: a scenario instead of a machine.

use super::{VERSION, print, settings};
use crate::alertmanager;
use crate::capture::scenario::Scenario;
use crate::catalog::verdicts;
use crate::config::{Config, Origin, table};
use crate::engine::Engine;
use crate::engine::player::Player;
use crate::export::series::{self, Series};
use crate::export::status::Status;
use crate::export::{prometheus, terminal};
use crate::model::frame::Frame;
use crate::server;
use crate::sources::identity::Identity;
use crate::thresholds::Thresholds;
use crate::units::Unit;
use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The labels that a scrape of a replay has in rule tests.
const SCRAPED: [(&str, &str); 2] = [("instance", "replay"), ("job", crate::catalog::links::JOB)];

/// More than a rule test can take, and some hundred MB of memory.
const MAX_SAMPLES: usize = 20_000_000;

/// What is written of many frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// `input_series` for `promtool test rules`
    Promtool,
    /// OpenMetrics with timestamps, for `promtool tsdb create-blocks-from openmetrics`
    Openmetrics,
    /// Every reading as a column, in base units
    Csv,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what a command line is made of")]
pub(super) struct ReplayArgs {
    /// The scenario (docs/SCENARIOS.md).
    scenario: PathBuf,
    /// Print one JSON line for each change of a verdict: time, verdict, state, evidence (the default).
    #[arg(long, conflicts_with_all = ["at", "serve", "emit"])]
    timeline: bool,
    /// Show the machine at this time of the scenario, for a person.
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Duration>,
    /// With --at: print the metrics.
    #[arg(long, requires = "at", conflicts_with_all = ["emit", "serve"])]
    metrics: bool,
    /// With --at: print the status document.
    #[arg(long, requires = "at", conflicts_with_all = ["metrics", "emit", "serve"])]
    json: bool,
    /// Serve the scenario as a machine is served, until stopped. OpenTelemetry's variables (`OTEL_EXPORTER_OTLP_ENDPOINT`
    /// and the others) are heeded as by `serve`.
    #[arg(long, conflicts_with_all = ["at", "emit"])]
    serve: bool,
    /// With --serve: seconds of the scenario in one second.
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "serve", value_parser = speed)]
    speed: f64,
    /// With --serve: address to listen on.
    #[arg(long = "web.listen-address", value_name = "HOST:PORT", requires = "serve")]
    listen: Option<String>,
    /// With --serve: tell this Alertmanager of critical alerts, as `serve` does.
    #[arg(long = "alertmanager.url", value_name = "URL", requires = "serve")]
    alertmanagers: Vec<String>,
    /// With --alertmanager.url: a label of those alerts.
    #[arg(long = "alertmanager.label", value_name = "NAME=VALUE", requires = "alertmanagers")]
    alert_labels: Vec<String>,
    /// Judge by the thresholds of this configuration file; nothing else in it matters here.
    #[arg(long = "config.file", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write every scrape of the scenario in this form.
    #[arg(long, value_name = "FORM", conflicts_with = "at")]
    emit: Option<Emit>,
    /// With --emit: distance of the scrapes.
    #[arg(long, value_name = "TIME", default_value = "15s", requires = "emit", value_parser = interval)]
    scrape_interval: Duration,
    /// With --emit: time of the first scrape.
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "emit", value_parser = time)]
    phase: Duration,
}

fn time(text: &str) -> Result<Duration, String> {
    let seconds = Unit::Seconds.parse(text, "")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("expected a time, found {text:?}"))
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.as_secs() >= 1 && time.subsec_nanos() == 0 {
        Ok(time)
    } else {
        Err("expected whole seconds, at least one".to_owned())
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected a number, found {text:?}"))?;
    if (0.01..=10_000.0).contains(&number) {
        Ok(number)
    } else {
        Err("expected 0.01 to 10000".to_owned())
    }
}

pub(super) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(&args.scenario)?;
    let path = args.scenario.display();
    for expected in &scenario.expectations {
        verdicts::check(&expected.verdict, &expected.state)
            .map_err(|what| anyhow!("{path}:{}: {what}", expected.line))?;
    }
    let length = scenario.length;
    let thresholds = settings::thresholds(args.config.as_deref())?;
    let player = Player::new(scenario, thresholds, VERSION);
    if args.serve {
        return serve(args, player);
    }
    if let Some(at) = args.at {
        if at > length {
            bail!("{path} ends at {} s, before {} s", length.as_secs_f64(), at.as_secs_f64());
        }
        let last = player.take_while(|(time, _)| *time <= at).last();
        let Some((_, Some(frame))) = last else {
            bail!("{path}: the machine is down at {} s", at.as_secs_f64());
        };
        return show(args, &frame);
    }
    match args.emit {
        Some(emit) => write(args, emit, player),
        None => timeline(player),
    }
}

fn show(args: &ReplayArgs, frame: &Frame) -> anyhow::Result<ExitCode> {
    let status = Status::of(frame);
    let bytes = if args.metrics {
        prometheus::encode(frame, None)
    } else if args.json {
        status.to_json()
    } else {
        terminal::render(&status, false).into_bytes()
    };
    print(&bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// One line for each change of a verdict. The first frame's are all changes.
fn timeline(player: Player) -> anyhow::Result<ExitCode> {
    let mut known: BTreeMap<String, &'static str> = BTreeMap::new();
    for (time, frame) in player {
        let mut lines = String::new();
        let Some(frame) = frame else {
            // After a reboot everything is said anew.
            known.clear();
            continue;
        };
        for (verdict, state, evidence) in verdicts::of(&frame) {
            if known.get(&verdict) == Some(&state) {
                continue;
            }
            let line = serde_json::json!({
                "t": time.as_secs_f64(), "verdict": verdict, "state": state, "evidence": evidence,
            });
            lines.push_str(&line.to_string());
            lines.push('\n');
            known.insert(verdict, state);
        }
        print(lines.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(args: &ReplayArgs, emit: Emit, player: Player) -> anyhow::Result<ExitCode> {
    let (start, length) = (player.scenario().start, player.scenario().length);
    if args.phase > length {
        bail!("--phase is after the scenario's end, {} s", length.as_secs_f64());
    }
    let more: &[(&str, &str)] = if emit == Emit::Promtool { &SCRAPED } else { &[] };
    let columns = if emit == Emit::Csv { every_column(args)? } else { Vec::new() };
    let (mut due, mut all, mut up) = (args.phase, Series::default(), Vec::new());
    if emit == Emit::Csv {
        print(series::csv_header(&columns).as_bytes())?;
    }
    for (time, frame) in player {
        if time < due {
            continue;
        }
        due += args.scrape_interval;
        up.push(Some(if frame.is_some() { 1.0 } else { 0.0 }));
        match (emit, &frame) {
            (Emit::Csv, frame) => {
                print(series::csv_row(time, frame.as_ref(), &columns).as_bytes())?;
            }
            (_, Some(frame)) => all.scrape(frame, more),
            (_, None) => all.silence(start + time),
        }
        if all.size() > MAX_SAMPLES {
            bail!("more than {MAX_SAMPLES} samples; choose a longer --scrape-interval");
        }
    }
    match emit {
        Emit::Promtool => print(all.promtool(args.scrape_interval, &SCRAPED, &up).as_bytes())?,
        Emit::Openmetrics => print(all.openmetrics().as_bytes())?,
        Emit::Csv => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Every reading that the scenario ever has.
fn every_column(args: &ReplayArgs) -> anyhow::Result<Vec<String>> {
    let mut all = std::collections::BTreeSet::new();
    let player = Player::new(Scenario::load(&args.scenario)?, Thresholds::default(), VERSION);
    for (_, frame) in player {
        all.extend(frame.iter().flat_map(series::columns));
    }
    Ok(all.into_iter().collect())
}

fn serve(args: &ReplayArgs, player: Player) -> anyhow::Result<ExitCode> {
    let mut config = Config::default();
    let listen = args.listen.iter().cloned().collect();
    for (key, values) in [
        ("web.listen_address", &listen),
        ("alertmanager.url", &args.alertmanagers),
        ("alertmanager.label", &args.alert_labels),
    ] {
        if !values.is_empty() {
            let flag = key.replace('_', "-");
            config.set(key, values, Origin::Flag).map_err(|what| anyhow!("--{flag}: {what}"))?;
        }
    }
    settings::take_standard(&mut config, table::rows())?.judge(&config)?;
    config.contradictions().map_err(|c| anyhow!("{}: {}", c.keys[0], c.what))?;
    super::log::to_stderr(&config);
    let listeners = server::bind(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the web server's runtime")?;
    let title = player.scenario().title.clone();
    let engine = Arc::new(Engine::replay(player, args.speed)?);
    engine.wait_for_frames(1, Duration::from_secs(2));
    tracing::warn!("this is a replay, no machine is read: {title}");
    for listener in &listeners {
        tracing::info!("listening on http://{}{}", listener.local_addr()?, config.telemetry_path);
    }
    let otlp = super::push::start(&config, &engine, &Identity::default())?;
    let alertmanagers = alertmanager::start(&config, &engine).context("cannot start a thread")?;
    runtime.block_on(async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        };
        server::serve(listeners, Arc::clone(&engine), &config, stop).await
    })?;
    super::push::finish(otlp);
    drop(alertmanagers);
    engine.stop();
    Ok(ExitCode::SUCCESS)
}

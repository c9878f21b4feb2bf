//! `correlate`: a training log beside samples of its box. When was the run slow, how much, and what did the
//! box do then?

mod place;
mod told;

use super::history::{self, History};
use super::{print, settings};
use crate::client::range::Span;
use crate::clock::{Clock as _, System};
use crate::derive::{compare, run};
use crate::model::samples::{SamplePoint, SampleSeries};
use crate::model::training::{Faster, LogFormat, LogRemark, Stretch, TrainLog};
use crate::sources::samples::{self, SampleOptions};
use crate::sources::train::{self, FieldNames, Hints, Pattern};
use crate::thresholds::Thresholds;
use crate::units::{Seconds, Unit};
use anyhow::{Context, anyhow, bail};
use clap::{ArgAction, Args};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use told::{Clock, Told};

/// A log of a run of weeks has some hundred MiB.
const MAX_LOG: u64 = 1024 * 1024 * 1024;
/// How much is asked of a Prometheus before and after the run.
const MARGIN: Duration = Duration::from_secs(60);
/// A busy GPU for so many samples in a row is the run's beginning.
const BUSY_SAMPLES: usize = 3;

#[derive(Debug, Args)]
pub(super) struct CorrelateArgs {
    /// The training log: Hugging Face Trainer, TRL, Unsloth, Axolotl, torchtune, NeMo, Megatron, llama.cpp,
    /// JSON lines, any progress bar; - is standard input.
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Samples: what `sample` writes, or nvidia-smi --format=csv with a timestamp and any other fields.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "prometheus",
        conflicts_with = "prometheus"
    )]
    samples: Option<PathBuf>,
    /// A Prometheus that scraped this exporter, in place of samples: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// With --prometheus: a label that tells the machine from others, such as instance=spark:10058.
    #[arg(long, value_name = "NAME=VALUE", requires = "prometheus", value_parser = label)]
    label: Vec<(String, String)>,
    /// Which GPU, by the driver's index.
    #[arg(long, value_name = "INDEX")]
    gpu: Option<u32>,
    /// What to add to the log's times so that they are those of the samples: 90s, -1h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = offset)]
    offset: Option<f64>,
    /// When the run began, for logs without time stamps: 2026/11/24 14:08:55, or with T and a zone.
    #[arg(long, value_name = "TIME")]
    log_start: Option<String>,
    /// When the run ended, for logs that tell tokens per second and no time.
    #[arg(long, value_name = "TIME")]
    log_end: Option<String>,
    /// The time zone of times without one, as in Europe/Berlin or CET-1 (default: this machine's).
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// The log's format, where it is not to be found out.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<LogFormat>,
    /// Finds steps in any log: a regular expression with named groups step, seconds, ms, rate, elapsed, time,
    /// tokens.
    #[arg(long, value_name = "REGEX")]
    step_pattern: Option<String>,
    /// In JSON lines: the field of the step's number.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    step_field: Vec<String>,
    /// In JSON lines: the field of the time that a step took; names that end in _ms are milliseconds.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    seconds_field: Vec<String>,
    /// In JSON lines: the field of the time stamp.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    time_field: Vec<String>,
    /// Judge by the thresholds of this configuration file.
    #[arg(long = "config.file", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write a picture, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the curves with plain characters.
    #[arg(long, conflicts_with = "json")]
    ascii: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| format!("expected NAME=VALUE, found {text:?}"))
}

fn offset(text: &str) -> Result<f64, String> {
    Unit::Seconds.parse(text, "")
}

fn format(text: &str) -> Result<LogFormat, String> {
    let known = LogFormat::ALL.iter().find(|format| format.as_str() == text);
    known.copied().ok_or_else(|| {
        let all: Vec<_> = LogFormat::ALL.iter().map(|format| format.as_str()).collect();
        format!("expected one of {}, found {text:?}", all.join(", "))
    })
}

pub(super) fn run(args: &CorrelateArgs) -> anyhow::Result<ExitCode> {
    let thresholds = settings::thresholds(args.config.as_deref())?;
    let zone = args.zone()?;
    let (mut log, written) = args.read_log(&zone)?;
    let name = args.log.display();
    // What tells no time at all is given one by the samples.
    let mut laid = None;
    if args.log_end.is_some() && !place::rates_only(&log.steps) {
        bail!("--log-end is for logs that tell tokens per second and no time; {name} tells more");
    }
    if place::rates_only(&log.steps) {
        let series = args.read_samples(&zone, None)?;
        let ends = args.ends(&zone, written, &series).with_context(|| format!("{name}"))?;
        laid = Some((series, ends.lay(&mut log.steps), ends.remark()));
    }
    let (pace, step_times) = follow(&log, &thresholds);
    let Some((begins, ends)) = pace.span() else {
        bail!("{name}: its {} steps tell no time between them", log.steps.len());
    };
    let assumed = (&zone, args.zone.is_some());
    let mut remarks: Vec<String> = log.remarks.iter().map(|one| remark(one, assumed)).collect();
    let (series, clock) = if let Some((series, clock, remark)) = laid {
        remarks.push(remark);
        (series, clock)
    } else {
        let stamped = log.steps.iter().any(|step| step.wall.is_some());
        let series = args.read_samples(&zone, stamped.then_some((begins, ends)))?;
        let clock = args.clock(&zone, stamped, ends, written, &series)?;
        (series, clock)
    };
    remarks.extend(series.remarks.iter().map(ToString::to_string));
    let span = (clock.wall(begins), clock.wall(ends));
    remarks.extend(place::doubt(&series.points, span));
    let steady = pace.steady().map(|(from, to)| (clock.wall(from), clock.wall(to)));
    let told = Told {
        format: log.format,
        remarks,
        steps: log.steps.len(),
        span,
        pace: pace.pace(&thresholds),
        steady,
        explained: compare::explain(
            &series.points,
            &stretches(&pace, &clock, &thresholds),
            steady.unwrap_or_default(),
            &thresholds,
        ),
        short: pace.short_spells(&thresholds),
        short_of: thresholds.run_slow_for,
        faster: pace.faster().map(|f| Faster { from: clock.wall(f.from), ..f }),
        step_times: step_times.iter().map(|(at, s)| (clock.wall(*at), *s)).collect(),
        series,
        clock,
        zone,
    };
    told.must_overlap().with_context(|| format!("{name}"))?;
    args.print(&told)
}

impl CorrelateArgs {
    fn print(&self, told: &Told) -> anyhow::Result<ExitCode> {
        if let Some(path) = &self.svg {
            write_new(path, told.svg().as_bytes())?;
        }
        if self.json {
            print(&told.json())?;
        } else {
            let colourless = self.ascii || !io::stdout().is_terminal() && ascii_only();
            print(told.text(colourless).as_bytes())?;
        }
        Ok(match (told.pace.baseline, told.healthy()) {
            // Nobody may take that for healthy.
            (Err(_), _) => ExitCode::from(super::FAILED),
            (Ok(_), true) => ExitCode::SUCCESS,
            (Ok(_), false) => ExitCode::FAILURE,
        })
    }
}

/// The run as its steps tell it, and each step's time.
fn follow(log: &TrainLog, t: &Thresholds) -> (run::State, Vec<(Duration, Seconds)>) {
    let (mut pace, mut steps) = (run::State::default(), Vec::new());
    for step in &log.steps {
        pace.take(step, t);
        // The run's state keeps the latest ones only.
        steps.extend(pace.newest().filter(|newest| steps.last() != Some(newest)));
    }
    pace.end(t);
    (pace, steps)
}

/// When the samples show that the GPU becomes busy, and stays so.
fn busy_onset(series: &SampleSeries) -> Option<Duration> {
    let busy = |point: &SamplePoint| point.utilization.is_ok_and(|share| share.0 >= place::BUSY);
    let onset = series.points.windows(BUSY_SAMPLES).find(|some| some.iter().all(busy));
    onset.map(|some| some[0].wall)
}

/// Whether what reads us may know no more than ASCII.
fn ascii_only() -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    named
        .into_iter()
        .find(|value| !value.is_empty())
        .is_some_and(|value| value == "C" || value == "POSIX")
}

fn stretches(pace: &run::State, clock: &Clock, t: &Thresholds) -> Vec<Stretch> {
    let wall = |s: Stretch| Stretch { from: clock.wall(s.from), to: clock.wall(s.to), ..s };
    pace.stretches(t).into_iter().map(wall).collect()
}

fn remark(remark: &LogRemark, (zone, given): (&TimeZone, bool)) -> String {
    match remark {
        LogRemark::NoTimeStamps => "the log has no time stamps".to_owned(),
        LogRemark::ZoneAssumed => {
            let name = zone.iana_name().map(|name| format!(", {name}")).unwrap_or_default();
            let local = if given { "those of --zone" } else { "local" };
            format!("the log's times without a zone were taken as {local}{name}")
        }
        LogRemark::YearAssumed => "the log's times have no year; the file's was taken".to_owned(),
        LogRemark::Resumed(line) => format!("a run begins anew at line {line} of the log"),
        LogRemark::Ranks(count) => {
            format!("{count} processes report; the steps are those of the first one")
        }
        LogRemark::SmoothedOnly => {
            "the log tells running means of the step time only: changes show late".to_owned()
        }
        LogRemark::DoubledHour => {
            "some of the log's times lie in an hour that comes twice, and were told apart by their order"
                .to_owned()
        }
        LogRemark::Interleaved(line) => format!(
            "two runs write into the log from line {line} on (their step numbers alternate); the steps are those of the first one: give each run a log of its own"
        ),
        LogRemark::LeftOut(lines) => format!("{lines} lines too long or no text were left out"),
    }
}

/// In one step, and never over what is there.
fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let refused = || format!("{} cannot be written", path.display());
    let mut file = File::create_new(path).with_context(refused)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).with_context(refused)
}

impl CorrelateArgs {
    fn zone(&self) -> anyhow::Result<TimeZone> {
        match &self.zone {
            None => Ok(TimeZone::try_system().unwrap_or(TimeZone::UTC)),
            Some(name) => TimeZone::get(name)
                .or_else(|_| TimeZone::posix(name))
                .map_err(|error| anyhow!("--zone {name}: {error}")),
        }
    }

    /// The log, and when its file was written last.
    fn read_log(&self, zone: &TimeZone) -> anyhow::Result<(TrainLog, Option<Duration>)> {
        let name = self.log.display();
        let mut bytes = Vec::new();
        let mut written = None;
        if self.log.as_os_str() == "-" {
            io::stdin().lock().take(MAX_LOG).read_to_end(&mut bytes).context("standard input")?;
        } else {
            let failed = || format!("{name} cannot be read");
            let file = File::open(&self.log).with_context(failed)?;
            let facts = file.metadata().with_context(failed)?;
            if facts.len() > MAX_LOG {
                bail!("{name} is larger than 1 GiB; cut out the hours that matter");
            }
            let modified = facts.modified().ok();
            written = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            file.take(MAX_LOG).read_to_end(&mut bytes).with_context(failed)?;
        }
        let at = written.and_then(|at| Timestamp::UNIX_EPOCH.checked_add(at).ok());
        let now = Timestamp::UNIX_EPOCH.checked_add(System.now().wall).ok();
        let year = at.or(now).map_or(1970, |at| zone.to_datetime(at).year());
        let hints = self.hints(zone, year).map_err(|error| anyhow!("--step-pattern: {error}"))?;
        let log = train::parse(&bytes, hints).map_err(|error| match error.line() {
            Some(line) => anyhow!("{name}:{line}: {error}"),
            None => anyhow!("{name}: {error}"),
        })?;
        Ok((log, written))
    }

    fn hints(&self, zone: &TimeZone, year: i16) -> Result<Hints, train::LogError> {
        let mut hints = Hints::new(zone.clone(), year);
        hints.format = self.format;
        hints.pattern = self.step_pattern.as_deref().map(Pattern::new).transpose()?;
        let or = |given: &[String], usual: Vec<String>| {
            if given.is_empty() { usual } else { given.to_vec() }
        };
        let usual = FieldNames::default();
        hints.fields = FieldNames {
            step: or(&self.step_field, usual.step),
            seconds: or(&self.seconds_field, usual.seconds),
            time: or(&self.time_field, usual.time),
            tokens: usual.tokens,
        };
        Ok(hints)
    }

    fn read_samples(
        &self,
        zone: &TimeZone,
        run: Option<(Duration, Duration)>,
    ) -> anyhow::Result<SampleSeries> {
        if let Some(path) = &self.samples {
            let options = SampleOptions { zone: zone.clone(), gpu: self.gpu };
            return Ok(samples::load(path, &options)?);
        }
        let base = self.prometheus.as_deref().unwrap_or_default();
        let Some((begins, ends)) = run else {
            bail!("--prometheus needs a log with time stamps: which hours to ask for is not known");
        };
        let shift = |at: Duration| moved(at, self.offset.unwrap_or(0.0));
        let span = Span {
            start: shift(begins).saturating_sub(MARGIN),
            end: shift(ends) + MARGIN,
            step: Duration::from_secs(15),
        };
        let labels = &self.label;
        Ok(history::fetch(&History { base, labels, gpu: self.gpu, span })?)
    }

    /// When a run whose log tells no time began and ended.
    fn ends(
        &self,
        zone: &TimeZone,
        written: Option<Duration>,
        series: &SampleSeries,
    ) -> anyhow::Result<place::Ends> {
        if self.offset.is_some() {
            bail!("--offset moves time stamps, and this log has none: say --log-start TIME");
        }
        let said = |text: &Option<String>, flag| {
            text.as_ref().map(|text| time(text, zone, flag)).transpose()
        };
        let said = (said(&self.log_start, "--log-start")?, said(&self.log_end, "--log-end")?);
        place::ends(said, (&self.log, written), series)
    }

    /// How the log's times become those of the samples.
    fn clock(
        &self,
        zone: &TimeZone,
        stamped: bool,
        ends: Duration,
        written: Option<Duration>,
        series: &SampleSeries,
    ) -> anyhow::Result<Clock> {
        let offset = self.offset.unwrap_or(0.0);
        if stamped {
            return Ok(if self.offset.is_some() { Clock::Given(offset) } else { Clock::Stamps });
        }
        if let Some(text) = &self.log_start {
            return Ok(Clock::Given(time(text, zone, "--log-start")?.as_secs_f64() + offset));
        }
        if self.offset.is_some() {
            bail!("--offset moves time stamps, and this log has none: say --log-start TIME");
        }
        let within = |at: Duration| {
            let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
                return false;
            };
            first.wall <= at && at <= last.wall + MARGIN
        };
        // A file that was written last while samples were taken was not copied since, most likely.
        if let Some(at) = written.filter(|at| within(*at)) {
            return Ok(Clock::Written(at.as_secs_f64() - ends.as_secs_f64()));
        }
        let onset = busy_onset(series).context(
            "when the run began is not to be told: the log has no time stamps, its file was not written while \
             samples were taken, and the samples show no busy GPU; say --log-start TIME",
        )?;
        Ok(Clock::Busy(onset.as_secs_f64()))
    }
}

/// A time as a person writes it.
fn time(text: &str, zone: &TimeZone, flag: &str) -> anyhow::Result<Duration> {
    let since = |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).ok();
    if let Some(at) = text.parse::<Timestamp>().ok().and_then(since) {
        return Ok(at);
    }
    let civil: Option<DateTime> = text.replace('/', "-").parse().ok();
    let at = civil.and_then(|civil| zone.to_timestamp(civil).ok()).and_then(since);
    at.with_context(|| {
        format!("{flag}: expected a time such as 2026/11/24 14:08:55, found {text:?}")
    })
}

/// A time, moved; never before 1970.
fn moved(at: Duration, by: f64) -> Duration {
    Duration::try_from_secs_f64(at.as_secs_f64() + by).unwrap_or(Duration::ZERO)
}

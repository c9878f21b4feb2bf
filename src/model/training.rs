//! What a training log tells: steps, and when.

use super::contention::ContentionState;
use super::fields::{Field, Presence, put};
use super::reading::{Missing, Quantity, Reading};
use super::source::Source;
use super::throttle::ThrottleState;
use crate::units::{Bytes, Celsius, Hertz, Ratio, Seconds, Unit, Watts};
use std::sync::Arc;
use std::time::Duration;

states! {
    /// A log's format, by who writes it.
    LogFormat {
        /// Hugging Face Trainer and what is built on it (TRL, Unsloth, Axolotl, LLaMA-Factory): dictionaries
        /// between progress bars.
        HuggingFace = "hugging_face",
        /// The Trainer's own state file, trainer_state.json.
        TrainerState = "trainer_state",
        /// torchtune: a metrics file of `Step N | name:value`, or its progress bars.
        Torchtune = "torchtune",
        /// NeMo and Megatron: one line an iteration, with its time.
        Megatron = "megatron",
        /// llama.cpp: timings of prompts and tokens.
        LlamaCpp = "llama_cpp",
        /// One JSON object a line.
        JsonLines = "jsonl",
        /// Progress bars alone.
        ProgressBar = "progress_bar",
        /// Lines that a pattern of the user's finds.
        Pattern = "pattern",
    }
}

/// One report of progress: of one step, or of several since the report before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// The line of the log, from 1.
    pub line: u64,
    /// When, since 1970, where the log has time stamps.
    pub wall: Option<Duration>,
    /// Since the run began, where a progress bar tells it (whole seconds, as a rule).
    pub elapsed: Option<Duration>,
    /// The step's number.
    pub number: Option<u64>,
    /// Of how many steps.
    pub of: Option<u64>,
    /// How long one step took, where the log has measured it.
    pub seconds: Option<Seconds>,
    /// The same as a running mean, which follows a change late. Good only where there is nothing else.
    pub smoothed: Option<Seconds>,
    /// Tokens in a second.
    pub tokens_per_second: Option<f64>,
    /// What the report covers, where it says so itself: a server's tokens. Otherwise the numbers tell.
    pub count: Option<u64>,
    /// Which of several processes reports.
    pub rank: Option<u32>,
}

/// A log that is followed, as it was last read.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// The run's name: that of the file.
    pub run: String,
    /// Whether it could be read; if not, nothing below is told, and the reason says why.
    pub state: Reading<()>,
    /// What it is; pending until a line has told.
    pub format: Reading<LogFormat>,
    /// Another one for each file that has taken the place, truncations included: another run.
    pub file: u64,
    /// Reports of this file so far.
    pub taken: u64,
    /// The latest of them, in their order. Those who look once a second miss none.
    pub latest: Arc<Vec<Step>>,
    /// Whether it is read up to its end: what comes then happens now.
    pub caught_up: bool,
    /// What was left out: what was too far behind, and lines that were too long.
    pub left_out: Bytes,
    /// When the file was written last, since 1970.
    pub written: Option<Duration>,
    /// Two runs write into it.
    pub interleaved: bool,
    /// How long its last step took, where it tells that itself.
    pub step_seconds: Reading<Seconds>,
}

impl Followed {
    /// One of which nothing is read yet.
    #[must_use]
    pub fn new(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            state: Ok(()),
            format: Err(Missing::Pending),
            file: 0,
            taken: 0,
            latest: Arc::default(),
            caught_up: false,
            left_out: Bytes(0),
            written: None,
            interleaved: false,
            step_seconds: Err(Missing::Pending),
        }
    }
}

/// Rows of the field table for training runs.
pub const FAMILIES: &[Field] = &[Field {
    id: "training.step_seconds",
    unit: Unit::Seconds,
    presence: Presence::Optional,
    source: Source::Training,
    doc: " How long the last step of a training run took, where its log tells that itself (--train-log); in a scenario, how long its steps take.",
    visit: |snapshot, out| match &snapshot.training {
        Ok(logs) => logs.iter().for_each(|log| {
            let told = log.state.and(log.step_seconds.as_ref().map_err(|m| *m));
            out(&log.run, told.map(Quantity::value));
        }),
        Err(reason) => out("", Err(*reason)),
    },
    set: |snapshot, key, value| match (key.is_empty(), value) {
        (true, Err(reason)) => {
            snapshot.training = Err(reason);
            true
        }
        (true, Ok(_)) => false,
        // A run begins with what is said of it.
        (false, value) => {
            let mut logs = std::mem::replace(&mut snapshot.training, Err(Missing::NotPresent))
                .unwrap_or_default();
            let at = logs.iter().position(|log| log.run == key).unwrap_or_else(|| {
                logs.push(Followed::new(key));
                logs.len() - 1
            });
            let can = put(&mut logs[at].step_seconds, value);
            snapshot.training = Ok(logs);
            can
        }
    },
}];

/// The logs that are followed. Not present when there are none.
pub type Training = Reading<Vec<Followed>>;

/// How a run that is followed goes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingRun {
    /// Its name.
    pub run: String,
    /// What its log is.
    pub format: Reading<LogFormat>,
    /// Its last step.
    pub number: Option<u64>,
    /// Its pace; stale when it has not reported for much longer than a step takes.
    pub pace: Pace,
    /// How long ago its last report came, by the exporter's clock; pending while the log is read up to its
    /// end, and before there was one.
    pub last_step: Reading<Seconds>,
    /// Whether it has not reported for longer than any pause of a run takes. It may have ended, too, unless
    /// its log tells how many steps there are.
    pub stalled: Reading<bool>,
    /// The stretch that goes on, if it is slow.
    pub slow: Option<Stretch>,
    /// What makes it slow, with the evidence; nothing when that is not to be told.
    pub causes: Vec<(SlowCause, String)>,
    /// Slow stretches and stalls so far.
    pub stretches: u64,
    /// Time lost in them.
    pub lost: Seconds,
    /// Another one for each run that has begun.
    pub begun: u64,
    /// Why its pace is not to be told or not to be trusted, in words.
    pub remark: Option<&'static str>,
}

/// Why a log's step times are not as good as they could be; told beside the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRemark {
    /// It has no time stamps: its clock must be estimated.
    NoTimeStamps,
    /// Its time stamps have no zone: this machine's was taken.
    ZoneAssumed,
    /// Its time stamps have no year: that of the file, or of now, was taken.
    YearAssumed,
    /// A run began anew in it, at this line.
    Resumed(u64),
    /// Several processes report; only the first one's steps are used.
    Ranks(u32),
    /// Only running means of the step time are told.
    SmoothedOnly,
    /// Lines that were too long, or no text, were left out: how many.
    LeftOut(u64),
    /// Times without a zone lie in an hour that comes twice: their order tells which of the two.
    DoubledHour,
    /// Two runs write into it, seen from this line on: the steps are those of the first one.
    Interleaved(u64),
}

/// A log, read.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainLog {
    /// What it is.
    pub format: LogFormat,
    /// What it reports, in its order.
    pub steps: Vec<Step>,
    /// What is to be known about it.
    pub remarks: Vec<LogRemark>,
}

/// How a run goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// How long a step takes now.
    pub step: Reading<Seconds>,
    /// How long it took in the run's own first steady minutes; pending until there were some.
    pub baseline: Reading<Seconds>,
    /// Whether it is slow, for long enough to be told.
    pub slow: Reading<bool>,
}

/// Slow spells that were too short to be told one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShortSpells {
    /// How many.
    pub count: u64,
    /// How long they were together.
    pub together: Seconds,
    /// Time lost in them.
    pub lost: Seconds,
    /// Whether that is a share of the run that must be told as slow.
    pub many: bool,
}

impl Default for ShortSpells {
    fn default() -> Self {
        Self { count: 0, together: Seconds(0.0), lost: Seconds(0.0), many: false }
    }
}

/// Steps that were faster later than in the run's own first steady minutes, by as much as slow ones are slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faster {
    /// Since when.
    pub from: Duration,
    /// How many times as fast, at best.
    pub ratio: f64,
}

states! {
    /// What kind of a stretch.
    StretchKind {
        /// Steps took longer.
        Slow = "slow",
        /// One report was awaited for much longer than any pause of a run takes.
        Stall = "stall",
    }
}

/// A stretch in which steps took longer than the run's own pace, or none came. Times are the log's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// What kind.
    pub kind: StretchKind,
    /// Its beginning.
    pub from: Duration,
    /// Its end, so far.
    pub to: Duration,
    /// How long its median step took, as a multiple of the run's pace.
    pub ratio: f64,
    /// Steps in it.
    pub steps: u64,
    /// Time that they took beyond the run's pace.
    pub lost: Seconds,
}

states! {
    /// What made a stretch slow, where the samples show it.
    SlowCause {
        /// Heat: the signature or a thermal reason, and a clock that is lower than before or not told.
        Heat = "heat",
        /// Power was not delivered.
        PowerDelivery = "power_delivery",
        /// The GPU said that it was busy and drew the power of one that waits.
        Stalled = "stalled",
        /// A clock cap was set.
        ClockCap = "clock_cap",
        /// Jobs on the box did not fit together: more was promised than there is, or memory in use was taken away.
        Contention = "contention",
    }
}

/// What the samples show of a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Mean temperature.
    pub temperature: Reading<Celsius>,
    /// Highest temperature.
    pub peak: Reading<Celsius>,
    /// Mean power.
    pub power: Reading<Watts>,
    /// Mean SM clock.
    pub clock: Reading<Hertz>,
    /// Mean utilization.
    pub utilization: Reading<Ratio>,
    /// Lowest available memory.
    pub available: Reading<Bytes>,
    /// Shares of the time in each state of the GPU, by `ThrottleState`; nothing where nothing was sampled.
    pub states: Vec<(ThrottleState, f64)>,
    /// What the most frequent state rested on, last.
    pub evidence: String,
    /// Shares of the time in each state of the jobs; nothing where the samples do not tell it.
    pub jobs: Vec<(ContentionState, f64)>,
}

/// A slow stretch, and what lay beside it. Times are since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The stretch.
    pub stretch: Stretch,
    /// What the samples showed in it.
    pub during: Beside,
    /// What they showed in the run's own steady minutes.
    pub before: Beside,
    /// What made it slow, with the evidence; nothing when that is not to be told.
    pub causes: Vec<(SlowCause, String)>,
}

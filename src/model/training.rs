//! What a training log tells: steps, and when.

use super::reading::Reading;
use super::throttle::ThrottleState;
use crate::units::{Bytes, Celsius, Hertz, Ratio, Seconds, Watts};
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
    /// Which of several processes reports.
    pub rank: Option<u32>,
}

/// A log that is followed, as it was last read.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// The run's name: that of the file.
    pub run: String,
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
}

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
    /// The stretch that goes on, if it is slow.
    pub slow: Option<Stretch>,
    /// Slow stretches so far.
    pub stretches: u64,
    /// Time lost in them.
    pub lost: Seconds,
    /// Another one for each run that has begun.
    pub begun: u64,
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

/// A stretch in which steps took longer than the run's own pace. Times are the log's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
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

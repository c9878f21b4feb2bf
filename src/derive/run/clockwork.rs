//! Turns reports into intervals: how many steps went by between two of them, and how long one took.

use crate::model::training::Step;
use crate::units::Seconds;
use std::time::Duration;

/// Progress bars tell whole seconds: over this time that is 5 %.
const BAR_RESOLUTION: Duration = Duration::from_secs(20);
/// Shorter steps are taken together: a log may tell ten thousand of them in a second, and a minute of them
/// says no more than sixty figures do.
pub(super) const TOGETHER: Duration = Duration::from_secs(1);

/// Steps that went by between two reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub from: Duration,
    pub to: Duration,
    pub steps: u64,
    /// How long one of them took.
    pub seconds: f64,
    /// How many figures it is worth in a median: a server's request is one, however many tokens it has.
    pub figures: u64,
    /// Whether the steps were counted by their numbers. Where they were not, silence is no pause: nobody
    /// may have asked for anything.
    pub counted: bool,
}

impl Interval {
    /// Both as one: a step took what it took on the average.
    #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
    pub(super) fn with(self, next: Self) -> Self {
        let (a, b) = (self.steps as f64, next.steps as f64);
        Self {
            from: self.from,
            to: next.to.max(self.to),
            steps: self.steps.saturating_add(next.steps),
            seconds: (self.seconds * a + next.seconds * b) / (a + b),
            figures: self.figures.saturating_add(next.figures),
            counted: self.counted && next.counted,
        }
    }

    /// Whether it is short enough to be taken together with others.
    pub(super) fn short(&self) -> bool {
        self.to.saturating_sub(self.from) < TOGETHER
    }
}

/// What lies between a report and the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Between {
    pub interval: Interval,
    /// When the report before it came, where the steps' own time does not reach back so far.
    pub idle_from: Option<Duration>,
}

/// What turns reports into intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct Clockwork {
    before: Option<(Duration, Option<u64>)>,
    /// For logs that tell durations and no times.
    sum: Duration,
    /// Progress bars begin at zero again with each epoch, and with each run that is resumed: what had been
    /// reached by then, and the last bar's time.
    base: Duration,
    elapsed: Duration,
}

impl Clockwork {
    /// What lies between this report and the one before it, if it can be told.
    pub(super) fn between(&mut self, step: &Step) -> Option<Between> {
        let told = step.seconds.or_else(|| token_time(step)).map(|Seconds(s)| s);
        let time = step.wall.or_else(|| step.elapsed.map(|elapsed| self.of_bar(elapsed)));
        let Some(at) = time else {
            let interval = self.by_durations(step, told.or(smoothed(step))?)?;
            return Some(Between { interval, idle_from: None });
        };
        let before = self.before.replace((at, step.number));
        let (then, number) = before.unwrap_or((at, None));
        let advanced = match (number, step.number) {
            (Some(then), Some(now)) if now > then => Some(now - then),
            // The same bar, drawn again: nothing has happened yet.
            (Some(then), Some(now)) if now == then => {
                self.before = before;
                return None;
            }
            _ => None,
        };
        let counted = advanced.is_some();
        // A clock that was set back, or another run.
        let passed = at.checked_sub(then).filter(|passed| !passed.is_zero());
        if let Some(seconds) = told {
            let steps = step.count.or(advanced).unwrap_or(1);
            let from = at.saturating_sub(span(seconds, steps)?);
            let figures = advanced.unwrap_or(1);
            let interval = Interval { from, to: at, steps, seconds, figures, counted };
            let idle_from = passed.filter(|_| counted && then < from).map(|_| then);
            return Some(Between { interval, idle_from });
        }
        let (steps, passed) = (advanced?, passed?);
        if step.wall.is_none() && passed < BAR_RESOLUTION {
            self.before = before;
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
        let seconds = passed.as_secs_f64() / steps as f64;
        let interval = Interval { from: then, to: at, steps, seconds, figures: steps, counted };
        Some(Between { interval, idle_from: None })
    }

    /// A bar's time as one that goes on.
    fn of_bar(&mut self, elapsed: Duration) -> Duration {
        if elapsed < self.elapsed {
            self.base += self.elapsed;
        }
        self.elapsed = elapsed;
        self.base + elapsed
    }

    fn by_durations(&mut self, step: &Step, seconds: f64) -> Option<Interval> {
        let number = self.before.and_then(|(_, number)| number);
        let advanced = match (number, step.number) {
            (Some(then), Some(now)) if now > then => Some(now - then),
            (Some(then), Some(now)) if now == then => return None,
            _ => None,
        };
        let figures = advanced.unwrap_or(1);
        let steps = step.count.unwrap_or(figures);
        let from = self.sum;
        self.sum = self.sum.saturating_add(span(seconds, steps)?);
        self.before = Some((self.sum, step.number));
        let counted = advanced.is_some();
        Some(Interval { from, to: self.sum, steps, seconds, figures, counted })
    }
}

/// The time of so many steps; nothing for what cannot be a time.
#[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
pub(super) fn span(seconds: f64, steps: u64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds * steps as f64).ok().filter(|_| seconds > 0.0)
}

fn smoothed(step: &Step) -> Option<f64> {
    step.smoothed.map(|Seconds(s)| s)
}

/// A server's step is a token.
fn token_time(step: &Step) -> Option<Seconds> {
    let rate = step.tokens_per_second.filter(|rate| *rate > 0.0 && rate.is_finite())?;
    step.number.is_none().then(|| Seconds(1.0 / rate))
}

//! Training runs whose logs are followed.

use super::{Label, Samples, flag, metric, rows};
use crate::model::frame::Frame;
use crate::model::reading::Reading;
use crate::model::source::SourceState;
use crate::model::training::TrainingRun;
use crate::units::{Count, Seconds};

/// One sample for each run that has the figure.
fn each<T>(
    f: &Frame,
    out: &mut Samples,
    figure: impl Fn(&TrainingRun) -> Reading<T>,
    value: impl Fn(T) -> f64,
) {
    for run in &f.verdicts.training {
        out.each([Label::Owned(run.run.clone())], figure(run), &value);
    }
}

fn seconds(Seconds(seconds): Seconds) -> f64 {
    seconds
}

rows![
    TRAIN_LOG_STATE = metric!(
        "gb10_train_log_state",
        StateSet,
        None,
        ["run", "state"],
        [Training],
        Stable,
        "training log (--train-log)",
        "How each log that is followed is doing, in the words of gb10_source_state: one that cannot be read is no fault of the others.",
        |f, out| for log in f.snapshot.training.iter().flatten() {
            let now = log.state.map_or_else(SourceState::from, |()| SourceState::Ok);
            for state in SourceState::ALL {
                out.add(
                    [Label::Owned(log.run.clone()), state.as_str().into()],
                    flag(*state == now),
                );
            }
        }
    ),
    TRAIN_LAST_STEP_AGE_SECONDS = metric!(
        "gb10_train_last_step_age_seconds",
        Gauge,
        Seconds,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "How long ago the run's last report came, by the exporter's clock; of one that was there before the exporter started, when the log was written last. Absent until there was one, and while a log is read up to its end. A run that has ended goes on growing older.",
        |f, out| each(f, out, |run| run.last_step, seconds)
    ),
    TRAIN_STALLED = metric!(
        "gb10_train_stalled",
        Gauge,
        None,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "1 while the run has not reported for ten minutes and twenty of its own steps (run.stall_for, run.stall_steps), and for longer than the pauses that it makes at equal distances. It stands still, or has ended without its log telling that. Absent until a report has come while it was watched.",
        |f, out| each(f, out, |run| run.stalled, flag)
    ),
    TRAIN_STEP_SECONDS = metric!(
        "gb10_train_step_seconds",
        Gauge,
        Seconds,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "How long a step of the run takes: the median of the last minute. For servers a step is a token. Absent until some were seen, and when the log has been silent for much longer than a step takes.",
        |f, out| each(f, out, |run| run.pace.step, seconds)
    ),
    TRAIN_STEP_BASELINE_SECONDS = metric!(
        "gb10_train_step_baseline_seconds",
        Gauge,
        Seconds,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "How long a step took in the run's own first steady minutes (run.baseline). Absent until there were some; another file at the path is another run.",
        |f, out| each(f, out, |run| run.pace.baseline, seconds)
    ),
    TRAIN_SLOW = metric!(
        "gb10_train_slow",
        Gauge,
        None,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "1 while the run's steps have taken longer than its own pace (run.slow_from, 20 %) for two minutes (run.slow_for). Says nothing about why.",
        |f, out| each(f, out, |run| run.pace.slow, flag)
    ),
    TRAIN_SLOW_EPISODES_TOTAL = metric!(
        "gb10_train_slow_episodes_total",
        Counter,
        Count,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "Slow stretches since the exporter started, and stalls that are over.",
        |f, out| each(f, out, |run| Ok(run.stretches), |count| Count(count).as_f64())
    ),
    TRAIN_LOST_SECONDS_TOTAL = metric!(
        "gb10_train_lost_seconds_total",
        Counter,
        Seconds,
        ["run"],
        [Training],
        Stable,
        "training log (--train-log)",
        "Time that the steps of slow stretches took beyond the run's own pace, and that of stalls, since the exporter started. Evaluations and checkpoints are in neither.",
        |f, out| each(f, out, |run| Ok(run.lost), seconds)
    ),
];

//! Whether jobs that did not fit together may have made a run slow: how often they fought while it was slow, and
//! how often in its own steady minutes.

use crate::model::contention::{Contention, ContentionState};
use crate::model::moment::Moment;
use crate::model::training::TrainingRun;
use crate::thresholds::Thresholds;
use crate::units::{Count, Ratio};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Looks at the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::derive) struct Looks {
    all: u64,
    /// They fitted together.
    fitted: u64,
    overcommitted: u64,
    evicting: u64,
}

impl FromIterator<Option<ContentionState>> for Looks {
    fn from_iter<I: IntoIterator<Item = Option<ContentionState>>>(looks: I) -> Self {
        let mut all = Self::default();
        looks.into_iter().for_each(|state| all.take(state));
        all
    }
}

impl Looks {
    const fn take(&mut self, state: Option<ContentionState>) {
        self.all += 1;
        match state {
            None | Some(ContentionState::Unknown) => {}
            Some(ContentionState::None | ContentionState::Shared) => self.fitted += 1,
            Some(ContentionState::Overcommitted) => self.overcommitted += 1,
            Some(ContentionState::Evicting) => self.evicting += 1,
        }
    }

    const fn fought(self) -> u64 {
        self.overcommitted + self.evicting
    }

    /// What contention rests on, where it held for the larger part of a stretch and is new since the steady
    /// minutes: there must be twice as much of it, and it must be known of the larger part of them.
    pub(in crate::derive) fn since(self, before: Self, t: &Thresholds) -> Option<String> {
        let told = before.fitted + before.fought();
        let (during, then) = (share(self.fought(), self.all), share(before.fought(), told));
        let least = t.run_cause_share.0;
        let larger = during >= least && share(told, before.all) >= least;
        (larger && during >= then * 2.0).then(|| {
            let parts = [
                (ContentionState::Evicting, self.evicting),
                (ContentionState::Overcommitted, self.overcommitted),
            ];
            let told = parts.into_iter().filter(|(_, count)| *count > 0).map(|(state, count)| {
                format!("{} for {} of it", state.as_str(), Ratio(share(count, self.all)))
            });
            let told: Vec<String> = told.collect();
            let then = Ratio(then);
            format!(
                "the jobs were {}, and fought for {then} of the run's own steady minutes",
                told.join(" and ")
            )
        })
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { Count(part).as_f64() / Count(all).as_f64() }
}

/// How the jobs got along beside each run that is followed, by its name.
#[derive(Clone, Debug, Default)]
pub(in crate::derive) struct Contended(BTreeMap<String, Beside>);

/// The same of one run.
#[derive(Clone, Debug, Default)]
struct Beside {
    begun: u64,
    /// The latest looks, and when: those that may be of the steady minutes or of a stretch that is not told yet.
    latest: VecDeque<(Duration, ContentionState)>,
    /// Those of the steady minutes, once they are over. None of a run that had them before it was watched.
    steady: Option<Looks>,
    /// Those of the slow stretch that goes on.
    slow: Option<Looks>,
}

impl Contended {
    /// Looks at the jobs beside each run.
    pub(in crate::derive) fn look(
        &mut self,
        at: Moment,
        runs: &[TrainingRun],
        contention: &Contention,
        t: &Thresholds,
    ) {
        self.0.retain(|name, _| runs.iter().any(|run| run.run == *name));
        for run in runs {
            let beside = self.0.entry(run.run.clone()).or_default();
            beside.look(at.mono, run, contention.state, t);
        }
    }

    /// What it rests on that a run is slow for the jobs, where it is: the shares, and, while they fight, who.
    pub(in crate::derive) fn told(
        &self,
        run: &TrainingRun,
        contention: &Contention,
        t: &Thresholds,
    ) -> Option<String> {
        let beside = self.0.get(&run.run)?;
        let shares = beside.slow?.since(beside.steady?, t)?;
        let bad = [ContentionState::Overcommitted, ContentionState::Evicting];
        if !bad.contains(&contention.state) {
            return Some(shares);
        }
        let first = contention.stop_first.as_ref().map(|first| format!("; stop {first}"));
        Some(format!("{shares}; {}{}", contention.evidence, first.unwrap_or_default()))
    }
}

impl Beside {
    fn look(&mut self, at: Duration, run: &TrainingRun, state: ContentionState, t: &Thresholds) {
        if self.begun != run.begun {
            *self = Self { begun: run.begun, ..Self::default() };
        }
        let learning = run.pace.baseline.is_err();
        if learning {
            (self.steady, self.slow) = (None, None);
        } else if self.steady.is_none() {
            self.steady = Some(self.watched(t));
        }
        self.latest.push_back((at, state));
        let window = if learning { t.run_baseline } else { t.run_slow_for };
        let window = Duration::try_from_secs_f64(window.0).unwrap_or_default();
        while self.latest.front().is_some_and(|(then, _)| at.saturating_sub(*then) > window) {
            self.latest.pop_front();
        }
        match (&mut self.slow, run.slow) {
            (slow, None) => *slow = None,
            // A stretch is told when it has lasted: the looks since it began are its own.
            (slow @ None, Some(_)) => *slow = Some(looks(&self.latest)),
            (Some(slow), Some(_)) => slow.take(Some(state)),
        }
    }

    /// The looks at the steady minutes that are over now; none when most of them were not watched, as those
    /// of a run that was there before the exporter.
    fn watched(&self, t: &Thresholds) -> Looks {
        let span = match (self.latest.front(), self.latest.back()) {
            (Some((first, _)), Some((last, _))) => last.saturating_sub(*first).as_secs_f64(),
            _ => 0.0,
        };
        if span < t.run_baseline.0 * t.run_cause_share.0 {
            return Looks::default();
        }
        looks(&self.latest)
    }
}

fn looks(latest: &VecDeque<(Duration, ContentionState)>) -> Looks {
    latest.iter().map(|(_, state)| Some(*state)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reading::Missing;
    use crate::model::training::{Pace, Stretch, StretchKind};
    use crate::units::Seconds;
    use ContentionState::{Evicting, Overcommitted, Shared, Unknown};
    use std::sync::Arc;

    struct Scene {
        contended: Contended,
        run: TrainingRun,
        second: u64,
    }

    impl Scene {
        fn new() -> Self {
            let missing = Err(Missing::Pending);
            let run = TrainingRun {
                run: "lora".to_owned(),
                format: Err(Missing::Pending),
                number: None,
                pace: Pace { step: missing, baseline: missing, slow: Err(Missing::Pending) },
                last_step: missing,
                stalled: Err(Missing::Pending),
                slow: None,
                causes: Vec::new(),
                stretches: 0,
                lost: Seconds(0.0),
                begun: 1,
                remark: None,
            };
            Self { contended: Contended::default(), run, second: 0 }
        }

        /// So many seconds with the jobs in this state, and what is told at their end.
        fn go(&mut self, seconds: u64, state: ContentionState) -> Option<String> {
            let t = Thresholds::default();
            let contention = Contention {
                state,
                evidence: "who".to_owned(),
                stop_first: Some("vllm".to_owned()),
                claims: Arc::default(),
                heavy: Ok(0),
                uncapped: Ok(0),
                committed: Err(Missing::NotAvailable),
            };
            for _ in 0..seconds {
                self.second += 1;
                let time = Duration::from_secs(self.second);
                let at = Moment { mono: time, wall: time };
                self.contended.look(at, std::slice::from_ref(&self.run), &contention, &t);
            }
            self.contended.told(&self.run, &contention, &t)
        }

        fn known(&mut self) {
            self.run.pace.baseline = Ok(Seconds(4.0));
        }

        fn slow(&mut self) {
            let (from, to) = (Duration::ZERO, Duration::ZERO);
            let kind = StretchKind::Slow;
            let slow = Stretch { kind, from, to, ratio: 2.0, steps: 9, lost: Seconds(9.0) };
            self.run.slow = Some(slow);
        }
    }

    #[test]
    fn jobs_that_fight_since_the_steady_minutes_are_named_with_who_it_is() {
        let mut scene = Scene::new();
        scene.go(900, Shared);
        scene.known();
        scene.go(600, Shared);
        assert_eq!(scene.go(100, Overcommitted), None, "the run is not slow");
        scene.slow();
        assert_eq!(
            scene.go(60, Overcommitted).as_deref(),
            Some(
                "the jobs were overcommitted for 89 % of it, and fought for 0 % of the run's own \
                 steady minutes; who; stop vllm"
            )
        );
        let told = scene.go(60, Evicting).unwrap();
        assert!(
            told.contains("evicting for 25 % of it and overcommitted for 67 % of it"),
            "{told}"
        );
        let told = scene.go(60, Shared).unwrap();
        assert!(!told.contains("who"), "they fit together by now: {told}");
        assert_eq!(scene.go(300, Shared), None, "the smaller part");
    }

    #[test]
    fn jobs_that_have_fought_from_the_start_are_not() {
        let mut scene = Scene::new();
        scene.go(900, Overcommitted);
        scene.known();
        scene.go(600, Overcommitted);
        scene.slow();
        assert_eq!(scene.go(300, Overcommitted), None);
    }

    #[test]
    fn nothing_is_named_where_the_steady_minutes_tell_nothing() {
        // It was there before the exporter, which reads its log in a few rounds.
        let mut scene = Scene::new();
        scene.go(5, Shared);
        scene.known();
        scene.go(600, Shared);
        scene.slow();
        assert_eq!(scene.go(300, Overcommitted), None);
        let mut scene = Scene::new();
        scene.go(900, Unknown);
        scene.known();
        scene.go(10, Shared);
        scene.slow();
        assert_eq!(scene.go(300, Overcommitted), None);
        // Another run in its place has minutes of its own.
        scene.run.begun = 2;
        assert_eq!(scene.go(300, Overcommitted), None);
    }
}

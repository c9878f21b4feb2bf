//! The exporter's own notices: critical alerts, posted to Alertmanager's v2 API the second they hold.
//!
//! A collapse here takes less than ten seconds; a scrape, an evaluation and a grouping take longer. The
//! labels are those that the rule's alert would have, so that Alertmanager takes both for one.
//!
//! One thread looks at each frame. Each Alertmanager has a thread of its own, which sends what holds now and
//! waits for nobody: one that is slow or gone keeps nobody else from being told. What is kept is the set of
//! alerts that hold or were told of, never a queue.

use crate::catalog::links::RUNBOOK_BASE;
use crate::client::{self, Bounds};
use crate::clock::{Clock, System};
use crate::config::Config;
use crate::engine::Engine;
use crate::rules::{Holding, Watch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Prometheus repeats a firing alert once a minute, and so does this.
const REPEAT: Duration = Duration::from_secs(60);
/// Until when an alert holds if nothing more is heard. Longer than the four repetitions of Prometheus: a box whose clock is some
/// minutes behind must not tell of what is over already.
const HOLDS: Duration = Duration::from_secs(1800);
/// What has ended is told for this long, and then given up.
const GIVEN_UP: Duration = Duration::from_secs(900);
/// The longest pause between two attempts.
const SLOWEST: Duration = Duration::from_secs(30);
const EXCHANGE: Bounds = Bounds { patience: Duration::from_secs(5), body: 64 * 1024 };
const STACK: usize = 256 * 1024;
const PATH: &str = "/api/v2/alerts";

/// Labels of an alert, in order.
type Labels = BTreeMap<String, String>;

/// Ends of alerts.
type Ends = BTreeMap<Labels, Duration>;

/// An alert as it is told.
#[derive(Clone)]
struct Told {
    summary: &'static str,
    evidence: String,
    runbook: String,
    since: Duration,
    /// When it was seen to hold last.
    last: Duration,
    /// When it ended, if it has.
    ended: Option<Duration>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Posted<'a> {
    labels: &'a Labels,
    annotations: BTreeMap<&'static str, &'a str>,
    starts_at: String,
    ends_at: String,
}

#[derive(Default)]
struct State {
    alerts: BTreeMap<Labels, Told>,
    /// Counts changes of what holds.
    version: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads that look and tell; they stop when it is dropped.
pub struct Alertmanagers {
    shared: Arc<Shared>,
}

impl Drop for Alertmanagers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }
}

/// Begins to tell, if there is anybody to be told.
///
/// # Errors
/// A thread could not be made.
pub fn start(config: &Config, engine: &Arc<Engine>) -> std::io::Result<Option<Alertmanagers>> {
    if config.alertmanagers.is_empty() {
        return Ok(None);
    }
    let shared = Arc::new(Shared::default());
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
    let (looks, engine) = (Arc::clone(&shared), Arc::clone(engine));
    let own: Labels = config.alert_labels.iter().cloned().collect();
    thread("alerts").spawn(move || look(&looks, &engine, &own))?;
    for url in &config.alertmanagers {
        let (shared, url) = (Arc::clone(&shared), url.clone());
        thread("alertmanager").spawn(move || tell(&shared, &url))?;
    }
    tracing::info!("critical alerts go to {} at once", config.alertmanagers.join(", "));
    Ok(Some(Alertmanagers { shared }))
}

/// Looks at every frame.
fn look(shared: &Shared, engine: &Engine, own: &Labels) {
    let mut watch = Watch::default();
    let mut seen = 0;
    let mut last = None;
    while !shared.stop.load(Ordering::Relaxed) {
        seen = engine.wait_for_frame_after(seen, Duration::from_secs(2));
        // Without a frame nothing new is known, and what was told stays told for as long as it holds.
        let Ok(frame) = engine.frame() else { continue };
        if last.replace(frame.snapshot.at) == Some(frame.snapshot.at) {
            continue;
        }
        let holding = watch.step(&frame);
        shared.state().take(&holding, own, System.now().wall, |held| held.evidence(&frame));
        shared.changed.notify_all();
    }
}

impl State {
    /// What holds now. Words are made for what is new alone.
    fn take(
        &mut self,
        holding: &[Holding],
        own: &Labels,
        now: Duration,
        evidence: impl Fn(&Holding) -> String,
    ) {
        let mut gone: Vec<Labels> = self
            .alerts
            .iter()
            .filter(|(_, told)| told.ended.is_none())
            .map(|(l, _)| l.clone())
            .collect();
        for held in holding {
            let mut labels = own.clone();
            labels.extend(
                held.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())),
            );
            labels.insert("alertname".to_owned(), held.alert.name.as_str().to_owned());
            labels.insert("severity".to_owned(), held.alert.severity.as_str().to_owned());
            gone.retain(|other| *other != labels);
            let fresh = self.alerts.get(&labels).is_none_or(|told| told.ended.is_some());
            if fresh {
                let name = held.alert.name.as_str();
                let evidence = evidence(held);
                tracing::warn!("{name}: {evidence}");
                let instance = own.get("instance").map_or("", String::as_str);
                let told = Told {
                    summary: held.alert.summary,
                    evidence: format!("{instance}: {evidence}"),
                    runbook: held.alert.name.runbook(RUNBOOK_BASE),
                    since: now,
                    last: now,
                    ended: None,
                };
                self.alerts.insert(labels, told);
                self.version += 1;
            } else if let Some(told) = self.alerts.get_mut(&labels) {
                told.last = now;
            }
        }
        for labels in gone {
            if let Some(told) = self.alerts.get_mut(&labels) {
                told.ended = Some(now);
                self.version += 1;
            }
        }
        self.alerts.retain(|_, told| told.ended.is_none_or(|at| now.saturating_sub(at) < GIVEN_UP));
    }

    /// What is to be said, but for ends that were heard already.
    fn document(&self, now: Duration, heard: &Ends) -> Vec<u8> {
        let posted: Vec<Posted<'_>> = self
            .alerts
            .iter()
            .filter(|(labels, told)| {
                told.ended.is_none() || heard.get(*labels) != told.ended.as_ref()
            })
            .map(|(labels, told)| Posted {
                labels,
                annotations: BTreeMap::from([
                    ("summary", told.summary),
                    ("description", told.evidence.as_str()),
                    ("runbook_url", told.runbook.as_str()),
                ]),
                starts_at: date(told.since),
                // An end is never in the future, whatever somebody has done to the clock.
                ends_at: date(told.ended.map_or(told.last + HOLDS, |at| at.min(now))),
            })
            .collect();
        serde_json::to_vec(&posted).unwrap_or_default()
    }

    fn ends(&self) -> Ends {
        let ended = |(labels, told): (&Labels, &Told)| Some((labels.clone(), told.ended?));
        self.alerts.iter().filter_map(ended).collect()
    }
}

fn date(at: Duration) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(0);
    let nanos = i32::try_from(at.subsec_nanos()).unwrap_or(0);
    jiff::Timestamp::new(seconds, nanos).map(|at| at.to_string()).unwrap_or_default()
}

/// Sends what holds: when it changes, once a minute, and again when it was not taken.
fn tell(shared: &Shared, url: &str) {
    let (mut sent, mut failures) = (0_u64, 0_u32);
    // Ends that this one has heard of. Said again and again they would end what its rule has begun anew.
    let mut heard = Ends::new();
    loop {
        let (version, document, ends) = {
            let wait = if failures == 0 { REPEAT } else { pause(failures) };
            let state = shared.state();
            let news = |state: &mut State| state.version == sent || failures > 0;
            let stopped = |state: &mut State| news(state) && !shared.stop.load(Ordering::Relaxed);
            let waited = shared.changed.wait_timeout_while(state, wait, stopped);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            let ends = state.ends();
            if state.alerts.len() == ends.len() && ends == heard {
                (sent, failures) = (state.version, 0);
                continue;
            }
            (state.version, state.document(System.now().wall, &heard), ends)
        };
        let answer = client::post(url, PATH, document, EXCHANGE);
        let what = match answer {
            Ok((status, _)) if status.is_success() => {
                if failures > 0 {
                    tracing::info!("{url} takes alerts again");
                }
                (sent, failures, heard) = (version, 0, ends);
                continue;
            }
            Ok((status, body)) => {
                let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                format!("it answered {status} {}", said.trim())
            }
            Err(error) => chain(&error),
        };
        if failures == 0 {
            tracing::warn!("{url} does not take alerts, and is tried again: {what}");
        }
        failures = failures.saturating_add(1);
    }
}

/// An error and what led to it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// One second, two, four, up to half a minute; and a part of a second more, so that boxes that lost their
/// Alertmanager together do not come back together.
fn pause(failures: u32) -> Duration {
    let steps = 2_u32.saturating_pow(failures.saturating_sub(1).min(5));
    let more = System.now().wall.subsec_nanos() / 2;
    (Duration::from_secs(1) * steps).min(SLOWEST) + Duration::from_nanos(more.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    fn holding(name: &str) -> Vec<Holding> {
        let alert = rules::all()
            .find(|a| a.name.as_str() == name && a.severity == rules::Severity::Critical)
            .unwrap();
        vec![Holding::new(alert, vec![("gpu", "0".to_owned())])]
    }

    #[test]
    fn an_alert_is_told_from_its_beginning_to_its_end() {
        let own = Labels::from([("instance".to_owned(), "spark:10058".to_owned())]);
        let mut state = State::default();
        let at = |seconds: u64| Duration::from_secs(1_800_000_000 + seconds);
        let fault = holding("GB10PowerDeliveryFault");
        let take = |state: &mut State, holding: &[Holding], now| {
            state.take(holding, &own, now, |_| "799 MHz".to_owned());
        };
        take(&mut state, &fault, at(0));
        take(&mut state, &fault, at(1));
        assert_eq!(state.version, 1, "what goes on is no news");
        let told = |state: &State, now| -> serde_json::Value {
            serde_json::from_slice(&state.document(now, &Ends::new())).unwrap()
        };
        let first = told(&state, at(1));
        assert_eq!(first[0]["labels"]["alertname"], "GB10PowerDeliveryFault");
        assert_eq!(first[0]["labels"]["instance"], "spark:10058");
        assert_eq!(first[0]["labels"]["gpu"], "0");
        assert_eq!(first[0]["startsAt"], "2027-01-15T08:00:00Z");
        assert_eq!(first[0]["endsAt"], "2027-01-15T08:30:01Z", "a box that dies is not cured");
        take(&mut state, &[], at(5));
        assert_eq!(state.version, 2);
        assert_eq!(told(&state, at(9))[0]["endsAt"], "2027-01-15T08:00:05Z");
        assert_eq!(
            state.document(at(9), &state.ends()),
            b"[]",
            "an end that was heard is not said again"
        );
        // Again, before it was forgotten: another one.
        take(&mut state, &fault, at(60));
        assert_eq!(told(&state, at(60))[0]["startsAt"], "2027-01-15T08:01:00Z");
        take(&mut state, &[], at(70));
        take(&mut state, &[], at(70) + GIVEN_UP);
        assert!(state.alerts.is_empty());
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let whole: Vec<u64> = (1..9).map(|n| pause(n).as_secs()).collect();
        assert_eq!(whole, [1, 2, 4, 8, 16, 30, 30, 30]);
    }
}

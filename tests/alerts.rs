//! Every alert on every scenario, by the real promtool.

mod support;

use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::docs::{self, Lead, Outcome};
use gb10_exporter::rules::{self, Severity};
use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};
use support::golden;
use support::promtool::{firing, metrics_in, scenarios, scrapes};

/// Scrapes and evaluations, in seconds.
const EVERY: [u64; 2] = [15, 60];

/// Every scenario through the rules, once for all tests here.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let rules = support::promtool::rules();
    let names = metrics_in(&rules);
    let todo = Mutex::new(scenarios());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = todo.lock().unwrap().pop();
                    let Some((name, path)) = next else { break };
                    let scenario = Scenario::load(&path).unwrap();
                    let at: Vec<_> = scrapes(&path, &names, &EVERY.map(|every| (every, 0)))
                        .iter()
                        .map(|scraped| firing(&rules, scraped))
                        .collect();
                    let which: BTreeSet<_> = at.iter().flat_map(|at| at.keys().cloned()).collect();
                    let fired = which
                        .into_iter()
                        .map(|key| {
                            let times = [at[0].get(&key).copied(), at[1].get(&key).copied()];
                            (key.0, key.1, times)
                        })
                        .collect();
                    done.lock().unwrap().push(Outcome {
                        scenario: name,
                        kind: scenario.kind.as_str(),
                        title: scenario.title,
                        fired,
                    });
                }
            });
        }
    });
    let mut all = done.into_inner().unwrap();
    all.sort_by(|a, b| a.scenario.cmp(&b.scenario));
    all
});

#[test]
fn the_reference_says_what_was_measured() {
    golden("docs/ALERTS.md", &docs::alerts(&OUTCOMES, &[]));
}

//! Alerts at true speed: three boxes, the rules as they are committed, a scrape every 15 s, the example's own patience.
//! Takes a quarter of an hour, so it runs by name only, as a part of `make prove`.
#![expect(clippy::print_stdout, reason = "what is printed goes into docs/PROOFS.md")]
#![expect(clippy::disallowed_methods, reason = "how long a notice takes is what is measured")]

mod support;

use std::time::{Duration, Instant};
use support::alertmanager::{
    Alertmanager, Webhook, config, holds, own_notices, port, replay, rules_scaled, templates,
};
use support::prometheus::Prometheus;

#[test]
fn notices_arrive_at_true_speed() {
    let webhook = Webhook::start();
    let manager = Alertmanager::start(&config(&webhook, None), &templates(), None);
    let stories = [
        ("fourth-container", "/pager", "GB10PoolExhaustionImminent"),
        ("power-not-delivered", "/pager", "GB10PowerDeliveryFault"),
        ("two-fight", "/chat", "GB10JobsContend"),
    ];
    let ports = stories.map(|_| port());
    let targets = ports.map(|port| port.to_string());
    let targets = targets.each_ref().map(String::as_str);
    let _prometheus = Prometheus::alerting(&targets, &rules_scaled(1.0), manager.address, 15);
    // The same collapse once more, told by the exporter itself and by nobody else.
    let own = port();
    let to = own_notices(own, manager.address);
    let _own = replay("fourth-container", "1", own, &to);
    let _boxes: Vec<_> = stories
        .iter()
        .zip(ports)
        .map(|((story, ..), port)| replay(story, "1", port, &[]))
        .collect();
    let began = Instant::now();
    let came = |story: &str, path: &str, alert: &str, from: String| {
        webhook.wait_for_long(path, alert, Duration::from_secs(1200), |notice| {
            notice["groupLabels"]["instance"] == from && holds(notice, alert, "firing")
        });
        println!(
            "proof: | {alert} of the story {story} reaches its receiver in the story's second | {} |",
            began.elapsed().as_secs()
        );
    };
    came("fourth-container, by the exporter itself", "/pager", stories[0].2, own.to_string());
    for ((story, path, alert), port) in stories.into_iter().zip(ports) {
        came(&format!("{story}, by Prometheus"), path, alert, port.to_string());
    }
}

//! Notices, from a replayed box to a person: the real exporter, Prometheus, Alertmanager and a receiver.
use crate::support::alertmanager::{
    Alertmanager, Webhook, config, example, holds, own_notices, port, replay, rules_scaled,
    templates,
};
use crate::support::prometheus::Prometheus;
use crate::support::{exporter, tool};
use gb10_exporter::rules;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

fn amtool(args: &[&str]) -> String {
    let out = Command::new(tool("amtool")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
    said
}

#[test]
fn the_example_passes_amtool_and_routes_by_severity() {
    let path = example();
    let path = path.to_str().unwrap();
    assert!(amtool(&["check-config", path]).contains("SUCCESS"));
    let mut seen = 0;
    for alert in rules::all() {
        let severity = format!("severity={}", alert.severity.as_str());
        let name = format!("alertname={}", alert.name.as_str());
        let wants = match alert.severity {
            rules::Severity::Critical => "pager",
            rules::Severity::Warning => "chat",
            rules::Severity::Info => "nobody",
        };
        // Every row once would take long for what three rows show.
        if seen < 3 || alert.name.as_str().ends_with("Xid") {
            let to = amtool(&["config", "routes", "test", "--config.file", path, &severity, &name]);
            assert_eq!(to.trim(), wants, "{name} {severity}");
            seen += 1;
        }
    }
}

/// Notices are read on a locked phone and in a chat.
#[test]
fn templates_make_readable_text() {
    let data = json!({
        "receiver": "chat", "status": "firing",
        "alerts": [
            {"status": "firing", "labels": {"alertname": "GB10JobsContend", "severity": "warning", "instance": "spark:10058"},
             "annotations": {"summary": "Jobs take memory from one another.", "description": "spark:10058: 3.8GiB available.",
                             "runbook_url": "https://runbooks/GB10JobsContend.md", "dashboard_url": "http://grafana/d/gb10-workloads"},
             "startsAt": "2026-11-30T20:41:35Z", "endsAt": "0001-01-01T00:00:00Z"},
            {"status": "resolved", "labels": {"alertname": "GB10Xid", "severity": "warning", "instance": "spark:10058"},
             "annotations": {"summary": "The GPU reports an error."},
             "startsAt": "2026-11-30T20:11:35Z", "endsAt": "2026-11-30T20:31:35Z"}
        ],
        "groupLabels": {"instance": "spark:10058"},
        "commonLabels": {"instance": "spark:10058", "severity": "warning"},
        "commonAnnotations": {}, "externalURL": "http://alertmanager"
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data.json");
    fs::write(&file, data.to_string()).unwrap();
    let rendered = |text: &str| {
        amtool(&[
            "template",
            "render",
            &format!("--template.glob={}", templates().display()),
            &format!("--template.data={}", file.display()),
            &format!("--template.text={text}"),
        ])
    };
    let title = rendered("{{ template \"gb10.title\" . }}");
    assert_eq!(title.trim(), "1 firing spark:10058: GB10JobsContend, GB10Xid");
    let text = rendered("{{ template \"gb10.text\" . }}");
    for has in [
        "warning: Jobs take memory from one another.\nspark:10058: 3.8GiB available.\nsince 2026-11-30 20:41:35 UTC\n",
        "runbook: https://runbooks/GB10JobsContend.md",
        "over: The GPU reports an error. (GB10Xid, from 20:11:35 to 20:31:35 UTC)",
    ] {
        assert!(text.contains(has), "no {has:?} in {text}");
    }
}

fn alert(name: &str, severity: &str, instance: &str) -> Value {
    json!({"labels": {"alertname": name, "severity": severity, "job": "gb10", "instance": instance}, "annotations": {"summary": name}})
}

/// Name, severity, instance.
type Which<'a> = (&'a str, &'a str, &'a str);

/// Waits until these alerts are held back and those are not.
fn expect_inhibited(manager: &Alertmanager, held_back: &[Which<'_>], free: &[Which<'_>]) {
    let began = Instant::now();
    loop {
        let alerts = manager.alerts();
        let state = |(name, severity, instance): &Which<'_>| {
            let found = alerts.iter().find(|a| {
                let l = &a["labels"];
                l["alertname"] == *name && l["severity"] == *severity && l["instance"] == *instance
            });
            found.map(|a| !a["status"]["inhibitedBy"].as_array().unwrap().is_empty())
        };
        let wrong: Vec<_> = held_back
            .iter()
            .filter(|a| state(a) != Some(true))
            .chain(free.iter().filter(|a| state(a) != Some(false)))
            .collect();
        if wrong.is_empty() {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{wrong:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What explains something else is silenced, on its own box only; what a dying box said last is never.
#[test]
fn inhibitions_hold_back_what_follows_and_nothing_else() {
    let webhook = Webhook::start();
    let manager = Alertmanager::start(&config(&webhook, Some("1s")), &templates(), None);
    let mut all = vec![
        alert("GB10PoolExhaustionImminent", "critical", "a"),
        alert("GB10PoolHeadroomLow", "warning", "a"),
        alert("GB10PoolHeadroomLow", "warning", "b"),
        alert("GB10JobsContend", "warning", "b"),
        alert("GB10EvictionSymptoms", "warning", "b"),
        alert("GB10SwapThrash", "warning", "c"),
        alert("GB10ThermalThrottling", "critical", "c"),
        alert("GB10ThermalThrottling", "warning", "c"),
        alert("GB10GpuUnreadable", "warning", "d"),
        alert("GB10DataStale", "warning", "d"),
        alert("GB10AnswersPingOnly", "critical", "e"),
        alert("GB10ExporterDown", "critical", "e"),
    ];
    // A box that has fallen silent, with everything that it could have said.
    let silent = |a: &&rules::Alert| a.name.as_str() != "GB10AnswersPingOnly";
    for row in rules::all().filter(silent) {
        all.push(alert(row.name.as_str(), row.severity.as_str(), "silent"));
    }
    manager.post(&Value::Array(all));
    expect_inhibited(
        &manager,
        &[
            ("GB10PoolHeadroomLow", "warning", "a"),
            ("GB10EvictionSymptoms", "warning", "b"),
            ("GB10ThermalThrottling", "warning", "c"),
            ("GB10DataStale", "warning", "d"),
            ("GB10ExporterDown", "critical", "e"),
        ],
        &[
            ("GB10PoolExhaustionImminent", "critical", "a"),
            ("GB10PoolHeadroomLow", "warning", "b"),
            ("GB10JobsContend", "warning", "b"),
            ("GB10SwapThrash", "warning", "c"),
            ("GB10ThermalThrottling", "critical", "c"),
        ],
    );
    // The gravest of each kind that a dying box has is never held back; what else it said is.
    let dying: Vec<_> = rules::all().filter(|a| a.outlives > 0).collect();
    let of = |row: &&rules::Alert| (row.name.as_str(), row.severity.as_str(), "silent");
    let gravest: Vec<_> =
        dying.iter().filter(|a| a.severity == rules::Severity::Critical).map(of).collect();
    assert!(gravest.len() >= 5);
    expect_inhibited(
        &manager,
        &[("GB10JobsContend", "warning", "silent"), ("GB10Xid", "critical", "silent")],
        &[&gravest[..], &[("GB10ExporterDown", "critical", "silent")]].concat(),
    );
}

/// Throttling, contention and exhaustion, from two boxes to the people that they are for: grouped by
/// box, held back where one explains the other, and over when they are over.
fn notices_for_throttling_contention_and_exhaustion_arrive() {
    let webhook = Webhook::start();
    let manager = Alertmanager::start(&config(&webhook, Some("1s")), &templates(), None);
    let (fights, heats) = (port(), port());
    let boxes = [fights.to_string(), heats.to_string()];
    let prometheus = Prometheus::alerting(
        &[&boxes[0], &boxes[1]],
        &rules_scaled(1.0 / 60.0),
        manager.address,
        1,
    );
    prometheus.wait_for("count(up)", 2.0);
    let _fight = replay("two-fight", "60", fights, &[]);
    let _heat = replay("heat-costs-time", "60", heats, &[]);

    let of = |notice: &Value, instance: &str| notice["groupLabels"]["instance"] == instance;
    let paged = webhook
        .wait_for("/pager", "exhaustion", |n| holds(n, "GB10PoolExhaustionImminent", "firing"));
    assert!(of(&paged, &boxes[0]), "grouped by box: {paged:#}");
    let told = &paged["alerts"][0]["annotations"];
    let text = told["description"].as_str().unwrap();
    assert!(
        text.starts_with(&boxes[0]) && text.contains("available") && text.contains("Holders: "),
        "{text}"
    );
    assert!(text.contains("vllm (docker)") && text.contains("First: "), "{text}");
    assert!(told["runbook_url"].as_str().unwrap().ends_with("GB10PoolExhaustionImminent.md"));

    let contend =
        webhook.wait_for("/chat", "contention", |n| holds(n, "GB10JobsContend", "firing"));
    assert!(of(&contend, &boxes[0]));
    // Symptoms explain nothing beside it: they are there, and held back.
    let began = Instant::now();
    loop {
        let symptoms = manager.named("GB10EvictionSymptoms");
        if symptoms.iter().any(|a| !a["status"]["inhibitedBy"].as_array().unwrap().is_empty()) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{symptoms:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let heat = webhook.wait_for("/chat", "heat", |n| holds(n, "GB10ThermalThrottling", "firing"));
    assert!(of(&heat, &boxes[1]));
    let text = heat["alerts"].to_string();
    assert!(text.contains("Heat costs work.") && text.contains("°C"), "{text}");
    assert!(!webhook.at("/nobody").is_empty(), "what is good to know goes where nobody is woken");
    webhook.wait_for("/chat", "the end of the heat", |n| {
        of(n, &boxes[1]) && holds(n, "GB10ThermalThrottling", "resolved")
    });
}

/// The exporter's own notice and the rule's are one alert; an Alertmanager that comes late is told all the
/// same; and it is over when the verdict is.
fn the_exporter_tells_by_itself_and_says_it_once() {
    let webhook = Webhook::start();
    let (spark, manager) = (port(), port());
    let to = own_notices(spark, manager);
    let exporter = replay("startup-collapse-recorded", "4", spark, &to);
    // Nobody listens yet when the collapse comes.
    let began = Instant::now();
    while !exporter.log.lock().unwrap().contains("does not take alerts, and is tried again") {
        assert!(began.elapsed() < Duration::from_secs(40), "{}", exporter.log.lock().unwrap());
        std::thread::sleep(Duration::from_millis(100));
    }
    let manager = Alertmanager::start(&config(&webhook, Some("1s")), &templates(), Some(manager));
    let notice = webhook.wait_for("/pager", "the exporter's own notice", |n| {
        holds(n, "GB10PoolExhaustionImminent", "firing")
    });
    let text = notice["alerts"][0]["annotations"]["description"].as_str().unwrap().to_owned();
    assert!(text.starts_with(&spark.to_string()) && text.contains("GiB"), "{text}");
    // A Prometheus finds the same alert, and there is still one of it.
    let prometheus =
        Prometheus::alerting(&[&spark.to_string()], &rules_scaled(1.0), manager.address, 1);
    prometheus.wait_for("count(ALERTS{alertname=\"GB10PoolExhaustionImminent\",alertstate=\"firing\"}) or vector(0)", 1.0);
    let began = Instant::now();
    loop {
        let one = manager.named("GB10PoolExhaustionImminent");
        assert_eq!(one.len(), 1, "{one:#?}");
        // The rule's text has replaced the exporter's: both were taken for one.
        if one[0]["generatorURL"].as_str().is_some_and(|url| url.contains("/graph")) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{one:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let log = exporter.log.lock().unwrap().clone();
    assert_eq!(log.matches("does not take alerts").count(), 1, "told once: {log}");
    assert!(log.contains("takes alerts again"), "{log}");
}

/// Without a Prometheus it ends by itself.
fn what_the_exporter_tells_ends_by_itself() {
    let webhook = Webhook::start();
    let manager = Alertmanager::start(&config(&webhook, Some("1s")), &templates(), None);
    let spark = port();
    let to = own_notices(spark, manager.address);
    let _exporter = replay("power-not-delivered", "120", spark, &to);
    webhook.wait_for("/pager", "the fault", |n| holds(n, "GB10PowerDeliveryFault", "firing"));
    webhook.wait_for("/pager", "its end", |n| holds(n, "GB10PowerDeliveryFault", "resolved"));
    let alert = manager.alerts();
    assert!(alert.iter().all(|a| a["labels"]["job"] == "gb10"), "{alert:#?}");
}

#[test]
fn what_cannot_be_told_is_refused_at_the_start() {
    for (args, says) in [
        (&["--alertmanager.url", "https://a:9093"][..], "expected http://HOST:PORT"),
        (&["--alertmanager.url", "http://"], "expected http://HOST:PORT"),
        (
            &["--alertmanager.url", "http://a:9093"],
            "needs alertmanager.label with job=... and instance=...",
        ),
        (
            &["--alertmanager.url", "http://a:9093", "--alertmanager.label", "job=x"],
            "needs alertmanager.label with job=... and instance=...",
        ),
        (&["--alertmanager.label", "job"], "expected NAME=VALUE"),
        (&["--alertmanager.label", "severity=low"], "is the alert's own"),
    ] {
        let out = exporter().arg("config").args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{args:?}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

/// They wait far more than they compute, so they do it side by side.
#[test]
fn end_to_end() {
    let all: [fn(); 3] = [
        notices_for_throttling_contention_and_exhaustion_arrive,
        the_exporter_tells_by_itself_and_says_it_once,
        what_the_exporter_tells_ends_by_itself,
    ];
    let threads = all.map(std::thread::spawn);
    let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    assert_eq!(failed, 0, "see above");
}

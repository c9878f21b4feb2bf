//! The table as files: for Prometheus and what reads the same rules, and as a resource of Kubernetes.

use super::expr::{Context, Options, span};
use super::{Alert, Group, RECORDS, all};
use serde::Serialize;
use std::collections::BTreeMap;

/// The form of a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A rule file of Prometheus; Mimir, Thanos and VictoriaMetrics read it as it is.
    Prometheus,
    /// A PrometheusRule of the Prometheus operator.
    Kubernetes,
}

#[derive(Serialize)]
struct Rule {
    alert: &'static str,
    expr: String,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_firing_for: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Recorded {
    record: &'static str,
    expr: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Recorded(Recorded),
    Rule(Rule),
}

#[derive(Serialize)]
struct RuleGroup {
    name: &'static str,
    rules: Vec<Entry>,
}

#[derive(Serialize)]
struct Groups {
    groups: Vec<RuleGroup>,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
    labels: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: Groups,
}

fn rule(alert: &'static Alert, options: &Options) -> Rule {
    let context = Context { options };
    let time = |seconds: u32| (seconds > 0).then(|| span(f64::from(seconds) * options.scale));
    let mut labels: BTreeMap<String, String> = options.labels.iter().cloned().collect();
    labels.insert("severity".to_owned(), alert.severity.as_str().to_owned());
    Rule {
        alert: alert.name.as_str(),
        expr: context.expression(alert),
        wait: time(alert.wait),
        keep_firing_for: time(alert.keep),
        labels,
        annotations: BTreeMap::from([
            ("summary", alert.summary.to_owned()),
            ("description", (alert.says)(&context)),
            ("runbook_url", alert.name.runbook(&options.runbook_base)),
            ("dashboard_url", context.dashboard(alert)),
        ]),
    }
}

fn entries(group: Group, options: &Options) -> Vec<Entry> {
    let context = Context { options };
    let records = RECORDS.iter().filter(|record| record.group == group).map(|record| {
        Entry::Recorded(Recorded { record: record.name, expr: (record.is)(&context) })
    });
    let alerts = all().filter(|alert| alert.group == group);
    records.chain(alerts.map(|alert| Entry::Rule(rule(alert, options)))).collect()
}

/// The rules of these groups, as text.
///
/// # Errors
/// A value that YAML cannot express, which is a mistake in the table.
pub fn render(
    groups: &[Group],
    options: &Options,
    format: Format,
) -> Result<String, serde_yaml::Error> {
    let groups = groups
        .iter()
        .map(|group| RuleGroup { name: group.as_str(), rules: entries(*group, options) })
        .collect();
    let groups = Groups { groups };
    match format {
        Format::Prometheus => serde_yaml::to_string(&groups),
        Format::Kubernetes => serde_yaml::to_string(&Resource {
            api_version: "monitoring.coreos.com/v1",
            kind: "PrometheusRule",
            metadata: Metadata {
                name: "gb10-exporter",
                labels: BTreeMap::from([("app.kubernetes.io/name", "gb10-exporter")]),
            },
            spec: groups,
        }),
    }
}

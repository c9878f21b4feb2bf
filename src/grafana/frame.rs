//! What stands round the panels: variables, annotations, links to the other dashboards.

use super::colour;
use super::json::source;
use super::query::{Query, Series, alerts, of, up};
use super::verdict::Rank;
use crate::catalog::links::{Board, RUNBOOK_BASE, Severity};
use crate::catalog::metrics::{
    EVICTION_SYMPTOM, EXPORTER_BUILD_INFO, GPU_UTILIZATION_RATIO, THROTTLE_EPISODES_TOTAL,
};
use serde_json::{Value, json};

/// What all dashboards have in common, and links go by.
pub(super) const TAG: &str = "gb10";
/// Everything, whatever it is called.
const ALL: &str = ".+";

/// A variable whose values Prometheus knows.
fn values(name: &str, label: &str, series: &str, of: &str) -> Value {
    let query = format!("label_values({series}, {of})");
    json!({
        "name": name,
        "label": label,
        "type": "query",
        "datasource": source(),
        "query": { "query": query, "refId": name },
        "refresh": 2,
        "sort": 7,
        "multi": true,
        "includeAll": true,
        "allValue": ALL,
        "current": { "text": ["All"], "value": ["$__all"] },
    })
}

/// The variables, from the widest to the narrowest.
pub(super) fn variables(board: Board, uid: Option<&str>) -> Vec<Value> {
    let mut data_source = json!({
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    });
    if let Some(uid) = uid {
        data_source["current"] = json!({ "text": uid, "value": uid });
    }
    let build = EXPORTER_BUILD_INFO.name;
    let mut all = vec![
        data_source,
        values("job", "Job", build, "job"),
        // A box that is silent is one, too.
        values("instance", "Instance", &format!("{}{{job=~\"$job\"}}", up().name()), "instance"),
    ];
    if matches!(board, Board::Box | Board::Incident) {
        let gpus = of(&GPU_UTILIZATION_RATIO).now().text;
        all.push(values("gpu", "GPU", &gpus, "gpu"));
    }
    all
}

fn annotation(name: &str, colour: &str, query: &Query, title: &str, text: &str) -> Value {
    json!({
        "name": name,
        "enable": true,
        "hide": false,
        "iconColor": colour,
        "datasource": source(),
        "expr": query.text,
        "step": "15s",
        "titleFormat": title,
        "textFormat": text,
    })
}

/// What happened, drawn into every panel over time.
pub(super) fn annotations() -> Value {
    // Alerts for information would mark whole days.
    let firing = |severity: Severity| {
        let of_it: Series = alerts().is("severity", severity.as_str());
        of_it.max(&["instance", "alertname", "severity"])
    };
    let throttled = of(&THROTTLE_EPISODES_TOTAL).increase().sum(&["instance", "gpu", "kind"]);
    let evicted = of(&EVICTION_SYMPTOM).is("proof", "proven").max(&["instance", "symptom"]);
    json!({ "list": [
        annotation(
            "Critical alerts",
            Rank::Grave.colour(),
            &firing(Severity::Critical),
            "{{alertname}}",
            "{{severity}} on {{instance}}",
        ),
        annotation(
            "Warnings",
            Rank::Bad.colour(),
            &firing(Severity::Warning),
            "{{alertname}}",
            "{{severity}} on {{instance}}",
        ),
        annotation(
            "Throttle episodes",
            colour::SKY,
            &throttled.only("> 0"),
            "{{kind}} begins",
            "GPU {{gpu}} of {{instance}}",
        ),
        annotation(
            "Evictions",
            colour::PURPLE,
            &evicted.only("> 0"),
            "{{symptom}}",
            "memory in use was taken away on {{instance}}",
        ),
    ] })
}

/// Links to the other dashboards, with the time and the boxes that are chosen, and to the runbooks.
pub(super) fn links() -> Value {
    let link = |title: &str, kind: &str, url: &str, keep: bool| {
        let tags = if kind == "dashboards" { vec![TAG] } else { Vec::new() };
        json!({
            "title": title,
            "type": kind,
            "url": url,
            "tags": tags,
            "icon": if kind == "dashboards" { "external link" } else { "doc" },
            "tooltip": "",
            "asDropdown": false,
            "includeVars": keep,
            "keepTime": keep,
            "targetBlank": !keep,
        })
    };
    json!([link("", "dashboards", "", true), link("Runbooks", "link", RUNBOOK_BASE, false)])
}

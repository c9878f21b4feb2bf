//! Dashboards as Grafana's classic JSON.

use super::colour::Colour;
use super::frame;
use super::panel::{
    COLUMNS, Column, Dashboard, From, Leads, Lines, Look, Number, Panel, Shelf, Target, Tile, View,
};
use super::query::Shown;
use super::verdict::Mapping;
use crate::catalog::links::{AlertName, Board, RUNBOOK_BASE};
use serde_json::{Map, Value, json};

/// The last version of the classic form.
const SCHEMA: u32 = 42;
/// Titles of shelves are panels too; their numbers begin here.
const TITLES_FROM: u32 = 900;

/// The data source that is chosen.
pub(super) fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

pub(super) fn dashboard(dashboard: &Dashboard, uid: Option<&str>) -> Value {
    json!({
        "uid": dashboard.board.as_str(),
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": [frame::TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": false,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": { "from": format!("now-{}", dashboard.span), "to": "now" },
        "timepicker": { "refresh_intervals": ["5s", "15s", "30s", "1m", "5m"] },
        "refresh": dashboard.refresh,
        "templating": { "list": frame::variables(dashboard.board, uid) },
        "annotations": frame::annotations(),
        "links": frame::links(),
        "panels": panels(&dashboard.shelves),
    })
}

/// The shelves from the top to the bottom.
fn panels(shelves: &[Shelf]) -> Vec<Value> {
    let (mut all, mut y, mut titles) = (Vec::new(), 0, TITLES_FROM);
    for shelf in shelves {
        match shelf {
            Shelf::Title(title) => {
                all.push(json!({
                    "id": titles,
                    "type": "row",
                    "title": title,
                    "collapsed": false,
                    "gridPos": { "x": 0, "y": y, "w": COLUMNS, "h": 1 },
                    "panels": [],
                }));
                titles += 1;
                y += 1;
            }
            Shelf::Panels(height, panels) => {
                let mut x = 0;
                for one in panels {
                    let mut value = panel(one);
                    value["gridPos"] = json!({ "x": x, "y": y, "w": one.width, "h": height });
                    all.push(value);
                    x += one.width;
                }
                y += height;
            }
        }
    }
    all
}

fn panel(panel: &Panel) -> Value {
    let (kind, options) = match &panel.view {
        View::Tile(tile) => ("stat", tile_options(*tile)),
        View::Lines(lines) => ("timeseries", lines_options(*lines)),
        View::States => ("state-timeline", states_options()),
        View::Table(columns) => ("table", table_options(columns)),
    };
    let mut value = json!({
        "id": panel.number.id(),
        "type": kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": source(),
        "targets": targets(panel),
        "fieldConfig": { "defaults": defaults(panel), "overrides": overrides(panel) },
        "options": options,
    });
    if let View::Table(columns) = &panel.view {
        value["transformations"] = transformations(columns, panel.targets.len());
    }
    let links = runbooks(panel.number);
    if !links.is_empty() {
        value["links"] = json!(links);
    }
    value
}

/// The runbooks of the alerts that lead to the panel.
fn runbooks(number: Number) -> Vec<Value> {
    let Number::Linked(place) = number else { return Vec::new() };
    AlertName::ALL
        .iter()
        .filter(|alert| alert.panel() == place)
        .map(|alert| {
            json!({
                "title": format!("Runbook {}", alert.as_str()),
                "url": alert.runbook(RUNBOOK_BASE),
                "type": "link",
                "icon": "doc",
                "tooltip": "",
                "tags": [],
                "asDropdown": false,
                "includeVars": false,
                "keepTime": false,
                "targetBlank": true,
            })
        })
        .collect()
}

/// The letter of a target.
fn letter(position: usize) -> String {
    char::from_u32('A' as u32 + u32::try_from(position).unwrap_or_default())
        .unwrap_or_default()
        .to_string()
}

fn targets(panel: &Panel) -> Vec<Value> {
    let table = matches!(panel.view, View::Table(_));
    let instant = table || matches!(panel.view, View::Tile(_));
    let target = |(position, target): (usize, &Target)| {
        json!({
            "refId": letter(position),
            "datasource": source(),
            "expr": target.query.text,
            "legendFormat": if table { "" } else { &target.legend },
            "format": if table { "table" } else { "time_series" },
            "instant": instant,
            "range": !instant,
            "editorMode": "code",
        })
    };
    panel.targets.iter().enumerate().map(target).collect()
}

fn mappings(mappings: &[Mapping]) -> Value {
    if mappings.is_empty() {
        return json!([]);
    }
    let options: Map<String, Value> = mappings
        .iter()
        .enumerate()
        .map(|(index, m)| {
            (m.value.clone(), json!({ "text": m.text, "color": m.colour, "index": index }))
        })
        .collect();
    json!([{ "type": "value", "options": options }])
}

fn steps(panel: &Panel) -> Value {
    let neutral = [(None, super::colour::GREY)];
    let steps = if panel.steps.is_empty() { &neutral[..] } else { &panel.steps };
    let steps: Vec<Value> =
        steps.iter().map(|(from, colour)| json!({ "value": from, "color": colour })).collect();
    json!({ "mode": "absolute", "steps": steps })
}

fn defaults(panel: &Panel) -> Value {
    let mut defaults = json!({
        "unit": panel.unit().0,
        "noValue": panel.empty,
        "mappings": mappings(&panel.mappings),
        "thresholds": steps(panel),
    });
    match &panel.view {
        View::Tile(_) => defaults["color"] = json!({ "mode": "thresholds" }),
        View::Lines(lines) => {
            defaults["color"] = json!({ "mode": "palette-classic" });
            defaults["custom"] = line(*lines);
            if let Some(most) = quiet(panel.unit()) {
                defaults["custom"]["axisSoftMax"] = json!(most);
            }
            if !lines.floating {
                defaults["min"] = json!(0);
            }
            if lines.share {
                defaults["max"] = json!(1);
            }
        }
        View::States => {
            defaults["color"] = json!({ "mode": "fixed", "fixedColor": super::colour::GREY });
            defaults["custom"] = json!({ "fillOpacity": 85, "lineWidth": 0 });
        }
        View::Table(_) => {
            defaults["color"] = json!({ "mode": "thresholds" });
            defaults["custom"] = json!({ "align": "auto" });
        }
    }
    if let Some(decimals) = panel.decimals {
        defaults["decimals"] = json!(decimals);
    }
    defaults
}

/// How far the axis goes at least, so that next to nothing looks like it.
fn quiet(unit: Shown) -> Option<f64> {
    match unit.0 {
        "percentunit" => Some(0.1),
        "bytes" | "binBps" => Some(1_048_576.0),
        "cps" | "short" => Some(1.0),
        _ => None,
    }
}

fn line(lines: Lines) -> Value {
    let mode = if lines.stacked { "normal" } else { "none" };
    json!({
        "drawStyle": if lines.bars { "bars" } else { "line" },
        "lineWidth": if lines.stacked { 0 } else { 2 },
        "fillOpacity": if lines.stacked || lines.bars { 80 } else { 0 },
        "stacking": { "mode": mode, "group": "A" },
        "showPoints": "never",
        "spanNulls": false,
        "axisBorderShow": false,
    })
}

fn fixed(colour: Colour) -> Value {
    json!({ "id": "color", "value": { "mode": "fixed", "fixedColor": colour } })
}

/// What a target looks like, what series are coloured by name, what columns show.
fn overrides(panel: &Panel) -> Vec<Value> {
    let mut all: Vec<Value> = panel
        .targets
        .iter()
        .enumerate()
        .filter_map(|(position, target)| {
            let properties = look(target, panel.unit())?;
            let matcher = json!({ "id": "byFrameRefID", "options": letter(position) });
            Some(json!({ "matcher": matcher, "properties": properties }))
        })
        .collect();
    all.extend(panel.named.iter().map(|(pattern, colour)| {
        let matcher = json!({ "id": "byRegexp", "options": pattern });
        json!({ "matcher": matcher, "properties": [fixed(colour)] })
    }));
    all.extend(panel.numbered.iter().map(|(pattern, colour, dotted)| {
        let matcher = json!({ "id": "byRegexp", "options": pattern });
        let mut properties = vec![fixed(colour)];
        if *dotted {
            let style = json!({ "fill": "dot", "dash": [2, 5] });
            properties.push(json!({ "id": "custom.lineStyle", "value": style }));
        }
        json!({ "matcher": matcher, "properties": properties })
    }));
    if let View::Table(columns) = &panel.view {
        all.extend(columns.iter().filter_map(|column| cell(column, panel)));
    }
    all
}

/// A series in another unit than the first goes by the axis at the right.
fn look(target: &Target, unit: Shown) -> Option<Vec<Value>> {
    let Look { colour, dashed, marked } = target.look;
    let mut properties = vec![fixed(colour?)];
    if target.query.unit != unit {
        properties.push(json!({ "id": "unit", "value": target.query.unit.0 }));
        properties.push(json!({ "id": "custom.axisPlacement", "value": "right" }));
        if let Some(most) = quiet(target.query.unit) {
            properties.push(json!({ "id": "custom.axisSoftMax", "value": most }));
        }
    }
    if marked {
        properties.push(json!({ "id": "custom.drawStyle", "value": "bars" }));
        properties.push(json!({ "id": "custom.fillOpacity", "value": 80 }));
    }
    if dashed {
        for (id, value) in [
            ("custom.drawStyle", json!("line")),
            ("custom.lineStyle", json!({ "fill": "dash", "dash": [8, 6] })),
            ("custom.lineWidth", json!(2)),
            ("custom.fillOpacity", json!(0)),
            ("custom.stacking", json!({ "mode": "none", "group": "A" })),
        ] {
            properties.push(json!({ "id": id, "value": value }));
        }
    }
    Some(properties)
}

/// What a column of a table shows.
fn cell(column: &Column, panel: &Panel) -> Option<Value> {
    let mut properties = Vec::new();
    let mut set = |id: &str, value: Value| properties.push(json!({ "id": id, "value": value }));
    if let From::Values(target) = column.from {
        let unit = panel.targets.get(target).map(|target| target.query.unit);
        if let Some(Shown(unit)) = unit {
            set("unit", json!(unit));
        }
        set("noValue", json!("–"));
    }
    if !column.mappings.is_empty() {
        set("mappings", mappings(&column.mappings));
        set("custom.cellOptions", json!({ "type": "color-background", "mode": "basic" }));
    }
    if column.width > 0 {
        set("custom.width", json!(column.width));
    }
    if let Some(Shown(unit)) = column.unit {
        set("unit", json!(unit));
    }
    match column.leads {
        Some(Leads::Box) => {
            let url = format!(
                "/d/{}?${{__url_time_range}}&${{datasource:queryparam}}&${{job:queryparam}}&var-instance=${{__value.raw}}",
                Board::Box.as_str()
            );
            set("links", json!([{ "title": "This box", "url": url, "targetBlank": false }]));
        }
        Some(Leads::Runbook) => {
            let url = format!("{RUNBOOK_BASE}${{__value.raw}}.md");
            set("links", json!([{ "title": "Runbook", "url": url, "targetBlank": true }]));
        }
        None => {}
    }
    let matcher = json!({ "id": "byName", "options": column.title });
    (!properties.is_empty()).then(|| json!({ "matcher": matcher, "properties": properties }))
}

fn tile_options(tile: Tile) -> Value {
    json!({
        "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false },
        "colorMode": if tile.plain { "value" } else { "background_solid" },
        "graphMode": "none",
        "justifyMode": "center",
        "textMode": "value",
        "orientation": "auto",
        "wideLayout": true,
        "showPercentChange": false,
        "percentChangeColorMode": "standard",
    })
}

fn lines_options(lines: Lines) -> Value {
    let legend = if lines.beside {
        json!({ "showLegend": true, "displayMode": "table", "placement": "right", "calcs": ["lastNotNull"] })
    } else {
        json!({ "showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": [] })
    };
    json!({ "legend": legend, "tooltip": { "mode": "multi", "sort": "desc" } })
}

fn states_options() -> Value {
    json!({
        "legend": { "showLegend": false, "displayMode": "list", "placement": "bottom", "calcs": [] },
        "tooltip": { "mode": "single", "sort": "none" },
        "mergeValues": true,
        "showValue": "auto",
        "alignValue": "left",
        "rowHeight": 0.85,
    })
}

/// The first column of states decides the order: the gravest first.
fn table_options(columns: &[Column]) -> Value {
    let sorted: Vec<Value> = columns
        .iter()
        .filter(|column| !column.mappings.is_empty())
        .take(1)
        .map(|column| json!({ "displayName": column.title, "desc": true }))
        .collect();
    json!({ "showHeader": true, "cellHeight": "sm", "frameIndex": 0, "sortBy": sorted })
}

/// Puts the answers of the targets into one row for each set of labels, and names the columns.
fn transformations(columns: &[Column], targets: usize) -> Value {
    let value = |position: usize| {
        if targets > 1 { format!("Value #{}", letter(position)) } else { "Value".to_owned() }
    };
    let (mut order, mut names, mut hidden) = (Map::new(), Map::new(), Map::new());
    for (position, column) in columns.iter().enumerate() {
        let from = match column.from {
            From::Label(label) => label.to_owned(),
            From::Values(target) => value(target),
        };
        order.insert(from.clone(), json!(position));
        names.insert(from, json!(column.title));
    }
    hidden.insert("Time".to_owned(), json!(true));
    for name in (0..targets).map(value).filter(|name| !order.contains_key(name)) {
        hidden.insert(name, json!(true));
    }
    json!([
        { "id": "merge", "options": {} },
        { "id": "organize", "options": {
            "excludeByName": hidden, "indexByName": order, "renameByName": names } },
    ])
}

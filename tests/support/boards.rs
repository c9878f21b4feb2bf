//! The dashboards as tests read them: JSON, panels, targets, and the selectors of a query.
#![allow(dead_code, clippy::allow_attributes, reason = "each test uses its part of this")]

use gb10_exporter::catalog::links::Board;
use gb10_exporter::grafana;
use promql_parser::label::MatchOp;
use promql_parser::parser::{self, Expr, VectorSelector};
use serde_json::Value;

/// A dashboard, parsed from what is written to its file.
pub(crate) fn json(board: Board) -> Value {
    serde_json::from_str(&grafana::dashboard(board, None)).expect("JSON")
}

/// Every panel but the titles of shelves.
pub(crate) fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().unwrap().iter();
    let panels: Vec<_> = all.filter(|panel| panel["type"] != "row").collect();
    assert!(panels.len() > 10, "found {} panels", panels.len());
    panels
}

/// A panel in words, for messages.
pub(crate) fn name(panel: &Value) -> String {
    format!("#{} {}", panel["id"], panel["title"].as_str().unwrap_or_default())
}

/// The queries of a panel, by letter.
pub(crate) fn targets(panel: &Value) -> Vec<(&str, &str)> {
    let targets = panel["targets"].as_array().unwrap();
    targets.iter().map(|t| (t["refId"].as_str().unwrap(), t["expr"].as_str().unwrap())).collect()
}

/// The queries of annotations.
pub(crate) fn annotations(dashboard: &Value) -> Vec<&str> {
    let list = dashboard["annotations"]["list"].as_array().unwrap();
    list.iter().map(|a| a["expr"].as_str().unwrap()).collect()
}

/// A selector in a query.
pub(crate) struct Selector {
    pub(crate) metric: String,
    /// Label, operator, value.
    pub(crate) matchers: Vec<(String, String, String)>,
    /// Whether it is the argument of a rate or an increase.
    pub(crate) grows: bool,
}

/// The selectors of a query, and the labels that it groups by.
pub(crate) fn selectors(query: &str) -> (Vec<Selector>, Vec<String>) {
    let text = query.replace("$__rate_interval", "5m");
    let expression = parser::parse(&text).unwrap_or_else(|e| panic!("{query}: {e}"));
    let (mut found, mut by) = (Vec::new(), Vec::new());
    walk(&expression, false, &mut found, &mut by);
    assert!(!found.is_empty(), "{query} asks for nothing");
    (found, by)
}

fn walk(expression: &Expr, grows: bool, found: &mut Vec<Selector>, by: &mut Vec<String>) {
    match expression {
        Expr::Aggregate(a) => {
            if let Some(parser::LabelModifier::Include(labels)) = &a.modifier {
                by.extend(labels.labels.iter().cloned());
            }
            walk(&a.expr, grows, found, by);
        }
        Expr::Unary(u) => walk(&u.expr, grows, found, by),
        Expr::Binary(b) => {
            walk(&b.lhs, grows, found, by);
            walk(&b.rhs, grows, found, by);
        }
        Expr::Paren(p) => walk(&p.expr, grows, found, by),
        Expr::Subquery(s) => walk(&s.expr, grows, found, by),
        Expr::Call(call) => {
            let grows = ["rate", "irate", "increase"].contains(&call.func.name);
            call.args.args.iter().for_each(|argument| walk(argument, grows, found, by));
        }
        Expr::VectorSelector(v) => found.push(selector(v, grows)),
        Expr::MatrixSelector(m) => found.push(selector(&m.vs, grows)),
        _ => {}
    }
}

fn selector(vector: &VectorSelector, grows: bool) -> Selector {
    let operator = |op: &MatchOp| match op {
        MatchOp::Equal => "=",
        MatchOp::NotEqual => "!=",
        MatchOp::Re(_) => "=~",
        MatchOp::NotRe(_) => "!~",
    };
    let matchers = vector.matchers.matchers.iter();
    Selector {
        metric: vector.name.clone().expect("every selector names its metric"),
        matchers: matchers
            .map(|m| (m.name.clone(), operator(&m.op).to_owned(), m.value.clone()))
            .collect(),
        grows,
    }
}

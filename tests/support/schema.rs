//! As much of JSON Schema as the schema of dashboards uses.

use serde_json::Value;

/// Keywords that are understood. Another would hold nothing, unnoticed.
const KNOWN: [&str; 11] = [
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "enum",
    "items",
    "properties",
    "required",
    "type",
];

/// What is wrong with a value, by its place; empty when nothing is.
pub(crate) fn wrong(value: &Value, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    let Some(rules) = schema.as_object() else { return Vec::new() };
    let unknown = rules.keys().find(|key| !KNOWN.contains(&key.as_str()));
    assert_eq!(unknown, None, "a keyword of the schema that is not understood");
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/definitions/").unwrap();
        return wrong(value, &root["definitions"][name], root, at);
    }
    let mut all = Vec::new();
    if rules.contains_key("type") && !types(&schema["type"]).any(|kind| is(value, kind)) {
        return vec![format!("{at}: {value} is no {}", schema["type"])];
    }
    if rules.contains_key("const") && schema["const"] != *value {
        all.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        all.push(format!("{at}: {value} is none of {}", schema["enum"]));
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        // What is wrong by the choice that fits best is what a reader wants to know.
        let tried = choices.iter().map(|choice| wrong(value, choice, root, at));
        all.extend(tried.min_by_key(Vec::len).unwrap_or_default());
    }
    if let Some(members) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap()) {
                all.push(format!("{at}: {name} is missing"));
            }
        }
        for (name, member) in members {
            let at = format!("{at}.{name}");
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => all.push(format!("{at} is not known")),
                (Value::Null, more) => all.extend(wrong(member, more, root, &at)),
                (property, _) => all.extend(wrong(member, property, root, &at)),
            }
        }
    }
    for (position, item) in value.as_array().into_iter().flatten().enumerate() {
        all.extend(wrong(item, &schema["items"], root, &format!("{at}[{position}]")));
    }
    all
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    rule.as_str().into_iter().chain(rule.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the type {other} is not understood"),
    }
}

//! Holds answers against the schemas of `openapi.yaml`: as much of JSON Schema as the document uses, and it says so
//! when the document uses more.

use super::DOCUMENT;
use serde_json::Value;
use std::sync::LazyLock;

/// The document.
pub static OPENAPI: LazyLock<Value> = LazyLock::new(|| serde_yaml_ng::from_str(DOCUMENT).unwrap());

/// What is wrong with the answer at an address, by the path of the document that it belongs to.
pub fn check(address: &str, status: u16, body: &Value) -> Vec<String> {
    let operation = path_of(address).map(|path| &OPENAPI["paths"][path]["get"]);
    let responses = operation.map(|operation| &operation["responses"]);
    let response = match responses {
        Some(responses) if !responses[status.to_string()].is_null() => &responses[status.to_string()],
        Some(responses) => &responses["default"],
        // What is at no path of the document is an error of the one form.
        None => &OPENAPI["components"]["responses"]["Error"],
    };
    let schema = &resolved(response)["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{address}: the document has no schema for {status}");
    let mut wrong = Vec::new();
    compare(schema, body, "$", &mut wrong);
    wrong
}

/// The path of the document that an address belongs to; of several the one with the fewest placeholders.
pub fn path_of(address: &str) -> Option<&'static str> {
    let fits = |path: &str| {
        let (wanted, given): (Vec<&str>, Vec<&str>) =
            (path.split('/').collect(), address.split('/').collect());
        wanted.len() == given.len()
            && wanted.iter().zip(&given).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
    };
    let paths = OPENAPI["paths"].as_object().unwrap().keys().filter(|path| fits(path));
    paths.min_by_key(|path| path.matches('{').count()).map(String::as_str)
}

/// Follows `$ref`.
pub fn resolved(mut value: &'static Value) -> &'static Value {
    while let Some(place) = value["$ref"].as_str() {
        value =
            OPENAPI.pointer(place.trim_start_matches('#')).unwrap_or_else(|| panic!("{place} leads nowhere"));
    }
    value
}

const KNOWN: [&str; 17] = [
    "$ref",
    "type",
    "description",
    "properties",
    "required",
    "items",
    "enum",
    "oneOf",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "schema",
    "name",
    "in",
];

fn compare(schema: &'static Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let schema = resolved(schema);
    for key in schema.as_object().unwrap().keys() {
        assert!(KNOWN.contains(&key.as_str()), "{at}: this check does not know `{key}`");
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| {
            let mut wrong = Vec::new();
            compare(choice, value, at, &mut wrong);
            wrong.is_empty()
        });
        if fitting.count() != 1 {
            wrong.push(format!("{at}: {value} fits not one of the choices"));
        }
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => panic!("{at}: a schema without a type"),
    };
    if !types.iter().any(|name| is_of(value, name)) {
        return wrong.push(format!("{at}: {value} is no {types:?}"));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        wrong.push(format!("{at}: {value} is none of {words:?}"));
    }
    if let Some(items) = value.as_array() {
        for (place, item) in items.iter().enumerate() {
            compare(&schema["items"], item, &format!("{at}[{place}]"), wrong);
        }
    }
    if let Some(fields) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                wrong.push(format!("{at}: no {name}"));
            }
        }
        // An object without a list of its fields may have any.
        let Some(known) = schema["properties"].as_object() else { return };
        for (name, field) in fields {
            match known.get(name) {
                Some(schema) => compare(schema, field, &format!("{at}.{name}"), wrong),
                None => wrong.push(format!("{at}: {name} is not in the document")),
            }
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let good = serde_json::json!({"from_ms": null, "to_ms": 1, "tables": [{"table": "events", "from_ms": 1, "to_ms": 2}]});
    assert_eq!(check("/range", 200, &good), Vec::<String>::new());
    for (place, bad) in [("/from_ms", "x".into()), ("/tables/0/to_ms", Value::Null), ("/tables", 1.into())] {
        let mut value = good.clone();
        *value.pointer_mut(place).unwrap() = bad;
        assert_eq!(check("/range", 200, &value).len(), 1, "{place}");
    }
    let mut more = good.clone();
    more["extra"] = 1.into();
    more.as_object_mut().unwrap().remove("to_ms");
    assert_eq!(check("/range", 200, &more).len(), 2);
    assert_eq!(check("/range", 500, &good).len(), 4, "an error has another form");
}

//! Holds documents against the schemas in docs/: `--json` of every command is one JSON document with a `format`.

use crate::common::bench::{Bench, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The schema of a format, `baremark-NAME/VERSION`; its title and version are checked.
fn schema_of(format: &str) -> Value {
    let name = format.strip_prefix("baremark-").and_then(|rest| rest.split_once('/')).expect(format).0;
    let path = match name {
        "result" => docs().join("result.schema.json"),
        name => docs().join("schemas").join(format!("{name}.schema.json")),
    };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{format} has no schema {path:?}: {why}"));
    serde_json::from_str(&text).unwrap()
}

/// Where `value` is not what `schema` says; the parts of JSON Schema that docs/ uses, and no others.
pub fn misfits(value: &Value, schema: &Value, root: &Value, at: &str, found: &mut Vec<String>) {
    const KNOWN: [&str; 21] = [
        "$schema",
        "$defs",
        "title",
        "description",
        "default",
        "format",
        "minimum",
        "maximum",
        "type",
        "const",
        "enum",
        "$ref",
        "anyOf",
        "oneOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
    ];
    let Some(schema) = schema.as_object() else { return };
    found.extend(
        schema.keys().filter(|key| !KNOWN.contains(&key.as_str())).map(|key| format!("{at}: unknown keyword {key}")),
    );
    if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(path.trim_start_matches('#')).expect(path);
        misfits(value, target, root, at, found);
    }
    if schema.get("const").is_some_and(|expected| expected != value) {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema.get("enum").is_some_and(|all| !all.as_array().unwrap().contains(value)) {
        found.push(format!("{at}: {value} is not among {}", schema["enum"]));
    }
    if let Some(types) = schema.get("type") {
        let types: Vec<&str> = types.as_array().map_or_else(
            || vec![types.as_str().unwrap()],
            |types| types.iter().map(|of| of.as_str().unwrap()).collect(),
        );
        if !types.iter().any(|of| is_of(value, of)) {
            found.push(format!("{at}: {value} is not of type {types:?}"));
            return;
        }
    }
    for choice in ["anyOf", "oneOf"] {
        let fits = |schema: &Value| {
            let mut found = Vec::new();
            misfits(value, schema, root, at, &mut found);
            found.is_empty()
        };
        if schema.get(choice).is_some_and(|all| !all.as_array().unwrap().iter().any(fits)) {
            found.push(format!("{at}: no alternative fits {value}"));
        }
    }
    in_object(value, schema, root, at, found);
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        items.iter().enumerate().for_each(|(n, item)| misfits(item, schema, root, &format!("{at}/{n}"), found));
    }
}

/// The same of an object's keys.
fn in_object(value: &Value, schema: &serde_json::Map<String, Value>, root: &Value, at: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !object.contains_key(key.as_str().unwrap()) {
            found.push(format!("{at}: {key} is missing"));
        }
    }
    for (key, value) in object {
        let at = format!("{at}/{key}");
        match (schema.get("properties").and_then(|known| known.get(key)), schema.get("additionalProperties")) {
            (Some(known), _) => misfits(value, known, root, &at, found),
            (None, Some(Value::Bool(false))) => found.push(format!("{at}: not in the schema")),
            (None, Some(other)) => misfits(value, other, root, &at, found),
            (None, None) => {}
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("type {other}"),
    }
}

/// Holds what a command printed, one document, against the schema of its format.
pub fn assert_fits(stdout: &[u8], format: &str) -> Value {
    let document: Value = serde_json::from_slice(stdout).unwrap_or_else(|why| panic!("{why}: {}", text(stdout)));
    assert_eq!(document["format"], format);
    let schema = schema_of(format);
    let mut found = Vec::new();
    misfits(&document, &schema, &schema, "", &mut found);
    assert_eq!(found, Vec::<String>::new(), "{format}");
    document
}

/// Holds what a command prints against the schema of its format.
pub fn fits(bench: &Bench, arguments: &[&str], format: &str) -> Value {
    let output = bench.run(arguments);
    assert!(!output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    assert_fits(&output.stdout, format)
}

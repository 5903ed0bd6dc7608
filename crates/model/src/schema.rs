//! docs/result.schema.json and docs/schemas say what the types say.

use crate::comparison::Comparison;
use crate::document::Document;
use crate::joined::Joined;
use crate::scale::ScaleDocument;
use std::path::Path;

/// The documents that have types, with their schemas below docs/.
fn documents() -> [(&'static str, schemars::Schema); 4] {
    [
        ("result.schema.json", schemars::schema_for!(Document)),
        ("schemas/comparison.schema.json", schemars::schema_for!(Comparison)),
        ("schemas/joined.schema.json", schemars::schema_for!(Joined)),
        ("schemas/scale.schema.json", schemars::schema_for!(ScaleDocument)),
    ]
}

fn written(schema: &schemars::Schema) -> String {
    serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n"
}

#[test]
fn the_schemas_in_docs_are_those_that_the_types_give() {
    for (name, schema) in documents() {
        let generated = written(&schema);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &generated).expect("docs/ can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == generated,
            "docs/{name} is not what the types give; \
             run `UPDATE_SCHEMA=1 cargo test -p baremark-model --lib schema` and review the difference:\n{}",
            first_difference(&kept, &generated)
        );
    }
}

#[test]
fn every_type_and_field_of_the_document_is_described() {
    let schema: serde_json::Value = serde_json::from_str(&written(&documents()[0].1)).expect("JSON");
    let mut bare = Vec::new();
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        if definition.get("description").is_none() {
            bare.push(name.clone());
        }
        for (field, property) in definition["properties"].as_object().into_iter().flatten() {
            if property.get("description").is_none() {
                bare.push(format!("{name}.{field}"));
            }
        }
    }
    assert_eq!(bare, Vec::<String>::new());
}

fn first_difference(kept: &str, generated: &str) -> String {
    let differs = kept.lines().zip(generated.lines()).enumerate().find(|(_, (old, new))| old != new);
    match differs {
        Some((index, (old, new))) => format!("line {}:\n- {old}\n+ {new}", index + 1),
        None => format!("one ends early: {} and {} lines", kept.lines().count(), generated.lines().count()),
    }
}

//! docs/result.schema.json says what the types say.

use baremark_model::document::Document;
use std::path::Path;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");

fn generated() -> String {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Document)).expect("a schema is JSON");
    schema + "\n"
}

#[test]
fn the_schema_in_docs_is_the_one_that_the_types_give() {
    let generated = generated();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(PATH, &generated).expect("docs/ can be written");
    }
    let kept = std::fs::read_to_string(Path::new(PATH)).unwrap_or_default();
    assert!(
        kept == generated,
        "docs/result.schema.json is not what the types give; \
         run `UPDATE_SCHEMA=1 cargo test -p baremark-model --test model schema` and review the difference:\n{}",
        first_difference(&kept, &generated)
    );
}

#[test]
fn every_type_and_field_of_the_document_is_described() {
    let schema: serde_json::Value = serde_json::from_str(&generated()).expect("JSON");
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

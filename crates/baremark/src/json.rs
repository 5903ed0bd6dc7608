//! The documents of `--json` that have no type of their own: one JSON object each, with its `format`.
//!
//! Each format has a schema in docs/schemas, which the end-to-end test `schemas` compares with real output. Keys are only added within a
//! version.

use serde_json::Value;

/// `body`, which must be an object, as a document of `format` (`baremark-NAME/VERSION`), indented, with a line's end.
pub fn document(format: &str, mut body: Value) -> String {
    body["format"] = format.into();
    format!("{body:#}\n")
}

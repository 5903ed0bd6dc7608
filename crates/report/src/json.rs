//! The result document as programs read it.

use baremark_model::document::Document;

/// The document as JSON, indented, with a newline at its end.
///
/// # Panics
/// Never: every key of a document is a string.
#[must_use]
pub fn render(document: &Document) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("all keys of a document are strings");
    text.push('\n');
    text
}

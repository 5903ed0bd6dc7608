//! The document of `baremark verify-host`.

use serde_json::Value;

/// The rows of a part.
pub fn rows_of<'d>(document: &'d Value, part: &str) -> Vec<&'d Value> {
    document["rows"].as_array().unwrap().iter().filter(|row| row["part"] == part).collect()
}

//! `baremark show`: the text of a shipped study, and what `--print-study` prints.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::json;
use crate::source::Source;
use serde_json::json;

/// Shown by `baremark show --help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark show standard
  baremark show order-entry > study.toml   # to be changed, then: baremark run";

/// Shown by `baremark init --help`.
pub const INIT_EXAMPLES: &str = "\
Examples:
  baremark init > study.toml            # then: baremark run study.toml";

/// The study's text, with its comments; as JSON with its name.
pub fn print(context: &Context, study: &Source) -> Result<(String, Exit), Refusal> {
    let text = String::from_utf8_lossy(&study.bytes).into_owned();
    if context.json {
        let text = json::document("baremark-study/1", json!({ "name": study.name, "text": text }));
        return Ok((text, Exit::Success));
    }
    Ok((text, Exit::Success))
}

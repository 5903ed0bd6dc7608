//! `baremark show`: the text of a shipped study or of a run's, and what `--print-study` prints.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::json;
use crate::overrides::{self, Changes, Spending};
use crate::source::{self, Source};
use baremark_store::StoreError;
use serde_json::json;

/// Shown by `baremark show --help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark show standard
  baremark show order-entry > study.toml   # to be changed, then: baremark run
  baremark show 7f3a > study.toml          # what the run 7f3a measured";

/// Shown by `baremark init --help`.
pub const INIT_EXAMPLES: &str = "\
Examples:
  baremark init > study.toml            # then: baremark run study.toml";

/// `baremark show`: a shipped study, else the study of a run.
pub fn run(context: &Context, named: &str, changes: &Changes) -> Result<(String, Exit), Refusal> {
    let study = match source::shipped_by_name(named) {
        Ok(study) => study,
        Err(unknown) => of_a_run(context, named)?.ok_or(unknown)?,
    };
    print(context, &overrides::applied(study, changes, &Spending::default())?)
}

/// The study of the run that is meant; `None` where there is no such run, or no store.
fn of_a_run(context: &Context, named: &str) -> Result<Option<Source>, Refusal> {
    if !context.store_path()?.exists() {
        return Ok(None);
    }
    let store = context.open_store()?;
    let id = match store.resolve(named) {
        Ok(id) => id,
        Err(StoreError::Unknown { .. }) => return Ok(None),
        Err(why) => return Err(Refusal::failure(why)),
    };
    let head = store.load_head(&id).map_err(Refusal::failure)?;
    Ok(Some(Source::new(head.study_file, head.study_text.into_bytes())))
}

/// The study's text, with its comments; as JSON with its name.
pub fn print(context: &Context, study: &Source) -> Result<(String, Exit), Refusal> {
    let text = String::from_utf8_lossy(&study.bytes).into_owned();
    if context.json {
        let text = json::document("baremark-study/1", json!({ "name": study.name, "text": text }));
        return Ok((text, Exit::Success));
    }
    Ok((text, Exit::Success))
}

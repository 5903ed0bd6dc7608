//! The search for the most users of one application that keep every limit.

use crate::ground::{Event, Ground, RunError};
use crate::under_load::Loaded;
use crate::users;
use baremark_lab::search::Search;
use baremark_model::maximum;
use std::sync::Arc;
use std::time::Instant;

/// Searches for the most users of one application, from `lowest` on.
pub(crate) fn search(
    loaded: &mut Loaded<'_>,
    title: &str,
    lowest: f64,
    deadline: Option<Instant>,
    ground: &mut Ground<'_>,
    remarks: &mut Vec<String>,
) -> Result<maximum::Document, RunError> {
    let interrupt = Arc::clone(&ground.interrupt);
    let scenario = loaded.load().map_err(RunError::Load)?.scenario;
    let qos = users::qos(&scenario, loaded.demand());
    let mut plan = loaded.demand().search;
    plan.highest = loaded.highest() as f64;
    plan.lowest = lowest.min(plan.highest / 2.0);
    let watch = &mut *ground.watch;
    let mut search = Search {
        title,
        factor: "users",
        qos: &qos,
        plan,
        interrupt: &interrupt,
        deadline,
        watch: &mut |step| watch(&Event::Search(step)),
    };
    let (document, broken) = search.run(loaded)?;
    remarks.extend(broken);
    Ok(document)
}

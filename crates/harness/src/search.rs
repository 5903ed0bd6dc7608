//! The search for the most users of one application that keep every limit.

use crate::phase_context::{Event, Ground, RunError, Stored};
use crate::under_load::Loaded;
use crate::users;
use baremark_lab::search::{Probe, Search, Step};
use baremark_model::maximum;
use std::sync::Arc;
use std::time::Instant;

/// Searches for the most users of application number `at`, from `lowest` on, and stores each window as it ends.
pub(crate) fn search(
    loaded: &mut Loaded<'_>,
    (at, title): (usize, &str),
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
    let stored = of_application(ground.stored, at);
    if !stored.is_empty() {
        remarks.push(format!(
            "{} windows of the search of {title} were measured before the run was resumed",
            stored.len()
        ));
    }
    let (watch, store) = (&mut *ground.watch, &mut *ground.store);
    let mut see = |step: &Step| {
        if let Step::Window { trial, level, reading, stored: false, .. } = step {
            store(&Stored::Window { application: at, probe: Box::new(Probe::new(*trial, *level, reading)) });
        }
        watch(&Event::Search(step));
    };
    let mut search = Search {
        title,
        factor: "users",
        qos: &qos,
        plan,
        interrupt: &interrupt,
        deadline,
        around: None,
        stored,
        watch: &mut see,
    };
    let (document, broken) = search.run(loaded)?;
    remarks.extend(broken);
    Ok(document)
}

/// The windows that were stored of one application.
fn of_application(stored: &[Stored], at: usize) -> Vec<Probe> {
    let own = |one: &Stored| match one {
        Stored::Window { application, probe } if *application == at => Some((**probe).clone()),
        Stored::Window { .. } | Stored::InStep { .. } => None,
    };
    stored.iter().filter_map(own).collect()
}

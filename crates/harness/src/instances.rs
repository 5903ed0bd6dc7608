//! Several applications on one machine: all in step until half of them fail, then each alone; the result is the sum.
//!
//! While one is searched alone the others keep the most users that all carried together, so that it has the company that it
//! would have.

use crate::document::ApplicationRow;
use crate::fixed_load::broken;
use crate::phase_context::{Ground, RunError, Stored};
use crate::search::search;
use crate::topology::Demand;
use crate::under_load::Loaded;
use crate::users;
use baremark_lab::search::UnderLoad;
use baremark_model::units::Nanos;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Finds the most users of each of several applications.
pub(crate) fn find(
    all: &mut [Loaded<'_>],
    deadline: Option<Instant>,
    ground: &mut Ground<'_>,
    rows: &mut [ApplicationRow],
    remarks: &mut Vec<String>,
) -> Result<(), RunError> {
    for loaded in all.iter_mut() {
        loaded.start(0).map_err(RunError::Load)?;
    }
    let known = ground.stored.iter().find_map(|one| match one {
        Stored::InStep { users, exceeded } => Some((*users, *exceeded)),
        Stored::Window { .. } => None,
    });
    let (together, failed) = match known {
        Some(known) => known,
        None => {
            let (users, exceeded) = in_step(all, all[0].demand(), ground)?;
            (ground.store)(&Stored::InStep { users, exceeded });
            (users, exceeded)
        }
    };
    remarks.push(format!(
        "in step every application carried {together:.0} users; at the next level {failed} of {} exceeded a limit",
        all.len()
    ));
    for at in 0..all.len() {
        if ground.interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        for (other, loaded) in all.iter_mut().enumerate() {
            loaded.users(if other == at { 0.0 } else { together }).map_err(RunError::Load)?;
        }
        // Each has its part of the time that is left.
        let share = |deadline: Instant| {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now).div_f64((all.len() - at) as f64)
        };
        let deadline = deadline.map(share);
        let lowest = (0.5 * together).max(1.0);
        rows[at].search = Some(search(&mut all[at], (at, &rows[at].name), lowest, deadline, ground, remarks)?);
    }
    Ok(())
}

/// Doubles the users of all until half of them fail; returns the last number that all carried, and how many failed.
fn in_step(all: &mut [Loaded<'_>], demand: &Demand, ground: &Ground<'_>) -> Result<(f64, usize), RunError> {
    let (mut carried, mut level) = (0.0, demand.search.lowest);
    let highest = all.iter().map(Loaded::highest).min().unwrap_or(1) as f64;
    loop {
        let failed = step(all, demand, level.min(highest))?;
        if failed == 0 {
            carried = level.min(highest);
        }
        if 2 * failed >= all.len() || level >= highest || ground.interrupt.load(Ordering::Relaxed) {
            return Ok((carried.max(1.0), failed));
        }
        level *= 2.0;
    }
}

/// One window of all at one level; how many broke a limit.
fn step(all: &mut [Loaded<'_>], demand: &Demand, level: f64) -> Result<usize, RunError> {
    for loaded in all.iter_mut() {
        loaded.users(level).map_err(RunError::Load)?;
    }
    if let Some(first) = all.first_mut() {
        first.set(level, Nanos(users::nanos(demand.search.settle_s))).map_err(RunError::Load)?;
    }
    let lasting = Nanos(users::nanos(demand.search.window_s));
    let asked: Vec<_> =
        all.iter_mut().map(|loaded| loaded.ask(lasting)).collect::<Result<_, _>>().map_err(RunError::Load)?;
    let mut failed = 0;
    for (loaded, asked) in all.iter_mut().zip(asked) {
        let qos = users::qos(&loaded.load().map_err(RunError::Load)?.scenario, loaded.demand());
        let (_, reading) = loaded.collect(asked, &qos).map_err(RunError::Load)?;
        failed += usize::from(!broken(&reading, &qos).is_empty());
    }
    Ok(failed)
}

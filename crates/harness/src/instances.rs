//! Several applications on one machine: all in step until half of them fail, then each alone; the result is the sum.
//!
//! While one is searched alone the others keep the most users that all carried together, so that it has the company that it
//! would have.

use crate::cluster::Cluster;
use crate::conduct::{Event, Ground, RunError, rest};
use crate::document::ApplicationRow;
use crate::fixed::broken;
use crate::topology::Demand;
use crate::under_load::Loaded;
use crate::users;
use baremark_lab::search::{Search, UnderLoad};
use baremark_model::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Finds the most users of each of several applications.
pub(crate) fn find(
    clusters: &mut [Cluster],
    demand: &Demand,
    seed: u64,
    ground: &mut Ground<'_>,
    rows: &mut [ApplicationRow],
    remarks: &mut Vec<String>,
) -> Result<(), RunError> {
    let interrupt = Arc::clone(&ground.interrupt);
    let mut all: Vec<Loaded<'_>> = clusters
        .iter_mut()
        .enumerate()
        .map(|(at, cluster)| Loaded::new(cluster, demand, seed.wrapping_add(1000 * at as u64), Arc::clone(&interrupt)))
        .collect();
    for loaded in &mut all {
        loaded.start(0).map_err(RunError::Load)?;
    }
    let (together, failed) = in_step(&mut all, demand, ground)?;
    remarks.push(format!(
        "in step all carried {together:.0} users each; at the next step {failed} of {} failed",
        all.len()
    ));
    for at in 0..all.len() {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        for (other, loaded) in all.iter_mut().enumerate() {
            loaded.users(if other == at { 0.0 } else { together }).map_err(RunError::Load)?;
        }
        let scenario = all[at].load().map_err(RunError::Load)?.scenario;
        let qos = users::qos(&scenario, demand, users::Judged::Searched);
        let mut plan = demand.search;
        plan.highest = all[at].highest() as f64;
        plan.lowest = (0.5 * together).clamp(1.0, plan.highest / 2.0);
        let watch = &mut *ground.watch;
        let title = rows[at].name.clone();
        let mut search = Search {
            title: &title,
            factor: "users",
            qos: &qos,
            plan,
            interrupt: &interrupt,
            watch: &mut |step| watch(&Event::Search(Box::new(step.clone()))),
        };
        let (document, why) = search.run(&mut all[at])?;
        remarks.extend(why);
        rows[at].search = Some(document);
    }
    all.iter_mut().try_for_each(rest)
}

/// Doubles the users of all until half of them fail; returns the last number that all carried, and how many failed.
fn in_step(all: &mut [Loaded<'_>], demand: &Demand, ground: &mut Ground<'_>) -> Result<(f64, usize), RunError> {
    let (mut carried, mut level) = (0.0, demand.search.lowest);
    let highest = all.iter().map(Loaded::highest).min().unwrap_or(1) as f64;
    loop {
        let failed = step(all, demand, level.min(highest))?;
        (ground.watch)(&Event::Step(format!("{level:.0} users each: {failed} of {} fail", all.len())));
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
        let qos = users::qos(&loaded.load().map_err(RunError::Load)?.scenario, demand, users::Judged::Searched);
        let seen = loaded.collect(asked, &qos).map_err(RunError::Load)?;
        failed += usize::from(!broken(&seen.reading, &qos).is_empty());
    }
    Ok(failed)
}

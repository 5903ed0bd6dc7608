//! Starting several sites side by side, so that all take about as long as one would alone.
//!
//! As many at a time as this machine has CPUs, for what starts a site works here too. When one cannot be started the others
//! are given up, and none is left.

use crate::link::LinkError;
use baremark_model::order;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often it is checked whether sites are there.
const GLANCE: Duration = Duration::from_millis(2);

/// What `start` makes of each of `of` indices, in their order; else the index of the one that could not be, and why.
/// `start` is to give up as soon as the flag that it is handed is set: one that gave up for that reason is not a cause.
///
/// # Errors
/// The first cause by index; [`LinkError::Interrupted`] when the user set `interrupt`.
pub(crate) fn start_in_parallel<T: Send>(
    of: usize,
    interrupt: &AtomicBool,
    start: impl Fn(usize, &AtomicBool) -> Result<T, LinkError> + Sync,
) -> Result<Vec<T>, (usize, LinkError)> {
    if of == 1 {
        return Ok(vec![start(0, interrupt).map_err(|why| (0, why))?]);
    }
    let (next, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut started = Vec::new();
        while !given_up.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= of {
                break;
            }
            let site = start(index, &given_up);
            given_up.fetch_or(site.is_err(), Ordering::Relaxed);
            started.push((index, site));
        }
        started
    };
    let at_a_time = thread::available_parallelism().map_or(1, NonZero::get).max(2).min(of);
    let mut sites = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            given_up.fetch_or(interrupt.load(Ordering::Relaxed), Ordering::Relaxed);
            thread::sleep(GLANCE);
        }
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        ended.flatten().collect::<Vec<_>>()
    });
    order::by_key(&mut sites, |(index, _)| *index);
    // Those that were given up because of another say only that.
    let cause = sites.iter().position(|(_, site)| !matches!(site, Ok(_) | Err(LinkError::Interrupted)));
    if let Some((index, Err(why))) = cause.map(|cause| sites.swap_remove(cause)) {
        return Err((index, why));
    }
    if sites.len() < of {
        return Err((sites.len(), LinkError::Interrupted));
    }
    sites.into_iter().map(|(index, site)| site.map_err(|why| (index, why))).collect()
}

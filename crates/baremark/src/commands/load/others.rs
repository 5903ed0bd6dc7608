//! Before a search: what the system carries for a moment, and which programs are the system that is loaded. All others disturb what is measured.
//!
//! Programs that were idle before the closed loop and at work under it are what is loaded, with whatever they start: a server, and what is behind it.
//! What others use of the CPUs is taken from it and from the load generator, so that a window that fails meanwhile is no evidence. One that passes is.

use baremark_load::load::{Drive, Engine, Load, Stop};
use baremark_model::units::Nanos;
use baremark_sys::cpu_users::{CpuUsers, outermost_of, outermost_of_this_program};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long programs are looked at before the closed loop, and how long that is.
const IDLE: Duration = Duration::from_millis(500);
const CLOSED: Nanos = Nanos(1_500_000_000);
/// The most connections of the closed loop: more queue at the server.
const CONNECTIONS: usize = 64;
/// The system under load uses at least this share of a CPU under load, and so many times what it used before.
const AT_WORK: f64 = 0.02;
const TIMES: f64 = 3.0;
/// Others that use more than this share of all CPUs disturb.
const DISTURBING: f64 = 0.1;
const GLANCE: Duration = Duration::from_millis(50);

/// The processes that are loaded.
#[derive(Debug)]
pub(super) struct Others {
    system: BTreeSet<u32>,
    cpus: f64,
}

/// What the first load has shown.
pub(super) struct Probed {
    /// Operations per second that ended well; `None` where none did.
    pub per_s: Option<f64>,
    pub others: Option<Others>,
}

/// Loads the system for a moment: by a closed loop, or where the search has a `range` as `load` does, at its highest rate: nobody is loaded
/// beyond what was given. What goes wrong is left to the search to say.
pub(super) fn probe(load: &Load, range: bool, interrupt: &Arc<AtomicBool>) -> Probed {
    let begin = CpuUsers::now().ok();
    let until = Instant::now() + IDLE;
    while Instant::now() < until && !interrupt.load(Ordering::Relaxed) {
        thread::sleep(GLANCE);
    }
    let (idle, loaded_from) = (CpuUsers::now().ok(), Instant::now());
    let per_s = loaded_for_a_moment(load, range, interrupt);
    let (loaded, lasted) = (CpuUsers::now().ok(), loaded_from.elapsed());
    let own = outermost_of_this_program();
    let system = begin.zip(idle).zip(loaded).map(|((begin, idle), loaded)| {
        let (before, under) = (idle.processes_since(&begin, own), loaded.processes_since(&idle, own));
        let working = at_work((&before, IDLE.as_secs_f64()), (&under, lasted.as_secs_f64()));
        // A server may start other children for the search than it had here: they are its first process's as well.
        working.into_iter().map(outermost_of).collect()
    });
    #[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
    let cpus = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    // Of a server on another machine there is no process here: everything else is another program.
    Probed { per_s, others: system.map(|system| Others { system, cpus }) }
}

fn loaded_for_a_moment(load: &Load, range: bool, interrupt: &Arc<AtomicBool>) -> Option<f64> {
    let mut probing = load.clone();
    probing.stop = Stop::After(CLOSED);
    if !range {
        probing.drive = Drive::Closed;
        probing.connections = probing.connections.clamp(probing.threads, CONNECTIONS.max(probing.threads));
    }
    let part = Engine::new(probing, Arc::clone(interrupt)).ok()?.run(&mut |_| ()).ok()?;
    let ended: u64 = part.operations.iter().map(|operation| operation.raw.count()).sum();
    #[expect(clippy::cast_precision_loss, reason = "operations of a moment")]
    let per_s = ended as f64 / (part.elapsed_ns.max(1) as f64 / 1e9);
    (ended > 0).then_some(per_s)
}

/// Processes that were at work under the load and not before it, of seconds of processor time in so many seconds each.
fn at_work(
    (before, idle_s): (&BTreeMap<u32, f64>, f64),
    (under, loaded_s): (&BTreeMap<u32, f64>, f64),
) -> BTreeSet<u32> {
    let share =
        |of: &BTreeMap<u32, f64>, pid: u32, seconds: f64| of.get(&pid).copied().unwrap_or(0.0) / seconds.max(1e-9);
    let works = |pid: &u32| {
        let now = share(under, *pid, loaded_s);
        now >= AT_WORK && now > TIMES * share(before, *pid, idle_s)
    };
    under.keys().copied().filter(works).collect()
}

impl Others {
    /// What other programs took of the CPUs between two moments, in words, where that is enough to disturb.
    pub(super) fn disturbed(&self, before: &CpuUsers, after: &CpuUsers, elapsed: Duration) -> Option<String> {
        let mut apart = self.system.clone();
        apart.insert(outermost_of_this_program());
        words(&after.apart_from(before, &apart), self.cpus * elapsed.as_secs_f64())
    }
}

fn words(others: &[(String, f64)], all_s: f64) -> Option<String> {
    let share = |seconds: f64| seconds / all_s.max(1e-9);
    let sum = share(others.iter().map(|(_, seconds)| seconds).sum());
    let named: Vec<String> =
        others.iter().take(2).map(|(name, seconds)| format!("{name} {:.0} %", 100.0 * share(*seconds))).collect();
    (sum > DISTURBING).then(|| format!("other programs used {:.0} % of the CPUs ({})", 100.0 * sum, named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wakes_with_the_load_is_the_system() {
        let before = BTreeMap::from([(1, 0.0), (7, 0.4), (9, 0.01)]);
        let under = BTreeMap::from([(1, 0.001), (7, 1.3), (8, 1.2), (9, 0.3)]);
        // 7 was at work all along; 8 and 9 are at work under the load alone; 1 sleeps.
        assert_eq!(at_work((&before, 0.5), (&under, 1.5)), BTreeSet::from([8, 9]));
    }

    #[test]
    fn others_disturb_from_a_tenth_of_the_cpus_on() {
        let of = |seconds: &[(&str, f64)]| {
            let others: Vec<(String, f64)> = seconds.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect();
            words(&others, 4.0)
        };
        assert_eq!(of(&[("cc1", 0.3), ("make", 0.1)]), None);
        let words = "other programs used 50 % of the CPUs (cc1 40 %, make 9 %)";
        assert_eq!(of(&[("cc1", 1.6), ("make", 0.36), ("sh", 0.04)]).as_deref(), Some(words));
    }
}

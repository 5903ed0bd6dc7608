//! What every executor must do, checked on any of them.
//!
//! It is next to the executors and not in a test, so that the suites of this crate and of the binary, whose machines
//! and guests differ, hold all of them to the same contract.

use baremark_model::conformance::{Violation, demand};
use baremark_model::seam::{Body, Executor, Fault, RunRecord, Work, timed_region};
use baremark_model::team::Team;
use std::hint::black_box;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Runs every check against `executor`, which stays usable.
///
/// # Errors
/// What the executor did that it must not, in words; the first violation ends the suite.
pub fn conformance(executor: &mut dyn Executor) -> Result<(), Violation> {
    facts_are_consistent(executor)?;
    an_empty_body_is_timed(executor)?;
    every_rank_runs_once_with_its_repetitions(executor)?;
    ranks_meet_at_the_teams_barrier(executor)?;
    runs_follow_each_other(executor)?;
    stacks_begin_at_one_place_of_a_page(executor)?;
    a_panic_is_a_fault(executor)?;
    every_rank_runs_once_with_its_repetitions(executor).map_err(|found| Violation(format!("after a panic: {found}")))
}

fn facts_are_consistent(executor: &mut dyn Executor) -> Result<(), Violation> {
    let facts = executor.facts();
    demand(facts.ranks > 0, || "it has no rank".to_owned())?;
    demand(facts.cpus.is_empty() || facts.cpus.len() == facts.ranks, || {
        format!("{} ranks on CPUs {:?}", facts.ranks, facts.cpus)
    })?;
    demand(["direct", "microvm", "null"].contains(&facts.name.as_str()), || format!("its name is {}", facts.name))?;
    demand(facts.runs_body == (facts.name != "null"), || format!("runs_body is {}", facts.runs_body))?;
    demand(facts.virtual_machine == (facts.name == "microvm"), || format!("virtual is {}", facts.virtual_machine))?;
    demand([facts.mmu.is_some(), facts.translation.is_some()] == [facts.virtual_machine; 2], || {
        format!("its MMU is {:?}", facts.mmu)
    })
}

fn an_empty_body_is_timed(executor: &mut dyn Executor) -> Result<(), Violation> {
    for reps in [0, 1, u64::MAX] {
        run(executor, &Empty, reps)?;
    }
    Ok(())
}

fn every_rank_runs_once_with_its_repetitions(executor: &mut dyn Executor) -> Result<(), Violation> {
    let (ranks, runs_body) = (executor.facts().ranks, executor.facts().runs_body);
    let body = Counting::new(ranks);
    for (round, reps) in (1..).zip([3, 1, 1000]) {
        run(executor, &body, reps)?;
        for (rank, seen) in body.seen.iter().enumerate() {
            let (calls, last) = (seen.calls.load(Ordering::Acquire), seen.reps.load(Ordering::Acquire));
            let expected = if runs_body { (round, reps) } else { (0, 0) };
            demand((calls, last) == expected, || {
                format!("rank {rank} was called {calls} times, last with {last} repetitions, not {expected:?}")
            })?;
        }
    }
    demand(!body.strange.load(Ordering::Acquire), || "a rank had no place in the team, or the team another size".into())
}

/// Each rank must see what all others did before the barrier; without a common team they would not end.
fn ranks_meet_at_the_teams_barrier(executor: &mut dyn Executor) -> Result<(), Violation> {
    let ranks = executor.facts().ranks as u64;
    let body = Meeting { arrived: AtomicU64::new(0), ranks, missed: AtomicBool::new(false) };
    run(executor, &body, 20)?;
    demand(!body.missed.load(Ordering::Acquire), || "a rank passed the barrier before all had come".to_owned())
}

fn runs_follow_each_other(executor: &mut dyn Executor) -> Result<(), Violation> {
    let first = run(executor, &Empty, 1)?;
    let second = run(executor, &Empty, 1)?;
    let end = first.times.iter().map(|time| time.end_ticks).max();
    let start = second.times.iter().map(|time| time.start_ticks).min();
    demand(end <= start, || format!("a run ended at {end:?}, after the next began at {start:?}"))
}

/// Where it differs between executors, so do the cache lines that vectors on the stack cross, and with them the time of one and the
/// same loop.
fn stacks_begin_at_one_place_of_a_page(executor: &mut dyn Executor) -> Result<(), Violation> {
    let ranks = executor.facts().ranks;
    let expected = StackPlaces::new(1);
    timed_region(&expected, 0, &Team::new(1), 1, || 1);
    let expected = expected.found()[0];
    let body = StackPlaces::new(ranks);
    run(executor, &body, 1)?;
    let found = body.found();
    demand(!executor.facts().runs_body || found.iter().all(|&place| place == expected), || {
        format!("the stacks of its ranks are at {found:?} of a page, not all at {expected}")
    })
}

fn a_panic_is_a_fault(executor: &mut dyn Executor) -> Result<(), Violation> {
    let last = executor.facts().ranks - 1;
    for culprit in [0, last] {
        let result = executor.run(&Panicking { culprit }, 1);
        match (executor.facts().runs_body, result) {
            (false, Ok(_)) => {}
            // In a virtual machine a panic may end as the exception that the abort raises.
            (true, Err(Fault::Panicked { rank } | Fault::Exception { rank, .. })) if rank == culprit => {}
            (_, result) => return Err(Violation(format!("a panic of rank {culprit} gave {result:?}"))),
        }
    }
    Ok(())
}

/// One run, whose record must be in order.
fn run(executor: &mut dyn Executor, body: &dyn Body, reps: u64) -> Result<RunRecord, Violation> {
    let record = executor.run(body, reps).map_err(|fault| format!("a run failed: {fault}"))?;
    let ranks = executor.facts().ranks;
    let order: Vec<usize> = record.times.iter().map(|time| time.rank).collect();
    demand(order.iter().copied().eq(0..ranks), || format!("the times are of ranks {order:?}, not of 0..{ranks}"))?;
    for time in &record.times {
        demand(time.start_ticks > 0 && time.start_ticks <= time.end_ticks, || format!("times out of order: {time:?}"))?;
    }
    let audit = &record.audit;
    demand(audit.ranks_inside == ranks, || format!("{} of {ranks} ranks were inside", audit.ranks_inside))?;
    demand(audit.forwarded_syscalls == 0, || format!("{} system calls in the region", audit.forwarded_syscalls))?;
    Ok(record)
}

struct Empty;

impl Body for Empty {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, _reps: u64) {}
}

/// Where in its page each rank's stack is.
struct StackPlaces(Vec<AtomicUsize>);

impl StackPlaces {
    fn new(ranks: usize) -> Self {
        StackPlaces((0..ranks).map(|_| AtomicUsize::new(usize::MAX)).collect())
    }

    fn found(&self) -> Vec<usize> {
        self.0.iter().map(|place| place.load(Ordering::Acquire)).collect()
    }
}

impl Body for StackPlaces {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, rank: usize, _team: &Team, _reps: u64) {
        let local = 0_u8;
        self.0[rank].store((&raw const *black_box(&local)).addr() % 4096, Ordering::Release);
    }
}

struct Counting {
    seen: Vec<Seen>,
    strange: AtomicBool,
}

#[derive(Default)]
struct Seen {
    calls: AtomicU64,
    reps: AtomicU64,
}

impl Counting {
    fn new(ranks: usize) -> Self {
        Counting { seen: (0..ranks).map(|_| Seen::default()).collect(), strange: AtomicBool::new(false) }
    }
}

impl Body for Counting {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        match self.seen.get(rank) {
            Some(seen) if team.ranks() == self.seen.len() => {
                seen.calls.fetch_add(1, Ordering::AcqRel);
                seen.reps.store(reps, Ordering::Release);
            }
            _ => self.strange.store(true, Ordering::Release),
        }
    }
}

struct Meeting {
    arrived: AtomicU64,
    ranks: u64,
    missed: AtomicBool,
}

impl Body for Meeting {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, team: &Team, reps: u64) {
        for rep in 1..=reps {
            self.arrived.fetch_add(1, Ordering::AcqRel);
            team.barrier();
            if self.arrived.load(Ordering::Acquire) != rep * self.ranks {
                self.missed.store(true, Ordering::Release);
            }
            team.barrier();
        }
    }
}

/// One rank panics, without the hook that would print; the others wait for it at the barrier.
struct Panicking {
    culprit: usize,
}

impl Body for Panicking {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, rank: usize, team: &Team, _reps: u64) {
        if rank == self.culprit {
            panic::resume_unwind(Box::new("a body that must not"));
        }
        team.barrier();
    }
}

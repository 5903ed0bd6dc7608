//! The members of one arm: executors that run their bodies behind one barrier.
//!
//! Members share this process and nothing else: each has its own executor, its own CPUs, its own memory and its own result
//! to verify. A member alone runs as if there were no ensembles. Several are entered by one thread each; their ranks
//! meet at a gate inside the region, before the clock is read, so that all start together whatever entering cost each.

use crate::audit;
use baremark_model::ensemble::{Part, together};
use baremark_model::metric::Metric;
use baremark_model::seam::{
    Audit, Body, Executor, ExecutorFacts, Fault, Prepared, RankTime, RunRecord, Sample, TickRate, Work,
};
use baremark_model::team::Team;
use std::collections::BTreeMap;
use std::thread;

/// The members of one arm, started.
pub struct Ensemble {
    members: Vec<Box<dyn Executor + Send>>,
    facts: ExecutorFacts,
    // At one place for all runs, so that no machine touches it for the first time while it is timed.
    gate: Box<Team>,
}

impl Ensemble {
    /// Of one or more members, in order.
    pub fn new(members: Vec<Box<dyn Executor + Send>>) -> Self {
        let facts = joint_facts(&members);
        let gate = Box::new(Team::resting(facts.ranks, members[0].rest()));
        Ensemble { members, facts, gate }
    }

    /// Runs each member's body, `reps` repetitions, all released together; the records in order.
    ///
    /// # Errors
    /// The first member's fault, when any could not finish. The ensemble can be used again.
    pub fn run_each(&mut self, bodies: &[&dyn Body], reps: u64) -> Result<Vec<RunRecord>, Fault> {
        self.run_each_from(0, bodies, reps)
    }

    /// The same, begun no earlier than at the tick `begin`.
    ///
    /// # Errors
    /// As [`Ensemble::run_each`].
    pub fn run_each_from(&mut self, begin: u64, bodies: &[&dyn Body], reps: u64) -> Result<Vec<RunRecord>, Fault> {
        if let ([member], [body]) = (self.members.as_mut_slice(), bodies)
            && begin > 0
        {
            return Ok(vec![member.run(&Held { body: *body, gate: None, begin }, reps)?]);
        }
        if let ([member], [body]) = (self.members.as_mut_slice(), bodies) {
            return Ok(vec![member.run(*body, reps)?]);
        }
        *self.gate = Team::resting(self.facts.ranks, self.members[0].rest());
        let gate = &*self.gate;
        thread::scope(|scope| {
            let mut running = Vec::with_capacity(bodies.len());
            for (index, (member, &body)) in self.members.iter_mut().zip(bodies).enumerate() {
                let enter = move || {
                    let run = member.run(&Held { body, gate: Some(gate), begin }, reps);
                    if run.is_err() {
                        gate.break_up();
                    }
                    run
                };
                let thread = thread::Builder::new().name(format!("member-{index}")).spawn_scoped(scope, enter);
                if thread.is_err() {
                    gate.break_up();
                }
                running.push(thread.map_err(|why| lost(index, &format!("no thread for it: {why}"))));
            }
            let runs: Vec<Result<RunRecord, Fault>> = running
                .into_iter()
                .enumerate()
                .map(|(index, thread)| thread?.join().unwrap_or_else(|_| Err(lost(index, "its thread panicked"))))
                .collect();
            runs.into_iter().collect()
        })
    }

    /// Every body has run once, and the next run may be timed.
    ///
    /// # Errors
    /// The first member's fault.
    pub fn warmed(&mut self) -> Result<(), Fault> {
        self.members.iter_mut().try_for_each(|member| member.warmed())
    }

    /// What is true of all members together.
    pub fn facts(&self) -> &ExecutorFacts {
        &self.facts
    }

    /// The first member, without the others.
    pub fn first(&mut self) -> &mut dyn Executor {
        &mut *self.members[0]
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The hypervisor's counters of each member, as they stand now.
    pub fn counters(&mut self) -> Vec<BTreeMap<String, u64>> {
        self.members.iter_mut().map(|member| member.counters()).collect()
    }

    /// What makes the runs of the members void.
    pub fn unclean(&self, runs: &[RunRecord], rate: TickRate) -> Vec<String> {
        self.members.iter().zip(runs).filter_map(|(member, run)| audit::of_run(member.facts(), run, rate)).collect()
    }

    /// The metrics of each member's run, and of all together.
    pub fn metrics(
        &self,
        rows: &[Metric],
        prepared: &[&dyn Prepared],
        reps: u64,
        times: &[Vec<RankTime>],
        rate: TickRate,
    ) -> (Vec<Sample>, Vec<Vec<Sample>>) {
        let own: Vec<Vec<Sample>> = self
            .members
            .iter()
            .zip(prepared)
            .zip(times)
            .map(|((member, prepared), times)| samples(&**member, *prepared, reps, times, rate))
            .collect();
        let seconds = |times: &[RankTime]| rate.span(times).unwrap_or(0.0);
        let parts: Vec<Part<'_>> =
            own.iter().zip(times).map(|(samples, times)| Part { samples, seconds: seconds(times) }).collect();
        (together(rows, &parts, seconds(&times.concat())), own)
    }
}

/// The records of several members as one: ranks are numbered through, counts are added.
pub fn joint_run(runs: &[RunRecord]) -> RunRecord {
    if let [only] = runs {
        return only.clone();
    }
    let mut joint = RunRecord { times: Vec::new(), audit: Audit { queued_ns: Some(0), ..Audit::default() } };
    for run in runs {
        let first = joint.times.len();
        joint.times.extend(run.times.iter().map(|time| RankTime { rank: first + time.rank, ..*time }));
        joint.audit.ranks_inside += run.audit.ranks_inside;
        joint.audit.forwarded_syscalls += run.audit.forwarded_syscalls;
        joint.audit.guest_page_faults += run.audit.guest_page_faults;
        joint.audit.extra_exits += run.audit.extra_exits;
        joint.audit.queued_ns = joint.audit.queued_ns.zip(run.audit.queued_ns).map(|(sum, more)| sum + more);
        joint.audit.rests += run.audit.rests;
        add(&mut joint.audit.counters, run.audit.counters.clone());
    }
    joint
}

/// Adds counters up, name by name.
pub fn add(sum: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (name, count) in more {
        *sum.entry(name).or_default() += count;
    }
}

/// What is true of all members: the first one's facts, over the ranks and CPUs of all.
fn joint_facts(members: &[Box<dyn Executor + Send>]) -> ExecutorFacts {
    let all = || members.iter().map(|member| member.facts());
    let mut facts = members[0].facts().clone();
    facts.ranks = all().map(|facts| facts.ranks).sum();
    facts.cpus = all().flat_map(|facts| facts.cpus.clone()).collect();
    if members.len() > 1 {
        facts.notes.insert("members".to_owned(), members.len().to_string());
    }
    facts
}

/// The metrics of one run; an executor that runs no body has only the length of its empty region to tell.
fn samples(
    executor: &dyn Executor,
    prepared: &dyn Prepared,
    reps: u64,
    times: &[RankTime],
    rate: TickRate,
) -> Vec<Sample> {
    if executor.facts().runs_body {
        let mut samples = prepared.metrics(reps, times, rate);
        // A value that is not a number is not a value; JSON could not carry it either.
        samples.retain(|sample| sample.value.is_finite());
        return samples;
    }
    let longest = times.iter().map(|time| rate.own(time)).fold(0.0, f64::max);
    vec![Sample::new("empty_region_ns", longest * 1e9)]
}

fn lost(member: usize, why: &str) -> Fault {
    Fault::Executor { what: format!("member {member} of an ensemble"), why: why.to_owned() }
}

/// A member's body that waits for the gate of all, where there is one, and for its moment.
struct Held<'b> {
    body: &'b dyn Body,
    gate: Option<&'b Team>,
    begin: u64,
}

impl Body for Held<'_> {
    fn work(&self, ranks: usize) -> Work {
        self.body.work(ranks)
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        self.body.rank(rank, team, reps);
    }

    fn gate(&self) -> Option<&Team> {
        self.gate
    }

    fn not_before(&self) -> u64 {
        self.begin
    }
}

//! Both arms of a job at the same time, on a CPU each, which they swap from one phase to the next.
//!
//! Whatever else uses the machine meanwhile disturbs both alike. A thread for each CPU has both arms prepared for that CPU, one after the other while the other thread waits,
//! and runs the one whose turn it is; both threads wait for each other before each warm-up and each phase. What an arm used is compared, and not how long it waited: a neighbour
//! has one of the CPUs.

use crate::phases::{Phase, Stage, Trial};
use crate::progress::Progress;
use crate::trial_error::TrialError;
use baremark_model::arm::ResolvedArm;
use baremark_model::disturbed;
use baremark_model::job::{JobError, ReadyJob};
use baremark_model::wire::TrialResult;
use baremark_sys::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

/// What a thread is to do with one of the arms, at the same time as the other thread with the other.
#[derive(Clone, Copy)]
enum Order {
    /// Its warm-up.
    WarmUp(usize),
    /// A phase.
    Run(usize),
}

/// What a thread answers.
enum Answer {
    /// Both arms are prepared for its CPU; whether all their work is done by programs that this one has started.
    Ready { in_own_processes: bool },
    /// A warm-up is over.
    Warm,
    /// A phase is over.
    Done(Box<Phase>),
}

/// The way to the thread of one CPU.
struct Side {
    orders: Sender<Order>,
    answers: Receiver<Result<Answer, JobError>>,
}

impl Side {
    fn answer(&self) -> Result<Answer, JobError> {
        self.answers.recv().unwrap_or_else(|_| Err(gone()))
    }
}

/// Both CPUs, in their order.
struct Both {
    sides: [Side; 2],
    in_own_processes: bool,
}

impl Both {
    /// What both threads answer; both are awaited before a failure of one is reported.
    fn answers(&self) -> [Result<Answer, JobError>; 2] {
        self.sides.each_ref().map(Side::answer)
    }

    /// Has both threads carry out an order each at the same time.
    fn carry_out(&self, orders: impl IntoIterator<Item = Order>) -> Result<[Result<Answer, JobError>; 2], JobError> {
        for (side, order) in self.sides.iter().zip(orders) {
            side.orders.send(order).ok().ok_or_else(gone)?;
        }
        Ok(self.answers())
    }

    /// Warms up both arms on both CPUs. Each has the other next to it, as in the phases, and never itself: what it writes, locks or listens on may be its own.
    fn warm_up(&self) -> Result<(), JobError> {
        for arms in [[0, 1], [1, 0]] {
            for answer in self.carry_out(arms.map(Order::WarmUp))? {
                if !matches!(answer?, Answer::Warm) {
                    return Err(gone());
                }
            }
        }
        Ok(())
    }
}

impl Stage for Both {
    fn at_once(&self) -> usize {
        self.sides.len()
    }

    fn works_in_own_processes(&self) -> bool {
        self.in_own_processes
    }

    fn run(
        &mut self,
        _position: usize,
        arms: &[usize],
        _progress: &mut dyn Progress,
    ) -> Result<Vec<Phase>, TrialError> {
        let answers = self.carry_out(arms.iter().map(|&arm| Order::Run(arm)))?;
        let phase = |answer| match answer {
            Ok(Answer::Done(phase)) => Ok(*phase),
            Ok(Answer::Ready { .. } | Answer::Warm) => Err(gone().into()),
            Err(why) => Err(TrialError::from(why)),
        };
        answers.into_iter().map(phase).collect()
    }
}

fn gone() -> JobError {
    JobError::failed("a thread that runs one of two programs at the same time has ended")
}

/// What `work` gives. A thread whose work panics fails its trial, and goes on to its end.
fn caught<T>(work: impl FnOnce() -> Result<T, JobError>) -> Result<T, JobError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().map(ToString::to_string);
        let why = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(JobError::failed(format!("a thread that runs a program panicked: {why}")))
    })
}

/// Prepares both arms of the trial for each of the CPUs, warms them up, and hands over what runs their phases.
///
/// # Errors
/// When an arm cannot be prepared or warmed up, or what `measure` gives.
pub(crate) fn with_both(
    trial: &Trial<'_>,
    cpus: [usize; 2],
    progress: &mut dyn Progress,
    measure: impl FnOnce(&mut dyn Stage, &mut dyn Progress) -> Result<TrialResult, TrialError>,
) -> Result<TrialResult, TrialError> {
    let in_pairs = trial.spec.schedule.chunks(2).all(|two| matches!(two, [0, 1] | [1, 0]));
    if trial.arms.len() != 2 || !in_pairs || trial.arms.iter().any(|arm| arm.ranks != 1) {
        return Err(TrialError::spec("two arms at the same time have one rank each and equal turns".to_owned()));
    }
    if progress.is_one_side() || progress.is_one_of_several() {
        return Err(TrialError::spec("two arms at the same time are at one site".to_owned()));
    }
    let (alone, gate) = (&Mutex::new(()), &Barrier::new(cpus.len()));
    thread::scope(|scope| {
        let started = cpus.map(|cpu| {
            let (orders, ordered) = channel();
            let (sender, answers) = channel();
            let thread = thread::Builder::new().name(format!("cpu {cpu}"));
            let started = thread.spawn_scoped(scope, move || serve(trial, cpu, (alone, gate), (&ordered, &sender)));
            started.map(|_| Side { orders, answers })
        });
        let [first, second] = started;
        let cannot = |why| JobError::failed(format!("starting a thread: {why}"));
        let sides = [first.map_err(cannot)?, second.map_err(cannot)?];
        // When these are dropped, the threads end.
        let mut both = Both { sides, in_own_processes: true };
        for answer in both.answers() {
            match answer? {
                Answer::Ready { in_own_processes } => both.in_own_processes &= in_own_processes,
                Answer::Warm | Answer::Done(_) => return Err(gone().into()),
            }
        }
        both.warm_up()?;
        measure(&mut both, progress)
    })
}

/// The thread of one CPU: what is prepared here is dropped here, too. While it prepares, the other thread does nothing, for preparation measures costs.
fn serve(
    trial: &Trial<'_>,
    cpu: usize,
    (alone, gate): (&Mutex<()>, &Barrier),
    (orders, answers): (&Receiver<Order>, &Sender<Result<Answer, JobError>>),
) {
    let cpus = [cpu];
    let preparation = caught(|| {
        let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
        prepared(trial, &cpus)
    });
    let mut ready = match preparation {
        Ok(ready) => ready,
        Err(why) => return drop(answers.send(Err(why))),
    };
    let in_own_processes = ready.iter().all(|job| job.works_in_own_processes());
    if answers.send(Ok(Answer::Ready { in_own_processes })).is_err() {
        return;
    }
    while let Ok(order) = orders.recv() {
        gate.wait();
        let answer = caught(|| match order {
            Order::WarmUp(arm) => ready[arm].warm_up().map(|()| Answer::Warm),
            Order::Run(arm) => {
                let begin_ns = clock::monotonic_ns();
                let run = ready[arm].run()?;
                let end_ns = clock::monotonic_ns();
                Ok(Answer::Done(Box::new(Phase { arm, begin_ns, end_ns, run })))
            }
        });
        if answers.send(answer).is_err() {
            return;
        }
    }
}

/// Both arms, ready.
fn prepared<'s>(trial: &'s Trial<'_>, cpus: &'s [usize]) -> Result<Vec<Box<dyn ReadyJob + 's>>, JobError> {
    let prepare = |arm: &&'s ResolvedArm| trial.job.prepare(arm, trial.surroundings(cpus));
    trial.arms.iter().map(prepare).collect()
}

/// The result of a trial in which each arm had one rank, on one CPU and on the other.
pub(crate) fn of_one_rank(mut result: TrialResult) -> TrialResult {
    for arm in &mut result.arms {
        arm.executor.ranks = 1;
        // The rank kept to neither CPU.
        arm.placed.cpus.clear();
    }
    result.flags.extend(disturbed::duet_flags(&result.series));
    result.flags.sort();
    result
}

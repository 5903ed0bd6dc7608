//! Threads that stay: one per CPU, pinned, asleep between tasks.
//!
//! Starting a thread costs more than a short measurement, and a new thread finds cold caches and another stack. A crew is
//! started once and handed one task after another; between tasks its threads sleep in the kernel, so that they take
//! nothing from whoever else is measured meanwhile.

use crate::affinity::Seat;
use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Pinned threads that run one task at a time, each with its own number.
#[derive(Debug)]
pub struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    seats: Vec<Seat>,
}

/// Why a crew could not be started.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// It would have nobody.
    #[error("a crew of no CPUs; name at least one")]
    Empty,
    /// Two of it would wait for each other's time slices.
    #[error("CPU {0} is named twice; two threads that spin on one CPU measure the scheduler")]
    Twice(usize),
    /// A thread could not be started.
    #[error("cannot start thread {member}; is the limit on processes (ulimit -u) reached?")]
    Start {
        /// Its number.
        member: usize,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A thread could not be pinned.
    #[error("cannot pin a thread to {seat}; name CPUs that are online and allowed here")]
    Pin {
        /// Where it was to be.
        seat: Seat,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What a task that panicked on one thread left: that thread's number and the panic's payload.
#[derive(Debug)]
pub struct Panicked {
    /// The thread's number in the crew.
    pub member: usize,
    /// What it panicked with.
    pub payload: Box<dyn Any + Send>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    order: Order,
    /// Counts tasks, so that a thread takes each once.
    generation: u64,
    /// Threads that have not finished the task (or, at first, have not been pinned).
    busy: usize,
    pinning: Vec<CrewError>,
    panics: Vec<Panicked>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Order {
    #[default]
    Rest,
    Run(Task),
    Leave,
}

/// A borrowed task whose lifetime is vouched for by [`Crew::run`].
#[derive(Clone, Copy)]
struct Task(*const (dyn Fn(usize) + Sync + 'static));

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}

// SAFETY: the task behind the pointer is `Sync`, so any thread may call it through a shared reference; that it lives is
// what `Crew::run` sees to.
unsafe impl Send for Task {}

impl Crew {
    /// One thread for each of `cpus`, pinned to it and asleep.
    ///
    /// # Errors
    /// When no CPU is named, one is named twice, or a thread cannot be started or pinned.
    pub fn new(cpus: &[usize]) -> Result<Crew, CrewError> {
        Crew::seated(&cpus.iter().map(|&cpu| Seat::Cpu(cpu)).collect::<Vec<_>>())
    }

    /// One thread for each of `seats`, asleep.
    ///
    /// # Errors
    /// When there is no seat, a CPU is named twice, or a thread cannot be started or pinned.
    pub fn seated(seats: &[Seat]) -> Result<Crew, CrewError> {
        if seats.is_empty() {
            return Err(CrewError::Empty);
        }
        let mut pinned = seats.iter().enumerate().filter_map(|(index, seat)| Some((index, seat.cpu()?)));
        if let Some((_, cpu)) = pinned.find(|&(index, cpu)| seats[..index].contains(&Seat::Cpu(cpu))) {
            return Err(CrewError::Twice(cpu));
        }
        let state = Mutex::new(State { busy: seats.len(), ..State::default() });
        let shared = Arc::new(Shared { state, work: Condvar::new(), done: Condvar::new() });
        let mut crew = Crew { shared, threads: Vec::with_capacity(seats.len()), seats: seats.to_vec() };
        for (member, seat) in seats.iter().enumerate() {
            crew.start(member, seat.clone())?;
        }
        let failed = crew.shared.wait_until_done().pinning.pop();
        failed.map_or(Ok(crew), Err)
    }

    fn start(&mut self, member: usize, seat: Seat) -> Result<(), CrewError> {
        let shared = Arc::clone(&self.shared);
        let named = thread::Builder::new().name(format!("rank-{member}"));
        let thread = named.spawn(move || shared.serve(member, seat));
        self.threads.push(thread.map_err(|source| CrewError::Start { member, source })?);
        Ok(())
    }

    /// The seat of each thread, in the order of their numbers.
    #[must_use]
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// Has every thread call `task` once with its own number, and returns when all have.
    ///
    /// # Errors
    /// The threads on which the task panicked, in the order in which they did. The crew can be used again.
    pub fn run<'t>(&mut self, task: &'t (dyn Fn(usize) + Sync + 't)) -> Result<(), Vec<Panicked>> {
        let task: *const (dyn Fn(usize) + Sync + 't) = task;
        // SAFETY: only the lifetime is changed. The threads use the task between here and `busy == 0`, for which
        // `wait_until_done` waits before this function returns, whatever the task does; so it lives while it is used.
        let task = Task(unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + 't), *const (dyn Fn(usize) + Sync + 'static)>(task)
        });
        let mut state = self.shared.lock();
        state.order = Order::Run(task);
        state.generation += 1;
        state.busy = self.threads.len();
        drop(state);
        self.shared.work.notify_all();
        let mut state = self.shared.wait_until_done();
        state.order = Order::Rest;
        let panics = std::mem::take(&mut state.panics);
        if panics.is_empty() { Ok(()) } else { Err(panics) }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.lock().order = Order::Leave;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its tasks and has no other; there is nothing to pass on.
            drop(thread.join());
        }
    }
}

impl Shared {
    /// The life of one thread.
    fn serve(&self, member: usize, seat: Seat) {
        let taken = seat.take();
        let mut state = self.lock();
        state.pinning.extend(taken.err().map(|source| CrewError::Pin { seat, source }));
        self.one_less(state);
        let mut generation = 0;
        while let Some(task) = self.next_task(&mut generation) {
            // SAFETY: `Crew::run` keeps the task alive until this thread has said, by `one_less`, that it is done.
            let result = panic::catch_unwind(AssertUnwindSafe(|| unsafe { (*task.0)(member) }));
            let mut state = self.lock();
            state.panics.extend(result.err().map(|payload| Panicked { member, payload }));
            self.one_less(state);
        }
    }

    /// Sleeps until there is a task that this thread has not taken; `None` when the crew is dismissed.
    fn next_task(&self, generation: &mut u64) -> Option<Task> {
        let mut state = self.lock();
        loop {
            match state.order {
                Order::Leave => return None,
                Order::Run(task) if state.generation != *generation => {
                    *generation = state.generation;
                    return Some(task);
                }
                Order::Run(_) | Order::Rest => {
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn one_less(&self, mut state: MutexGuard<'_, State>) {
        state.busy -= 1;
        if state.busy == 0 {
            self.done.notify_all();
        }
    }

    fn wait_until_done(&self) -> MutexGuard<'_, State> {
        self.done.wait_while(self.lock(), |state| state.busy > 0).unwrap_or_else(PoisonError::into_inner)
    }

    /// Tasks never run under the lock, so it is never poisoned by one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::allowed_cpus;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn crew() -> Crew {
        Crew::new(&allowed_cpus().expect("affinity")).expect("a crew")
    }

    #[test]
    fn every_thread_runs_each_task_once_on_its_own_cpu() {
        let mut crew = crew();
        let cpus = allowed_cpus().expect("affinity");
        assert_eq!(crew.seats().len(), cpus.len());
        let calls: Vec<AtomicUsize> = cpus.iter().map(|_| AtomicUsize::new(0)).collect();
        for round in 1..=100 {
            crew.run(&|member| {
                calls[member].fetch_add(1, Ordering::Relaxed);
                assert_eq!(allowed_cpus().expect("affinity"), [cpus[member]]);
            })
            .expect("no panic");
            assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == round));
        }
    }

    #[test]
    fn a_panic_is_handed_back_and_the_crew_goes_on() {
        let mut crew = crew();
        let panics = crew
            .run(&|member| {
                if member == 0 {
                    panic::resume_unwind(Box::new(7_i32))
                }
            })
            .expect_err("a panic");
        assert_eq!((panics.len(), panics[0].member), (1, 0));
        assert_eq!(panics[0].payload.downcast_ref::<i32>(), Some(&7));
        crew.run(&|_| ()).expect("as before");
    }

    #[test]
    fn a_crew_that_cannot_be_is_refused_with_a_reason() {
        assert_eq!(Crew::new(&[]).expect_err("none").to_string(), "a crew of no CPUs; name at least one");
        assert!(matches!(Crew::new(&[0, 1, 0]), Err(CrewError::Twice(0))));
        let error = Crew::new(&[1 << 14]).expect_err("no such CPU");
        assert!(matches!(error, CrewError::Pin { seat: Seat::Cpu(cpu), .. } if cpu == 1 << 14), "{error}");
    }
}

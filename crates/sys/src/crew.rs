//! Threads that stay: one per CPU, pinned, asleep between tasks.
//!
//! Starting a thread costs more than a short measurement, and a new thread finds cold caches and another stack. A crew is
//! started once and handed one task after another; between tasks its threads sleep in the kernel, so that they take
//! nothing from whoever else is measured meanwhile.

use crate::affinity::pin_current_thread;
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
    cpus: Vec<usize>,
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
    #[error("cannot start a thread for CPU {cpu}; is the limit on processes (ulimit -u) reached?")]
    Start {
        /// For which CPU.
        cpu: usize,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A thread could not be pinned.
    #[error("cannot pin a thread to CPU {cpu}; name CPUs that are online and allowed here")]
    Pin {
        /// To which CPU.
        cpu: usize,
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
        if cpus.is_empty() {
            return Err(CrewError::Empty);
        }
        if let Some((_, &cpu)) = cpus.iter().enumerate().find(|&(index, cpu)| cpus[..index].contains(cpu)) {
            return Err(CrewError::Twice(cpu));
        }
        let state = Mutex::new(State { busy: cpus.len(), ..State::default() });
        let shared = Arc::new(Shared { state, work: Condvar::new(), done: Condvar::new() });
        let mut crew = Crew { shared, threads: Vec::with_capacity(cpus.len()), cpus: cpus.to_vec() };
        for (member, &cpu) in cpus.iter().enumerate() {
            crew.start(member, cpu)?;
        }
        let failed = crew.shared.wait_until_done().pinning.pop();
        failed.map_or(Ok(crew), Err)
    }

    fn start(&mut self, member: usize, cpu: usize) -> Result<(), CrewError> {
        let shared = Arc::clone(&self.shared);
        let named = thread::Builder::new().name(format!("rank-{member}"));
        let thread = named.spawn(move || shared.serve(member, cpu));
        self.threads.push(thread.map_err(|source| CrewError::Start { cpu, source })?);
        Ok(())
    }

    /// The CPU of each thread, in the order of their numbers.
    #[must_use]
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
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
    fn serve(&self, member: usize, cpu: usize) {
        let pinned = pin_current_thread(cpu);
        let mut state = self.lock();
        state.pinning.extend(pinned.err().map(|source| CrewError::Pin { cpu, source }));
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
        let cpus = crew.cpus().to_vec();
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
        assert!(matches!(error, CrewError::Pin { cpu, .. } if cpu == 1 << 14), "{error}");
    }
}

//! Threads for work that takes much memory: as many at once as there are threads, each with memory of its own.
//!
//! The runtime's pool for blocking work has many threads, and the allocator keeps for each what it has freed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A queue of jobs and the threads that do them. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Workers<Job>(mpsc::Sender<Job>);

impl<Job: Send + 'static> Workers<Job> {
    /// Starts `threads` threads of that name; each makes its `State` and does one job after another with it.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start<State: Default + 'static>(
        name: &str,
        threads: usize,
        work: fn(&mut State, Job),
    ) -> io::Result<Workers<Job>> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                let mut state = State::default();
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(job) = next() {
                    work(&mut state, job);
                }
            })?;
        }
        Ok(Workers(jobs))
    }

    /// Queues a job.
    ///
    /// # Errors
    /// No thread is left.
    pub(crate) fn give(&self, job: Job) -> Result<(), mpsc::SendError<Job>> {
        self.0.send(job)
    }
}

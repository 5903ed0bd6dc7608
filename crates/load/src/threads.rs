//! The run of a load: a worker on each thread, and the seconds of all of them together.

use crate::load::{Engine, LoadError, Pin, Progress, Stop};
use crate::record::{MergedSeconds, Part};
use crate::worker::{Tick, Worker};
use baremark_sys::affinity;
use baremark_sys::clock::monotonic_ns;
use std::sync::mpsc;
use std::thread;

/// Time for all threads to be ready.
const START_DELAY_NS: u64 = 5_000_000;

impl Engine {
    /// Runs the load; each second that has passed at all threads goes to `progress`.
    ///
    /// # Errors
    /// When a thread or an event loop cannot be made; failing requests are not errors but counted.
    pub fn run(&self, progress: &mut dyn FnMut(&Progress)) -> Result<Part, LoadError> {
        self.run_from(monotonic_ns() + START_DELAY_NS, progress)
    }

    /// As [`Engine::run`], beginning at a moment of this machine's monotonic clock, so that several begin together.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn run_from(&self, begin_ns: u64, progress: &mut dyn FnMut(&Progress)) -> Result<Part, LoadError> {
        let threads = self.load.threads as u64;
        let cpus = self.cpus();
        let (sender, ticks) = mpsc::channel();
        let mut workers = Vec::new();
        for thread in 0..threads {
            let shard = (self.load.site.0 * threads + thread, self.load.site.1 * threads);
            let most = self.share_of_count(shard);
            workers.push(Worker::new(self, shard, most, sender.clone()).map_err(LoadError::Loop)?);
        }
        drop(sender);
        thread::scope(|scope| {
            let mut handles = Vec::new();
            for (index, worker) in workers.into_iter().enumerate() {
                let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
                let body = move || {
                    // A CPU that was taken away meanwhile costs the pinning, not the load.
                    let pinned = cpu.filter(|cpu| affinity::pin_current_thread(*cpu).is_ok());
                    worker.run(begin_ns, pinned)
                };
                let builder = thread::Builder::new().name(format!("load {index}"));
                handles.push(builder.spawn_scoped(scope, body).map_err(LoadError::Thread)?);
            }
            let mut seconds = MergedSeconds::default();
            for Tick { second, part } in ticks {
                let whole = &mut |second, part| progress(&Progress { second, part });
                seconds.add(second, &part, self.load.threads, whole);
            }
            let mut whole = Part::new(&self.load.scenario.operation_names());
            for handle in handles {
                let part = handle.join().or(Err(LoadError::Panicked))?.map_err(LoadError::Loop)?;
                whole.merge(&part)?;
            }
            Ok(whole)
        })
    }

    fn share_of_count(&self, (shard, shards): (u64, u64)) -> u64 {
        match self.load.stop {
            Stop::After(_) => u64::MAX,
            Stop::Count(count) => count / shards + u64::from(shard < count % shards),
        }
    }

    fn cpus(&self) -> Vec<usize> {
        match &self.load.pin {
            Pin::Free => Vec::new(),
            Pin::On(cpus) => cpus.clone(),
            Pin::Spread => affinity::allowed_cpus().unwrap_or_default(),
        }
    }
}

//! What makes a disk keep what is synced: this machine's disk, and the second site where there is one. Both are waited for at the same
//! time, by other threads than the one that serves the kernel, so that a wait holds up nobody else.

use crate::link::Link;
use crate::operation::Operation;
use crate::pending::Changes;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Syncs that are waited for at the same time; more queue.
const WAITERS: usize = 16;

/// What the disk's users have seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Reads that the page cache did not answer.
    pub reads: u64,
    /// Time that they took, summed, in ns.
    pub read_ns: u64,
    /// Writes that were acknowledged: syncs, and writes of files opened with `O_SYNC`, `O_DSYNC` or `O_DIRECT`.
    pub writes: u64,
    /// Time that they took, summed, in ns.
    pub write_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    reads: AtomicU64,
    read_ns: AtomicU64,
    writes: AtomicU64,
    write_ns: AtomicU64,
}

impl Meter {
    pub(crate) fn read(&self, took: Duration) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_ns.fetch_add(nanos(took), Ordering::Relaxed);
    }

    fn written(&self, took: Duration) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.write_ns.fetch_add(nanos(took), Ordering::Relaxed);
    }

    pub(crate) fn seen(&self) -> Seen {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Seen {
            reads: of(&self.reads),
            read_ns: of(&self.read_ns),
            writes: of(&self.writes),
            write_ns: of(&self.write_ns),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

type Wait = Box<dyn FnOnce() + Send>;

/// A disk's way to keep what is synced.
pub(crate) struct Replication {
    root: PathBuf,
    link: Option<Arc<Link>>,
    waits: Sender<Wait>,
    pub(crate) meter: Arc<Meter>,
}

impl Replication {
    pub(crate) fn new(root: &Path, link: Option<Link>) -> Replication {
        let (waits, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..WAITERS {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                while next(&queue).is_some_and(|wait| {
                    wait();
                    true
                }) {}
            });
        }
        Replication { root: root.to_owned(), link: link.map(Arc::new), waits, meter: Arc::default() }
    }

    /// Sends a change of names on, which nobody waits for before the next sync.
    pub(crate) fn send(&self, operation: impl FnOnce(&dyn Fn(&Path) -> PathBuf) -> Operation) {
        if let Some(link) = &self.link {
            link.send(&operation(&|path| self.below(path)));
        }
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    /// What is to be waited for after the contents of a file were changed so; a file without a name is nobody's at the second site.
    pub(crate) fn store(&self, file: &File, path: Option<&Path>, changes: Changes) -> io::Result<Kept> {
        let file = file.try_clone()?;
        let operation = match path {
            Some(path) => Operation::Store { path: self.below(path), changes },
            None => Operation::Barrier,
        };
        Ok(Kept { file: Some(file), sent: self.link.as_ref().map(|link| (Arc::clone(link), link.send(&operation))) })
    }

    /// What is to be waited for until all names are at the second site.
    pub(crate) fn barrier(&self) -> Kept {
        Kept { file: None, sent: self.link.as_ref().map(|link| (Arc::clone(link), link.send(&Operation::Barrier))) }
    }

    /// Waits on another thread, and answers then. `begun` is when the request came.
    pub(crate) fn once_kept(&self, kept: Kept, begun: Instant, answer: impl FnOnce(io::Result<()>) + Send + 'static) {
        let meter = Arc::clone(&self.meter);
        let wait = Box::new(move || {
            let outcome = kept.wait();
            meter.written(begun.elapsed());
            answer(outcome);
        });
        if let Err(back) = self.waits.send(wait) {
            (back.0)();
        }
    }
}

fn next(queue: &Mutex<Receiver<Wait>>) -> Option<Wait> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// A sync that is under way at both sites.
pub(crate) struct Kept {
    file: Option<File>,
    sent: Option<(Arc<Link>, u64)>,
}

impl Kept {
    fn wait(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |file| file.sync_data())?;
        self.sent.map_or(Ok(()), |(link, number)| link.wait(number))
    }
}

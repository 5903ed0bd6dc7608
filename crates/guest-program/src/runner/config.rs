//! What a runner keeps from its start on: its descriptors, the options that a next runner gets, and the process itself.

use crate::options::Options;
use crate::runner::backing;
use crate::runner::machine::MACHINE;
use crate::runner::mailbox;
use crate::runner::thread::Process;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The value of a descriptor that there is not.
pub(crate) const NONE: i32 = -1;

/// What stays as it was at the start.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) kvm: AtomicI32,
    pub(crate) runner: AtomicI32,
    pub(crate) counters: AtomicI32,
    pub(crate) vcpus: AtomicU32,
}

/// The process's own.
pub(crate) static CONFIG: Config = Config {
    kvm: AtomicI32::new(NONE),
    runner: AtomicI32::new(NONE),
    counters: AtomicI32::new(NONE),
    vcpus: AtomicU32::new(0),
};

/// The process that was started here, or its copy after a fork.
pub(crate) static PROCESS: Process = Process::new();

impl Config {
    /// The process that was started here, or its copy after a fork.
    pub(crate) fn process(&self) -> &'static Process {
        &PROCESS
    }

    /// The most virtual processors.
    pub(crate) fn most_vcpus(&self) -> u32 {
        self.vcpus.load(Ordering::Relaxed)
    }

    /// The runner's own file.
    pub(crate) fn runner(&self) -> i32 {
        self.runner.load(Ordering::Relaxed)
    }

    /// The options for a next runner, as far as they do not change.
    pub(crate) fn options(&self) -> Options {
        let fd = |fd: &AtomicI32| Some(fd.load(Ordering::Relaxed)).filter(|fd| *fd != NONE);
        Options {
            page: MACHINE.page(),
            backing: backing::chosen(),
            prefault: backing::is_prefaulting(),
            vcpus: self.most_vcpus(),
            exitless: mailbox::is_chosen(),
            kvm: fd(&self.kvm),
            runner: fd(&self.runner),
            counters: fd(&self.counters),
            ..Options::default()
        }
    }
}

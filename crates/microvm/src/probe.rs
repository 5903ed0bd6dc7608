//! Can this machine run a microVM? What is missing, and what would help.
//!
//! A probe opens the device, asks for the version and the extensions, and runs an empty region once on one CPU. The run
//! is bounded: some back ends take minutes for what others do in milliseconds, and nobody waits for a probe. What bounds it is the time that it
//! computes, for on a machine with much other work all takes several times as long.

use crate::error::Error;
use crate::machine::{self, DEVICE, NEEDED};
use crate::microvm::{Config, Microvm};
use crate::mmu::{MmuVirtualization, mmu_virtualization_in};
use baremark_model::seam::Executor;
use baremark_sys::affinity::{Seat, allowed_cpus};
use baremark_sys::clock;
use kvm_ioctls::{Cap, Kvm};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The CPU time that the trial may use; how long it may take, whether it computes or stands still; and how long the run inside it may.
const TRIAL_CPU: Duration = Duration::from_secs(5);
const TRIAL: Duration = Duration::from_secs(60);
const TRIAL_WATCHDOG: Duration = Duration::from_secs(20);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Extensions that are used where they are there.
const USEFUL: [(Cap, &str); 4] = [
    (Cap::MemoryFaultInfo, "KVM_CAP_MEMORY_FAULT_INFO"),
    (Cap::Xsave2, "KVM_CAP_XSAVE2"),
    (Cap::TscControl, "KVM_CAP_TSC_CONTROL"),
    (Cap::SetTssAddr, "KVM_CAP_SET_TSS_ADDR"),
];

/// What was found.
#[derive(Debug)]
pub struct Probe {
    /// The device that was looked at.
    pub device: PathBuf,
    /// KVM's version, where the device opens.
    pub api_version: Option<i32>,
    /// KVM's extensions by their names in `linux/kvm.h`, and whether they are there.
    pub capabilities: Vec<(&'static str, bool)>,
    /// Which MMU virtualization is at work.
    pub mmu: MmuVirtualization,
    /// From the request to the end of a first, empty run, in microseconds.
    pub first_run_us: Option<u64>,
    /// Why no microVM can run here; `None` when one did.
    pub problem: Option<Error>,
}

impl Probe {
    /// Whether a microVM runs here.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.problem.is_none()
    }
}

/// Probes this machine.
#[must_use]
pub fn probe() -> Probe {
    probe_at(Path::new(DEVICE), Path::new("/"))
}

/// Probes `device`, with the machine's facts read from below `root`.
#[must_use]
pub fn probe_at(device: &Path, root: &Path) -> Probe {
    let mmu = mmu_virtualization_in(root);
    let nothing = Probe {
        device: device.into(),
        api_version: None,
        capabilities: Vec::new(),
        mmu,
        first_run_us: None,
        problem: None,
    };
    let kvm = match machine::open(device) {
        Ok(kvm) => kvm,
        Err(error) => return Probe { problem: Some(error), ..nothing },
    };
    let (first_run_us, problem) = match machine::check_needs(&kvm).and_then(|()| trial()) {
        Ok(us) => (us, None),
        Err(error) => (None, Some(error)),
    };
    Probe {
        api_version: Some(kvm.get_api_version()),
        capabilities: capabilities(&kvm),
        first_run_us,
        problem,
        ..nothing
    }
}

fn capabilities(kvm: &Kvm) -> Vec<(&'static str, bool)> {
    let all = NEEDED.into_iter().chain(USEFUL);
    all.map(|(capability, name)| (name, kvm.check_extension(capability))).collect()
}

/// An empty run on a thread of its own, given up when it takes too long.
fn trial() -> Result<Option<u64>, Error> {
    let (tell, told) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("microvm probe".into())
        .spawn(move || drop(tell.send(first_run())))
        .map_err(|source| Error::Thread { rank: 0, source })?;
    outcome(&told, TRIAL_CPU, TRIAL)
}

/// What the trial has come to, if it comes before this process has used so much CPU time, and within so long.
fn outcome<T>(told: &Receiver<Result<T, Error>>, most_cpu: Duration, longest: Duration) -> Result<T, Error> {
    let (begun, cpu_before) = (Instant::now(), process_cpu());
    loop {
        let waited = match told.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(waited) => waited,
        };
        let (took, cpu) = (begun.elapsed(), process_cpu().saturating_sub(cpu_before));
        if took >= longest || cpu >= most_cpu || waited == RecvTimeoutError::Disconnected {
            return Err(Error::Stuck { took, cpu });
        }
    }
}

fn process_cpu() -> Duration {
    Duration::from_nanos(clock::process_cpu_ns())
}

fn first_run() -> Result<Option<u64>, Error> {
    let cpus = allowed_cpus().map_err(|source| Error::Pin { seat: Seat::Anywhere, source })?;
    let config = Config { watchdog: TRIAL_WATCHDOG, ..Config::new(cpus.into_iter().take(1).collect()) };
    let microvm = Microvm::start(&config)?;
    Ok(microvm.facts().notes.get("first_run_us").and_then(|us| us.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_missing_device_is_said_with_the_remedy() {
        let probe = probe_at(Path::new("/dev/no-such-kvm"), Path::new("/nonexistent"));
        let problem = probe.problem.expect("there is no such device").to_string();
        assert!(problem.starts_with("/dev/no-such-kvm does not exist: load kvm_intel or kvm_amd"), "{problem}");
        assert!(problem.contains("nested virtualization"), "{problem}");
    }

    #[test]
    fn a_device_that_is_not_kvm_is_refused() {
        let probe = probe_at(Path::new("/dev/null"), Path::new("/nonexistent"));
        let problem = probe.problem.expect("it is none").to_string();
        assert!(problem.starts_with("/dev/null is not a KVM device"), "{problem}");
        assert!(problem.contains("--device /dev/kvm"), "{problem}");
    }

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_trial_that_computes_is_given_up_by_its_cpu_time() {
        let (tell, told) = mpsc::sync_channel::<Result<(), Error>>(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let computes = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {}
            drop(tell);
        });
        let given_up = outcome(&told, SHORT, LONG);
        stop.store(true, Ordering::Relaxed);
        drop(computes.join());
        assert!(matches!(given_up, Err(Error::Stuck { cpu, .. }) if cpu >= SHORT), "{given_up:?}");
        assert!(
            matches!(outcome(&told, LONG, LONG), Err(Error::Stuck { took, .. }) if took < LONG),
            "nobody is left to answer"
        );
    }

    #[test]
    fn a_trial_that_stands_still_is_given_up_by_the_time_that_passes() {
        let (tell, told) = mpsc::sync_channel::<Result<(), Error>>(1);
        let given_up = outcome(&told, LONG, SHORT);
        assert!(matches!(given_up, Err(Error::Stuck { took, .. }) if took >= SHORT), "{given_up:?}");
        // One that answers late is none the worse for it.
        let late = thread::spawn(move || {
            thread::sleep(2 * SHORT);
            tell.send(Ok(()))
        });
        assert!(outcome(&told, LONG, LONG).is_ok(), "it waited, and used no CPU");
        drop(late.join());
    }

    #[test]
    fn a_refused_permission_names_the_group() {
        let denied = Error::Denied { device: DEVICE.into() }.to_string();
        assert!(denied.contains("group kvm"), "{denied}");
    }
}

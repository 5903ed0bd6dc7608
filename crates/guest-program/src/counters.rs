//! What was counted while a program ran in the guest, over all of its processes.

pub use crate::shared::UnsupportedKind;
use crate::shared::{CALL_NUMBERS, Count, REFUSED, Shared, Tally};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the format of [`Counters`] as JSON.
pub const FORMAT: &str = "baremark-guest-program";
/// The version of the format. A reader of another one must refuse it.
pub const FORMAT_VERSION: u32 = 1;

/// The counters of a program and of everything that it has started.
///
/// An *image* is a program that was started: the first one, and one for each fork, vfork and exec. Nothing is subtracted
/// anywhere; counts of processes that were killed are included as they stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// [`FORMAT`].
    pub format: String,
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// Images begun.
    pub images: u64,
    /// Images of which at least one system call arrived as an exit of a virtual processor from the runner's own stub: the
    /// proof that they ran in guest mode. Lower than `images` where some were killed before their first call.
    pub images_in_guest: u64,
    /// System calls forwarded to the host.
    pub calls: u64,
    /// Returns from the guest for any reason.
    pub exits: u64,
    /// Page faults of the guest's own tables.
    pub guest_faults: u64,
    /// Other exceptions in the guest.
    pub exceptions: u64,
    /// Accesses that the host's memory map refused.
    pub host_faults: u64,
    /// Single instructions that were executed natively to learn which signal they cause.
    pub native_steps: u64,
    /// Returns because of a signal.
    pub interruptions: u64,
    /// Signals given to handlers.
    pub signals: u64,
    /// Threads begun in addition to each process's first.
    pub threads: u64,
    /// Processes begun by `fork`.
    pub forks: u64,
    /// Processes begun by `vfork` or `posix_spawn`.
    pub vforks: u64,
    /// Programs that replaced others.
    pub execs: u64,
    /// Virtual processors made.
    pub vcpus: u64,
    /// Times that a thread lost its virtual processor to another one.
    pub vcpu_switches: u64,
    /// System calls that a polling thread answered without an exit; they are not among `calls`.
    pub exitless_calls: u64,
    /// System calls that were left to a polling thread and then left the guest: it refused them, or did not come to them in time. They are
    /// among `calls`.
    pub exitless_fallbacks: u64,
    /// Polling threads begun, one for each image with a processor to spare. 0 without the option.
    pub polling_threads: u64,
    /// Nanoseconds of processor time of polling threads.
    pub polling_cpu_ns: u64,
    /// KiB of anonymous memory of processes that ended by themselves, added up, the runner's few included: what was found at the end or before much
    /// memory was given back, whichever is more. 0 unless [`crate::Command::host_backing`] was chosen.
    pub anonymous_kib: u64,
    /// KiB of that in pages of 2 MiB.
    pub large_kib: u64,
    /// KiB of memory that was given to processes when they mapped it, of those that ended by themselves. 0 unless [`crate::Command::prefault`] was
    /// chosen.
    pub prefaulted_kib: u64,
    /// Nanoseconds from the beginning of the first image to its first entry into the guest.
    pub first_start_ns: u64,
    /// The same of all images together.
    pub start_ns: u64,
    /// Forwarded system calls by number; those of 512 and above are in `calls` alone.
    pub calls_by_number: BTreeMap<u32, u64>,
    /// The ring that SYSCALL enters; `None` when no call was made.
    pub route: Option<Route>,
    /// What the program requested and did not get.
    pub unsupported: Vec<Unsupported>,
}

/// How system calls leave the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// SYSCALL stays in ring 3: PVM.
    Ring3,
    /// SYSCALL enters ring 0: a processor's own virtualization, VMX or SVM. Built by the manuals and not tried by the
    /// authors: `make verify-kvm` tries it.
    Ring0,
}

/// Something that a program requested and that does not exist inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// What.
    pub kind: UnsupportedKind,
    /// How often.
    pub count: u64,
    /// A detail of the first time, such as a flag or an address.
    pub detail: u64,
}

impl Counters {
    /// What is in the shared record now.
    pub(crate) fn read(shared: &Shared) -> Self {
        let pages: Vec<&Tally> = shared.used_pages().map(|page| &page.tally).chain([&shared.totals]).collect();
        let sum = |count: Count| pages.iter().map(|tally| tally.get(count)).sum();
        let calls_of = |number: usize| pages.iter().map(|tally| tally.calls_of(number)).sum::<u64>();
        let calls = (0u32..).zip(0..CALL_NUMBERS).map(|(number, at)| (number, calls_of(at)));
        let refused = REFUSED.into_iter().map(|what| (what, shared.refusals(what)));
        Counters {
            format: FORMAT.into(),
            version: FORMAT_VERSION,
            images: sum(Count::Images),
            images_in_guest: sum(Count::ImagesInGuest),
            calls: sum(Count::Calls),
            exits: sum(Count::Exits),
            guest_faults: sum(Count::GuestFaults),
            exceptions: sum(Count::Exceptions),
            host_faults: sum(Count::HostFaults),
            native_steps: sum(Count::NativeSteps),
            interruptions: sum(Count::Interruptions),
            signals: sum(Count::Signals),
            threads: sum(Count::Threads),
            forks: sum(Count::Forks),
            vforks: sum(Count::Vforks),
            execs: sum(Count::Execs),
            vcpus: sum(Count::Vcpus),
            vcpu_switches: sum(Count::VcpuSwitches),
            exitless_calls: sum(Count::ExitlessCalls),
            exitless_fallbacks: sum(Count::ExitlessFallbacks),
            polling_threads: sum(Count::PollingThreads),
            polling_cpu_ns: sum(Count::PollingNs),
            anonymous_kib: sum(Count::AnonymousKib),
            large_kib: sum(Count::LargeKib),
            prefaulted_kib: sum(Count::PrefaultedKib),
            first_start_ns: shared.first_start_ns.load(std::sync::atomic::Ordering::Relaxed),
            start_ns: sum(Count::StartNs),
            calls_by_number: calls.filter(|(_, calls)| *calls > 0).collect(),
            route: Route::of(shared.route.load(std::sync::atomic::Ordering::Relaxed)),
            unsupported: refused
                .filter(|(_, (count, _))| *count > 0)
                .map(|(kind, (count, detail))| Unsupported { kind, count, detail })
                .collect(),
        }
    }

    /// The counters as one line of JSON.
    ///
    /// # Errors
    /// None that is known: all fields are numbers, texts and lists of them.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Returns that were not for a system call: faults, exceptions and signals.
    #[must_use]
    pub fn other_exits(&self) -> u64 {
        self.exits.saturating_sub(self.calls)
    }
}

impl Route {
    /// From the ring plus one, as it is in the record.
    fn of(ring_plus_one: u32) -> Option<Self> {
        match ring_plus_one {
            0 => None,
            4 => Some(Route::Ring3),
            _ => Some(Route::Ring0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn pages_and_totals_are_added_and_killed_processes_count() {
        let record = Record::new().expect("memory");
        let shared = record.shared();
        let (ended, killed) = (shared.claim(1), shared.claim(2));
        shared.page(ended).tally.call(39);
        shared.page(killed).tally.call(39);
        shared.page(killed).tally.add(Count::Exits, 10);
        shared.finish(ended);
        shared.refuse(UnsupportedKind::Ptrace, 16);
        let counters = Counters::read(shared);
        assert_eq!((counters.calls, counters.exits, counters.other_exits()), (2, 10, 8));
        assert_eq!(counters.calls_by_number, BTreeMap::from([(39, 2)]));
        assert_eq!(counters.unsupported, [Unsupported { kind: UnsupportedKind::Ptrace, count: 1, detail: 16 }]);
    }

    #[test]
    fn the_json_names_its_format_and_is_read_again() {
        let counters = Counters::read(Record::new().expect("memory").shared());
        let json = counters.to_json().expect("numbers");
        assert!(json.starts_with(r#"{"format":"baremark-guest-program","version":1,"#), "{json}");
        assert_eq!(serde_json::from_str::<Counters>(&json).expect("the same"), counters);
    }

    #[test]
    fn the_route_is_named_by_the_ring() {
        assert_eq!((Route::of(0), Route::of(4), Route::of(1)), (None, Some(Route::Ring3), Some(Route::Ring0)));
    }
}

//! A program in the microVM: run by `baremark guest`, with the host's kernel behind it, and what was counted meanwhile.
//!
//! The supervisor starts `baremark guest` in the program's place, so that the time of making the microVM is in the wall time,
//! as a virtual machine's start would be. What a forwarded call and an exit cost is measured once a trial, right next to it, by
//! `baremark guest --costs`. Nothing is subtracted from any figure.

use crate::keeper::Task;
use crate::verified;
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::job::{JobError, JobRun};
use baremark_model::metric::Metric;
use baremark_model::page_size::PageSize;
use baremark_model::seam::Sample;
use baremark_sys::affinity::allowed_cpus;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where `baremark guest` writes what it has counted, in the program's folder.
const STATS: &str = "baremark-guest.json";
/// This program itself, as the supervisor that starts it sees it.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The format and version that are read.
const FORMAT: (&str, u32) = ("baremark-guest-program", 1);
/// How long the microVM may take to say where a program stood that has reached its limit.
const GRACE_NS: u64 = 30_000_000_000;
/// The least share of a program's memory in large pages, in percent, that is called backed by them: what is smaller than such a page, and the
/// beginning and end of what is larger, is not.
const MOSTLY: f64 = 50.0;

/// Ready to run programs in the microVM.
pub(crate) struct Inside {
    costs: Costs,
    page: String,
    backing: Option<PageSize>,
    exitless: bool,
    prefault: bool,
}

/// What a forwarded call costs at this site, and an exit: the same less that call natively.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Costs {
    call: Cost,
    exit: Cost,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Cost {
    ns: f64,
}

/// What `baremark guest` has counted, as far as it is used here.
#[derive(Clone, Debug, Deserialize)]
struct Counters {
    format: String,
    version: u32,
    images: u64,
    images_in_guest: u64,
    calls: u64,
    exits: u64,
    guest_faults: u64,
    host_faults: u64,
    signals: u64,
    start_ns: u64,
    exitless_calls: u64,
    exitless_fallbacks: u64,
    polling_threads: u64,
    polling_cpu_ns: u64,
    anonymous_kib: u64,
    large_kib: u64,
    prefaulted_kib: u64,
    route: Option<String>,
    unsupported: Vec<Unsupported>,
}

#[derive(Clone, Debug, Deserialize)]
struct Unsupported {
    kind: String,
    count: u64,
}

impl Inside {
    /// Measures what leaving the guest costs here.
    ///
    /// # Errors
    /// When there is no microVM here.
    pub(crate) fn prepare(arm: &ResolvedArm, baremark: &Path) -> Result<Self, JobError> {
        let failed = |why: &dyn std::fmt::Display| JobError::failed(format!("the cost of a forwarded call: {why}"));
        let (page, exitless) = (command::guest_page(arm).to_string(), command::is_exitless(arm));
        let allowed = allowed_cpus().map_or(1, |cpus| cpus.len());
        if exitless && allowed < 2 {
            return Err(JobError::Missing {
                what: format!(
                    "exitless = \"on\" needs 2 CPUs, of which a polling thread takes one; allowed: {allowed}"
                ),
                remedy: "allow a second CPU, or write exitless = \"off\"".to_owned(),
            });
        }
        let mut measure = Command::new(baremark);
        measure.args(["guest", "--guest-page", &page, "--costs"]).stdin(Stdio::null());
        let output = measure.output().map_err(|why| failed(&why))?;
        if !output.status.success() {
            let what = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
            return Err(JobError::Missing { what, remedy: "leave the environment microvm out".to_owned() });
        }
        let costs = serde_json::from_slice(&output.stdout).map_err(|why| failed(&why))?;
        let prefault = command::is_prefaulted(arm);
        Ok(Inside { costs, page, backing: arm.host_backing, exitless, prefault })
    }

    /// The task that runs a program inside, in a folder.
    pub(crate) fn task(&self, task: Task, folder: &Path) -> Task {
        let stats = folder.join(STATS).to_string_lossy().into_owned();
        // A program that does not end is ended by the microVM, which says where it stood; the supervisor ends a microVM that does not.
        let limit = Duration::from_nanos(task.timeout_ns).as_secs_f64().to_string();
        let limited = ["--stats", &stats, "--time-limit", &limit, "--"].map(str::to_owned);
        let argv = self.words().into_iter().chain(limited).chain(task.argv).collect();
        Task { argv, timeout_ns: task.timeout_ns + GRACE_NS, ..task }
    }

    /// The words that stand before a program and its arguments which is to run as the study's, and of which nothing is counted.
    pub(crate) fn before(&self) -> Vec<String> {
        self.words().into_iter().chain(["--".to_owned()]).collect()
    }

    /// How programs are run.
    fn words(&self) -> Vec<String> {
        let exitless = if self.exitless { "on" } else { "off" };
        let how = [THIS_PROGRAM, "guest", "--guest-page", &self.page, "--exitless", exitless].map(str::to_owned);
        let backing = self.backing.map(|page| ["--host-backing".to_owned(), page.to_string()]);
        let prefault = self.prefault.then(|| ["--prefault", "on"].map(str::to_owned));
        how.into_iter().chain(backing.into_iter().chain(prefault).flatten()).collect()
    }

    /// Adds what was counted to a run that lasted `wall_s` seconds.
    pub(crate) fn add(&self, run: &mut JobRun, wall_s: f64, folder: &Path) -> Result<(), JobError> {
        let path = folder.join(STATS);
        let failed = |why: &dyn std::fmt::Display| JobError::failed(format!("the microVM's counters: {why}"));
        let bytes = std::fs::read(&path).map_err(|why| failed(&why))?;
        // The next run must not be judged by this one's.
        std::fs::remove_file(&path).map_err(|why| failed(&why))?;
        let counted: Counters = serde_json::from_slice(&bytes).map_err(|why| failed(&why))?;
        if (counted.format.as_str(), counted.version) != FORMAT {
            return Err(failed(&format!(
                "format {} {}, not {} {}",
                counted.format, counted.version, FORMAT.0, FORMAT.1
            )));
        }
        run.samples.extend(self.samples(&counted, wall_s));
        run.void.extend(unproven(&counted));
        run.flags.extend(flags(&counted, verified::here));
        run.flags.extend(self.polling(&counted));
        run.flags.extend(self.unlike(&counted));
        run.flags.extend(self.prefaulted(&counted));
        Ok(())
    }

    /// What a run with exitless calls is labelled with.
    fn polling(&self, counted: &Counters) -> Option<String> {
        let label = match counted.polling_threads {
            0 => {
                "exitless = on had no effect: no process of the program had a CPU to spare, or its CPU time is limited"
            }
            _ => "exitless = on: a CPU is spent on a thread that polls for system calls",
        };
        self.exitless.then(|| label.to_owned())
    }

    /// What a run is labelled with whose memory is given when it is mapped.
    fn prefaulted(&self, counted: &Counters) -> Option<String> {
        let label = match counted.prefaulted_kib {
            0 => {
                "prefault = on had no effect: no process that ended by itself mapped memory that could be given at once"
            }
            _ => "prefault = on: memory was given when it was mapped, which is part of the time",
        };
        self.prefault.then(|| label.to_owned())
    }

    /// That the memory was not what the arm demands.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    fn unlike(&self, counted: &Counters) -> Option<String> {
        let share = 100.0 * counted.large_kib as f64 / counted.anonymous_kib.max(1) as f64;
        let (page, demanded) = match self.backing? {
            PageSize::Large => ("2m", share >= MOSTLY),
            PageSize::Small => ("4k", counted.large_kib == 0),
        };
        let told = || format!("host_backing = {page}: {share:.0} % of the program's memory was in pages of 2m");
        (!demanded).then(told)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    fn samples(&self, counted: &Counters, wall_s: f64) -> Vec<Sample> {
        let sample = |of: &Metric, value: f64| Sample::new(of.key, value);
        let calls = counted.calls as f64;
        // A call that does nothing has its own work, too, which it also has natively: the exit is what is left.
        let explained_s = counted.exits.max(counted.calls) as f64 * self.costs.exit.ns * 1e-9;
        let mut samples = vec![
            sample(&command::FORWARDED_CALLS, calls),
            sample(&command::VM_EXITS, counted.exits as f64),
            sample(&command::GUEST_FAULTS, (counted.guest_faults + counted.host_faults) as f64),
            sample(&command::GUEST_SIGNALS, counted.signals as f64),
            sample(&command::GUEST_START, counted.start_ns as f64 * 1e-9),
            sample(&command::CALL_COST, self.costs.call.ns),
            sample(&command::EXIT_COST, self.costs.exit.ns),
        ];
        if self.exitless {
            samples.extend([
                sample(&command::EXITLESS_CALLS, counted.exitless_calls as f64),
                sample(&command::EXITLESS_FALLBACKS, counted.exitless_fallbacks as f64),
                sample(&command::POLLING_CPU, counted.polling_cpu_ns as f64 * 1e-9),
            ]);
        }
        if wall_s > 0.0 {
            samples.push(sample(&command::EXIT_SHARE, 100.0 * explained_s / wall_s));
        }
        samples
    }
}

/// Why a run is not a run in the microVM: each program image must have proven that it ran in guest mode.
fn unproven(counted: &Counters) -> Option<String> {
    let missing = counted.images.saturating_sub(counted.images_in_guest);
    let none = counted.images == 0;
    (missing > 0 || none).then(|| {
        format!(
            "microVM: {} of {} processes proved that they ran in guest mode; one that is killed before its first system call cannot",
            counted.images_in_guest, counted.images
        )
    })
}

/// What a run is labelled with; whether the machine's own virtualization was tried is asked only where it was used.
fn flags(counted: &Counters, is_verified: impl FnOnce() -> bool) -> Vec<String> {
    let refused = |of: &Unsupported| {
        let what = of.kind.replace('_', "-");
        format!("the microVM does not support a system call of the program: {what} ({} times in a run)", of.count)
    };
    let mut flags: Vec<String> = counted.unsupported.iter().map(refused).collect();
    if counted.route.as_deref() == Some("ring0") && !is_verified() {
        flags.push(
            "the microVM's route for VMX and SVM was not tried on this machine: `make verify-kvm` tries it".to_owned(),
        );
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(images_in_guest: u64) -> Counters {
        let text = format!(
            r#"{{"format":"baremark-guest-program","version":1,"images":2,"images_in_guest":{images_in_guest},"calls":1000,
                "exits":1500,"guest_faults":3,"exceptions":0,"host_faults":1,"signals":7,"start_ns":4000000,"route":"ring3",
                "exitless_calls":700,"exitless_fallbacks":20,"polling_threads":1,"polling_cpu_ns":500000000,
                "anonymous_kib":10240,"large_kib":4096,"prefaulted_kib":2048,
                "unsupported":[{{"kind":"ptrace","count":2,"detail":16}}]}}"#
        );
        serde_json::from_str(&text).expect("counters")
    }

    fn inside() -> Inside {
        Inside {
            costs: Costs { call: Cost { ns: 30_000.0 }, exit: Cost { ns: 20_000.0 } },
            page: "2m".to_owned(),
            backing: None,
            exitless: false,
            prefault: false,
        }
    }

    #[test]
    fn programs_that_costs_are_measured_with_run_as_the_studys_does() {
        let inside = Inside { backing: Some(PageSize::Small), prefault: true, exitless: true, ..inside() };
        let task = Task { argv: vec!["cc".to_owned()], timeout_ns: 10_000_000_000, ..Task::default() };
        let how = "/proc/self/exe guest --guest-page 2m --exitless on --host-backing 4k --prefault on";
        assert_eq!(inside.before().join(" "), format!("{how} --"));
        let counted = format!("{how} --stats /folder/baremark-guest.json --time-limit 10 -- cc");
        let given = inside.task(task, Path::new("/folder"));
        assert_eq!((given.argv.join(" "), given.timeout_ns), (counted, 10_000_000_000 + GRACE_NS));
    }

    #[test]
    fn exits_explain_their_number_times_their_cost() {
        let samples = inside().samples(&counters(2), 0.4);
        let of = |metric: &Metric| samples.iter().find(|sample| sample.metric == metric.key).expect("a sample").value;
        // 1000 calls and 500 other exits of 20 us are 30 ms of 400; what a call costs natively is not an exit's.
        assert!((of(&command::EXIT_SHARE) - 7.5).abs() < 1e-9, "{samples:?}");
        assert_eq!((of(&command::CALL_COST), of(&command::EXIT_COST)), (30_000.0, 20_000.0));
        assert_eq!(
            (of(&command::FORWARDED_CALLS), of(&command::GUEST_FAULTS), of(&command::GUEST_SIGNALS)),
            (1e3, 4.0, 7.0)
        );
    }

    #[test]
    fn exitless_calls_are_reported_and_labelled_where_they_were_chosen() {
        let value = |inside: &Inside, metric: &Metric| {
            let samples = inside.samples(&counters(2), 0.4);
            samples.into_iter().find(|sample| sample.metric == metric.key).map(|sample| sample.value)
        };
        let (with, without) = (Inside { exitless: true, ..inside() }, inside());
        let figures = [&command::EXITLESS_CALLS, &command::EXITLESS_FALLBACKS, &command::POLLING_CPU];
        assert_eq!(figures.map(|metric| value(&with, metric)), [Some(700.0), Some(20.0), Some(0.5)]);
        assert_eq!(figures.map(|metric| value(&without, metric)), [None; 3]);
        assert!(with.polling(&counters(2)).is_some_and(|label| label.contains("a CPU is spent")));
        assert_eq!(without.polling(&counters(2)), None);
    }

    #[test]
    fn memory_that_was_not_backed_as_demanded_is_named() {
        let told = |backing| Inside { backing, ..inside() }.unlike(&counters(2));
        assert_eq!(told(None), None);
        for (page, name) in [(PageSize::Large, "2m"), (PageSize::Small, "4k")] {
            let expected = format!("host_backing = {name}: 40 % of the program's memory was in pages of 2m");
            assert_eq!(told(Some(page)), Some(expected));
        }
        let with = |large_kib| Counters { large_kib, ..counters(2) };
        assert_eq!(Inside { backing: Some(PageSize::Large), ..inside() }.unlike(&with(6000)), None);
        assert_eq!(Inside { backing: Some(PageSize::Small), ..inside() }.unlike(&with(0)), None);
    }

    #[test]
    fn memory_that_is_given_when_it_is_mapped_is_chosen_and_labelled() {
        let with = Inside { prefault: true, backing: Some(PageSize::Large), ..inside() };
        assert!(with.prefaulted(&counters(2)).is_some_and(|label| label.contains("given when it was mapped")));
        let none = Counters { prefaulted_kib: 0, ..counters(2) };
        assert!(with.prefaulted(&none).is_some_and(|label| label.contains("had no effect")));
        assert_eq!(inside().prefaulted(&counters(2)), None);
    }

    #[test]
    fn a_process_that_did_not_prove_itself_voids_and_what_was_refused_is_named() {
        assert_eq!(unproven(&counters(2)), None);
        let why = unproven(&counters(1)).expect("one is missing");
        let cannot = "one that is killed before its first system call cannot";
        assert_eq!(why, format!("microVM: 1 of 2 processes proved that they ran in guest mode; {cannot}"));
        assert_eq!(
            flags(&counters(2), || panic!("asked for another route")),
            ["the microVM does not support a system call of the program: ptrace (2 times in a run)"]
        );
    }

    #[test]
    fn a_route_that_was_not_tried_on_the_machine_is_labelled() {
        let own = Counters { route: Some("ring0".to_owned()), unsupported: Vec::new(), ..counters(2) };
        let label = "the microVM's route for VMX and SVM was not tried on this machine: `make verify-kvm` tries it";
        assert_eq!(flags(&own, || false), [label]);
        assert_eq!(flags(&own, || true), [""; 0]);
    }

    #[test]
    fn counters_of_a_run_are_used_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut run = JobRun::default();
        inside().add(&mut run, 1.0, folder.path()).expect_err("no counters");
        let text = r#"{"format":"other","version":1,"images":1,"images_in_guest":1,"calls":0,"exits":0,"guest_faults":0,
            "host_faults":0,"signals":0,"start_ns":0,"exitless_calls":0,"exitless_fallbacks":0,"polling_threads":0,
            "polling_cpu_ns":0,"anonymous_kib":0,"large_kib":0,"prefaulted_kib":0,"route":null,"unsupported":[]}"#;
        std::fs::write(folder.path().join(STATS), text).expect("written");
        let why = inside().add(&mut run, 1.0, folder.path()).expect_err("another format").to_string();
        assert!(why.contains("format other 1, not baremark-guest-program 1"), "{why}");
        assert!(!folder.path().join(STATS).exists());
    }
}

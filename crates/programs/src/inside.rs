//! A program in the microVM: run by `baremark guest`, with the host's kernel behind it, and what was counted meanwhile.
//!
//! The supervisor starts `baremark guest` in the program's place, so that the time of making the microVM is in the wall time,
//! as a virtual machine's start would be. What a forwarded call and an exit cost is measured once a trial, right next to it, by
//! `baremark guest --costs`. Nothing is subtracted from any figure.

use crate::keeper::Task;
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::descriptor::Metric;
use baremark_model::job::{JobError, JobRun};
use baremark_model::seam::Sample;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where `baremark guest` writes what it has counted, in the program's folder.
const STATS: &str = "baremark-guest.json";
/// This program itself, as the supervisor that starts it sees it.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The format and version that are read.
const FORMAT: (&str, u32) = ("baremark-guest-program", 1);
const SECOND_NS: u64 = 1_000_000_000;

/// Ready to run programs in the microVM.
pub(crate) struct Inside {
    costs: Costs,
    page: String,
}

/// What a forwarded call and another exit cost at this site.
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
        let page = command::guest_page(arm).to_string();
        let mut measure = Command::new(baremark);
        measure.args(["guest", "--guest-page", &page, "--costs"]).stdin(Stdio::null());
        let output = measure.output().map_err(|why| failed(&why))?;
        if !output.status.success() {
            let what = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
            return Err(JobError::Missing { what, remedy: "leave the environment microvm out".to_owned() });
        }
        let costs = serde_json::from_slice(&output.stdout).map_err(|why| failed(&why))?;
        Ok(Inside { costs, page })
    }

    /// The task that runs a program inside, in a folder.
    pub(crate) fn task(&self, task: Task, folder: &Path) -> Task {
        let stats = folder.join(STATS).to_string_lossy().into_owned();
        // A program that hangs is ended here, which says where it stood, before the supervisor ends it.
        let stall = (task.timeout_ns / SECOND_NS).saturating_sub(1).max(1).to_string();
        let words =
            [THIS_PROGRAM, "guest", "--guest-page", &self.page, "--stats", &stats, "--stall-limit", &stall, "--"];
        let argv = words.iter().map(|&word| word.to_owned()).chain(task.argv).collect();
        Task { argv, ..task }
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
        run.flags.extend(flags(&counted));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    fn samples(&self, counted: &Counters, wall_s: f64) -> Vec<Sample> {
        let sample = |of: &Metric, value: f64| Sample { metric: of.key.to_owned(), value };
        let calls = counted.calls as f64;
        let others = counted.exits.saturating_sub(counted.calls) as f64;
        let explained_s = (calls * self.costs.call.ns + others * self.costs.exit.ns) * 1e-9;
        let mut samples = vec![
            sample(&command::FORWARDED_CALLS, calls),
            sample(&command::VM_EXITS, counted.exits as f64),
            sample(&command::GUEST_FAULTS, (counted.guest_faults + counted.host_faults) as f64),
            sample(&command::GUEST_SIGNALS, counted.signals as f64),
            sample(&command::GUEST_START, counted.start_ns as f64 * 1e-9),
            sample(&command::CALL_COST, self.costs.call.ns),
        ];
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
            "microVM: {} of {} processes proved that they ran in guest mode",
            counted.images_in_guest, counted.images
        )
    })
}

fn flags(counted: &Counters) -> Vec<String> {
    let refused = |of: &Unsupported| {
        let what = of.kind.replace('_', "-");
        format!("the microVM does not support a system call of the program: {what} ({} times in a run)", of.count)
    };
    let mut flags: Vec<String> = counted.unsupported.iter().map(refused).collect();
    if counted.route.as_deref() == Some("ring0") {
        flags.push("the microVM's route for VMX and SVM was never tried: `make verify-kvm` tries it".to_owned());
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
                "unsupported":[{{"kind":"ptrace","count":2,"detail":16}}]}}"#
        );
        serde_json::from_str(&text).expect("counters")
    }

    fn inside() -> Inside {
        Inside { costs: Costs { call: Cost { ns: 30_000.0 }, exit: Cost { ns: 20_000.0 } }, page: "2m".to_owned() }
    }

    #[test]
    fn exits_explain_their_number_times_their_cost() {
        let samples = inside().samples(&counters(2), 0.4);
        let of = |metric: &Metric| samples.iter().find(|sample| sample.metric == metric.key).expect("a sample").value;
        // 1000 calls of 30 us and 500 other exits of 20 us are 40 ms of 400.
        assert!((of(&command::EXIT_SHARE) - 10.0).abs() < 1e-9, "{samples:?}");
        assert_eq!(
            (of(&command::FORWARDED_CALLS), of(&command::GUEST_FAULTS), of(&command::GUEST_SIGNALS)),
            (1e3, 4.0, 7.0)
        );
    }

    #[test]
    fn a_process_that_did_not_prove_itself_voids_and_what_was_refused_is_named() {
        assert_eq!(unproven(&counters(2)), None);
        let why = unproven(&counters(1)).expect("one is missing");
        assert_eq!(why, "microVM: 1 of 2 processes proved that they ran in guest mode");
        assert_eq!(
            flags(&counters(2)),
            ["the microVM does not support a system call of the program: ptrace (2 times in a run)"]
        );
    }

    #[test]
    fn counters_of_a_run_are_used_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut run = JobRun::default();
        inside().add(&mut run, 1.0, folder.path()).expect_err("no counters");
        let text = r#"{"format":"other","version":1,"images":1,"images_in_guest":1,"calls":0,"exits":0,"guest_faults":0,
            "host_faults":0,"signals":0,"start_ns":0,"route":null,"unsupported":[]}"#;
        std::fs::write(folder.path().join(STATS), text).expect("written");
        let why = inside().add(&mut run, 1.0, folder.path()).expect_err("another format").to_string();
        assert!(why.contains("format other 1, not baremark-guest-program 1"), "{why}");
        assert!(!folder.path().join(STATS).exists());
    }
}

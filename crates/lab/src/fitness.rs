//! Whether a machine is fit to measure: what would disturb, what is missing, and what to change.
//!
//! Pure judgement over recorded facts, so that it can be tested on machines that are not here, and asked of a run that
//! was stored long ago.

use baremark_model::machine::MachineFacts;
use baremark_model::units::{Bytes, Share};
use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As it should be.
    Good,
    /// Worth knowing; nothing can or need be done.
    Note,
    /// It makes numbers noisier or mean something else.
    Concern,
    /// Something cannot be measured at all.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// How bad it is.
    pub grade: Grade,
    /// What was found, in words.
    pub found: String,
    /// What to change; `None` where there is nothing to change.
    pub remedy: Option<&'static str>,
}

/// What a short look at this machine adds to its facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glimpse {
    /// The share of the time that a loop reading the clock stood still; `None` when it was not looked at.
    pub lost_share: Option<f64>,
    /// The longest such gap in nanoseconds.
    pub longest_gap_ns: f64,
    /// Why the microVM cannot be used; `None` when it can.
    pub microvm_missing: Option<String>,
    /// Which MMU virtualization a virtual machine gets here, in words.
    pub mmu: String,
}

/// A load average above this many processes, on an otherwise idle machine, is somebody else's work.
const BUSY: f64 = 0.5;
/// Lost time above this share is felt in a ratio.
const LOST: f64 = 0.01;

/// Judges a machine.
#[must_use]
pub fn judge(facts: &MachineFacts, glimpse: &Glimpse) -> Vec<Finding> {
    [
        standing(facts),
        microvm(glimpse),
        clock(facts),
        frequency(facts),
        smt(facts),
        huge_pages(facts),
        memory(facts),
        load(facts),
        lost_time(glimpse),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn finding(
    subject: &'static str,
    grade: Grade,
    found: impl Into<String>,
    remedy: Option<&'static str>,
) -> Option<Finding> {
    Some(Finding { subject, grade, found: found.into(), remedy })
}

fn standing(facts: &MachineFacts) -> Option<Finding> {
    let subject = "where we stand";
    let vendor = facts.virtualization.hypervisor_vendor.as_deref().unwrap_or("unnamed");
    match facts.virtualization.hypervisor {
        Some(true) => finding(
            subject,
            Grade::Note,
            format!("inside a virtual machine (hypervisor {vendor}): native means native of this virtual machine"),
            Some("for figures of bare metal, run on bare metal"),
        ),
        Some(false) => finding(subject, Grade::Good, "on bare metal", None),
        None => finding(subject, Grade::Concern, "the processor does not say whether a hypervisor is under it", None),
    }
}

fn microvm(glimpse: &Glimpse) -> Option<Finding> {
    match &glimpse.microvm_missing {
        None => finding("microVM", Grade::Good, format!("works; MMU virtualization: {}", glimpse.mmu), None),
        Some(why) => finding("microVM", Grade::Missing, why.clone(), None),
    }
}

fn clock(facts: &MachineFacts) -> Option<Finding> {
    let subject = "time-stamp counter";
    match facts.clock {
        Some(clock) if clock.tsc_invariant == Some(false) => finding(
            subject,
            Grade::Concern,
            "its rate may change with frequency and sleep states",
            Some("measure on a processor with constant_tsc and nonstop_tsc"),
        ),
        Some(clock) => {
            let known = format!("{:.4} GHz, known to {:.1} ppm", clock.tsc_hz / 1e9, clock.tsc_error_ppm);
            finding(subject, Grade::Good, known, None)
        }
        None => finding(subject, Grade::Missing, "its rate could not be found out", None),
    }
}

fn frequency(facts: &MachineFacts) -> Option<Finding> {
    let subject = "frequency";
    let turbo = facts.frequency.turbo == Some(true);
    match facts.frequency.governor.as_deref() {
        None => finding(subject, Grade::Note, "not governed from here", None),
        Some("performance") if turbo => finding(
            subject,
            Grade::Note,
            "governor performance, turbo on: the frequency follows heat and load",
            Some("turn turbo off for steadier figures (intel_pstate/no_turbo, cpufreq/boost)"),
        ),
        Some("performance") => finding(subject, Grade::Good, "governor performance, turbo off", None),
        Some(governor) => finding(
            subject,
            Grade::Concern,
            format!("governor {governor}: the frequency follows the load"),
            Some("cpupower frequency-set -g performance"),
        ),
    }
}

fn smt(facts: &MachineFacts) -> Option<Finding> {
    match facts.cpu.smt {
        Some(true) => finding(
            "SMT",
            Grade::Note,
            "on: ranks on two threads of one core share it",
            Some("echo off > /sys/devices/system/cpu/smt/control, or fewer ranks"),
        ),
        Some(false) => finding("SMT", Grade::Good, "off, or one thread a core", None),
        None => None,
    }
}

fn huge_pages(facts: &MachineFacts) -> Option<Finding> {
    let subject = "large pages";
    match facts.memory.thp_enabled.as_deref() {
        Some(word @ ("madvise" | "always")) => finding(subject, Grade::Good, format!("transparent, on ({word})"), None),
        Some(word) => finding(
            subject,
            Grade::Missing,
            format!("transparent huge pages are '{word}': treatments with 2m pages will be void"),
            Some("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        None => finding(subject, Grade::Missing, "this kernel has no transparent huge pages", None),
    }
}

fn memory(facts: &MachineFacts) -> Option<Finding> {
    let available = Bytes(facts.memory.available_bytes? >> 20 << 20);
    let nodes = facts.memory.nodes.len().max(1);
    let found = format!("{available} available on {nodes} NUMA node{}", if nodes == 1 { "" } else { "s" });
    finding("memory", Grade::Good, found, None)
}

fn load(facts: &MachineFacts) -> Option<Finding> {
    let [minute, ..] = facts.load_average?;
    match minute > BUSY {
        true => finding(
            "load",
            Grade::Concern,
            format!("{minute:.2} processes ran over the last minute"),
            Some("stop what else runs here, or ask for more blocks"),
        ),
        false => finding("load", Grade::Good, format!("{minute:.2} over the last minute"), None),
    }
}

fn lost_time(glimpse: &Glimpse) -> Option<Finding> {
    let lost = glimpse.lost_share?;
    let share = Share((lost * 1e4).round() / 1e4);
    let found = format!("{share} of the time, at most {:.0} us at once", glimpse.longest_gap_ns / 1e3);
    match lost > LOST {
        true => finding(
            "time lost to others",
            Grade::Concern,
            found,
            Some("look for other work on this machine, and on its host when this is a virtual one"),
        ),
        false => finding("time lost to others", Grade::Good, found, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grade_of(findings: &[Finding], subject: &str) -> Option<Grade> {
        findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.grade)
    }

    #[test]
    fn a_quiet_bare_machine_has_no_concern() {
        let mut facts = MachineFacts::default();
        facts.virtualization.hypervisor = Some(false);
        facts.cpu.smt = Some(false);
        facts.frequency.governor = Some("performance".to_owned());
        facts.frequency.turbo = Some(false);
        facts.memory.thp_enabled = Some("madvise".to_owned());
        facts.memory.available_bytes = Some(8 << 30);
        facts.load_average = Some([0.1, 0.1, 0.1]);
        let glimpse = Glimpse { lost_share: Some(0.001), mmu: "nested (EPT)".to_owned(), ..Glimpse::default() };
        let findings = judge(&facts, &glimpse);
        let worst = findings
            .iter()
            .filter(|finding| finding.subject != "time-stamp counter")
            .map(|finding| finding.grade)
            .max();
        assert_eq!(worst, Some(Grade::Good), "{findings:?}");
        assert_eq!(grade_of(&findings, "time-stamp counter"), Some(Grade::Missing));
    }

    #[test]
    fn what_disturbs_is_named_with_its_remedy() {
        let mut facts = MachineFacts::default();
        facts.virtualization.hypervisor = Some(true);
        facts.frequency.governor = Some("powersave".to_owned());
        facts.memory.thp_enabled = Some("never".to_owned());
        facts.load_average = Some([3.0, 1.0, 0.5]);
        let glimpse =
            Glimpse { lost_share: Some(0.2), microvm_missing: Some("no device".to_owned()), ..Glimpse::default() };
        let findings = judge(&facts, &glimpse);
        for (subject, grade) in [
            ("where we stand", Grade::Note),
            ("microVM", Grade::Missing),
            ("frequency", Grade::Concern),
            ("large pages", Grade::Missing),
            ("load", Grade::Concern),
            ("time lost to others", Grade::Concern),
        ] {
            assert_eq!(grade_of(&findings, subject), Some(grade), "{subject}");
        }
        assert!(
            findings.iter().filter(|finding| finding.grade == Grade::Concern).all(|finding| finding.remedy.is_some())
        );
    }
}

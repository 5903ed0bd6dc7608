//! Whether a machine is fit to measure: what would disturb, what is missing, and what to change.
//!
//! Pure judgement over recorded facts, so that it can be tested on machines that are not here, and asked of a run that
//! was stored long ago.

use baremark_model::machine::MachineFacts;
use baremark_model::units::{Bytes, Nanos, Share};
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
    /// What the environment sandbox has and lacks, or why it cannot be used; `None` when it was not looked at.
    pub sandbox: Option<Result<Sandbox, String>>,
    /// Version of the control groups by which memory and CPU time are limited; `None` where it was not looked at.
    pub control_groups: Option<[Option<u8>; 2]>,
}

/// What a sandbox has and lacks, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Its layers.
    pub has: Vec<String>,
    /// Those that this machine refuses, each with the reason.
    pub lacks: Vec<String>,
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
        container(facts),
        microvm(glimpse),
        sandbox(glimpse),
        control_groups(glimpse),
        nesting(facts),
        clock(facts),
        clock_source(facts),
        frequency(facts),
        smt(facts),
        huge_pages(facts),
        memory(facts),
        ksm(facts),
        khugepaged(facts),
        damon(facts),
        page_reporting(facts),
        numa_balancing(facts),
        watchdog(facts),
        mitigations(facts),
        load(facts),
        lost_time(glimpse),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn finding(subject: &'static str, grade: Grade, found: impl Into<String>) -> Option<Finding> {
    Some(Finding { subject, grade, found: found.into(), remedy: None })
}

fn good(subject: &'static str, found: impl Into<String>) -> Option<Finding> {
    finding(subject, Grade::Good, found)
}

fn note(subject: &'static str, found: impl Into<String>) -> Option<Finding> {
    finding(subject, Grade::Note, found)
}

fn concern(subject: &'static str, found: impl Into<String>) -> Option<Finding> {
    finding(subject, Grade::Concern, found)
}

fn missing(subject: &'static str, found: impl Into<String>) -> Option<Finding> {
    finding(subject, Grade::Missing, found)
}

/// Gives a finding what can be done about it.
fn remedy(remedy: &'static str) -> impl Fn(Finding) -> Finding {
    move |of| Finding { remedy: Some(remedy), ..of }
}

fn standing(facts: &MachineFacts) -> Option<Finding> {
    let subject = "virtualization";
    let vendor = facts.virtualization.hypervisor_vendor.as_deref().unwrap_or("unnamed");
    match facts.virtualization.hypervisor {
        Some(true) => note(
            subject,
            format!("inside a virtual machine (hypervisor {vendor}): native is this virtual machine, not bare metal"),
        )
        .map(remedy("for figures of bare metal, run on bare metal")),
        Some(false) => good(subject, "on bare metal"),
        None => concern(subject, "the processor does not say whether a hypervisor is under it"),
    }
}

fn microvm(glimpse: &Glimpse) -> Option<Finding> {
    match &glimpse.microvm_missing {
        None => good("microVM", format!("works; MMU virtualization: {}", glimpse.mmu)),
        Some(why) => missing("microVM", why.clone()),
    }
}

/// What native means in a container. On a machine that is none nothing is said.
fn container(facts: &MachineFacts) -> Option<Finding> {
    let virtualization = &facts.virtualization;
    let found = || {
        let signs = virtualization.container_hints.join("; ");
        format!(
            "{signs}: native is this container, with its engine's filter of system calls and limits on CPUs and memory"
        )
    };
    let advice = "for figures of the machine below, run outside of the container";
    if virtualization.is_container() { note("container", found()).map(remedy(advice)) } else { None }
}

fn sandbox(glimpse: &Glimpse) -> Option<Finding> {
    let subject = "sandbox";
    match glimpse.sandbox.as_ref()? {
        Ok(Sandbox { has, lacks }) if lacks.is_empty() => good(subject, format!("works; layers: {}", has.join(", "))),
        Ok(Sandbox { has, lacks }) => {
            let found = format!("works; layers: {}; refused here: {}", has.join(", "), lacks.join("; "));
            note(subject, found)
        }
        Err(why) => missing(subject, why.clone()),
    }
}

fn control_groups(glimpse: &Glimpse) -> Option<Finding> {
    let subject = "control groups";
    let advice = "run it as root, or in a control group that is delegated to its user";
    match glimpse.control_groups? {
        [Some(memory), Some(cpu)] if memory == cpu => {
            good(subject, format!("version {memory}, for memory and CPU time"))
        }
        [Some(memory), Some(cpu)] => good(subject, format!("version {memory} for memory, version {cpu} for CPU time")),
        [Some(memory), None] => {
            let found = format!("version {memory} for memory; none for CPU time: workloads with a quota run without");
            note(subject, found).map(remedy(advice))
        }
        [None, cpu] => {
            let cpu = cpu.map_or("none for CPU time".to_owned(), |version| format!("version {version} for CPU time"));
            let found = format!("none for memory, which limits of the address space replace; {cpu}");
            note(subject, found).map(remedy(advice))
        }
    }
}

fn clock(facts: &MachineFacts) -> Option<Finding> {
    let subject = "time-stamp counter";
    match facts.clock {
        Some(clock) if clock.tsc_invariant == Some(false) => {
            concern(subject, "its rate may change with frequency and sleep states")
                .map(remedy("measure on a processor with constant_tsc and nonstop_tsc"))
        }
        Some(clock) => {
            let known = format!("{:.4} GHz ± {:.1} ppm", clock.tsc_hz / 1e9, clock.tsc_error_ppm);
            good(subject, known)
        }
        None => missing(subject, "its rate could not be found out"),
    }
}

fn nesting(facts: &MachineFacts) -> Option<Finding> {
    let subject = "nesting";
    if facts.virtualization.hypervisor? && facts.virtualization.kvm_device {
        let found = "a virtual machine made here lies in another one: its exits may pass through two hypervisors";
        return note(subject, found).map(remedy("for the cost of one level, run on bare metal"));
    }
    let nested = |module: &str| {
        let value = facts.virtualization.kvm_modules.get(module)?.get("nested")?;
        Some(matches!(value.as_str(), "1" | "Y"))
    };
    match nested("kvm_intel").or_else(|| nested("kvm_amd")) {
        Some(true) => good(subject, "one level; guests may have guests of their own"),
        Some(false) => good(subject, "one level; guests cannot have their own"),
        None => None,
    }
}

fn clock_source(facts: &MachineFacts) -> Option<Finding> {
    let source = facts.kernel.clocksource.as_deref()?;
    let subject = "clock source";
    match source {
        "tsc" => good(subject, "tsc"),
        "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter" => {
            note(subject, format!("{source}: the hypervisor's, read without leaving the process"))
        }
        slow => concern(
            subject,
            format!("{slow}: reading the time is a slow system call; programs that read it often pay for it"),
        )
        .map(remedy("look in the kernel's log why tsc was given up; tsc=reliable if it is sound")),
    }
}

fn frequency(facts: &MachineFacts) -> Option<Finding> {
    let subject = "frequency";
    let turbo = facts.frequency.turbo == Some(true);
    match facts.frequency.governor.as_deref() {
        None => note(subject, "set by the hypervisor or the firmware: cannot be controlled here"),
        Some("performance") if turbo => {
            note(subject, "governor performance, turbo on: the frequency follows heat and load")
                .map(remedy("turn turbo off for steadier figures (intel_pstate/no_turbo, cpufreq/boost)"))
        }
        Some("performance") => good(subject, "governor performance, turbo off"),
        Some(governor) => concern(subject, format!("governor {governor}: the frequency follows the load"))
            .map(remedy("`cpupower frequency-set -g performance`")),
    }
}

fn smt(facts: &MachineFacts) -> Option<Finding> {
    match facts.cpu.smt {
        Some(true) => note("SMT", "on: ranks on two threads of one core share it")
            .map(remedy("`echo off > /sys/devices/system/cpu/smt/control`, or fewer ranks")),
        Some(false) => good("SMT", "off, or one thread a core"),
        None => None,
    }
}

fn huge_pages(facts: &MachineFacts) -> Option<Finding> {
    let subject = "large pages";
    match facts.memory.thp_enabled.as_deref() {
        Some(word @ ("madvise" | "always")) => good(subject, format!("transparent, on ({word})")),
        Some(word) => {
            missing(subject, format!("transparent huge pages are '{word}': trials with 2m pages will be invalid"))
                .map(remedy("`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`"))
        }
        None => missing(subject, "this kernel has no transparent huge pages"),
    }
}

fn memory(facts: &MachineFacts) -> Option<Finding> {
    let available = Bytes(facts.memory.available_bytes? >> 20 << 20);
    let nodes = facts.memory.nodes.len().max(1);
    let found = format!("{available} available on {nodes} NUMA node{}", if nodes == 1 { "" } else { "s" });
    good("memory", found)
}

fn ksm(facts: &MachineFacts) -> Option<Finding> {
    match facts.background.ksm? {
        true => concern("ksm", "merges equal pages: it scans memory, and writing to a merged page faults")
            .map(remedy("`echo 2 > /sys/kernel/mm/ksm/run`")),
        false => good("ksm", "off"),
    }
}

/// khugepaged scans only what may become huge: nothing where transparent pages are off.
fn khugepaged(facts: &MachineFacts) -> Option<Finding> {
    let (pages, sleep) = (facts.background.khugepaged_pages?, facts.background.khugepaged_sleep_ms?);
    let found = format!("looks at {pages} pages every {:.1}", Nanos(sleep.saturating_mul(1_000_000)));
    match facts.memory.thp_enabled.as_deref() {
        Some("always") => {
            concern("khugepaged", format!("{found} and may make pages of any process huge while they are measured"))
                .map(remedy("`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`"))
        }
        Some("madvise") => note("khugepaged", found),
        _ => good("khugepaged", "has nothing to do"),
    }
}

fn damon(facts: &MachineFacts) -> Option<Finding> {
    match facts.background.kdamonds? {
        0 => good("DAMON", "off"),
        threads => concern(
            "DAMON",
            format!(
                "kdamond is active ({threads}): it clears accessed bits to sample memory use, and may reclaim memory"
            ),
        )
        .map(remedy("`echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state`, or damon_*.enabled=N")),
    }
}

fn page_reporting(facts: &MachineFacts) -> Option<Finding> {
    let order = facts.background.page_reporting_order;
    match order {
        Some(order) => note(
            "page reporting",
            format!(
                "free memory in blocks of {} KiB and more is returned to the hypervisor: its next use faults there",
                4_u64 << order.min(30)
            ),
        )
        .map(remedy("memory is touched before anything is timed; for a service leave it touched")),
        None if facts.virtualization.hypervisor? => good("page reporting", "off"),
        None => None,
    }
}

fn numa_balancing(facts: &MachineFacts) -> Option<Finding> {
    match facts.background.numa_balancing? && facts.memory.nodes.len() > 1 {
        true => concern(
            "NUMA balancing",
            "moves pages between nodes, and takes them away for a moment to see who uses them",
        )
        .map(remedy("`echo 0 > /proc/sys/kernel/numa_balancing`")),
        false => good("NUMA balancing", "off, or one node alone"),
    }
}

fn watchdog(facts: &MachineFacts) -> Option<Finding> {
    let (nmi, soft) = (facts.background.nmi_watchdog?, facts.background.soft_watchdog);
    match (nmi, soft) {
        (true, _) => {
            note("watchdog", "the NMI watchdog holds a counter of every CPU and interrupts it every few seconds")
                .map(remedy("`echo 0 > /proc/sys/kernel/nmi_watchdog`"))
        }
        (false, Some(true)) => good("watchdog", "NMI watchdog off; the soft watchdog's timer runs every few seconds"),
        (false, _) => good("watchdog", "off"),
    }
}

fn mitigations(facts: &MachineFacts) -> Option<Finding> {
    let all = &facts.kernel.mitigations;
    let beginning = |word: &str| all.iter().filter(|(_, says)| says.starts_with(word)).count();
    let open: Vec<&str> =
        all.iter().filter(|(_, says)| says.starts_with("Vulnerable")).map(|(name, _)| name.as_str()).collect();
    let (mitigated, unaffected) = (beginning("Mitigation"), beginning("Not affected"));
    let off = facts
        .kernel
        .command_line
        .as_deref()
        .is_some_and(|line| line.split_whitespace().any(|word| word == "mitigations=off"));
    if all.is_empty() {
        return None;
    }
    let mut found = format!("{mitigated} active, {unaffected} not needed");
    if !open.is_empty() {
        found.push_str(&format!(", open: {}", open.join(", ")));
    }
    if off {
        found.push_str("; switched off by the kernel's command line");
    }
    let remedy = off.then_some("compare only with machines that switch them off as well");
    note("mitigations", found).map(|of| Finding { remedy, ..of })
}

fn load(facts: &MachineFacts) -> Option<Finding> {
    let [minute, ..] = facts.load_average?;
    match minute > BUSY {
        true => concern("load", format!("{minute:.2} processes ran over the last minute"))
            .map(remedy("stop other programs, or request more blocks")),
        false => good("load", format!("{minute:.2} over the last minute")),
    }
}

fn lost_time(glimpse: &Glimpse) -> Option<Finding> {
    let lost = glimpse.lost_share?;
    let share = Share(lost);
    let found = format!("{share:.2} of the time without a CPU, at most {:.0} us at once", glimpse.longest_gap_ns / 1e3);
    match lost > LOST {
        true => concern("CPU stalls", found)
            .map(remedy("look for other work on this machine, and on its host when this is a virtual one")),
        false => good("CPU stalls", found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::machine::{BackgroundFacts, NodeFacts};

    fn grade_of(findings: &[Finding], subject: &str) -> Option<Grade> {
        findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.grade)
    }

    fn node(number: u64) -> NodeFacts {
        NodeFacts { node: number, cpus: String::new(), total_bytes: None, distances: Vec::new() }
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        let subjects: Vec<&str> =
            judge(&MachineFacts::default(), &Glimpse::default()).iter().map(|finding| finding.subject).collect();
        assert_eq!(subjects, ["virtualization", "microVM", "time-stamp counter", "frequency", "large pages"]);
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
        facts.kernel.clocksource = Some("tsc".to_owned());
        facts.background.ksm = Some(false);
        facts.background.kdamonds = Some(0);
        facts.background.numa_balancing = Some(true);
        (facts.background.nmi_watchdog, facts.background.soft_watchdog) = (Some(false), Some(true));
        let control_groups = Some([Some(2), Some(2)]);
        let mmu = "nested (EPT)".to_owned();
        let glimpse = Glimpse { lost_share: Some(0.001), mmu, control_groups, ..Glimpse::default() };
        let findings = judge(&facts, &glimpse);
        let worst = findings
            .iter()
            .filter(|finding| finding.subject != "time-stamp counter")
            .map(|finding| finding.grade)
            .max();
        assert_eq!(worst, Some(Grade::Good), "{findings:?}");
        let groups = findings.iter().find(|finding| finding.subject == "control groups").map(|of| of.found.as_str());
        assert_eq!(groups, Some("version 2, for memory and CPU time"));
        assert_eq!(grade_of(&findings, "time-stamp counter"), Some(Grade::Missing));
    }

    /// A file that an image of a container has brought to a virtual machine makes no container of it.
    #[test]
    fn a_container_is_named_with_what_native_means_there() {
        let mut facts = MachineFacts::default();
        facts.virtualization.container_hints.push("/.dockerenv exists".to_owned());
        facts.virtualization.own_processes = Some(false);
        assert_eq!(grade_of(&judge(&facts, &Glimpse::default()), "container"), None);
        facts.virtualization.own_processes = Some(true);
        let findings = judge(&facts, &Glimpse::default());
        let found = findings.iter().find(|finding| finding.subject == "container").map(|of| of.found.as_str());
        assert!(
            found.is_some_and(|found| found.starts_with("/.dockerenv exists: native is this container")),
            "{found:?}"
        );
    }

    #[test]
    fn a_sandbox_is_named_with_what_it_has_and_lacks() {
        let of = |sandbox| {
            let findings = judge(&MachineFacts::default(), &Glimpse { sandbox: Some(sandbox), ..Glimpse::default() });
            let found = findings.into_iter().find(|finding| finding.subject == "sandbox").expect("it was looked at");
            (found.grade, found.found)
        };
        let has = vec!["mount".to_owned(), "seccomp".to_owned()];
        let whole = of(Ok(Sandbox { has: has.clone(), lacks: Vec::new() }));
        assert_eq!(whole, (Grade::Good, "works; layers: mount, seccomp".to_owned()));
        let (grade, found) = of(Ok(Sandbox { has, lacks: vec!["user (not permitted)".to_owned()] }));
        assert_eq!((grade, found.ends_with("refused here: user (not permitted)")), (Grade::Note, true), "{found}");
        assert_eq!(of(Err("nothing isolates".to_owned())), (Grade::Missing, "nothing isolates".to_owned()));
    }

    #[test]
    fn what_disturbs_is_named_with_its_remedy() {
        let mut facts = MachineFacts::default();
        facts.virtualization.hypervisor = Some(true);
        facts.frequency.governor = Some("powersave".to_owned());
        facts.memory.thp_enabled = Some("never".to_owned());
        facts.load_average = Some([3.0, 1.0, 0.5]);
        facts.kernel.clocksource = Some("acpi_pm".to_owned());
        facts.kernel.command_line = Some("quiet mitigations=off".to_owned());
        facts.kernel.mitigations.insert("meltdown".to_owned(), "Vulnerable".to_owned());
        facts.virtualization.kvm_device = true;
        facts.memory.nodes = vec![node(0), node(1)];
        facts.background = BackgroundFacts {
            ksm: Some(true),
            khugepaged_sleep_ms: Some(10_000),
            khugepaged_pages: Some(4096),
            kdamonds: Some(1),
            page_reporting_order: Some(9),
            numa_balancing: Some(true),
            nmi_watchdog: Some(true),
            soft_watchdog: Some(true),
        };
        let glimpse = Glimpse {
            lost_share: Some(0.2),
            microvm_missing: Some("no device".to_owned()),
            control_groups: Some([None, Some(1)]),
            sandbox: Some(Ok(Sandbox {
                has: vec!["seccomp".to_owned()],
                lacks: vec!["user (not permitted)".to_owned()],
            })),
            ..Glimpse::default()
        };
        facts.virtualization.container_hints.push("/run/.containerenv exists".to_owned());
        facts.virtualization.own_processes = Some(true);
        let findings = judge(&facts, &glimpse);
        for (subject, grade) in [
            ("virtualization", Grade::Note),
            ("container", Grade::Note),
            ("microVM", Grade::Missing),
            ("sandbox", Grade::Note),
            ("control groups", Grade::Note),
            ("frequency", Grade::Concern),
            ("large pages", Grade::Missing),
            ("nesting", Grade::Note),
            ("clock source", Grade::Concern),
            ("ksm", Grade::Concern),
            ("khugepaged", Grade::Good),
            ("DAMON", Grade::Concern),
            ("page reporting", Grade::Note),
            ("NUMA balancing", Grade::Concern),
            ("watchdog", Grade::Note),
            ("mitigations", Grade::Note),
            ("load", Grade::Concern),
            ("CPU stalls", Grade::Concern),
        ] {
            assert_eq!(grade_of(&findings, subject), Some(grade), "{subject}");
        }
        assert!(
            findings.iter().filter(|finding| finding.grade == Grade::Concern).all(|finding| finding.remedy.is_some())
        );
    }
}

//! What this user can use of this machine: the privilege that each feature needs, whether that is there, and the command that grants it.

use crate::exit::Refusal;
use crate::places;
use baremark_disks::engine::Engine;
use baremark_disks::provision;
use baremark_host::FEATURES;
use baremark_model::environments::{self, EnvironmentKind};
use baremark_model::plan::Limits;
use baremark_networks::Namespace;
use baremark_observe::{LIST, Root, observer};
use baremark_report::{Style, beside};
use baremark_sys::confine;
use baremark_sys::control_group::{self, Controller};
use baremark_trace::calls::CallTrace;
use serde::Serialize;
use std::fs;

/// A feature, and what a user needs for it.
#[derive(Debug, Serialize)]
pub struct Listed {
    name: &'static str,
    needs: &'static str,
    /// Whether it is there; `None` where that depends on settings, such as the name of another machine.
    here: Option<bool>,
    /// Why it is missing.
    missing: Option<String>,
    /// The command that grants what it needs, whatever else is missing; empty where there is none.
    grant: &'static str,
}

/// A feature that is not an environment: its name, what it needs, the command that grants it, and why it is missing.
type Row = (&'static str, &'static str, &'static str, fn(&Limits) -> Option<String>);

const ROWS: [Row; 10] = [
    (
        "control groups",
        "root, or a control group that is delegated to the user",
        "systemd-run --user --scope -p Delegate=yes baremark ...",
        |_| missing(control_group::interface(Controller::Memory).is_none(), "memory of programs is limited otherwise"),
    ),
    (
        "io_uring",
        "kernel.io_uring_disabled = 0, in a container also a filter that permits it; threads are used otherwise",
        "sysctl kernel.io_uring_disabled=0",
        |_| Engine::permitted().err().map(|why| why.to_string()),
    ),
    ("reserved huge pages", "pages that root has reserved", "sysctl vm.nr_hugepages=512", |_| {
        missing(
            fs::read_to_string("/proc/sys/vm/nr_hugepages").is_ok_and(|pages| pages.trim() == "0"),
            "none is reserved",
        )
    }),
    (
        "hardware counters",
        "root, CAP_PERFMON, or kernel.perf_event_paranoid <= 0",
        "sysctl kernel.perf_event_paranoid=0",
        |_| observed("counters"),
    ),
    ("traces of I/O", "root (CAP_BPF and CAP_PERFMON)", "sudo baremark histograms", |_| observed("io-histograms")),
    (
        "counts of system calls",
        "root (CAP_BPF and CAP_PERFMON; kernel.unprivileged_bpf_disabled = 0 is not enough)",
        "sudo baremark run --in native,sandbox -- PROGRAM",
        |_| CallTrace::start(0).err().map(|why| why.to_string()),
    ),
    ("KVM's statistics", "root, and debugfs", "mount -t debugfs debugfs /sys/kernel/debug", |_| observed("kvm")),
    ("network paths", "root (CAP_NET_ADMIN and CAP_SYS_ADMIN)", "sudo baremark run ...", |_| {
        Namespace::new().err().map(|why| why.to_string())
    }),
    ("layers of disks", "root, loop devices and device-mapper", "modprobe -a loop dm_thin_pool dm_raid", |_| {
        provision::absent().into_iter().next().map(|(layer, why)| format!("{layer}: {why}"))
    }),
    ("host features", "root, and --allow-host-changes", "sudo baremark run STUDY --allow-host-changes", settable),
];

/// Every environment and feature.
pub fn all(limits: &Limits) -> Result<Vec<Listed>, Refusal> {
    let places = environments::ALL.iter().filter(|place| !place.needs.is_empty()).map(|place| listed(place, limits));
    let mut all = places.collect::<Result<Vec<_>, _>>()?;
    all.extend(ROWS.iter().map(|&(name, needs, grant, probe)| {
        let missing = probe(limits);
        Listed { name, needs, here: Some(missing.is_none()), missing, grant }
    }));
    Ok(all)
}

fn listed(place: &EnvironmentKind, limits: &Limits) -> Result<Listed, Refusal> {
    let absent = limits.absent.get(place.name).cloned();
    let probed = places::probe(place.name)?;
    // What is served by native is known from the limits alone.
    let known = probed.is_some() || place.can.interleaves;
    let missing = probed.map_or(absent, Result::err);
    let here = known.then_some(missing.is_none());
    Ok(Listed { name: place.name, needs: place.needs, here, missing, grant: place.grant })
}

fn missing(is_missing: bool, why: &str) -> Option<String> {
    is_missing.then(|| why.to_owned())
}

/// Why an observer has nothing to read here.
fn observed(name: &str) -> Option<String> {
    observer(LIST, name, &Root::default()).and_then(|mut of| of.start()).err().map(|why| why.reason)
}

fn settable(limits: &Limits) -> Option<String> {
    if !confine::is_root() {
        return Some("only the superuser sets them".to_owned());
    }
    // Those that a machine does not have are named by `verify-host`.
    missing(FEATURES.iter().all(|of| limits.absent.contains_key(of.key)), "this machine has none of them")
}

/// What each needs; of one that is missing also why, and the command that grants what it needs, whatever else is missing: a device, or counters of a
/// processor, are granted by no command.
pub fn describe(all: &[Listed], style: &Style) -> String {
    let widest = all.iter().map(|of| of.name.len()).max().unwrap_or(0);
    let blank = " ".repeat(widest + 5);
    let mut text = "\nFeatures, what each needs, and the command that grants that alone:\n".to_owned();
    for of in all {
        let mark = match of.here {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        text.push_str(&beside(&format!("{mark:<3} {:<widest$} ", of.name), of.needs, style));
        let Some(why) = of.missing.as_ref().filter(|_| of.here == Some(false)) else { continue };
        text.push_str(&beside(&format!("{blank}missing: "), why, style));
        if !of.grant.is_empty() {
            text.push_str(&beside(&format!("{blank}granted by: "), &format!("`{}`", of.grant), style));
        }
    }
    text
}

//! Whether the CPUs that a topology gives a tier can be used here.

use crate::topology::{On, TierPlan};
use baremark_sys::topology;
use std::collections::BTreeSet;
use std::path::Path;

/// What is wrong with the CPUs of a tier. Those of guests are counted only, those of other machines known there alone; an engine
/// may give a container CPUs that this process may not use.
pub(crate) fn unusable(tier: &str, plan: &TierPlan, allowed: &BTreeSet<usize>) -> Option<String> {
    let cpus = &plan.limits.cpus;
    match plan.on {
        On::Native => unknown(tier, cpus, allowed),
        On::Container(_) => {
            let online = topology::read(Path::new("/"), cpus).cpus.into_iter().map(|cpu| cpu.cpu);
            unknown(tier, cpus, &online.chain(allowed.iter().copied()).collect())
        }
        On::Qemu | On::Ssh(_) | On::External(_) => None,
    }
}

pub(crate) fn unknown(section: &str, cpus: &[usize], usable: &BTreeSet<usize>) -> Option<String> {
    let wrong = cpus.iter().find(|cpu| !usable.contains(cpu))?;
    let usable: Vec<String> = usable.iter().map(usize::to_string).collect();
    Some(format!("{section}.cpus: no CPU {wrong} can be used here; choose from {}", usable.join(", ")))
}

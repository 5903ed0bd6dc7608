//! What the databases of a plan will take of the disks, in words, before anything is loaded.

use crate::dvd_store;
use crate::hammer;
use crate::management_db;
use crate::order_entry;
use crate::space::Data;
use baremark_model::arm::ResolvedArm;
use std::collections::BTreeMap;

/// An arm of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'p> {
    /// The kind of its workload.
    pub kind: &'p str,
    /// Where it runs.
    pub environment: &'p str,
    /// Whether that has the files of this machine.
    pub is_here: bool,
    /// Its parameters.
    pub arm: &'p ResolvedArm,
}

/// For each database that a plan loads, how much it takes and how much is free: a sentence each, equal ones of several environments together.
pub fn notices<'p>(arms: impl IntoIterator<Item = Planned<'p>>) -> Vec<String> {
    let mut all: BTreeMap<(Data, bool), Vec<&str>> = BTreeMap::new();
    for Planned { kind, environment, is_here, arm } in arms {
        let Some(data) = data(kind, arm) else { continue };
        let environments = all.entry((data, is_here)).or_default();
        if !environments.contains(&environment) {
            environments.push(environment);
        }
    }
    let words = |((data, is_here), environments): (&(Data, bool), &Vec<&str>)| {
        data.words(&environments.join(", "), if *is_here { data.free() } else { None })
    };
    all.iter().map(words).collect()
}

/// The data of an arm; `None` of other workloads, and where its parameters are wrong.
fn data(kind: &str, arm: &ResolvedArm) -> Option<Data> {
    let of = match kind {
        "order-entry" => order_entry::workload::data,
        "dvd-store" => dvd_store::workload::data,
        "management-db" => management_db::workload::data,
        "oltp-hammer" => hammer::data,
        _ => return None,
    };
    of(arm)
}

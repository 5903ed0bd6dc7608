//! The table of environments: one row for each, with everything that is known of it but how it is started.
//!
//! A row is a file in this module's folder and a line of [`ALL`]. Nobody else knows an environment by its name: what must be known is a
//! capability of its row, and result documents carry the capabilities of the environments that they name.

mod cloud_hypervisor;
mod container;
mod guest;
mod kind;
mod kubernetes;
mod microvm;
mod mpi;
mod native;
mod null;
mod qemu;
mod sandbox;
mod slurm;
mod ssh;

pub use kind::{Capabilities, EnvironmentKind, FRESH, Given, Holder, INSTEAD_OF, Setting, Short, WHOLE_RUN};

use crate::arm::ExecutorKind;
use crate::knob::{Default, Kind, Knob};
use crate::value::Value;
use std::collections::BTreeMap;

/// All environments, in the order in which lists show them.
pub const ALL: &[&EnvironmentKind] = &[
    &native::KIND,
    &microvm::KIND,
    &null::KIND,
    &sandbox::KIND,
    &container::KIND,
    &qemu::KIND,
    &cloud_hypervisor::KIND,
    &ssh::KIND,
    &slurm::KIND,
    &mpi::KIND,
    &kubernetes::KIND,
];

/// Where work runs that no study puts anywhere: this machine itself.
pub const NATIVE: &str = native::KIND.name;

/// The factor that says where work runs.
pub const FACTOR: &str = "environment";

/// The names of all environments.
pub const NAMES: &[&str] = &named::<{ ALL.len() }>(false);

/// The names of those of which something can be set.
const SETTABLE: &[&str] = &named::<{ settable() }>(true);

const fn settable() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < ALL.len() {
        count += !ALL[at].settings.is_empty() as usize;
        at += 1;
    }
    count
}

/// The first `N` names, of all environments or of those of which something can be set.
const fn named<const N: usize>(settable: bool) -> [&'static str; N] {
    let (mut names, mut next, mut at) = ([""; N], 0, 0);
    while at < ALL.len() {
        if !settable || !ALL[at].settings.is_empty() {
            names[next] = ALL[at].name;
            next += 1;
        }
        at += 1;
    }
    names
}

/// The environment of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static EnvironmentKind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

/// What can be set about the environment of that name.
#[must_use]
pub fn knobs_of(name: &str) -> Vec<Knob> {
    find(name).map(EnvironmentKind::knobs).unwrap_or_default()
}

/// The names of the environments that can do so.
#[must_use]
pub fn names(can: fn(&Capabilities) -> bool) -> Vec<&'static str> {
    ALL.iter().filter(|kind| can(&kind.can)).map(|kind| kind.name).collect()
}

/// What the environment `name` is and can do; a name that is not in the table is that of another machine.
#[must_use]
pub fn can(name: &str) -> Capabilities {
    find(name).map_or(Capabilities::UNKNOWN, |kind| kind.can)
}

/// Where a treatment runs, by its name in the study: its levels say it, else it is this machine itself.
#[must_use]
pub fn of(treatment: &BTreeMap<String, String>) -> &str {
    treatment.get(FACTOR).map_or(NATIVE, String::as_str)
}

/// The executor of a level of the factor `environment`; that of a name of the study's own is the agent's.
#[must_use]
pub fn executor_of(name: &str) -> ExecutorKind {
    can(name).executor
}

/// Whether the host of an environment of this kind is this machine, so that features of this host (`host.KEY`) are features below its work.
#[must_use]
pub fn is_hosted_here(kind: &str, settings: Option<&BTreeMap<String, Value>>) -> bool {
    let names_hosts = |key: &&str| settings.is_some_and(|settings| settings.contains_key(*key));
    find(kind).is_some_and(|kind| {
        let apart = kind.elsewhere_by;
        kind.can.on_these_processors() || (!apart.is_empty() && !apart.iter().any(names_hosts))
    })
}

/// Whether programs in an environment of this kind run on this machine's kernel behind a filter of system calls, as the engines of containers have
/// by default: it refuses io_uring and others.
#[must_use]
pub fn filters_calls(kind: &str, settings: Option<&BTreeMap<String, Value>>) -> bool {
    let setting = |key: &str| settings.and_then(|settings| settings.get(key));
    let off = matches!(setting("seccomp"), Some(Value::Choice(word)) if word == "off");
    let without =
        matches!(setting(LAYERS), Some(Value::Words(layers)) if layers.iter().all(|layer| layer != "seccomp"));
    can(kind).separates_programs() && !off && !without
}

/// The setting that names the layers by which an environment is separated from this machine.
pub const LAYERS: &str = "layers";
/// What an environment that is made of layers was found to lack and why, in words, recorded with its settings.
pub const LACKS: &str = "lacks";
/// The layers that it lacks, by their names.
pub const LACKING: &str = "lacking";

/// The version of the program that makes an environment, as that prints it, recorded with its settings.
pub const VERSION: &str = "version";

/// The layers that an environment of these settings lacks. Of plans of earlier versions, which have the words alone, what stands before each
/// reason, which is in parentheses.
#[must_use]
pub fn lacking(settings: &BTreeMap<String, Value>) -> Vec<String> {
    match (settings.get(LACKING), settings.get(LACKS)) {
        (Some(Value::Words(names)), _) => names.clone(),
        (_, Some(words)) => {
            let (mut depth, mut names) = (0_u32, String::new());
            for c in words.to_string().chars() {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ if depth == 0 => names.push(c),
                    _ => {}
                }
            }
            names.split(';').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

/// The key by which `[environments.NAME]` of a name of one's own says which environment it is.
pub const LIKE: Knob = Knob::new("like", Kind::Choice(SETTABLE), Default::Required)
    .help("the environment that it extends; its settings apply here too, unless they are set otherwise");

/// Which environment one of these settings says that it is like.
#[must_use]
pub fn like(settings: &BTreeMap<String, Value>) -> Option<&str> {
    match settings.get(LIKE.key) {
        Some(Value::Choice(like)) => Some(like),
        _ => None,
    }
}

/// Which environment `name` is: itself, or what it says that it is like. `settings` are those of environments.
#[must_use]
pub fn kind_of<'n>(name: &'n str, settings: &'n BTreeMap<String, BTreeMap<String, Value>>) -> &'n str {
    settings.get(name).and_then(like).unwrap_or(name)
}

/// Whether the value of a setting of the environment `kind` can identify somebody; so can that of a setting which nobody knows.
#[must_use]
pub fn identifies(kind: &str, key: &str) -> bool {
    let known = find(kind).and_then(|kind| kind.settings.iter().find(|setting| setting.key == key));
    known.map_or(![LIKE.key, LACKS, LACKING, VERSION].contains(&key), |setting| setting.identifies)
}

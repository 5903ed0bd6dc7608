//! What every command needs: the store's place, whether to speak JSON, and the user's wish to stop.

use crate::exit::Refusal;
use baremark_host::Host;
use baremark_lab::analysis::Run;
use baremark_model::arm::ExecutorKind;
use baremark_model::command;
use baremark_model::descriptor::Descriptor;
use baremark_model::environments;
use baremark_model::imported::PLACE;
use baremark_model::knob::Kind;
use baremark_model::plan::Limits;
use baremark_model::tables;
use baremark_model::units::{Bytes, Nanos};
use baremark_store::Store;
use baremark_sys::{machine, user_folder};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The common part of a command's surroundings.
pub struct Context {
    /// The store that the user named, if any.
    pub store: Option<PathBuf>,
    /// Whether standard output carries one JSON document instead of text.
    pub json: bool,
    /// Whether progress is not shown.
    pub quiet: bool,
    /// Whether a run waits until no other of its store measures.
    pub wait: bool,
    /// For how long at most a run waits until the CPUs of this machine are idle; `None` to begin at once.
    pub wait_quiet: Option<Nanos>,
    /// Set by SIGINT, SIGTERM and SIGHUP.
    pub interrupt: Arc<AtomicBool>,
    /// Block devices that a run may overwrite.
    pub allow_destructive: Vec<PathBuf>,
    /// Whether a study may set features of this host.
    pub allow_host_changes: bool,
}

impl Context {
    /// Where the store is: `--store`, else $XDG_DATA_HOME/baremark/baremark.db, else ~/.local/share/baremark/baremark.db.
    pub fn store_path(&self) -> Result<PathBuf, Refusal> {
        if let Some(path) = &self.store {
            return Ok(path.clone());
        }
        let no_home = || Refusal::bad_input("neither XDG_DATA_HOME nor HOME is set; name the store with --store FILE");
        Ok(user_folder::data().ok_or_else(no_home)?.join("baremark.db"))
    }

    /// Opens the store for writing, making it when it does not exist.
    pub fn open_store(&self) -> Result<Store, Refusal> {
        Store::open(self.store_path()?).map_err(Refusal::failure)
    }
}

/// The descriptors of every workload that this program has.
pub fn descriptors() -> Vec<&'static Descriptor> {
    crate::kinds::RUNNERS.descriptors()
}

/// The descriptors of the workloads that a stored run names.
pub fn descriptors_of(run: &Run) -> Result<Vec<&'static Descriptor>, Refusal> {
    let plan = &run.plan;
    let named: Vec<&str> = match plan.workloads.as_slice() {
        [] => vec![&plan.workload],
        several => several.iter().map(|workload| workload.kind.as_str()).collect(),
    };
    let known = descriptors();
    // What a study defines itself is in its own plan, and so are the metrics of results that were imported.
    let own = plan.arms.iter().find_map(|planned| command::of_arm(&planned.arm)).map(command::descriptor);
    let imported = |kind: &str| {
        let arm = (0..plan.arms.len()).find(|&arm| plan.workload_of(arm) == kind)?;
        Some(command::imported(kind, command::of_arm(&plan.arms[arm].arm)?))
    };
    let find = |kind: &str| {
        if plan.environments.contains_key(PLACE)
            && let Some(found) = imported(kind)
        {
            return Ok(found);
        }
        if let Some(own) = own.filter(|own| own.kind == kind) {
            return Ok(own);
        }
        let found = known.iter().find(|descriptor| descriptor.kind == kind).copied();
        let lacks =
            || Refusal::failure(format!("run {} is of a workload that this version does not support: {kind}", run.id));
        found.ok_or_else(lacks)
    };
    named.into_iter().map(find).collect()
}

/// The levels of a factor that is a choice of words.
fn choices_of(key: &str) -> &'static [&'static str] {
    match tables::FACTORS.iter().find(|knob| knob.key == key).map(|knob| knob.kind) {
        Some(Kind::Choice(words)) => words,
        _ => &[],
    }
}

/// The environments whose agent makes a virtual machine of its own.
fn by_kvm() -> impl Iterator<Item = &'static str> {
    environments::names(|can| can.executor == ExecutorKind::Microvm).into_iter()
}

/// Why no agent can make a virtual machine of its own here; `None` where it can.
pub fn microvm_missing(limits: &Limits) -> Option<String> {
    by_kvm().find_map(|name| limits.absent.get(name)).cloned()
}

/// What cannot run on this machine, with the reason, by what was tried.
fn absent_here(data: Vec<PathBuf>) -> BTreeMap<String, String> {
    let mut absent = BTreeMap::new();
    if let Some(why) = baremark_microvm::probe().problem {
        absent.extend(by_kvm().map(|name| (name.to_owned(), why.to_string())));
    }
    absent.extend(baremark_host::absent(&Host::this(data), choices_of));
    absent.extend(baremark_disks::provision::absent());
    absent.extend(baremark_databases::absent());
    absent
}

/// What cannot run on a recorded machine by its files. Programs are taken as installed, and paths as present.
fn absent_by_record() -> BTreeMap<String, String> {
    let mut absent: BTreeMap<String, String> =
        baremark_host::absent(&Host::this(Vec::new()), choices_of).into_iter().collect();
    if !machine::root().join("dev/kvm").exists() {
        absent.extend(by_kvm().map(|name| (name.to_owned(), "the recorded machine has no /dev/kvm".to_owned())));
    }
    absent
}

/// What planning must know of this machine; `data` are the files, folders or devices that a study reads and writes.
pub fn limits(data: Vec<PathBuf>) -> Result<Limits, Refusal> {
    let cpus = baremark_sys::topology::usable_cpus()
        .map_err(|why| Refusal::failure(format!("asking which CPUs may be used: {why}")))?;
    let memory = baremark_sys::process::available_memory_bytes()
        .map_err(|why| Refusal::failure(format!("asking how much memory is available: {why}")))?;
    let absent = if machine::is_recorded() { absent_by_record() } else { absent_here(data) };
    let topology = baremark_sys::topology::this().ok();
    Ok(Limits {
        cpus,
        topology,
        quota_millicpus: baremark_sys::held_back::quota_millicpus(machine::root()),
        memory_available: Bytes(memory),
        absent,
        emulated: BTreeSet::new(),
        found: BTreeMap::new(),
    })
}

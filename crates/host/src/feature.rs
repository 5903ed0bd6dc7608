//! The table of features and what this machine has of each.

use crate::disks::disks_under;
use crate::{cpus, module};
use baremark_journal::value::{self, OFF, Setting};
use baremark_model::page_size::PageSize;
use baremark_sys::machine;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The part of a path that is the name of each disk under the data.
const DISK: &str = "{disk}";

/// Where features are looked for, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `/` but in tests.
    pub root: PathBuf,
    /// Files, folders or devices whose disks features of disks are of.
    pub data: Vec<PathBuf>,
}

impl Host {
    /// This machine, with the disks that hold `data`.
    #[must_use]
    pub fn this(data: Vec<PathBuf>) -> Host {
        Host { root: machine::root().to_owned(), data }
    }
}

/// A feature of the host.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its key as a factor: a row of `baremark_model::tables::FACTORS`.
    pub key: &'static str,
    /// Where it may be found.
    pub source: Source,
    /// Where else, on a machine that has not the first.
    pub otherwise: Option<Source>,
    /// Whether a running virtual machine depends on it.
    pub used_by_vms: bool,
}

/// Files that set a feature.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Their path below the root; `*` is any number in a name, such as that of each CPU, `{disk}` each disk under the data.
    pub files: &'static str,
    /// What a level is called there.
    pub levels: Levels,
}

/// How the levels of a factor are written into a file.
#[derive(Clone, Copy, Debug)]
pub enum Levels {
    /// These levels, each with what is written.
    Words(&'static [(&'static str, &'static str)]),
    /// The level itself, if it is among the words of this file in the same folder, which can be the same file.
    Offered(&'static str),
    /// The level itself, a whole number.
    Number,
    /// The level itself, a number of KiB that is a whole number of pages: the kernel rounds others down.
    PagesInKib,
    /// The level is the deepest idle state that stays enabled: `1` disables a deeper one.
    DeepestState,
    /// The level is a list of CPUs, such as `0` or `0-1`. Interrupts that the kernel does not let move keep theirs.
    Cpus,
    /// The level is a list of switches, such as `NEXT_BUDDY,NO_HRTICK`, of those that the file lists.
    Switches,
    /// These levels, each with what this module is loaded with.
    Loaded(&'static str, &'static [(&'static str, &'static str)]),
}

const SWITCH: Levels = Levels::Words(&[("off", "0"), ("on", "1")]);
const INVERTED: Levels = Levels::Words(&[("off", "1"), ("on", "0")]);

const fn one(key: &'static str, files: &'static str, levels: Levels) -> Feature {
    Feature { key, source: Source { files, levels }, otherwise: None, used_by_vms: false }
}

impl Feature {
    const fn or(self, files: &'static str, levels: Levels) -> Feature {
        Feature { otherwise: Some(Source { files, levels }), ..self }
    }

    const fn of_vms(self) -> Feature {
        Feature { used_by_vms: true, ..self }
    }

    /// Where it may be found; the first that a machine has is used.
    fn sources(&self) -> impl Iterator<Item = &Source> {
        [&self.source].into_iter().chain(&self.otherwise)
    }
}

const MMU: &[(&str, &str)] = &[("nested", "Y"), ("shadow", "N")];
const THP: Levels = Levels::Words(&[("always", "always"), ("madvise", "madvise"), ("never", "never")]);
const DEFRAG: Levels = Levels::Words(&[
    ("always", "always"),
    ("defer", "defer"),
    ("defer+madvise", "defer+madvise"),
    ("madvise", "madvise"),
    ("never", "never"),
]);

/// Every feature that a study can vary.
pub const FEATURES: &[Feature] = &[
    one("host.thp", "sys/kernel/mm/transparent_hugepage/enabled", THP),
    one("host.thp_defrag", "sys/kernel/mm/transparent_hugepage/defrag", DEFRAG),
    one("host.thp_shmem", "sys/kernel/mm/transparent_hugepage/shmem_enabled", Levels::Offered("shmem_enabled")),
    one("host.numa_balancing", "proc/sys/kernel/numa_balancing", SWITCH),
    one("host.ksm", "sys/kernel/mm/ksm/run", SWITCH),
    one("host.halt_poll_ns", "sys/module/kvm/parameters/halt_poll_ns", Levels::Number).of_vms(),
    one("host.guest_halt_poll_ns", "sys/module/haltpoll/parameters/guest_halt_poll_ns", Levels::Number),
    one("host.timer_migration", "proc/sys/kernel/timer_migration", SWITCH),
    one("host.deepest_idle_state", "sys/devices/system/cpu/cpu*/cpuidle/state*/disable", Levels::DeepestState),
    one(
        "host.idle_governor",
        "sys/devices/system/cpu/cpuidle/current_governor",
        Levels::Offered("available_governors"),
    ),
    one(
        "host.governor",
        "sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        Levels::Offered("scaling_available_governors"),
    ),
    one("host.boost", "sys/devices/system/cpu/cpufreq/boost", SWITCH)
        .or("sys/devices/system/cpu/intel_pstate/no_turbo", INVERTED),
    one("host.smt", "sys/devices/system/cpu/smt/control", Levels::Words(&[("off", "off"), ("on", "on")])).of_vms(),
    one("host.tdp_mmu", "sys/module/kvm/parameters/tdp_mmu", Levels::Words(&[("off", "N"), ("on", "Y")])).of_vms(),
    one("host.mmu", "sys/module/kvm_intel/parameters/ept", Levels::Loaded("kvm_intel", MMU))
        .or("sys/module/kvm_amd/parameters/npt", Levels::Loaded("kvm_amd", MMU))
        .of_vms(),
    one("host.irq_affinity", "proc/irq/*/smp_affinity_list", Levels::Cpus),
    one("host.preempt", "sys/kernel/debug/sched/preempt", Levels::Offered("preempt")),
    one("host.sched_features", "sys/kernel/debug/sched/features", Levels::Switches),
    // The second name is that until Linux 6.5.
    one("host.sched_base_slice_ns", "sys/kernel/debug/sched/base_slice_ns", Levels::Number)
        .or("sys/kernel/debug/sched/min_granularity_ns", Levels::Number),
    one("host.sched_migration_cost_ns", "sys/kernel/debug/sched/migration_cost_ns", Levels::Number),
    one("host.sched_nr_migrate", "sys/kernel/debug/sched/nr_migrate", Levels::Number),
    one("host.sched_autogroup", "proc/sys/kernel/sched_autogroup_enabled", SWITCH),
    one("host.sched_slice_us", "proc/sys/kernel/sched_cfs_bandwidth_slice_us", Levels::Number),
    one("host.swappiness", "proc/sys/vm/swappiness", Levels::Number),
    one("host.dirty_ratio", "proc/sys/vm/dirty_ratio", Levels::Number),
    one("host.dirty_background_ratio", "proc/sys/vm/dirty_background_ratio", Levels::Number),
    one("host.vfs_cache_pressure", "proc/sys/vm/vfs_cache_pressure", Levels::Number),
    one("host.compaction_proactiveness", "proc/sys/vm/compaction_proactiveness", Levels::Number),
    one("host.zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode", Levels::Number),
    one("host.dirty_expire_centisecs", "proc/sys/vm/dirty_expire_centisecs", Levels::Number),
    one("host.dirty_writeback_centisecs", "proc/sys/vm/dirty_writeback_centisecs", Levels::Number),
    one("host.page_cluster", "proc/sys/vm/page-cluster", Levels::Number),
    one("host.stat_interval", "proc/sys/vm/stat_interval", Levels::Number),
    one("host.watermark_scale_factor", "proc/sys/vm/watermark_scale_factor", Levels::Number),
    one("host.io_scheduler", "sys/block/{disk}/queue/scheduler", Levels::Offered("scheduler")),
    one("host.read_ahead_kib", "sys/block/{disk}/queue/read_ahead_kb", Levels::PagesInKib),
];

/// Values that the kernel sets to 0 when the first of a pair is written (Documentation/admin-guide/sysctl/vm.rst): undoing the first does not bring them
/// back, and with both at 0 nothing may be unwritten.
const DROPPED: [(&str, &str); 2] =
    [("dirty_ratio", "dirty_bytes"), ("dirty_background_ratio", "dirty_background_bytes")];

/// Why a feature, or one of its levels, cannot be had on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// No file of it is there.
    #[error("{0}: this kernel or processor does not have it")]
    Missing(PathBuf),
    /// The data are on no disk of this machine.
    #[error("{0} is on a file system without a disk of this machine; set path to a folder on a disk")]
    NoDisk(PathBuf),
    /// The file cannot be written.
    #[error("{0} cannot be written: {1}")]
    ReadOnly(PathBuf, &'static str),
    /// The level is not among those that the file takes.
    #[error("{path}: '{level}' is not among its values: {offered}")]
    NotOffered {
        /// The file.
        path: PathBuf,
        /// The level.
        level: String,
        /// What it takes.
        offered: String,
    },
    /// The processor or the hypervisor does not let it be changed.
    #[error("{0} is '{1}'")]
    Fixed(PathBuf, String),
    /// Another value is set in its place, which the kernel drops.
    #[error("{0} is '{1}', and would be lost; set a ratio in its place first (sysctl)")]
    Dropped(PathBuf, String),
    /// The module that has it cannot be loaded again.
    #[error("{0}")]
    Module(String),
}

/// The source of a feature that a host has, with its files.
///
/// # Errors
/// Why it has none that can be written.
pub fn probe(feature: &Feature, host: &Host) -> Result<(Source, Vec<PathBuf>), Absent> {
    let (root, first) = (host.root.as_path(), feature.source.files);
    let disks = if first.contains(DISK) { disks(host)? } else { Vec::new() };
    let mut all = feature.sources().map(|source| (*source, matching(root, source.files, &disks)));
    let Some((source, mut files)) = all.find(|(_, files)| !files.is_empty()) else {
        return Err(missing(feature, root));
    };
    match source.levels {
        Levels::Loaded(module, _) => module::fixed(root, module).map_or(Ok(()), |why| Err(Absent::Module(why)))?,
        Levels::Cpus => {
            // An interrupt that the kernel does not let move is no reason against the others.
            let refused: Vec<Absent> = files.iter().filter_map(|file| writable(file).err()).collect();
            files.retain(|file| writable(file).is_ok());
            if files.is_empty() {
                return Err(refused.into_iter().next().unwrap_or(Absent::Missing(root.join(source.files))));
            }
        }
        _ => files.iter().try_for_each(|file| writable(file))?,
    }
    if let Some((path, found)) = files.iter().find_map(|file| dropped(file)) {
        return Err(Absent::Dropped(path, found));
    }
    if let (Levels::Words(words) | Levels::Loaded(_, words), [file]) = (source.levels, files.as_slice()) {
        // SMT control says 'notsupported' or 'forceoff' where it takes neither word.
        let Ok(found) = value::read(file) else {
            return Err(Absent::ReadOnly(file.clone(), "it cannot be read"));
        };
        if !found.is_empty() && found.chars().all(char::is_alphabetic) && !words.iter().any(|(_, word)| *word == found)
        {
            return Err(Absent::Fixed(file.clone(), found));
        }
    }
    Ok((source, files))
}

/// The value that writing a file would set to 0, where it is not.
fn dropped(file: &Path) -> Option<(PathBuf, String)> {
    let name = file.file_name()?;
    let (_, other) = DROPPED.iter().find(|(of, _)| name == *of)?;
    let other = file.with_file_name(other);
    let found = value::read(&other).ok().filter(|found| found != "0")?;
    Some((other, found))
}

/// The disks that hold the data.
fn disks(host: &Host) -> Result<Vec<String>, Absent> {
    let mut all = Vec::new();
    for data in &host.data {
        let found = disks_under(&host.root, data);
        if found.is_empty() {
            return Err(Absent::NoDisk(data.clone()));
        }
        all.extend(found);
    }
    all.sort();
    all.dedup();
    Ok(all)
}

fn missing(feature: &Feature, root: &Path) -> Absent {
    let module = |source: &Source| match source.levels {
        Levels::Loaded(module, _) => Some(module),
        _ => None,
    };
    let modules: Vec<&str> = feature.sources().filter_map(module).collect();
    if !modules.is_empty() {
        return Absent::Module(format!("neither {} is loaded, whose parameter it is", modules.join(" nor ")));
    }
    Absent::Missing(root.join(feature.source.files))
}

/// Every feature and level of a host that cannot be had, by `key` or `key=level`, with the reason. `levels` are the choices of a key.
#[must_use]
pub fn absent(host: &Host, levels: impl Fn(&str) -> &'static [&'static str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for feature in FEATURES {
        match probe(feature, host) {
            Err(why) => found.push((feature.key.to_owned(), why.to_string())),
            Ok((source, files)) => {
                for level in levels(feature.key) {
                    if let Err(why) = written(source, &files, level) {
                        found.push((format!("{}={level}", feature.key), why.to_string()));
                    }
                }
            }
        }
    }
    found
}

/// What is written into each file for a level.
///
/// # Errors
/// When the level cannot be had.
pub(crate) fn written(source: Source, files: &[PathBuf], level: &str) -> Result<Vec<(Setting, String)>, Absent> {
    let path = || files.first().cloned().unwrap_or_default();
    let refused = |offered: String| Absent::NotOffered { path: path(), level: level.to_owned(), offered };
    let all = |value: &str| files.iter().map(|file| (Setting::of(file), value.to_owned())).collect();
    match source.levels {
        Levels::Words(words) | Levels::Loaded(_, words) => {
            let offered = || words.iter().map(|(level, _)| *level).collect::<Vec<_>>().join(", ");
            let word = words.iter().find(|(name, _)| *name == level);
            word.map(|(_, value)| all(value)).ok_or_else(|| refused(offered()))
        }
        Levels::Offered(list) => {
            for file in files {
                let offered = offered(&file.with_file_name(list));
                if !offered.iter().any(|word| word == level) {
                    return Err(Absent::NotOffered {
                        path: file.clone(),
                        level: level.to_owned(),
                        offered: offered.join(" "),
                    });
                }
            }
            Ok(all(level))
        }
        Levels::Number => match level.parse::<u64>() {
            Ok(number) => Ok(all(&number.to_string())),
            Err(_) => Err(refused("whole numbers".to_owned())),
        },
        Levels::PagesInKib => match level.parse::<u64>() {
            Ok(number) if number % PAGE_KIB == 0 => Ok(all(&number.to_string())),
            _ => Err(refused(format!("multiples of {}, the size of a page", PAGE_KIB))),
        },
        Levels::DeepestState => {
            let Ok(deepest) = level.parse::<u64>() else { return Err(refused("whole numbers".to_owned())) };
            let value = |file: &PathBuf| {
                let state = file.parent()?.file_name()?.to_str()?.strip_prefix("state")?.parse::<u64>().ok()?;
                Some((Setting::of(file), if state > deepest { "1" } else { "0" }.to_owned()))
            };
            Ok(files.iter().filter_map(value).collect())
        }
        Levels::Cpus => {
            let online = cpus::online(&path());
            let asked = cpus::read(level).filter(|asked| !asked.is_empty() && asked.is_subset(&online));
            asked.map(|asked| all(&cpus::list(&asked))).ok_or_else(|| refused(format!("CPUs {}", cpus::list(&online))))
        }
        Levels::Switches => {
            let offered = offered(&path());
            let switch = |word: &str| {
                let name = word.strip_prefix(OFF).unwrap_or(word);
                let known = offered.iter().any(|word| word.strip_prefix(OFF).unwrap_or(word) == name);
                known.then(|| (Setting::switch(path(), name), word.to_owned()))
            };
            let all: Option<Vec<_>> = level.split(',').map(|word| switch(word.trim())).collect();
            all.ok_or_else(|| refused(offered.join(" ")))
        }
    }
}

/// The size of a page, in KiB.
pub(crate) const PAGE_KIB: u64 = PageSize::Small.bytes() / 1024;

/// The words of a list of which one may be marked.
pub(crate) fn offered(list: &Path) -> Vec<String> {
    let text = value::text(list).unwrap_or_default();
    text.split_whitespace().map(|word| word.trim_matches(['[', ']', '(', ')']).to_owned()).collect()
}

/// The files that a pattern names, in order; `*` is any number in a name, `{disk}` each of `disks`.
fn matching(root: &Path, pattern: &str, disks: &[String]) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        if part == DISK {
            found = found.iter().flat_map(|path| disks.iter().map(|disk| path.join(disk))).collect();
            continue;
        }
        let Some((before, after)) = part.split_once('*') else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let inside = |path: &PathBuf| fs::read_dir(path).into_iter().flatten().flatten().collect::<Vec<_>>();
        let fits = |name: &str| {
            let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            middle.is_some_and(|middle| !middle.is_empty() && middle.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let entries = found.iter().flat_map(inside);
        found =
            entries.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect();
    }
    found.retain(|path| is_there(path));
    found.sort();
    found
}

/// Whether there is such a file; one below /sys/kernel/debug also where debugfs is not mounted there.
fn is_there(file: &Path) -> bool {
    let opened = value::open(file, fs::OpenOptions::new().read(true));
    opened.map_or_else(
        |why| why.kind() == io::ErrorKind::PermissionDenied,
        |file| file.metadata().is_ok_and(|it| it.is_file()),
    )
}

/// A parameter that its module does not let be changed has no write permission, which root would not be refused for.
fn writable(file: &Path) -> Result<(), Absent> {
    if fs::metadata(file).is_ok_and(|facts| facts.mode() & 0o200 == 0) {
        return Err(Absent::ReadOnly(file.to_owned(), "it is fixed when its module is loaded or the kernel boots"));
    }
    match value::open(file, fs::OpenOptions::new().write(true)) {
        Ok(_) => Ok(()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Err(Absent::Missing(file.to_owned())),
        Err(_) => {
            Err(Absent::ReadOnly(file.to_owned(), "not by this user, in this container or under the kernel's lockdown"))
        }
    }
}

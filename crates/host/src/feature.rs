//! The table of features and what this machine has of each.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A feature of the host.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its key as a factor: a row of `baremark_model::tables::FACTORS`.
    pub key: &'static str,
    /// Where it may be found; the first that this machine has is used.
    pub sources: &'static [Source],
    /// Whether a running virtual machine depends on it.
    pub used_by_vms: bool,
}

/// Files that set a feature.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Their path below the root; `*` is any number in a name, such as that of each CPU.
    pub files: &'static str,
    /// What a level is called there.
    pub levels: Levels,
}

/// How the levels of a factor are written into a file.
#[derive(Clone, Copy, Debug)]
pub enum Levels {
    /// These levels, each with what is written.
    Words(&'static [(&'static str, &'static str)]),
    /// The level itself, if it is among the words of this other file in the same folder.
    Offered(&'static str),
    /// The level itself, a whole number.
    Number,
    /// The level is the deepest idle state that stays enabled: `1` disables a deeper one.
    DeepestState,
}

const SWITCH: Levels = Levels::Words(&[("off", "0"), ("on", "1")]);
const INVERTED: Levels = Levels::Words(&[("off", "1"), ("on", "0")]);

const fn one(key: &'static str, sources: &'static [Source]) -> Feature {
    Feature { key, sources, used_by_vms: false }
}

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
    one("host.thp", &[Source { files: "sys/kernel/mm/transparent_hugepage/enabled", levels: THP }]),
    one("host.thp_defrag", &[Source { files: "sys/kernel/mm/transparent_hugepage/defrag", levels: DEFRAG }]),
    one("host.numa_balancing", &[Source { files: "proc/sys/kernel/numa_balancing", levels: SWITCH }]),
    one("host.ksm", &[Source { files: "sys/kernel/mm/ksm/run", levels: SWITCH }]),
    Feature {
        key: "host.halt_poll_ns",
        sources: &[Source { files: "sys/module/kvm/parameters/halt_poll_ns", levels: Levels::Number }],
        used_by_vms: true,
    },
    one(
        "host.guest_halt_poll_ns",
        &[Source { files: "sys/module/haltpoll/parameters/guest_halt_poll_ns", levels: Levels::Number }],
    ),
    one("host.timer_migration", &[Source { files: "proc/sys/kernel/timer_migration", levels: SWITCH }]),
    one(
        "host.deepest_idle_state",
        &[Source { files: "sys/devices/system/cpu/cpu*/cpuidle/state*/disable", levels: Levels::DeepestState }],
    ),
    one(
        "host.idle_governor",
        &[Source {
            files: "sys/devices/system/cpu/cpuidle/current_governor",
            levels: Levels::Offered("available_governors"),
        }],
    ),
    one(
        "host.governor",
        &[Source {
            files: "sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
            levels: Levels::Offered("scaling_available_governors"),
        }],
    ),
    one(
        "host.boost",
        &[
            Source { files: "sys/devices/system/cpu/cpufreq/boost", levels: SWITCH },
            Source { files: "sys/devices/system/cpu/intel_pstate/no_turbo", levels: INVERTED },
        ],
    ),
    Feature {
        key: "host.smt",
        sources: &[Source {
            files: "sys/devices/system/cpu/smt/control",
            levels: Levels::Words(&[("off", "off"), ("on", "on")]),
        }],
        used_by_vms: true,
    },
    Feature {
        key: "host.tdp_mmu",
        sources: &[Source {
            files: "sys/module/kvm/parameters/tdp_mmu",
            levels: Levels::Words(&[("off", "N"), ("on", "Y")]),
        }],
        used_by_vms: true,
    },
    one("host.sched_autogroup", &[Source { files: "proc/sys/kernel/sched_autogroup_enabled", levels: SWITCH }]),
    one(
        "host.sched_slice_us",
        &[Source { files: "proc/sys/kernel/sched_cfs_bandwidth_slice_us", levels: Levels::Number }],
    ),
    one("host.swappiness", &[Source { files: "proc/sys/vm/swappiness", levels: Levels::Number }]),
    one("host.dirty_ratio", &[Source { files: "proc/sys/vm/dirty_ratio", levels: Levels::Number }]),
    one(
        "host.dirty_background_ratio",
        &[Source { files: "proc/sys/vm/dirty_background_ratio", levels: Levels::Number }],
    ),
    one("host.vfs_cache_pressure", &[Source { files: "proc/sys/vm/vfs_cache_pressure", levels: Levels::Number }]),
    one(
        "host.compaction_proactiveness",
        &[Source { files: "proc/sys/vm/compaction_proactiveness", levels: Levels::Number }],
    ),
    one("host.zone_reclaim_mode", &[Source { files: "proc/sys/vm/zone_reclaim_mode", levels: Levels::Number }]),
];

/// Why a feature, or one of its levels, cannot be had on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// No file of it is there.
    #[error("{0}: this kernel or processor does not have it")]
    Missing(PathBuf),
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
}

/// The source of a feature below `root` that this machine has, with its files.
///
/// # Errors
/// Why it has none that can be written.
pub fn probe(feature: &Feature, root: &Path) -> Result<(Source, Vec<PathBuf>), Absent> {
    let mut all = feature.sources.iter().map(|source| (*source, matching(root, source.files)));
    let Some((source, files)) = all.find(|(_, files)| !files.is_empty()) else {
        let first = feature.sources.first().map_or("", |source| source.files);
        return Err(Absent::Missing(root.join(first)));
    };
    for file in &files {
        writable(file)?;
    }
    if let (Levels::Words(words), [file]) = (source.levels, files.as_slice()) {
        // SMT control says 'notsupported' or 'forceoff' where it takes neither word.
        let Ok(found) = baremark_journal::value::read(file) else {
            return Err(Absent::ReadOnly(file.clone(), "it cannot be read"));
        };
        if !found.is_empty() && found.chars().all(char::is_alphabetic) && !words.iter().any(|(_, word)| *word == found)
        {
            return Err(Absent::Fixed(file.clone(), found));
        }
    }
    Ok((source, files))
}

/// Every feature and level below `root` that cannot be had, by `key` or `key=level`, with the reason. `levels` are the choices of a key.
#[must_use]
pub fn absent(root: &Path, levels: impl Fn(&str) -> &'static [&'static str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for feature in FEATURES {
        match probe(feature, root) {
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
pub(crate) fn written(source: Source, files: &[PathBuf], level: &str) -> Result<Vec<(PathBuf, String)>, Absent> {
    let path = || files.first().cloned().unwrap_or_default();
    let refused = |offered: String| Absent::NotOffered { path: path(), level: level.to_owned(), offered };
    let all = |value: &str| files.iter().map(|file| (file.clone(), value.to_owned())).collect();
    match source.levels {
        Levels::Words(words) => {
            let offered = || words.iter().map(|(level, _)| *level).collect::<Vec<_>>().join(", ");
            let word = words.iter().find(|(name, _)| *name == level);
            word.map(|(_, value)| all(value)).ok_or_else(|| refused(offered()))
        }
        Levels::Offered(list) => {
            let offered = fs::read_to_string(path().with_file_name(list)).unwrap_or_default();
            match offered.split_whitespace().any(|word| word == level) {
                true => Ok(all(level)),
                false => Err(refused(offered.trim().to_owned())),
            }
        }
        Levels::Number => match level.parse::<u64>() {
            Ok(number) => Ok(all(&number.to_string())),
            Err(_) => Err(refused("whole numbers".to_owned())),
        },
        Levels::DeepestState => {
            let Ok(deepest) = level.parse::<u64>() else { return Err(refused("whole numbers".to_owned())) };
            let value = |file: &PathBuf| {
                let state = file.parent()?.file_name()?.to_str()?.strip_prefix("state")?.parse::<u64>().ok()?;
                Some((file.clone(), if state > deepest { "1" } else { "0" }.to_owned()))
            };
            Ok(files.iter().filter_map(value).collect())
        }
    }
}

/// The files that a pattern names, in order; `*` is any number in a name.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
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
    found.retain(|path| path.is_file());
    found.sort();
    found
}

/// A parameter that its module does not let be changed has no write permission, which root would not be refused for.
fn writable(file: &Path) -> Result<(), Absent> {
    let Ok(facts) = fs::metadata(file) else { return Err(Absent::Missing(file.to_owned())) };
    if facts.mode() & 0o200 == 0 {
        return Err(Absent::ReadOnly(file.to_owned(), "it is fixed when its module is loaded or the kernel boots"));
    }
    match fs::OpenOptions::new().write(true).open(file) {
        Ok(_) => Ok(()),
        Err(_) => Err(Absent::ReadOnly(file.to_owned(), "not by this user or in this container")),
    }
}

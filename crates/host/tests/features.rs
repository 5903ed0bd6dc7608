//! Features of a pretended host, and of this one: probed, set, undone, also after a kill.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, unsafe_code, reason = "a test")]

use baremark_host::{Absent, FEATURES, HostError, Setter, absent, probe};
use baremark_journal::value::{Values, read};
use baremark_journal::{Journal, Kind};
use baremark_model::descriptor::Kind as Takes;
use baremark_model::tables;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use tempfile::TempDir;

/// Tests that change this host take turns.
static HOST: Mutex<()> = Mutex::new(());
const KILLED: &str = "BAREMARK_TEST_HOST_SETTER";

fn pretended() -> TempDir {
    let root = TempDir::new().unwrap();
    for (file, text) in [
        ("sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        ("proc/sys/vm/swappiness", "60"),
        ("sys/devices/system/cpu/smt/control", "notsupported"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance schedutil"),
        ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "schedutil"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0"),
        ("sys/devices/system/cpu/cpu10/cpuidle/state2/disable", "1"),
        ("sys/devices/system/cpu/cpuidle/current_governor", "menu"),
        ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
    ] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let fixed = root.path().join("sys/module/kvm/parameters/halt_poll_ns");
    fs::set_permissions(fixed, fs::Permissions::from_mode(0o444)).unwrap();
    root
}

fn journal(folder: &Path, root: &Path) -> Journal {
    let kind: Box<dyn Kind> = Box::new(if root == Path::new("/") { Values::system() } else { Values::within(root) });
    Journal::open(folder.join("changes"), vec![kind]).unwrap()
}

/// A file that ends with what was written first, as those of sysfs and sysctl do not: each value here has the length of the first.
fn now(root: &TempDir, file: &str) -> String {
    read(&root.path().join(file)).unwrap()
}

#[test]
fn every_feature_is_a_factor_and_every_factor_a_feature() {
    let factors: Vec<&str> =
        tables::FACTORS.iter().map(|knob| knob.key).filter(|key| key.starts_with(tables::HOST)).collect();
    assert_eq!(factors, FEATURES.iter().map(|feature| feature.key).collect::<Vec<_>>());
}

#[test]
fn the_page_names_every_feature_with_its_file() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/host-features.md")).unwrap();
    for feature in FEATURES {
        let file = format!("/{}", feature.sources[0].files.replace('*', "\\*"));
        assert!(page.contains(&format!("`{}`", feature.key)), "{}", feature.key);
        assert!(page.contains(&file) || file.starts_with("/proc/sys/vm/"), "{file}");
    }
}

#[test]
fn what_is_missing_fixed_or_not_offered_has_a_reason() {
    let root = pretended();
    let levels = |key: &str| match tables::FACTORS.iter().find(|knob| knob.key == key).map(|knob| knob.kind) {
        Some(Takes::Choice(words)) => words,
        _ => &[][..],
    };
    let found = absent(root.path(), levels);
    let reason = |key: &str| found.iter().find(|(of, _)| of == key).map(|(_, why)| why.as_str());
    assert!(reason("host.ksm").unwrap().contains("this kernel or processor does not have it"));
    assert!(reason("host.smt").unwrap().contains("is 'notsupported'"));
    assert!(reason("host.halt_poll_ns").unwrap().contains("fixed when its module is loaded"));
    assert!(reason("host.governor=ondemand").unwrap().contains("is not among its values: performance schedutil"));
    assert_eq!((reason("host.governor"), reason("host.governor=performance"), reason("host.thp")), (None, None, None));
}

#[test]
fn levels_are_written_to_all_files_and_undone_in_the_end() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let mut setter = Setter::new(journal(folder.path(), root.path()), root.path());
    let cpu = "sys/devices/system/cpu";
    setter.set("host.boost", "off").unwrap();
    setter.set("host.deepest_idle_state", "0").unwrap();
    setter.set("host.swappiness", "10").unwrap();
    assert_eq!(now(&root, &format!("{cpu}/intel_pstate/no_turbo")), "1", "the inverted file");
    let states = ["cpu0/cpuidle/state0", "cpu0/cpuidle/state1", "cpu0/cpuidle/state2", "cpu10/cpuidle/state2"];
    let disabled = |root| states.map(|state| now(root, &format!("{cpu}/{state}/disable")));
    assert_eq!(disabled(&root), ["0", "1", "1", "1"]);
    setter.set("host.deepest_idle_state", "1").unwrap();
    assert_eq!(disabled(&root), ["0", "0", "1", "1"], "from what there was, not from the level before");
    setter.set("host.swappiness", "10").unwrap();
    let refused = setter.set("host.thp", "sometimes").unwrap_err();
    assert!(matches!(refused, HostError::Absent { source: Absent::NotOffered { .. }, .. }), "{refused}");
    drop(setter);
    assert_eq!(disabled(&root), ["0", "0", "0", "1"]);
    assert_eq!(
        (now(&root, "proc/sys/vm/swappiness"), now(&root, &format!("{cpu}/intel_pstate/no_turbo"))),
        ("60".into(), "0".into())
    );
    assert_eq!(fs::read_dir(folder.path().join("changes")).unwrap().count(), 1, "the lock alone");
}

#[test]
fn a_value_that_somebody_else_has_changed_is_noticed_and_left() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let mut setter = Setter::new(journal(folder.path(), root.path()), root.path());
    setter.set("host.swappiness", "10").unwrap();
    fs::write(root.path().join("proc/sys/vm/swappiness"), "33").unwrap();
    let refused = setter.set("host.swappiness", "10").unwrap_err();
    assert!(refused.to_string().contains("is '33', not '10' as it was set"), "{refused}");
    drop(setter);
    assert_eq!(now(&root, "proc/sys/vm/swappiness"), "33");
}

/// Two levels other than the one that is set, of each feature that this machine has.
fn features_here() -> Vec<(&'static str, PathBuf, Vec<String>)> {
    let mut here = Vec::new();
    for feature in FEATURES {
        let Ok((_, files)) = probe(feature, Path::new("/")) else { continue };
        let knob = tables::FACTORS.iter().find(|knob| knob.key == feature.key).unwrap();
        let levels: Vec<String> = match (feature.key, knob.kind) {
            (_, Takes::Choice(words)) => words.iter().map(|word| (*word).to_owned()).collect(),
            ("host.deepest_idle_state", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.zone_reclaim_mode", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.sched_slice_us", _) => vec!["4000".to_owned(), "6000".to_owned()],
            _ => vec!["11".to_owned(), "12".to_owned()],
        };
        here.push((feature.key, files[0].clone(), levels));
    }
    here
}

fn root_user() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|facts| std::os::unix::fs::MetadataExt::uid(&facts) == 0);
    if !root {
        eprintln!("skipped: not root");
    }
    root
}

/// What each feature of this machine is now, over all of its files.
fn state() -> Vec<(PathBuf, String)> {
    let files = FEATURES.iter().filter_map(|feature| probe(feature, Path::new("/")).ok()).flat_map(|(_, files)| files);
    files
        .map(|file| {
            let value = read(&file).unwrap();
            (file, value)
        })
        .collect()
}

#[test]
fn each_feature_that_this_machine_has_is_set_and_undone() {
    if !root_user() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = TempDir::new().unwrap();
    let (before, here) = (state(), features_here());
    assert!(!here.is_empty(), "a Linux machine has vm.swappiness");
    for (key, file, levels) in &here {
        let mut changed = false;
        for level in levels {
            let mut setter = Setter::new(journal(folder.path(), Path::new("/")), Path::new("/"));
            match setter.set(key, level) {
                Ok(()) => changed |= state() != before,
                Err(HostError::Absent { source: Absent::NotOffered { .. }, .. } | HostError::InUse { .. }) => {}
                Err(why) => panic!("{key} = {level}: {why}"),
            }
            drop(setter);
            assert_eq!(state(), before, "{key} = {level} is not undone");
        }
        // A machine with one governor of idle states can be set to that alone.
        assert!(changed || key.contains("governor"), "{key}: {} was never changed", file.display());
    }
}

/// Not a test: a process that sets every feature, says so, and waits to be killed.
#[test]
fn setter_process() {
    let Some(folder) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    let mut setter = Setter::new(journal(&folder, Path::new("/")), Path::new("/"));
    for (key, _, levels) in features_here() {
        let _ = levels.iter().rev().find(|level| setter.set(key, level).is_ok());
        fs::write(folder.join("reached"), key).unwrap();
    }
    fs::write(folder.join("all"), "").unwrap();
    loop {
        std::thread::park();
    }
}

/// Kills a process that sets features when it has reached the feature `at` (or all), and undoes what it left.
fn killed_at(at: &str) {
    let folder = TempDir::new().unwrap();
    let before = state();
    let mut setter = Command::new(std::env::current_exe().unwrap());
    setter.args(["--exact", "setter_process", "--nocapture"]).env(KILLED, folder.path());
    let mut setter = setter.stdout(std::process::Stdio::null()).spawn().unwrap();
    let reached = || fs::read_to_string(folder.path().join("reached")).unwrap_or_default();
    while reached() != at && !folder.path().join("all").exists() {
        assert!(setter.try_wait().unwrap().is_none(), "it ended before {at}");
        std::thread::yield_now();
    }
    setter.kill().unwrap();
    setter.wait().unwrap();
    let recovery = journal(folder.path(), Path::new("/")).recover().unwrap();
    assert!(recovery.failed.is_empty() && recovery.foreign.is_empty() && recovery.damaged.is_empty(), "{recovery:?}");
    assert_eq!(state(), before, "killed at {at}: {recovery:?}");
    assert!(!recovery.undone.is_empty(), "{recovery:?}");
}

#[test]
fn what_a_killed_process_has_set_is_undone_by_the_next() {
    if !root_user() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    killed_at("all of them");
}

/// Kills at ten moments, one after each of ten features.
#[test]
#[ignore = "soak"]
fn soak_kills_at_ten_moments() {
    if !root_user() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let here = features_here();
    (0..10).for_each(|moment| killed_at(here[moment % here.len()].0));
}

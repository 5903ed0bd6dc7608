//! Features of a pretended host: probed, set, undone. This one's are in tests/kernel.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "a test")]

use baremark_host::{Absent, FEATURES, Host, HostError, Modules, Setter, Tried, absent, tried};
use baremark_journal::value::{Values, read};
use baremark_journal::{Journal, Kind};
use baremark_model::knob::Kind as Takes;
use baremark_model::tables;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

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
        ("sys/devices/system/cpu/cpufreq/policy4/scaling_available_governors", "performance schedutil"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0"),
        ("sys/devices/system/cpu/cpu10/cpuidle/state2/disable", "1"),
        ("sys/devices/system/cpu/cpuidle/current_governor", "menu"),
        ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
        ("sys/module/kvm_amd/parameters/npt", "Y"),
        ("sys/devices/system/cpu/online", "0-1,4"),
        ("proc/irq/1/smp_affinity_list", "0-1,4"),
        ("proc/irq/24/smp_affinity_list", "1,0,4"),
        ("sys/kernel/debug/sched/preempt", "(none) voluntary full"),
        ("sys/kernel/debug/sched/features", "PLACE_LAG NO_HRTICK"),
        ("sys/kernel/debug/sched/min_granularity_ns", "3000000"),
    ] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let fixed = root.path().join("sys/module/kvm/parameters/halt_poll_ns");
    fs::set_permissions(fixed, fs::Permissions::from_mode(0o444)).unwrap();
    root
}

fn below(root: &TempDir) -> Host {
    let root = root.path().canonicalize().unwrap();
    Host { data: vec![root.clone()], root }
}

fn journal(folder: &Path, host: &Host) -> Journal {
    let kinds: Vec<Box<dyn Kind>> = vec![Box::new(Values::within(&host.root)), Box::new(Modules)];
    Journal::open(folder.join("changes"), kinds).unwrap()
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
        let file = format!("/{}", feature.source.files.replace('*', "\\*"));
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
    let found = absent(&below(&root), levels);
    let reason = |key: &str| found.iter().find(|(of, _)| of == key).map(|(_, why)| why.as_str());
    assert!(reason("host.ksm").unwrap().contains("this kernel or processor does not have it"));
    assert!(reason("host.smt").unwrap().contains("is 'notsupported'"));
    assert!(reason("host.halt_poll_ns").unwrap().contains("fixed when its module is loaded"));
    assert_eq!(reason("host.mmu").unwrap(), "kvm_amd is part of this kernel, which takes its parameters when it boots");
    assert!(reason("host.preempt=lazy").unwrap().contains("is not among its values: none voluntary full"));
    assert_eq!(
        (reason("host.irq_affinity"), reason("host.sched_features"), reason("host.preempt=full")),
        (None, None, None)
    );
    assert!(reason("host.governor=ondemand").unwrap().contains("is not among its values: performance schedutil"));
    assert_eq!((reason("host.governor"), reason("host.governor=performance"), reason("host.thp")), (None, None, None));
}

#[test]
fn levels_are_written_to_all_files_and_undone_in_the_end() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
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

/// The kernel sets dirty_bytes to 0 when a ratio is written, and the ratio that was there is 0: undone, nothing could be unwritten.
#[test]
fn a_ratio_is_refused_where_bytes_are_set_in_its_place() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    for (file, text) in [
        ("dirty_ratio", "0"),
        ("dirty_bytes", "268435456"),
        ("dirty_background_ratio", "10"),
        ("dirty_background_bytes", "0"),
    ] {
        fs::write(root.path().join("proc/sys/vm").join(file), text).unwrap();
    }
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
    let refused = setter.set("host.dirty_ratio", "20").unwrap_err();
    assert!(matches!(refused, HostError::Absent { source: Absent::Dropped(..), .. }), "{refused}");
    assert!(refused.to_string().contains("/proc/sys/vm/dirty_bytes is '268435456', and would be lost"), "{refused}");
    assert_eq!(now(&root, "proc/sys/vm/dirty_ratio"), "0");
    let feature = FEATURES.iter().find(|feature| feature.key == "host.dirty_ratio").unwrap();
    assert!(tried(feature, journal(folder.path(), &below(&root)), &below(&root)).is_err(), "nor tried");
    setter.set("host.dirty_background_ratio", "20").unwrap();
}

#[test]
fn features_of_disks_are_set_on_the_disk_that_holds_the_data_and_on_no_other() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    for (file, text) in [("sys/block/sda/queue/read_ahead_kb", "128"), ("sys/block/sdb/queue/read_ahead_kb", "512")] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let blocks = root.path().join("sys/dev/block");
    fs::create_dir_all(&blocks).unwrap();
    let device = fs::metadata(root.path()).unwrap().dev();
    // A file system without a block device, such as tmpfs, is looked up as 0:0 where no mount says what it is on.
    let number = if libc::major(device) == 0 { (0, 0) } else { (libc::major(device), libc::minor(device)) };
    symlink("../../block/sda", blocks.join(format!("{}:{}", number.0, number.1))).unwrap();
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
    setter.set("host.read_ahead_kib", "996").unwrap();
    let ahead = |disk: &str| now(&root, &format!("sys/block/{disk}/queue/read_ahead_kb"));
    assert_eq!((ahead("sda"), ahead("sdb")), ("996".into(), "512".into()));
    // The kernel would round it down.
    let refused = setter.set("host.read_ahead_kib", "999").unwrap_err();
    assert!(refused.to_string().contains("'999' is not among its values: multiples of "), "{refused}");
    assert_eq!(setter.offers("host.read_ahead_kib", "999").unwrap_err().to_string(), refused.to_string());
    setter.offers("host.read_ahead_kib", "128").unwrap();
    assert_eq!(ahead("sda"), "996", "asking changes nothing");
    drop(setter);
    assert_eq!(ahead("sda"), "128");
}

#[test]
fn a_value_that_somebody_else_has_changed_is_noticed_and_left() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
    setter.set("host.swappiness", "10").unwrap();
    fs::write(root.path().join("proc/sys/vm/swappiness"), "33").unwrap();
    let refused = setter.set("host.swappiness", "10").unwrap_err();
    assert!(refused.to_string().contains("is '33', not '10' as it was set"), "{refused}");
    drop(setter);
    assert_eq!(now(&root, "proc/sys/vm/swappiness"), "33");
}

/// A feature below virtual machines is refused where one may run, and the process that hides it is named.
#[test]
fn a_feature_below_machines_is_refused_where_a_process_cannot_be_looked_into() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let file = root.path().join("sys/module/kvm/parameters/halt_poll_ns");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let process = root.path().join("proc/5000300");
    fs::create_dir_all(&process).unwrap();
    fs::write(process.join("stat"), "5000300 (qemu) S 1 1 1 0 -1 4194304 0").unwrap();
    // Not a folder: root cannot read it, either.
    fs::write(process.join("fd"), "").unwrap();
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
    let why = setter.set("host.halt_poll_ns", "100000").unwrap_err();
    assert!(matches!(why, HostError::VmsUnknown { key: "host.halt_poll_ns", .. }), "{why}");
    let said = why.to_string();
    assert!(said.contains("depends on it is unknown: the descriptors of process 5000300 cannot be read"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "200000");
    setter.set("host.swappiness", "10").expect("no machine depends on it");
    fs::remove_dir_all(process).unwrap();
    setter.set("host.halt_poll_ns", "100000").expect("nothing is hidden");
    assert_eq!(fs::read_to_string(&file).unwrap(), "100000");
    drop(setter);
    assert_eq!(fs::read_to_string(&file).unwrap(), "200000");
}

/// Interrupts are served by the CPUs of a list, which is written as the kernel writes it; those that do not move keep theirs.
#[test]
fn interrupts_move_to_a_list_of_cpus_that_are_online() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let irq = |number: u32| root.path().join(format!("proc/irq/{number}/smp_affinity_list"));
    fs::create_dir_all(irq(9).parent().unwrap()).unwrap();
    fs::write(irq(9), "0").unwrap();
    fs::set_permissions(irq(9), fs::Permissions::from_mode(0o444)).unwrap();
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
    for (wrong, said) in [("2", "CPUs 0-1,4"), ("0-4", "CPUs 0-1,4"), ("all", "CPUs 0-1,4"), ("", "CPUs 0-1,4")] {
        let refused = setter.set("host.irq_affinity", wrong).unwrap_err();
        assert!(std::error::Error::source(&refused).unwrap().to_string().contains(said), "{wrong}: {refused}");
    }
    setter.set("host.irq_affinity", "4,0-1").unwrap();
    assert_eq!([1, 24, 9].map(|number| read(&irq(number)).unwrap()), ["0-1,4", "0-1,4", "0"]);
    drop(setter);
    assert_eq!([1, 24, 9].map(|number| read(&irq(number)).unwrap()), ["0-1,4", "1,0,4", "0"]);
}

#[test]
fn switches_of_the_scheduler_are_named_and_unknown_ones_refused() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let mut setter = Setter::new(journal(folder.path(), &below(&root)), below(&root));
    let refused = setter.set("host.sched_features", "NO_HRTICK,SPEED").unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("'NO_HRTICK,SPEED' is not among its values: PLACE_LAG NO_HRTICK"), "{why}");
    setter.set("host.sched_features", "PLACE_LAG").unwrap();
    drop(setter);
    assert_eq!(now(&root, "sys/kernel/debug/sched/features"), "PLACE_LAG NO_HRTICK");
}

/// A trial changes what it tries, leaves it as it was, and names what it cannot change.
#[test]
fn a_feature_is_tried_at_another_level_and_is_as_it_was() {
    let (root, folder) = (pretended(), TempDir::new().unwrap());
    let of = |key: &str| {
        let feature = FEATURES.iter().find(|feature| feature.key == key).unwrap();
        tried(feature, journal(folder.path(), &below(&root)), &below(&root))
    };
    let works = |level: &str| Tried::Works(level.to_owned());
    assert_eq!(of("host.swappiness").unwrap(), works("61"));
    assert_eq!(of("host.boost").unwrap(), works("off"), "the inverted file");
    assert_eq!(of("host.deepest_idle_state").unwrap(), works("0"));
    assert_eq!(now(&root, "proc/sys/vm/swappiness"), "60");
    let refused = of("host.smt").unwrap_err();
    assert!(refused.to_string().contains("is 'notsupported'"), "{refused}");
    fs::write(root.path().join("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors"), "schedutil")
        .unwrap();
    assert_eq!(of("host.governor").unwrap(), Tried::Alone);
}

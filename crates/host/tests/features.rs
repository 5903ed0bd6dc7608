//! Features of a pretended host, and of this one: probed, set, undone, also after a kill.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, unsafe_code, reason = "a test")]

use baremark_host::{Absent, FEATURES, Host, HostError, Modules, Setter, Tried, absent, probe, tried};
use baremark_journal::value::{Setting, Values, read};
use baremark_journal::{Journal, Kind};
use baremark_model::descriptor::Kind as Takes;
use baremark_model::tables;
use std::fs;
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Tests that change this host take turns.
static HOST: Mutex<()> = Mutex::new(());
const KILLED: &str = "BAREMARK_TEST_HOST_SETTER";
const ALL: &str = "all of them";
const BEGINS: &str = "begins";
/// Set in the guest whose kernel is a stock one, in which this program runs again.
const GUEST: &str = "BAREMARK_TEST_IN_GUEST";

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

/// This machine, with the disk on which a folder of temporary files is.
fn this_host() -> Host {
    Host::this(vec![PathBuf::from("/var/tmp")])
}

fn below(root: &TempDir) -> Host {
    Host { root: root.path().to_owned(), data: vec![root.path().to_owned()] }
}

fn journal(folder: &Path, host: &Host) -> Journal {
    let root = &host.root;
    let kind: Box<dyn Kind> = Box::new(if root == Path::new("/") { Values::system() } else { Values::within(root) });
    Journal::open(folder.join("changes"), vec![kind, Box::new(Modules)]).unwrap()
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

/// Two levels other than the one that is set, of each feature that this machine has.
fn features_here() -> Vec<(&'static str, PathBuf, Vec<String>)> {
    let mut here = Vec::new();
    for feature in FEATURES {
        let Ok((_, files)) = probe(feature, &this_host()) else { continue };
        let knob = tables::FACTORS.iter().find(|knob| knob.key == feature.key).unwrap();
        let levels: Vec<String> = match (feature.key, knob.kind) {
            (_, Takes::Choice(words)) => words.iter().map(|word| (*word).to_owned()).collect(),
            ("host.deepest_idle_state", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.zone_reclaim_mode", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.irq_affinity", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.sched_features", _) => {
                let other = |word: &str| word.strip_prefix("NO_").map_or_else(|| format!("NO_{word}"), str::to_owned);
                let words = read(&files[0]).unwrap();
                vec![
                    words.split(' ').take(2).map(other).collect::<Vec<_>>().join(","),
                    words.split(' ').map(other).next().unwrap(),
                ]
            }
            ("host.sched_base_slice_ns" | "host.sched_migration_cost_ns", _) => {
                vec!["1000001".to_owned(), "1000002".to_owned()]
            }
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
    let files = FEATURES.iter().filter_map(|feature| probe(feature, &this_host()).ok()).flat_map(|(_, files)| files);
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
            let mut setter = Setter::new(journal(folder.path(), &this_host()), this_host());
            match setter.set(key, level) {
                Ok(()) => changed |= state() != before,
                Err(
                    HostError::Absent { source: Absent::NotOffered { .. }, .. }
                    | HostError::InUse { .. }
                    | HostError::ModuleInUse { .. },
                ) => {}
                Err(why) => panic!("{key} = {level}: {why}"),
            }
            drop(setter);
            assert_eq!(state(), before, "{key} = {level} is not undone");
        }
        // A machine with one governor of idle states can be set to that alone.
        assert!(changed || key.contains("governor"), "{key}: {} was never changed", file.display());
    }
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

#[test]
fn each_feature_of_this_machine_passes_its_trial() {
    if !root_user() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = TempDir::new().unwrap();
    let before = state();
    let mut works = 0;
    for feature in FEATURES.iter().filter(|feature| probe(feature, &this_host()).is_ok()) {
        match tried(feature, journal(folder.path(), &this_host()), &this_host()) {
            Ok(Tried::Works(_)) => works += 1,
            Ok(Tried::Alone) | Err(HostError::InUse { .. } | HostError::ModuleInUse { .. }) => {}
            other => panic!("{}: {other:?}", feature.key),
        }
    }
    assert!(works > 0, "a Linux machine has vm.swappiness");
    assert_eq!(state(), before);
}

/// Not a test: a process that sets every feature, says so, and waits to be killed.
#[test]
fn setter_process() {
    let Some(folder) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    let mut setter = Setter::new(journal(&folder, &this_host()), this_host());
    eprintln!("{BEGINS}");
    for (key, _, levels) in features_here() {
        let _ = levels.iter().rev().find(|level| setter.set(key, level).is_ok());
        eprintln!("reached {key}");
    }
    eprintln!("reached {ALL}");
    loop {
        std::thread::park();
    }
}

/// When a process that sets features is killed.
#[derive(Clone, Copy, Debug)]
enum Moment<'f> {
    /// It has reached this feature, or all.
    Reached(&'f str),
    /// So long after it has begun.
    After(Duration),
}

/// Kills a process that sets features at a moment, and undoes what it left; how long it took from its beginning to the moment.
fn killed_at(moment: Moment<'_>) -> Duration {
    let folder = TempDir::new().unwrap();
    let before = state();
    let mut setter = Command::new(std::env::current_exe().unwrap());
    setter.args(["--exact", "setter_process", "--nocapture"]).env(KILLED, folder.path());
    let mut setter = setter.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(setter.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line == BEGINS), "it ended before it began");
    let began = Instant::now();
    match moment {
        Moment::Reached(at) => assert!(said.any(|line| line == format!("reached {at}")), "it ended before {at}"),
        Moment::After(time) => std::thread::sleep(time),
    }
    let took = began.elapsed();
    setter.kill().unwrap();
    setter.wait().unwrap();
    let recovery = journal(folder.path(), &this_host()).recover().unwrap();
    assert!(recovery.failed.is_empty() && recovery.foreign.is_empty() && recovery.damaged.is_empty(), "{recovery:?}");
    assert_eq!(state(), before, "killed at {moment:?}: {recovery:?}");
    assert!(matches!(moment, Moment::After(_)) || !recovery.undone.is_empty(), "{recovery:?}");
    took
}

#[test]
fn what_a_killed_process_has_set_is_undone_by_the_next() {
    if !root_user() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    killed_at(Moment::Reached(ALL));
}

/// Not a test but in a guest: what a stock kernel has in addition to this machine's, which is tried by the other tests there.
#[test]
fn in_the_guest_of_a_stock_kernel() {
    if std::env::var_os(GUEST).is_none() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = TempDir::new().unwrap();
    let host = this_host();
    let new =
        ["mmu", "irq_affinity", "preempt", "sched_features", "sched_base_slice_ns", "sched_nr_migrate", "thp_shmem"];
    for key in new {
        let feature = FEATURES.iter().find(|feature| feature.key == format!("host.{key}")).unwrap();
        let found = tried(feature, journal(folder.path(), &host), &host);
        assert!(matches!(found, Ok(Tried::Works(_))), "{key}: {found:?}");
        eprintln!("{key}: {found:?}");
    }
    assert!(!Path::new("/sys/kernel/debug/sched").exists(), "debugfs was mounted for this process alone");

    let parameter = |name: &str| read(&host.root.join("sys/module/kvm_amd/parameters").join(name)).unwrap();
    // What the module was loaded with before stays with it.
    assert_eq!((parameter("npt"), parameter("nested")), ("Y".to_owned(), "0".to_owned()));
    let mut setter = Setter::new(journal(folder.path(), &host), host.clone());
    setter.set("host.mmu", "shadow").unwrap();
    assert_eq!((parameter("npt"), parameter("nested")), ("N".to_owned(), "0".to_owned()));
    let used = fs::File::open("/dev/kvm").unwrap();
    let refused = setter.set("host.mmu", "nested").unwrap_err();
    assert!(matches!(refused, HostError::ModuleInUse { .. }), "{refused}");
    assert_eq!(parameter("npt"), "N", "refused before anything is undone");
    drop(used);
    setter.set("host.mmu", "nested").unwrap();
    assert_eq!(parameter("npt"), "Y");
    setter.set("host.mmu", "shadow").unwrap();
    // A kill between removing and loading leaves no module; undoing loads it as it was.
    assert!(Command::new("rmmod").arg("kvm_amd").status().unwrap().success());
    drop(setter);
    assert_eq!((parameter("npt"), parameter("nested")), ("Y".to_owned(), "0".to_owned()));

    let features = Setting::switch("/sys/kernel/debug/sched/features", "HRTICK");
    let before = features.read().unwrap();
    let mut setter = Setter::new(journal(folder.path(), &host), host.clone());
    setter.set("host.sched_features", "HRTICK").unwrap();
    assert_eq!(features.read().unwrap(), "HRTICK");
    drop(setter);
    assert_eq!(features.read().unwrap(), before);
}

/// The first program of the guest: it loads the module that a host has, and runs tests of this file again.
const FIRST: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
exec </dev/console >/dev/console 2>&1
mkdir -p /lib/modules/$(uname -r)
mv /modules/* /lib/modules/$(uname -r)
modprobe kvm_amd nested=0
BAREMARK_TEST_IN_GUEST=1 /features --test-threads 1 --nocapture each_feature in_the_guest what_a_killed
echo "the tests ended with $?"
poweroff -f
"#;

/// Where scripts/fetch-kernel puts the kernel for guests; `None`, with a line that is counted, where something is missing.
fn stock_kernel() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel");
    let runs = |program: &str, argument: &str| Command::new(program).arg(argument).output().is_ok();
    let missing = if !folder.join("vmlinuz").exists() {
        "no kernel for guests; run scripts/fetch-kernel"
    } else if !runs("qemu-system-x86_64", "--version") {
        "no qemu-system-x86_64"
    } else if !runs("busybox", "true") {
        "no busybox"
    } else {
        return Some(folder);
    };
    eprintln!("skipped: {missing}");
    None
}

/// An initial file system with this program, busybox and KVM's modules.
fn initial_files(kernel: &Path, folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for inside in ["bin", "modules", "dev"] {
        fs::create_dir_all(root.join(inside)).unwrap();
    }
    fs::write(root.join("init"), FIRST).unwrap();
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).unwrap();
    let shell = Command::new("sh").args(["-c", "command -v busybox"]).output().unwrap();
    fs::copy(String::from_utf8(shell.stdout).unwrap().trim(), root.join("bin/busybox")).unwrap();
    let stripped =
        Command::new("strip").arg("-o").arg(root.join("features")).arg(std::env::current_exe().unwrap()).status();
    assert!(stripped.unwrap().success());
    for module in ["arch/x86/kvm/kvm-amd.ko", "arch/x86/kvm/kvm.ko", "virt/lib/irqbypass.ko"] {
        let name = Path::new(module).file_name().unwrap();
        fs::copy(kernel.join("modules/kernel").join(module), root.join("modules").join(name)).unwrap();
    }
    let needs = "kvm-amd.ko: kvm.ko irqbypass.ko\nkvm.ko: irqbypass.ko\nirqbypass.ko:\n";
    fs::write(root.join("modules/modules.dep"), needs).unwrap();
    let packed = folder.join("initrd");
    let mut pack = Command::new("sh");
    pack.arg("-c").arg("find . | busybox cpio -o -H newc >../initrd").current_dir(&root);
    assert!(pack.output().unwrap().status.success());
    packed
}

/// Every feature of a stock kernel, whose debugfs is not locked and whose KVM is a module: set, undone, and undone after a kill. The guest is
/// emulated, so its processor has nested paging.
#[test]
fn features_of_a_stock_kernel_are_set_and_undone_in_a_guest() {
    let Some(kernel) = stock_kernel() else { return };
    let folder = TempDir::new().unwrap();
    let initrd = initial_files(&kernel, folder.path());
    // Whatever becomes of the guest, and of this test, it ends.
    let mut qemu = Command::new("timeout");
    qemu.args([
        "--signal",
        "KILL",
        "600",
        "qemu-system-x86_64",
        "-M",
        "q35",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
    ]);
    qemu.args(["-smp", "2", "-m", "1024", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
    qemu.arg("-kernel").arg(kernel.join("vmlinuz")).arg("-initrd").arg(initrd);
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]).stdin(Stdio::null());
    let done = qemu.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("the tests ended with 0"), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let passed = said.lines().find(|line| line.starts_with("test result: ok. ")).unwrap_or_default();
    assert!(passed.starts_with("test result: ok. 4 passed;"), "{said}");
}

/// Kills at ten moments, one after each of ten features.
#[test]
#[ignore = "soak"]
fn soak_kills_at_ten_features_and_twenty_random_moments() {
    if !root_user() {
        return;
    }
    let _turn = HOST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let here = features_here();
    for moment in 0..10 {
        killed_at(Moment::Reached(here[moment % here.len()].0));
    }
    // Within a call that sets one, or between its record and its effect.
    let all = killed_at(Moment::Reached(ALL));
    let mut random = std::collections::hash_map::RandomState::new().hash_one(0);
    for _ in 0..20 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        killed_at(Moment::After(all.mul_f64((random >> 40) as f64 / f64::from(1 << 24))));
    }
}

//! Features of a stock kernel, in a guest.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, reason = "a test")]

#[path = "../kernel/live.rs"]
#[allow(dead_code, reason = "the tests of this machine use all of it")]
mod live;

use baremark_host::{FEATURES, HostError, Setter, Tried, tried};
use baremark_journal::value::{Setting, read};
use live::{ALL, Moment, journal, killed_at, this_host};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Set in the guest whose kernel is a stock one, in which this program runs again.
const GUEST: &str = "BAREMARK_TEST_IN_GUEST";

/// Not a test but in a guest: what the tests of this machine try, and what a stock kernel has in addition.
#[test]
fn in_the_guest_of_a_stock_kernel() {
    if std::env::var_os(GUEST).is_none() {
        return;
    }
    live::are_set_and_undone();
    live::pass_their_trials();
    killed_at(Moment::Reached(ALL));
    let folder = TempDir::new().unwrap();
    let host = this_host();
    let new =
        ["mmu", "irq_affinity", "preempt", "sched_features", "sched_base_slice_ns", "sched_nr_migrate", "thp_shmem"];
    for key in new {
        let feature = FEATURES.iter().find(|feature| feature.key == format!("host.{key}")).unwrap();
        let found = tried(feature, journal(folder.path()), &host);
        assert!(matches!(found, Ok(Tried::Works(_))), "{key}: {found:?}");
        eprintln!("{key}: {found:?}");
    }
    assert!(!Path::new("/sys/kernel/debug/sched").exists(), "debugfs was mounted for this process alone");

    let parameter = |name: &str| read(&host.root.join("sys/module/kvm_amd/parameters").join(name)).unwrap();
    // What the module was loaded with before stays with it.
    assert_eq!((parameter("npt"), parameter("nested")), ("Y".to_owned(), "0".to_owned()));
    let mut setter = Setter::new(journal(folder.path()), host.clone());
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
    let mut setter = Setter::new(journal(folder.path()), host.clone());
    setter.set("host.sched_features", "HRTICK").unwrap();
    assert_eq!(features.read().unwrap(), "HRTICK");
    drop(setter);
    assert_eq!(features.read().unwrap(), before);
}

/// The first program of the guest: it loads the module that a host has, and runs the test of this file that is for it.
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
BAREMARK_TEST_IN_GUEST=1 /tests --nocapture --exact in_the_guest_of_a_stock_kernel
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
        Command::new("strip").arg("-o").arg(root.join("tests")).arg(std::env::current_exe().unwrap()).status();
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
    assert!(passed.starts_with("test result: ok. 1 passed;"), "{said}");
}

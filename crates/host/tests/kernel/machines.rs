//! A virtual machine of KVM that another process holds.
#![allow(unsafe_code, reason = "KVM's request")]

use crate::live::journal;
use baremark_host::{Host, HostError, Setter, Vms, running};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const HOLDER: &str = "BAREMARK_TEST_MACHINE_HOLDER";
const HOLDS: &str = "holds a machine";
/// `_IO(0xae, 1)`.
const KVM_CREATE_VM: libc::c_ulong = 0xae01;

/// Not a test: a process that makes a virtual machine, says so, and waits to be killed.
#[test]
fn machine_holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm").unwrap();
    // SAFETY: takes a number and gives a descriptor.
    let machine = unsafe { libc::ioctl(kvm.as_raw_fd(), KVM_CREATE_VM as _, 0) };
    assert!(machine >= 0, "{}", std::io::Error::last_os_error());
    eprintln!("{HOLDS}");
    loop {
        std::thread::park();
    }
}

/// Killed when it is dropped.
struct Holder(Child);

impl Holder {
    fn start() -> Holder {
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder.args(["--exact", "machines::machine_holder", "--nocapture"]).env(HOLDER, "1");
        let mut holder = Holder(holder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(holder.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line == HOLDS), "it made no machine");
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A machine that another process holds is found by the real `/proc`, and a feature below it is refused with that process's number.
#[test]
fn a_feature_below_a_machine_that_runs_is_refused() {
    if OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        eprintln!("skipped: /dev/kvm cannot be opened");
        return;
    }
    let holder = Holder::start();
    let pid = holder.0.id();
    // Of this machine there is that process alone, with its own descriptors, and the feature's file is played: nothing of this machine changes.
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("proc")).unwrap();
    symlink(format!("/proc/{pid}"), root.path().join("proc").join(pid.to_string())).unwrap();
    let file = root.path().join("sys/module/kvm/parameters/halt_poll_ns");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "200000").unwrap();
    assert_eq!(running(root.path()), Vms::Held(pid));
    let host = Host { root: root.path().to_owned(), data: Vec::new() };
    let changes = TempDir::new().unwrap();
    let mut setter = Setter::new(journal(changes.path()), host);
    let why = setter.set("host.halt_poll_ns", "100000").unwrap_err();
    assert!(matches!(why, HostError::InUse { pid: named, .. } if named == pid), "{why}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "200000");
    drop(holder);
    assert_eq!(running(root.path()), Vms::Absent, "its end closed it");
}

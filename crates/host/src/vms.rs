//! Whether a virtual machine runs on this host. What cannot be found out is unknown, which is not "none".

use baremark_sys::namespace::FIRST_PROCESSES;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The link of a descriptor that is a KVM virtual machine.
const MACHINE: &str = "anon_inode:kvm-vm";
/// In `/proc/PID/stat`: the flag of a thread of the kernel, and states of a process that has ended.
const KERNEL_THREAD: u64 = 0x0020_0000;
const ENDED: [&str; 3] = ["Z", "X", "x"];
/// Modules that each virtual machine of KVM uses.
const MODULES: [&str; 3] = ["kvm_intel", "kvm_amd", "kvm_pvm"];

/// What is known of virtual machines on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vms {
    /// There is none, but for those of this process.
    Absent,
    /// This process holds one.
    Held(u32),
    /// It cannot be found out, and why.
    Unknown(String),
}

/// What is known of virtual machines on the host whose `/proc` and `/sys` lie below `root`.
#[must_use]
pub fn running(root: &Path) -> Vms {
    let entries = match fs::read_dir(root.join("proc")) {
        Ok(entries) => entries.flatten(),
        Err(why) => return Vms::Unknown(format!("/proc cannot be read: {why}")),
    };
    let own = std::process::id();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut unknown = None;
    for pid in processes.filter(|pid| *pid != own) {
        match holds_machine(root, pid) {
            Ok(true) => return Vms::Held(pid),
            Ok(false) => {}
            Err(why) => unknown = unknown.or_else(|| Some(unreadable(pid, &why))),
        }
    }
    let unknown = unknown.or_else(|| hides_processes(root).then(hidden));
    match unknown.filter(|_| !is_unused(root)) {
        Some(why) => Vms::Unknown(why),
        None => Vms::Absent,
    }
}

fn unreadable(pid: u32, why: &io::Error) -> String {
    format!("the descriptors of process {pid} cannot be read ({why}); run this as root, or end that process")
}

fn hidden() -> String {
    "processes outside of this PID namespace cannot be seen; run this outside of the container".to_owned()
}

/// Whether a process has a virtual machine open. One that has ended has none, nor has a thread of the kernel.
fn holds_machine(root: &Path, pid: u32) -> io::Result<bool> {
    let folder = root.join("proc").join(pid.to_string());
    match has_machine_open(&folder.join("fd")) {
        Err(_) if has_no_files(&folder) => Ok(false),
        found => found,
    }
}

fn has_machine_open(descriptors: &Path) -> io::Result<bool> {
    for file in fs::read_dir(descriptors)? {
        match fs::read_link(file?.path()) {
            Ok(to) if to.as_os_str() == MACHINE => return Ok(true),
            Ok(_) => {}
            // Closed meanwhile.
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(why),
        }
    }
    Ok(false)
}

/// Whether a process has ended meanwhile, or is a thread of the kernel.
fn has_no_files(folder: &Path) -> bool {
    let text = match fs::read_to_string(folder.join("stat")) {
        Ok(text) => text,
        // ESRCH is what reading gives of one that ends between opening and reading.
        Err(why) => return why.kind() == ErrorKind::NotFound || why.raw_os_error() == Some(3),
    };
    // The name, in parentheses, can have spaces and parentheses of its own.
    let Some((_, rest)) = text.rsplit_once(')') else { return false };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok());
    fields.first().is_some_and(|state| ENDED.contains(state)) || flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// Whether this process is in a PID namespace of its own. Kernels without such namespaces have no such file.
fn hides_processes(root: &Path) -> bool {
    fs::read_link(root.join("proc/self/ns/pid")).is_ok_and(|namespace| namespace.as_os_str() != FIRST_PROCESSES)
}

/// Whether nothing on the whole machine has a virtual machine open, by the kernel's own count; false where KVM is part of the kernel.
fn is_unused(root: &Path) -> bool {
    let count = |module: &&str| fs::read_to_string(root.join("sys/module").join(module).join("refcnt")).ok();
    let counts: Vec<String> = MODULES.iter().filter_map(count).collect();
    !counts.is_empty() && counts.iter().all(|count| count.trim() == "0")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A played `/proc`.
    struct Played(TempDir);

    impl Played {
        fn new() -> Played {
            let played = Played(TempDir::new().unwrap());
            played.process(1, "(init) S 0 1 1 0 -1 4194560", Some(&["/dev/null", "socket:[7]"]));
            // This process's own virtual machines do not count.
            played.process(std::process::id(), "(lab) R 1 1 1 0 -1 4194560", Some(&[MACHINE]));
            played.link("proc/self/ns/pid", FIRST_PROCESSES);
            played
        }

        /// A process whose descriptors lead to these; `None` where they cannot be read, by root either.
        fn process(&self, pid: u32, stat: &str, links: Option<&[&str]>) {
            let folder = self.0.path().join("proc").join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("stat"), format!("{pid} {stat} 0 0")).unwrap();
            match links {
                Some(links) => {
                    fs::create_dir(folder.join("fd")).unwrap();
                    for (fd, to) in links.iter().enumerate() {
                        symlink(to, folder.join("fd").join(fd.to_string())).unwrap();
                    }
                }
                None => fs::write(folder.join("fd"), "").unwrap(),
            }
        }

        fn link(&self, path: &str, to: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            drop(fs::remove_file(&path));
            symlink(to, path).unwrap();
        }

        fn count(&self, module: &str, count: &str) {
            let folder = self.0.path().join("sys/module").join(module);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("refcnt"), count).unwrap();
        }

        fn running(&self) -> Vms {
            running(self.0.path())
        }
    }

    #[test]
    fn a_machine_is_found_by_its_descriptor() {
        let played = Played::new();
        assert_eq!(played.running(), Vms::Absent);
        played.process(5_000_200, "(a (b) c) S 1 1 1 0 -1 4194304", Some(&["anon_inode:kvm-vcpu:0", MACHINE]));
        assert_eq!(played.running(), Vms::Held(5_000_200));
    }

    #[test]
    fn a_process_that_cannot_be_read_is_unknown_and_is_named() {
        let played = Played::new();
        played.process(5_000_300, "(qemu) S 1 1 1 0 -1 4194304", None);
        let Vms::Unknown(why) = played.running() else { panic!("{:?}", played.running()) };
        assert!(why.starts_with("the descriptors of process 5000300 cannot be read ("), "{why}");
        assert!(why.ends_with("); run this as root, or end that process"), "{why}");
        // Another that is known to hold one decides.
        played.process(5_000_200, "(qemu) S 1 1 1 0 -1 4194304", Some(&[MACHINE]));
        assert_eq!(played.running(), Vms::Held(5_000_200));
    }

    #[test]
    fn threads_of_the_kernel_and_processes_that_have_ended_hold_nothing() {
        let played = Played::new();
        played.process(2, "(kthreadd) S 0 0 0 0 -1 2129984", None);
        played.process(5_000_301, "(gone) Z 1 1 1 0 -1 4194304", None);
        fs::create_dir(played.0.path().join("proc/5000302")).unwrap();
        assert_eq!(played.running(), Vms::Absent);
    }

    #[test]
    fn processes_that_are_hidden_are_unknown_unless_the_kernel_counts_no_machine() {
        let played = Played::new();
        played.link("proc/self/ns/pid", "pid:[4026532001]");
        let Vms::Unknown(why) = played.running() else { panic!("{:?}", played.running()) };
        assert_eq!(why, hidden());
        played.count("kvm_amd", "2\n");
        assert_eq!(played.running(), Vms::Unknown(hidden()));
        played.count("kvm_amd", "0\n");
        assert_eq!(played.running(), Vms::Absent);
        played.process(5_000_300, "(qemu) S 1 1 1 0 -1 4194304", None);
        assert_eq!(played.running(), Vms::Absent, "none of what it has open is a machine");
        played.count("kvm_intel", "1\n");
        assert!(matches!(played.running(), Vms::Unknown(_)));
    }

    #[test]
    fn without_proc_nothing_is_known() {
        let empty = TempDir::new().unwrap();
        assert!(matches!(running(empty.path()), Vms::Unknown(why) if why.starts_with("/proc cannot be read: ")));
    }
}

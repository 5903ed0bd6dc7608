//! An emulated guest with a stock kernel, Debian's for clouds, in which tests run again: it has as modules what this machine's kernel may lack.
//!
//! Nothing but busybox, the tests' own program and what they name is in the guest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Set in the guest.
pub const INSIDE: &str = "BAREMARK_TEST_IN_GUEST";
/// Whatever becomes of the guest, and of its test, it ends after so many seconds.
const LIMIT_S: &str = "600";

/// What a guest has and does.
pub struct StockGuest<'g> {
    /// Modules and folders of them, below `modules/kernel`. They are loaded when the kernel or `prepare` names them.
    pub modules: &'g [&'g str],
    /// Programs without shared libraries, and where they are in the guest.
    pub programs: &'g [(&'g Path, &'g str)],
    /// Lines of a shell before the tests.
    pub prepare: &'g str,
    /// What the tests' program is given: names of tests.
    pub tests: &'g str,
    /// Bytes of a disk of its own with an ext4 file system, at /data; 0 for none.
    pub disk_bytes: u64,
}

/// The first program of the guest, before what is particular to one.
const FIRST: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /sbin /var/tmp /var/lib /data /lib/modules
/bin/busybox --install -s /bin
ln -s /bin/busybox /sbin/modprobe
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs tmp /run
exec </dev/console >/dev/console 2>&1
ln -s /proc/self/fd /dev/fd
mv /modules /lib/modules/$(uname -r)
depmod
ip link set lo up
"#;

impl StockGuest<'_> {
    /// Boots it, prints its lines that begin with `guest: `, and gives what its console showed when its tests have passed; `None`, with a
    /// line that is counted, where something is missing.
    pub fn run(&self) -> Option<String> {
        let kernel = stock_kernel()?;
        let folder = TempDir::new_in("/var/tmp").unwrap();
        let initrd = self.initial_files(&kernel, folder.path());
        let mut qemu = Command::new("timeout");
        qemu.args(["--signal", "KILL", LIMIT_S, "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi"]);
        qemu.args(["-cpu", "max", "-smp", "2", "-m", "1536", "-nodefaults", "-display", "none", "-serial", "stdio"]);
        qemu.arg("-no-reboot").arg("-kernel").arg(kernel.join("vmlinuz")).arg("-initrd").arg(initrd);
        qemu.args(["-append", "console=ttyS0 quiet panic=-1 psi=1 rdinit=/init"]).stdin(Stdio::null());
        if self.disk_bytes > 0 {
            let disk = folder.path().join("disk");
            fs::File::create(&disk).and_then(|file| file.set_len(self.disk_bytes)).unwrap();
            let made = Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F"]).arg(&disk).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,cache=unsafe", disk.display()));
        }
        let done = qemu.output().unwrap();
        let shown = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            shown.contains("the tests ended with 0") && shown.lines().any(|line| line.starts_with("test result: ok. ")),
            "{shown}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        // Where a test begins, its name comes first.
        shown
            .lines()
            .filter_map(|line| line.find("guest: ").map(|at| &line[at..]))
            .for_each(|line| eprintln!("{line}"));
        Some(shown)
    }

    /// An initial file system with the tests' program, busybox, modules and programs.
    fn initial_files(&self, kernel: &Path, folder: &Path) -> PathBuf {
        let root = folder.join("root");
        for inside in ["bin", "modules/kernel", "dev"] {
            fs::create_dir_all(root.join(inside)).unwrap();
        }
        let data =
            if self.disk_bytes > 0 { "modprobe virtio_pci\nmodprobe virtio_blk\nmount /dev/vda /data\n" } else { "" };
        let (prepare, tests) = (self.prepare, self.tests);
        let last = format!(
            "{INSIDE}=1 /tests --include-ignored --test-threads 1 --nocapture {tests}\necho \"the tests ended with $?\""
        );
        fs::write(root.join("init"), format!("{FIRST}{data}{prepare}\n{last}\nsync\npoweroff -f\n")).unwrap();
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).unwrap();
        let shell = Command::new("sh").args(["-c", "command -v busybox"]).output().unwrap();
        fs::copy(String::from_utf8(shell.stdout).unwrap().trim(), root.join("bin/busybox")).unwrap();
        let tests = std::env::current_exe().unwrap();
        for (program, inside) in self.programs.iter().copied().chain([(tests.as_path(), "/tests")]) {
            let inside = root.join(inside.trim_start_matches('/'));
            fs::create_dir_all(inside.parent().unwrap()).unwrap();
            let stripped = Command::new("strip").arg("-o").arg(&inside).arg(program).status().unwrap();
            assert!(stripped.success(), "{}", program.display());
        }
        let disk: &[&str] = if self.disk_bytes > 0 { &["drivers/virtio", "drivers/block/virtio_blk.ko"] } else { &[] };
        let (from, to) = (kernel.join("modules/kernel"), root.join("modules/kernel"));
        let mut copy = Command::new("cp");
        copy.args(["-r", "--parents"]).args(self.modules).args(disk).arg(to).current_dir(from);
        assert!(copy.status().unwrap().success());
        for list in ["modules.builtin", "modules.order"] {
            fs::copy(kernel.join("modules").join(list), root.join("modules").join(list)).unwrap();
        }
        let mut pack = Command::new("sh");
        pack.arg("-c").arg("find . | busybox cpio -o -H newc >../initrd").current_dir(&root);
        assert!(pack.output().unwrap().status.success());
        fs::remove_dir_all(&root).unwrap();
        folder.join("initrd")
    }
}

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
    assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "guests are demanded: {missing}");
    eprintln!("skipped: {missing}");
    None
}

/// Whether this is the guest; elsewhere a line that is counted.
pub fn is_inside() -> bool {
    let inside = std::env::var_os(INSIDE).is_some();
    if !inside {
        println!("skipped: it runs in the guest that a soak test boots");
    }
    inside
}

//! Programs as an unprivileged user in namespaces of their own: users, processes, mounts, network, IPC and host name, with an empty file system
//! in memory as the current folder.
//!
//! Of root, that user is nobody, who may not enter every folder: of the clone, say. The file system above the current folder has a copy of the
//! tests' program for it.
//!
//! What is executed has two processes above it: one outside, which ends as the program does, and the first of the new namespace. Each dies with the
//! one above, and with the first of a namespace dies everything in it.

use crate::support::PROBE;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Nobody, by its number.
const NOBODY: u32 = 65534;
/// The user's number in the namespace.
const INSIDE: u32 = 1000;

/// The copy of the tests' program, and the current folder, in the file system that root makes.
const COPY: &CStr = c"probe";
const CURRENT: &CStr = c"current";

/// What the processes between need, made before they are.
struct Confinement {
    folder: CString,
    program: CString,
    map: [CString; 2],
    is_root: bool,
    kvm: u64,
}

fn is_root() -> bool {
    // SAFETY: asks for the user's number.
    unsafe { libc::geteuid() == 0 }
}

/// The tests' program, as a confined command finds it.
pub fn program() -> &'static str {
    if is_root() { "../probe" } else { PROBE }
}

/// Whether this machine lets a program be confined; what is in the way.
pub fn is_possible() -> Result<(), String> {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    if is_root() && mode(Path::new("/proc/self/exe")) & 0o005 != 0o005 {
        return Err("others may not execute the program of these tests".to_owned());
    }
    // By its path a program in the guest finds itself again.
    let temporary = std::env::temp_dir();
    if let Some(closed) = temporary.ancestors().find(|folder| is_root() && mode(folder) & 0o001 == 0) {
        return Err(format!("others may not enter {}", closed.display()));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("/bin/true");
    confine(&mut command, folder.path());
    let status = command.stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("no namespaces for an unprivileged user: {other:?}")),
    }
}

/// Has a command run confined, in an empty file system over `folder`.
pub fn confine(command: &mut Command, folder: &Path) {
    let is_root = is_root();
    // SAFETY: asks for the user's number.
    let outside = if is_root { NOBODY } else { unsafe { libc::geteuid() } };
    // SAFETY: as above.
    let group = if is_root { NOBODY } else { unsafe { libc::getegid() } };
    let text = |text: String| CString::new(text).unwrap();
    let confinement = Confinement {
        folder: CString::new(folder.as_os_str().as_bytes()).unwrap(),
        program: CString::new(PROBE).unwrap(),
        map: [text(format!("{INSIDE} {outside} 1")), text(format!("{INSIDE} {group} 1"))],
        is_root,
        kvm: std::fs::metadata("/dev/kvm").map_or(0, |device| device.rdev()),
    };
    // SAFETY: the function makes system calls and allocates nothing.
    unsafe { command.pre_exec(move || confinement.enter()) };
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Confinement {
    fn enter(&self) -> io::Result<()> {
        // SAFETY: system calls of a process that is about to execute a program; texts end in NUL and live on.
        unsafe {
            if self.is_root {
                self.leave_root()?;
            }
            done(libc::prctl(libc::PR_SET_DUMPABLE, 1))?;
            let own = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS;
            done(libc::unshare(own | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS))?;
            write(c"/proc/self/setgroups", c"deny")?;
            write(c"/proc/self/uid_map", &self.map[0])?;
            write(c"/proc/self/gid_map", &self.map[1])?;
            follow_above()?;
            follow_above()?;
            self.mount(None, c"/", c"", libc::MS_REC | libc::MS_PRIVATE)?;
            let current = if self.is_root { CURRENT } else { &self.folder };
            self.mount(Some(c"tmpfs"), current, c"size=64m,mode=777", 0)?;
            done(libc::chdir(current.as_ptr()))?;
            libc::umask(0o022);
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        }
    }

    /// Becomes nobody, in a file system with a copy of the program and a device of KVM that nobody may use.
    ///
    /// # Safety
    /// The process executes a program next.
    unsafe fn leave_root(&self) -> io::Result<()> {
        // SAFETY: as in `enter`.
        unsafe {
            done(libc::unshare(libc::CLONE_NEWNS))?;
            self.mount(None, c"/", c"", libc::MS_REC | libc::MS_PRIVATE)?;
            self.mount(Some(c"tmpfs"), &self.folder, c"mode=755", 0)?;
            done(libc::chdir(self.folder.as_ptr()))?;
            done(libc::mkdir(CURRENT.as_ptr(), 0o755))?;
            copy(&self.program, COPY)?;
            if self.kvm != 0 {
                let (from, to) = (c"kvm".as_ptr(), c"/dev/kvm".as_ptr());
                done(libc::mknod(from, libc::S_IFCHR | 0o666, self.kvm))?;
                done(libc::chmod(from, 0o666))?;
                done(libc::mount(from, to, std::ptr::null(), libc::MS_BIND, std::ptr::null()))?;
            }
            done(libc::setgroups(0, std::ptr::null()))?;
            done(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
            done(libc::setresuid(NOBODY, NOBODY, NOBODY))
        }
    }

    /// Mounts, or changes how mounts are shared.
    ///
    /// # Safety
    /// In a mount namespace of its own.
    unsafe fn mount(&self, kind: Option<&CStr>, at: &CStr, options: &CStr, flags: libc::c_ulong) -> io::Result<()> {
        let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the kernel reads texts that end in NUL.
        done(unsafe { libc::mount(c"none".as_ptr(), at.as_ptr(), kind, flags, options.as_ptr().cast()) })
    }
}

/// Goes on in a child, which dies with this process; this one ends as the child does.
///
/// # Safety
/// As [`Confinement::enter`].
unsafe fn follow_above() -> io::Result<()> {
    // SAFETY: as the caller's; the process between holds no descriptor, so that nobody waits for it.
    unsafe {
        done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        let child = libc::fork();
        done(child)?;
        if child == 0 {
            return done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL));
        }
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) != child {}
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
        libc::_exit(code)
    }
}

/// Copies a program, for everybody to execute.
///
/// # Safety
/// As [`Confinement::enter`].
unsafe fn copy(from: &CStr, to: &CStr) -> io::Result<()> {
    // SAFETY: texts that end in NUL; the descriptors are closed as the program is executed, or here.
    unsafe {
        let source = libc::open(from.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        done(source)?;
        let copy = libc::open(to.as_ptr(), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC, 0o755);
        done(copy)?;
        loop {
            match libc::sendfile(copy, source, std::ptr::null_mut(), 1 << 30) {
                1.. => {}
                0 => break,
                _ => return Err(io::Error::last_os_error()),
            }
        }
        done(libc::fchmod(copy, 0o755))?;
        done(libc::close(copy))
    }
}

/// # Safety
/// As [`Confinement::enter`].
unsafe fn write(path: &CStr, text: &CStr) -> io::Result<()> {
    // SAFETY: texts that end in NUL.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        done(fd)?;
        let bytes = text.to_bytes();
        let written = libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        let failed = io::Error::last_os_error();
        libc::close(fd);
        if written < 0 { Err(failed) } else { Ok(()) }
    }
}

/// A file for what a confined program gives, which it has open.
pub fn result_file() -> (File, Stdio) {
    let file = tempfile::tempfile().unwrap();
    let given = file.try_clone().unwrap().into();
    (file, given)
}

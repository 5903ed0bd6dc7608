//! Programs as an unprivileged user in namespaces of their own: users, processes, mounts, network, IPC and host name, with an empty file system
//! in memory as the current folder.
//!
//! What is executed has two processes above it: one outside, which ends as the program does, and the first of the new namespace. Each dies with the
//! one above, and with the first of a namespace dies everything in it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Nobody, by its number.
const NOBODY: u32 = 65534;
/// The user's number in the namespace.
const INSIDE: u32 = 1000;

/// What the processes between need, made before they are.
struct Confinement {
    folder: CString,
    device: CString,
    map: [CString; 2],
    is_root: bool,
    kvm: u64,
}

/// Whether this machine lets a program be confined; what is in the way.
pub fn is_possible() -> Result<(), String> {
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
    // SAFETY: asks for the user's number.
    let user = unsafe { libc::geteuid() };
    let is_root = user == 0;
    let outside = if is_root { NOBODY } else { user };
    // SAFETY: as above.
    let group = if is_root { NOBODY } else { unsafe { libc::getegid() } };
    let text = |text: String| CString::new(text).unwrap();
    let path = folder.as_os_str().as_bytes();
    let confinement = Confinement {
        folder: CString::new(path).unwrap(),
        device: CString::new([path, b"/kvm"].concat()).unwrap(),
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
            self.mount(Some(c"tmpfs"), &self.folder, c"size=64m,mode=777", 0)?;
            done(libc::chdir(self.folder.as_ptr()))?;
            libc::umask(0o022);
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        }
    }

    /// Becomes nobody, with a device of KVM that nobody may use.
    ///
    /// # Safety
    /// The process executes a program next.
    unsafe fn leave_root(&self) -> io::Result<()> {
        // SAFETY: as in `enter`.
        unsafe {
            done(libc::unshare(libc::CLONE_NEWNS))?;
            self.mount(None, c"/", c"", libc::MS_REC | libc::MS_PRIVATE)?;
            if self.kvm != 0 {
                self.mount(Some(c"tmpfs"), &self.folder, c"mode=755", 0)?;
                done(libc::mknod(self.device.as_ptr(), libc::S_IFCHR | 0o666, self.kvm))?;
                done(libc::chmod(self.device.as_ptr(), 0o666))?;
                let (from, to) = (self.device.as_ptr(), c"/dev/kvm".as_ptr());
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

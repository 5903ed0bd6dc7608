//! Mounts of one's own: for a program that sees this machine's files and can change none of them, whatever it is and may; for a
//! thread whose mounts nobody else sees and that are gone with it; and mounts that are undone by their owner.

use crate::calls::checked;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// `struct mount_attr` of `mount_setattr(2)`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Gives `command` mounts of its own, all of them read-only. It needs the right to mount (CAP_SYS_ADMIN) and Linux 5.12;
/// without them the program does not start.
pub fn see_read_only(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe functions may run; `set_apart` makes three system calls and
    // errors from numbers, which allocate nothing.
    unsafe { command.pre_exec(set_apart) };
}

/// Gives the calling thread, and all threads and programs that it starts from now on, mounts of their own: what they mount is seen by
/// nobody else, and is unmounted when the last of them has ended, however it ended.
///
/// # Errors
/// What `unshare(2)` and `mount(2)` give; the right to mount (CAP_SYS_ADMIN) is needed.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: takes a number and touches no memory.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let (root, all_private) = (c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: both texts end in zero and live through the call; what is null is not looked at when propagation changes.
    checked(unsafe { libc::mount(c"none".as_ptr(), root, std::ptr::null(), all_private, std::ptr::null()) }).map(drop)
}

/// A place in the tree of files at which something is mounted; it is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mounted {
    /// `None` once it was unmounted.
    at: Option<CString>,
}

impl Mounted {
    /// Mounts the file system of this kind on a device at a folder. Those of its files that are devices or have set-user-ID bits count as plain
    /// ones.
    ///
    /// # Errors
    /// What `mount(2)` gives; the right to mount (CAP_SYS_ADMIN) is needed.
    pub fn device(device: &Path, kind: &str, at: &Path) -> io::Result<Mounted> {
        Mounted::new(device, at, Some(kind), libc::MS_NODEV | libc::MS_NOSUID)
    }

    /// Shows a folder at another one as well.
    ///
    /// # Errors
    /// As [`Mounted::device`].
    pub fn also(folder: &Path, at: &Path) -> io::Result<Mounted> {
        Mounted::new(folder, at, None, libc::MS_BIND)
    }

    fn new(source: &Path, at: &Path, kind: Option<&str>, flags: libc::c_ulong) -> io::Result<Mounted> {
        let source = CString::new(source.as_os_str().as_bytes())?;
        let at = CString::new(at.as_os_str().as_bytes())?;
        let kind = kind.map(CString::new).transpose()?;
        let kind = kind.as_ref().map_or(std::ptr::null(), |kind| kind.as_ptr());
        // SAFETY: all texts end in zero and live through the call; null is what a mount without a kind or options has.
        checked(unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind, flags, std::ptr::null()) })?;
        Ok(Mounted { at: Some(at) })
    }

    /// Unmounts it; with the last place of a file system all of it has been written when this returns.
    ///
    /// # Errors
    /// What `umount2(2)` gives: a file that is still open. It is then unmounted with its last user.
    pub fn unmount(mut self) -> io::Result<()> {
        let Some(at) = &self.at else { return Ok(()) };
        unmount(at, 0)?;
        self.at = None;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // One that is in use goes with its last user.
        if let Some(at) = self.at.take() {
            drop(unmount(&at, libc::MNT_DETACH));
        }
    }
}

fn unmount(at: &CString, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the text ends in zero and lives through the call.
    checked(unsafe { libc::umount2(at.as_ptr(), flags) }).map(drop)
}

fn set_apart() -> io::Result<()> {
    own_mounts()?;
    let root = c"/".as_ptr();
    let read_only = Attributes { set: libc::MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the text ends in zero; the attributes are of the size that is passed, and both live through the call.
    checked(unsafe {
        let (attributes, size) = (&raw const read_only, size_of::<Attributes>());
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, root, libc::AT_RECURSIVE, attributes, size)
    })
    .map(drop)
}

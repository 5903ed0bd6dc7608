//! File systems that are mounted nowhere: their files are reached through a descriptor alone, nobody else sees them, and the kernel unmounts
//! them with the last descriptor, however its owner ended.
#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use baremark_sys::calls::new_descriptor;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Commands of `fsconfig(2)`.
const SET_FLAG: libc::c_uint = 0;
const SET_STRING: libc::c_uint = 1;
const CREATE: libc::c_uint = 6;
/// `FSOPEN_CLOEXEC` and `FSMOUNT_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_uint = 1;
/// `MOUNT_ATTR_NOSUID`, `MOUNT_ATTR_NODEV` and `MOUNT_ATTR_NOEXEC`: its files are data.
const DATA_ALONE: libc::c_uint = 2 | 4 | 8;
/// What the kernel reports of one step, at most.
const LONGEST_MESSAGE: usize = 4096;

/// A mounted file system.
pub(crate) struct Detached {
    root: File,
}

impl Detached {
    /// Mounts a file system of this kind with these options, of which those without a value are flags; `source` is one of them.
    ///
    /// # Errors
    /// What `fsopen(2)`, `fsconfig(2)` and `fsmount(2)` give, with the kernel's own words where it has some.
    pub(crate) fn mount(kind: &str, options: &[(&str, Option<&str>)]) -> io::Result<Detached> {
        let kind = CString::new(kind)?;
        // SAFETY: the text ends in zero and lives through the call; the descriptor that it makes is nobody else's.
        let context = unsafe { new_descriptor(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), CLOSE_ON_EXEC)) }?;
        let context = File::from(context);
        let set = |command: libc::c_uint, key: Option<&CString>, value: Option<&CString>| {
            let text = |text: Option<&CString>| text.map_or(std::ptr::null(), |text| text.as_ptr());
            // SAFETY: texts end in zero and live through the call; null is what commands without a key or a value take.
            let rc = unsafe {
                libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, text(key), text(value), 0_i32)
            };
            if rc == 0 { Ok(()) } else { Err(explained(io::Error::last_os_error(), &context)) }
        };
        for (key, value) in options {
            let key = CString::new(*key)?;
            match value {
                None => set(SET_FLAG, Some(&key), None)?,
                Some(value) => set(SET_STRING, Some(&key), Some(&CString::new(*value)?))?,
            }
        }
        set(CREATE, None, None)?;
        // SAFETY: takes a descriptor, which is open, and numbers; the one that it makes is nobody else's.
        let root =
            unsafe { new_descriptor(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, DATA_ALONE)) };
        root.map(|root| Detached { root: File::from(root) })
    }

    /// The path by which this process alone reaches the file `name`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.root.as_raw_fd()))
    }

    /// Its root, which can be asked for free space.
    pub(crate) fn root(&self) -> &File {
        &self.root
    }
}

/// An error with the messages that the kernel left in the context: each begins with a letter for its weight.
fn explained(why: io::Error, context: &File) -> io::Error {
    let mut words = Vec::new();
    let mut message = vec![0; LONGEST_MESSAGE];
    let mut context = context;
    while let Ok(length @ 1..) = context.read(&mut message) {
        let text = String::from_utf8_lossy(&message[..length]);
        words.push(text.get(2..).unwrap_or_default().trim().to_owned());
    }
    if words.is_empty() { why } else { io::Error::new(why.kind(), format!("{why} ({})", words.join("; "))) }
}

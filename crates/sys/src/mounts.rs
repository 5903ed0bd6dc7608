//! Mounts of one's own: for a program that sees this machine's files and can change none of them, whatever it is and may, and for a
//! thread whose mounts nobody else sees and that are gone with it.

use std::io;
use std::os::unix::process::CommandExt;
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
    let rc = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    checked(rc.into())?;
    let (root, all_private) = (c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: both texts end in zero and live through the call; what is null is not looked at when propagation changes.
    let rc = unsafe { libc::mount(c"none".as_ptr(), root, std::ptr::null(), all_private, std::ptr::null()) };
    checked(rc.into())
}

fn set_apart() -> io::Result<()> {
    own_mounts()?;
    let root = c"/".as_ptr();
    let read_only = Attributes { set: libc::MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the text ends in zero; the attributes are of the size that is passed, and both live through the call.
    let rc = unsafe {
        let (attributes, size) = (&raw const read_only, size_of::<Attributes>());
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, root, libc::AT_RECURSIVE, attributes, size)
    };
    checked(rc)
}

fn checked(rc: libc::c_long) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::is_root;

    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is told")]
    fn a_program_reads_and_cannot_write_while_others_still_can() {
        if !is_root() {
            println!("skipped: only the superuser may mount");
            return;
        }
        let file = std::env::temp_dir().join(format!("baremark-read-only-{}", std::process::id()));
        std::fs::write(&file, "before").expect("it can be written");
        let mut command = Command::new("sh");
        command.arg("-c").arg("cat \"$1\"; echo after > \"$1\"").arg("sh").arg(&file);
        see_read_only(&mut command);
        let output = command.output().expect("sh runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "before");
        assert!(String::from_utf8_lossy(&output.stderr).contains("ead-only file system"), "{output:?}");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "before");
        std::fs::write(&file, "after").expect("we can still write");
        std::fs::remove_file(file).expect("it is ours");
    }
}

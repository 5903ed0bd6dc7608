//! Steps on files and descriptors.

use super::{PAGE, Sequence, signal_bit};
use crate::call;
use std::ffi::CStr;

const CURRENT: u64 = libc::AT_FDCWD as u64;
/// Names in the folder of the sequences; the last is never made.
const NAMES: [&CStr; 7] = [c"a", c"b", c"c", c"d", c"d/e", c"l", c"none"];
/// The most a file is made long, and the farthest that it is written at.
const LONGEST: u64 = 100_000;

pub fn step(s: &mut Sequence) {
    match s.below(10) {
        0 | 1 => opening(s),
        2 | 3 => transfer(s),
        4 => names(s),
        5 => status(s),
        6 => descriptors(s),
        7 => lengths(s),
        8 => pipes(s),
        _ => others(s),
    }
}

/// Removes what steps have made in the current folder, and sets back what they have set.
pub fn undo() {
    call(libc::SYS_umask, &[0o022]);
    let folder = call(libc::SYS_open, &[c".".as_ptr() as u64, libc::O_DIRECTORY as u64]).cast_unsigned();
    let mut list = [0u8; 1024];
    let read = call(libc::SYS_getdents64, &[folder, list.as_mut_ptr() as u64, list.len() as u64]);
    call(libc::SYS_close, &[folder]);
    let (mut at, end) = (0, usize::try_from(read).unwrap_or(0));
    while at < end {
        let length = usize::from(u16::from_ne_bytes([list[at + 16], list[at + 17]]));
        let name = CStr::from_bytes_until_nul(&list[at + 19..at + length]).unwrap();
        if list[at + 18] == libc::DT_DIR {
            remove_folder(name);
        } else {
            call(libc::SYS_unlink, &[name.as_ptr() as u64]);
        }
        at += length;
    }
}

fn remove_folder(name: &CStr) {
    if name == c"." || name == c".." {
        return;
    }
    call(libc::SYS_chmod, &[name.as_ptr() as u64, 0o700]);
    if call(libc::SYS_rmdir, &[name.as_ptr() as u64]) != 0 {
        call(libc::SYS_chdir, &[name.as_ptr() as u64]);
        undo();
        call(libc::SYS_chdir, &[c"..".as_ptr() as u64]);
        call(libc::SYS_rmdir, &[name.as_ptr() as u64]);
    }
}

fn name(s: &mut Sequence) -> u64 {
    match s.below(30) {
        0 => s.one_of(&[0, 8, 1 << 46]),
        _ => s.one_of(&NAMES).as_ptr() as u64,
    }
}

fn opening(s: &mut Sequence) {
    s.has_files = true;
    let how = s.one_of(&[libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_RDWR]);
    let with = s.one_of(&[
        libc::O_CREAT,
        libc::O_CREAT,
        libc::O_CREAT | libc::O_TRUNC,
        libc::O_CREAT | libc::O_EXCL,
        libc::O_APPEND | libc::O_CREAT,
        libc::O_DIRECTORY,
        libc::O_NOFOLLOW,
        libc::O_CLOEXEC,
        libc::O_PATH,
    ]);
    let mode = s.one_of(&[0o600, 0o644, 0o400, 0o777]);
    let name = name(s);
    let fd = match s.below(6) {
        0 => {
            let flags = s.below(4);
            s.call("memfd_create", libc::SYS_memfd_create, &[c"m".as_ptr() as u64, flags])
        }
        _ => {
            let flags = (how | with | libc::O_NONBLOCK) as u64;
            s.call("openat", libc::SYS_openat, &[CURRENT, name, flags, mode])
        }
    };
    s.keep(fd);
}

fn transfer(s: &mut Sequence) {
    let (fd, bytes, value) = (s.fd(), s.bytes(), s.below(256) as u8);
    let offset = s.one_of(&[0, 1, 4096, 5000, u64::MAX]);
    match s.below(8) {
        0 | 1 => {
            let from = if s.below(8) == 0 { s.pointer() } else { s.filled(value) };
            s.call("write", libc::SYS_write, &[fd, from, bytes]);
        }
        2 => {
            let from = s.filled(value);
            s.call("pwrite64", libc::SYS_pwrite64, &[fd, from, bytes, offset]);
        }
        3 => {
            let from = s.filled(value);
            let parts = [from, 3, from, bytes];
            s.call("writev", libc::SYS_writev, &[fd, parts.as_ptr() as u64, 2]);
        }
        4 => {
            let to = s.filled(0);
            let parts = [to, 5, to + 4096, bytes];
            let read = s.call("preadv", libc::SYS_preadv, &[fd, parts.as_ptr() as u64, 2, offset, 0]);
            s.room_contents("read", read.min(5));
        }
        5 => {
            let to = s.filled(0);
            let read = s.call("pread64", libc::SYS_pread64, &[fd, to, bytes, offset]);
            s.room_contents("read", read);
        }
        6 => {
            let is_signal = s.signal_fds & signal_bit(fd) != 0;
            let to = if is_signal { s.filled(0) } else { s.pointer() };
            let read = s.call("read", libc::SYS_read, &[fd, to, bytes]);
            if to == s.room.as_ptr() as u64 {
                read_contents(s, fd, read);
            }
        }
        _ => {
            let to = s.filled(0);
            let read = s.call("read", libc::SYS_read, &[fd, to, bytes]);
            read_contents(s, fd, read);
        }
    }
}

/// What was read; of signals the number alone, for the rest names processes.
fn read_contents(s: &mut Sequence, fd: u64, read: i64) {
    let shown = if s.signal_fds & signal_bit(fd) != 0 { read.min(4) } else { read };
    s.room_contents("read", shown);
}

fn names(s: &mut Sequence) {
    s.has_files = true;
    let (one, other) = (name(s), name(s));
    match s.below(10) {
        0 => s.call("mkdir", libc::SYS_mkdir, &[c"d".as_ptr() as u64, 0o755]),
        1 => s.call("rmdir", libc::SYS_rmdir, &[one]),
        2 | 3 => s.call("unlink", libc::SYS_unlink, &[one]),
        4 => s.call("rename", libc::SYS_rename, &[one, other]),
        5 => s.call("link", libc::SYS_link, &[one, other]),
        6 => s.call("symlink", libc::SYS_symlink, &[one, c"l".as_ptr() as u64]),
        7 => {
            let to = s.filled(0);
            let read = s.call("readlink", libc::SYS_readlink, &[one, to, 16]);
            s.room_contents("link", read);
            read
        }
        8 => {
            let flags = s.below(4);
            s.call("renameat2", libc::SYS_renameat2, &[CURRENT, one, CURRENT, other, flags])
        }
        _ => {
            let mode = s.one_of(&[0o700, 0o600, 0o444, 0]);
            s.call("chmod", libc::SYS_chmod, &[one, mode])
        }
    };
}

fn status(s: &mut Sequence) {
    let (fd, name) = (s.fd(), name(s));
    let to = s.filled(0);
    let (call, number, arguments) = match s.below(5) {
        0 => ("stat", libc::SYS_stat, [name, to, 0, 0]),
        1 => ("lstat", libc::SYS_lstat, [name, to, 0, 0]),
        2 => ("newfstatat", libc::SYS_newfstatat, [CURRENT, name, to, libc::AT_SYMLINK_NOFOLLOW as u64]),
        3 => {
            let mode = s.below(8);
            s.call("access", libc::SYS_access, &[name, mode]);
            return;
        }
        _ => ("fstat", libc::SYS_fstat, [fd, to, 0, 0]),
    };
    if s.call(call, number, &arguments) == 0 {
        // Links, mode, user and length; inodes, devices and times are the machine's. A folder's length and a device's are too.
        let word = |at: usize| s.room[at..at + 8].to_vec();
        let mode = word(24);
        let is_file = u32::from_ne_bytes([mode[0], mode[1], mode[2], mode[3]]) & libc::S_IFMT == libc::S_IFREG;
        let length = if is_file { word(48) } else { Vec::new() };
        let known = [word(16), mode, length].concat();
        s.contents("status", &known);
    }
}

fn descriptors(s: &mut Sequence) {
    let fd = s.fd();
    let to = 3 + s.below(20);
    let is_signal = s.signal_fds & signal_bit(fd) != 0;
    let given = match s.below(10) {
        0 | 1 => s.call("close", libc::SYS_close, &[fd]).min(0),
        2 => s.call("dup", libc::SYS_dup, &[fd]),
        3 => s.call("dup2", libc::SYS_dup2, &[fd, to]),
        4 => {
            let flags = s.one_of(&[0, libc::O_CLOEXEC as u64, 1]);
            s.call("dup3", libc::SYS_dup3, &[fd, to, flags])
        }
        5 => s.call("fcntl dup", libc::SYS_fcntl, &[fd, libc::F_DUPFD as u64, to]),
        6 => {
            let flags = s.one_of(&[0, 4, 64]);
            s.call("close_range", libc::SYS_close_range, &[to, to + 6, flags]).min(0)
        }
        7 => {
            let append = s.one_of(&[0, libc::O_APPEND]);
            let flags = (libc::O_NONBLOCK | append) as u64;
            s.call("fcntl set", libc::SYS_fcntl, &[fd, libc::F_SETFL as u64, flags])
        }
        8 => {
            let what = s.one_of(&[libc::F_GETFD, libc::F_GETFL, libc::F_GETPIPE_SZ, libc::F_GET_SEALS]);
            s.call("fcntl get", libc::SYS_fcntl, &[fd, what as u64]).min(0)
        }
        _ => {
            let kind = s.one_of(&[libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK]);
            // struct flock: type and origin, start, length.
            let lock = [kind as u64, 0, 100, 0];
            s.call("fcntl lock", libc::SYS_fcntl, &[fd, libc::F_SETLK as u64, lock.as_ptr() as u64])
        }
    };
    s.keep(given);
    if is_signal && given > 2 {
        s.signal_fds |= signal_bit(given.cast_unsigned());
    }
}

fn lengths(s: &mut Sequence) {
    s.has_files = true;
    let (fd, name, length) = (s.fd(), name(s), s.below(LONGEST));
    match s.below(6) {
        0 | 1 => s.call("ftruncate", libc::SYS_ftruncate, &[fd, length]),
        2 => s.call("truncate", libc::SYS_truncate, &[name, length]),
        3 => {
            let mode = s.one_of(&[0, 1, 3, 16]);
            s.call("fallocate", libc::SYS_fallocate, &[fd, mode, length & !(PAGE - 1), PAGE])
        }
        4 => {
            let (offset, from) = (s.one_of(&[0, 5, 4096, u64::MAX]), s.below(6));
            s.call("lseek", libc::SYS_lseek, &[fd, offset, from])
        }
        _ => {
            let advice = s.below(7);
            s.call("fadvise64", libc::SYS_fadvise64, &[fd, 0, length, advice])
        }
    };
}

fn pipes(s: &mut Sequence) {
    let (from, to, bytes) = (s.fd(), s.fd(), s.bytes());
    let nonblock = u64::from(libc::SPLICE_F_NONBLOCK);
    match s.below(7) {
        0..=2 => {
            let mut ends = [0i32; 2];
            let flags = (libc::O_NONBLOCK | s.one_of(&[0, libc::O_CLOEXEC])) as u64;
            let at = ends.as_mut_ptr() as u64;
            if s.call("pipe2", libc::SYS_pipe2, &[at, flags]) == 0 {
                ends.into_iter().for_each(|end| s.keep(end.into()));
                s.note("ends", i64::from(ends[0]) << 32 | i64::from(ends[1]));
            }
        }
        3 => drop(s.call("splice", libc::SYS_splice, &[from, 0, to, 0, bytes, nonblock])),
        4 => drop(s.call("tee", libc::SYS_tee, &[from, to, bytes, nonblock])),
        5 => {
            let part = [s.filled(9), bytes];
            s.call("vmsplice", libc::SYS_vmsplice, &[to, part.as_ptr() as u64, 1, nonblock]);
        }
        _ => {
            let mut waiting = 0i32;
            let at = (&raw mut waiting) as u64;
            if s.call("ioctl waiting", libc::SYS_ioctl, &[from, libc::FIONREAD, at]) == 0 {
                s.note("waiting", waiting.into());
            }
        }
    }
}

fn others(s: &mut Sequence) {
    let (from, to, bytes) = (s.fd(), s.fd(), s.bytes());
    match s.below(9) {
        0 => drop(s.call("sendfile", libc::SYS_sendfile, &[to, from, 0, bytes])),
        1 => drop(s.call("copy_file_range", libc::SYS_copy_file_range, &[from, 0, to, 0, bytes, 0])),
        2 => drop(s.call("fsync", libc::SYS_fsync, &[from])),
        3 => {
            let what = s.one_of(&[1u64, 2, 8]) | 4;
            s.call("flock", libc::SYS_flock, &[from, what]);
        }
        4 => {
            s.has_files = true;
            let mask = s.one_of(&[0, 0o022, 0o777]);
            s.call("umask", libc::SYS_umask, &[mask]);
        }
        5 => {
            let to = s.filled(0);
            let bytes = s.one_of(&[0, 1, 4096]);
            let length = call(libc::SYS_getcwd, &[to, bytes]);
            s.note("getcwd", length.min(0));
        }
        6 => {
            let seals = s.below(32);
            s.call("fcntl seals", libc::SYS_fcntl, &[from, libc::F_ADD_SEALS as u64, seals]);
        }
        7 => {
            let to = s.filled(0);
            s.call("fgetxattr", libc::SYS_fgetxattr, &[from, c"user.x".as_ptr() as u64, to, 16]);
        }
        _ => drop(s.call("fchmod", libc::SYS_fchmod, &[from, bytes & 0o777])),
    }
}

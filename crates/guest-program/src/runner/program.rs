//! Which file an exec comes to, and whether the runner can carry it out.
//!
//! The same questions in the same order as the kernel's: is there a file, may it be executed, is it a program or a script
//! of one. A script is followed to its interpreter here, so that the next runner gets a program. What the kernel could
//! execute and the runner cannot is refused by name: programs of other architectures, programs whose file gives other
//! rights, and programs that may be executed and not read.

use crate::options::Line;
use crate::runner::sys::{self, Errno};
use crate::shared::UnsupportedKind;
use std::mem::MaybeUninit;

/// The most scripts that call each other, as in the kernel.
const SCRIPTS: usize = 5;
/// The most arguments that scripts put before a program's own.
pub(crate) const SCRIPT_ARGUMENTS: usize = 2 * SCRIPTS;
/// Bytes of a file that decide what it is, as in the kernel.
const HEAD: usize = 256;
const AT_EACCESS: u64 = libc::AT_EACCESS as u64;
const AT_SYMLINK_NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
/// Where in an ELF file its class, its type and its machine lie, and what a 64-bit x86 program has there.
const CLASS: usize = 4;
const CLASS_64: u8 = 2;
const MACHINE: usize = 18;
const MACHINE_X86_64: [u8; 2] = [62, 0];

/// A program's file, and what scripts put before its arguments.
pub(crate) struct Found {
    /// The file, open for reading.
    pub(crate) file: i32,
    scripts: [Line<HEAD>; SCRIPT_ARGUMENTS],
    used: usize,
}

/// Why a file cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The kernel would say so too.
    Errno(Errno),
    /// The runner cannot, with the error that the program gets.
    Refused(UnsupportedKind, Errno),
}

impl From<Errno> for Unfit {
    fn from(errno: Errno) -> Self {
        Unfit::Errno(errno)
    }
}

/// What a file's first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'a> {
    Program,
    Script { interpreter: &'a [u8], argument: Option<&'a [u8]> },
    Foreign,
    Nothing,
}

impl Found {
    fn new(file: i32) -> Self {
        Found { file, scripts: [const { Line::new() }; SCRIPT_ARGUMENTS], used: 0 }
    }

    /// Interpreters and their arguments, which stand before the path of the first script.
    pub(crate) fn scripts(&self) -> &[Line<HEAD>] {
        &self.scripts[..self.used]
    }

    fn put_first(&mut self, interpreter: &[u8], argument: Option<&[u8]>) -> Result<(), Errno> {
        for text in argument.into_iter().chain([interpreter]) {
            if self.used == SCRIPT_ARGUMENTS {
                return Err(Errno(libc::ELOOP));
            }
            self.scripts.copy_within(0..self.used, 1);
            self.scripts[0] = Line::of_bytes(text);
            self.used += 1;
        }
        Ok(())
    }
}

/// The program at `path`, the address of a text, from `folder` on; `flags` are those of `execveat`.
pub(crate) fn find(folder: i32, path: u64, flags: u64) -> Result<Found, Unfit> {
    follow(Found::new(open(folder, path, flags & AT_SYMLINK_NOFOLLOW)?))
}

/// The program whose file is open already.
pub(crate) fn of_descriptor(fd: i32) -> Result<Found, Unfit> {
    let path = Line::<32>::of(format_args!("/proc/self/fd/{fd}"));
    follow(Found::new(open(libc::AT_FDCWD, path.address(), 0)?))
}

/// From scripts to the program that interprets them.
fn follow(mut found: Found) -> Result<Found, Unfit> {
    let followed = (0..=SCRIPTS).find_map(|_| next(&mut found).transpose());
    match followed.unwrap_or(Err(Errno(libc::ELOOP).into())) {
        Ok(()) => Ok(found),
        Err(unfit) => {
            sys::close(found.file);
            Err(unfit)
        }
    }
}

/// `Some` when the file is a program; a script's interpreter takes its place.
fn next(found: &mut Found) -> Result<Option<()>, Unfit> {
    let mut head = [0u8; HEAD];
    let read = sys::read_at(found.file, &mut head, 0)?;
    match kind(&head, read) {
        Kind::Program => return Ok(Some(())),
        Kind::Foreign => return Err(Unfit::Refused(UnsupportedKind::ForeignProgram, Errno(libc::ENOEXEC))),
        Kind::Nothing => return Err(Errno(libc::ENOEXEC).into()),
        Kind::Script { interpreter, argument } => {
            found.put_first(interpreter, argument)?;
            let file = open(libc::AT_FDCWD, found.scripts[0].address(), 0)?;
            sys::close(std::mem::replace(&mut found.file, file));
        }
    }
    Ok(None)
}

/// What the first `read` bytes of a file say, of which `head` has zeros behind them.
fn kind(head: &[u8; HEAD], read: usize) -> Kind<'_> {
    let head = &head[..read];
    if head.starts_with(b"\x7fELF") && read > MACHINE + 1 {
        let ours = head[CLASS] == CLASS_64 && head[MACHINE..MACHINE + 2] == MACHINE_X86_64;
        return if ours { Kind::Program } else { Kind::Foreign };
    }
    let Some(rest) = head.strip_prefix(b"#!") else { return Kind::Nothing };
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let end = rest.iter().position(|byte| *byte == b'\n' || *byte == 0);
    let line = trim(&rest[..end.unwrap_or(rest.len())], is_blank);
    let split = line.iter().position(is_blank);
    match split {
        _ if line.is_empty() => Kind::Nothing,
        // A line that is cut inside its interpreter's name.
        None if end.is_none() && read == HEAD => Kind::Nothing,
        None => Kind::Script { interpreter: line, argument: None },
        Some(at) => Kind::Script { interpreter: &line[..at], argument: Some(trim(&line[at..], is_blank)) },
    }
}

fn trim(text: &[u8], is_blank: impl Fn(&u8) -> bool) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Opens a file that may be executed.
fn open(folder: i32, path: u64, flags: u64) -> Result<i32, Unfit> {
    let status = status(folder, path, flags)?;
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        let is_link = status.st_mode & libc::S_IFMT == libc::S_IFLNK;
        return Err(Errno(if is_link { libc::ELOOP } else { libc::EACCES }).into());
    }
    let execute = libc::X_OK as u64;
    let arguments = [i64::from(folder).cast_unsigned(), path, execute, AT_EACCESS | flags, 0, 0];
    // SAFETY: the kernel reads a text.
    sys::checked(unsafe { sys::raw(libc::SYS_faccessat2, arguments) })?;
    let refused = |what, errno| Err(Unfit::Refused(what, Errno(errno)));
    match sys::open_at(folder, path, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) {
        Err(Errno(libc::EACCES | libc::EPERM)) => refused(UnsupportedKind::UnreadableProgram, libc::EACCES),
        Err(errno) => Err(errno.into()),
        Ok(file) if gives_rights(file, &status) => {
            sys::close(file);
            refused(UnsupportedKind::SetuidProgram, libc::EPERM)
        }
        Ok(file) => Ok(file),
    }
}

fn status(folder: i32, path: u64, flags: u64) -> Result<libc::stat, Errno> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let arguments = [i64::from(folder).cast_unsigned(), path, status.as_mut_ptr() as u64, flags, 0, 0];
    // SAFETY: the kernel reads a text and writes the structure, which is plain numbers and was zeroed.
    unsafe {
        sys::checked(sys::raw(libc::SYS_newfstatat, arguments))?;
        Ok(status.assume_init())
    }
}

/// Whether the file would give whoever executes it rights that this process does not have.
fn gives_rights(file: i32, status: &libc::stat) -> bool {
    // SAFETY: these calls take nothing.
    let (user, group) = unsafe { (sys::raw(libc::SYS_geteuid, [0; 6]), sys::raw(libc::SYS_getegid, [0; 6])) };
    let (mode, is_root) = (status.st_mode, user == 0);
    let by_user = mode & libc::S_ISUID != 0 && i64::from(status.st_uid) != user;
    let by_group =
        mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP && i64::from(status.st_gid) != group;
    let by_capability = !is_root && has_capabilities(file);
    (by_user || by_group || by_capability) && !are_rights_ignored(file)
}

fn has_capabilities(file: i32) -> bool {
    let name = c"security.capability".as_ptr() as u64;
    // SAFETY: the kernel reads a text; without room it only gives the value's length.
    unsafe { sys::raw(libc::SYS_fgetxattr, [file as u64, name, 0, 0, 0, 0]) > 0 }
}

/// Whether the file's mount, or this process's own wish, leaves such rights without effect.
fn are_rights_ignored(file: i32) -> bool {
    // `struct statfs` of asm-generic/statfs.h, whose eleventh word has the mount's flags.
    const FLAGS: usize = 10;
    let mut mount = [0u64; 15];
    let no_new = libc::PR_GET_NO_NEW_PRIVS as u64;
    // SAFETY: the kernel writes the structure; the other call takes numbers.
    let no_new = unsafe {
        sys::raw(libc::SYS_fstatfs, [file as u64, mount.as_mut_ptr() as u64, 0, 0, 0, 0]);
        sys::raw(libc::SYS_prctl, [no_new, 0, 0, 0, 0, 0])
    };
    mount[FLAGS] & libc::ST_NOSUID != 0 || no_new == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn kind_of(text: &[u8]) -> Option<(String, Option<String>)> {
        let mut head = [0; HEAD];
        head[..text.len()].copy_from_slice(text);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match kind(&head, head.len().min(text_len(&head))) {
            Kind::Script { interpreter, argument } => Some((text(interpreter), argument.map(text))),
            _ => None,
        }
    }

    fn text_len(head: &[u8; HEAD]) -> usize {
        head.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    #[test]
    fn scripts_are_split_as_the_kernel_splits_them() {
        let plain = |name: &str| Some((name.to_owned(), None));
        let with = |name: &str, argument: &str| Some((name.to_owned(), Some(argument.to_owned())));
        assert_eq!(kind_of(b"#!/bin/sh\necho"), plain("/bin/sh"));
        assert_eq!(kind_of(b"#! \t/bin/sh  \n"), plain("/bin/sh"));
        assert_eq!(kind_of(b"#!/usr/bin/env python3 -u\n"), with("/usr/bin/env", "python3 -u"));
        assert_eq!(kind_of(b"#!/bin/sh -e \t\n"), with("/bin/sh", "-e"));
        assert_eq!(kind_of(b"#!\n"), None);
        assert_eq!(kind_of(b"# /bin/sh\n"), None);
        assert_eq!(kind_of(&[b"#!/".as_slice(), &[b'a'; 253]].concat()), None, "the name is cut");
        let cut_argument = kind_of(&[b"#!/a ".as_slice(), &[b'b'; 251]].concat());
        assert_eq!(cut_argument.map(|(name, _)| name), Some("/a".to_owned()));
    }

    #[test]
    fn programs_of_other_machines_are_foreign() {
        let mut head = [0; HEAD];
        head[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
        assert_eq!(kind(&head, HEAD), Kind::Program);
        head[CLASS] = 1;
        assert_eq!(kind(&head, HEAD), Kind::Foreign);
        (head[CLASS], head[MACHINE]) = (2, 183);
        assert_eq!(kind(&head, HEAD), Kind::Foreign);
        assert_eq!(kind(&head, 3), Kind::Nothing);
    }

    fn find_named(path: &std::path::Path) -> Result<Vec<String>, Unfit> {
        let path = Line::<4096>::of(path.display());
        let found = find(libc::AT_FDCWD, path.address(), 0)?;
        sys::close(found.file);
        Ok(found.scripts().iter().map(|line| line.as_str().to_owned()).collect())
    }

    #[test]
    fn scripts_of_scripts_end_at_a_program_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
            path
        };
        let first = script("first", "#!/bin/sh -e\n");
        let second = script("second", &format!("#!{} x y\n", first.display()));
        assert_eq!(find_named(&first), Ok(vec!["/bin/sh".into(), "-e".into()]));
        let chain = vec!["/bin/sh".into(), "-e".into(), first.display().to_string(), "x y".into()];
        assert_eq!(find_named(&second), Ok(chain));
        let errno = |errno| Err(Unfit::Errno(Errno(errno)));
        let itself = folder.path().join("itself");
        script("itself", &format!("#!{}\n", itself.display()));
        assert_eq!(find_named(&itself), errno(libc::ELOOP));
        assert_eq!(find_named(&script("empty", "")), errno(libc::ENOEXEC));
        assert_eq!(find_named(folder.path()), errno(libc::EACCES));
        assert_eq!(find_named(&folder.path().join("none")), errno(libc::ENOENT));
        assert_eq!(find_named(std::path::Path::new("/etc/passwd")), errno(libc::EACCES));
    }
}

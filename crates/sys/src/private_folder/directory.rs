//! A folder that is held open, in which everything is reached by its descriptor.
//!
//! A path is resolved anew with each use: whoever may write one of its folders decides where it leads. So a folder of ours at a
//! place that others know is opened component by component ([`Directory::own`]), each is checked by its descriptor, and what is
//! below it is opened from that descriptor and by no symbolic link (`openat2(2)`).

use crate::confine::effective_user as user;
use crate::removal;
use baremark_model::order;
use rustix::fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Rights of the user alone.
const PRIVATE: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Symbolic links on the way to a folder, at most, as in the kernel.
const LINKS: u32 = 40;
/// Mode bits: others may write; members of the group may; entries may be exchanged by their owners alone.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, socket, pipe or device.
    Other,
}

/// A folder, held open.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens the folder at `path`; what is missing of it is made with mode 0700. It must belong to this user, and no one else may write
    /// it or exchange a folder on the way to it.
    ///
    /// # Errors
    /// `PermissionDenied` with the folder that others control and the remedy; what the system gives.
    pub fn own(path: &Path) -> io::Result<Directory> {
        checked(path, true)
    }

    /// As [`Directory::own`], but nothing is made.
    ///
    /// # Errors
    /// `NotFound`, and those of [`Directory::own`].
    pub fn open_own(path: &Path) -> io::Result<Directory> {
        checked(path, false)
    }

    /// Opens the folder at `path`, whoever it belongs to; what is below it may change at any time.
    ///
    /// # Errors
    /// What the system gives, for a symbolic link too.
    pub fn of_others(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Directory { descriptor: sys::openat(CWD, path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Makes a folder of mode 0700 that is not there yet.
    ///
    /// # Errors
    /// `AlreadyExists`; `PermissionDenied` when another user has exchanged it meanwhile; what the system gives.
    pub fn make_new(path: &Path) -> io::Result<Directory> {
        sys::mkdirat(CWD, path, PRIVATE)?;
        let made = Directory::of_others(path)?;
        private(&sys::fstat(&made.descriptor)?, path)?;
        Ok(made)
    }

    /// As it was opened: for messages, and for whoever takes paths alone.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder below this one that is the user's alone.
    ///
    /// # Errors
    /// `PermissionDenied` for another's, or one that others may enter; what the system gives.
    pub fn folder(&self, below: &Path) -> io::Result<Directory> {
        let descriptor = self.beneath(below, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let path = self.path.join(below);
        private(&sys::fstat(&descriptor)?, &path)?;
        Ok(Directory { descriptor, path })
    }

    /// The same, made with mode 0700 where it is missing; the folder that it is in must be there.
    ///
    /// # Errors
    /// As [`Directory::folder`].
    pub fn make_folder(&self, below: &Path) -> io::Result<Directory> {
        let (parent, name) = self.parent(below)?;
        match sys::mkdirat(parent, name, PRIVATE) {
            Err(why) if why != Errno::EXIST => Err(why.into()),
            _ => self.folder(below),
        }
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `InvalidData` for anything else than a file; what the system gives.
    pub fn read(&self, below: &Path) -> io::Result<File> {
        // Opening a pipe would wait for its writer.
        let file = self.beneath(below, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?;
        regular(file, &self.path.join(below))
    }

    /// The text of a regular file.
    ///
    /// # Errors
    /// As [`Directory::read`].
    pub fn read_to_string(&self, below: &Path) -> io::Result<String> {
        let mut text = String::new();
        self.read(below)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Makes a file of mode 0600 that is not there yet, for writing.
    ///
    /// # Errors
    /// `AlreadyExists`; what the system gives.
    pub fn create_new(&self, below: &Path) -> io::Result<File> {
        self.beneath(below, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, PRIVATE_FILE).map(File::from)
    }

    /// Opens a file for reading and writing, made with mode 0600 where it is missing: for locks.
    ///
    /// # Errors
    /// As [`Directory::read`].
    pub fn open_or_create(&self, below: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        regular(self.beneath(below, flags, PRIVATE_FILE)?, &self.path.join(below))
    }

    /// Writes a file of mode 0600 and of this owner (absent: of this user), whole or not at all, in place of what has its name.
    ///
    /// # Errors
    /// What the system gives.
    pub fn replace(&self, below: &Path, bytes: &[u8], owner: Option<(u32, u32)>) -> io::Result<()> {
        let (parent, name) = self.parent(below)?;
        let mut new = name.to_owned();
        new.push(".new");
        match sys::unlinkat(&parent, &new, AtFlags::empty()) {
            Err(why) if why != Errno::NOENT => return Err(why.into()),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(sys::openat(&parent, &new, flags, PRIVATE_FILE)?);
        file.write_all(bytes)?;
        if let Some(owner) = owner {
            give(&file, owner)?;
        }
        Ok(sys::renameat(&parent, &new, &parent, name)?)
    }

    /// Removes a file, or a folder with all that is in it; what is not there is not an error.
    ///
    /// # Errors
    /// What the system gives: `EXDEV` where something is mounted inside.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        names(Path::new(name))?;
        removal::remove(&self.descriptor, name, OsStr::new(""))
    }

    /// What is in a folder below this one (an empty path: in this one), by name.
    ///
    /// # Errors
    /// What the system gives.
    pub fn entries(&self, below: &Path) -> io::Result<Vec<(OsString, Kind)>> {
        let folder = match below.as_os_str().is_empty() {
            true => self.descriptor.try_clone()?,
            false => self.beneath(below, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?,
        };
        let mut found = Vec::new();
        for entry in sys::Dir::read_from(&folder)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            match sys::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // Whoever made it has removed it meanwhile.
                Err(Errno::NOENT) => {}
                stat => found.push((name, kind(&stat?))),
            }
        }
        order::by(&mut found, |(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Makes the folder itself, not what is in it, that user's and group's.
    ///
    /// # Errors
    /// What `fchown(2)` gives.
    pub fn give_to(&self, owner: (u32, u32)) -> io::Result<()> {
        give(&self.descriptor, owner)
    }

    /// The folder in which `below` is, and its name there.
    fn parent<'b>(&self, below: &'b Path) -> io::Result<(OwnedFd, &'b OsStr)> {
        let name = names(below)?.last().copied().unwrap_or_default();
        let parent = match below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            None => self.descriptor.try_clone()?,
            Some(parent) => self.beneath(parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?,
        };
        Ok((parent, name))
    }

    /// Opens what is at `below`, by no symbolic link and not outside of this folder.
    fn beneath(&self, below: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let names = names(below)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = match sys::openat2(&self.descriptor, below, flags, mode, resolve) {
            // Kernels before 5.6, and filters of system calls that do not know it.
            Err(Errno::NOSYS | Errno::PERM) => walk(&self.descriptor, &names, flags, mode),
            opened => opened,
        };
        let what = || format!("{} is reached by a symbolic link", self.path.join(below).display());
        opened.map_err(|why| match why {
            Errno::LOOP | Errno::XDEV => io::Error::new(io::ErrorKind::InvalidInput, what()),
            other => other.into(),
        })
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Makes an open file or folder that user's and group's.
///
/// # Errors
/// What `fchown(2)` gives.
pub fn give(descriptor: impl AsFd, (user, group): (u32, u32)) -> io::Result<()> {
    let (user, group) = (sys::Uid::from_raw(user), sys::Gid::from_raw(group));
    Ok(sys::fchown(descriptor, Some(user), Some(group))?)
}

/// The same as `openat2` with one call for each component.
fn walk(from: &OwnedFd, names: &[&OsStr], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let (last, folders) = names.split_last().ok_or(Errno::INVAL)?;
    let mut at: Option<OwnedFd> = None;
    for name in folders {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = Some(sys::openat(at.as_ref().unwrap_or(from), *name, flags, Mode::empty())?);
    }
    sys::openat(at.as_ref().unwrap_or(from), *last, flags, mode)
}

/// The names of which a path consists; none may lead anywhere else.
fn names(below: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    };
    let names: Option<Vec<&OsStr>> = below.components().map(name).collect();
    let what = || format!("'{}' must be a path below its folder, without '..'", below.display());
    names.filter(|names| !names.is_empty()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, what()))
}

/// A component of a path that is still to be opened.
fn pending(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Opens a folder by a path of which each component is checked.
fn checked(path: &Path, make: bool) -> io::Result<Directory> {
    let path = std::path::absolute(path)?;
    let walked = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || sys::openat(CWD, "/", walked, Mode::empty());
    let (mut at, mut shown, mut links) = (root()?, PathBuf::from("/"), 0);
    let mut rest: Vec<OsString> = pending(&path).rev().collect();
    unexchangeable(&sys::fstat(&at)?, &shown)?;
    while let Some(name) = rest.pop() {
        let next = match sys::openat(&at, &name, walked, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                // Whoever has just made it is checked as any other.
                match sys::mkdirat(&at, &name, PRIVATE) {
                    Err(why) if why != Errno::EXIST => return Err(why.into()),
                    _ => sys::openat(&at, &name, walked, Mode::empty())?,
                }
            }
            opened => opened?,
        };
        let stat = sys::fstat(&next)?;
        let there = shown.join(&name);
        trusted(&stat, &there)?;
        match kind(&stat) {
            Kind::Folder => {
                if !rest.is_empty() {
                    unexchangeable(&stat, &there)?;
                }
                (at, shown) = (next, there);
            }
            Kind::Other if FileType::from_raw_mode(stat.st_mode).is_symlink() => {
                links += 1;
                let target = PathBuf::from(OsString::from_vec(sys::readlinkat(&next, "", Vec::new())?.into_bytes()));
                if links > LINKS {
                    return Err(Errno::LOOP.into());
                }
                if target.is_absolute() {
                    (at, shown) = (root()?, PathBuf::from("/"));
                }
                rest.extend(pending(&target).rev());
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    let stat = sys::fstat(&at)?;
    if stat.st_uid != user() {
        return Err(refused(
            format!("{} belongs to user {}, not to user {}", path.display(), stat.st_uid, user()),
            "name a folder of your own",
        ));
    }
    if stat.st_mode & (GROUP_WRITES | OTHERS_WRITE) != 0 {
        let what = format!("others may write {} (mode {:04o})", path.display(), stat.st_mode & 0o7777);
        return Err(refused(what, &format!("chmod go-w {}", path.display())));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Directory { descriptor: sys::openat(&at, ".", flags, Mode::empty())?, path })
}

fn refused(what: String, remedy: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{what}; {remedy}"))
}

/// Refuses a component of a path that is another user's.
fn trusted(stat: &Stat, path: &Path) -> io::Result<()> {
    if stat.st_uid == user() || is_superuser(stat.st_uid) {
        return Ok(());
    }
    let what = format!("{} belongs to user {}, who could exchange it", path.display(), stat.st_uid);
    Err(refused(what, "name a folder that only you and the superuser control"))
}

/// Refuses a folder in which another user could exchange entries.
fn unexchangeable(stat: &Stat, path: &Path) -> io::Result<()> {
    // A group of the user's number is the user's own, as useradd(8) makes it.
    let group = stat.st_mode & GROUP_WRITES != 0 && stat.st_gid != user();
    let open = (stat.st_mode & OTHERS_WRITE != 0 || group) && stat.st_mode & STICKY == 0;
    let what = || format!("others may write {} (mode {:04o})", path.display(), stat.st_mode & 0o7777);
    if open { Err(refused(what(), "name a folder that only you and the superuser control")) } else { Ok(()) }
}

/// Whether a user is the superuser: in a user namespace that does not know him, everybody unknown has one number.
fn is_superuser(user: u32) -> bool {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let is_unknown = || text("/proc/sys/kernel/overflowuid").trim().parse() == Ok(user);
    let all = ["0", "0", "4294967295"];
    let sees_all = || text("/proc/self/uid_map").split_whitespace().eq(all);
    user == 0 || (is_unknown() && !sees_all())
}

/// Refuses a folder that is not the user's alone.
fn private(stat: &Stat, path: &Path) -> io::Result<()> {
    if stat.st_uid != user() {
        let what = format!("{} belongs to user {}, not to user {}", path.display(), stat.st_uid, user());
        return Err(refused(what, "remove it"));
    }
    if stat.st_mode & 0o077 != 0 {
        let what = format!("others may enter {} (mode {:04o})", path.display(), stat.st_mode & 0o7777);
        return Err(refused(what, &format!("chmod 700 {}", path.display())));
    }
    Ok(())
}

fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    }
}

fn regular(file: OwnedFd, path: &Path) -> io::Result<File> {
    if kind(&sys::fstat(&file)?) == Kind::File {
        return Ok(File::from(file));
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a regular file", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    fn bits(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    fn refusal(opened: io::Result<Directory>) -> String {
        let why = opened.expect_err("others control it");
        assert_eq!(why.kind(), io::ErrorKind::PermissionDenied, "{why}");
        why.to_string()
    }

    /// Owners of records remove theirs without the lock under which others list them: a listing that met one failed, and with it the start of a container.
    #[test]
    fn what_is_removed_while_a_folder_is_listed_is_not_in_it() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::time::{Duration, Instant};
        let parent = tempfile::tempdir().expect("a folder");
        let folder = Directory::own(&parent.path().join("own")).expect("made");
        folder.create_new(Path::new("kept")).expect("made");
        let (done, until) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for name in ["a", "b", "c", "d"] {
                        fs::write(folder.path().join(name), "").expect("made");
                    }
                    for name in ["a", "b", "c", "d"] {
                        fs::remove_file(folder.path().join(name)).expect("removed");
                    }
                }
            });
            let mut failed = None;
            while failed.is_none() && Instant::now() < until {
                failed = match folder.entries(Path::new("")) {
                    Ok(found) => (!found.contains(&("kept".into(), Kind::File))).then(|| "not listed".to_owned()),
                    Err(why) => Some(why.to_string()),
                };
            }
            done.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }

    #[test]
    fn a_folder_of_ours_is_made_private_with_all_that_is_missing_on_the_way() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("a/b/c");
        assert_eq!(Directory::open_own(&path).expect_err("nothing is made").kind(), io::ErrorKind::NotFound);
        let folder = Directory::own(&path).expect("made");
        assert_eq!(["a", "a/b", "a/b/c"].map(|below| bits(&parent.path().join(below))), [0o700; 3]);
        folder.make_folder(Path::new("d")).expect("made");
        folder.make_folder(Path::new("d/e")).expect("made");
        assert_eq!(bits(&path.join("d/e")), 0o700);
        folder.replace(Path::new("file"), b"one", None).expect("written");
        folder.replace(Path::new("file"), b"two", None).expect("written");
        assert_eq!(
            (folder.read_to_string(Path::new("file")).expect("read").as_str(), bits(&path.join("file"))),
            ("two", 0o600)
        );
        let names = |below: &str| folder.entries(Path::new(below)).expect("listed");
        assert_eq!(names(""), [("d".into(), Kind::Folder), ("file".into(), Kind::File)]);
        assert_eq!(names("d"), [("e".into(), Kind::Folder)]);
        for name in ["d", "file", "file"] {
            folder.remove(OsStr::new(name)).expect("removed");
        }
        assert_eq!(names(""), []);
    }

    #[test]
    fn a_folder_that_others_may_write_or_exchange_is_refused() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("data");
        Directory::own(&path).expect("made");
        for open in [0o702, 0o720, 0o1777] {
            mode(&path, open);
            let why = refusal(Directory::own(&path));
            assert!(why.contains("others may write") && why.contains("; chmod go-w "), "{why}");
        }
        mode(&path, 0o755);
        Directory::own(&path).expect("others may read what is not secret");
        mode(parent.path(), 0o777);
        let why = refusal(Directory::own(&path));
        assert!(why.contains(&format!("others may write {} (mode 0777)", parent.path().display())), "{why}");
        mode(parent.path(), 0o1777);
        Directory::own(&path).expect("in a sticky folder what is ours stays ours");
        Directory::make_new(&parent.path().join("new")).expect("made");
        let why = Directory::make_new(&parent.path().join("new")).expect_err("it is there");
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
    }

    /// The superuser's folders on the way are trusted, a link to the superuser's own too; what is reached is not this user's.
    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is counted")]
    fn a_folder_of_another_user_is_refused() {
        let others = if user() == 0 {
            let parent = tempfile::tempdir().expect("a folder");
            let path = parent.path().join("others");
            fs::create_dir(&path).expect("made");
            match std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)) {
                // The user namespace has no such user, or its superuser may give nothing away.
                Err(why) if matches!(why.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {
                    return println!("skipped: giving a folder to user 65534: {why}");
                }
                given => given.expect("given away"),
            }
            let why = refusal(Directory::own(&path.join("below")));
            assert!(why.contains("belongs to user 65534, who could exchange it"), "{why}");
            refusal(Directory::own(&path))
        } else {
            refusal(Directory::own(Path::new("/usr")))
        };
        assert!(others.contains("belongs to user"), "{others}");
    }

    #[test]
    fn links_on_the_way_are_resolved_and_links_below_are_not() {
        let parent = tempfile::tempdir().expect("a folder");
        let (real, link) = (parent.path().join("real"), parent.path().join("link"));
        fs::create_dir(&real).expect("made");
        symlink("real", &link).expect("made");
        let folder = Directory::own(&link.join("data")).expect("by a link of ours");
        fs::write(real.join("data/file"), "x").expect("it is there");
        assert_eq!(folder.read_to_string(Path::new("file")).expect("read"), "x");
        symlink("link", parent.path().join("loop")).and_then(|()| fs::remove_file(&link)).expect("ours");
        symlink("loop", &link).expect("made");
        Directory::own(&link).expect_err("it leads nowhere");
        symlink("/etc", real.join("data/etc")).expect("made");
        symlink("file", real.join("data/alias")).expect("made");
        let names = ["etc/hostname", "alias"].map(Path::new);
        for path in names {
            folder.read(path).expect_err("by a link");
            folder.create_new(path).expect_err("by a link");
        }
        folder.folder(Path::new("etc")).expect_err("by a link");
    }

    /// Where the kernel has no `openat2` each component is opened by itself: both refuse the same.
    #[test]
    fn nothing_outside_is_reached_with_and_without_openat2() {
        let parent = tempfile::tempdir().expect("a folder");
        fs::write(parent.path().join("outside"), "x").expect("ours");
        let folder = Directory::own(&parent.path().join("own")).expect("made");
        let inner = folder.make_folder(Path::new("a")).expect("made");
        inner.replace(Path::new("file"), b"x", None).expect("written");
        symlink("..", inner.path().join("up")).expect("made");
        for path in ["../outside", "a/../../outside", "/etc/hostname", "", ".", "a/.."] {
            let why = folder.read(Path::new(path)).expect_err(path);
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput, "{path}: {why}");
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let by_walk = |path: &str| {
            let names: Vec<&OsStr> = Path::new(path).components().map(Component::as_os_str).collect();
            walk(&folder.descriptor, &names, flags, Mode::empty())
        };
        by_walk("a/file").expect("it is there");
        folder.read(Path::new("a/file")).expect("it is there");
        for path in ["a/up/a/file", "a/up"] {
            by_walk(path).expect_err(path);
            folder.read(Path::new(path)).expect_err(path);
        }
    }

    #[test]
    fn what_is_no_file_is_refused_and_does_not_hang() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = Directory::own(&parent.path().join("own")).expect("made");
        sys::mknodat(&folder.descriptor, "pipe", FileType::Fifo, PRIVATE_FILE, 0).expect("made");
        for opened in [folder.read(Path::new("pipe")), folder.open_or_create(Path::new("pipe"))] {
            assert_eq!(opened.expect_err("a pipe").kind(), io::ErrorKind::InvalidData);
        }
        assert_eq!(folder.entries(Path::new("")).expect("listed"), [("pipe".into(), Kind::Other)]);
        mode(&{ folder.make_folder(Path::new("a")).expect("made").path().to_owned() }, 0o750);
        assert!(refusal(folder.folder(Path::new("a"))).contains("others may enter"));
    }
}

//! Removal of folders by descriptors: no link is followed, and nothing outside of the folder is reached, whatever others rename meanwhile.
//!
//! Each folder is opened from its parent's descriptor, without links and without leaving the file system (`openat2(2)`; where the kernel lacks
//! it, `O_NOFOLLOW` and a comparison of devices). What is mounted inside is refused: its files belong to somebody else.

use baremark_model::order;
use rustix::fs::{self as sys, AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// A folder, to reach what is in it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder, to reach what is in it, by a path that has no link in any of its parts.
///
/// # Errors
/// What opening it gives: `ELOOP` for a link.
pub fn folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = FOLDER.union(OFlags::NOFOLLOW);
    Ok(match sys::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOSYS | Errno::PERM) => sys::openat(CWD, path, flags, Mode::empty())?,
        opened => opened?,
    })
}

/// The folder that something is in, to reach it by its name; the way there may have links.
///
/// # Errors
/// What opening it gives.
pub fn parent(path: &Path) -> io::Result<OwnedFd> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(sys::openat(CWD, parent, FOLDER, Mode::empty())?)
}

/// Opens a folder of a folder, on the same file system.
///
/// # Errors
/// What opening it gives: `ENOTDIR` for anything else, `EXDEV` where something is mounted there.
pub fn inner(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let strictly = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match sys::openat2(&parent, name, flags, Mode::empty(), strictly) {
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return Ok(opened?),
    }
    let folder = sys::openat(&parent, name, flags, Mode::empty())?;
    let same = sys::fstat(&folder)?.st_dev == sys::fstat(&parent)?.st_dev;
    if same { Ok(folder) } else { Err(Errno::XDEV.into()) }
}

/// Opens a regular file of a folder, to read and write; a link, a pipe or a device is refused and not waited for. `None` where there is none.
///
/// # Errors
/// What opening it gives; `InvalidData` for anything else than a regular file.
pub fn regular_file(folder: impl AsFd, name: &OsStr) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match sys::openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    match file.metadata()?.is_file() {
        true => Ok(Some(file)),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file")),
    }
}

/// The owner of an entry of a folder, which is not followed if it is a link; `None` where there is none.
///
/// # Errors
/// What the system gives.
pub fn owner(folder: impl AsFd, name: &OsStr) -> io::Result<Option<u32>> {
    match sys::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        facts => Ok(Some(facts?.st_uid)),
    }
}

/// The names in a folder that was opened by [`inner`].
///
/// # Errors
/// What reading it gives.
pub fn names(folder: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in sys::Dir::read_from(folder)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Opens a folder of a folder to empty it: one whose owner took the rights from it gets them back.
fn accessible(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let opened = match inner(&parent, name) {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            let folder = sys::openat(&parent, name, FOLDER.union(OFlags::NOFOLLOW), Mode::empty())?;
            if sys::fstat(&folder)?.st_dev != sys::fstat(&parent)?.st_dev {
                return Err(Errno::XDEV.into());
            }
            // What is open by its path alone has no other name that a link could have taken. Without /proc it stays as it is.
            if sys::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU).is_err() {
                return Err(why);
            }
            inner(&parent, name)?
        }
        opened => opened?,
    };
    if !Mode::from_raw_mode(sys::fstat(&opened)?.st_mode).contains(Mode::RWXU) {
        // That of somebody else stays, and may be empty.
        let _ = sys::fchmod(&opened, Mode::RWXU);
    }
    Ok(opened)
}

/// Removes what is at a path with all that is in it; nothing there is not an error. The way there may have links.
///
/// # Errors
/// As [`remove`].
pub fn remove_path(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    remove(parent(path)?, name, OsStr::new(""))
}

/// Removes an entry of a folder with all that is in it, `last` of it at the end; one that is not there is not an error.
///
/// # Errors
/// What cannot be removed, and `EXDEV` where something is mounted inside.
pub fn remove(parent: impl AsFd, name: &OsStr, last: &OsStr) -> io::Result<()> {
    match sys::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Linux says EISDIR of a folder, POSIX EPERM.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(why) => return Err(why.into()),
    }
    let folder = match accessible(&parent, name) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let (mut names, none) = (names(&folder)?, OsStr::new(""));
    order::by_key(&mut names, |name| name.as_os_str() == last);
    names.iter().try_for_each(|name| remove(&folder, name, none))?;
    match sys::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it_and_what_its_links_lead_to_stays() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("kept"), "x").expect("ours");
        let base = tempfile::tempdir().expect("a folder");
        let base = base.path().canonicalize().expect("it is there");
        fs::create_dir_all(base.join("one/two/three")).expect("ours");
        fs::write(base.join("one/two/file"), "x").expect("ours");
        symlink(outside.path(), base.join("one/two/link")).expect("ours");
        symlink(outside.path(), base.join("link")).expect("ours");
        let parent = folder(&base).expect("it is there");
        remove(&parent, "one".as_ref(), "".as_ref()).expect("removed");
        remove(&parent, "link".as_ref(), "".as_ref()).expect("the link alone");
        remove(&parent, "never".as_ref(), "".as_ref()).expect("not there");
        assert_eq!(
            names(sys::openat(&parent, ".", OFlags::RDONLY, Mode::empty()).expect("opened")).expect("listed"),
            [""; 0]
        );
        assert!(outside.path().join("kept").exists());
    }

    /// The superuser removes these anyway; other users left them.
    #[test]
    fn folders_without_rights_go_too() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().expect("a folder");
        for (name, mode) in [("none", 0), ("read", 0o500), ("pass", 0o100)] {
            let folder = base.path().join("one").join(name);
            fs::create_dir_all(folder.join("below")).expect("ours");
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("ours");
        }
        remove_path(&base.path().join("one")).expect("removed");
        remove_path(&base.path().join("one")).expect("not there");
        assert!(!base.path().join("one").exists());
    }

    #[test]
    fn a_path_with_a_link_is_not_opened_and_neither_is_what_is_no_file() {
        let base = tempfile::tempdir().expect("a folder");
        let base = base.path().canonicalize().expect("it is there");
        fs::create_dir_all(base.join("real/inner")).expect("ours");
        symlink(base.join("real"), base.join("link")).expect("ours");
        assert!(folder(&base.join("real/inner")).is_ok());
        for path in ["link", "link/inner"] {
            let why = folder(&base.join(path)).expect_err(path);
            assert!(
                [Errno::LOOP, Errno::NOTDIR].map(|of| Some(of.raw_os_error())).contains(&why.raw_os_error()),
                "{why}"
            );
        }
        sys::mknodat(CWD, base.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        fs::write(base.join("file"), "x").expect("ours");
        symlink(base.join("file"), base.join("to-file")).expect("ours");
        let parent = folder(&base).expect("it is there");
        assert!(regular_file(&parent, "file".as_ref()).expect("a file").is_some());
        assert!(regular_file(&parent, "never".as_ref()).expect("no error").is_none());
        for name in ["pipe", "to-file", "real"] {
            regular_file(&parent, name.as_ref()).expect_err(name);
        }
        assert_eq!(owner(&parent, "never".as_ref()).expect("no error"), None);
        assert!(owner(&parent, "to-file".as_ref()).expect("the link's own").is_some());
    }
}

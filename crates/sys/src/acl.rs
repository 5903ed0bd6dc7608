//! Access control lists: one more user may pass through a private folder.
//!
//! A program that gives up the superuser's rights must reach its own folder, which lies in folders that are private to the
//! superuser. A mode bit would let everybody pass; an entry of a POSIX access control list (acl(5)) lets that one user pass, and
//! neither list nor read what is there.

use crate::calls::checked;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The extended attribute and the version of its layout, as in linux/posix_acl_xattr.h.
const ATTRIBUTE: &CStr = c"system.posix_acl_access";
const VERSION: u32 = 2;
/// Tags of entries, in the order in which they must stand.
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// The id of entries that are about no particular user.
const NO_ID: u32 = u32::MAX;
const SEARCH: u16 = 1;
/// Bytes of the version, and of an entry: tag, permissions, id.
const HEADER: usize = 4;
const ENTRY: usize = 8;

/// Lets `user` pass through a folder of ours. A file system without access control lists (`EOPNOTSUPP`) lets everybody pass
/// instead, which still shows nobody what the folder holds.
///
/// # Errors
/// What reading and setting the folder's permissions gave.
pub fn allow_search(folder: &Path, user: u32) -> io::Result<()> {
    let mode = fs::metadata(folder)?.mode();
    if mode & 0o001 != 0 {
        return Ok(());
    }
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let changed = users(&path).and_then(|mut users| {
        if users.contains(&user) {
            return Ok(());
        }
        users.push(user);
        users.sort_unstable();
        set(&path, &list(mode, &users))
    });
    match changed {
        Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o001))
        }
        other => other,
    }
}

/// Whether a user and its first group may pass through a folder, by its mode or by its list.
///
/// # Errors
/// What reading the folder's permissions gave.
pub fn may_search(folder: &Path, (user, group): (u32, u32)) -> io::Result<bool> {
    let found = fs::metadata(folder)?;
    let bit = match (found.uid() == user, found.gid() == group) {
        (true, _) => 0o100,
        (false, true) => 0o010,
        (false, false) => 0o001,
    };
    let listed = || users(&CString::new(folder.as_os_str().as_bytes())?).map(|users| users.contains(&user));
    Ok(found.mode() & bit != 0 || listed().unwrap_or(false))
}

/// A list by which the owner has the rights of `mode`, `users` may pass, and nobody else has any right.
fn list(mode: u32, users: &[u32]) -> Vec<u8> {
    let owner = u16::try_from((mode >> 6) & 7).unwrap_or(7);
    let mut bytes = VERSION.to_le_bytes().to_vec();
    let mut entry = |tag: u16, rights: u16, id: u32| {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    };
    entry(OWNER, owner, NO_ID);
    users.iter().for_each(|user| entry(USER, SEARCH, *user));
    entry(GROUP, 0, NO_ID);
    entry(MASK, SEARCH, NO_ID);
    entry(OTHERS, 0, NO_ID);
    bytes
}

/// The users that a folder's list names.
fn users(path: &CStr) -> io::Result<Vec<u32>> {
    let mut bytes = [0_u8; 4096];
    // SAFETY: two strings that end in NUL, and a buffer of the length given; all live through the call.
    let length = unsafe { libc::getxattr(path.as_ptr(), ATTRIBUTE.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
    let Ok(length) = usize::try_from(length) else {
        let why = io::Error::last_os_error();
        return if why.raw_os_error() == Some(libc::ENODATA) { Ok(Vec::new()) } else { Err(why) };
    };
    let entries = bytes[..length].get(HEADER..).unwrap_or_default().chunks_exact(ENTRY);
    let named = entries.filter(|entry| u16::from_le_bytes([entry[0], entry[1]]) == USER);
    Ok(named.map(|entry| u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]])).collect())
}

fn set(path: &CStr, list: &[u8]) -> io::Result<()> {
    // SAFETY: two strings that end in NUL, and a slice with its length; all live through the call.
    checked(unsafe { libc::setxattr(path.as_ptr(), ATTRIBUTE.as_ptr(), list.as_ptr().cast(), list.len(), 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[u8]) -> Vec<(u16, u16, u32)> {
        let entry = |entry: &[u8]| {
            let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            (half(0), half(2), u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]))
        };
        list[HEADER..].chunks_exact(ENTRY).map(entry).collect()
    }

    /// Lets a user pass. One that has no number in this user namespace cannot be named, and the kernel refuses that; whether it was allowed.
    fn allows(folder: &Path, user: u32) -> bool {
        let map = fs::read_to_string("/proc/self/uid_map").expect("/proc");
        let numbers =
            |line: &str| line.split_whitespace().map(|word| word.parse().expect("a number")).collect::<Vec<u64>>();
        let is_in = |row: &[u64]| (row[0]..row[0] + row[2]).contains(&u64::from(user));
        let is_there = map.lines().any(|line| is_in(&numbers(line)));
        let allowed = allow_search(folder, user);
        let lists = users(&CString::new(folder.as_os_str().as_bytes()).expect("no 0 in it")).is_ok();
        let refused = allowed.as_ref().err().map(|why| why.raw_os_error());
        assert_eq!(refused, (lists && !is_there).then_some(Some(libc::EINVAL)), "{allowed:?}");
        allowed.is_ok()
    }

    #[test]
    fn a_list_lets_its_users_pass_and_gives_nobody_else_a_right() {
        let list = list(0o750, &[7, 9]);
        assert_eq!(list[..HEADER], VERSION.to_le_bytes());
        let (owner, pass, nothing) = (7, SEARCH, 0);
        let expected = [
            (OWNER, owner, NO_ID),
            (USER, pass, 7),
            (USER, pass, 9),
            (GROUP, nothing, NO_ID),
            (MASK, pass, NO_ID),
            (OTHERS, nothing, NO_ID),
        ];
        assert_eq!(entries(&list), expected);
    }

    #[test]
    fn who_may_pass_is_seen_by_the_mode_and_by_the_list() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = fs::metadata(folder.path()).expect("it is there");
        let other = (own.uid() + 65_533, own.gid() + 65_533);
        let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        let may = |who| may_search(folder.path(), who).expect("it is there");
        mode(0o700);
        assert_eq!([may((own.uid(), own.gid())), may((other.0, own.gid())), may(other)], [true, false, false]);
        mode(0o710);
        assert_eq!([may((other.0, own.gid())), may(other)], [true, false]);
        mode(0o701);
        assert_eq!([may((other.0, own.gid())), may(other)], [false, true]);
        mode(0o700);
        let allowed = allows(folder.path(), other.0);
        assert_eq!(may(other), allowed);
    }

    /// What users may do then is tried in tests/kernel, which needs the superuser.
    #[test]
    fn users_are_added_once_and_the_folder_shows_nobody_what_it_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        let mut allowed: Vec<u32> =
            [65_533, 65_532, 65_532].into_iter().filter(|user| allows(folder.path(), *user)).collect();
        allowed.sort_unstable();
        allowed.dedup();
        let mode = fs::metadata(folder.path()).expect("it is there").mode() & 0o777;
        assert!(mode & 0o006 == 0 && mode & 0o700 == 0o700, "{mode:o}");
        let path = CString::new(folder.path().as_os_str().as_bytes()).expect("no 0 in it");
        match users(&path) {
            Ok(users) => assert_eq!((users, mode & 0o001), (allowed, 0)),
            // A file system without access control lists: everybody passes.
            Err(_) => assert_eq!(mode & 0o001, 0o001),
        }
    }
}

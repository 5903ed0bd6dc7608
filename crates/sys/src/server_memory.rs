//! Shared memory that a killed PostgreSQL leaves: found by what it has written itself, and removed with its folder.
//!
//! `postmaster.pid` names its segment of System V; the header of that names the folder, and the segment in /dev/shm which lists all others there, as
//! PostgreSQL itself finds them when it starts again after a crash (`dsm_cleanup_using_control_segment`). Only segments of the user whose file
//! that is, to which no process is attached, are removed.

use crate::calls::checked;
use crate::removal;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr;

const NAMES: &str = "/dev/shm";
const PID_FILE: &str = "postmaster.pid";
/// The line of that file with the key and the number of the segment.
const SEGMENT_LINE: usize = 6;
/// How deep folders of servers are in a run's: RUN/SERVER/data, and one more for a second copy.
const DEPTH: u32 = 4;
/// First words of a segment of System V, and of the list in /dev/shm.
const MAGIC: i32 = 679_834_894;
const LIST_MAGIC: u32 = 0x9a50_3d32;
/// The list's own header, and the lengths of its entries: before PostgreSQL 14, and since.
const LIST_HEADER: usize = 16;
const ENTRIES: [usize; 2] = [24, 40];
/// What is read of a list at most.
const LONGEST_LIST: u64 = 16 << 20;

/// The beginning of a segment of System V (`PGShmemHeader`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    magic: i32,
    creator: i32,
    total: usize,
    free: usize,
    list: u32,
    index: usize,
    device: u64,
    inode: u64,
}

/// Removes the shared memory of servers whose data are below a folder and which have been killed.
pub fn remove_of(folder: impl AsFd) {
    search(folder, DEPTH);
}

fn search(folder: impl AsFd, depth: u32) {
    if let Ok(Some(file)) = removal::regular_file(&folder, PID_FILE.as_ref()) {
        drop(remove(&folder, file));
        return;
    }
    for name in removal::names(&folder).unwrap_or_default() {
        if depth > 0
            && let Ok(inner) = removal::inner(&folder, &name)
        {
            search(inner, depth - 1);
        }
    }
}

fn remove(data: impl AsFd, mut file: File) -> io::Result<()> {
    let text = io::read_to_string(&mut file)?;
    let mut words = text.lines().nth(SEGMENT_LINE).unwrap_or_default().split_whitespace();
    let Some(segment) = words.nth(1).and_then(|number| number.parse::<i32>().ok()) else { return Ok(()) };
    let owner = file.metadata()?.uid();
    let facts = File::from(data.as_fd().try_clone_to_owned()?).metadata()?;
    let Some(header) = header(segment, owner)? else { return Ok(()) };
    if header.magic != MAGIC || (header.device, header.inode) != (facts.dev(), facts.ino()) {
        return Ok(());
    }
    if header.list != 0 {
        remove_listed(Path::new(NAMES), header.list, owner);
    }
    // SAFETY: removes a segment by its number and reads no memory of ours.
    checked(unsafe { libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut()) }).map(drop)
}

/// The header of a segment that is this user's and that no process is attached to.
fn header(segment: i32, owner: u32) -> io::Result<Option<Header>> {
    let mut facts = MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the kernel writes the structure, which lives through the call.
    if unsafe { libc::shmctl(segment, libc::IPC_STAT, facts.as_mut_ptr()) } != 0 {
        return Ok(None);
    }
    // SAFETY: all zero is valid, and the kernel has filled it.
    let facts = unsafe { facts.assume_init() };
    if facts.shm_nattch != 0 || facts.shm_perm.cuid != owner || facts.shm_segsz < size_of::<Header>() {
        return Ok(None);
    }
    // SAFETY: at an address of the kernel's choice, to be read; nothing of ours is there.
    let at = unsafe { libc::shmat(segment, ptr::null(), libc::SHM_RDONLY) };
    if at.addr() == usize::MAX {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the segment is at least as long as the header, is attached here, and any bytes are a valid header.
    let header = unsafe { ptr::read_volatile(at.cast::<Header>()) };
    // SAFETY: attached above; nothing refers to it any more.
    unsafe { libc::shmdt(at) };
    Ok(Some(header))
}

/// Removes the list of this number and the segments that it names, if they are that user's.
fn remove_listed(folder: &Path, list: u32, owner: u32) {
    let path = |number: u32| folder.join(format!("PostgreSQL.{number}"));
    let is_owners = |number: u32| fs::symlink_metadata(path(number)).is_ok_and(|it| it.is_file() && it.uid() == owner);
    if !is_owners(list) {
        return;
    }
    let short = fs::metadata(path(list)).is_ok_and(|facts| facts.len() <= LONGEST_LIST);
    let bytes = if short { fs::read(path(list)).unwrap_or_default() } else { Vec::new() };
    let listed = entries(&bytes).into_iter().filter(|number| is_owners(*number));
    listed.chain([list]).for_each(|number| drop(fs::remove_file(path(number))));
}

/// The numbers of the segments that a list names: those in use. Nothing where it is not a list.
fn entries(bytes: &[u8]) -> Vec<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (Some(LIST_MAGIC), Some(used), Some(room)) = (word(0), word(4), word(8)) else { return Vec::new() };
    let (used, room) = (used as usize, room as usize);
    let length = ENTRIES.into_iter().find(|length| LIST_HEADER + room * length == bytes.len());
    let Some(length) = length.filter(|_| used <= room) else { return Vec::new() };
    // An entry that nobody refers to is free.
    let of = |entry: usize| {
        let at = LIST_HEADER + entry * length;
        word(at).filter(|_| word(at + 4).is_some_and(|references| references > 0))
    };
    (0..used).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(room: u32, length: usize, entries: &[(u32, u32)]) -> Vec<u8> {
        let used = u32::try_from(entries.len()).expect("few");
        let mut bytes: Vec<u8> = [LIST_MAGIC, used, room, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        for (number, references) in entries {
            let mut entry = [number.to_ne_bytes(), references.to_ne_bytes()].concat();
            entry.resize(length, 0);
            bytes.extend(entry);
        }
        bytes.resize(LIST_HEADER + room as usize * length, 0);
        bytes
    }

    #[test]
    fn a_list_names_the_segments_in_use_in_both_formats_and_anything_else_names_none() {
        for length in ENTRIES {
            let bytes = list(64, length, &[(7, 2), (8, 0), (9, 1)]);
            assert_eq!(entries(&bytes), [7, 9], "{length}");
            for cut in [0, 3, 15, bytes.len() - 1] {
                assert_eq!(entries(&bytes[..cut]), [0_u32; 0], "{cut}");
            }
            let mut other = bytes;
            other[0] ^= 1;
            assert_eq!(entries(&other), [0_u32; 0]);
        }
        assert_eq!(entries(&list(1, 24, &[(7, 1), (8, 1)])), [0_u32; 0], "more than there is room for");
    }

    #[test]
    fn segments_that_a_list_names_go_with_it_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |number: u32| folder.path().join(format!("PostgreSQL.{number}"));
        let owner = crate::confine::effective_user();
        fs::write(path(5), list(8, 40, &[(7, 2), (9, 1)])).expect("ours");
        [7, 8].into_iter().for_each(|number| fs::write(path(number), "x").expect("ours"));
        std::os::unix::fs::symlink(path(8), path(9)).expect("ours");
        remove_listed(folder.path(), 5, owner + 1);
        assert!(path(5).exists() && path(7).exists(), "another user's");
        remove_listed(folder.path(), 5, owner);
        assert!(!path(5).exists() && !path(7).exists());
        assert!(path(8).exists() && fs::symlink_metadata(path(9)).is_ok(), "neither listed nor a file");
    }

    /// As PostgreSQL makes it: a segment that names the folder, and the file that names the segment.
    #[test]
    fn the_segment_of_a_killed_server_is_removed_if_it_names_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("server/data");
        fs::create_dir_all(&data).expect("ours");
        let facts = fs::metadata(&data).expect("it is there");
        let made = |inode: u64| {
            // SAFETY: makes a segment; no memory is touched.
            let segment = unsafe { libc::shmget(libc::IPC_PRIVATE, size_of::<Header>(), 0o600 | libc::IPC_CREAT) };
            assert!(segment >= 0, "{}", io::Error::last_os_error());
            let device = facts.dev();
            let header = Header { magic: MAGIC, creator: 1, total: 0, free: 0, list: 0, index: 0, device, inode };
            // SAFETY: at an address of the kernel's choice; the segment is as long as the header.
            unsafe {
                let at = libc::shmat(segment, ptr::null(), 0);
                at.cast::<Header>().write_volatile(header);
                libc::shmdt(at);
            }
            fs::write(data.join(PID_FILE), format!("1\n/data\n2\n5432\n/run\n127.0.0.1\n  123   {segment}\nready\n"))
                .expect("ours");
            remove_of(
                removal::inner(
                    removal::parent(folder.path()).expect("open"),
                    folder.path().file_name().expect("a name"),
                )
                .expect("open"),
            );
            let mut facts = MaybeUninit::<libc::shmid_ds>::zeroed();
            // SAFETY: the kernel writes the structure, which lives through the call.
            let there = unsafe { libc::shmctl(segment, libc::IPC_STAT, facts.as_mut_ptr()) } == 0;
            // SAFETY: removes a segment by its number, if it is there.
            unsafe { libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut()) };
            there
        };
        assert!(made(facts.ino() + 1), "it is another server's");
        assert!(!made(facts.ino()));
    }
}

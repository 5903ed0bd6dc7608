//! What a process finds of itself in `/proc`, and what it does to itself through it. Inside, the runner is in the same process: none of it is
//! found, and none of it is changed.

use super::call;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;

/// Descriptors that are tried by their numbers: the first, and those around the limit, where the runner's lie.
fn numbers() -> impl Iterator<Item = u64> {
    const FIRST: u64 = 3;
    let mut limit = [0u64; 2];
    call(libc::SYS_getrlimit, &[libc::RLIMIT_NOFILE.into(), limit.as_mut_ptr() as u64]);
    let end = limit[0].min(4096);
    (FIRST..40).chain(end.saturating_sub(72).max(40)..end + 40)
}

const CURRENT: u64 = libc::AT_FDCWD as u64;

pub fn run() {
    call(libc::SYS_close_range, &[3, u64::from(u32::MAX), 0]);
    lists_of_descriptors();
    other_descriptors();
    acts_on_other_descriptors();
    lists_of_mappings();
    memory();
    links();
    println!("alive {}", call(libc::SYS_getppid, &[]) > 0);
}

/// The program's mappings, and what each is of.
pub fn mappings() -> Vec<(Range<u64>, String)> {
    fs::read_to_string("/proc/self/maps").unwrap().lines().map(mapping).collect()
}

fn mapping(line: &str) -> (Range<u64>, String) {
    let (range, rest) = line.split_once(' ').unwrap();
    (range_of(range), rest.to_owned())
}

fn range_of(text: &str) -> Range<u64> {
    let (start, end) = text.split_once('-').unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    number(start)..number(end)
}

/// Memory between the program's mappings, up to the end of what a program can have.
pub fn gaps() -> Vec<Range<u64>> {
    const FIRST: u64 = 1 << 16;
    const END: u64 = 0x7fff_ffff_f000;
    let mut at = FIRST;
    let mut gaps = Vec::new();
    for (range, _) in mappings() {
        if at < range.start && range.start < END {
            gaps.push(at..range.start);
        }
        at = range.end.max(at);
    }
    // The break grows behind the program, and stacks downward: nothing of that happens here.
    if at < END {
        gaps.push(at..END);
    }
    gaps
}

/// Lists of the program's descriptors, by both calls, and in each folder that has one.
fn lists_of_descriptors() {
    let own = format!("/proc/{}/fd", std::process::id());
    for folder in ["/proc/self/fd", "/dev/fd", "/proc/thread-self/fd", "/proc/self/fdinfo", &own] {
        let names: BTreeSet<u64> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().parse().unwrap())
            .collect();
        println!("{} {names:?}", folder.replace(&own, "own"));
    }
    let folder = fs::File::open("/proc/self/fd").unwrap();
    let mut list = [0u8; 4096];
    let bytes = call(libc::SYS_getdents, &[folder.as_raw_fd() as u64, list.as_mut_ptr() as u64, 4096]);
    let (mut at, mut names) = (0, Vec::new());
    while at < usize::try_from(bytes).unwrap() {
        let length = usize::from(u16::from_ne_bytes([list[at + 16], list[at + 17]]));
        let name = list[at + 18..].split(|byte| *byte == 0).next().unwrap();
        names.push(String::from_utf8_lossy(name).into_owned());
        at += length;
    }
    println!("old list {names:?}");
    // What is closed is not listed any more; everything that is listed can be closed.
    let mut more: Vec<u64> = (0..3).map(|_| call(libc::SYS_dup, &[1]).cast_unsigned()).collect();
    more.retain(|fd| call(libc::SYS_close, &[*fd]) != 0);
    println!("kept {more:?}, left {}", fs::read_dir("/proc/self/fd").unwrap().count());
}

/// Every number is opened, looked at and read as a link through `/proc`.
fn other_descriptors() {
    let folder = fs::File::open("/proc/self/fd").unwrap();
    let dir = folder.as_raw_fd() as u64;
    let mut found = [0u32; 7];
    let mut text = [0u8; 256];
    for fd in numbers().filter(|fd| *fd != dir) {
        let path = |folder: &str| format!("{folder}{fd}\0");
        let (own, short, info) = (path("/proc/self/fd/"), path("/dev/fd/"), path("/proc/thread-self/fdinfo/"));
        let (numbered, name) = (path(&format!("/proc/{}/fd/", std::process::id())), path(""));
        let at = |text: &String| text.as_ptr() as u64;
        let room = [text.as_mut_ptr() as u64, text.len() as u64];
        let results = [
            call(libc::SYS_openat, &[CURRENT, at(&own), libc::O_RDWR as u64]),
            call(libc::SYS_open, &[at(&short), libc::O_PATH as u64]),
            call(libc::SYS_open, &[at(&info), 0]),
            call(libc::SYS_readlink, &[at(&numbered), room[0], room[1]]),
            call(libc::SYS_readlinkat, &[dir, at(&name), room[0], room[1]]),
            call(libc::SYS_openat, &[dir, at(&name), libc::O_WRONLY as u64]),
            call(libc::SYS_stat, &[at(&own), room[0]]),
        ];
        for (found, result) in found.iter_mut().zip(results) {
            *found += u32::from(result != -i64::from(libc::ENOENT));
        }
    }
    println!("found {found:?}");
    println!("left {}", fs::read_dir("/proc/self/fd").unwrap().count() - 1);
}

/// Calls with a number that is no descriptor of the program's: none of them finds one.
fn acts_on_other_descriptors() {
    let mut pipe = [0i32; 2];
    call(libc::SYS_pipe2, &[pipe.as_mut_ptr() as u64, libc::O_NONBLOCK as u64]);
    let poll = call(libc::SYS_epoll_create1, &[0]).cast_unsigned();
    let end = pipe[1] as u64;
    let (mut room, bad) = ([0u64; 32], -i64::from(libc::EBADF));
    let at = room.as_mut_ptr() as u64;
    let (x, y) = (c"x".as_ptr() as u64, c"y".as_ptr() as u64);
    let process = call(libc::SYS_pidfd_open, &[std::process::id().into(), 0]).cast_unsigned();
    let mut pair = [0i32; 2];
    call(libc::SYS_socketpair, &[libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, pair.as_mut_ptr() as u64]);
    let mut others = BTreeSet::new();
    for fd in numbers().filter(|fd| *fd > pair[1] as u64) {
        // A message that hands it over, and a list of one that is polled.
        let rights = [20u64, (libc::SCM_RIGHTS as u64) << 32 | libc::SOL_SOCKET as u64, fd];
        let message = [0, 0, 0, 0, rights.as_ptr() as u64, 24, 0];
        let mut polled = [fd | 1 << 32];
        let ready = call(libc::SYS_poll, &[polled.as_mut_ptr() as u64, 1, 0]);
        if (ready, polled[0] >> 48) != (1, libc::POLLNVAL as u64) {
            others.insert((libc::SYS_poll, ready));
        }
        let calls: [(i64, [u64; 6]); 69] = [
            (libc::SYS_read, [fd, at, 8, 0, 0, 0]),
            (libc::SYS_pwrite64, [fd, at, 8, 0, 0, 0]),
            (libc::SYS_pwritev2, [fd, at, 0, 0, 0, 0]),
            (libc::SYS_ftruncate, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_fallocate, [fd, 3, 0, 1 << 20, 0, 0]),
            (libc::SYS_mmap, [0, 4096, 3, libc::MAP_SHARED as u64, fd, 0]),
            (libc::SYS_sendfile, [end, fd, 0, 8, 0, 0]),
            (libc::SYS_splice, [fd, 0, end, 0, 8, 0]),
            (libc::SYS_tee, [fd, end, 8, 0, 0, 0]),
            (libc::SYS_vmsplice, [fd, at, 0, 0, 0, 0]),
            (libc::SYS_copy_file_range, [1, 0, fd, 0, 8, 0]),
            (libc::SYS_epoll_ctl, [poll, 1, fd, at, 0, 0]),
            (libc::SYS_ioctl, [fd, 0xae80, 0, 0, 0, 0]),
            (libc::SYS_fcntl, [fd, libc::F_DUPFD as u64, 0, 0, 0, 0]),
            (libc::SYS_dup, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_dup2, [fd, fd, 0, 0, 0, 0]),
            (libc::SYS_dup3, [fd, 3, 0, 0, 0, 0]),
            (libc::SYS_fchmod, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_fsync, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_syncfs, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_readahead, [fd, 0, 8, 0, 0, 0]),
            (libc::SYS_getdents64, [fd, at, 64, 0, 0, 0]),
            (libc::SYS_fgetxattr, [fd, c"user.x".as_ptr() as u64, at, 8, 0, 0]),
            (libc::SYS_getsockname, [fd, at, at, 0, 0, 0]),
            (libc::SYS_openat, [fd, x, 0, 0, 0, 0]),
            (libc::SYS_mkdirat, [fd, x, 0o700, 0, 0, 0]),
            (libc::SYS_unlinkat, [fd, x, 0, 0, 0, 0]),
            (libc::SYS_newfstatat, [fd, x, at, 0, 0, 0]),
            (libc::SYS_statx, [fd, x, 0, 0x7ff, at, 0]),
            (libc::SYS_faccessat, [fd, x, 0, 0, 0, 0]),
            (libc::SYS_readlinkat, [fd, x, at, 64, 0, 0]),
            (libc::SYS_symlinkat, [y, fd, x, 0, 0, 0]),
            (libc::SYS_linkat, [fd, x, CURRENT, y, 0, 0]),
            (libc::SYS_renameat, [CURRENT, x, fd, y, 0, 0]),
            (libc::SYS_fchmodat, [fd, x, 0, 0, 0, 0]),
            (libc::SYS_utimensat, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_execveat, [fd, x, 0, 0, 0, 0]),
            (libc::SYS_bind, [fd, at, 16, 0, 0, 0]),
            (libc::SYS_connect, [fd, at, 16, 0, 0, 0]),
            (libc::SYS_listen, [fd, 1, 0, 0, 0, 0]),
            (libc::SYS_accept4, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_shutdown, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_sendto, [fd, at, 8, 0, 0, 0]),
            (libc::SYS_recvfrom, [fd, at, 8, 0, 0, 0]),
            (libc::SYS_sendmsg, [fd, at, 0, 0, 0, 0]),
            (libc::SYS_recvmsg, [fd, at, 0, 0, 0, 0]),
            (libc::SYS_sendmsg, [pair[0] as u64, message.as_ptr() as u64, libc::MSG_DONTWAIT as u64, 0, 0, 0]),
            (libc::SYS_setsockopt, [fd, 1, 2, at, 4, 0]),
            (libc::SYS_getsockopt, [fd, 1, 3, at, at, 0]),
            (libc::SYS_epoll_wait, [fd, at, 1, 0, 0, 0]),
            (libc::SYS_epoll_ctl, [fd, 1, end, at, 0, 0]),
            (libc::SYS_timerfd_gettime, [fd, at, 0, 0, 0, 0]),
            (libc::SYS_signalfd4, [fd, at, 8, 0, 0, 0]),
            (libc::SYS_inotify_add_watch, [fd, x, 1, 0, 0, 0]),
            (libc::SYS_inotify_rm_watch, [fd, 1, 0, 0, 0, 0]),
            (libc::SYS_pidfd_send_signal, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_pidfd_getfd, [process, fd, 0, 0, 0, 0]),
            (libc::SYS_waitid, [3, fd, 0, 4, 0, 0]),
            (libc::SYS_setns, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_mq_getsetattr, [fd, 0, at, 0, 0, 0]),
            (libc::SYS_ioctl, [1, 0x4004_9409, fd, 0, 0, 0]),
            (libc::SYS_fstatfs, [fd, at, 0, 0, 0, 0]),
            (libc::SYS_fchdir, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_flock, [fd, 8, 0, 0, 0, 0]),
            (libc::SYS_lseek, [fd, 0, 0, 0, 0, 0]),
            (libc::SYS_fadvise64, [fd, 0, 8, 0, 0, 0]),
            (libc::SYS_sync_file_range, [fd, 0, 8, 2, 0, 0]),
            (libc::SYS_flistxattr, [fd, at, 8, 0, 0, 0]),
            (libc::SYS_close, [fd, 0, 0, 0, 0, 0]),
        ];
        others.extend(calls.into_iter().map(|(number, arguments)| (number, call(number, &arguments))));
    }
    others.retain(|(_, result)| *result != bad);
    println!("others {others:?}");
    [poll, end, pipe[0] as u64, process, pair[0] as u64, pair[1] as u64]
        .into_iter()
        .for_each(|fd| assert_eq!(call(libc::SYS_close, &[fd]), 0));
}

/// Each list of mappings has the program's own and no other, and all that may be read by the list can be read.
fn lists_of_mappings() {
    let listed = mappings();
    let names: BTreeSet<String> = listed
        .iter()
        .filter_map(|(_, rest)| rest.split_whitespace().nth(4).map(str::to_owned))
        .map(|name| name.rsplit('/').next().unwrap().to_owned())
        .filter(|name| !name.starts_with('['))
        .collect();
    println!("files {names:?}");
    let here = &raw const listed as u64;
    println!("stack {}", listed.iter().any(|(range, _)| range.contains(&here)));
    let count = |list: String| list.lines().filter(|line| line.split('-').next().is_some_and(is_address)).count();
    let own = format!("/proc/{}/smaps", std::process::id());
    for path in ["/proc/self/maps", "/proc/thread-self/maps", "/proc/self/smaps", &own] {
        let text = fs::read_to_string(path).unwrap();
        println!("same {}", count(text).abs_diff(listed.len()) <= 2);
    }
    let mut sum = 0u64;
    for (range, rest) in mappings() {
        // The kernel's own pages are not memory.
        if rest.starts_with('r') && !rest.contains("[v") {
            let (first, last) = (range.start, range.end - 1);
            for at in [first, last] {
                // SAFETY: by the list there is memory that may be read; a file's end lies in its last page.
                sum |= u64::from(unsafe { ptr::with_exposed_provenance::<u8>(at as usize).read_volatile() }) | 1;
            }
        }
    }
    println!("readable {}", sum != 0);
    let file = fs::File::open("/proc/self/maps").unwrap();
    let fd = file.as_raw_fd() as u64;
    let mut byte = [0u8; 1];
    println!("first {} {}", call(libc::SYS_read, &[fd, byte.as_mut_ptr() as u64, 1]), byte[0].is_ascii_hexdigit());
    println!("write {}", call(libc::SYS_write, &[fd, byte.as_ptr() as u64, 1]));
    println!("flags {:?}", [libc::F_GETFD, libc::F_GETFL].map(|ask| call(libc::SYS_fcntl, &[fd, ask as u64]) & 3));
}

fn is_address(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The process's memory as a file: the program's own is read and written, whatever else is there is not.
fn memory() {
    let mut word = 0x1122_3344_5566_7788u64;
    let at = (&raw mut word) as u64;
    let opened = call(libc::SYS_openat, &[CURRENT, c"/proc/self/mem".as_ptr() as u64, libc::O_RDWR as u64]);
    let fd = opened.cast_unsigned();
    let (mut read, new) = (0u64, 5u64);
    println!("mem {}", opened > 2);
    println!("read {} {read:x}", call(libc::SYS_pread64, &[fd, (&raw mut read) as u64, 8, at]));
    println!("write {}", call(libc::SYS_pwrite64, &[fd, (&raw const new) as u64, 8, at]));
    // SAFETY: a word of this stack; volatile, because the kernel has written it.
    println!("now {}", unsafe { (&raw const word).read_volatile() });
    println!("seek {}", call(libc::SYS_lseek, &[fd, at, 0]).cast_unsigned() == at);
    println!("write {}", call(libc::SYS_write, &[fd, (&raw const new) as u64, 8]));
    let noise = [0xffu8; 64];
    let part = [noise.as_ptr() as u64, 64];
    let mut results = BTreeSet::new();
    for range in others() {
        for at in [range.start, range.end - 64] {
            call(libc::SYS_lseek, &[fd, at, 0]);
            results.insert(call(libc::SYS_write, &[fd, part[0], 64]));
            results.insert(call(libc::SYS_writev, &[fd, part.as_ptr() as u64, 1]));
            results.insert(call(libc::SYS_pwrite64, &[fd, part[0], 64, at]));
            results.insert(call(libc::SYS_pwritev, &[fd, part.as_ptr() as u64, 1, at, 0]));
            results.insert(call(libc::SYS_pread64, &[fd, part[0], 64, at]));
            let there = [at, 64];
            let copy = [own_id(), part.as_ptr() as u64, 1, there.as_ptr() as u64, 1, 0];
            results.insert(call(libc::SYS_process_vm_writev, &copy));
        }
    }
    // Where nothing is mapped a file has an I/O error, and a copy a bad address.
    results.retain(|result| *result != -i64::from(libc::EIO) && *result != -i64::from(libc::EFAULT));
    println!("others {results:?}");
    println!("alive {} {}", call(libc::SYS_getppid, &[]) > 0, call(libc::SYS_close, &[fd]));
}

/// Files that are mapped into this process and are not in the list of its mappings, by the names of the links to them.
fn others() -> Vec<Range<u64>> {
    let own: Vec<Range<u64>> = mappings().into_iter().map(|(range, _)| range).collect();
    let links = fs::read_dir("/proc/self/map_files").unwrap();
    let ranges = links.map(|link| range_of(&link.unwrap().file_name().into_string().unwrap()));
    ranges.filter(|range| !own.iter().any(|own| own.start < range.end && range.start < own.end)).collect()
}

fn own_id() -> u64 {
    u64::from(std::process::id())
}

/// The program's own file, by each of its names.
fn links() {
    let mut status = [0u64; 18];
    let at = status.as_mut_ptr() as u64;
    let exe = c"/proc/self/exe".as_ptr() as u64;
    let kind = |result: i64, mode: u64| format!("{result} {:o}", mode & 0o170_000);
    println!("lstat {}", kind(call(libc::SYS_lstat, &[exe, at]), status[3]));
    let no_follow = libc::AT_SYMLINK_NOFOLLOW as u64;
    println!("no follow {}", kind(call(libc::SYS_newfstatat, &[CURRENT, exe, at, no_follow]), status[3]));
    println!("stat {} {}", kind(call(libc::SYS_stat, &[exe, at]), status[3]), status[6] as i64 == length());
    let folder = fs::File::open("/proc/self").unwrap();
    let mut text = [0u8; 4096];
    let arguments = [folder.as_raw_fd() as u64, c"exe".as_ptr() as u64, text.as_mut_ptr() as u64, 4096];
    let bytes = usize::try_from(call(libc::SYS_readlinkat, &arguments)).unwrap();
    let relative = String::from_utf8_lossy(&text[..bytes]).into_owned();
    println!("relative {}", relative == fs::read_link("/proc/self/exe").unwrap().to_string_lossy());
    let opened = call(libc::SYS_openat, &[arguments[0], arguments[1], 0]).cast_unsigned();
    println!("size {}", call(libc::SYS_lseek, &[opened, 0, 2]) == length());
    println!("close {}", call(libc::SYS_close, &[opened]));
}

fn length() -> i64 {
    fs::metadata(fs::read_link("/proc/self/exe").unwrap()).unwrap().len() as i64
}

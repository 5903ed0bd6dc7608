//! What programs do by accident, or thoroughly: none of it may hit the runner, and all of it acts for the program.

use super::call;
use std::ptr;

pub fn run() {
    descriptors();
    memory();
    pointers();
    controls();
    limits();
    println!("alive");
}

/// Every descriptor that a program does not have is closed, duplicated over and asked about.
fn descriptors() {
    let before = call(libc::SYS_dup, &[1]);
    println!("dup {before}");
    let closed = (3..5_000u64).filter(|fd| call(libc::SYS_close, &[*fd]) == 0).count();
    println!("closed {closed}");
    println!("range {}", call(libc::SYS_close_range, &[3, u64::from(u32::MAX), 0]));
    println!("range {}", call(libc::SYS_close_range, &[7, 3, 0]));
    println!("range {}", call(libc::SYS_close_range, &[3, 10, 99]));
    println!("next {}", call(libc::SYS_dup, &[1]));
    println!("far {}", call(libc::SYS_dup2, &[1, 1 << 30]));
    println!("close {}", call(libc::SYS_close, &[3]));
    let valid = (3..5_000u64).filter(|fd| call(libc::SYS_fcntl, &[*fd, libc::F_GETFD as u64]) >= 0).count();
    println!("valid {valid}");
    println!("alive {}", call(libc::SYS_getppid, &[]) > 0);
}

/// Everything between two mappings is unmapped and protected, with whatever lies there.
fn memory() {
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let map =
        |bytes: u64, protection: i32| call(libc::SYS_mmap, &[0, bytes, protection as u64, anonymous, u64::MAX, 0]);
    let page = map(4096, libc::PROT_READ).cast_unsigned();
    println!("protect nothing {}", call(libc::SYS_mprotect, &[1 << 46, 4096, 0]));
    println!("protect {}", call(libc::SYS_mprotect, &[page, 4096, libc::PROT_NONE as u64]));
    println!("unaligned {}", call(libc::SYS_munmap, &[page + 1, 4096]));
    println!("unmap {} {}", call(libc::SYS_munmap, &[page, 4096]), call(libc::SYS_munmap, &[page, 4096]));
    println!("nothing {}", call(libc::SYS_munmap, &[page, 0]));
    println!("huge {}", call(libc::SYS_mmap, &[0, 1 << 47, 0, anonymous, u64::MAX, 0]));
    let around = everything_else();
    println!("others {around}");
    println!("advice {}", call(libc::SYS_madvise, &[0, 1 << 20, libc::MADV_DONTNEED as u64]));
    println!("moved {}", call(libc::SYS_mremap, &[0, 4096, 8192, 1, 0]));
    println!("break {}", call(libc::SYS_brk, &[0]) > 0 && call(libc::SYS_brk, &[1]) > 1);
    let more = call(libc::SYS_brk, &[0]).cast_unsigned() + (16 << 20);
    println!("grown {}", call(libc::SYS_brk, &[more]).cast_unsigned() == more);
    // SAFETY: the last byte of what the break has grown by.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(more as usize - 1).write_volatile(1) };
    let less = more - (16 << 20);
    println!("shrunk {}", call(libc::SYS_brk, &[less]).cast_unsigned() == less);
}

/// Discards, protects and unmaps all that `/proc/self/maps` lists and that a static program does not have natively: files
/// that are not its own, and large mappings of no file.
fn everything_else() -> bool {
    const LARGE: u64 = 15 << 20;
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = std::fs::read_link("/proc/self/exe").unwrap().to_string_lossy().into_owned();
    for line in text.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        let foreign = rest.contains('/') && !rest.contains(&own);
        let large = !rest.contains('/') && !rest.contains('[') && end - start >= LARGE;
        if foreign || large {
            call(libc::SYS_madvise, &[start, end - start, libc::MADV_DONTNEED as u64]);
            call(libc::SYS_mprotect, &[start, end - start, 0]);
            call(libc::SYS_munmap, &[start, end - start]);
        }
    }
    call(libc::SYS_getppid, &[]) > 0
}

/// Pointers to nowhere, to what may not be written, and past the end, in calls of which the runner reads some itself.
fn pointers() {
    let bad = [8, 0x7000_0000_0000_0000, u64::MAX - 7, 1 << 46];
    for at in bad {
        let results = [
            call(libc::SYS_rt_sigaction, &[10, at, 0, 8]),
            call(libc::SYS_rt_sigaction, &[10, 0, at, 8]),
            call(libc::SYS_sigaltstack, &[at, 0]),
            call(libc::SYS_sigaltstack, &[0, at]),
            call(libc::SYS_getrlimit, &[7, at]),
            call(libc::SYS_setrlimit, &[7, at]),
            call(libc::SYS_prlimit64, &[0, 7, at, 0]),
            call(libc::SYS_prlimit64, &[0, 7, 0, at]),
            call(libc::SYS_arch_prctl, &[0x1003, at]),
            call(libc::SYS_execve, &[at, 0, 0]),
            call(libc::SYS_execve, &[c"/bin/true".as_ptr() as u64, at, 0]),
            call(libc::SYS_openat, &[u64::MAX, at, 0, 0]),
            call(libc::SYS_readlink, &[at, at, 10]),
            call(libc::SYS_readlink, &[c"/proc/self/exe".as_ptr() as u64, at, 10]),
            call(libc::SYS_rt_sigsuspend, &[at, 8]),
            call(libc::SYS_ppoll, &[0, 0, 0, at, 8]),
            call(libc::SYS_clock_gettime, &[1, at]),
            call(libc::SYS_uname, &[at]),
        ];
        println!("pointers {results:?}");
    }
    println!("prctl {}", call(libc::SYS_arch_prctl, &[0x1234, 0]));
    println!("number {}", call(100_000, &[]));
}

fn controls() {
    let name = c"another-name";
    println!("name {}", call(libc::SYS_prctl, &[libc::PR_SET_NAME as u64, name.as_ptr() as u64]));
    println!("comm {:?}", std::fs::read_to_string("/proc/self/comm").unwrap());
    println!("dumpable {}", call(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 0]));
    println!("dumpable {}", call(libc::SYS_prctl, &[libc::PR_GET_DUMPABLE as u64]));
    println!("after {}", call(libc::SYS_rt_sigaction, &[10, 8, 0, 8]));
    println!("dumpable {}", call(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 1]));
    println!("privileges {}", call(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0]));
    println!("unknown {}", call(libc::SYS_prctl, &[12345, 0, 0, 0, 0]));
    // Every signal's action is set and set back.
    for signal in 1..=64u64 {
        let ignore = [1u64, 0x0400_0000, 0, 0];
        let default = [0u64; 4];
        call(libc::SYS_rt_sigaction, &[signal, ignore.as_ptr() as u64, 0, 8]);
        call(libc::SYS_rt_sigaction, &[signal, default.as_ptr() as u64, 0, 8]);
    }
    println!("fault {}", call(libc::SYS_rt_sigaction, &[10, 8, 0, 8]));
}

fn limits() {
    let get = |resource: u64| {
        let mut limit = [0u64; 2];
        let result = call(libc::SYS_prlimit64, &[0, resource, 0, limit.as_mut_ptr() as u64]);
        (result, limit)
    };
    let set = |resource: u64, limit: [u64; 2]| call(libc::SYS_prlimit64, &[0, resource, limit.as_ptr() as u64, 0]);
    let files = u64::from(libc::RLIMIT_NOFILE);
    let (_, [_, hard]) = get(files);
    println!("files {} {:?}", set(files, [20, hard]), get(files).1[0]);
    let opened: Vec<i64> = (0..30).map(|_| call(libc::SYS_dup, &[1])).collect();
    println!("opened {:?}", opened);
    println!("beyond {}", call(libc::SYS_dup2, &[1, 20]));
    println!("inverted {}", set(files, [30, 20]));
    opened.iter().filter(|fd| **fd >= 0).for_each(|fd| assert_eq!(call(libc::SYS_close, &[fd.cast_unsigned()]), 0));
    // Room for another 64 MiB of address space, and no more.
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    let space = u64::from(libc::RLIMIT_AS);
    let limit = own_pages(pages) * 4096 + (64 << 20);
    println!("space {}", set(space, [limit, u64::MAX]));
    println!("seen {}", get(space).1[0] == limit);
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let map = |bytes: u64| call(libc::SYS_mmap, &[0, bytes, 3, anonymous, u64::MAX, 0]);
    let little = map(16 << 20);
    println!("little {}, much {}", little > 0, map(256 << 20));
    println!("all {}", set(space, [u64::MAX, u64::MAX]));
    for resource in [0u64, 3, 4, 6, 7, 16, 99] {
        println!("limit {resource}: {}", get(resource).0);
    }
}

/// Pages of this program: inside, `/proc` counts the runner's too.
fn own_pages(all: u64) -> u64 {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    if text.contains("baremark guest counters") || text.contains("kvm-vcpu") { 64 << 8 } else { all }
}

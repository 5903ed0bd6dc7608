//! What programs do by accident, or thoroughly: none of it may hit the runner, and all of it acts for the program.

use super::own_files;
use super::processes::{end, fork, wait};
use super::{call, threads};
use std::collections::BTreeSet;
use std::ptr;

pub fn run() {
    descriptors();
    memory();
    pointers();
    controls();
    masks();
    limits();
    small_limits();
    personas();
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
    println!("others {:?}", everything_else());
    println!("alive {}", call(libc::SYS_getppid, &[]) > 0);
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

/// Does to every gap between two mappings whatever can be done to memory: natively nothing is there, and inside the runner lies there. Gives each
/// different list of results once.
fn everything_else() -> BTreeSet<Vec<i64>> {
    const HUGE: u64 = 1 << 40;
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let nothing = [0u64; 2];
    let mut results = BTreeSet::new();
    for gap in own_files::gaps() {
        let (at, bytes) = (gap.start, gap.end - gap.start);
        let advise = |advice: i32| call(libc::SYS_madvise, &[at, bytes, advice as u64]);
        let page = [at, 4096];
        results.insert(vec![
            advise(libc::MADV_DONTNEED),
            advise(libc::MADV_WIPEONFORK),
            call(libc::SYS_mprotect, &[at, bytes, 0]),
            call(libc::SYS_mlock, &[at, bytes]),
            call(libc::SYS_munlock, &[at, bytes]),
            call(libc::SYS_msync, &[at, bytes, libc::MS_SYNC as u64]),
            call(libc::SYS_mseal, &[at, bytes, 0]),
            call(libc::SYS_remap_file_pages, &[at, 4096, 0, 0, 0]),
            call(libc::SYS_mremap, &[at, 4096, 8192, libc::MREMAP_MAYMOVE as u64, 0]),
            call(libc::SYS_process_vm_writev, &[own_id(), nothing.as_ptr() as u64, 1, page.as_ptr() as u64, 1, 0]),
            call(libc::SYS_munmap, &[at, bytes]),
            // What does not fit anywhere fails wherever it is requested.
            call(libc::SYS_mmap, &[at, 1 << 47, 0, anonymous, u64::MAX, 0]),
            i64::from(bytes < HUGE),
        ]);
    }
    results.retain(|results| results.last() == Some(&0));
    results
}

fn own_id() -> u64 {
    call(libc::SYS_getpid, &[]).cast_unsigned()
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
    println!("privileges {}", call(libc::SYS_prctl, &[libc::PR_GET_NO_NEW_PRIVS as u64, 0, 0, 0, 0]));
    let (set_death, get_death) = (libc::PR_SET_PDEATHSIG as u64, libc::PR_GET_PDEATHSIG as u64);
    let mut signal = 0;
    let set = call(libc::SYS_prctl, &[set_death, libc::SIGUSR1 as u64]);
    println!("death {set} {} {signal}", call(libc::SYS_prctl, &[get_death, (&raw mut signal) as u64]));
    println!("death {} {}", call(libc::SYS_prctl, &[set_death, 0]), call(libc::SYS_prctl, &[set_death, 999]));
    let mut name = [0u8; 16];
    let get = call(libc::SYS_prctl, &[libc::PR_GET_NAME as u64, name.as_mut_ptr() as u64]);
    println!("name {get} {:?}", String::from_utf8_lossy(&name));
    let not_dumpable = fork(|| {
        call(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 0]);
        let one = wait(fork(|| end(3)));
        let program = std::process::Command::new("/proc/self/exe").args(["exit", "12"]).status();
        println!("not dumpable: {one}, {:?}", program.unwrap().code());
        end(4);
    });
    println!("not dumpable: {}", wait(not_dumpable));
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
    let listed: u64 = own_files::mappings().iter().map(|(range, _)| range.end - range.start).sum();
    let space = u64::from(libc::RLIMIT_AS);
    let limit = listed + (64 << 20);
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

/// All signals are blocked, and signal stacks are unfit, while the runner needs its own.
fn masks() {
    let (all, none, mut before) = (u64::MAX, 0u64, 0u64);
    let set = |mask: &u64| call(libc::SYS_rt_sigprocmask, &[2, std::ptr::from_ref(mask) as u64, 0, 8]);
    println!("block {}", set(&all));
    println!("blocked {} {before:x}", call(libc::SYS_rt_sigprocmask, &[0, 0, (&raw mut before) as u64, 8]));
    println!("fork {}", wait(fork(|| end(5))));
    println!("threads {}", std::thread::spawn(|| call(libc::SYS_getppid, &[]) > 0).join().unwrap());
    threads::run(3);
    println!("own {}", call(libc::SYS_kill, &[own_id(), libc::SIGUSR1 as u64]));
    let waited = [1u64 << (libc::SIGUSR1 - 1)];
    println!("waited {}", call(libc::SYS_rt_sigtimedwait, &[waited.as_ptr() as u64, 0, 0, 8]));
    println!("unblock {}", set(&none));
    let stack = |start: u64, flags: u64, bytes: u64| {
        let stack = [start, flags, bytes];
        call(libc::SYS_sigaltstack, &[stack.as_ptr() as u64, 0])
    };
    println!("stacks {:?}", [stack(0, 0, 100), stack(8, 0, 8192), stack(0, 99, 8192), stack(0, 2, 0)]);
    // A handler on a stack that is not there: the program ends, as natively.
    let on_stack = [run as *const () as u64, libc::SA_ONSTACK as u64 | 0x0400_0000, 0, 0];
    let lost = fork(|| {
        stack(1 << 46, 0, 8192);
        call(libc::SYS_rt_sigaction, &[libc::SIGUSR1 as u64, on_stack.as_ptr() as u64, 0, 8]);
        call(libc::SYS_kill, &[own_id(), libc::SIGUSR1 as u64]);
    });
    println!("lost stack: {}", wait(lost));
}

/// Limits below what the program has already, each in a child, which then forks and executes. Natively the kernel kills a program that is executed
/// and has no room, which the runner does not imitate.
fn small_limits() {
    let cases: [(&str, u32, u64); 8] = [
        ("address space", libc::RLIMIT_AS, 1 << 20),
        ("data", libc::RLIMIT_DATA, 0),
        ("files", libc::RLIMIT_NOFILE, 3),
        ("stack", libc::RLIMIT_STACK, 256 << 10),
        ("core", libc::RLIMIT_CORE, 0),
        ("file size", libc::RLIMIT_FSIZE, 0),
        ("locked", libc::RLIMIT_MEMLOCK, 0),
        ("queued signals", libc::RLIMIT_SIGPENDING, 0),
    ];
    for (name, resource, limit) in cases {
        let child = fork(|| {
            let limit = [limit, limit];
            let set = call(libc::SYS_prlimit64, &[0, resource.into(), limit.as_ptr() as u64, 0]);
            let mut seen = [7u64; 2];
            let get = call(libc::SYS_getrlimit, &[resource.into(), seen.as_mut_ptr() as u64]);
            let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let map = call(libc::SYS_mmap, &[0, 16 << 20, 3, anonymous, u64::MAX, 0]);
            let forked = wait(fork(|| end(6)));
            println!("{name}: {set} {get} {} map {}, fork {forked}", seen == limit, map.min(0));
            if [libc::RLIMIT_AS, libc::RLIMIT_DATA].contains(&resource) {
                end(7);
            }
            let arguments = [c"/proc/self/exe".as_ptr(), c"exit".as_ptr(), c"13".as_ptr(), ptr::null()];
            let empty = [0u64];
            call(libc::SYS_execve, &[arguments[0] as u64, arguments.as_ptr() as u64, empty.as_ptr() as u64]);
        });
        println!("{name}: {}", wait(child));
    }
    let spent = fork(|| {
        let limit = [1u64, 2];
        call(libc::SYS_prlimit64, &[0, libc::RLIMIT_CPU.into(), limit.as_ptr() as u64, 0]);
        loop {
            std::hint::spin_loop();
        }
    });
    println!("processor time: {}", wait(spent));
    let too_long = fork(|| {
        let limit = [10u64, 10];
        call(libc::SYS_prlimit64, &[0, libc::RLIMIT_FSIZE.into(), limit.as_ptr() as u64, 0]);
        let file = call(libc::SYS_memfd_create, &[c"x".as_ptr() as u64, 0]).cast_unsigned();
        println!("short {}", call(libc::SYS_write, &[file, c"0123456789abcdef".as_ptr() as u64, 16]));
        call(libc::SYS_write, &[file, c"x".as_ptr() as u64, 1]);
    });
    println!("file size: {}", wait(too_long));
}

/// Personalities, also across an exec.
fn personas() {
    const ASK: u64 = 0xffff_ffff;
    const UNAME26: u64 = 0x0002_0000;
    let before = call(libc::SYS_personality, &[ASK]).cast_unsigned();
    for persona in [libc::ADDR_NO_RANDOMIZE as u64, UNAME26, libc::READ_IMPLIES_EXEC as u64] {
        let set = call(libc::SYS_personality, &[persona]);
        let mut names = [0u8; 6 * 65];
        let asked = call(libc::SYS_uname, &[names.as_mut_ptr() as u64]);
        let program = std::process::Command::new("/proc/self/exe").args(["exit", "14"]).status();
        println!("persona {set:x} {asked} {} {:?}", names[130..].starts_with(b"2.6."), program.unwrap().code());
    }
    println!("persona {}", call(libc::SYS_personality, &[before]) > 0);
}

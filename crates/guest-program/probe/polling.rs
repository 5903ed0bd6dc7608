//! Calls that a polling thread may answer, and what must stay right when it does: results, errors, signals, and the end of the process.

use crate::call;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Memory as a file.
fn file() -> OwnedFd {
    let fd = call(libc::SYS_memfd_create, &[c"polling".as_ptr() as u64, libc::MFD_CLOEXEC.into()]);
    // SAFETY: the descriptor was just made.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) }
}

/// `count` numbers written to a file of its own and read again by each of `threads` threads.
pub fn run(count: u64, threads: u64) {
    let of_thread = |of: u64| {
        let file = file();
        let fd = file.as_raw_fd() as u64;
        let process = call(libc::SYS_getpid, &[]);
        let mut sum = 0;
        for number in 0..count {
            let (written, mut read) = (number * of, 0u64);
            let at = number % 512 * 8;
            assert_eq!(call(libc::SYS_pwrite64, &[fd, (&raw const written) as u64, 8, at]), 8);
            assert_eq!(call(libc::SYS_pread64, &[fd, (&raw mut read) as u64, 8, at]), 8);
            assert_eq!((read, call(libc::SYS_getpid, &[])), (written, process));
            sum += read;
        }
        (sum, call(libc::SYS_lseek, &[fd, 0, libc::SEEK_END as u64]))
    };
    let found: Vec<_> = thread::scope(|scope| {
        let made: Vec<_> = (1..=threads).map(|of| scope.spawn(move || of_thread(of))).collect();
        made.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{found:?}");
}

/// Calls until the process is ended.
pub fn forever() {
    println!("go");
    loop {
        call(libc::SYS_getppid, &[]);
    }
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);
static MAIN: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: takes nothing.
    let here = unsafe { libc::gettid() } as u64;
    if MAIN.load(Ordering::SeqCst) != here {
        ELSEWHERE.fetch_add(1, Ordering::SeqCst);
    }
}

fn handle(signal: i32, flags: i32) {
    // SAFETY: an action of zeros with a handler that touches atomic numbers alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Signals by calls, signals during calls, and errors.
pub fn signals() {
    // SAFETY: takes nothing.
    MAIN.store(unsafe { libc::gettid() } as u64, Ordering::SeqCst);
    for signal in [libc::SIGXFSZ, libc::SIGPIPE, libc::SIGALRM] {
        handle(signal, libc::SA_RESTART);
    }
    let count = || (SIGNALS.swap(0, Ordering::SeqCst), ELSEWHERE.load(Ordering::SeqCst));
    let (file, byte) = (file(), 7u8);
    let (fd, at) = (file.as_raw_fd() as u64, (&raw const byte) as u64);
    let limit = libc::rlimit { rlim_cur: 100, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads a limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    let results: Vec<i64> = [99, 100].map(|offset| call(libc::SYS_pwrite64, &[fd, at, 1, offset])).into();
    println!("at the limit of size: {results:?} {:?}", count());
    let mut ends = [0i32; 2];
    call(libc::SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]);
    let [reader, writer] = ends.map(|end| end as u64);
    call(libc::SYS_close, &[reader]);
    println!("without a reader: {} {:?}", call(libc::SYS_write, &[writer, at, 1]), count());
    println!(
        "errors: {:?}",
        [
            call(libc::SYS_pread64, &[fd, 8, 1, 0]),
            call(libc::SYS_read, &[9999, at, 1]),
            call(libc::SYS_lseek, &[fd, u64::MAX, 0]),
            call(libc::SYS_lseek, &[writer, 0, 0]),
            call(libc::SYS_openat, &[libc::AT_FDCWD as u64, c"/nonexistent/file".as_ptr() as u64, 0]),
            call(libc::SYS_newfstatat, &[libc::AT_FDCWD as u64, c"/etc".as_ptr() as u64, 8, 0]),
            call(libc::SYS_access, &[8, 0]),
        ]
    );
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once = libc::itimerval { it_interval: never, it_value: libc::timeval { tv_sec: 0, tv_usec: 300 } };
    let (mut wrong, mut made, mut seen) = (0, 0u64, None);
    loop {
        let signals = SIGNALS.load(Ordering::SeqCst);
        if signals >= 50 {
            break;
        }
        // One signal after the other: where a system call takes 100 us, handling those of a timer that repeats would leave no time for anything else.
        if seen != Some(signals) {
            seen = Some(signals);
            // SAFETY: the kernel reads two times.
            unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const once, 0) };
        }
        let offset = made % 64;
        let (number, mut read) = (made as u8, 0u8);
        made += 1;
        let done = call(libc::SYS_pwrite64, &[fd, (&raw const number) as u64, 1, offset]) == 1
            && call(libc::SYS_pread64, &[fd, (&raw mut read) as u64, 1, offset]) == 1
            && read == number;
        wrong += u64::from(!done);
    }
    println!("interrupted: {wrong} wrong, elsewhere {}", ELSEWHERE.load(Ordering::SeqCst));
}

/// What a process does after which no other thread may act for it, and its end by its last thread.
pub fn alone() {
    let of_thread = c"/proc/thread-self/stat";
    let open = |path: &std::ffi::CStr| call(libc::SYS_openat, &[libc::AT_FDCWD as u64, path.as_ptr() as u64, 0, 0]);
    let fd = open(of_thread);
    let mut bytes = [0u8; 512];
    let read = call(libc::SYS_read, &[fd as u64, bytes.as_mut_ptr() as u64, 512]);
    let text = String::from_utf8_lossy(&bytes[..usize::try_from(read).unwrap()]).into_owned();
    // SAFETY: takes nothing.
    let id = unsafe { libc::gettid() }.to_string();
    println!("thread-self is the thread's: {}", text.starts_with(&format!("{id} ")));
    call(libc::SYS_close, &[fd as u64]);
    println!("unshare: {}", call(libc::SYS_unshare, &[(libc::CLONE_FILES | libc::CLONE_FS) as u64]));
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    let names = names.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    println!("polling: {}", names.filter(|name| name.starts_with("baremark-poll")).count());
    println!("still here: {}", call(libc::SYS_getpid, &[]) == i64::from(std::process::id()));
}

/// Ends its first thread and then, of two, the last one, whose status is the process's.
pub fn last(threads: u64) {
    if threads > 1 {
        let first = i32::try_from(std::process::id()).unwrap();
        thread::spawn(move || {
            // It is a zombie then.
            while !std::fs::read_to_string(format!("/proc/{first}/task/{first}/stat")).unwrap().contains(") Z") {
                call(libc::SYS_sched_yield, &[]);
            }
            call(libc::SYS_exit, &[8]);
        });
    }
    call(libc::SYS_exit, &[7]);
}

//! Starting a program at the cost of `posix_spawn(3)`, with its streams, folder and CPUs, and with the end of its parent as its own.
//!
//! `fork(2)` copies the page tables of the process that calls it, and what that takes would be part of every wall time. The
//! child here shares the parent's memory until it executes its program, as that of `posix_spawn` does, which itself can neither
//! set the signal of a parent's death nor CPUs. Nothing is allocated between the clock's reading and the program's start.

use crate::subreaper::{BUSY_LIMIT, unless_busy};
use crate::{affinity, process};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

/// Bytes of the stack on which the child runs until it executes its program.
const STACK: usize = 64 << 10;

/// A program that is ready to be started.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'l> {
    /// The program's file.
    pub program: &'l CStr,
    /// Its arguments, its name first.
    pub arguments: &'l [CString],
    /// Its whole environment, each as `NAME=VALUE`.
    pub environment: &'l [CString],
    /// Its working folder.
    pub folder: &'l CStr,
    /// Standard input, output and error.
    pub streams: [BorrowedFd<'l>; 3],
    /// The CPUs that it may use; empty for those of this thread.
    pub cpus: &'l [usize],
}

/// A program that was started.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    /// Its process, which nobody else waits for; it leads a process group of its own.
    pub pid: u32,
    /// When the attempt began that succeeded.
    pub began: Instant,
}

/// What the child needs, all of it made before it is.
struct Child {
    program: *const c_char,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    folder: *const c_char,
    streams: [c_int; 3],
    seat: Option<Seat>,
    signals: libc::sigset_t,
    /// The signals for which this process has handlers.
    handled: Vec<c_int>,
    /// What went wrong in the child, an error number; 0 for nothing.
    failure: c_int,
}

/// Where the program may run, and the thread that starts it, which goes there first: a program that moved itself would wait for the other
/// CPU inside the time that is measured.
struct Seat {
    cpus: libc::cpu_set_t,
    /// The thread that starts the program, where it may run, and whether the child has let it.
    starter: libc::pid_t,
    own: libc::cpu_set_t,
    returned: bool,
}

impl Launch<'_> {
    /// Starts the program; the kernel kills it when the calling thread ends. A program that is open for writing in the hands of
    /// others cannot be executed and is tried again, at most a second.
    ///
    /// # Errors
    /// What starting it gives.
    pub fn start(&self) -> io::Result<Launched> {
        self.start_within(BUSY_LIMIT)
    }

    fn start_within(&self, limit: Duration) -> io::Result<Launched> {
        let mut stack = vec![MaybeUninit::<u128>::uninit(); STACK / size_of::<u128>()];
        let mut child = self.child()?;
        unless_busy(limit, || attempt(&mut child, &mut stack))
    }

    fn child(&self) -> io::Result<Child> {
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        let own = affinity::allowed_cpus()?;
        let seat = match !self.cpus.is_empty() && own != self.cpus {
            true => Some(Seat {
                cpus: affinity::set_of(self.cpus)?,
                // SAFETY: takes nothing and gives the number of this thread.
                starter: unsafe { libc::gettid() },
                own: affinity::set_of(&own)?,
                returned: false,
            }),
            false => None,
        };
        Ok(Child {
            program: self.program.as_ptr(),
            arguments: pointers(self.arguments),
            environment: pointers(self.environment),
            folder: self.folder.as_ptr(),
            streams: self.streams.map(|stream| stream.as_raw_fd()),
            seat,
            signals: empty_set(),
            handled: handled(),
            failure: 0,
        })
    }
}

/// The signals for which this process has handlers: the child has them too, and they must not run in the shared memory.
fn handled() -> Vec<c_int> {
    let has_handler = |signal: &c_int| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: asks for one action and sets none; the place for it lives through the call.
        let asked = unsafe { libc::sigaction(*signal, ptr::null(), action.as_mut_ptr()) };
        // SAFETY: all zeros is a valid sigaction, whether or not the call has written one.
        let handler = unsafe { action.assume_init() }.sa_sigaction;
        asked == 0 && handler != libc::SIG_DFL && handler != libc::SIG_IGN
    };
    (1..=libc::SIGRTMAX()).filter(has_handler).collect()
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: a sigset_t is plain bits, and all zeros is the empty set on Linux.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// One attempt. While the child shares this memory the calling thread does not run, and no signal is handled in either.
fn attempt(child: &mut Child, stack: &mut [MaybeUninit<u128>]) -> io::Result<Launched> {
    child.failure = 0;
    if let Some(seat) = &mut child.seat {
        seat.returned = false;
        affinity::restrict(affinity::THIS_THREAD, &seat.cpus)?;
    }
    let mut all = empty_set();
    // SAFETY: both sets live through the calls; pthread_sigmask changes the mask of this thread alone, and it is put back below.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut child.signals);
    }
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let began = Instant::now();
    // SAFETY: the stack is STACK bytes below `top`, which is aligned to 16 bytes; CLONE_VFORK keeps this thread from running until
    // the child has executed its program or ended, so that `child` and the stack outlive their use, and nobody else refers to them.
    let pid = unsafe { libc::clone(become_program, top, flags, ptr::from_mut(child).cast()) };
    let failed = if pid < 0 { io::Error::last_os_error() } else { io::Error::from_raw_os_error(child.failure) };
    // SAFETY: puts back the mask that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const child.signals, ptr::null_mut()) };
    if let Some(seat) = child.seat.as_ref().filter(|seat| !seat.returned) {
        affinity::restrict(affinity::THIS_THREAD, &seat.own)?;
    }
    match u32::try_from(pid) {
        Ok(pid) if child.failure == 0 => Ok(Launched { pid, began }),
        Ok(_) => {
            // SAFETY: waits for the child that has just ended; its status is not requested.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(failed)
        }
        Err(_) => Err(failed),
    }
}

/// The child, on its own stack and in its parent's memory: async-signal-safe calls alone, nothing allocated, no unwinding.
extern "C" fn become_program(of: *mut c_void) -> c_int {
    let child = of.cast::<Child>();
    // SAFETY: `of` is the `Child` of `attempt`, which lives and is not touched by anybody else until this function is over.
    let child = unsafe { &mut *child };
    // SAFETY: these calls take numbers and pointers to what `child` holds: texts that end in 0, and lists of them that end in a null
    // pointer. Signals are blocked from before the child is made until no handler is left that could run in the shared memory.
    unsafe {
        libc::setpgid(0, 0);
        if process::death_signal(libc::SIGKILL).is_err() {
            return failed(child);
        }
        // The starter sleeps until the program runs, so that to let it go costs no move.
        if let Some(seat) = &mut child.seat {
            seat.returned = affinity::restrict(seat.starter, &seat.own).is_ok();
        }
        for (number, stream) in (0..).zip(child.streams) {
            if libc::dup2(stream, number) < 0 {
                return failed(child);
            }
        }
        if libc::chdir(child.folder) != 0 {
            return failed(child);
        }
        for &signal in &child.handled {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Rust ignores it from a program's start, and what is ignored stays so in another program.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const child.signals, ptr::null_mut());
        libc::execve(child.program, child.arguments.as_ptr(), child.environment.as_ptr());
    }
    failed(child)
}

fn failed(child: &mut Child) -> c_int {
    child.failure = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // clone(2) ends the child with this as its exit code, without what exit(3) would do to the parent's streams.
    127
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subreaper;
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    fn texts(texts: &[&str]) -> Vec<CString> {
        texts.iter().map(|&text| CString::new(text).expect("no 0 in it")).collect()
    }

    /// Starts a program with a pipe as its output; what it wrote, and its exit code.
    fn output(program: &str, arguments: &[&str], folder: &str, cpus: &[usize]) -> io::Result<(String, Option<i32>)> {
        output_within(BUSY_LIMIT, program, arguments, folder, cpus)
    }

    fn output_within(
        limit: Duration,
        program: &str,
        arguments: &[&str],
        folder: &str,
        cpus: &[usize],
    ) -> io::Result<(String, Option<i32>)> {
        let (mut from, to) = io::pipe()?;
        let null = File::open("/dev/null")?;
        let (program, folder) = (texts(&[program]), texts(&[folder]));
        let launch = Launch {
            program: &program[0],
            arguments: &texts(arguments),
            environment: &texts(&["ONE=1", "TWO=two words"]),
            folder: &folder[0],
            streams: [null.as_fd(), to.as_fd(), to.as_fd()],
            cpus,
        };
        let launched = launch.start_within(limit)?;
        drop(to);
        let mut text = String::new();
        from.read_to_string(&mut text)?;
        let ended = subreaper::wait(launched.pid, Instant::now() + Duration::from_secs(60))?.expect("it ends");
        Ok((text, ended.status.code()))
    }

    #[test]
    fn a_program_gets_its_arguments_environment_folder_streams_and_cpus() {
        let script = "echo \"$0|$1|$ONE|$TWO|$(pwd)|$(nproc)|$(cat)\"; echo complaint >&2; exit 3";
        let cpu = affinity::allowed_cpus().expect("affinity")[0];
        let ran = output("/bin/sh", &["sh", "-c", script, "name", "an argument"], "/", &[cpu]).expect("sh starts");
        assert_eq!(ran, ("name|an argument|1|two words|/|1|\ncomplaint\n".to_owned(), Some(3)));
        assert!(affinity::allowed_cpus().expect("affinity").contains(&cpu), "the caller keeps its own");
    }

    /// A program that moved to its CPU by itself would wait for it inside the time that is measured.
    #[test]
    fn a_pinned_program_is_born_on_its_cpu() {
        // Kernels without CONFIG_SCHED_DEBUG count no migrations.
        if fs::metadata("/proc/self/sched").is_err() {
            return;
        }
        let before = affinity::allowed_cpus().expect("affinity");
        for cpu in before.repeat(4) {
            let (told, _) = output("/bin/cat", &["cat", "/proc/self/sched"], "/", &[cpu]).expect("cat starts");
            let moved = told.lines().find_map(|line| line.strip_prefix("se.nr_migrations")?.split(':').nth(1));
            assert_eq!(moved.map(str::trim), Some("0"), "to CPU {cpu}: {told}");
        }
        assert_eq!(affinity::allowed_cpus().expect("affinity"), before, "the caller keeps its own");
    }

    /// What the parent blocks or ignores while it starts a program does not reach it.
    #[test]
    fn signals_are_as_the_parent_has_them() {
        let mask = |text: &str, key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key).map(str::trim).map(str::to_owned));
            line.expect("the kernel tells it")
        };
        let (theirs, _) = output("/bin/cat", &["cat", "/proc/self/status"], "/", &[]).expect("cat starts");
        let ours = fs::read_to_string("/proc/thread-self/status").expect("/proc");
        assert_eq!(mask(&theirs, "SigBlk:"), mask(&ours, "SigBlk:"));
        assert_eq!(mask(&theirs, "SigCgt:"), "0000000000000000");
        let ignored = u64::from_str_radix(&mask(&theirs, "SigIgn:"), 16).expect("hexadecimal");
        assert_eq!(ignored & 1 << (libc::SIGPIPE - 1), 0, "SIGPIPE ends a program as usual");
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let kind = |ran: io::Result<(String, Option<i32>)>| ran.expect_err("it cannot").kind();
        assert_eq!(kind(output("/no/such/program", &["x"], "/", &[])), io::ErrorKind::NotFound);
        assert_eq!(kind(output("/etc/passwd", &["x"], "/", &[])), io::ErrorKind::PermissionDenied);
        assert_eq!(kind(output("/bin/sh", &["x"], "/no/such/folder", &[])), io::ErrorKind::NotFound);
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is counted")]
    fn a_program_that_is_still_open_for_writing_is_started_once_it_is_closed() {
        if subreaper::executes_what_is_written() {
            return println!("skipped: this kernel executes a program that is open for writing");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, "#!/bin/sh\nexit 3\n").expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let open = || File::options().append(true).open(&path).expect("it is ours");
        let program = path.to_str().expect("a plain path");
        let held = open();
        let first = Instant::now();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        let patient = output_within(Duration::from_secs(60), program, &["program"], "/", &[]);
        assert_eq!(patient.expect("it is closed soon").1, Some(3));
        assert!(first.elapsed() >= Duration::from_millis(50));
        let _held = open();
        let why = output(program, &["program"], "/", &[]).expect_err("it stays open");
        assert_eq!(why.kind(), io::ErrorKind::ExecutableFileBusy);
    }
}

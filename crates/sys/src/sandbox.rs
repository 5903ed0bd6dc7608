//! A program in a sandbox of this machine's files: namespaces, no capabilities, a filter of system calls.
//!
//! What a container engine does by default, without an engine and without an image. Three processes: the launcher stays outside and waits;
//! the first process of the sandbox sets everything up, starts the program and buries orphans; the program. Each ends with the one before it,
//! however that ended, and with the PID namespace everything that the program has started ends with them.
//!
//! All or nothing: a [`Layer`] that the kernel refuses ends the launch, and [`Refused`] names it, so that whoever launches can leave it out
//! and say so.

mod files;
pub mod filter;

pub use files::Shown;

use crate::calls::checked;
use crate::{affinity, guest, mounts, process, subreaper};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::time::Duration;
use std::{fmt, ptr};

/// How long processes that were killed may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(10);
/// The name of the machine in a UTS namespace of its own.
const HOST_NAME: &[u8] = b"sandbox";

/// What separates a sandbox from this machine, in the order in which it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// A control group of its own.
    ControlGroup,
    /// A user namespace in which its user alone is known.
    User,
    /// Mounts of its own: files read-only, a private /tmp, few devices.
    Mount,
    /// Semaphores, queues and shared memory of its own.
    Ipc,
    /// A host name of its own.
    Uts,
    /// A network of its own: the loopback alone.
    Network,
    /// Processes of its own, and a /proc of these; needs [`Layer::Mount`].
    Pid,
    /// No capability, and none to be had by executing anything.
    Capabilities,
    /// The filter of system calls.
    Seccomp,
}

impl Layer {
    /// All of them.
    pub const ALL: [Layer; 9] = [
        Layer::ControlGroup,
        Layer::User,
        Layer::Mount,
        Layer::Ipc,
        Layer::Uts,
        Layer::Network,
        Layer::Pid,
        Layer::Capabilities,
        Layer::Seccomp,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::ControlGroup => "control-group",
            Layer::User => "user",
            Layer::Mount => "mount",
            Layer::Ipc => "ipc",
            Layer::Uts => "uts",
            Layer::Network => "network",
            Layer::Pid => "pid",
            Layer::Capabilities => "capabilities",
            Layer::Seccomp => "seccomp",
        }
    }

    /// The layer of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Layer> {
        Layer::ALL.into_iter().find(|layer| layer.name() == name)
    }

    /// The layer that it cannot be without.
    #[must_use]
    pub fn needs(self) -> Option<Layer> {
        (self == Layer::Pid).then_some(Layer::Mount)
    }
}

/// A layer that was refused.
#[derive(Debug)]
pub struct Refused {
    /// Which; `None` where the program itself could not be started.
    pub layer: Option<Layer>,
    /// What was tried, and what the kernel gave.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "{REFUSED}{}: {}", layer.name(), self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// How the line begins by which a launcher says that a layer was refused.
pub const REFUSED: &str = "refused ";

/// The layer that a launcher's line says was refused, and why.
#[must_use]
pub fn refusal(line: &str) -> Option<(Layer, &str)> {
    let (_, rest) = line.split_once(REFUSED)?;
    let (name, why) = rest.split_once(": ")?;
    Some((Layer::of_name(name)?, why))
}

/// What is to be launched.
#[derive(Debug)]
pub struct Launch<'l> {
    /// The layers.
    pub layers: &'l [Layer],
    /// `cgroup.procs` of the groups that it joins, open for writing.
    pub groups: &'l [File],
    /// What it sees besides.
    pub shown: &'l [Shown],
    /// The CPUs that it may use; empty for all.
    pub cpus: &'l [usize],
    /// The program's file.
    pub program: CString,
    /// Its arguments, its name first.
    pub arguments: Vec<CString>,
    /// Its environment, each as `NAME=VALUE`.
    pub environment: Vec<CString>,
}

impl Launch<'_> {
    fn has(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }

    /// Launches the program and waits until it has ended: its exit status, or 128 and the number of the signal that ended it. SIGTERM, SIGINT and
    /// SIGHUP end it, and so does the end of this process. The calling process must have one thread; it comes out of this in the user
    /// namespace of the sandbox.
    ///
    /// # Errors
    /// What was refused; nothing is left then.
    pub fn run(&self) -> Result<i32, Refused> {
        let general = |what: &str| {
            let what = what.to_owned();
            move |why: io::Error| Refused { layer: None, why: format!("{what}: {why}") }
        };
        let of = |layer, what: &'static str| {
            move |why: io::Error| Refused { layer: Some(layer), why: format!("{what}: {why}") }
        };
        let starter = parent_id();
        block_signals().map_err(general("blocking signals"))?;
        subreaper::adopt_orphans().map_err(general("becoming the parent of orphans"))?;
        if self.has(Layer::User) {
            enter_user_namespace().map_err(of(Layer::User, "a user namespace"))?;
            // New credentials may have made the kernel forget it.
            process::die_with(starter, libc::SIGTERM).map_err(general("ending with the lab"))?;
        }
        if self.has(Layer::Pid) {
            unshare(libc::CLONE_NEWPID).map_err(of(Layer::Pid, "a PID namespace"))?;
        }
        let (mut report, refused) = io::pipe().map_err(general("a pipe"))?;
        let (lives, life) = io::pipe().map_err(general("a pipe"))?;
        // SAFETY: takes nothing; in a process of one thread the child may continue with everything.
        let first = unsafe { libc::fork() };
        match first {
            -1 => Err(general("starting a process")(io::Error::last_os_error())),
            0 => {
                drop((report, life));
                let status = match self.inside(&lives, &refused) {
                    Ok(status) => status,
                    Err(why) => {
                        let layer = why.layer.map_or("", Layer::name);
                        drop((&refused).write_all(format!("{layer}\n{}", why.why).as_bytes()));
                        127
                    }
                };
                // SAFETY: ends this process at once, without what the parent's copy of it would do at its end.
                unsafe { libc::_exit(status) }
            }
            first => {
                drop((refused, lives));
                let mut text = String::new();
                // Ends when the program has been executed.
                drop(report.read_to_string(&mut text));
                drop(give_streams_away());
                let status = wait_for(first);
                drop(subreaper::end_all_but(&[], END_LIMIT));
                drop(life);
                match text.split_once('\n') {
                    Some((layer, why)) => Err(Refused { layer: Layer::of_name(layer), why: why.to_owned() }),
                    None => status.map_err(general("waiting for the sandbox")),
                }
            }
        }
    }

    /// The first process of the sandbox: sets it up, starts the program and waits for it.
    fn inside(&self, lives: &PipeReader, refused: &io::PipeWriter) -> Result<i32, Refused> {
        let failed = |layer, what: &str, why: io::Error| Refused { layer, why: format!("{what}: {why}") };
        let _ = process::death_signal(libc::SIGKILL);
        if has_hung_up(lives) {
            return Err(failed(None, "starting", io::Error::from_raw_os_error(libc::ESRCH)));
        }
        leave_terminal().map_err(|why| failed(None, "leaving the terminal", why))?;
        let of = |layer| move |(what, why): (String, io::Error)| failed(Some(layer), &what, why);
        let folder = std::env::current_dir();
        for group in self.groups {
            let joined = (&mut &*group).write_all(b"0");
            joined.map_err(|why| failed(Some(Layer::ControlGroup), "joining a control group", why))?;
        }
        if self.has(Layer::Mount) {
            mounts::own_mounts().map_err(|why| failed(Some(Layer::Mount), "a mount namespace", why))?;
        }
        let spaces =
            [(Layer::Ipc, libc::CLONE_NEWIPC, "an IPC namespace"), (Layer::Uts, libc::CLONE_NEWUTS, "a UTS namespace")];
        for (layer, flag, what) in spaces.into_iter().filter(|(layer, ..)| self.has(*layer)) {
            unshare(flag).map_err(|why| failed(Some(layer), what, why))?;
        }
        if self.has(Layer::Uts) {
            set_host_name().map_err(|why| failed(Some(Layer::Uts), "setting the host name", why))?;
        }
        if self.has(Layer::Network) {
            let entered = unshare(libc::CLONE_NEWNET);
            let set = entered.and_then(|()| guest::set_up_interface("lo", std::net::Ipv4Addr::LOCALHOST, 8));
            set.map_err(|why| failed(Some(Layer::Network), "a network namespace", why))?;
        }
        if self.has(Layer::Mount) {
            let tree = files::Tree::prepare(self.shown).map_err(of(Layer::Mount))?;
            tree.hide().map_err(of(Layer::Mount))?;
            if self.has(Layer::Pid) {
                files::own_proc().map_err(of(Layer::Pid))?;
            }
            tree.show().map_err(of(Layer::Mount))?;
            // The folder that this process is in lies below what is mounted there now.
            let moved = folder.and_then(std::env::set_current_dir).or_else(|_| std::env::set_current_dir("/"));
            moved.map_err(|why| failed(Some(Layer::Mount), "entering the working folder", why))?;
        }
        if !self.cpus.is_empty() {
            let set = affinity::set_of(self.cpus).and_then(|set| affinity::restrict(affinity::THIS_THREAD, &set));
            set.map_err(|why| failed(None, "choosing the CPUs", why))?;
        }
        if self.has(Layer::Capabilities) {
            drop_capabilities().map_err(|why| failed(Some(Layer::Capabilities), "dropping capabilities", why))?;
        }
        // Other credentials may have made the kernel forget it.
        let _ = process::death_signal(libc::SIGKILL);
        if has_hung_up(lives) {
            return Err(failed(None, "starting", io::Error::from_raw_os_error(libc::ESRCH)));
        }
        self.program(refused)
    }

    /// Starts the program, and buries what it leaves until it ends.
    fn program(&self, refused: &io::PipeWriter) -> Result<i32, Refused> {
        let general = |what: &'static str| move |why: io::Error| Refused { layer: None, why: format!("{what}: {why}") };
        if !self.has(Layer::Pid) {
            subreaper::adopt_orphans().map_err(general("becoming the parent of orphans"))?;
        }
        let parent = std::process::id();
        // SAFETY: as in `run`.
        let child = unsafe { libc::fork() };
        match child {
            -1 => Err(general("starting a process")(io::Error::last_os_error())),
            0 => Err(self.become_program(parent)),
            child => {
                close(refused);
                drop(give_streams_away());
                let status = guest::reap_until(child.unsigned_abs());
                if !self.has(Layer::Pid) {
                    drop(subreaper::end_all_but(&[], END_LIMIT));
                }
                status.map_err(general("waiting for the program"))
            }
        }
    }

    /// Returns only if it fails.
    fn become_program(&self, parent: u32) -> Refused {
        let failed = |layer, what: &str, why: io::Error| Refused { layer, why: format!("{what}: {why}") };
        if let Err(why) = process::die_with(parent, libc::SIGKILL).and_then(|()| unblock_signals()) {
            return failed(None, "starting", why);
        }
        // Asked for by the filter, and harmless where there is none.
        // SAFETY: takes numbers and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return failed(Some(Layer::Capabilities), "setting no_new_privs", io::Error::last_os_error());
        }
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        if self.has(Layer::Seccomp)
            && let Err(why) = filter::install()
        {
            return failed(Some(Layer::Seccomp), "a filter of system calls", why);
        }
        // SAFETY: the texts end in zero and the lists in null; all of them live through the call.
        unsafe { libc::execve(self.program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        let what = format!("starting {}", self.program.to_string_lossy());
        failed(None, &what, io::Error::last_os_error())
    }
}

fn unshare(flag: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a number and touches no memory.
    checked(unsafe { libc::unshare(flag) }).map(drop)
}

/// Leaves the terminal of whoever launches: a program that has it can type there (TIOCSTI), in a shell outside of the sandbox. It stays in its
/// session: one of its own would have a share of the CPUs of its own (sched(7), autogroup), which natively it has not.
fn leave_terminal() -> io::Result<()> {
    let terminal = match File::options().read(true).write(true).open("/dev/tty") {
        Ok(terminal) => terminal,
        Err(why) if why.raw_os_error() == Some(libc::ENXIO) || !has_terminal() => return Ok(()),
        // The program would keep it.
        Err(why) => return Err(why),
    };
    // SAFETY: takes a descriptor that lives through the call, and touches no memory.
    checked(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) }).map(drop)
}

/// Whether this process has a controlling terminal, by the fifth word behind its name (proc_pid_stat(5)).
fn has_terminal() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let number = stat.rsplit_once(')').and_then(|(_, words)| words.split_ascii_whitespace().nth(4));
    number.is_none_or(|number| number != "0")
}

/// Puts this process into a user namespace in which its own user and group have the numbers that they have outside.
fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: both take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER)?;
    // Kernels before 3.19 have no such file and need it not.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    fs::write("/proc/self/uid_map", format!("{user} {user} 1\n"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1\n"))
}

fn set_host_name() -> io::Result<()> {
    // SAFETY: the bytes live through the call, which gets their number.
    checked(unsafe { libc::sethostname(HOST_NAME.as_ptr().cast(), HOST_NAME.len()) }).map(drop)
}

/// Whether the writing end of a pipe is gone.
fn has_hung_up(pipe: &PipeReader) -> bool {
    let mut poll = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready != 0 && poll.revents & libc::POLLHUP != 0
}

/// Has standard input and output lead nowhere: whoever is at their other ends sees the program's alone.
fn give_streams_away() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: two open descriptors; nobody uses the one that is replaced.
        checked(unsafe { libc::dup2(null.as_raw_fd(), stream) })?;
    }
    Ok(())
}

/// Closes this process's copy of a pipe's end.
fn close(pipe: &io::PipeWriter) {
    // SAFETY: this process does nothing with it any more, and ends by `_exit`, which closes nothing twice.
    unsafe { libc::close(pipe.as_raw_fd()) };
}

/// The signals at which the launcher ends the sandbox, and the one by which it is told that it has ended.
fn signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, whose place lives through all calls.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn block_signals() -> io::Result<()> {
    let set = signals();
    // SAFETY: a set that lives through the call; the old one is not wanted.
    checked(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) }).map(drop)
}

/// As a program expects them: none blocked, SIGPIPE not ignored.
fn unblock_signals() -> io::Result<()> {
    let set = signals();
    // SAFETY: a set that lives through the call; a signal's usual action is set.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        checked(libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut())).map(drop)
    }
}

/// Waits for a child's end, which a signal that ends this process brings about.
fn wait_for(child: libc::pid_t) -> io::Result<i32> {
    let set = signals();
    loop {
        let mut status = 0;
        // SAFETY: the status lives through the call.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            let exited = libc::WIFEXITED(status);
            return Ok(if exited { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) });
        }
        if ended < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a set that lives through the call; what came with the signal is not wanted.
        let signal = unsafe { libc::sigwaitinfo(&raw const set, ptr::null_mut()) };
        if [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(&signal) {
            // SAFETY: takes numbers; the child has not been waited for, so that the number is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
    }
}

/// `struct __user_cap_header_struct` and two of `struct __user_cap_data_struct` of `capset(2)`.
#[repr(C)]
struct Capabilities {
    version: u32,
    pid: i32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Gives up every capability, and those that executing a program could give.
fn drop_capabilities() -> io::Result<()> {
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap").ok().and_then(|text| text.trim().parse().ok());
    for number in 0..=last.unwrap_or(63_u64) {
        // SAFETY: takes numbers and touches no memory.
        let dropped = checked(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) }).map(drop);
        match dropped {
            // Without a capability there is nothing that could be dropped, and no_new_privs keeps it so.
            Err(why) if why.raw_os_error() == Some(libc::EPERM) && effective_capabilities() == Some(0) => break,
            // Numbers above the last are none.
            Err(why) if why.raw_os_error() == Some(libc::EINVAL) && last.is_none() => break,
            other => other?,
        }
    }
    // SAFETY: takes numbers and touches no memory. Kernels before 4.3 have no ambient set.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let header = Capabilities { version: VERSION_3, pid: 0 };
    let none = [0_u32; 6];
    // SAFETY: a header of version 3 takes two sets of three words, which all live through the call.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(drop)
}

/// The capabilities that this process has; `None` where the kernel does not say.
fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether a path lies in a folder that a sandbox hides by one of its own.
#[must_use]
pub fn hides(path: &Path) -> bool {
    files::HIDDEN.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_have_names_by_which_a_refusal_is_read() {
        for layer in Layer::ALL {
            assert_eq!(Layer::of_name(layer.name()), Some(layer));
            let refused = Refused { layer: Some(layer), why: "a thing: it is so".to_owned() };
            assert_eq!(refusal(&format!("error: {refused}")), Some((layer, "a thing: it is so")));
        }
        assert_eq!(refusal("error: starting x: not found"), None);
        assert_eq!(refusal("refused to do: it"), None);
    }
}

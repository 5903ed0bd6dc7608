//! The first process of a guest whose only program is this one, or which has its host's.
//!
//! It starts the agent as a child with pipes, carries its frames over a port, and switches the guest off when the
//! agent ends. The agent is a child so that its panics are not the kernel's and its waiting for children is its own; while
//! it measures, this process sleeps in two reads and a wait.

use baremark_model::beat;
use baremark_model::flow_control::{self, READY, VSOCK};
use baremark_sys::guest;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The kernel's own file systems, where programs expect them.
const MOUNTS: &[(&str, &str)] = &[("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/tmp")];
/// Where the guest's maker puts kernel modules, named in the order in which they are loaded.
const MODULES: &str = "/modules";
/// Where the guest's maker writes the search path of programs, for a guest that has programs.
const SEARCH_PATH: &str = "/path";
/// Where a guest with its host's files keeps them, and what it writes.
const HOST_FILES: &str = "/host";
const WRITTEN: &str = "/written";
const ROOT: &str = "/both";
/// What users' programs expect in addition to [`MOUNTS`].
const MORE_MOUNTS: &[(&str, &str)] = &[("tmpfs", "/run"), ("tmpfs", "/dev/shm"), ("devpts", "/dev/pts")];
/// How long a port's driver may take to find it.
const PORT_LIMIT: Duration = Duration::from_secs(20);

/// The time between two lines of a guest that beats.
const BEAT_MS: u64 = 10;
/// After so many lines it writes a record on its disk.
const RECORD_EVERY: u64 = 10;
const PAGE: usize = 4096;
/// The memory that such a guest writes, in pages.
const WRITTEN_PAGES: usize = (32 << 20) / PAGE;

const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const ENODEV: i32 = 19;

/// Why a guest could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct GuestError {
    what: String,
    source: io::Error,
}

/// Names what was tried.
fn trying<T>(what: impl Into<String>, result: io::Result<T>) -> Result<T, GuestError> {
    result.map_err(|source| GuestError { what: what.into(), source })
}

/// Opens a device, or connects to a port of the hypervisor's socket.
fn open(port: &Path) -> io::Result<File> {
    match port.to_str().and_then(|text| text.strip_prefix(VSOCK)) {
        None => guest::open_raw(port),
        Some(number) => {
            let number = number.parse().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
            guest::connect_to_host(number)
        }
    }
}

/// Opens the port once its driver has found it.
fn open_when_there(port: &Path) -> io::Result<File> {
    let deadline = Instant::now() + PORT_LIMIT;
    loop {
        match open(port) {
            // No such file, and a moment later no such device: the driver has announced a port that it still sets up.
            Err(why) if matches!(why.raw_os_error(), Some(ENOENT | ENXIO | ENODEV)) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// What the guest is told about itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guest<'g> {
    /// The address and prefix length of its first network card.
    pub address: Option<(Ipv4Addr, u32)>,
    /// The tag of the virtio file system that is its host's root.
    pub host_files: Option<&'g str>,
}

/// Runs `program agent` and carries its frames over `port` until it ends; its exit status.
///
/// # Errors
/// When the guest cannot be set up.
pub fn serve(port: &Path, told: Guest<'_>) -> Result<i32, GuestError> {
    mount_all(MOUNTS)?;
    load_modules()?;
    let search_path = fs::read(SEARCH_PATH).ok();
    if let Some(tag) = told.host_files {
        take_root_of_host(tag)?;
    }
    trying("setting up the loopback", guest::set_up_interface("lo", Ipv4Addr::LOCALHOST, 8))?;
    if let Some((address, prefix)) = told.address {
        trying("setting up eth0", guest::set_up_interface("eth0", address, prefix))?;
    }
    carry(port, search_path.map(OsString::from_vec))
}

fn mount_all(mounts: &[(&str, &str)]) -> Result<(), GuestError> {
    for (kind, folder) in mounts {
        trying(format!("making {folder}"), fs::create_dir_all(folder))?;
        trying(format!("mounting {kind} on {folder}"), guest::mount(kind, folder))?;
    }
    Ok(())
}

fn load_modules() -> Result<(), GuestError> {
    let mut modules: Vec<_> = fs::read_dir(MODULES).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for module in modules {
        trying(format!("loading {}", module.display()), guest::load_module(&module))?;
    }
    Ok(())
}

/// Makes the host's files the guest's: they are read from the host, and what is written stays in this guest's memory.
fn take_root_of_host(tag: &str) -> Result<(), GuestError> {
    for folder in [HOST_FILES, WRITTEN, ROOT] {
        trying(format!("making {folder}"), fs::create_dir_all(folder))?;
    }
    trying("mounting the host's files", guest::mount_read_only("virtiofs", tag, HOST_FILES))?;
    mount_all(&[("tmpfs", WRITTEN)])?;
    let (upper, work) = (format!("{WRITTEN}/upper"), format!("{WRITTEN}/work"));
    for folder in [&upper, &work] {
        trying(format!("making {folder}"), fs::create_dir(folder))?;
    }
    trying("mounting what may be written over them", guest::mount_overlay(HOST_FILES, &upper, &work, ROOT))?;
    trying("changing to that root", guest::change_root(ROOT))?;
    mount_all(MOUNTS)?;
    mount_all(MORE_MOUNTS)
}

/// Writes a line `beat NUMBER RECORD` to `port` about every 10 ms, without end: a guest that does nothing but be watched. Between two
/// lines it writes its part of `dirty_per_s` bytes of its memory, each page after a check of what the round before left in it, and, every
/// tenth time, a record on `disk` where it has one. RECORD is the number of the last record that the disk has kept.
///
/// # Errors
/// When the guest cannot be set up, its port or disk fails, or a page does not hold what was written.
pub fn beat(port: &Path, dirty_per_s: u64, disk: Option<&Path>) -> Result<(), GuestError> {
    mount_all(MOUNTS)?;
    load_modules()?;
    let mut port = trying(format!("opening {}", port.display()), open_when_there(port))?;
    let mut records = disk.map(Records::of).transpose()?;
    let mut memory = Written::new();
    trying("saying that the guest is ready", port.write_all(READY))?;
    for number in 1_u64.. {
        memory.write(dirty_per_s / (1000 / BEAT_MS) / PAGE as u64)?;
        if let Some(records) = records.as_mut().filter(|_| number % RECORD_EVERY == 1) {
            records.add()?;
        }
        let last = records.as_ref().map_or(0, |records| records.last);
        trying("writing to the port", port.write_all(beat::line(number, last).as_bytes()))?;
        thread::sleep(Duration::from_millis(BEAT_MS));
    }
    Ok(())
}

/// Memory that is written page by page, round after round.
struct Written {
    words: Vec<u64>,
    /// The page that comes next, and the number of its round.
    next: usize,
    round: u64,
}

impl Written {
    fn new() -> Written {
        Written { words: vec![0; WRITTEN_PAGES * PAGE / size_of::<u64>()], next: 0, round: 1 }
    }

    fn write(&mut self, pages: u64) -> Result<(), GuestError> {
        for _ in 0..pages {
            let word = &mut self.words[self.next * PAGE / size_of::<u64>()];
            if *word != self.round - 1 {
                let found = format!("it holds {word} and not {}", self.round - 1);
                return trying(format!("reading page {} of memory back", self.next), Err(io::Error::other(found)));
            }
            *word = self.round;
            self.next += 1;
            if self.next == WRITTEN_PAGES {
                (self.next, self.round) = (0, self.round + 1);
            }
        }
        Ok(())
    }
}

/// Numbered records at the beginning of a disk.
struct Records {
    disk: File,
    last: u64,
}

impl Records {
    /// Goes on after the last record of the disk.
    fn of(path: &Path) -> Result<Records, GuestError> {
        let disk = trying(format!("opening {}", path.display()), open_when_there(path))?;
        let mut bytes = vec![0; beat::LOG_BYTES];
        trying(format!("reading {}", path.display()), disk.read_exact_at(&mut bytes, 0))?;
        Ok(Records { disk, last: beat::last_record(&bytes) })
    }

    fn add(&mut self) -> Result<(), GuestError> {
        self.last += 1;
        let (at, record) = beat::record(self.last);
        let kept = self.disk.write_all_at(&record, at).and_then(|()| self.disk.sync_data());
        trying("writing a record to the disk", kept)
    }
}

/// Starts the agent and carries its frames until it ends; its exit status.
fn carry(port: &Path, search_path: Option<OsString>) -> Result<i32, GuestError> {
    let mut port_in = trying(format!("opening {}", port.display()), open_when_there(port))?;
    let port_out = trying("opening the port twice", port_in.try_clone())?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(path) = search_path {
        command.env("PATH", path);
    }
    let mut agent = trying("starting the agent", command.spawn())?;
    let (Some(to_agent), Some(from_agent)) = (agent.stdin.take(), agent.stdout.take()) else {
        return trying("piping to the agent", Err(io::Error::from(io::ErrorKind::NotConnected)));
    };
    trying("saying that the guest is ready", port_in.write_all(READY))?;
    let port_out = Arc::new(Mutex::new(port_out));
    let granting = Arc::clone(&port_out);
    thread::spawn(move || flow_control::guest_in(port_in, to_agent, &granting));
    let sending = Arc::clone(&port_out);
    let sender = thread::spawn(move || flow_control::guest_out(from_agent, &sending));
    let status = trying("waiting for the agent", guest::reap_until(agent.id()))?;
    drop(sender.join());
    if let Ok(port) = port_out.lock() {
        trying("sending the last frames", guest::drain(&port))?;
    }
    Ok(status)
}

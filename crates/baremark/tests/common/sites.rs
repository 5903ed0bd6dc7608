//! Agents in places of any kind: the program under a name of its own, waiting, and a lab that is played to be killed.

use super::bench::{Bench, program, text};
use baremark_model::arm::ResolvedArm;
use baremark_model::page_size::PageSize;
use baremark_model::site::{Environment, Link, Missing, Site};
use baremark_model::units::Bytes;
use baremark_model::value;
use baremark_model::wire::{ArmSpec, FromAgent, PROTOCOL, ToAgent, TrialSpec, WireError, read_frame, write_frame};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program under a name of its own, by which its processes are known.
pub struct Program {
    folder: TempDir,
}

impl Program {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        // The copy has an inode of its own, which a process shows even from within a container.
        fs::copy(program(), folder.path().join("baremark")).unwrap();
        Program { folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("baremark")
    }

    /// Runs a study in a bench's folder and store; its document.
    pub fn document(&self, bench: &Bench, study: &Path) -> Value {
        self.document_with(bench, study, &[])
    }

    /// The same, with variables in its environment.
    pub fn document_with(&self, bench: &Bench, study: &Path, told: &[(&str, &str)]) -> Value {
        let mut command = Command::new(self.path());
        command.arg("--store").arg(bench.store()).args(["run", "--json"]).arg(study).current_dir(bench.folder.path());
        let output = command.envs(told.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The processes that run it.
    pub fn pids(&self) -> Vec<u32> {
        processes_of(&self.path())
    }

    /// Those that are agents. An agent's container has a supervisor, which runs the program too.
    pub fn agents(&self) -> Vec<u32> {
        let is_agent = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"agent")
        };
        self.pids().into_iter().filter(is_agent).collect()
    }

    /// The same in words.
    pub fn processes(&self) -> Vec<String> {
        self.pids().iter().map(|pid| format!("process {pid}")).collect()
    }
}

/// The processes that run this file, by whatever path they see it.
pub fn processes_of(program: &Path) -> Vec<u32> {
    let own = fs::metadata(program).unwrap();
    let same = |pid: &u32| {
        let exe = fs::metadata(format!("/proc/{pid}/exe"));
        exe.is_ok_and(|exe| (exe.dev(), exe.ino()) == (own.dev(), own.ino()))
    };
    let listed = fs::read_dir("/proc").unwrap().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(same).collect()
}

/// What lies in the folder for temporary files.
pub fn temporary() -> Vec<String> {
    let listed = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    listed.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Waits until there is something.
pub fn wait_for<T>(look: impl FnMut() -> Option<T>) -> T {
    wait_for_at_most(Duration::from_secs(120), look)
}

/// The same, with a limit of its own.
pub fn wait_for_at_most<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A port that nobody uses and no other call is given, below those that the kernel gives to clients and to whoever
/// leaves the choice to it: what another test starts meanwhile does not take it before its server does.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let free = |port: &u16| {
        let address = (Ipv4Addr::UNSPECIFIED, *port);
        TcpListener::bind(address).is_ok()
            && UdpSocket::bind(address).is_ok()
            && TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err()
    };
    let candidate = || std::process::id() % 10_000 + GIVEN.fetch_add(1, Ordering::Relaxed) % 2_000;
    let mut ports = std::iter::repeat_with(|| u16::try_from(20_000 + candidate()).unwrap()).take(2_000);
    ports.find(free).expect("a port that nobody uses")
}

/// Has the agent at the other end run a short trial on a table of so many bytes; its last word.
pub fn trial_of(link: &mut Link, cpu: usize, table_bytes: u64) -> Result<FromAgent, WireError> {
    let arm = ResolvedArm::native(1, PageSize::Small).with("table", value::Value::SizeBytes(Bytes(table_bytes)));
    let spec = TrialSpec {
        schedule: vec![0; 4],
        phase_ns: 20_000_000,
        cpus: vec![cpu],
        seed: 1,
        ..TrialSpec::new("random-access", [ArmSpec::of_one(arm)])
    };
    write_frame(&mut link.to_agent, &ToAgent::RunTrial(Box::new(spec)))?;
    loop {
        match read_frame(&mut link.from_agent)? {
            FromAgent::Phase { .. } => {}
            last => return Ok(last),
        }
    }
}

/// Prints how long a site takes to come, to greet, to run a short trial and to go, the first time and the next.
pub fn print_times(environment: &dyn Environment, cpu: usize) {
    let name = environment.name();
    let begun = Instant::now();
    environment.probe().unwrap();
    println!("{name}: probe {:?}", begun.elapsed());
    for round in ["first", "next"] {
        let begun = Instant::now();
        let mut site = environment.start(&NEVER).unwrap();
        let mut link = site.link().unwrap();
        let started = begun.elapsed();
        let hello = |length| ToAgent::Hello { protocol: PROTOCOL, version: "v".repeat(length) };
        write_frame(&mut link.to_agent, &hello(1)).unwrap();
        let _: FromAgent = read_frame(&mut link.from_agent).unwrap();
        let greeted = begun.elapsed();
        trial_of(&mut link, cpu, 1 << 20).unwrap();
        let ran = begun.elapsed();
        write_frame(&mut link.to_agent, &hello(64 << 10)).unwrap();
        let _: FromAgent = read_frame(&mut link.from_agent).unwrap();
        let long = begun.elapsed() - ran;
        let ending = Instant::now();
        drop(site);
        let (trial, gone) = (ran - greeted, ending.elapsed());
        println!(
            "{name}, {round}: started {started:?}, greeted {greeted:?}, trial {trial:?}, 64 KiB {long:?}, gone {gone:?}"
        );
    }
}

/// Runs one ignored test of this suite as a process of its own, which plays the lab for this program.
pub fn lab(test: &str, program: &Program, told: &[(&str, &Path)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", test]).env(PLAYED, program.path());
    command.envs(told.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The other side of [`lab`]: starts a site and waits to be killed. Does nothing where nobody asked for it.
pub fn as_lab(start: impl FnOnce(PathBuf) -> Box<dyn Site>) {
    let Some(program) = std::env::var_os(PLAYED) else { return };
    let _site = start(PathBuf::from(program));
    thread::sleep(Duration::from_secs(120));
}

/// An interrupt that nobody gives.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// The variable that names the program to such a process.
pub const PLAYED: &str = "BAREMARK_PLAYED_LAB";

/// A CPU that this process may use.
pub fn cpu() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().parse().unwrap()
}

/// Whether an environment can be used; where it cannot, a line that is counted, or a failure where the gate demands it.
pub fn usable(environment: &dyn Environment) -> bool {
    let Err(Missing { what, remedy }) = environment.probe() else { return true };
    assert!(
        std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(),
        "environment {} is demanded: {what}; {remedy}",
        environment.name()
    );
    eprintln!("skipped: environment {}: {what}; {remedy}", environment.name());
    false
}

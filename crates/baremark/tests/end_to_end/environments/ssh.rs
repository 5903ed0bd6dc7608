//! Remote machines: a real sshd of this test's own on the loopback, with keys that nobody else knows.

use super::{NEVER, Program, as_lab, cpu, lab, print_times, usable, wait_for};
use crate::bench::{lives, signal};
use crate::turns::{Turn, turn};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::ssh::{Settings, Ssh};
use baremark_model::site::Environment;
use baremark_sys::network::HeldPort;
use baremark_sys::process_tree;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running sshd. The agents' folders are in `temporary`.
pub struct Server {
    folder: TempDir,
    port: u16,
    sshd: Child,
    _turn: Arc<Turn>,
}

impl Server {
    /// Starts one; where it cannot be, a line that is counted, or a failure where the gate demands it.
    pub fn start() -> Option<Self> {
        let _turn = turn();
        let sshd = PathBuf::from("/usr/sbin/sshd");
        if !sshd.exists() {
            assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "sshd is demanded and not installed");
            eprintln!("skipped: no sshd");
            return None;
        }
        // Root's sshd wants this folder, which the init script of its package makes.
        drop(fs::create_dir("/run/sshd"));
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key));
            assert!(keygen.status().unwrap().success());
        }
        fs::create_dir(path("temporary")).unwrap();
        // Nobody else is given this port before sshd listens there.
        let held = HeldPort::any().unwrap();
        let port = held.number();
        let lines = [
            format!("Port {port}\nListenAddress 127.0.0.1\nHostKey {}", path("host")),
            format!("AuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no", path("user.pub")),
            format!("PermitRootLogin yes\nPasswordAuthentication no\nSetEnv TMPDIR={}\n", path("temporary")),
        ];
        fs::write(path("sshd_config"), lines.join("\n")).unwrap();
        let host = fs::read_to_string(path("host.pub")).unwrap();
        fs::write(path("known_hosts"), format!("[127.0.0.1]:{port} {host}")).unwrap();
        let client = format!(
            "Host machine\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n",
            path("user"),
            path("known_hosts")
        );
        fs::write(path("ssh_config"), client).unwrap();
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(path("sshd_config")).stdin(Stdio::null()).stderr(Stdio::null());
        let server = Server { port, sshd: command.spawn().unwrap(), folder, _turn };
        wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
        drop(held);
        Some(server)
    }

    /// Lets the users of services get to what agents there keep for them.
    pub fn let_others_through(&self) {
        for folder in [self.folder.path().to_owned(), self.folder.path().join("temporary")] {
            fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        }
    }

    /// ssh's configuration that leads there.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("ssh_config")
    }

    fn settings(&self) -> Settings {
        let config = Some(self.folder.path().join("ssh_config"));
        Settings { destination: "machine".to_owned(), config, ..Settings::default() }
    }

    /// The folders that were brought there, with what is in them.
    pub fn pushed(&self) -> Vec<Vec<String>> {
        let listed = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
        let folders = listed(self.folder.path().join("temporary"));
        let names = |path| listed(path).map(|entry| entry.file_name().into_string().unwrap()).collect();
        folders.map(|folder| names(folder.path())).collect()
    }

    /// The agents that run there, and the traces that they leave until they are known to be gone, in words.
    pub fn left(&self) -> Vec<String> {
        let root = self.folder.path().join("temporary");
        let pids = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours = pids.filter(|pid| fs::read_link(pid.join("exe")).is_ok_and(|exe| exe.starts_with(&root)));
        let mut left: Vec<String> = ours.map(|pid| format!("process {}", pid.display())).collect();
        left.extend(self.pushed().into_iter().flatten().filter(|name| !name.starts_with("baremark-")));
        left
    }
}

impl Server {
    /// Kills every process of the server but the listener, and nothing that it started: what a cut connection looks like there.
    pub fn cut(&self) {
        let sessions = crate::bench::children(self.sshd.id());
        let halves: Vec<u32> = sessions.iter().flat_map(|&session| crate::bench::children(session)).collect();
        let is_sshd =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("sshd"));
        for pid in sessions.into_iter().chain(halves).filter(is_sshd) {
            signal(pid, libc::SIGKILL);
        }
    }
}

impl Drop for Server {
    /// With its connections, and what they have started: they end once nobody is at the other side, and use its folder until then.
    fn drop(&mut self) {
        let mut all = process_tree::pids(self.sshd.id()).unwrap_or_default();
        all.retain(|pid| *pid != self.sshd.id());
        drop(self.sshd.kill());
        drop(self.sshd.wait());
        let deadline = Instant::now() + Duration::from_secs(60);
        while all.iter().any(|pid| lives(*pid)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        all.into_iter().filter(|pid| lives(*pid)).for_each(|pid| signal(pid, libc::SIGKILL));
    }
}

#[test]
fn a_remote_machine_conforms_and_keeps_nothing() {
    let (program, Some(server)) = (Program::new(), Server::start()) else { return };
    let ssh = Ssh::new(program.path(), server.settings());
    if !usable(&ssh) {
        return;
    }
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| server.left() };
    assert_eq!(conformance(&ssh, &place), Ok(()));
    let pushed = server.pushed();
    assert!(pushed.len() == 1 && pushed[0].len() == 1, "brought there once for all sites: {pushed:?}");
    drop(ssh);
    assert_eq!(server.pushed(), [[""; 0]; 0]);
}

#[test]
fn a_killed_lab_leaves_nothing_at_the_other_side() {
    let (program, Some(server)) = (Program::new(), Server::start()) else { return };
    let config = server.settings().config.unwrap();
    let mut lab = lab("environments::ssh::a_lab_to_be_killed", &program, &[("BAREMARK_PLAYED_CONFIG", &config)]);
    wait_for(|| server.left().iter().any(|left| left.starts_with("agent-")).then_some(()));
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let config = std::env::var_os("BAREMARK_PLAYED_CONFIG").map(PathBuf::from);
        let ssh = Ssh::new(program, Settings { destination: "machine".to_owned(), config, ..Settings::default() });
        let site = ssh.start(&NEVER).unwrap();
        std::mem::forget(ssh);
        site
    });
}

#[test]
fn a_connection_that_breaks_in_the_middle_is_made_again_for_the_next_site() {
    let (program, Some(server)) = (Program::new(), Server::start()) else { return };
    let ssh = Ssh::new(program.path(), server.settings());
    let mut site = ssh.start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    wait_for(|| (!server.left().is_empty()).then_some(()));
    server.cut();
    assert_eq!(std::io::Read::read(&mut link.from_agent, &mut [0]).unwrap(), 0, "the stream has ended");
    drop(site);
    drop(ssh.start(&NEVER).unwrap());
    drop(ssh);
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
}

#[test]
fn what_ssh_refuses_is_said_with_its_own_words_and_never_asked() {
    let (program, Some(server)) = (Program::new(), Server::start()) else { return };
    let refused = |settings: Settings| {
        let ssh = Ssh::new(program.path(), settings);
        let missing = ssh.probe().unwrap_err().to_string();
        let start = ssh.start(&NEVER).err().unwrap().to_string();
        assert!(start.starts_with("the program could not be brought to "), "{start}");
        missing
    };
    let stranger = server.folder.path().join("ssh_config_stranger");
    let text = fs::read_to_string(server.folder.path().join("ssh_config")).unwrap();
    fs::write(&stranger, text.replace("/user\n", "/stranger\n")).unwrap();
    let missing = refused(Settings { config: Some(stranger.clone()), ..server.settings() });
    assert!(missing.contains("Permission denied (publickey"), "{missing}");
    assert!(missing.contains("make `ssh -o BatchMode=yes machine true` work"), "{missing}");
    fs::write(&stranger, text.replace("known_hosts", "no_hosts")).unwrap();
    let missing = refused(Settings { config: Some(stranger), ..server.settings() });
    assert!(missing.contains("Host key verification failed"), "{missing}");
    let held = HeldPort::any().unwrap();
    let nobody = held.number();
    let missing = refused(Settings { port: Some(nobody), ..server.settings() });
    assert!(missing.contains("Connection refused"), "{missing}");
    assert_ne!(nobody, server.port);
}

#[test]
fn a_machine_that_lets_in_and_never_speaks_is_given_up_at_its_limit() {
    let program = Program::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings {
        destination: "127.0.0.1".to_owned(),
        port: Some(silent.local_addr().unwrap().port()),
        config: Some(PathBuf::from("/dev/null")),
        connect_limit: Some(Duration::from_secs(2)),
        push_limit: Some(Duration::from_secs(1)),
        ..Settings::default()
    };
    let ssh = Ssh::new(program.path(), settings);
    let begun = Instant::now();
    let missing = ssh.probe().unwrap_err().to_string();
    if missing.contains("install the OpenSSH client") {
        eprintln!("skipped: no ssh");
        return;
    }
    assert!(missing.starts_with("127.0.0.1 cannot be reached by ssh: ") && missing.contains("timed out"), "{missing}");
    let why = ssh.start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("127.0.0.1") && why.contains("timed out"), "{why}");
    // The limits, and what a busy machine adds; without them ssh would wait for as long as the other side does.
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn a_program_that_does_not_run_there_is_said() {
    let Some(server) = Server::start() else { return };
    let foreign = server.folder.path().join("foreign");
    fs::write(&foreign, b"\x7fELF but of no machine at all").unwrap();
    let ssh = Ssh::new(foreign, server.settings());
    let why = ssh.start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("could not be brought to machine; its last words:"), "{why}");
    assert_eq!(server.pushed(), [[""; 0]; 0]);
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_remote_machines_take() {
    let (program, Some(server)) = (Program::new(), Server::start()) else { return };
    print_times(&Ssh::new(program.path(), server.settings()), cpu());
}

//! A real sshd of a test's own on the loopback, with keys that nobody else knows.

use super::bench::{children, lives, signal};
use super::sites::wait_for;
use baremark_environments::ssh::Settings;
use baremark_sys::network::HeldPort;
use baremark_sys::process_tree;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running sshd. The agents' folders are in `temporary`.
pub struct Server {
    pub folder: TempDir,
    pub port: u16,
    sshd: Child,
}

impl Server {
    /// Starts one; where it cannot be, a line that is counted, or a failure where the gate demands it.
    pub fn start() -> Option<Self> {
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
        // Short: servers have sockets below, whose paths may have 107 bytes.
        fs::create_dir(path("t")).unwrap();
        // Nobody else is given this port before sshd listens there.
        let held = HeldPort::any().unwrap();
        let port = held.number();
        let lines = [
            format!("Port {port}\nListenAddress 127.0.0.1\nHostKey {}", path("host")),
            format!("AuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no", path("user.pub")),
            format!("PermitRootLogin yes\nPasswordAuthentication no\nSetEnv TMPDIR={}\n", path("t")),
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
        let server = Server { port, sshd: command.spawn().unwrap(), folder };
        wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
        drop(held);
        Some(server)
    }

    /// Lets the users of services get to what agents there keep for them.
    pub fn let_others_through(&self) {
        for folder in [self.folder.path().to_owned(), self.folder.path().join("t")] {
            fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        }
    }

    /// ssh's configuration that leads there.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("ssh_config")
    }

    /// The environment that leads there.
    pub fn settings(&self) -> Settings {
        let config = Some(self.folder.path().join("ssh_config"));
        Settings { destination: "machine".to_owned(), config, ..Settings::default() }
    }

    /// The folders that were brought there, with what is in them.
    pub fn pushed(&self) -> Vec<Vec<String>> {
        let listed = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
        let folders = listed(self.folder.path().join("t"));
        let names = |path| listed(path).map(|entry| entry.file_name().into_string().unwrap()).collect();
        folders.map(|folder| names(folder.path())).collect()
    }

    /// The agents that run there, and the traces that they leave until they are known to be gone, in words.
    pub fn left(&self) -> Vec<String> {
        let root = self.folder.path().join("t");
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
        let sessions = children(self.sshd.id());
        let halves: Vec<u32> = sessions.iter().flat_map(|&session| children(session)).collect();
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

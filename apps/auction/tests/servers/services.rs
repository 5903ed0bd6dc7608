//! PostgreSQL, MariaDB and Redis of the tests' own: on free ports, in temporary folders, gone with the test.

use crate::http::until;
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A port that nobody else is given until this process has ended: it stays bound, and the service may listen there all the same.
fn free_port() -> u16 {
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    held.set_reuse_address(true).unwrap();
    held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = held.local_addr().unwrap().as_socket().unwrap().port();
    std::mem::forget(held);
    port
}

fn find(names: &[&str], folders: &[PathBuf]) -> Option<PathBuf> {
    let all = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    all.into_iter().find(|path| path.is_file())
}

fn program(names: &[&str]) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"].map(PathBuf::from);
    find(names, &folders)
}

/// Databases refuse to run as root: the ids of a user who is not.
fn somebody(wanted: &str) -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let user = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    user(wanted).or_else(|| user("nobody")).expect("a user who is not root")
}

/// `program` as that user if this is root, ended by the kernel when the test is.
fn as_user((user, group): (u32, u32), program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A running service.
pub struct Service {
    pub url: String,
    port: u16,
    program: PathBuf,
    arguments: Vec<String>,
    user: (u32, u32),
    child: Option<Child>,
    _folder: TempDir,
}

impl Service {
    pub fn start(&mut self) {
        let port = self.port;
        until("a service that answers", || {
            let ended = self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
            if ended {
                self.child = Some(as_user(self.user, &self.program).args(&self.arguments).spawn().unwrap());
            }
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }

    /// A client of its installation.
    pub fn client(&self, name: &str) -> PathBuf {
        self.program.with_file_name(name)
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Asked first, so that it takes its own children with it.
        if let Some(child) = &mut self.child {
            let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while std::time::Instant::now() < end && child.try_wait().is_ok_and(|status| status.is_none()) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        self.kill();
    }
}

fn ran(mut command: Command) -> Result<(), String> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().map_err(|why| why.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}

/// A cluster of PostgreSQL, if it is installed.
pub fn postgres() -> Option<Service> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path().join("bin")).collect();
    let (initdb, postgres) = (find(&["initdb"], &folders)?, find(&["postgres"], &folders)?);
    let (folder, user, port) = (TempDir::new().unwrap(), somebody("postgres"), free_port());
    let _ = chown(folder.path(), Some(user.0), Some(user.1));
    let data = folder.path().join("data");
    let mut init = as_user(user, &initdb);
    init.args(["--no-sync", "--auth=trust", "--username=auction", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
    ran(init).unwrap();
    let (data, sockets) = (data.to_str().unwrap(), folder.path().to_str().unwrap());
    let arguments = words(&[
        "-D",
        data,
        "-k",
        sockets,
        "-p",
        &port.to_string(),
        "-h",
        "127.0.0.1",
        "-c",
        "shared_buffers=128MB",
        "-c",
        "max_wal_size=4GB",
    ]);
    let url = format!("postgres://auction@127.0.0.1:{port}/postgres");
    let mut service = Service { url, port, program: postgres, arguments, user, child: None, _folder: folder };
    service.start();
    // It takes connections before it has started, only to refuse them.
    let ready = find(&["pg_isready"], &folders)?;
    until("a PostgreSQL that has started", || {
        let mut ask = Command::new(&ready);
        ask.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
        ask.status().unwrap().success().then_some(())
    });
    Some(service)
}

/// A MariaDB, if it is installed.
pub fn mariadb() -> Option<Service> {
    let (install, server) = (program(&["mariadb-install-db"])?, program(&["mariadbd"])?);
    let (folder, user, port) = (TempDir::new().unwrap(), somebody("mysql"), free_port());
    let _ = chown(folder.path(), Some(user.0), Some(user.1));
    let path = folder.path().to_str().unwrap();
    let mut init = as_user(user, &install);
    init.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-name-resolve"]);
    // Files of its own go where it may write.
    init.arg(format!("--datadir={path}/data")).env("TMPDIR", folder.path());
    ran(init).unwrap();
    let arguments = words(&[
        "--no-defaults",
        &format!("--datadir={path}/data"),
        &format!("--socket={path}/socket"),
        &format!("--pid-file={path}/pid"),
        // When it is killed its temporary tables stay.
        &format!("--tmpdir={path}"),
        &format!("--port={port}"),
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=32M",
        "--skip-name-resolve",
    ]);
    let url = format!("mysql://root@127.0.0.1:{port}/test");
    let mut service = Service { url, port, program: server, arguments, user, child: None, _folder: folder };
    service.start();
    Some(service)
}

/// A Redis, if it is installed.
pub fn redis() -> Option<Service> {
    let server = program(&["redis-server"])?;
    let (folder, user, port) = (TempDir::new().unwrap(), somebody("redis"), free_port());
    let _ = chown(folder.path(), Some(user.0), Some(user.1));
    let path = folder.path().to_str().unwrap().to_owned();
    let arguments = words(&["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir", &path]);
    let url = format!("redis://127.0.0.1:{port}");
    let mut service = Service { url, port, program: server, arguments, user, child: None, _folder: folder };
    service.start();
    Some(service)
}

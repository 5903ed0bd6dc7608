//! The database on a server that somebody else has started: used, left as it was, and its password nowhere to be read.

use crate::common::bench::{Bench, root, text};
use crate::common::tiers::{document, ran, sound};
use baremark_sys::network::HeldPort;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PASSWORD: &str = "Sesame-4711-open";

/// A PostgreSQL of others, ended when it is dropped.
struct Server {
    programs: PathBuf,
    port: u16,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Option<Server> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let programs =
            versions.flatten().map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists())?;
        let folder = tempfile::tempdir().unwrap();
        let (data, pass) = (folder.path().join("data"), folder.path().join("pass"));
        std::fs::write(&pass, PASSWORD).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::set_permissions(&pass, std::fs::Permissions::from_mode(0o644)).unwrap();
        // Nobody else is given this port before PostgreSQL listens there.
        let held = HeldPort::any().unwrap();
        let port = held.number();
        let as_postgres = |program: &str| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL", "--"]);
            command.arg(programs.join(program)).current_dir("/");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let mut make = as_postgres("initdb");
        make.args(["--no-sync", "-A", "scram-sha-256", "-U", "somebody", "--locale=C", "-E", "UTF8", "--pwfile"]);
        assert!(make.arg(&pass).arg("-D").arg(&data).status().unwrap().success());
        let mut serve = as_postgres("postgres");
        serve.arg("-D").arg(&data).arg("-k").arg(folder.path());
        let child = serve.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "fsync=off"]).spawn().unwrap();
        let server = Server { programs, port, child, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !server.sql("postgres", "select 1").contains('1') {
            assert!(Instant::now() < deadline, "PostgreSQL did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(held);
        Some(server)
    }

    /// What a statement gives.
    fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.env("PGPASSWORD", PASSWORD).args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "somebody"]);
        text(&psql.args(["-d", database, "-qAtc", sql]).output().unwrap().stdout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        crate::common::bench::signal(self.child.id(), libc::SIGQUIT);
        let _ = self.child.wait();
    }
}

/// Every byte of every file below a folder.
fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        all.extend(if path.is_dir() { bytes_below(&path) } else { std::fs::read(&path).unwrap_or_default() });
    }
    all
}

#[test]
fn the_database_can_be_one_that_somebody_else_has_started() {
    let Some(server) = root().then(Server::start).flatten() else {
        eprintln!("skipped: PostgreSQL is not installed, or this is not root");
        return;
    };
    let bench = Bench::new();
    let credentials = bench.write("credentials", format!("somebody\n{PASSWORD}\n"));
    std::fs::set_permissions(&credentials, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (on, file) = (
        format!("database.on=external:localhost:{}", server.port),
        format!("database.credentials={}", credentials.display()),
    );
    let few = ["load.users=10", "load.warm_up=1 s", "load.duration=2 s", "limits.mix=900 %", "topology.max_users=75"];
    let set = [&["database.service=postgres", &on, &file][..], &few].concat();
    let kept = bench.path("kept");
    let output = ran(&bench, &set, &["--keep", kept.to_str().unwrap()]);
    let result = document(&output);
    let row = sound(&result);
    assert_eq!(row["tiers"]["database"]["on"], format!("external:localhost:{}", server.port));
    assert!(row["load"]["cpus_used"]["database.cpus"].is_null(), "nobody sees it: {}", row["load"]["cpus_used"]);
    assert!(result["remarks"].to_string().contains("the CPU time of the database is not known"), "{result}");
    let left = "select count(*) from pg_database where datname like 'baremark%'";
    assert_eq!(server.sql("postgres", left).trim(), "0", "it is removed at the end");
    std::fs::remove_file(&credentials).unwrap();
    let everything = [output.stdout, output.stderr, bytes_below(bench.folder.path())].concat();
    assert!(!everything.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes()), "the password was stored");
    // One with tables of others is refused and left as it is; credentials come from the environment.
    server.sql("postgres", "create database theirs");
    server.sql("theirs", "create table accounts as select 42 as id");
    let mut command = bench.command(&["auction", "run"]);
    let named = ["database.service=postgres", &on, "database.name=theirs"];
    command.args(named.iter().chain(crate::common::tiers::SMALL).flat_map(|text| ["--set", text]));
    command.env("BAREMARK_DATABASE_USER", "somebody").env("BAREMARK_DATABASE_PASSWORD", PASSWORD);
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the database 'theirs' holds tables that are not this program's (1: accounts)"), "{said}");
    assert_eq!(server.sql("theirs", "select id from accounts").trim(), "42");
}

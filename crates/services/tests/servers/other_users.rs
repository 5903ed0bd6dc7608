//! What another user of this machine can do with each server: nothing without its password, and nothing with its files.

use crate::bench::{FOREIGN, order, service, start};
use crate::conformance::soon;
use baremark_services::Folder;
use baremark_services::service::Instance;
use baremark_sys::confine;
use baremark_sys::process_tree;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SECRET: &str = "s3cr3tOfThisTest";
/// A secret in the environment of whoever starts a server.
const CANARY: &str = "c4n4ryInTheEnvironment";
/// A user who is neither the superuser nor any server's.
const STRANGER: u32 = 65_533;

/// All that is below a folder, and it.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// A command of another user's, where this test may become one.
fn as_stranger(program: &str) -> Option<Command> {
    if !confine::is_root() {
        eprintln!("skipped: only the superuser can become another user");
        return None;
    }
    let mut command = Command::new(program);
    command.uid(STRANGER).gid(STRANGER).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    Some(command)
}

/// Of each process: what a line of its status says of users and groups.
fn identities(pid: u32, key: &str) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn no_server_runs_as_the_superuser_or_shows_its_files_to_another_user() {
    for kind in FOREIGN {
        let Some(service) = service(kind) else { continue };
        let folder = Folder::create(&std::env::temp_dir()).unwrap();
        let instance = start(service, order(service, &folder, "it")).unwrap_or_else(|why| panic!("{why}"));
        let pids = process_tree::pids(instance.pid().unwrap()).unwrap();
        assert!(!pids.is_empty(), "{kind}");
        for pid in pids {
            for key in ["Uid:", "Gid:", "Groups:"] {
                let found = identities(pid, key);
                assert!(!found.contains(&0) || !confine::is_root(), "{kind}: {key} {found:?}");
            }
        }
        let paths = below(instance.folder());
        let has_socket = paths.contains(&instance.folder().join("mariadb.sock"));
        assert!(paths.len() > 1 && has_socket == (kind == "mariadb"), "{kind}: {paths:?}");
        let Some(mut command) = as_stranger("sh") else { continue };
        let script = "for path; do if [ -e \"$path\" ] || [ -r \"$path\" ]; then echo \"$path\"; fi; done; echo over";
        let output = command.args(["-c", script, "sh"]).args(&paths).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "over\n", "{kind}: {output:?}");
    }
}

/// Not even what this process has in its environment, or a password that a client needs.
#[test]
fn no_environment_of_a_server_has_a_secret() {
    for kind in FOREIGN {
        if service(kind).is_none() {
            continue;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "conformance::starts_a_service_and_waits_for_its_end", "--ignored", "--nocapture"])
            .env("BAREMARK_TEST_SERVICE", kind)
            .env("BAREMARK_TEST_FILE", file.path())
            .env("BAREMARK_DATABASE_PASSWORD", CANARY)
            .env("PGPASSWORD", CANARY)
            .spawn()
            .unwrap();
        let told = || fs::read_to_string(file.path()).unwrap();
        soon(&format!("{kind} was not started"), || told().ends_with(']'));
        let told = told();
        let (left, list) = told.split_once('\n').unwrap();
        let pids: Vec<u32> = list.trim_matches(['[', ']']).split(", ").map(|pid| pid.parse().unwrap()).collect();
        let shown = |pid: &u32, file: &str| {
            String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()).into_owned()
        };
        let of_starter = shown(&child.id(), "environ");
        let of_servers: String = pids.iter().flat_map(|pid| [shown(pid, "environ"), shown(pid, "cmdline")]).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        soon(&format!("{kind}: the next run removes what a killed one left"), || {
            drop(Folder::create(&std::env::temp_dir()).unwrap());
            !Path::new(left).exists()
        });
        assert!(of_starter.contains(CANARY), "the test looks where it can be seen");
        assert!(of_servers.contains(kind) || of_servers.contains("baremark-services-"), "{kind}: {of_servers}");
        assert!(!of_servers.contains(CANARY) && !of_servers.contains(SECRET), "{kind}: {of_servers}");
    }
}

fn client(program: &Path, instance: &Instance, args: &[&str]) -> Output {
    let (host, port) = (instance.address().ip().to_string(), instance.address().port().to_string());
    let program = program.display().to_string();
    let mut command = as_stranger(&program).unwrap_or_else(|| Command::new(&program));
    let args = args.iter().map(|arg| arg.replace("HOST", &host).replace("PORT", &port));
    command.args(args).output().unwrap()
}

#[test]
fn postgres_lets_nobody_in_without_the_password() {
    let Some(service) = service("postgres") else { return };
    let folder = Folder::create(&std::env::temp_dir()).unwrap();
    let instance = start(service, order(service, &folder, "it")).unwrap_or_else(|why| panic!("{why}"));
    let psql = instance.order().program.with_file_name("psql");
    for user in ["auction", "postgres", "root"] {
        let output = client(
            &psql,
            &instance,
            &["-w", "-h", "HOST", "-p", "PORT", "-U", user, "-d", "postgres", "-c", "select 1"],
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let reason = if user == "auction" { "no password supplied" } else { "pg_hba.conf rejects connection" };
        assert!(!output.status.success() && said.contains(reason), "{user}: {said}");
    }
    let known = |user: &str, sql: &str| {
        let mut command = Command::new(&psql);
        command.env("PGPASSFILE", instance.folder().join("client-password")).args(["-w", "-qAt", "-h"]);
        command.args([&instance.address().ip().to_string(), "-p", &instance.address().port().to_string()]);
        let output = command.args(["-U", user, "-d", "auction", "-c", sql]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(known("postgres", "select 1").contains("rejects connection"), "not even with the password");
    assert_eq!(known("auction", "select rolsuper from pg_roles where rolname = current_user").trim(), "f");
    for sql in ["copy (select 1) to program 'true'", "select pg_read_file('/etc/passwd')"] {
        let said = known("auction", sql);
        let refused = ["permission denied", "must be superuser"].iter().any(|words| said.contains(words));
        assert!(refused, "{sql}: {said}");
    }
}

#[test]
fn redis_and_valkey_let_nobody_in_without_the_password() {
    for kind in ["redis", "valkey"] {
        let Some(service) = service(kind) else { continue };
        let folder = Folder::create(&std::env::temp_dir()).unwrap();
        let instance = start(service, order(service, &folder, "it")).unwrap_or_else(|why| panic!("{why}"));
        for command in ["PING", "CONFIG GET dir", "AUTH wrong"] {
            let mut stream = TcpStream::connect(instance.address()).unwrap();
            stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("-NOAUTH") || answer.starts_with("-WRONGPASS"), "{kind}: {command}: {answer}");
        }
    }
}

/// Every user of the machine was its root, without a password, and wrote files as its user.
#[test]
fn mariadb_lets_nobody_in_without_the_password_and_touches_no_files_for_anybody() {
    let Some(service) = service("mariadb") else { return };
    let folder = Folder::create(&std::env::temp_dir()).unwrap();
    let instance = start(service, order(service, &folder, "it")).unwrap_or_else(|why| panic!("{why}"));
    let mariadb = Path::new("/usr/bin/mariadb");
    for user in ["root", "mysql", "auction", "mariadb.sys", ""] {
        let user = format!("--user={user}");
        let args = ["--no-defaults", "--protocol=tcp", "-h", "HOST", "-P", "PORT", &user, "-e", "select 1"];
        let output = client(mariadb, &instance, &args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("ERROR 1045"), "{user}: {said}");
    }
    // Whoever may enter its folder is not let in either.
    let socket = format!("--socket={}", instance.folder().join("mariadb.sock").display());
    for user in ["root", "mysql"] {
        let output =
            Command::new(mariadb).args(["--no-defaults", &socket, "-u", user, "-e", "select 1"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("ERROR 1045"), "{user}: {said}");
    }
    let known = |sql: &str| {
        let defaults = format!("--defaults-file={}", instance.folder().join("client-password").display());
        let (host, port) = (instance.address().ip().to_string(), instance.address().port().to_string());
        let args = [&defaults, "--protocol=tcp", "-h", &host, "-P", &port, "-u", "auction", "-BNe", sql, "auction"];
        let output = Command::new(mariadb).args(args).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let variables = known("select @@local_infile, @@secure_file_priv, @@skip_name_resolve");
    assert_eq!(variables.split_whitespace().collect::<Vec<_>>(), ["0", "/dev/null/", "1"], "{variables}");
    let target = folder.path().join("planted");
    let written = known(&format!("select 'x' into outfile '{}'", target.display()));
    assert!(written.contains("ERROR") && !target.exists(), "{written}");
    assert_eq!(known("select load_file('/etc/passwd') is null").trim(), "1");
    assert!(known("select count(*) from mysql.global_priv").contains("ERROR 1142"));
}

//! Remote machines: a real sshd of this test's own on the loopback.

use crate::bench::signal;
use crate::sites::{NEVER, Program, as_lab, cpu, lab, print_times, usable, wait_for};
use crate::sshd::Server;
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::ssh::{Settings, Ssh};
use baremark_model::site::Environment;
use baremark_sys::network::HeldPort;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    let mut lab = lab("machines::a_lab_to_be_killed", &program, &[("BAREMARK_PLAYED_CONFIG", &config)]);
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

//! What holds for every service with its real program.

use crate::bench::{Backend, FOREIGN, before_two, order, service, start};
use baremark_services::Folder;
use baremark_services::error::ServiceError;
use baremark_services::place::Native;
use baremark_services::service::Instance;
use baremark_sys::confine::Limits;
use baremark_sys::process_tree;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub fn gone(pids: &[u32]) -> bool {
    pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists() || is_zombie(*pid))
}

/// `None` of a process that is gone.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn is_zombie(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Whether a process is stopped, or has ended.
fn is_stopped(pid: u32) -> bool {
    is_zombie(pid) || state(pid) == Some('T')
}

/// Processes that are in a folder or were started with its name: whatever an instance has left, seen by somebody who knows
/// nothing of its processes.
pub fn left(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap();
    let name = folder.to_str().unwrap();
    let of = |entry: &std::fs::DirEntry| -> Option<String> {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // Neither can be read of one that has ended.
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let found = pid != std::process::id() && (cwd.starts_with(&folder) || words.contains(name));
        found.then(|| format!("{pid}: {words} in {}", cwd.display()))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| of(&entry)).collect()
}

pub fn soon(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_starts_tells_of_itself_and_leaves_nothing() {
    for kind in FOREIGN {
        let Some(service) = service(kind) else { continue };
        let folder = Folder::create(&std::env::temp_dir()).unwrap();
        let backend = Backend::new("one");
        let mut order = order(service, &folder, "it");
        order.upstreams = vec![backend.upstream.clone()];
        let address = order.address;
        let mut instance = start(service, order).unwrap_or_else(|why| panic!("{why}"));
        let statistics = instance.statistics().unwrap_or_else(|why| panic!("{why}"));
        assert!(!statistics.is_empty(), "{kind} tells nothing of itself");
        let usage = instance.usage();
        assert!(usage.processes > 0 && usage.resident_bytes > 0, "{kind}: {usage:?}");
        assert_ne!(left(folder.path()), [""; 0], "{kind} cannot be found");
        instance.stop(Duration::from_secs(60));
        assert_eq!(left(folder.path()), [""; 0], "{kind} has left processes");
        assert!(TcpListener::bind(address).is_ok(), "{kind} still listens");
        assert!(!instance.log().join("\n").contains("s3cr3t"), "{kind} logs its secret");
    }
}

#[test]
fn each_is_killed_with_all_its_processes_and_starts_again() {
    for kind in FOREIGN {
        let Some(service) = service(kind) else { continue };
        let folder = Folder::create(&std::env::temp_dir()).unwrap();
        let mut instance = start(service, order(service, &folder, "it")).unwrap_or_else(|why| panic!("{why}"));
        instance.kill();
        assert_eq!(left(folder.path()), [""; 0], "{kind} has left processes");
        instance.restart().unwrap_or_else(|why| panic!("{why}"));
        instance.wait_ready(&AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn each_is_suspended_with_all_its_processes_and_serves_again_when_it_is_resumed() {
    for kind in FOREIGN {
        let Some(service) = service(kind) else { continue };
        let folder = Folder::create(&std::env::temp_dir()).unwrap();
        let mut instance = start(service, order(service, &folder, "it")).unwrap_or_else(|why| panic!("{why}"));
        for round in 0..3 {
            instance.suspend().unwrap_or_else(|why| panic!("{why}"));
            let pids = process_tree::pids(instance.pid().unwrap()).unwrap();
            assert!(pids.iter().all(|pid| is_stopped(*pid)), "{kind}, round {round}: {pids:?}");
            // What has just stopped may still leave its CPU.
            std::thread::sleep(Duration::from_millis(20));
            let used_ns = instance.suspended_cpu_ns();
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(instance.suspended_cpu_ns(), used_ns, "{kind}, round {round}");
            assert!(instance.is_running(), "{kind}, round {round}");
            instance.resume();
            instance.wait_ready(&AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
        }
        instance.suspend().unwrap_or_else(|why| panic!("{why}"));
        instance.stop(Duration::from_secs(60));
        assert_eq!(left(folder.path()), [""; 0], "{kind} has left processes");
    }
}

#[test]
fn a_taken_port_and_a_wrong_line_are_told() {
    for kind in FOREIGN {
        let Some(service) = service(kind) else { continue };
        let folder = Folder::create(&std::env::temp_dir()).unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut busy = order(service, &folder, "busy");
        busy.address = taken.local_addr().unwrap();
        match start(service, busy) {
            Err(ServiceError::Taken { name, .. }) => assert_eq!(name, "busy"),
            Err(other) => panic!("{kind}: {other}"),
            Ok(_) => panic!("{kind} shares a port"),
        }
        let mut wrong = order(service, &folder, "wrong");
        wrong.settings.extra = vec!["no-such-word 1;".to_owned()];
        let why = start(service, wrong).err().unwrap_or_else(|| panic!("{kind} takes nonsense")).to_string();
        assert!(why.starts_with("wrong: ") && why.contains("its last lines:\n"), "{kind}: {why}");
    }
}

#[test]
#[ignore = "a process of the next test: starts a service and is killed"]
fn starts_a_service_and_waits_for_its_end() {
    let kind = std::env::var("BAREMARK_TEST_SERVICE").unwrap();
    let service = service(&kind).unwrap();
    let folder = Folder::create(&std::env::temp_dir()).unwrap();
    let mut instance = start(service, order(service, &folder, "it")).unwrap();
    if std::env::var_os("BAREMARK_TEST_SUSPENDED").is_some() {
        instance.suspend().unwrap_or_else(|why| panic!("{why}"));
    }
    let pids = process_tree::pids(instance.pid().unwrap()).unwrap();
    let stops = std::env::var_os("BAREMARK_TEST_SUSPENDED").is_some();
    assert!(!stops || pids.iter().all(|pid| is_stopped(*pid)), "{pids:?}");
    std::fs::write(std::env::var("BAREMARK_TEST_FILE").unwrap(), format!("{}\n{pids:?}", folder.path().display()))
        .unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn each_dies_with_the_one_that_started_it() {
    dies_with_the_one_that_started_it(&|_| ());
}

/// Who starts it has a session of its own, in which nobody is left: the kernel continues a process group that loses its parent then.
#[test]
fn each_dies_with_the_one_that_started_it_also_while_it_is_suspended() {
    dies_with_the_one_that_started_it(&|command| {
        command.env("BAREMARK_TEST_SUSPENDED", "1");
    });
}

fn dies_with_the_one_that_started_it(change: &dyn Fn(&mut std::process::Command)) {
    for kind in FOREIGN {
        if service(kind).is_none() {
            continue;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = std::process::Command::new("setsid");
        change(&mut command);
        let mut child = command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "conformance::starts_a_service_and_waits_for_its_end", "--ignored", "--nocapture"])
            .env("BAREMARK_TEST_SERVICE", kind)
            .env("BAREMARK_TEST_FILE", file.path())
            .spawn()
            .unwrap();
        let told = || std::fs::read_to_string(file.path()).unwrap();
        soon(&format!("{kind} was not started"), || told().ends_with(']'));
        child.kill().unwrap();
        child.wait().unwrap();
        let told = told();
        let (left, list) = told.split_once('\n').unwrap();
        let pids: Vec<u32> = list.trim_matches(['[', ']']).split(", ").map(|pid| pid.parse().unwrap()).collect();
        soon(&format!("{kind} outlives who started it"), || gone(&pids));
        soon(&format!("{kind}: the next run removes what a killed one left"), || {
            drop(Folder::create(&std::env::temp_dir()).unwrap());
            !Path::new(left).exists()
        });
    }
}

#[test]
fn servers_come_and_go_behind_a_balancer_without_a_failed_request() {
    for kind in ["haproxy", "nginx", "apache"] {
        let Some((service, _folder, order, [one, two])) = before_two(kind) else { continue };
        let address = order.address;
        let mut instance = start(service, order).unwrap_or_else(|why| panic!("{why}"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let askers: Vec<_> = (0..4).map(|_| scope.spawn(|| ask_until(address, &over))).collect();
            let served = |backend: &Backend| backend.served.load(Ordering::Relaxed);
            soon("the first server serves", || served(&one) > 20);
            instance.rewire(&[one.upstream.clone(), two.upstream.clone()]).unwrap_or_else(|why| panic!("{why}"));
            soon(&format!("{kind}: the second server serves"), || served(&two) > 20);
            instance.rewire(std::slice::from_ref(&two.upstream)).unwrap_or_else(|why| panic!("{why}"));
            // A reload takes its time; then the first is left alone but for health checks.
            soon(&format!("{kind}: the first is left alone"), || {
                let (before, then) = (served(&one), served(&two));
                soon(&format!("{kind}: the second goes on"), || served(&two) > then + 100);
                served(&one) - before < 20
            });
            over.store(true, Ordering::Relaxed);
            let failed: Vec<String> = askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect();
            assert!(failed.is_empty(), "{kind}: {failed:?}");
        });
    }
}

/// GETs, each on a connection of its own, so that a reload has none to close on the way; what failed is returned.
fn ask_until(address: std::net::SocketAddr, over: &AtomicBool) -> Vec<String> {
    use std::io::{Read, Write};
    let mut failed = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = || -> std::io::Result<String> {
            let mut stream = std::net::TcpStream::connect(address)?;
            stream.write_all(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        match asked() {
            Ok(text) if text.starts_with("HTTP/1.1 200") => {}
            Ok(text) => failed.push(text),
            Err(why) => failed.push(why.to_string()),
        }
    }
    failed
}

#[test]
fn limits_hold_and_are_told() {
    let Some(service) = service("redis") else { return };
    let folder = Folder::create(&std::env::temp_dir()).unwrap();
    let cpu = baremark_sys::affinity::allowed_cpus().unwrap()[0];
    let limits = Limits { cpus: vec![cpu], memory_bytes: Some(256 << 20), open_files: None };
    let mut instance = Instance::start(service, order(service, &folder, "it"), &limits, Box::new(Native)).unwrap();
    instance.wait_ready(&AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
    assert_ne!(instance.memory_limit(), baremark_sys::confine::MemoryLimit::None);
    let status = std::fs::read_to_string(format!("/proc/{}/status", instance.pid().unwrap())).unwrap();
    assert!(status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{status}");
}

//! Instances that another process carries out: the same as if they were here.

use crate::bench::{before_two, free, order, service};
use crate::conformance::{left, soon};
use baremark_services::Folder;
use baremark_services::error::ServiceError;
use baremark_services::order::Order;
use baremark_services::place::{Control, Place};
use baremark_services::recipe::Step;
use baremark_services::remote_instance::carry;
use baremark_services::remote_site::FILE;
use baremark_services::service::Instance;
use baremark_sys::confine::Limits;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THERE: &str = "BAREMARK_TEST_CARRIED";

/// A process of this test in a folder of its own, as if that were elsewhere.
struct Beyond {
    there: PathBuf,
    control: SocketAddr,
}

impl Place for Beyond {
    fn label(&self) -> String {
        "beyond".to_owned()
    }

    fn is_here(&self) -> bool {
        false
    }

    fn control(&self) -> Option<Control> {
        Some(Control { here: self.control, there: self.control })
    }

    fn dress(&self, order: &Order, _step: Step) -> Result<Step, ServiceError> {
        std::fs::create_dir(&self.there).unwrap();
        std::fs::copy(order.folder.join(FILE), self.there.join(FILE)).unwrap();
        let words = ["--exact", "carried::carries_out_what_lies_in_its_folder", "--ignored", "--nocapture"];
        Ok(Step::new(std::env::current_exe().unwrap(), words).env(THERE, self.there.to_str().unwrap()))
    }
}

#[test]
#[ignore = "a process of the other tests: carries out"]
fn carries_out_what_lies_in_its_folder() {
    let there = std::env::var(THERE).unwrap();
    std::env::set_current_dir(there).unwrap();
    let why = carry(FILE.as_ref(), &AtomicBool::new(false), &mut |line| eprintln!("{line}")).unwrap_err();
    eprintln!("{why}");
    // A panic would have words of its own after that.
    std::process::abort();
}

fn ask(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_carried_instance_serves_tells_is_rewired_and_goes() {
    for kind in ["haproxy", "nginx", "apache"] {
        let Some((service, folder, order, [_one, two])) = before_two(kind) else { continue };
        let address = order.address;
        let place = Beyond { there: folder.path().join("there"), control: free() };
        let control = place.control;
        let mut instance = Instance::start(service, order, &Limits::default(), Box::new(place)).unwrap();
        instance.wait_ready(&AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
        assert!(!instance.statistics().unwrap_or_else(|why| panic!("{why}")).is_empty(), "{kind}");
        assert!(ask(address).ends_with("one"), "{kind}");
        instance.rewire(std::slice::from_ref(&two.upstream)).unwrap_or_else(|why| panic!("{why}"));
        let before = two.served.load(Ordering::Relaxed);
        soon("the other serves", || ask(address).ends_with("two"));
        assert!(two.served.load(Ordering::Relaxed) > before);
        match instance.reload() {
            Ok(()) => assert_ne!(kind, "haproxy"),
            Err(why) => assert!(kind == "haproxy" && why.to_string().contains("cannot take a new configuration")),
        }
        let mut stranger = TcpStream::connect(control).unwrap();
        stranger.write_all(b"{\"secret\":\"a guess\",\"told\":\"statistics\"}\n").unwrap();
        let mut answer = String::new();
        drop(stranger.read_to_string(&mut answer));
        assert_eq!(answer, "", "a stranger is told nothing");
        assert!(left(folder.path()).len() > 1, "{:?}", left(folder.path()));
        instance.kill();
        assert_eq!(left(folder.path()), [""; 0], "{kind} has left processes");
    }
}

/// nginx forks new workers when it is told to reload, which here is just when it is killed.
#[test]
fn a_carried_nginx_that_is_killed_while_it_reloads_leaves_nothing() {
    for round in 0..12 {
        let Some((service, folder, order, _servers)) = before_two("nginx") else { return };
        let place = Beyond { there: folder.path().join("there"), control: free() };
        let mut instance = Instance::start(service, order, &Limits::default(), Box::new(place)).unwrap();
        instance.wait_ready(&AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
        instance.reload().unwrap_or_else(|why| panic!("{why}"));
        std::thread::sleep(Duration::from_millis(2 * (round % 4)));
        instance.kill();
        assert_eq!(left(folder.path()), [""; 0], "round {round}");
    }
}

#[test]
fn what_cannot_be_carried_out_is_told_with_its_reason() {
    let Some(service) = service("nginx") else { return };
    let folder = Folder::create(&std::env::temp_dir()).unwrap();
    let mut wrong = order(service, &folder, "wrong");
    wrong.settings.extra = vec!["no-such-word 1;".to_owned()];
    let place = Beyond { there: folder.path().join("there"), control: free() };
    let mut instance = Instance::start(service, wrong, &Limits::default(), Box::new(place)).unwrap();
    let why = instance.wait_ready(&AtomicBool::new(false)).unwrap_err().to_string();
    assert!(why.starts_with("wrong: ended before it was ready"), "{why}");
    assert!(why.contains("no-such-word"), "{why}");
}

//! Guests in QEMU. They are emulated here whatever the machine has: these tests are of the mechanics.

use crate::bench::{Bench, children, lives, root, signal, text};
use crate::qemu::{emulated, fetched, guest, left};
use crate::sites::{NEVER, Program, as_lab, cpu, free_port, lab, print_times, trial_of, usable, wait_for};
use baremark_environments::cloud_hypervisor::{self, CloudHypervisor, GuestKernel};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::qemu::{Accel, Backing, Disks, Net, Port, Qemu, Root, Settings, Topology};
use baremark_model::site::Environment;
use baremark_model::wire::{FromAgent, PROTOCOL, ToAgent, WireError, read_frame, write_frame};
use baremark_sys::affinity::allowed_cpus;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_guest_conforms() {
    let program = Program::new();
    let qemu = Qemu::new(program.path(), emulated());
    if !usable(&qemu) {
        return;
    }
    assert!(qemu.emulated(&NEVER));
    let place = Place { cpu: 0, patience: Duration::from_secs(60), residue: &left };
    assert_eq!(conformance(&qemu, &place), Ok(()));
}

#[test]
fn a_guest_that_panics_ends_with_its_last_words() {
    let program = Program::new();
    let settings = Settings { kernel_options: vec!["rdinit=/nowhere".into(), "init=/nowhere".into()], ..emulated() };
    let qemu = Qemu::new(program.path(), settings);
    if !usable(&qemu) {
        return;
    }
    let why = qemu.start(&NEVER).err().unwrap().to_string();
    assert!(why.starts_with("the emulated guest ended before its agent was there; its last words:"), "{why}");
    assert!(why.contains("Kernel panic"), "{why}");
    assert_eq!(left(), [""; 0]);
}

#[test]
fn a_guest_that_never_comes_is_stopped_at_its_limit() {
    let program = Program::new();
    let qemu = Qemu::new(program.path(), Settings { boot_limit: Duration::from_secs(1), ..emulated() });
    if !usable(&qemu) {
        return;
    }
    let begun = Instant::now();
    let why = qemu.start(&NEVER).err().unwrap().to_string();
    assert!(why.starts_with("the agent did not connect within 1 s of the start of its emulated guest"), "{why}");
    // The limit, and what a busy machine adds.
    assert!(begun.elapsed() < Duration::from_secs(60) && left().is_empty(), "{:?}", begun.elapsed());
}

#[test]
fn what_is_set_is_what_the_guest_is_made_of() {
    let program = Program::new();
    let disk = program.path().with_file_name("a,disk");
    fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let port = free_port();
    let cpus = allowed_cpus().unwrap();
    let pin = vec![*cpus.last().unwrap(), cpus[0]];
    let settings = Settings {
        vcpus: 2,
        topology: Topology { sockets: Some(2), ..Topology::default() },
        pin: pin.clone(),
        backing: Backing::Small,
        guest_numa: true,
        disks: Disks { paths: vec![disk], ..Disks::default() },
        net: Net::User(vec![(port, 80)]),
        address: Some("10.0.2.15/24".to_owned()),
        offloads: false,
        module_names: vec!["netem".to_owned(), "md-mod".to_owned()],
        ..emulated()
    };
    let qemu = Qemu::new(program.path(), settings.clone());
    if !usable(&qemu) {
        return;
    }
    let mut site = qemu.start(&NEVER).unwrap();
    let guest = guest().unwrap();
    let mut threads: Vec<u32> = fs::read_dir(format!("/proc/{guest}/task"))
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // QEMU starts the vCPUs' threads in their order.
    threads.sort_unstable();
    let pinned: Vec<usize> = threads
        .iter()
        .filter_map(|thread| {
            let status = fs::read_to_string(format!("/proc/{guest}/task/{thread}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
        })
        .collect();
    assert_eq!(pinned, pin, "each vCPU's thread where it was asked to be, and no other");
    drop(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    let mut link = site.link().unwrap();
    let answer = trial_of(&mut link, 1, 1 << 20);
    assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{answer:?}, {:?}", site.log());
    drop(site);
    assert_eq!(left(), [""; 0]);
    let wrong = Settings { cpu_model: Some("NoSuchCPU".to_owned()), ..settings };
    let why = Qemu::new(program.path(), wrong).start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("unable to find CPU model 'NoSuchCPU'"), "{why}");
    assert_eq!(left(), [""; 0]);
}

/// How QEMU keeps a disk's file open, and by what means it reads and writes it.
fn disk_of(guest: u32, disk: &Path) -> Option<(bool, &'static str)> {
    let open: Vec<(PathBuf, PathBuf)> = fs::read_dir(format!("/proc/{guest}/fd"))
        .ok()?
        .filter_map(|entry| Some((entry.as_ref().ok()?.path(), fs::read_link(entry.ok()?.path()).ok()?)))
        .collect();
    let (descriptor, _) = open.iter().find(|(_, file)| file == disk)?;
    let info = fs::read_to_string(format!("/proc/{guest}/fdinfo/{}", descriptor.file_name()?.to_str()?)).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = libc::c_int::from_str_radix(flags.trim(), 8).ok()?;
    let ring = open.iter().any(|(_, file)| file.to_string_lossy().contains("[io_uring]"));
    let native = fs::read_to_string(format!("/proc/{guest}/maps")).ok()?.contains("[aio]");
    let means = match (ring, native) {
        (true, _) => "io_uring",
        (_, true) => "native",
        _ => "threads",
    };
    Some((flags & libc::O_DIRECT != 0, means))
}

#[test]
fn every_disk_is_read_and_written_as_the_study_says() {
    let program = Program::new();
    // Where direct I/O is possible, which it is not everywhere that temporary files lie.
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let disk = folder.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let with = |cache: &str, aio: &str| {
        let [cache, aio] = [cache, aio].map(str::to_owned);
        let disks = Disks { paths: vec![disk.clone()], cache, aio, ..Disks::default() };
        Qemu::new(program.path(), Settings { disks, ..emulated() })
    };
    if !usable(&with("", "")) {
        return;
    }
    for (cache, aio, direct) in [
        ("", "", true),
        ("none", "native", true),
        ("none", "io_uring", true),
        ("writeback", "threads", false),
        ("writeback", "io_uring", false),
        ("writethrough", "threads", false),
        ("directsync", "native", true),
        ("unsafe", "threads", false),
    ] {
        let (qemu, interrupt) = (with(cache, aio), AtomicBool::new(false));
        let expected = (direct, if aio.is_empty() { "threads" } else { aio });
        thread::scope(|scope| {
            let starting = scope.spawn(|| qemu.start(&interrupt).err().map(|why| why.to_string()));
            // QEMU has its disks long before the guest has booted, for which nobody waits.
            wait_for(|| {
                (guest().and_then(|guest| disk_of(guest, &disk)) == Some(expected) || starting.is_finished())
                    .then_some(())
            });
            interrupt.store(true, Ordering::Relaxed);
            assert_eq!(starting.join().unwrap().as_deref(), Some("interrupted"), "{cache} {aio}");
        });
    }
    assert_eq!(left(), [""; 0]);
}

/// QEMU is asked what became of a disk, and a guest with another one would be refused.
#[test]
fn a_guest_comes_with_each_way_to_cache_its_disk() {
    let program = Program::new();
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let disk = folder.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    for cache in ["writeback", "writethrough", "directsync", "unsafe"] {
        let disks = Disks { paths: vec![disk.clone()], cache: cache.to_owned(), ..Disks::default() };
        let qemu = Qemu::new(program.path(), Settings { disks, memory_bytes: 256 << 20, ..emulated() });
        if !usable(&qemu) {
            return;
        }
        drop(qemu.start(&NEVER).unwrap_or_else(|why| panic!("{cache}: {why}")));
    }
    assert_eq!(left(), [""; 0]);
}

#[test]
fn a_guest_of_this_machines_files_is_refused_where_they_cannot_be_served() {
    let program = Program::new();
    let settings = Settings { root: Root::Host, ..emulated() };
    if !usable(&Qemu::new(program.path(), settings.clone())) || !root() {
        return;
    }
    let shared = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !enabled.contains("[never]") && (shared.contains("[never]") || shared.contains("[deny]")) {
        let huge = Settings { backing: Backing::Huge, ..settings };
        let why = Qemu::new(program.path(), huge).probe().unwrap_err().to_string();
        let expected = "rootfs = host shares the guest's memory, and this machine makes no shared memory of huge pages; \
                        write advise into ";
        assert!(why.starts_with(expected), "{why}");
    }
    let bench = Bench::new();
    let study = format!(
        "[study]\ntitle = \"files\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n[factors]\n\
         environment = [\"native\", \"qemu\"]\nranks = 1\n[environments.qemu]\nkernel = {:?}\naccel = \"tcg\"\n\
         rootfs = \"host\"\n[design]\nphase = \"50 ms\"\nquads = 1\nbudget = \"1 min\"\n",
        bench.path("kernel")
    );
    // Everything lies where anybody may read it, so that only the user makes a difference.
    let copied = Command::new("cp").arg("-rL").arg(fetched()).arg(bench.path("kernel")).status().unwrap();
    assert!(copied.success());
    fs::copy(env!("CARGO_BIN_EXE_baremark"), bench.path("baremark")).unwrap();
    fs::set_permissions(bench.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    bench.write("study.toml", study);
    let said = |command: &mut Command| {
        let output = command.current_dir(bench.folder.path()).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let plan = ["--store", "store.db", "plan", "study.toml"];
    let nobody = said(Command::new(bench.path("baremark")).args(plan).uid(65534).gid(65534));
    let expected = "rootfs = host needs the superuser, who alone may make this machine's files read-only for a guest; run it as \
                    root, or write rootfs = \"program\"";
    assert!(nobody.contains(expected), "{nobody}");
    // Where none of the daemons is: something that is not a program lies over each.
    let hide = "for daemon in /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd /usr/lib/virtiofsd; do \
                  test ! -e $daemon || mount --bind /dev/null $daemon || exit 1; done; exec ./baremark \"$@\"";
    let without = said(Command::new("unshare").args(["--mount", "sh", "-c", hide, "sh"]).args(plan));
    assert!(
        without.contains("rootfs = host needs virtiofsd, which was not found in /usr/libexec/virtiofsd, "),
        "{without}"
    );
    assert!(without.contains("; install it (Debian 12: qemu-system-common, later: virtiofsd)"), "{without}");
}

/// More huge pages than the machine had, until this is dropped.
struct HugePages {
    before: u64,
}

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

fn huge_pages(which: &str) -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':')).unwrap();
    line.trim().parse().unwrap()
}

impl HugePages {
    fn reserve(more: u64) -> Option<Self> {
        let pages = HugePages { before: huge_pages("HugePages_Total") };
        fs::write(RESERVED, (pages.before + more).to_string()).ok()?;
        (huge_pages("HugePages_Free") >= more).then_some(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        drop(fs::write(RESERVED, self.before.to_string()));
    }
}

#[test]
fn reserved_huge_pages_hold_a_guest_and_are_free_after_it() {
    const PAGES: u64 = 256;
    let program = Program::new();
    let settings = Settings { backing: Backing::Reserved, memory_bytes: PAGES << 21, ..emulated() };
    if !usable(&Qemu::new(program.path(), Settings { backing: Backing::AsIs, ..settings.clone() })) {
        return;
    }
    if huge_pages("HugePages_Free") == 0 {
        let why = Qemu::new(program.path(), settings.clone()).probe().unwrap_err().to_string();
        assert_eq!(why, "the guest needs 256 reserved huge pages and 0 are free; reserve them: vm.nr_hugepages");
    }
    let Some(pages) = HugePages::reserve(PAGES) else {
        println!("skipped: {PAGES} huge pages cannot be reserved here");
        return;
    };
    let free = huge_pages("HugePages_Free");
    let mut site = Qemu::new(program.path(), settings).start(&NEVER).unwrap();
    assert!(huge_pages("HugePages_Free") + PAGES / 10 * 9 <= free, "the guest's memory is touched before it starts");
    let answer = trial_of(&mut site.link().unwrap(), 0, 1 << 20);
    assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{answer:?}, {:?}", site.log());
    drop(site);
    assert_eq!(huge_pages("HugePages_Free"), free, "all are free again");
    let before = pages.before;
    drop(pages);
    assert_eq!(huge_pages("HugePages_Total"), before);
}

#[test]
fn transparent_huge_pages_hold_a_guest_or_it_is_told_how_few_there_were() {
    const MEGABYTES: u64 = 256;
    let program = Program::new();
    let qemu =
        Qemu::new(program.path(), Settings { backing: Backing::Huge, memory_bytes: MEGABYTES << 20, ..emulated() });
    if !usable(&qemu) {
        return;
    }
    match qemu.start(&NEVER) {
        Ok(site) => {
            let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", guest().unwrap())).unwrap();
            let huge = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB"));
            assert!(huge.unwrap().parse::<u64>().unwrap() >= (MEGABYTES << 10) / 10 * 9, "{rollup}");
            drop(site);
        }
        // A machine whose memory is in small pieces has not that many: then the guest is none of what was requested.
        Err(why) => assert!(why.to_string().contains("of the guest's 256 MiB are in huge pages"), "{why}"),
    }
    assert_eq!(left(), [""; 0]);
}

/// A tap of this machine with an address, until it is dropped.
struct Tap {
    name: String,
}

impl Tap {
    fn new(address: &str) -> Option<Self> {
        let name = format!("bmtap{}", std::process::id() % 10_000_000);
        let ip = |arguments: &[&str]| Command::new("ip").args(arguments).output().is_ok_and(|ran| ran.status.success());
        if !ip(&["tuntap", "add", "dev", &name, "mode", "tap"]) {
            return None;
        }
        let tap = Tap { name };
        let made = ip(&["addr", "add", address, "dev", &tap.name]) && ip(&["link", "set", &tap.name, "up"]);
        made.then_some(tap)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["link", "delete", &self.name]).output());
    }
}

#[test]
fn a_guest_is_reached_over_a_tap() {
    let program = Program::new();
    // Of a range that is set apart for benchmarks, which nobody routes.
    let Some(tap) = Tap::new("198.18.237.1/30") else {
        println!("skipped: no tap can be made here");
        return;
    };
    let net = |vhost| Net::Tap { device: tap.name.clone(), vhost };
    let settings = Settings { net: net(false), address: Some("198.18.237.2/30".to_owned()), ..emulated() };
    let qemu = Qemu::new(program.path(), settings.clone());
    if !usable(&qemu) {
        return;
    }
    let mut site = qemu.start(&NEVER).unwrap();
    // The guest's own kernel says that nobody listens there.
    wait_for(|| {
        let reached = TcpStream::connect_timeout(&"198.18.237.2:9".parse().unwrap(), Duration::from_secs(1));
        reached.err().filter(|why| why.kind() == ErrorKind::ConnectionRefused)
    });
    let answer = trial_of(&mut site.link().unwrap(), 0, 1 << 20);
    assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{answer:?}, {:?}", site.log());
    if !Path::new("/dev/vhost-net").exists() {
        let why = Qemu::new(program.path(), Settings { net: net(true), ..settings }).probe().unwrap_err().to_string();
        assert_eq!(why, "this machine has no /dev/vhost-net; load vhost_net, or write vhost = false");
    }
}

/// No part of the tests: what `make verify-kvm` runs on a machine whose KVM can carry a whole guest.
#[test]
#[ignore = "for a host with real KVM: make verify-kvm"]
fn kvm_carries_a_guest() {
    let program = Program::new();
    let tried = Settings { accel: Accel::Auto, test_limit: Duration::from_secs(30), ..emulated() };
    let auto = Qemu::new(program.path(), tried.clone());
    if let Err(missing) = auto.probe() {
        println!("untried: {missing}");
        return;
    }
    if auto.emulated(&NEVER) {
        println!("untried: no guest reaches its agent under KVM within 30 s here");
        return;
    }
    let settings = Settings { accel: Accel::Kvm, ..tried };
    let qemu = Qemu::new(program.path(), settings.clone());
    let place = Place { cpu: 0, patience: Duration::from_secs(60), residue: &left };
    assert_eq!(conformance(&qemu, &place), Ok(()));
    for backing in [Backing::Small, Backing::Huge] {
        let qemu = Qemu::new(program.path(), Settings { backing, pin: vec![cpu()], ..settings.clone() });
        let mut site = qemu.start(&NEVER).unwrap();
        let answer = trial_of(&mut site.link().unwrap(), 0, 1 << 20);
        assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{backing:?}: {answer:?}");
    }
    assert_eq!(left(), [""; 0]);
}

/// No part of the tests: what `make verify-kvm` runs on such a machine where Cloud Hypervisor is installed.
#[test]
#[ignore = "for a host with real KVM: make verify-kvm"]
fn kvm_carries_a_guest_of_cloud_hypervisor() {
    let program = Program::new();
    let settings = cloud_hypervisor::Settings { kernel: GuestKernel::named(Some(fetched())), ..Default::default() };
    let environment = CloudHypervisor::new(program.path(), settings.clone());
    if let Err(missing) = environment.probe() {
        println!("untried: {missing}");
        return;
    }
    let auto = Qemu::new(program.path(), Settings { accel: Accel::Auto, ..emulated() });
    if auto.probe().is_ok() && auto.emulated(&NEVER) {
        println!("untried: no guest reaches its agent under KVM here");
        return;
    }
    let left = || program.processes();
    let place = Place { cpu: 0, patience: Duration::from_secs(60), residue: &left };
    assert_eq!(conformance(&environment, &place), Ok(()));
    for backing in [Backing::Small, Backing::Huge] {
        let settings = cloud_hypervisor::Settings { backing, pin: vec![cpu()], ..settings.clone() };
        let mut site = CloudHypervisor::new(program.path(), settings).start(&NEVER).unwrap();
        let answer = trial_of(&mut site.link().unwrap(), 0, 1 << 20);
        assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{backing:?}: {answer:?}");
    }
    let settings = cloud_hypervisor::Settings {
        kernel_options: vec!["rdinit=/nowhere".into(), "init=/nowhere".into()],
        ..settings
    };
    let why = CloudHypervisor::new(program.path(), settings).start(&NEVER).err().unwrap().to_string();
    assert!(why.starts_with("the guest restarted itself") && why.contains("Kernel panic"), "{why}");
}

#[test]
fn an_interrupt_ends_a_boot_at_once() {
    let program = Program::new();
    let qemu = Qemu::new(program.path(), emulated());
    if !usable(&qemu) {
        return;
    }
    let interrupt = AtomicBool::new(false);
    let (ended, taken) = thread::scope(|scope| {
        let starting = scope.spawn(|| qemu.start(&interrupt).err().map(|why| why.to_string()));
        wait_for(|| (!left().is_empty()).then_some(()));
        let begun = Instant::now();
        interrupt.store(true, Ordering::Relaxed);
        (starting.join().unwrap(), begun.elapsed())
    });
    assert_eq!(ended.as_deref(), Some("interrupted"));
    // Nobody waits for the limit of the boot, which is two minutes; how soon is a busy machine's matter.
    assert!(taken < Duration::from_secs(60) && left().is_empty(), "{taken:?}");
}

#[test]
fn what_is_no_kernel_is_refused_in_qemus_words() {
    let program = Program::new();
    let nothing = program.path().with_file_name("kernel");
    fs::write(&nothing, "no kernel").unwrap();
    let qemu = Qemu::new(program.path(), Settings { kernel: Some(nothing), ..emulated() });
    if !usable(&qemu) {
        return;
    }
    let why = qemu.start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("ended before its agent was there; its last words:\n    qemu"), "{why}");
}

#[test]
fn more_memory_than_the_guest_has_is_an_error_with_its_last_words_and_a_killed_lab_leaves_no_guest() {
    let program = Program::new();
    let qemu = Qemu::new(program.path(), Settings { vcpus: 2, ..emulated() });
    if !usable(&qemu) {
        return;
    }
    let mut site = qemu.start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    // The second processor is there, and a table of 2 GiB is not.
    let answer = trial_of(&mut link, 1, 1 << 20);
    assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{answer:?}, {:?}", site.log());
    let answer = trial_of(&mut link, 1, 2 << 30);
    assert!(matches!(answer, Err(WireError::Closed) | Ok(FromAgent::Failed { .. })), "{answer:?}");
    drop(site);
    assert_eq!(left(), [""; 0]);
    let mut lab = lab("machine::a_lab_to_be_killed", &program, &[]);
    let guest = wait_for(|| children(lab.id()).first().copied());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| (!lives(guest)).then_some(()));
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| Qemu::new(program, emulated()).start(&NEVER).unwrap());
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_guests_take() {
    let program = Program::new();
    for (port, modules) in [(Port::Virtio, emulated().modules), (Port::Serial, Vec::new())] {
        let qemu = Qemu::new(program.path(), Settings { port, modules, ..emulated() });
        if usable(&qemu) {
            println!("{port:?} port");
            print_times(&qemu, 0);
        }
    }
}

#[test]
fn the_serial_port_does_without_modules() {
    let program = Program::new();
    let settings = Settings { port: Port::Serial, modules: Vec::new(), ..emulated() };
    let qemu = Qemu::new(program.path(), settings);
    if !usable(&qemu) {
        return;
    }
    let mut site = qemu.start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    // More than is on its way at once, and as much as a slow port carries in a moment.
    let hello = ToAgent::Hello { protocol: PROTOCOL, version: "v".repeat(64 << 10) };
    write_frame(&mut link.to_agent, &hello).unwrap();
    let answer = read_frame(&mut link.from_agent);
    assert!(matches!(answer, Ok(FromAgent::Hello { protocol: PROTOCOL, .. })), "{answer:?}, {:?}", site.log());
    let answer = trial_of(&mut link, 0, 1 << 20);
    assert!(matches!(answer, Ok(FromAgent::TrialDone(_))), "{answer:?}, {:?}", site.log());
}

#[test]
fn the_processor_is_given_a_bounded_try() {
    let program = Program::new();
    let limit = Duration::from_secs(3);
    let qemu = Qemu::new(program.path(), Settings { accel: Accel::Auto, test_limit: limit, ..emulated() });
    if !usable(&qemu) {
        return;
    }
    let begun = Instant::now();
    let emulated = qemu.emulated(&NEVER);
    // The limit, and what a busy machine adds; without it the guest would have the two minutes of a boot.
    assert!(begun.elapsed() < limit + Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(qemu.emulated(&NEVER), emulated, "found out once");
    assert!(emulated || fs::metadata("/dev/kvm").is_ok());
    assert_eq!(left(), [""; 0]);
}

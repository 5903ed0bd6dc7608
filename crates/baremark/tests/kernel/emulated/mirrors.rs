//! A disk whose writes wait for a second copy over NBD: both have what was written, its latency is that of the way, and nothing is left after kills.

use super::stock_guest::{StockGuest, is_inside};
use crate::bench::{Bench, root, text};
use crate::qemu::{self, fetched};
use crate::tiers::have;
use baremark_delay::{Delay, Proxy};
use baremark_disks::access::{BlockShare, Mix, Pattern};
use baremark_disks::engine::{Engine, Outcome, Plan, Ramp, Stop, run};
use baremark_disks::layout::Mirror;
use baremark_disks::nbd::Replica;
use baremark_disks::pace::Load;
use baremark_sys::mounts::{Mounted, own_mounts};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const DATA: &str = "/data";
const BYTES: u64 = 64 << 20;
/// Set for the process that is killed: the stage at which it waits for that.
const CHILD: &str = "BAREMARK_TEST_MIRROR";
const STAGES: [&str; 4] = ["reached", "filled", "loaded", "mounted"];
static NEVER: AtomicBool = AtomicBool::new(false);

/// Boots the guest, whose kernel has NBD, device-mapper and md as modules.
#[test]
#[ignore = "soak"]
fn soak_a_disk_of_two_copies_over_nbd_in_a_guest() {
    let maker = with_libraries("/usr/sbin/mkfs.ext4");
    let programs: Vec<_> = maker.iter().map(|path| (Path::new(path), path.as_str())).collect();
    let guest = StockGuest {
        modules: &["drivers/md", "drivers/block/loop.ko", "drivers/block/nbd.ko", "crypto", "lib"],
        programs: &programs,
        prepare: "modprobe loop\nmodprobe dm-mod\nmodprobe nbd",
        tests: "emulated::mirrors::in_the_guest",
        disk_bytes: 2 << 30,
    };
    let Some(shown) = guest.run() else { return };
    let passed = shown.lines().find(|line| line.starts_with("test result: ok. ")).unwrap();
    assert!(passed.starts_with("test result: ok. 5 passed;"), "{shown}");
}

/// A program and the shared libraries that it needs.
fn with_libraries(program: &str) -> Vec<String> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let libraries = text(&listed.stdout);
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned);
    libraries.chain([program.to_owned()]).collect()
}

/// A way to the second copy that takes half of a round trip in each direction.
fn way(replica: &Replica, round_trip: Duration) -> Proxy {
    let delay = Delay { one_way: round_trip / 2, ..Delay::default() };
    Proxy::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), replica.address(), delay).unwrap()
}

fn replica() -> Replica {
    Replica::serve(Path::new(DATA), BYTES).unwrap_or_else(|why| panic!("{why}"))
}

fn mirror(second: Option<(&Replica, SocketAddr)>) -> Mirror {
    Mirror::new(Path::new(DATA), BYTES, second).unwrap_or_else(|why| panic!("{why}"))
}

/// Random 4 KiB reads or writes, one at a time.
fn load(mirror: &Mirror, read_share: f64, stop: Stop) -> Outcome {
    let target = mirror.target().unwrap();
    let blocks = vec![BlockShare { bytes: 4096, weight: 1.0 }];
    let plan = Plan {
        mix: Mix { pattern: Pattern::Random, blocks, align: None, read_share },
        load: Load { rate: None, poisson: false, bursts: None },
        depth: 1,
        jobs: 1,
        sync_every: 0,
        durable: false,
        engine: if Engine::probe(&target).is_ok() { Engine::IoUring } else { Engine::Threads },
        ramp: Ramp { least_ns: 0, steady: None, limit_ns: 0 },
        stop,
        ramp_down_ns: 0,
        cpus: Vec::new(),
        seed: 1,
    };
    run(&plan, &target, None, &NEVER).unwrap()
}

/// Mapped, loop and network devices in use, and what is in the folder.
fn left() -> Vec<String> {
    let blocks = fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.path());
    let used = blocks.filter(|block| ["dm", "loop/backing_file", "pid"].iter().any(|mark| block.join(mark).exists()));
    let files = fs::read_dir(DATA).unwrap().flatten().map(|entry| entry.path());
    let files = files.filter(|path| !path.ends_with("lost+found"));
    used.chain(files).map(|path| path.display().to_string()).collect()
}

fn wait_until_gone() {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !left().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", left());
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_both_copies_hold_every_write() {
    if !is_inside() {
        return;
    }
    assert_eq!(Mirror::missing(), None);
    let replica = replica();
    let mirror = mirror(Some((&replica, replica.address())));
    mirror.target().unwrap().fill(7, None, &NEVER).unwrap();
    assert_eq!(mirror.compare(&replica).unwrap(), Some(Ok(BYTES)));
    let before = mirror.counted();
    let outcome = load(&mirror, 0.0, Stop::Count(500, 120_000_000_000));
    let after = mirror.counted();
    assert_eq!(after.writes - before.writes, outcome.all, "the kernel counts the same writes");
    assert_eq!(mirror.compare(&replica).unwrap(), Some(Ok(BYTES)));
    // The engine's random data are not zeros: equality of empty copies would prove nothing.
    let mut block = [0; 4096];
    mirror.target().unwrap().fill(8, None, &NEVER).unwrap();
    let file = fs::File::open(mirror.path()).unwrap();
    file.read_exact_at(&mut block, BYTES - 4096).unwrap();
    assert!(block.iter().any(|byte| *byte != block[0]), "random data");
    drop(file);
    println!("guest: both copies of {} writes and {BYTES} bytes are equal", after.writes);
    let alone = self::mirror(None);
    assert_eq!(alone.compare(&replica).unwrap(), None, "one without a second copy has nothing to compare");
    drop((alone, mirror, replica));
    wait_until_gone();
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_a_write_takes_the_round_trip_and_a_read_does_not() {
    if !is_inside() {
        return;
    }
    let round_trip = Duration::from_millis(40);
    let least = |outcome: &Outcome, reads: bool| {
        let latencies = if reads { &outcome.reads } else { &outcome.writes };
        Duration::from_nanos(latencies.percentile(0.5).unwrap())
    };
    let replica = replica();
    let way = way(&replica, round_trip);
    let far = mirror(Some((&replica, way.address())));
    let (writes, reads) =
        (load(&far, 0.0, Stop::Count(50, 60_000_000_000)), load(&far, 1.0, Stop::Count(200, 60_000_000_000)));
    assert_eq!(far.compare(&replica).unwrap(), Some(Ok(BYTES)));
    drop((far, way, replica));
    let alone = mirror(None);
    let own = load(&alone, 0.0, Stop::Count(200, 60_000_000_000));
    let (written, read, own) = (least(&writes, false), least(&reads, true), least(&own, false));
    println!(
        "guest: at {round_trip:?} of round trip a write takes {written:?} and a read {read:?}; a write without a second copy {own:?}"
    );
    assert!(written >= round_trip && read < round_trip && own < round_trip, "{written:?} {read:?} {own:?}");
    drop(alone);
    wait_until_gone();
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_a_mirror_goes_on_when_its_second_copy_is_lost_and_the_copies_differ_then() {
    if !is_inside() {
        return;
    }
    let replica = replica();
    let way = way(&replica, Duration::from_millis(2));
    let mirror = mirror(Some((&replica, way.address())));
    load(&mirror, 0.0, Stop::Count(50, 60_000_000_000));
    assert_eq!(mirror.compare(&replica).unwrap(), Some(Ok(BYTES)));
    drop(way);
    mirror.target().unwrap().fill(8, None, &NEVER).unwrap();
    let differs = mirror.compare(&replica).unwrap();
    println!("guest: without its second copy a mirror was filled anew; the copies differ: {differs:?}");
    assert!(matches!(differs, Some(Err(_))));
    drop((mirror, replica));
    wait_until_gone();
}

/// Started again by the next test, as an owner that is killed.
#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_a_mirror_waits_to_be_killed() {
    let Ok(stage) = std::env::var(CHILD) else { return };
    let replica = replica();
    let way = way(&replica, Duration::from_millis(2));
    let mirror = mirror(Some((&replica, way.address())));
    println!("stage reached");
    mirror.target().unwrap().fill(7, None, &NEVER).unwrap();
    println!("stage filled");
    if stage == "loaded" {
        println!("stage loaded");
        load(&mirror, 0.0, Stop::After(600_000_000_000));
    }
    if stage == "mounted" {
        write_to_files_of(&mirror);
    }
    loop {
        std::thread::park();
    }
}

/// Writes to a file system on it, without end, where nobody else sees that.
fn write_to_files_of(mirror: &Mirror) {
    let kind = mirror.format().unwrap_or_else(|why| panic!("{why}"));
    own_mounts().unwrap();
    let at = Path::new("/mnt");
    fs::create_dir_all(at).unwrap();
    let _mounted = Mounted::device(mirror.path(), kind, at).unwrap();
    let file = fs::File::create(at.join("file")).unwrap();
    for round in 0_u64.. {
        file.write_all_at(&[1; 64 << 10], round % 64 * (64 << 10)).unwrap();
        if round == 64 {
            file.sync_data().unwrap();
            println!("stage mounted");
        }
    }
}

fn owner(stage: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "emulated::mirrors::in_the_guest_a_mirror_waits_to_be_killed", "--nocapture"])
        .env(CHILD, stage)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// As it is filled, when it is filled, under load, and with files of which much is not written yet.
#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_nothing_is_left_of_a_mirror_whose_process_is_killed() {
    if !is_inside() {
        return;
    }
    for stage in STAGES {
        for _ in 0..3 {
            let mut child = owner(stage);
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            assert!(lines.any(|line| line.contains(&format!("stage {stage}"))), "{stage}");
            let used = left().len();
            child.kill().unwrap();
            child.wait().unwrap();
            wait_until_gone();
            assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(" /mnt "));
            println!("guest: killed when {stage}: {used} devices were used, none is left");
        }
    }
}

/// The shipped study with a short load and one distance, on this machine's PostgreSQL.
#[test]
#[ignore = "soak"]
fn soak_orders_wait_for_both_copies_of_a_disk_over_nbd_in_a_guest() {
    let kernel = fetched();
    if !kernel.join("vmlinuz").exists() || !root() || !have(&["qemu-system-x86_64", "postgres"]) {
        eprintln!("skipped: the superuser, a kernel for guests (scripts/fetch-kernel), QEMU and PostgreSQL are needed");
        return;
    }
    let bench = Bench::new();
    let guest =
        format!("[environments.qemu]\naccel = \"tcg\"\nkernel = \"{}\"", kernel.canonicalize().unwrap().display());
    let changes = [
        ("[environments.qemu]", guest.as_str()),
        ("second_site = [\"none\", \"0 ms\", \"1 ms\", \"5 ms\"]", "second_site = [\"none\", \"50 ms\"]"),
        ("least_blocks = 4", "least_blocks = 1\nmost_blocks = 1"),
        ("duration = \"10 s\"", "duration = \"4 s\""),
        ("published = \"stretched-cluster/orders\"\n", ""),
    ];
    let shipped = include_str!("../../../../../studies/stretched-nbd.toml");
    let study = changes.iter().fold(shipped.to_owned(), |study, (from, to)| {
        assert!(study.contains(from), "{from}");
        study.replace(from, to)
    });
    bench.write("study.toml", study);
    let output = bench.run(&["run", "study.toml", "--json"]);
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    let document: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{said}"));
    let value = |metric: &str, site: &str| {
        let mut rows = document["estimates"].as_array().unwrap().iter();
        let own = rows.find(|row| row["metric"] == metric && row["treatment"]["second_site"] == site);
        own.and_then(|row| row["estimate"].as_f64())
            .unwrap_or_else(|| panic!("{metric} of {site}: {document:#}\n{said}"))
    };
    let (near, far) = (value("copies_write_ms", "none"), value("copies_write_ms", "50 ms"));
    let commit = value("commit_ms", "50 ms");
    println!(
        "guest: a write takes {near:.2} ms without and {far:.2} ms with a second copy at 50 ms, a commit {commit:.2} ms"
    );
    assert!(near < 50.0 && far > 45.0 && commit > 50.0, "{near} {far} {commit}");
    assert!(out.contains("both copies of ") && out.contains(" are equal"), "{document:#}");
    assert!(qemu::left().is_empty(), "{:?}", qemu::left());
}

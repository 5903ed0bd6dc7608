//! Layouts on this machine: each is made, takes reads and writes, and leaves nothing, also after kill -9.

use crate::engine::plan;
use baremark_disks::access::Mix;
use baremark_disks::engine::{Engine, Plan, Stop, run_on_all};
use baremark_disks::layout::{Arrangement, Built, LEAST_DEVICE, Layout, missing};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CHILD: &str = "BAREMARK_TEST_LAYOUT";
static NEVER: AtomicBool = AtomicBool::new(false);

/// Two LUNs that take little of six devices.
fn small(layout: Layout) -> Arrangement {
    Arrangement { layout, luns: 2, devices: 6, device_bytes: LEAST_DEVICE, allocated: 0.02, span: u64::MAX }
}

/// Where direct I/O is possible, which it is not everywhere that temporary files are.
fn folder() -> TempDir {
    TempDir::new_in("/var/tmp").unwrap()
}

/// Loop devices over files of a folder.
fn devices_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let blocks = fs::read_dir("/sys/block").unwrap().flatten();
    let backing = blocks.filter_map(|block| fs::read_to_string(block.path().join("loop/backing_file")).ok());
    backing.filter(|backing| backing.starts_with(folder)).collect()
}

/// The kernel lets go of devices soon after their last user, whose queues it closes by itself.
fn wait_until_gone(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !devices_of(folder).is_empty() {
        assert!(Instant::now() < deadline, "devices are left: {:?}", devices_of(folder));
        std::thread::yield_now();
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

fn can_be_made(layout: Layout) -> bool {
    let why = missing(layout);
    if let Some(why) = &why {
        println!("skipped: layout {layout:?}: {why}");
    }
    why.is_none()
}

#[test]
fn every_layout_takes_reads_and_writes_and_leaves_nothing() {
    let folder = folder();
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    let before = mounts();
    for layout in Layout::WORDS.map(|word| Layout::from_word(word).unwrap()).into_iter().filter(|of| can_be_made(*of)) {
        let built = Built::new(&small(layout), folder.path(), &NEVER).unwrap();
        assert_eq!(built.luns().len(), 2);
        let devices = built.device_paths().count();
        let expected = match layout {
            Layout::File => 0,
            Layout::Loop => 2,
            Layout::Ext4 | Layout::Xfs | Layout::Btrfs => 1,
            Layout::Groups | Layout::Pool | Layout::MdGroups | Layout::ThinPool => 6,
        };
        assert_eq!((devices, devices_of(folder.path()).len()), (expected, expected), "{layout:?}");
        assert_eq!(mounts(), before, "nobody sees what is mounted");
        let total: u64 = built.luns().iter().map(baremark_disks::target::Target::size).sum();
        assert!(total >= 2 << 20 && total <= small(layout).total() / 20, "{layout:?}: {total} bytes");
        built.luns().iter().for_each(|lun| lun.fill(1, None, &NEVER).unwrap());
        let engine = if Engine::probe(&built.luns()[0]).is_ok() { Engine::IoUring } else { Engine::Threads };
        let mix = Mix { read_share: 0.0, ..plan().mix };
        let plan = Plan { engine, mix, jobs: 2, stop: Stop::Count(500, 60_000_000_000), ..plan() };
        let written = built.completed();
        let outcome = run_on_all(&plan, built.luns(), &NEVER).unwrap();
        assert_eq!(outcome.by_target.len(), 2);
        assert!(outcome.by_target.iter().all(|operations| *operations > 0), "{layout:?}: {:?}", outcome.by_target);
        assert!(outcome.all >= outcome.operations());
        let devices =
            written.zip(built.completed()).map(|(before, after)| [after[0] - before[0], after[1] - before[1]]);
        let writes = devices.map(|[_, writes]| writes as f64 / outcome.all as f64);
        match layout {
            Layout::File => assert_eq!(devices, None),
            // Data and parity, unless writes of one stripe meet.
            Layout::Groups | Layout::Pool | Layout::MdGroups | Layout::ThinPool => {
                assert!(writes > Some(1.2), "{layout:?}: {writes:?} writes of devices a write")
            }
            _ => assert!(writes > Some(0.5), "{layout:?}: {writes:?} writes of devices a write"),
        }
        drop(built);
        wait_until_gone(folder.path());
    }
}

#[test]
fn a_layout_of_device_mapper_is_absent_with_a_reason_where_the_kernel_lacks_it() {
    let whys = [Layout::MdGroups, Layout::ThinPool].map(missing);
    if can_be_made(Layout::Loop) && !Path::new("/dev/mapper/control").exists() {
        assert!(
            whys.iter().flatten().all(|why| why.contains("no device-mapper (/dev/mapper/control); load")),
            "{whys:?}"
        );
        assert_eq!(whys.iter().flatten().count(), 2);
    }
    let listed = baremark_disks::provision::absent();
    for (word, why) in [("md-groups", &whys[0]), ("thin-pool", &whys[1])] {
        let found = listed.iter().find(|(level, _)| level.ends_with(word)).map(|(_, why)| why);
        assert_eq!(found, why.as_ref(), "{listed:?}");
    }
}

/// Started again by the next test, as an owner that is killed.
#[test]
fn makes_a_layout_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let built = Built::new(&small(Layout::Groups), Path::new(&folder), &NEVER).unwrap();
    built.luns().iter().for_each(|lun| lun.fill(1, None, &NEVER).unwrap());
    println!("filled");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_layout_is_gone_with_its_owner_after_kill_9() {
    if !can_be_made(Layout::Groups) {
        return;
    }
    let folder = folder();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "layout::makes_a_layout_until_it_is_killed", "--nocapture"])
        .env(CHILD, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let filled = std::io::BufRead::lines(output).map_while(Result::ok).any(|line| line.contains("filled"));
    assert!(filled && devices_of(folder.path()).len() == 6, "{:?}", devices_of(folder.path()));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(folder.path());
}

//! Layouts on this machine: each is made, takes reads and writes, and leaves nothing, also after kill -9.

use crate::devices::{NEVER, can_be_made, devices_of, folder, small, wait_until_gone};
use crate::plans::plan;
use baremark_disks::access::Mix;
use baremark_disks::engine::{Engine, Plan, Stop, run_on_all};
use baremark_disks::layout::{Built, Layout, missing};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const CHILD: &str = "BAREMARK_TEST_LAYOUT";

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
        let of_all: u64 = outcome.by_target.iter().sum();
        assert_eq!((outcome.by_target.len(), of_all), (2, outcome.operations()), "{layout:?}: {:?}", outcome.by_target);
        assert!(outcome.all >= outcome.operations());
        let devices =
            written.zip(built.completed()).map(|(before, after)| [after[0] - before[0], after[1] - before[1]]);
        // Nothing is written but by way of the devices.
        assert_eq!(devices.map(|[_, writes]| writes > 0), (layout != Layout::File).then_some(true), "{layout:?}");
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

#[test]
#[ignore = "a process of the next test: owns a layout until it is killed"]
fn makes_a_layout_until_it_is_killed() {
    let folder = std::env::var_os(CHILD).unwrap();
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
        .args(["--exact", "layout::makes_a_layout_until_it_is_killed", "--ignored", "--nocapture"])
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

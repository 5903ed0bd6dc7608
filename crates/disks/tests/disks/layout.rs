//! The layout that takes no superuser: files.

use crate::plans::{NO_LIMIT_NS, plan};
use baremark_disks::access::Mix;
use baremark_disks::engine::{Engine, Plan, Stop, run_on_all};
use baremark_disks::layout::{Arrangement, Built, LEAST_DEVICE, Layout};
use std::fs;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn luns_of_files_take_reads_and_writes_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let arrangement = Arrangement {
        layout: Layout::File,
        luns: 2,
        devices: 6,
        device_bytes: LEAST_DEVICE,
        allocated: 0.02,
        span: u64::MAX,
    };
    let built = match Built::new(&arrangement, folder.path(), &NEVER) {
        Ok(built) => built,
        // Not every file system has direct I/O.
        Err(why) => return println!("skipped: {why}"),
    };
    assert_eq!((built.luns().len(), built.device_paths().count()), (2, 0));
    let total: u64 = built.luns().iter().map(baremark_disks::target::Target::size).sum();
    assert!(total >= 2 << 20 && total <= arrangement.total() / 20, "{total} bytes");
    built.luns().iter().for_each(|lun| lun.fill(1, None, &NEVER).unwrap());
    for engine in [Engine::IoUring, Engine::Threads] {
        if engine == Engine::IoUring && Engine::probe(&built.luns()[0]).is_err() {
            println!("skipped: io_uring is forbidden here");
            continue;
        }
        let mix = Mix { read_share: 0.5, ..plan().mix };
        let plan = Plan { engine, mix, jobs: 2, stop: Stop::Count(500, NO_LIMIT_NS), ..plan() };
        let outcome = run_on_all(&plan, built.luns(), &NEVER).unwrap();
        let of_all: u64 = outcome.by_target.iter().sum();
        assert_eq!((outcome.by_target.len(), of_all), (2, outcome.operations()));
        assert!(outcome.operations() >= 500 && outcome.all >= outcome.operations());
        assert!(outcome.reads.count() > 0 && outcome.writes.count() > 0);
    }
    assert_eq!(built.completed(), None, "no devices that count");
    drop(built);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

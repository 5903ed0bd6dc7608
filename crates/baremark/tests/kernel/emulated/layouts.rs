//! LUNs by device-mapper: RAID5 groups of md, and thin volumes of a pool. Measured by a study, and gone after kills.

use super::stock_guest::{StockGuest, is_inside};
use crate::bench::{Bench, text};
use baremark_disks::layout::{Arrangement, Built, LEAST_DEVICE, Layout, missing};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const DATA: &str = "/data";
const LAYOUTS: [Layout; 2] = [Layout::MdGroups, Layout::ThinPool];
static NEVER: AtomicBool = AtomicBool::new(false);

/// Boots the guest. Its kernel has device-mapper, its targets and md as modules, which it loads when they are asked for.
#[test]
#[ignore = "soak"]
fn soak_luns_by_device_mapper_in_a_guest() {
    let guest = StockGuest {
        modules: &["drivers/md", "drivers/block/loop.ko", "crypto", "lib"],
        programs: &[(Path::new(env!("CARGO_BIN_EXE_baremark")), env!("CARGO_BIN_EXE_baremark"))],
        prepare: "modprobe loop\nmodprobe dm-mod",
        tests: "emulated::layouts::in_the_guest",
        disk_bytes: 8 << 30,
    };
    let Some(shown) = guest.run() else { return };
    let passed = shown.lines().find(|line| line.starts_with("test result: ok. ")).unwrap();
    assert!(passed.starts_with("test result: ok. 2 passed;"), "{shown}");
}

/// Two LUNs that take little of six devices; random writes, so that parity shows.
fn study(layouts: &str) -> String {
    format!(
        "[study]\ntitle = \"LUNs\"\n[workload]\nkind = \"provision\"\naccess = \"random-write\"\ndepth = 4\nluns = 2\ndevices = 6\n\
         device_size = \"128 MiB\"\nspan = \"4 MiB\"\npath = \"{DATA}\"\nwarm_up = \"0 s\"\nduration = \"1 s\"\n\
         [factors]\nenvironment = \"native\"\nlayout = {layouts}\n\
         [design]\nquads = 1\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"5 min\"\n[report]\nratio_to = {{ layout = \"loop\" }}\n\
         also = \"device_writes_per_io, device_reads_per_io\"\n"
    )
}

/// Devices of device-mapper and loop devices with a file, and what is in the folder.
fn left() -> Vec<String> {
    let blocks = fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.path());
    let used = blocks.filter(|block| block.join("dm").exists() || block.join("loop/backing_file").exists());
    let files = fs::read_dir(DATA).unwrap().flatten().map(|entry| entry.path());
    let files = files.filter(|path| !path.ends_with("lost+found"));
    used.chain(files).map(|path| path.display().to_string()).collect()
}

/// Whether all of it is gone by then: the kernel lets go of devices one after the other, soon after their last user.
fn is_gone_within(limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while !left().is_empty() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    left().is_empty()
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_a_study_measures_groups_of_md_and_a_thin_pool() {
    if !is_inside() {
        return;
    }
    assert_eq!(LAYOUTS.map(missing), [None, None]);
    let bench = Bench::new();
    bench.write("study.toml", study("[\"loop\", \"md-groups\", \"thin-pool\"]"));
    let output = bench.run(&["run", "study.toml", "--json"]);
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    let document: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{said}"));
    assert!(output.status.success(), "{document:#}\n{said}");
    let value = |metric: &str, layout: &str| {
        let mut rows = document["estimates"].as_array().unwrap().iter();
        let own = rows.find(|row| row["metric"] == metric && row["treatment"]["layout"] == layout);
        own.and_then(|row| row["estimate"].as_f64()).unwrap_or_else(|| panic!("{metric} of {layout}: {document:#}"))
    };
    let writes = |layout: &str| value("device_writes_per_io", layout);
    assert!(writes("loop") > 0.5 && writes("loop") < 1.2, "{}", writes("loop"));
    for layout in ["md-groups", "thin-pool"] {
        // Data and parity, unless writes of one stripe meet; both are read first, unless they are in the stripe cache.
        let reads = value("device_reads_per_io", layout);
        assert!(writes(layout) > 1.2 && reads > 0.1, "{layout}: {} writes, {reads} reads", writes(layout));
        println!("guest: {layout}: {:.2} writes and {reads:.2} reads of devices a write", writes(layout));
    }
    assert!(is_gone_within(Duration::from_secs(30)), "{:?}", left());
}

/// Before devices are made, between them, as LUNs are filled, under load.
#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_nothing_is_left_of_layouts_whose_process_is_killed() {
    if !is_inside() {
        return;
    }
    let bench = Bench::new();
    for (word, layout) in [("md-groups", Layout::MdGroups), ("thin-pool", Layout::ThinPool)] {
        bench.write("study.toml", study(&format!("[\"loop\", \"{word}\"]")));
        // Two groups, or RAID, metadata, data, pool and two volumes.
        let all = if layout == Layout::MdGroups { 2 } else { 6 };
        for mapped in 0..=all {
            let mut child =
                bench.command(&["run", "study.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let began = Instant::now();
            let there = || left().iter().filter(|path| path.starts_with("/sys/block/dm-")).count();
            while there() < mapped {
                assert!(child.try_wait().unwrap().is_none() && began.elapsed().as_secs() < 120, "{:?}", left());
                std::thread::yield_now();
            }
            let seen = there();
            child.kill().unwrap();
            child.wait().unwrap();
            let by_itself = is_gone_within(Duration::from_secs(5));
            if !by_itself {
                // A device that was not yet marked for removal goes with the next start.
                let (device_bytes, span) = (LEAST_DEVICE, u64::MAX);
                let small = Arrangement { layout, luns: 2, devices: 6, device_bytes, allocated: 0.02, span };
                drop(Built::new(&small, Path::new(DATA), &NEVER).unwrap());
            }
            assert!(is_gone_within(Duration::from_secs(30)), "{:?}", left());
            let how = if by_itself { "by itself" } else { "with the next start" };
            println!("guest: {word}: killed with {seen} mapped devices, all gone {how}");
        }
    }
}

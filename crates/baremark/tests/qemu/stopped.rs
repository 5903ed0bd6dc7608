//! Guests that QEMU stops in the middle of their work.

use crate::bench::{Bench, program, root};
use crate::guests::usable_study;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A guest's disk is a file on a disk that becomes full: QEMU stops the guest and waits for somebody to make room.
#[test]
fn a_guest_whose_disk_finds_no_room_says_so_and_not_when_the_time_is_over() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    fs::create_dir(bench.path("small")).unwrap();
    let disk = bench.path("small/disk");
    let work = "[workload]\nkind = \"command\"\ntimeout = \"9 min\"\n[command]\n\
                argv = [\"sh\", \"-c\", \"dd if=/dev/zero of=/dev/vda bs=1M count=8 oflag=direct; echo room 1\"]\n\
                [command.metrics.room]\nunit = \"1\"\nbetter = \"higher\"\nregex = 'room (?<value>[0-9]+)'\n";
    let guest = format!(
        "rootfs = \"host\"\nmemory = \"384 MiB\"\nfresh = \"trial\"\nstart_limit = \"3 min\"\ndisks = [{disk:?}]\ndisk_cache = \"writeback\""
    );
    fs::write(&disk, "").unwrap();
    let factors = "environment = \"qemu\"\nranks = 1";
    let design = "least_blocks = 4\nmost_blocks = 4";
    let Some(study) = usable_study(&bench, work, factors, &guest, design) else { return };
    let program = program().display();
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs small && truncate -s 8M small/disk && \
         {program} --store store.db run {study} --json >out 2>err; {program} --store store.db report --json >document"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(bench.folder.path());
    assert!(command.status().unwrap().success());
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    let document: Value = serde_json::from_str(&read("document")).unwrap_or_else(|_| panic!("{}", read("err")));
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3, "three of them, and it is given up: {document:#}");
    for trial in trials {
        let said = trial.to_string();
        assert!(said.contains("QEMU stopped the guest (io-error): write of disk0: No space left on device"), "{said}");
        assert!(trial["elapsed_ns"].as_u64() < Some(300_000_000_000), "heard at once: {trial:#}");
    }
}

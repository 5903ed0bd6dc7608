//! Processes with networks that are killed: nothing of them is left.

use crate::support::{can, journal};
use baremark_networks::Network;
use baremark_networks::netlink::Netlink;
use baremark_sys::ethtool::TapHeader;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "BAREMARK_NETWORKS_MAKER";

/// Not a test: the process that is killed. Makes networks without end and names each link.
#[test]
fn maker() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let journal = journal(&folder);
    loop {
        let network = Network::new(&journal).unwrap();
        eprintln!("made {}", network.bridge());
        let one = network.namespace().unwrap();
        eprintln!("made {}", one.outside);
        let tap = network.tap(TapHeader::None).unwrap();
        eprintln!("made {}", tap.name);
        let two = network.namespace().unwrap();
        eprintln!("made {}", two.outside);
        network.limit_rate(&two, 1_000_000_000).unwrap();
    }
}

fn random() -> usize {
    let word = baremark_journal::file::random_word().unwrap();
    usize::from_str_radix(&word[..8], 16).unwrap()
}

#[test]
fn nothing_is_left_of_networks_whose_process_was_killed_at_ten_random_moments() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut made, mut recovered) = (BTreeSet::new(), 0);
    for kill in 0..10 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::maker", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        for _ in 0..=random() % 9 {
            let line = log.by_ref().find(|line| line.starts_with("made ")).expect("it makes networks");
            made.insert(line.trim_start_matches("made ").to_owned());
        }
        // Into the middle of the next step.
        for _ in 0..random() % 3_000_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        made.extend(log.filter_map(|line| Some(line.strip_prefix("made ")?.to_owned())));
        let recovery = journal(folder.path()).recover().unwrap();
        assert!(
            recovery.failed.is_empty() && recovery.foreign.is_empty() && recovery.damaged.is_empty(),
            "{recovery:?}"
        );
        recovered += recovery.undone.len();
        let records = std::fs::read_dir(folder.path().join("journal")).unwrap().count();
        assert_eq!(records, 1, "kill {kill}: the lock alone: {recovery:?}");
        wait_until_gone(&made);
    }
    assert!(recovered > 0, "no kill left anything to be undone");
}

/// The kernel takes namespaces down some time after their last user is gone.
fn wait_until_gone(made: &BTreeSet<String>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let links = Netlink::open().unwrap().links().unwrap();
        let left: Vec<_> = links.iter().filter(|link| made.contains(&link.name)).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left: {left:?}");
        std::thread::yield_now();
    }
}

//! Web farms whose servers are in containers. Needs root.

use crate::common::bench::{Bench, root, signal, text};
use crate::common::consolidation::{command, doctor, estimate, ran, records, study};
use crate::common::containers::{Watched, containers_folder};
use crate::common::sites::{temporary, wait_for};
use crate::common::tiers::{all_gone, have, offspring};
use baremark_sys::process_tree;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[test]
fn servers_in_containers_answer_and_are_gone_afterwards() {
    if !root() || !have(&["podman"]) {
        return;
    }
    let bench = Bench::new();
    let more = "servers = 2\ncontainer = true";
    bench.write("farm.toml", study("static", more) + "[report]\nmetric = \"requests_per_s\"\n");
    let (result, output) = ran(&bench, "farm.toml");
    let rate = estimate(&result, "requests_per_s");
    assert!(rate.is_some_and(|rate| rate > 0.0), "{result:#}\n{}", text(&output.stderr));
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
    let names = Command::new("podman").args(["ps", "--all", "--format", "{{.Names}}"]).output().unwrap();
    assert!(!text(&names.stdout).contains("baremark-farm-"), "{}", text(&names.stdout));
}

/// The identity and the name of the container whose monitor has just been started for a farm of this run.
fn starting(run: &Child) -> Option<(String, String)> {
    let is = |words: &[String]| words[0].ends_with("conmon") && words.iter().any(|word| word.starts_with(FARM));
    let below = offspring(run.id());
    process_tree::with_command(is).unwrap().into_iter().find_map(|(_, words)| {
        let name = words.iter().find(|word| word.starts_with(FARM))?;
        let owner: u32 = name[FARM.len()..].split('-').next()?.parse().ok()?;
        let id = words.iter().skip_while(|word| *word != "-c").nth(1)?;
        below.contains(&owner).then(|| (id.clone(), name.clone()))
    })
}

/// How names of containers and folders of farms begin; the number of their process follows.
const FARM: &str = "baremark-farm-";

/// From the moment at which the engine has started its monitor on, and before the container runs: without a supervisor both would remain. Then also
/// with the supervisor, whose container the next start of the program removes.
#[test]
fn nothing_is_left_of_a_farm_in_containers_that_is_killed_while_one_starts() {
    if !root() || !have(&["podman"]) {
        return;
    }
    let folder = containers_folder();
    for with_supervisor in [false, true] {
        let bench = Bench::new();
        bench.write("farm.toml", study("static", "servers = 1\ncontainer = true"));
        let mut run = command(&bench, &["run", "farm.toml"]);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (id, name) = wait_for(|| {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it started a container");
            starting(&child)
        });
        let below = offspring(child.id());
        if with_supervisor {
            let is = |words: &[String]| words.iter().any(|word| word == "supervise") && words.contains(&name);
            process_tree::with_command(is).unwrap().iter().for_each(|(pid, _)| signal(*pid, libc::SIGKILL));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        all_gone(&below);
        let (ids, watched) = (BTreeSet::from([id]), Watched { folder: &folder, prefix: name });
        if !with_supervisor {
            assert_eq!(watched.left(&ids), [""; 0], "the supervisor has removed it");
        }
        let (own, _) = watched.prefix.rsplit_once('-').unwrap();
        // Whoever was killed has its locks until the kernel has ended it.
        wait_for(|| {
            doctor(&bench);
            (records(&bench).is_empty() && !temporary().iter().any(|name| name == own)).then_some(())
        });
        assert_eq!(watched.left(&ids), [""; 0], "with its supervisor: {with_supervisor}");
    }
}

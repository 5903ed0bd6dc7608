//! One load from sites behind ssh and in containers.

use super::bench::{Bench, signal, text};
use super::http::server;
use super::sites::{Program, usable};
use baremark_environments::container::{Container, Settings};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// The agents that run the program elsewhere than in this process's own mounts: in containers.
pub fn agents_in_containers(program: &Program) -> Vec<u32> {
    let mounts = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let there = |pid: &u32| mounts(&pid.to_string()).is_some_and(|mounted| Some(mounted) != mounts("self"));
    program.pids().into_iter().filter(there).collect()
}

/// Whether containers can be had here.
pub fn containers() -> bool {
    let program = env!("CARGO_BIN_EXE_baremark").into();
    usable(&Container::new(program, Settings::default()))
}

/// Runs a load of `rate` from these sites; once all have told of a second, `meanwhile` happens. Status, what was told, the result.
pub fn from_sites(
    program: &Program,
    sites: &[&str],
    ssh_config: Option<&Path>,
    (rate, seconds): (&str, &str),
    meanwhile: impl FnOnce(),
) -> (Option<i32>, String, Value) {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let mut arguments = vec!["load", &url, "--rate", rate, "--duration", seconds];
    sites.iter().for_each(|site| arguments.extend(["--site", site]));
    let config = ssh_config.map(|path| path.display().to_string());
    arguments.extend(config.iter().flat_map(|path| ["--ssh-config", path]));
    let mut command = bench.command_of(&program.path(), &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().map(Result::unwrap).unwrap_or_default();
    if first.contains("answered") {
        meanwhile();
    }
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().unwrap();
    let document = bench.json(&["report", "--json"]);
    (output.status.code(), format!("{first}\n{}\n{}", rest.join("\n"), text(&output.stdout)), document)
}

/// A load from these sites is merged exactly, and all begin at the same time by one clock.
pub fn assert_merged(sites: &[&str], ssh_config: Option<&Path>) {
    let program = Program::new();
    let (status, told, document) = from_sites(&program, sites, ssh_config, ("200", "3s"), || ());
    assert_eq!(status, Some(0), "{told}");
    assert_eq!((&document["counts"]["intended"], &document["asked"]["sites"]), (&600.into(), &sites.len().into()));
    let ended =
        600 - document["counts"]["unfinished"].as_u64().unwrap() - document["counts"]["unsent"].as_u64().unwrap();
    assert_eq!(document["latency"]["corrected"]["samples"], ended, "{}", document["failures"]);
    let rows = document["sites"].as_array().unwrap();
    assert!(rows.len() == sites.len() && rows.iter().all(|row| row["lost"].is_null()), "{rows:?}");
    // By one clock, as well as the way there lets it be read.
    assert!(rows.iter().all(|row| row["begin_error_ns"].as_u64().is_some()), "{rows:?}");
    // However lines are wrapped.
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("; began within "), "{told}");
    let series: u64 = document["series"].as_array().unwrap().iter().map(|row| row["intended"].as_u64().unwrap()).sum();
    assert_eq!(series, 600, "the seconds are merged as well");
}

/// A second site that is cut off is named, nothing of it is counted, and the rest is. `agents` are the processes there.
pub fn assert_lost(program: &Program, second: &str, ssh_config: Option<&Path>, agents: impl FnOnce() -> Vec<u32>) {
    let kill = || {
        let agents = agents();
        assert!(!agents.is_empty(), "an agent runs there");
        agents.into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
    };
    let (status, told, document) = from_sites(program, &["native", second], ssh_config, ("100", "8s"), kill);
    assert_eq!((status, &document["ended"]), (Some(1), &"site-lost".into()), "{told}");
    assert!(told.contains(&format!("2 ({second})")) && told.contains("SITE LOST"), "{told}");
    assert_eq!(document["counts"]["intended"], 400, "half of 800: {told}");
    assert!(document["sites"][0]["lost"].is_null() && document["sites"][1]["lost"].is_string(), "{told}");
}

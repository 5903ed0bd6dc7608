//! A run of two programs in a bundle: a ratio, and paths and variables to be removed.

use crate::common::bench::{Bench, text};
use std::fs;
use std::process::{Command, Output};

/// Two programs that compute, in two working folders of this user: a ratio, and paths and variables to be removed.
pub const STUDY: &str = r#"
[study]
title = "loops of 200 and 300"
[workload]
kind = "command"
[command]
argv = ["sh", "-c", "i=0; while [ $i -lt $0 ]; do i=$((i+1)); done", "{times}"]
[command.environment]
BAREMARK_TEST_TOKEN = "opensesame"
[command.files]
"where.txt" = "/home/somebody/data on 192.0.2.7"
[command.parameters]
times = 200
[factors]
times = [200, 300]
[design]
phase = "10 ms"
quads = 1
least_blocks = 4
most_blocks = 4
precision = "0.1 %"
budget = "1 h"
[report]
metric = "wall_s"
columns = "times"
ratio_to = { times = 200 }
"#;

/// Runs a command whose address space has so many mebibytes: it fails where it asks for more. The program and the stacks and arenas that
/// its threads reserve are part of it, so that it is about twice what its memory may be.
pub fn bounded(bench: &Bench, mebibytes: u64, arguments: &[&str]) -> Output {
    let command = bench.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {}; exec \"$@\"", mebibytes << 10), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    shell.envs(set).current_dir(command.get_current_dir().unwrap_or(bench.folder.path()));
    shell.output().unwrap()
}

/// Runs the study, whose programs cannot fail, and bundles it.
pub fn bundled(bench: &Bench) -> Vec<u8> {
    let study = bench.write("loops.toml", STUDY);
    let ran = bench.run(&["run", study.to_str().unwrap(), "--quiet"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    written(bench, "run.tar.gz")
}

/// The bundle of the latest run, made by somebody: names of whoever runs the tests would be removed as well.
pub fn written(bench: &Bench, name: &str) -> Vec<u8> {
    let mut command = bench.command(&["bundle", "-o", name]);
    command.env("USER", "somebody").env("HOME", "/home/somebody").env_remove("LOGNAME").env_remove("HOSTNAME");
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    fs::read(bench.path(name)).unwrap()
}

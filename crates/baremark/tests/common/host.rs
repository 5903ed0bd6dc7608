//! A study of a feature of the host.

use super::bench::Bench;
use std::fs;
use std::process::Command;

pub const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

pub const STUDY: &str = r#"
[study]
title = "swapping"
[workload]
kind = "random-access"
table = "8 MiB"
[factors]
"host.swappiness" = [11, 12]
page = "4k"
ranks = 1
[design]
phase = "50 ms"
quads = 1
least_blocks = 5
most_blocks = 6
precision = "0.1 %"
budget = "60 s"
[report]
columns = "host.swappiness"
ratio_to = { "host.swappiness" = 11 }
"#;

pub fn value() -> String {
    fs::read_to_string(SWAPPINESS).unwrap().trim().to_owned()
}

pub fn command(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.command(arguments);
    command.env("XDG_STATE_HOME", bench.path("state"));
    command
}

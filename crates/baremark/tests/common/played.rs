//! Studies of programs that print what is measured: what a run finds follows from the code alone, on any machine.

use crate::common::bench::Bench;

/// Whether a ratio is this one, but for rounding.
pub fn is_ratio(row: &serde_json::Value, ratio: f64) -> bool {
    row["ratio"].as_f64().is_some_and(|found| (found / ratio - 1.0).abs() < 1e-9)
}

/// Two levels of which one is 1.3 times the other, without any noise.
pub const PLAYED: &str = r#"
[study]
title = "a played study"
[workload]
kind = "command"
[command]
argv = ["sh", "-c", "echo rate {rate}"]
[command.parameters]
rate = 100
[command.metrics.rate]
unit = "1/s"
better = "higher"
regex = 'rate (?<value>\S+)'
[factors]
rate = [100, 130]
[design]
phase = "1 ms"
least_blocks = 10
most_blocks = 10
precision = "0.1 %"
budget = "24 h"
[report]
metric = "rate"
columns = "rate"
ratio_to = { rate = 100 }
"#;

/// The same with a noise of its own, which is the same each time: ten times the level, and 0 to 6. The precision is met at the first analysis and confirmed at
/// the last block, so that trials have few quads.
pub fn noisy(bench: &Bench) -> String {
    let study = PLAYED.replace("least_blocks = 10", "least_blocks = 7").replace("\"0.1 %\"", "\"5 %\"");
    study.replace("echo rate {rate}", &counting(bench, "{rate} * 10"))
}

/// The same of one level of 100.
pub fn noisy_level(bench: &Bench) -> String {
    one_level(&counting(bench, "1000"))
}

/// Prints a rate that is 0 to 6 above another, by how often it was started.
fn counting(bench: &Bench, from: &str) -> String {
    let count = bench.write("count", "0\n");
    let count = count.to_str().unwrap();
    format!("n=$(cat {count}); echo $((n + 1)) >{count}; echo rate $(({from} + n % 7))")
}

/// The same with one level and another program.
pub fn one_level(script: &str) -> String {
    let level = PLAYED.replace("[command.parameters]\nrate = 100\n", "").replace("[factors]\nrate = [100, 130]\n", "");
    let level = level.replace("columns = \"rate\"\nratio_to = { rate = 100 }\n", "");
    level.replace("echo rate {rate}", script)
}

//! Result files of hyperfine.

use crate::common::bench::Bench;

/// Two result files of hyperfine, `a.json` and `b.json`, of two commands with ten runs each; those of the second take 1.06 times as long.
pub fn two_files(bench: &Bench) {
    for (name, factor) in [("a.json", 1.0), ("b.json", 1.06)] {
        let times: Vec<f64> = (0..10).map(|run| factor * (0.5 + 0.001 * f64::from(run * 7 % 10))).collect();
        let of = |command: &str| {
            format!(
                "{{\"command\": \"{command}\", \"mean\": {0}, \"median\": {0}, \"user\": {0}, \"system\": 0.0, \"times\": {times:?}, \"exit_codes\": [0]}}",
                times[0]
            )
        };
        bench.write(name, format!("{{\"results\": [{}, {}]}}", of("sort words"), of("gzip -1 words")));
    }
}

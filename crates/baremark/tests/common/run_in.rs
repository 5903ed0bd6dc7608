//! One program in several environments: what is run, and what is read of it.

use crate::common::bench::{Bench, text, unbroken};
use crate::common::outcome::{counts, rows, sound};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A program that folds the bytes of a file and prints the sum, again and again for some milliseconds.
pub const FOLDING: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(int n, char **w) { unsigned long sum = 7; for (int turn = 0; turn < 4000; turn++) { FILE *f = turn % 1000 ? 0 : fopen(w[1], \"r\");\n\
    int c; if (f) { while ((c = fgetc(f)) != EOF) sum = sum * 31 + c; fclose(f); } else for (int i = 0; i < 2000; i++) sum = sum * 31 + (sum >> 7); }\n\
    printf(\"sum %lu of %s\\n\", sum % 1000003, w[1]); return 0; }\n";

/// A program of this source, if the compiler makes one.
pub fn built(bench: &Bench, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (from, to) = (bench.write(&format!("{name}.c"), source), bench.path(name));
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&to).arg(from).args(options).output().unwrap();
    built.status.success().then_some(to)
}

/// The estimates of one metric by environment.
pub fn by_place<'d>(document: &'d Value, metric: &str) -> Vec<(&'d str, f64)> {
    let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == metric);
    rows.map(|row| (row["treatment"]["environment"].as_str().unwrap(), row["estimate"].as_f64().unwrap())).collect()
}

/// Runs a static and a dynamic program that fold a file in these places: they print the same everywhere. The outputs of both runs.
pub fn fold_in(bench: &Bench, places: &str) -> [String; 2] {
    bench.write("data", "some bytes\n".repeat(500));
    [("static", &["-static"][..]), ("dynamic", &[])].map(|(name, options)| {
        built(bench, name, FOLDING, options).unwrap();
        let program = format!("./{name}");
        // The rate that a program prints is the same each time, so that as few blocks as there may be are measured.
        let arguments = ["run", "--in", places, "--budget", "1h", "--by", "sum", "-m", "sum=sum ([0-9]+)"];
        let ran = bench.run(&[&arguments[..], &["--", &program, "data"]].concat());
        let (out, told) = (unbroken(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(0), "{out}{told}");
        let document = bench.json(&["--json", "report"]);
        sound(&document);
        let sums = by_place(&document, "sum");
        assert!(sums.iter().all(|(_, sum)| *sum == sums[0].1 && *sum > 0.0), "{name}: {sums:?}");
        for place in places.split(',') {
            let counted = rows(&document, "trials").iter().any(|trial| {
                counts(trial) && rows(trial, "arms").iter().any(|arm| arm["treatment"]["environment"] == place)
            });
            assert_eq!(sums.iter().any(|(at, _)| *at == place), counted, "{place}: {document:#}");
        }
        out
    })
}

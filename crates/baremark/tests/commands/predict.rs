//! Predictions of studies on the command line, and what is refused.

use crate::common::bench::{Bench, SMALL, text};
use crate::common::refused::refused;
use crate::common::schemas::{assert_fits, fits};
use serde_json::{Value, json};

#[test]
fn a_study_is_predicted_for_a_named_machine() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let output = bench.run(&["--json", "predict", "small.toml", "--machine", "nehalem-x5570"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = assert_fits(&output.stdout, "baremark-prediction/1");
    let cells = document["subjects"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 10, "native, nested and shadow by page sizes");
    for cell in cells {
        let ratio = &cell["relative_run_time"];
        let [low, median, high] = ["low", "median", "high"].map(|key| ratio[key].as_f64().unwrap());
        assert!(0.5 < low && low <= median && median <= high && high < 10.0, "{cell}");
    }
    assert!(!bench.store().exists(), "a prediction is not a run");
    assert_eq!((&document["environments"], &document["subjects"][0]["sampled"]), (&json!([]), &Value::Null));
}

/// All cores of a processor: each has a fourth of the last cache, which is soon filled.
const BUSY: [&str; 4] = ["--machine", "nehalem-x5570", "--cores", "4"];

#[test]
fn an_environment_is_predicted_with_the_schemes_that_it_has() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let of = |environments: &str| {
        let arguments = [&["predict", "small.toml", "--in", environments, "--json"][..], &BUSY].concat();
        let document = fits(&bench, &arguments, "baremark-prediction/1");
        let cells = document["subjects"][0]["cells"].as_array().unwrap();
        let schemes: Vec<String> = cells.iter().map(|cell| cell["scheme"].as_str().unwrap().to_owned()).collect();
        (schemes, document["environments"].clone())
    };
    let (schemes, found) = of("container");
    assert_eq!(schemes, ["native 4k", "native 2m"], "no second table");
    assert_eq!((&found[0]["nested"], &found[0]["shadow"]), (&json!(false), &json!(false)));
    // Which of both a machine has that is requested by name is not known.
    let (schemes, found) = of("qemu,container");
    assert_eq!((schemes.len(), found.as_array().unwrap().len()), (10, 2));
    let output = bench.run(&[&["predict", "small.toml", "--in", "sandbox"][..], &BUSY].concat());
    let said = text(&output.stdout);
    assert!(said.contains("sandbox: none: no second table") && !said.contains("shadow, "), "{said}");
    let unknown = refused(&bench, &["predict", "small.toml", "--in", "xen"], 2);
    assert!(unknown.contains("--in xen: unknown; write native, "), "{unknown}");
}

const KERNELS: &str = r#"[study]
title = "Every kernel whose addresses are known, and one without"

[workload]
kind = ["random-access", "stream", "pointer-chase", "hpl", "dgemm", "page-table", "syscall"]

[workload.random-access]
table = "8 MiB"

[workload.stream]
array = "8 MiB"
small = true

[workload.pointer-chase]
working_set = "8 MiB"

[workload.hpl]
n = 500

[workload.dgemm]
n = 500

[workload.page-table]
region = "8 MiB"

[factors]
ranks = 1
"#;

#[test]
fn every_kernel_of_a_study_is_predicted_and_others_are_named() {
    let bench = Bench::new();
    bench.write("kernels.toml", KERNELS);
    let output = bench.run(&[&["--json", "predict", "kernels.toml"][..], &BUSY].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let subjects = document["subjects"].as_array().unwrap();
    let names: Vec<&str> = subjects.iter().map(|one| one["subject"].as_str().unwrap()).collect();
    let expected = [
        "random updates of a table of 8 MiB on each rank",
        "passes over three arrays, 8 MiB of each on each rank",
        "dependent loads from 8 MiB on each rank",
        "updates of a matrix of 500 by 500, 192 deep",
        "updates of a matrix of 500 by 500, 256 deep",
        "first touches of 8 MiB on each rank",
    ];
    assert_eq!(names, expected);
    let left_out = document["not_predicted"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert!(left_out[0].as_str().unwrap().starts_with("no addresses are known of the workload 'syscall'"));
    let ratio = |subject: usize, scheme: &str| {
        let cells = subjects[subject]["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["scheme"] == scheme).unwrap();
        cell["relative_run_time"]["median"].as_f64().unwrap()
    };
    let touches = ratio(5, "shadow, guest 4k on host 2m") / ratio(5, "nested, guest 4k on host 2m");
    assert!(touches > 1.5, "a fault exits under shadow paging: {touches}");
    assert!(
        ratio(0, "nested, guest 4k on host 2m") > ratio(1, "nested, guest 4k on host 2m"),
        "random against in order"
    );
}

#[test]
fn what_cannot_be_predicted_is_refused_with_a_remedy() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    bench.write("fma.toml", SMALL.replace("random-access", "fma").replace("table = \"8 MiB\"", ""));
    bench.write("odd.txt", "once upon a time\n");
    let unknown = refused(&bench, &["predict", "small.toml", "--machine", "zen-44"], 2);
    assert!(unknown.contains("'zen-44' is not known; did you mean 'zen-4'?"), "{unknown}");
    let fma = refused(&bench, &["predict", "fma.toml", "--machine", "zen-4"], 2);
    assert!(fma.contains("no addresses are known of the workload 'fma'"), "{fma}");
    // A program's addresses are in no study: it is named after --, and traced.
    bench.write(
        "program.toml",
        "[study]\ntitle = \"t\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"true\"]\n",
    );
    let program = refused(&bench, &["predict", "program.toml", "--machine", "zen-4"], 2);
    assert!(program.contains("no addresses are known of the workload 'command'"), "{program}");
    assert!(program.contains(", or any program after --"), "{program}");
    let odd = refused(&bench, &["predict", "--distances", "odd.txt", "--machine", "zen-4"], 2);
    assert!(odd.contains("odd.txt: line 1: 'once upon a time'"), "{odd}");
    let nothing = refused(&bench, &["predict"], 2);
    assert!(nothing.contains("nothing to predict is named; write predict STUDY, or predict -- PROGRAM"), "{nothing}");
    refused(&bench, &["predict", "small.toml", "--validate"], 2);
}

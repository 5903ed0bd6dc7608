//! Imports that are killed, and files that are made to take memory.

use crate::common::bench::{Bench, text};
use crate::common::bundled::bounded;
use crate::common::points::{kill, stopped_at};
use serde_json::Value;
use std::process::Stdio;

const COLUMNS: [&str; 2] = ["--columns", "test,seconds:lower:s"];

fn import(bench: &Bench, file: &str, name: &str) {
    let imported = bench.run(&[&["import", file, "--as", name], &COLUMNS[..]].concat());
    assert!(imported.status.success(), "{}", text(&imported.stderr));
}

/// Before, 23,000 values of an import that was killed half-way were compared as if they were all.
#[test]
fn a_killed_import_is_shown_as_killed_and_not_compared() {
    let bench = Bench::new();
    let values = |count: usize| (0..count).map(|at| format!("sort,1.0{at:05}\n")).collect::<String>();
    bench.write("old.csv", format!("test,seconds\n{}", values(10)));
    bench.write("new.csv", format!("test,seconds\n{}", values(12_000)));
    import(&bench, "old.csv", "old");
    for (point, trials) in [("import-begun", 0), ("import-stored", 5_000), ("import-stored:3", 12_000)] {
        let mut command = bench.command(&[&["import", "new.csv", "--as", "new"], &COLUMNS[..]].concat());
        let mut importing = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), point);
        kill(&mut importing);
        let history = bench.json(&["history", "--json"]);
        let runs = history["runs"].as_array().unwrap();
        let killed: Vec<&Value> = runs.iter().filter(|run| run["state"] == "killed").collect();
        let last = killed.iter().find(|run| run["trials"] == trials).unwrap_or_else(|| panic!("{history:#}"));
        let id = last["id"].as_str().unwrap();
        let says = "its import did not come to an end, and values are missing; import the file again";
        for arguments in [&["compare", "old", id][..], &["compare", id, "old"], &["check", "--against", "old", id]] {
            let refused = bench.run(arguments);
            let said = text(&refused.stderr);
            assert!(
                refused.status.code() == Some(2) && said.contains(&format!("run {id}: {says}")),
                "{arguments:?}: {said}"
            );
        }
        let by_name = bench.run(&["compare", "old", "new"]);
        let said = text(&by_name.stderr);
        assert!(by_name.status.code() == Some(2) && said.contains(&format!("run {id} of 'new' is left out")), "{said}");
        let resumed = bench.run(&["resume", id]);
        assert!(text(&resumed.stderr).contains("was imported and cannot be resumed"), "{}", text(&resumed.stderr));
    }
    let none = bench.run(&["resume"]);
    assert!(text(&none.stderr).contains("there is nothing to resume"), "{}", text(&none.stderr));
    import(&bench, "new.csv", "new");
    let runs = bench.json(&["history", "--json"])["runs"].as_array().unwrap().clone();
    let whole: Vec<&Value> = runs.iter().filter(|run| run["state"] == "finished" && run["trials"] == 12_000).collect();
    assert_eq!(whole.len(), 1, "{runs:#?}");
}

/// Labels are arms of a plan, and a table of one label is long without being wide.
#[test]
fn files_of_any_kind_are_imported_or_refused_in_little_memory() {
    let bench = Bench::new();
    let import = |name: &str, content: String, more: &[&str]| {
        bench.write(name, content);
        let output = bounded(&bench, 512, &[&["import", name, "--quiet"], more].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let long: String = (0..30_000).map(|at| format!("sort,1.0{at:05}\n")).collect();
    let (code, said) = import("long.csv", format!("test,seconds\n{long}"), &COLUMNS);
    assert!(code == Some(0) && said.contains("values: 30000"), "{said}");
    let wide: String = (0..20_000).map(|at| format!("label {at},1.0{at:05}\n")).collect();
    let (code, said) = import("wide.csv", format!("test,seconds\n{wide}"), &COLUMNS);
    assert!(code == Some(0) && said.contains("values: 20000"), "{said}");
    let rows = "{\"name\":\"\"},".repeat(2 << 20);
    let (code, said) = import("rows.json", format!("{{\"context\":{{}},\"benchmarks\":[{rows}{{}}]}}"), &[]);
    assert!(code == Some(2) && said.contains("its values take more than 128 MiB of memory"), "{said}");
    let elements = "<Entry/>".repeat(2 << 20);
    let (code, said) = import("all.xml", format!("<PhoronixTestSuite>{elements}</PhoronixTestSuite>"), &[]);
    assert!(code == Some(2) && said.contains("more than 1000000 elements"), "{said}");
    let attributes: String = (0..300_000).map(|at| format!(" a{at}=''")).collect();
    let (code, said) = import("attributes.xml", format!("<PhoronixTestSuite{attributes}/>"), &["--format", "phoronix"]);
    assert!(code == Some(2) && said.contains("more than 64 attributes"), "{said}");
}

/// Before, this was the latest run of its store for 500 years.
#[test]
fn a_time_in_the_far_future_does_not_make_the_latest_run() {
    let bench = Bench::new();
    let fio =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/fixtures/fio.json")).unwrap();
    let at = fio.find("\"timestamp\" : ").unwrap() + "\"timestamp\" : ".len();
    let end = at + fio[at..].find(',').unwrap();
    bench.write("future.json", format!("{}18446744073709551615{}", &fio[..at], &fio[end..]));
    bench.write("test.csv", "test,seconds\nsort,1.5\n");
    let future = bench.run(&["import", "future.json"]);
    let said = text(&future.stdout);
    assert!(future.status.success() && said.contains("is before 1990 or in the future, and is left out"), "{said}");
    import(&bench, "test.csv", "later");
    let latest = text(&bench.run(&["report"]).stdout);
    assert!(latest.contains("seconds") && !latest.contains("iops"), "{latest}");
}

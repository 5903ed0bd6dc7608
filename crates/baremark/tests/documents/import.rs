//! Results of other programs as runs: imported, compared, checked, listed, reported, and refused with the place of their damage.

use crate::common::bench::{Bench, text, unbroken};
use crate::common::hyperfine;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/fixtures")
}

/// Three files a side of HPCC's output: a real one, whose figures wander by a tenth of a percent from file to file, and those of
/// HPL are multiplied by `factor`.
fn hpcc(bench: &Bench, side: &str, factor: f64) {
    let real = fs::read_to_string(fixtures().join("hpcc.txt")).unwrap();
    for (index, wander) in [1.0, 1.001, 0.999].iter().enumerate() {
        let changed = |line: &str| {
            let (key, value) =
                line.split_once('=').filter(|(key, _)| key.ends_with("Tflops") || key.ends_with("_Triad"))?;
            let factor = if key == "HPL_Tflops" { factor } else { 1.0 };
            Some(format!("{key}={}", value.parse::<f64>().unwrap() * wander * factor))
        };
        let lines: Vec<String> = real.lines().map(|line| changed(line).unwrap_or_else(|| line.to_owned())).collect();
        bench.write(&format!("{side}{index}.txt"), lines.join("\n") + "\n");
    }
}

fn import(bench: &Bench, side: &str, more: &[&str]) {
    let files: Vec<String> = (0..3).map(|index| format!("{side}{index}.txt")).collect();
    let mut arguments = vec!["import", "--as", side];
    arguments.extend(files.iter().map(String::as_str).chain(more.iter().copied()));
    let output = bench.run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn three_raw_logs_a_side_give_a_ratio_with_its_interval_and_a_gate() {
    let bench = Bench::new();
    let figures = ["--metric", "HPL_Tflops", "--metric", "StarSTREAM_Triad"];
    for (side, factor) in [("old", 1.0), ("same", 1.0), ("worse", 0.9)] {
        hpcc(&bench, side, factor);
        import(&bench, side, &figures);
    }
    let compared = bench.json(&["compare", "old", "worse", "--json"]);
    let row = |metric: &str| {
        let rows = compared["rows"].as_array().unwrap();
        rows.iter().find(|row| row["metric"] == metric).unwrap_or_else(|| panic!("{compared:#}"))
    };
    let (lo, hi) = (row("HPL_Tflops")["lo"].as_f64().unwrap(), row("HPL_Tflops")["hi"].as_f64().unwrap());
    assert!(lo < 0.9 && 0.9 < hi && hi - lo < 0.02, "{compared:#}");
    assert_eq!(
        (row("HPL_Tflops")["base_units"].as_u64(), row("HPL_Tflops")["better"].as_str()),
        (Some(3), Some("higher"))
    );
    assert_eq!(row("StarSTREAM_Triad")["outcome"], "equivalent", "{compared:#}");
    assert_eq!(compared["confounded"].as_array().unwrap().len(), 0, "{compared:#}");

    for (side, code) in [("same", 0), ("worse", 4)] {
        let summary = bench.path("summary.md");
        let checked = bench.run(&["check", "--against", "old", side, "--summary", summary.to_str().unwrap()]);
        assert_eq!(checked.status.code(), Some(code), "{side}: {}{}", text(&checked.stdout), text(&checked.stderr));
        let markdown = fs::read_to_string(summary).unwrap();
        let answer =
            if code == 0 { "0 of 2 comparisons are worse (exit 0)" } else { "1 of 2 comparisons is worse (exit 4)" };
        assert!(markdown.starts_with("### HPCC: ") && markdown.contains(answer), "{markdown}");
        let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 4, "a heading and a line for each figure: {markdown}");
        assert!(rows.iter().all(|row| row.matches('|').count() == 8), "{markdown}");
        assert_eq!(markdown.contains("**FAIL**: slower"), code == 4, "{markdown}");
    }
    let history = bench.json(&["history", "--json"]);
    let worse = |run: &&Value| run["file"] == "import worse";
    assert_eq!(history["runs"].as_array().unwrap().iter().filter(worse).count(), 3, "{history:#}");
    let report = text(&bench.run(&["report"]).stdout);
    assert!(report.contains("HPL_Tflops") && report.contains(" Tflop/s"), "{report}");
    let details = text(&bench.run(&["report", "--details"]).stdout);
    assert!(
        details.contains("on vm") && !details.contains("bare metal") && !details.contains("baremark run"),
        "{details}"
    );
    let rows = text(&bench.run(&["report", "--csv=trials"]).stdout);
    assert!(rows.contains("StarSTREAM_Triad"), "{rows}");
    let html = bench.path("page.html");
    assert!(bench.run(&["report", "--html", html.to_str().unwrap()]).status.success());
}

#[test]
fn what_was_imported_since_a_baseline_is_found_by_its_study() {
    let bench = Bench::new();
    let times = |name: &str, factor: f64| {
        let rows: String = (0..6).map(|at| format!("sort,{}\n", factor * (1.0 + 0.001 * f64::from(at % 3)))).collect();
        bench.write(name, format!("test,seconds\n{rows}"));
    };
    for (name, factor) in [("a", 1.0), ("b", 1.001), ("c", 0.999), ("d", 1.2), ("e", 1.201), ("f", 1.199)] {
        times(name, factor);
    }
    let columns = ["--columns", "test,seconds:lower:s"];
    let one = |name: &str, label: &str| {
        let output = bench.run(&[&["import", name, "--as", label, "--json"], &columns[..]].concat());
        crate::common::schemas::assert_fits(&output.stdout, "baremark-import/1")
    };
    for name in ["a", "b", "c"] {
        one(name, "baseline");
    }
    for name in ["d", "e"] {
        one(name, "later");
    }
    let document = one("f", "later");
    assert_eq!(
        (&document["runs"][0]["metrics"][0], &document["runs"][0]["benchmarks"][0]),
        (&"seconds".into(), &"sort".into())
    );
    let checked = bench.run(&["check", "--against", "baseline", "--json"]);
    assert_eq!(checked.status.code(), Some(4), "{}{}", text(&checked.stdout), text(&checked.stderr));
    let changes = bench.run(&["history", "--changes"]);
    assert!(changes.status.success(), "{}", text(&changes.stderr));
    // A file that no format recognises is imported with its columns before it can be compared; another benchmark is other work.
    let raw = bench.run(&["compare", "a", "baseline"]);
    assert!(
        raw.status.code() == Some(2) && text(&raw.stderr).contains("one that `baremark import` recognises"),
        "{}",
        text(&raw.stderr)
    );
    bench.write("g", "test,seconds\ncopy,1.0\n");
    one("g", "other");
    let other = bench.run(&["compare", "baseline", "other"]);
    assert!(text(&other.stderr).contains("did not do the same work: benchmark is sort"), "{}", text(&other.stderr));
}

#[test]
fn what_cannot_be_imported_is_refused_and_leaves_no_run() {
    let bench = Bench::new();
    hpcc(&bench, "old", 1.0);
    let whole = fs::read_to_string(bench.path("old0.txt")).unwrap();
    bench.write("cut.txt", &whole[..whole.len() / 2]);
    bench.write("prose.txt", "no result at all\n");
    for (arguments, says) in [
        (&["import", "old0.txt", "cut.txt"][..], "cut.txt: hpcc: line "),
        (&["import", "prose.txt"], "prose.txt: format not recognised; name it with --format: hyperfine, fio"),
        (&["import", "old0.txt", "--format", "fio"], "old0.txt: fio: byte 0: has no JSON object"),
        (&["import", "nothing.txt"], "reading nothing.txt: No such file"),
        (&["import", "old0.txt", "--metric", "hpl"], "no metric 'hpl'; the file has HPL_Tflops"),
        (&["import", "old0.txt", "--only", "x"], "no benchmark contains 'x'"),
        (&["import", "old0.txt", "--run", "latest"], "are for monitoring data"),
        (&["import", "old0.txt", "--as", "a,b"], "write a name without ','"),
        (&["import", "old0.txt", "old1.txt", "./old0.txt"], "./old0.txt: the same as old0.txt; a run counts once"),
        (&["import", "old0.txt", "--columns", "a:sideways"], "'a:sideways' is not a column"),
    ] {
        let refused = bench.run(arguments);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(says), "{arguments:?}: {said}");
    }
    assert!(!bench.store().exists(), "nothing was stored");
    // Values of one file are not paired: hyperfine's commands do not take turns.
    let file = fixtures().join("hyperfine.json");
    let imported = bench.json(&["import", file.to_str().unwrap(), "--json"]);
    let run = imported["runs"][0]["id"].as_str().unwrap();
    let names = imported["runs"][0]["benchmarks"].as_array().unwrap();
    let side = |at: usize| format!("{run}:benchmark={}", names[at].as_str().unwrap());
    let refused = bench.run(&["compare", &side(0), &side(1)]);
    assert!(text(&refused.stderr).contains("its values are not paired"), "{}", text(&refused.stderr));
}

/// Ten values of one invocation a side: "3 runs a side are needed" was the answer, and "0 ms more" would have settled it.
#[test]
fn values_of_one_file_a_side_are_compared() {
    let bench = Bench::new();
    for (name, factor) in [("old", 1.0), ("new", 1.3)] {
        let rows: String = (0..10).map(|at| format!("{}\n", factor * (1.0 + 0.01 * f64::from(at % 4)))).collect();
        bench.write(name, format!("seconds\n{rows}"));
        let imported = bench.run(&["import", name, "--as", name, "--columns", "seconds:lower:s"]);
        assert!(imported.status.success(), "{}", text(&imported.stderr));
    }
    let row = &bench.json(&["compare", "old", "new", "--json"])["rows"][0];
    assert_eq!((row["base_units"].as_u64(), row["outcome"].as_str()), (Some(10), Some("slower_by_more")), "{row:#}");
    let (lo, hi) = (row["lo"].as_f64().unwrap(), row["hi"].as_f64().unwrap());
    assert!(lo < 1.3 && 1.3 < hi && hi < 1.4, "{row:#}");
    let shown = text(&bench.run(&["compare", "old", "new"]).stdout);
    assert!(shown.contains("n counts values of the imported files") && shown.contains("value by value"), "{shown}");
    assert!(shown.contains(" (old) on ") && shown.contains(" (new) on "), "the names of --as: {shown}");
    let checked = bench.run(&["check", "--against", "old", "new"]);
    let said = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(4), "{said}");
    assert!(said.contains("slower by at least") && !said.contains("0 ms"), "{said}");
}

/// A file with two benchmarks: its details had each value in a sentence and in the table.
#[test]
fn each_value_of_a_file_is_printed_once() {
    let bench = Bench::new();
    bench.write("two", "test,seconds\nsort,1.5\nsort,1.5\ncopy,2.25\ncopy,2.25\n");
    let imported = bench.run(&["import", "two", "--columns", "test,seconds:lower:s"]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    for arguments in [&["report"][..], &["report", "--details"]] {
        let shown = text(&bench.run(arguments).stdout);
        assert_eq!([shown.matches("1.50").count(), shown.matches("2.25").count()], [1, 1], "{arguments:?}: {shown}");
    }
}

#[test]
fn what_cannot_be_in_a_result_is_printed_and_ends_with_4() {
    let bench = Bench::new();
    bench.write("sound", "seconds\n1\n2\n3\n4\n");
    bench.write("wrong", "seconds\n1\n2\n3\n4\n");
    let sound = bench.run(&["import", "sound", "--columns", "seconds:lower:s"]);
    assert!(sound.status.success(), "{}", text(&sound.stderr));
    let verified = bench.run(&["report", "--verify-document"]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    assert!(text(&verified.stdout).contains(": no violation in 1 estimates, 0 ratios and 4 trials"), "{verified:?}");
    bench.write("wrong", "span\n1\n2\n3\n5\n");
    let wrong = bench.run(&["import", "wrong", "--columns", "span:lower:msec"]);
    assert!(wrong.status.success(), "{}", text(&wrong.stderr));
    let verified = bench.run(&["report", "--verify-document"]);
    assert_eq!(verified.status.code(), Some(4));
    let lines = text(&verified.stdout);
    assert!(lines.lines().count() == 1 && lines.contains(": unknown unit 'msec'; write ms"), "{lines}");
    let document = bench.run(&["report", "--verify-document", "--json"]);
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["violations"][0]["expected"], "write ms", "{document:#}");
}

/// Runs that were imported under a file's name were compared in its place, and those of an earlier import with the new ones.
#[test]
fn a_name_of_several_things_is_said() {
    let bench = Bench::new();
    hyperfine::two_files(&bench);
    let said = |arguments: &[&str]| unbroken(&bench.run(arguments).stderr);
    assert_eq!(said(&["import", "a.json"]), "");
    let warned = said(&["compare", "a.json", "b.json"]);
    assert!(warned.contains("warning: a.json: a run was imported under this name, and a file has it too"), "{warned}");
    assert_eq!(said(&["compare", "./a.json", "b.json"]), "");
    assert_eq!(said(&["import", "b.json", "--as", "side"]), "");
    let again = said(&["import", "b.json", "--as", "side"]);
    assert!(again.contains("warning: side: a run was imported under this name before"), "{again}");
}

#[test]
fn two_files_of_another_program_are_compared_without_being_stored() {
    let bench = Bench::new();
    hyperfine::two_files(&bench);
    let document = bench.json(&["compare", "a.json", "b.json", "--json"]);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "a row of each command: {document:#}");
    assert!(rows.iter().all(|row| (row["ratio"].as_f64().unwrap() - 1.06).abs() < 1e-9), "{document:#}");
    assert!(!bench.store().exists(), "nothing is stored");
    // One file three times is no three runs.
    let thrice = bench.run(&["compare", "a.json", "b.json,./b.json,b.json"]);
    let said = text(&thrice.stderr);
    assert_eq!(thrice.status.code(), Some(2), "{said}");
    assert!(said.contains("./b.json: the same as b.json; a run counts once"), "{said}");
    bench.write("none.json", "{\"results\": []}");
    let refused = bench.run(&["compare", "a.json", "none.json"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("none.json is neither a result document"), "{}", text(&refused.stderr));
}

//! What a place costs before work runs: start-up, wake-ups, and what is costly under the kernel's mitigations.

use crate::bench::{Bench, kvm, text};
use serde_json::Value;

/// A study of these lines, over in seconds.
fn study(kind: &str, factors: &str, report: &str) -> String {
    format!(
        "[study]\ntitle = \"small\"\n[workload]\nkind = {kind}\n[factors]\n{factors}\nranks = 1\n[design]\nphase = \"60 ms\"\nquads = 1\n\
         least_blocks = 4\nmost_blocks = 4\nbudget = \"60 s\"\n[report]\n{report}\n"
    )
}

/// The estimates of a metric, each with its treatment's level of `factor`.
fn estimates(document: &Value, metric: &str, factor: &str) -> Vec<(String, f64)> {
    let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == metric);
    let level = |row: &Value| row["treatment"][factor].as_str().unwrap_or_default().to_owned();
    rows.map(|row| (level(row), row["estimate"].as_f64().unwrap())).collect()
}

#[test]
fn a_wake_up_has_a_latency_by_each_way() {
    let bench = Bench::new();
    let report = "columns = \"by\"\nratio_to = { by = \"timer\" }";
    bench.write("w.toml", study("\"wakeup\"", "by = [\"timer\", \"futex\", \"pipe\", \"eventfd\"]", report));
    let document = bench.json(&["run", "w.toml", "--json"]);
    for metric in ["latency_p50_us", "latency_mean_us", "latency_max_us"] {
        let found = estimates(&document, metric, "by");
        assert_eq!(found.len(), 4, "{metric}: {document:#}");
        assert!(found.iter().all(|(_, value)| *value > 0.0 && *value < 1e6), "{metric}: {found:?}");
    }
    // The kernel's state is recorded with the run, and shown where the kernel says it.
    let state = document["run"]["machine"]["kernel"]["mitigations"].as_object().unwrap();
    let details = text(&bench.run(&["report", "--details"]).stdout);
    assert_eq!(details.contains("mitigations"), !state.is_empty(), "{details}");
    assert!(details.contains("Wake-ups by latency"), "{details}");
}

#[test]
fn a_server_is_started_in_each_place_and_answers() {
    let bench = Bench::new();
    let places = if kvm() { "[\"process\", \"microvm\"]" } else { "[\"process\"]" };
    let report = "columns = \"place\"\nratio_to = { place = \"process\" }";
    bench.write(
        "s.toml",
        study("\"start-up\"", &format!("place = {places}\nat_once = [1, 2]\ncache = [\"warm\", \"cold\"]"), report),
    );
    // The folder of a process that was killed is removed by the next one.
    let orphan = std::env::temp_dir().join(format!("baremark-start-{}-0", u32::MAX));
    std::fs::create_dir_all(&orphan).unwrap();
    let document = bench.json(&["run", "s.toml", "--json"]);
    assert!(!orphan.exists(), "{}", orphan.display());
    let [began, listening, answered] =
        ["began_ms", "listening_ms", "answered_ms"].map(|metric| estimates(&document, metric, "place"));
    assert!(!began.is_empty(), "{document:#}");
    for ((began, listening), answered) in began.iter().zip(&listening).zip(&answered) {
        assert!(
            0.0 < began.1 && began.1 <= listening.1 && listening.1 <= answered.1,
            "{began:?} {listening:?} {answered:?}"
        );
    }
    nothing_is_left();
}

/// No folder of a server is of a process that has ended. Other tests may start servers just now.
fn nothing_is_left() {
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("baremark-start-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        assert!(pid.is_none_or(crate::bench::lives), "{name}");
    }
}

#[test]
fn copies_are_counted_with_their_memory_and_their_latency() {
    let bench = Bench::new();
    let places = if kvm() { "[\"process\", \"microvm\"]" } else { "[\"process\"]" };
    let report = "metric = \"memory_mib\"\ncolumns = \"place\"\nratio_to = { place = \"process\" }";
    let text_of = |load: &str, more: &str| {
        let study = study("\"density\"", &format!("place = {places}\nload = \"{load}\""), report);
        study.replace("[factors]", &format!("{more}\n[factors]")).replace("quads = 1", "quads = 0")
    };
    bench.write("light.toml", text_of("light", "max = 5\nlimit = \"1 s\""));
    let document = bench.json(&["run", "light.toml", "--json"]);
    let of = |metric: &str| estimates(&document, metric, "place");
    assert!(of("copies").iter().all(|(_, copies)| (copies - 5.0).abs() < 1e-9), "{document:#}");
    assert!(of("latency_p99_ms").iter().all(|(_, ms)| *ms > 0.0 && *ms < 1000.0), "{document:#}");
    let memory = of("memory_mib");
    assert!(!memory.is_empty() && memory.iter().all(|(_, mib)| *mib > 0.05 && *mib < 500.0), "{memory:?}");
    assert!(of("fit").iter().all(|(_, fit)| *fit > 5.0), "{document:#}");
    let flags = document["flags"].to_string();
    assert!(flags.contains("stopped at max = 5 copies"), "{flags}");
    let details = text(&bench.run(&["report", "--details"]).stdout);
    assert!(details.contains("5 copies kept every limit"), "{details}");
    nothing_is_left();
    // A limit that one copy cannot keep is a failure, and a reserve that is in use already is refused before anything is started.
    bench.write("strict.toml", text_of("light", "max = 1\nrate = 1000\nlimit = \"10 us\""));
    let strict = bench.run(&["run", "strict.toml"]);
    assert!(text(&strict.stderr).contains("one copy alone does not keep the limit"), "{}", text(&strict.stderr));
    bench.write("full.toml", text_of("idle", "max = 1\nreserve = \"100 %\""));
    let full = bench.run(&["run", "full.toml"]);
    let said = format!("{}{}", text(&full.stdout), text(&full.stderr));
    assert!(said.contains("less memory is available than the reserve and one copy"), "{said}");
}

#[test]
fn an_exit_costs_more_than_a_native_call() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    bench.write("e.toml", study("[\"vm-exit\", \"syscall\"]", "environment = \"native\"", ""));
    let document = bench.json(&["run", "e.toml", "--json"]);
    let one = |metric: &str| estimates(&document, metric, "workload")[0].1;
    assert!(one("exit_ns") > one("native_call_ns") && one("forwarded_call_ns") > one("exit_ns"), "{document:#}");
}

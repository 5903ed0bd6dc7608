//! What a place costs before work runs: start-up, wake-ups, and copies of a server.

use crate::common::before_work::{counted, estimates, in_one_block, nothing_is_left_in, study};
use crate::common::bench::{Bench, kvm, text};
use serde_json::Value;

#[test]
fn a_wake_up_has_a_latency_by_each_way() {
    let bench = Bench::new();
    let report = "columns = \"by\"\nratio_to = { by = \"timer\" }";
    let ways = ["timer", "futex", "pipe", "eventfd", "ipi"];
    let ways = if kvm() { &ways[..] } else { &ways[..4] };
    bench.write("w.toml", study("\"wakeup\"", &format!("by = {ways:?}"), report));
    let document = bench.json(&["run", "w.toml", "--json"]);
    let [p50, mean, max] =
        ["latency_p50_us", "latency_mean_us", "latency_max_us"].map(|metric| estimates(&document, metric, "by"));
    assert_eq!([p50.len(), mean.len(), max.len()], [ways.len(); 3], "{document:#}");
    for ((p50, mean), max) in p50.iter().zip(&mean).zip(&max) {
        assert!(0.0 < p50.1 && p50.1 <= max.1 && 0.0 < mean.1 && mean.1 <= max.1, "{p50:?} {mean:?} {max:?}");
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
    let report = "columns = \"server_environment\"\nratio_to = { server_environment = \"process\" }";
    let factors = format!("server_environment = {places}\nat_once = [1, 2]\ncache = [\"warm\", \"cold\"]");
    // Each phase starts one, or two at once.
    bench.write("s.toml", in_one_block(&study("\"start-up\"", &factors, report)).replace("60 ms", "1 ms"));
    // The folder of a process that was killed is removed by the next one. It lies where no other test looks for one.
    let temporary = bench.path("temporary");
    let orphan = temporary.join(format!("baremark-start-{}-0", u32::MAX));
    std::fs::create_dir_all(&orphan).unwrap();
    let ran = bench.command(&["run", "s.toml", "--json"]).env("TMPDIR", &temporary).output().unwrap();
    let document = counted(&ran);
    assert!(!orphan.exists(), "{}", orphan.display());
    nothing_is_left_in(&temporary);
    let Some(document) = document else { return };
    let [began, listening, answered] =
        ["began_ms", "listening_ms", "answered_ms"].map(|metric| estimates(&document, metric, "server_environment"));
    assert!(!began.is_empty(), "{document:#}");
    for ((began, listening), answered) in began.iter().zip(&listening).zip(&answered) {
        assert!(
            0.0 < began.1 && began.1 <= listening.1 && listening.1 <= answered.1,
            "{began:?} {listening:?} {answered:?}"
        );
    }
}

#[test]
fn copies_are_counted_with_their_memory_and_their_latency() {
    let bench = Bench::new();
    let places = if kvm() { "[\"process\", \"microvm\"]" } else { "[\"process\"]" };
    let report =
        "metric = \"memory_mib\"\ncolumns = \"server_environment\"\nratio_to = { server_environment = \"process\" }";
    let text_of = |load: &str, more: &str| {
        let study = study("\"density\"", &format!("server_environment = {places}\nload = \"{load}\""), report);
        in_one_block(&study).replace("[factors]", &format!("{more}\n[factors]")).replace("quads = 1", "quads = 0")
    };
    bench.write("light.toml", text_of("light", "most = 5\nlimit = \"1 min\""));
    if let Some(document) = counted(&bench.run(&["run", "light.toml", "--json"])) {
        five_copies_are_counted(&bench, &document);
    }
    nothing_is_left_in(&std::env::temp_dir());
    // A limit that one copy cannot keep is a failure, and a reserve that is in use already is refused before anything is started.
    bench.write("strict.toml", text_of("light", "most = 1\nrate = 1000\nlimit = \"10 us\""));
    let strict = bench.run(&["run", "strict.toml"]);
    assert!(text(&strict.stderr).contains("one copy alone does not keep the limit"), "{}", text(&strict.stderr));
    bench.write("full.toml", text_of("idle", "most = 1\nreserve = \"100 %\""));
    let full = bench.run(&["run", "full.toml"]);
    let said = format!("{}{}", text(&full.stdout), text(&full.stderr));
    assert!(said.contains("less memory is available than the reserve and one copy"), "{said}");
}

/// What a study says whose ceiling is five copies.
fn five_copies_are_counted(bench: &Bench, document: &Value) {
    let of = |metric: &str| estimates(document, metric, "server_environment");
    assert!(of("copies").is_empty(), "a ceiling is no answer: {document:#}");
    let cpu = of("cpu");
    assert!(!cpu.is_empty() && cpu.iter().all(|(_, share)| *share >= 0.0), "{document:#}");
    assert!(of("latency_p99_ms").iter().all(|(_, ms)| *ms > 0.0 && *ms < 60_000.0), "{document:#}");
    let memory = of("memory_mib");
    assert!(!memory.is_empty() && memory.iter().all(|(_, mib)| *mib > 0.05), "{memory:?}");
    // On a busy machine five copies may use all that there is.
    let fit = of("fit");
    assert!(!fit.is_empty() && fit.iter().all(|(_, fit)| *fit >= 1.0), "{document:#}");
    let flags = document["flags"].to_string();
    assert!(flags.contains("ceiling reached: at least 5 copies keep every limit (most)"), "{flags}");
    assert!(flags.contains("bound first") || flags.contains("bounds first"), "{flags}");
    let details = text(&bench.run(&["report", "--details"]).stdout);
    assert!(details.contains("at least 5 copies keep every limit"), "{details}");
}

//! What a place costs before work runs: start-up, wake-ups, and what is costly under the kernel's mitigations.

use crate::bench::{Bench, kvm, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let ways = ["timer", "futex", "pipe", "eventfd", "ipi"];
    let ways = if kvm() { &ways[..] } else { &ways[..4] };
    bench.write("w.toml", study("\"wakeup\"", &format!("by = {ways:?}"), report));
    let document = bench.json(&["run", "w.toml", "--json"]);
    for metric in ["latency_p50_us", "latency_mean_us", "latency_max_us"] {
        let found = estimates(&document, metric, "by");
        assert_eq!(found.len(), ways.len(), "{metric}: {document:#}");
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
    // The folder of a process that was killed is removed by the next one. It lies where no other test looks for one.
    let temporary = bench.path("temporary");
    let orphan = temporary.join(format!("baremark-start-{}-0", u32::MAX));
    std::fs::create_dir_all(&orphan).unwrap();
    let ran = bench.command(&["run", "s.toml", "--json"]).env("TMPDIR", &temporary).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
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
    nothing_is_left_in(&temporary);
}

/// No folder of a server is of a process that has ended. Other tests may start servers just now.
fn nothing_is_left() {
    nothing_is_left_in(&std::env::temp_dir());
}

fn nothing_is_left_in(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("baremark-start-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        // Since the folder was read a process of another test may have removed its own, and ended.
        assert!(pid.is_none_or(crate::bench::lives) || !entry.path().exists(), "{name}");
    }
}

/// Prints why something is skipped, which must not be where every environment is demanded.
fn skipped(why: &str) {
    assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// The kernel of guests, where QEMU can boot one.
fn guest_kernel() -> Option<PathBuf> {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel/vmlinuz");
    let boots = kernel.exists() && Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !boots {
        skipped("a server in a guest: no QEMU, or no kernel (scripts/fetch-kernel)");
    }
    boots.then_some(kernel)
}

/// Runs one trial of a server in a place that has a clock and a loopback of its own; the document, where the place can be had.
fn apart(kind: &str, settings: &str) -> Option<Value> {
    let bench = Bench::new();
    let text_of = study(&format!("\"{kind}\"\n{settings}"), "", "").replace("quads = 1", "quads = 0");
    bench.write("s.toml", text_of.replace("least_blocks = 4\nmost_blocks = 4", "least_blocks = 1\nmost_blocks = 1"));
    let ran = bench.run(&["run", "s.toml", "--json"]);
    let errors = text(&ran.stderr);
    if errors.contains("OCI runtime \"runsc\" not found") || errors.contains("starting podman: ") {
        skipped("a server in gVisor: no podman, or no runsc");
        return None;
    }
    assert!(ran.status.success(), "{errors}");
    nothing_is_left();
    Some(serde_json::from_slice(&ran.stdout).unwrap())
}

fn one(document: &Value, metric: &str) -> f64 {
    let found = estimates(document, metric, "ranks");
    assert_eq!(found.len(), 1, "{metric}: {document:#}");
    found[0].1
}

/// Until its first instruction a guest has booted a kernel, which no process has.
fn starts_and_answers(document: &Value) {
    let [began, listening, answered] = ["began_ms", "listening_ms", "answered_ms"].map(|metric| one(document, metric));
    assert!(10.0 < began && began <= listening && listening <= answered, "{began} {listening} {answered}");
    let flags = document["flags"].to_string();
    assert!(flags.contains("no network but its own loopback"), "{flags}");
}

#[test]
fn a_server_in_a_guest_boots_answers_itself_and_is_weighed_with_what_qemu_takes() {
    let Some(kernel) = guest_kernel() else { return };
    let guest = format!("place = \"qemu\"\naccel = \"tcg\"\nkernel = \"{}\"\n", kernel.display());
    let document = apart("start-up", &guest).unwrap();
    starts_and_answers(&document);
    assert!(document["flags"].to_string().contains("emulated (TCG)"), "{}", document["flags"]);
    let document = apart("density", &format!("{guest}max = 1\nload = \"light\"\nlimit = \"1 min\"\n")).unwrap();
    let [memory, overhead] = ["memory_mib", "overhead_mib"].map(|metric| one(&document, metric));
    assert!(20.0 < overhead && overhead + 20.0 < memory && memory < 600.0, "{overhead} of {memory} MiB");
    assert!(one(&document, "latency_p99_ms") > 0.0);
}

#[test]
fn a_server_in_gvisor_answers_itself_and_is_weighed() {
    let Some(document) = apart("start-up", "place = \"gvisor\"") else { return };
    starts_and_answers(&document);
    let document = apart("density", "place = \"gvisor\"\nmax = 2\n").unwrap();
    assert!(one(&document, "memory_mib") > 5.0 && (one(&document, "copies") - 2.0).abs() < 1e-9, "{document:#}");
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
    bench.write("light.toml", text_of("light", "max = 5\nlimit = \"10 s\""));
    let document = bench.json(&["run", "light.toml", "--json"]);
    let of = |metric: &str| estimates(&document, metric, "place");
    assert!(of("copies").iter().all(|(_, copies)| (copies - 5.0).abs() < 1e-9), "{document:#}");
    assert!(of("latency_p99_ms").iter().all(|(_, ms)| *ms > 0.0 && *ms < 10_000.0), "{document:#}");
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

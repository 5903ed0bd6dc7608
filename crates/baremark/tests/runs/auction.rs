//! The auction application on its embedded database: searches, limits, failures, a topology of one's own, and the shipped study.

use crate::common::bench::{Bench, text};
use crate::common::points::stopped_at;
use crate::common::sites::cpu;
use crate::common::tiers::{
    BRISK, arguments, assert_merged_by_one_rule, assert_stored, document, kill_with_all, metric, ran, result, searched,
    shrunk, sound, with_operations, without_pictures,
};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A search of a few short windows. How many users it finds is judged by `measured`.
const SHORT: [&str; 9] = [
    "load.users=0",
    "load.cycle=100 ms",
    "load.finest=30 %",
    "load.visits=6",
    "load.window=500 ms",
    "load.settle=200 ms",
    "load.trials=1",
    "load.verify=2 s",
    "app.settings.drain=10 ms",
];

#[test]
fn a_search_of_the_embedded_default_is_stored_and_reported() {
    let bench = Bench::new();
    let page = bench.path("report.html");
    let range = ["load.lowest=20", "load.highest=40"];
    let output = ran(&bench, &[&SHORT[..], &range].concat(), &["--html", page.to_str().unwrap()]);
    let result = searched(&output);
    let row = sound(&result);
    assert_merged_by_one_rule(&row["search"]);
    assert_stored(&bench, &output);
    assert!(row["instances"][0]["statistics"].as_object().is_some_and(|all| !all.is_empty()), "{row}");
    let html = std::fs::read_to_string(page).unwrap();
    // A level that was not reached is verified by no load.
    let is_loaded = row["load"].is_object();
    assert!(is_loaded || output.status.code() != Some(0), "{row:#}");
    assert_eq!(html.contains("Operations: latency from the intended start"), is_loaded, "{row:#}");
    assert!(!html.contains("<script"));
}

#[test]
fn several_applications_carry_their_sum() {
    let bench = Bench::new();
    let users = format!("load.scenario={}", without_pictures(&bench).display());
    let several = [&users, "instances.a.app.count=1", "instances.b.app.settings.threads=1", "load.budget=24 s"];
    let set = [&SHORT[..], &["load.lowest=10", "load.highest=20"], &several].concat();
    let result = searched(&ran(&bench, &set, &[]));
    let rows = result["applications"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["invariants"]["held"], true);
        assert!(row["search"]["ended"].is_string(), "{row}");
    }
    assert!(result["remarks"].to_string().contains("in step"), "{}", result["remarks"]);
}

/// More failures than the error limit are a failure (1), exceeded limits are a broken gate (4).
#[test]
fn an_exceeded_limit_and_too_many_failures_have_codes_of_their_own() {
    let bench = Bench::new();
    let few = ["load.users=40", "load.cycle=100 ms", "load.warm_up=500 ms", "load.duration=3 s", "limits.mix=900 %"];
    // Each operation takes longer.
    let few = [&few[..], &["app.settings.drain=10 ms", "app.settings.durable=off"]].concat();
    let set = [&few[..], &["limits.delay=1 us"]].concat();
    let strict = with_operations(|| ran(&bench, &set, &[]));
    let found = result(&strict);
    // Where no bid was seen by another user there is no delay to limit.
    let is_seen = !found["details"][0]["document"]["applications"][0]["load"]["propagation"].is_null();
    let flags = found["flags"].to_string();
    let is_exceeded = metric(&found, "limits_exceeded").is_some_and(|count| count >= 1.0);
    assert_eq!(strict.status.code(), Some(if is_exceeded { 4 } else { 0 }), "{}", text(&strict.stderr));
    assert!(is_exceeded || !is_seen, "{found:#}");
    assert_eq!(flags.contains("limit exceeded: next-bid:delay.p99<1 us"), is_seen, "{flags}");
    // Without its only server nobody is answered; a fault that was not made in time is none of the load.
    let gone = "faults=[{ at = '0 s', tier = 'app', what = 'kill' }]";
    let failing = ran(&bench, &[&["load.duration=1 s"][..], &few, &[gone, "limits.failures=0.5 %"]].concat(), &[]);
    let said = text(&failing.stderr);
    assert_eq!(failing.status.code(), Some(1), "{said}");
    assert!(said.contains(" operations failed: ") || said.contains("the fault at 0 s was not made "), "{said}");
}

/// Users of one's own, a folder of its own for the database, a limit on a tier's CPU time, and logs that are kept.
#[test]
fn a_topology_has_its_own_users_database_folder_and_limit_on_a_tier() {
    let bench = Bench::new();
    let [data, kept] = ["data", "kept"].map(|name| bench.path(name));
    std::fs::create_dir(&data).unwrap();
    // The application's servers run as another user, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(bench.folder.path(), open).unwrap();
    let visitors = "[scenario]\ncycle = \"200 ms\"\n[operations.visit]\nnext = \"visit\"\n[[operations.visit.requests]]\nget = \"/\"\n";
    let visitors = bench.write("visitors.toml", visitors);
    let (folder, scenario) =
        (format!("database.folder={}", data.display()), format!("load.scenario={}", visitors.display()));
    let set = [
        &folder,
        &scenario,
        "limits.utilization.app=0.01 %",
        "load.users=20",
        "load.warm_up=500 ms",
        "load.duration=3 s",
    ];
    // Of one CPU, however many there are.
    let cpu = format!("app.cpus=[{}]", cpu());
    let set = [&set[..], &[cpu.as_str()], &BRISK].concat();
    let words = [&arguments(&set)[..], &["--keep", kept.to_str().unwrap()]].concat();
    let below = |folder: &Path| {
        let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
        listed.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let output = with_operations(|| {
        let _ = std::fs::remove_dir_all(&kept);
        let mut child = bench.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(180);
        while !below(&data).iter().any(|own| own.join("sqlite/auction.db").exists()) {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no database in its folder");
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(below(&data), [""; 0].map(std::path::PathBuf::from), "it is removed with the run");
        output
    });
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let document = document(&output);
    let load = &document["applications"][0]["load"];
    let done: Vec<&str> =
        load["operations"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(done, ["visit"], "{load:#}");
    let broken = load["broken"].as_array().unwrap();
    assert!(broken.len() == 1 && broken[0].as_str().unwrap().starts_with("utilization.app<0.01 %: "), "{broken:?}");
    let trial = below(&kept);
    assert_eq!(trial.len(), 1, "{trial:?}");
    assert!(trial[0].join("main/app-1/last-lines.log").exists(), "{trial:?}");
}

/// `baremark run auction`, two blocks of it on SQLite with one app server: in the history, killed and resumed without its finished
/// block, observed by tier, and explained where limits are exceeded.
#[test]
fn the_shipped_study_is_resumed_observed_and_explained() {
    let bench = Bench::new();
    // A limit that is exceeded whoever does what.
    let busy = format!(
        "[topology.load]\nscenario = \"{}\"\ncycle = \"50 ms\"\n\n[topology.limits.utilization]\napp = \"0.01 %\"\n\n[topology.variants.native]",
        without_pictures(&bench).display()
    );
    let study = shrunk("auction")
        .replacen("users = 20", "users = 40", 1)
        .replacen("[topology.variants.native]", &busy, 1)
        .replacen(
            "variant = [\"native\", \"container\", \"not-durable\"]",
            "variant = [\"native\", \"not-durable\"]",
            1,
        )
        .replacen("least_blocks = 4", "least_blocks = 2\nmost_blocks = 2", 1);
    bench.write("study.toml", study);
    let mut command = bench.command(&["run", "study.toml"]);
    let mut child = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "trial-stored:1");
    kill_with_all(&mut child);
    let listed = |state: &str| {
        let history = bench.json(&["history", "--json"]);
        assert_eq!((history["runs"].as_array().unwrap().len(), &history["runs"][0]["state"]), (1, &state.into()));
    };
    listed("killed");
    let first = bench.json(&["report", "--json"])["trials"].clone();
    let resumed = bench.json(&["resume", "--json"]);
    let trials = resumed["trials"].as_array().unwrap();
    assert_eq!((first.as_array().unwrap().len(), trials.len(), &trials[0]), (1, 2, &first[0]), "{resumed:#}");
    listed("finished");
    assert!(resumed["observed"].is_object(), "{resumed:#}");
    let load = &resumed["details"][0]["document"]["applications"][0]["load"];
    let (used, waits) = (&load["cpus_used"]["app.cpus"], &load["waits"]);
    assert!(used.as_f64().is_some_and(|cpus| cpus > 0.0), "{load:#}");
    // What passwords cost is reported apart from what the mix does.
    let number = |row: &Value| row.as_f64().unwrap_or_else(|| panic!("{load:#}"));
    let mix = number(used) - number(&load["password_cpus_used"]);
    let found = load["operations_per_app_cpu_second"].as_f64();
    let expected = (mix > 0.0).then(|| number(&load["operations_per_s"]) / mix);
    assert!(found.zip(expected).is_none_or(|(found, of)| (found - of).abs() <= 1e-9 * of), "{found:?} {expected:?}");
    assert_eq!(found.is_some(), expected.is_some(), "{load:#}");
    assert!(metric(&resumed, "app_cpu_passwords").is_some_and(|share| share >= 0.0), "{resumed:#}");
    assert!(waits["app.waiting"].is_f64() && waits["app.disk"].is_f64(), "{waits}");
    let csv = text(&bench.run(&["report", "--csv=trials"]).stdout);
    for metric in ["cpus_app", "threads_waiting_for_cpu_app", "disk_bytes_per_s_app"] {
        assert!(csv.lines().any(|line| line.contains(",tiers,") && line.contains(metric)), "{metric}: {csv}");
    }
    let why = resumed["details"][0]["document"]["applications"][0]["saturated"].as_str().unwrap().to_owned();
    assert!(why.contains("app") && why.contains("CPUs used where limits were exceeded"), "{why}");
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    // However lines are wrapped.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("CPUs used where limits were") && words.contains("Threads waiting for a CPU"), "{shown}");
}

#[test]
fn a_search_ends_with_its_time_budget_and_says_so() {
    let bench = Bench::new();
    let slow = ["load.users=0", "load.cycle=200 ms", "load.lowest=20", "load.highest=300", "load.visits=1000"];
    let times = ["load.window=400 ms", "load.settle=200 ms", "load.verify=2 s", "load.budget=24 s"];
    let result = searched(&ran(&bench, &[&slow[..], &times, &["app.settings.drain=10 ms"]].concat(), &[]));
    // So many visits would take half an hour at each level.
    assert_eq!(result["budget_s"].as_f64(), Some(24.0), "{result}");
    let remark = "the time budget of 24 s ended the search before its last step";
    let over = result["applications"][0]["search"]["ended"] == "time-over";
    assert!(over || result["applications"][0]["search"]["ended"] == "fails-all", "{result}");
    assert_eq!(result["remarks"].to_string().contains(remark), over, "{}", result["remarks"]);

    // Without any time nothing is known, which is neither a result nor a broken limit.
    let output = ran(&bench, &["load.users=0", "load.budget=20 ms"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("undecided: no time was left to verify a level; raise load.budget"), "{said}");
}

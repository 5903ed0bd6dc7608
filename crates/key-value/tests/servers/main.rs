//! The workload with the real program.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

use baremark_key_value::ALL;
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{JobContext, JobError, JobRun};
use baremark_model::page_size::PageSize;
use baremark_model::value::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether redis-server is here; a skip is printed.
fn is_here() -> bool {
    let here = Path::new("/usr/bin/redis-server").exists();
    if !here {
        println!("skipped: redis-server is not installed");
    }
    here
}

/// An arm whose server has its folder in `data`.
fn arm(data: &Path, typed: &[(&str, &str)]) -> ResolvedArm {
    let mut arm = ResolvedArm::native(1, PageSize::Small);
    let few = [("keys", "2000"), ("duration", "300 ms"), ("warm_up", "50 ms"), ("connections", "4")];
    let data = data.to_str().unwrap();
    for (key, text) in few.into_iter().chain([("data", data)]).chain(typed.iter().copied()) {
        let value = match key {
            // One line, whatever words it has.
            "server_settings" => Value::Words(vec![text.to_owned()]),
            _ => ALL[0].descriptor().parameter(key).unwrap().read_text(text).unwrap(),
        };
        arm.parameters.insert(key.to_owned(), value);
    }
    arm
}

fn run(arm: &ResolvedArm, times: usize, interrupt: &Arc<AtomicBool>) -> Result<Vec<JobRun>, JobError> {
    let keeper = PathBuf::from("/nonexistent");
    let phase = Duration::from_secs(1);
    let around = JobContext { keeper: &keeper, cpus: &[], seed: 5, phase, overwritable: &[], interrupt };
    let mut ready = ALL[0].prepare(arm, around)?;
    (0..times).map(|_| ready.run()).collect()
}

fn value(run: &JobRun, metric: &str) -> Option<f64> {
    run.samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
}

/// Servers of this machine whose folder is below `folder`, and what is left there.
fn left(folder: &Path) -> Vec<String> {
    // Not by their words, which Redis replaces by its address.
    let folder = folder.canonicalize().unwrap();
    let of = |entry: &std::fs::DirEntry| {
        let works_in = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        works_in.starts_with(&folder).then(|| format!("{} in {}", entry.path().display(), works_in.display()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| of(&entry));
    let files = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path().display().to_string());
    processes.chain(files).collect()
}

#[test]
fn every_setting_gives_a_result_that_both_sides_count() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for typed in [
        &[][..],
        &[("pipeline", "16"), ("distribution", "zipf"), ("value", "1 KiB")],
        &[("persistence", "always"), ("read_share", "50 %")],
        &[("persistence", "everysec"), ("io_threads", "2"), ("driver_threads", "2")],
        &[("rate", "2000"), ("arrival", "poisson"), ("loaded", "50 %")],
        &[("server_settings", "maxmemory-policy allkeys-lru"), ("read_share", "0 %")],
    ] {
        let arm = arm(folder.path(), typed);
        for run in run(&arm, 2, &Arc::default()).unwrap() {
            assert_eq!(run.void, [""; 0], "{typed:?}");
            assert!(run.checked.ends_with("impossible: 0"), "{}", run.checked);
            let rate = value(&run, "ops_per_s").unwrap();
            assert!(rate > 0.0 && value(&run, "errors") == Some(0.0), "{typed:?}: {:?}", run.samples);
            // CPU time is counted in ticks: a load of few commands a second may take none.
            let (memory, cpus) = (value(&run, "server_memory").unwrap(), value(&run, "server_cpus"));
            assert!(memory > 0.0 && cpus.is_none_or(|cpus| cpus > 0.0), "{typed:?}: {:?}", run.samples);
            assert!(cpus.is_some() || typed.iter().any(|(key, _)| *key == "rate"), "{typed:?}: {:?}", run.samples);
            let reads = !typed.contains(&("read_share", "0 %"));
            assert_eq!(value(&run, "get_latency_max_us").is_some(), reads, "{typed:?}");
            let hits = value(&run, "hit_rate");
            assert!(hits.is_some() == reads && hits.is_none_or(|hits| (0.0..=100.0).contains(&hits)), "{hits:?}");
            let known: Vec<&str> = ALL[0].descriptor().metrics.iter().map(|metric| metric.key).collect();
            assert!(run.samples.iter().all(|sample| known.contains(&sample.metric.as_str())), "{:?}", run.samples);
            let detail = run.detail.unwrap();
            assert_eq!(detail.document["shown"]["rows"].as_array().unwrap().len(), if reads { 2 } else { 1 });
            assert!(detail.document["version"].as_str().unwrap().starts_with(|first: char| first.is_ascii_digit()));
        }
        assert_eq!(left(folder.path()), [""; 0], "{typed:?} has left something");
    }
}

#[test]
fn settings_that_the_server_refuses_are_told_in_its_words() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arm = arm(folder.path(), &[("server_settings", "no-such-word 1")]);
    let why = run(&arm, 1, &Arc::default()).unwrap_err().to_string();
    assert!(why.starts_with("redis: ended before it was ready") && why.contains("no-such-word"), "{why}");
    assert_eq!(left(folder.path()), [""; 0]);
}

/// The memory that it may take is too little for its keys: no key, no load.
#[test]
fn a_server_that_is_full_gives_no_result() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // What an empty server takes depends on its version; the keys' values alone are more.
    let arm = arm(folder.path(), &[("server_settings", "maxmemory 1mb"), ("value", "4 KiB")]);
    let why = run(&arm, 1, &Arc::default()).unwrap_err().to_string();
    assert!(why.starts_with("loading: SET: the server replied error OOM"), "{why}");
    assert_eq!(left(folder.path()), [""; 0]);
}

#[test]
fn an_interrupt_ends_a_phase_and_leaves_nothing() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Arc::new(AtomicBool::new(false));
    let arm = arm(folder.path(), &[("duration", "1 h"), ("timeout", "2 h")]);
    let raises = Arc::clone(&interrupt);
    let place = folder.path().to_owned();
    let raiser = std::thread::spawn(move || {
        // Once there is a server.
        while left(&place).len() < 2 {
            std::thread::sleep(Duration::from_millis(10));
        }
        raises.store(true, Ordering::Release);
    });
    let why = run(&arm, 1, &interrupt).unwrap_err();
    raiser.join().unwrap();
    assert_eq!(why, JobError::Interrupted);
    assert_eq!(left(folder.path()), [""; 0]);
}

/// A job that takes turns with another site has nothing to stop between them: each phase has a server of its own, and nothing is left of it.
#[test]
fn no_server_is_there_while_another_site_has_its_turns() {
    if !is_here() {
        return;
    }
    let (folder, interrupt) = (tempfile::tempdir().unwrap(), Arc::default());
    let arm = arm(folder.path(), &[("read_share", "50 %")]);
    assert!((ALL[0].descriptor().alternates)(&arm));
    let (keeper, phase) = (PathBuf::from("/nonexistent"), Duration::from_secs(1));
    let around = JobContext { keeper: &keeper, cpus: &[], seed: 5, phase, overwritable: &[], interrupt: &interrupt };
    let mut ready = ALL[0].prepare(&arm, around).unwrap();
    for phase in 0..3 {
        assert_eq!(left(folder.path()), [""; 0], "{phase}");
        let run = ready.run().unwrap();
        assert!(run.checked.ends_with("impossible: 0"), "{phase}: {}", run.checked);
    }
    assert_eq!(left(folder.path()), [""; 0]);
}

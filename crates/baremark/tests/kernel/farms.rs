//! Web farms and tiles in namespaces and control groups of their own: what they report, and nothing left on the host, also after a kill.

use crate::common::bench::{Bench, lives, program, root, signal, text};
use crate::common::consolidation::{
    assert_servers_without_rights_and_secrets, command, doctor, estimate, farm_levels, ran, recorded, records, study,
    there, tiles, tiles_with_a_shop,
};
use crate::common::points::{kill, one_stopped};
use crate::common::tiers::{all_gone, offspring};
use baremark_consolidation::content;
use baremark_consolidation::farm::{Farm, Layout, Program};
use baremark_consolidation::quota::ControlGroups;
use baremark_journal::{Journal, Kind};
use baremark_sys::point::STOP_AT;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Whether levels were found is judged by `measured`.
#[test]
fn a_web_farm_reports_both_limits_and_the_curve_of_each() {
    if !root() {
        return;
    }
    for level in farm_levels(&Bench::new()) {
        assert!(level["limit"] == "cpu" || level["limit"] == "latency", "{level}");
        // Levels at which others took the CPUs say nothing; at others the servers answer.
        let answers = level["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
        assert!(level["verdict"] == "insufficient" || answers, "{level}");
    }
}

/// CPU use was that of the whole machine: one server at a quota of a tenth of a CPU used all of them while another program did.
#[test]
fn cpu_use_of_a_farm_is_that_of_its_servers() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("farm.toml", study("static", "servers = 1").replace("quota = \"50 %\"", "quota = \"10 %\""));
    let over = AtomicBool::new(false);
    let (result, output) = thread::scope(|scope| {
        let cpus = thread::available_parallelism().unwrap().get();
        (0..cpus).for_each(|_| {
            drop(scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }))
        });
        let _end = AtEnd(&over);
        ran(&bench, "farm.toml")
    });
    let said = text(&output.stderr);
    assert!(estimate(&result, "cpu").is_some_and(|share| share < 50.0), "{result:#}\n{said}");
}

/// Tells threads that it is over, also where a test fails.
struct AtEnd<'o>(&'o AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Both modes were the same: a veth whose sender keeps TSO hands over whole segments at once, whatever its receiver would wait for.
#[test]
fn dense_mode_changes_how_packets_come() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    let kinds: Vec<Box<dyn Kind>> =
        baremark_networks::kinds().into_iter().chain([Box::new(ControlGroups) as _]).collect();
    let journal = Journal::open(bench.path("changes"), kinds).unwrap();
    let layout = Layout {
        program: Program::Static,
        own: program().to_owned(),
        most: 2,
        quota: 1.0,
        link: None,
        cpus: Vec::new(),
        container: None,
    };
    let mut farm = Farm::new(&journal, layout).unwrap();
    farm.grow(2).unwrap();
    let packets_of_pages = |farm: &Farm| {
        let before = farm.packets().unwrap();
        farm.addresses(2).into_iter().for_each(page);
        farm.packets().unwrap() - before
    };
    let defer = Some(Duration::from_micros(200));
    let default = packets_of_pages(&farm);
    farm.defer(defer).unwrap();
    assert_eq!(farm.in_other_mode(defer).unwrap(), None);
    let other = farm.in_other_mode(None).unwrap().unwrap();
    assert!(other.contains("tso off inside, gro on outside, gro_flush_timeout 200000"), "{other}");
    let dense = packets_of_pages(&farm);
    // 200 KB in packets of 1,448 bytes, and in segments of up to 64 KiB.
    assert!(dense >= 138 && default < dense / 2, "{default} {dense}");
    farm.defer(None).unwrap();
    assert_eq!(farm.in_other_mode(None).unwrap(), None, "as the kernel made it");
    assert!(packets_of_pages(&farm) < dense / 2);
    assert!(farm.cpu_ns().is_some_and(|ns| ns > 0));
}

/// The files of a page, one after the other.
fn page(address: SocketAddr) {
    for file in content::files() {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET {} HTTP/1.1\r\nHost: farm\r\n\r\n", file.path).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(&file.bytes));
    }
}

/// Whether its conditions hold is the machine's; what is reported says in which mode each level was.
#[test]
fn a_farm_that_may_be_dense_says_in_which_mode_its_levels_were() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("farm.toml", study("static", "search_time = \"8 s\"\ndense = true"));
    let (result, output) = ran(&bench, "farm.toml");
    let said = text(&output.stderr);
    let levels = result["details"][0]["document"]["levels"].as_array().unwrap_or_else(|| panic!("{result:#}\n{said}"));
    let shares = || levels.iter().map(|level| level["dense_share"].as_f64());
    assert!(shares().all(|share| share.is_some_and(|share| (0.0..=1.0).contains(&share))), "{levels:#?}");
    assert!(estimate(&result, "dense_share").is_some_and(|share| (0.0..=100.0).contains(&share)), "{result:#}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

/// As it makes its bridge, as it starts servers, as it loads them: stopped where a link has just been recorded and made, and killed there.
#[test]
fn nothing_is_left_of_a_farm_that_is_killed_as_it_grows() {
    if !root() {
        return;
    }
    for (point, links) in [("link-made:1", 1), ("link-made:2", 2), ("link-made:4", 4), ("farm-loaded:1", 2)] {
        let bench = Bench::new();
        bench.write("farm.toml", study("static", "search_time = \"8 s\""));
        let mut run = command(&bench, &["run", "farm.toml"]);
        let mut child = run.env(STOP_AT, point).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = child.id();
        let agent = one_stopped(&mut child, point, || offspring(id));
        // Nothing begins meanwhile: whoever starts servers is stopped.
        let below = offspring(id);
        let names = recorded(&bench);
        assert!(names.len() >= links, "{names:?}");
        kill(&mut child);
        // It was asked to end when the lab had gone.
        signal(agent, libc::SIGCONT);
        all_gone(&below);
        let said = doctor(&bench);
        assert_eq!(there(&names), [""; 0], "after {point}: {}", text(&said.stderr));
        assert_eq!(records(&bench), Vec::<PathBuf>::new(), "after {point}: {}", text(&said.stderr));
        assert!(below.iter().all(|pid| !lives(*pid)));
    }
}

/// A farm needs the superuser; its servers, which every user of the machine reaches, were the superuser's too.
#[test]
fn no_web_server_of_a_farm_runs_as_the_superuser_or_has_a_secret() {
    if root() {
        assert_servers_without_rights_and_secrets("static", " static --listen ");
    }
}

/// Each has a bridge, links and groups of its own, and one of them has all of its servers when both are killed.
#[test]
fn nothing_is_left_of_two_farms_of_one_process_that_is_killed() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("tile.toml", tiles("latency_p95_ms < 600000"));
    let mut run = command(&bench, &["run", "tile.toml"]);
    let mut child = run.env(STOP_AT, "farm-loaded:2").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let id = child.id();
    let agent = one_stopped(&mut child, "farm-loaded:2", || offspring(id));
    let below = offspring(id);
    let names = recorded(&bench);
    let bridges = names.iter().filter(|name| name.starts_with("bm") && name.ends_with('b')).count();
    assert_eq!(bridges, 2, "{names:?}");
    assert!(there(&names).len() >= 6, "two bridges, two links, two groups: {names:?}");
    signal(id, libc::SIGSTOP);
    below.iter().filter(|pid| **pid != agent).for_each(|pid| signal(*pid, libc::SIGSTOP));
    below.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
    kill(&mut child);
    all_gone(&below);
    let said = text(&command(&bench, &["list"]).output().unwrap().stderr);
    assert_eq!(there(&names), [""; 0], "{said}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "{said}");
}

/// How many run and to which score is judged by `measured`.
#[test]
fn tiles_run_to_a_score() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("tile.toml", tiles("latency_p95_ms < 600000"));
    let (result, output) = ran(&bench, "tile.toml");
    let said = text(&output.stderr);
    let levels = result["details"][0]["document"]["levels"].as_array().unwrap_or_else(|| panic!("{result:#}\n{said}"));
    assert_eq!(levels[0]["tiles"], 1, "{levels:#?}");
    // Of one tile it is 1 by definition.
    let score = estimate(&result, "score_of_one");
    assert!(score.is_none_or(|score| (score - 1.0).abs() < 1e-9), "{result:#}");
    let counted = result["trials"][0]["status"] == "ok";
    assert_eq!(score.is_some(), counted, "{result:#}\n{said}");
    if counted {
        // Of two at most: where both keep their limits, more may do so.
        let bound = result["flags"].to_string().contains("ceiling reached: at least 2 tiles with a score of ");
        assert!(bound != (estimate(&result, "tiles") == Some(1.0)), "{result:#}");
        let report = text(&bench.run(&["report", "--details"]).stdout);
        assert!(report.contains("Throughput over that of one tile"), "{report}");
    }
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

#[test]
fn the_dvd_store_behind_its_web_front_is_a_member_of_a_tile() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("tile.toml", tiles_with_a_shop(&bench, "600000"));
    let (result, output) = ran(&bench, "tile.toml");
    let said = text(&output.stderr);
    let levels = result["details"][0]["document"]["levels"].as_array().unwrap_or_else(|| panic!("{result:#}\n{said}"));
    for level in levels {
        // One that had no time for an order says so.
        let shops = level["runs"].as_array().unwrap().iter().filter(|run| run["member"] == "shop");
        let orders: Vec<f64> = shops.map(|run| run["throughput"].as_f64().unwrap_or(0.0)).collect();
        let counted = result["trials"][0]["status"] != "ok" || orders.iter().all(|orders| *orders > 0.0);
        assert!(orders.len() as u64 == level["tiles"].as_u64().unwrap() && counted, "{orders:?}: {level:#}");
    }
    let left = fs::read_dir(bench.path("baremark-data")).unwrap().flatten();
    assert!(left.into_iter().all(|entry| entry.file_name().to_string_lossy().starts_with("sqlite-")));
}

#[test]
fn a_tile_whose_member_breaks_its_limit_has_no_score() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    // Nothing is answered so soon.
    bench.write("tile.toml", tiles("latency_p95_ms < 0.0001"));
    let output = command(&bench, &["run", "tile.toml", "--json"]).output().unwrap();
    let (said, out) = (text(&output.stderr), text(&output.stdout));
    assert!(out.contains("\"status\": \"void\""), "{said}{out}");
    assert!(
        format!("{said}{out}").contains("one tile does not keep its limits: web of tile 1: latency_p95_ms is"),
        "{said}{out}"
    );
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["estimates"], serde_json::json!([]), "{out}");
    assert_eq!(output.status.code(), Some(1), "nothing was measured: {said}");
}

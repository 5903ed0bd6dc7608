//! Searches for the largest load of servers whose limit is known.

use crate::common::bench::{Bench, text};
use crate::common::http::{bucket, server};
use crate::common::news::{SCENARIO, news};
use crate::common::schemas::assert_fits;
use baremark_model::maximum::{Basis, Document as Maximum, Ended};
use baremark_model::qos::Limit;
use baremark_sys::network::HeldPort;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Programs that compute until this is dropped, as many as there are CPUs. They are nobody's children, as what a user has started elsewhere.
struct Hogs(Vec<String>);

impl Hogs {
    fn start() -> Hogs {
        let of_one = "(while :; do :; done) >/dev/null 2>&1 & echo $!";
        let start = || text(&Command::new("sh").args(["-c", of_one]).output().unwrap().stdout).trim().to_owned();
        Hogs((0..thread::available_parallelism().unwrap().get()).map(|_| start()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        drop(Command::new("kill").arg("-9").args(&self.0).status());
    }
}

/// A web server that answers "hello" to everything.
struct Nginx {
    process: Child,
    port: HeldPort,
}

impl Nginx {
    /// `None` where it is not installed.
    fn start(bench: &Bench) -> Option<Nginx> {
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|program| Path::new(program).exists())?;
        let port = HeldPort::any().unwrap();
        let (root, number) = (bench.path("nginx"), port.number());
        fs::create_dir(&root).unwrap();
        let root = root.display();
        let paths =
            ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|of| format!("{of}_temp_path {root}/{of};"));
        let text = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/errors; events {{ worker_connections 4000; }}
             http {{ access_log off; keepalive_requests 100000000; {}
             server {{ listen 127.0.0.1:{number}; location / {{ return 200 hello; }} }} }}",
            paths.concat()
        );
        let file = bench.write("nginx.conf", text);
        let mut command = Command::new(program);
        command.arg("-c").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Nginx { process: command.spawn().unwrap(), port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", number)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nginx does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The search of docs/commands.md, of a server that answers at once.
#[test]
fn the_largest_rate_of_nginx_is_known_to_five_percent_in_a_minute() {
    let bench = Bench::new();
    let Some(server) = Nginx::start(&bench) else { return eprintln!("skipped: nginx is not installed") };
    let url = format!("http://127.0.0.1:{}/", server.port.number());
    let begun = Instant::now();
    let output = bench.run(&["load", &url, "--find-max", "--limit", "p99<50ms", "--json"]);
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Maximum = serde_json::from_slice(&output.stdout).unwrap();
    let maximum = document.maximum.unwrap();
    let half = 50.0 * (maximum.high.unwrap() - maximum.low.unwrap()) / maximum.level;
    println!("measured: seconds, operations/s, half-width: {seconds:.0} {:.0} {half:.1} %", maximum.level);
    assert!(half <= 5.0 && seconds <= 60.0, "{half:.1} % in {seconds:.0} s: {maximum:?}");
}

/// What others use of the CPUs is not the server's limit: the answer is right, or there is none, and it is said why.
#[test]
fn a_search_beside_busy_loops_is_right_or_names_them() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let _hogs = Hogs::start();
    let search =
        ["load", &url, "--find-max", "--limit", "failures<10%", "--between", "20..5000", "--connections", "64"];
    let output = bench.run(&[&search[..], &["--json"]].concat());
    let said = text(&output.stderr);
    let document: Maximum = serde_json::from_slice(&output.stdout).unwrap();
    if output.status.code() == Some(5) {
        println!("measured: answers: 0");
        assert!(said.contains("other programs used"), "{said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let maximum = document.maximum.unwrap();
    let (low, high) = (maximum.low.unwrap(), maximum.high.unwrap());
    println!("measured: answers: 1");
    assert!((0.95 * low..=1.05 * high).contains(&555.6), "{maximum:?} {said}");
}

/// Of a rate r above 500 a second a share of 1 - 500/r is refused: 10 % at 555.6. Far below what the machine can do.
#[test]
fn the_largest_rate_of_a_server_with_a_known_limit_is_found() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let arguments =
        ["load", &url, "--find-max", "--limit", "failures<10%", "--limit", "p90<10s", "--between", "20..5000"];
    let brief = ["--window", "600 ms", "--settle", "500 ms", "--visits", "8", "--connections", "64", "--json"];
    let output = bench.run(&[&arguments[..], &brief[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Maximum = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document.ended, document.trials.len()), (Ended::Found, 3), "{}", text(&output.stderr));
    let maximum = document.maximum.unwrap();
    let (low, high) = (maximum.low.unwrap(), maximum.high.unwrap());
    println!("known limit 555.6/s; found {:.1} [{low:.1}, {high:.1}]", maximum.level);
    // On a busy machine a trial may end without a level of its own; the interval is then labelled as what it is.
    let levels = document.trials.iter().filter(|trial| trial.maximum.is_some()).count();
    assert_eq!(maximum.basis == Basis::FreshTrials, levels == 3, "{maximum:?}");
    // Covered, but for the one time in twenty that an interval of 95 % may miss it; then not by much.
    assert!((0.95 * low..=1.05 * high).contains(&555.6) && (500.0..=620.0).contains(&maximum.level), "{maximum:?}");
    assert_eq!(document.limited_by[0].what, "failures<10 %");
    // None where no window of a busy machine lies clearly below the limit.
    assert!(document.shown_level.is_none_or(|level| level < 560.0), "{:?}", document.shown_level);
    let row = document.knee.iter().find(|row| row.level > 300.0).unwrap();
    assert!(row.p50_ns.is_some() && row.utilization.contains_key("cpu") && row.generator_cpu_share.is_some());
}

/// So many users with a cycle of half a second make twice as many requests a second: of 300 that the bucket grants, 10 % more
/// are requested by 166.7 users.
#[test]
fn the_largest_number_of_users_of_a_server_with_a_known_limit_is_found() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(300.0, 20.0));
    let arguments =
        ["load", &url, "--find-max=users", "--cycle", "500ms", "--limit", "failures<10%", "--between", "20..1000"];
    let brief = ["--window", "700 ms", "--settle", "700 ms", "--visits", "8", "--json"];
    let output = bench.run(&[&arguments[..], &brief[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_fits(&output.stdout, "baremark-maximum/1");
    let document: Maximum = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document.ended, document.factor.as_str()), (Ended::Found, "users"), "{}", text(&output.stderr));
    let maximum = document.maximum.unwrap();
    let (low, high) = (maximum.low.unwrap(), maximum.high.unwrap());
    println!("known limit 166.7 users; found {:.1} [{low:.1}, {high:.1}]", maximum.level);
    // On a busy machine a trial may end without a level of its own; the interval is then labelled as what it is.
    let levels = document.trials.iter().filter(|trial| trial.maximum.is_some()).count();
    assert_eq!(maximum.basis == Basis::FreshTrials, levels == 3, "{maximum:?}");
    assert!((0.95 * low..=1.05 * high).contains(&166.7) && (145.0..=190.0).contains(&maximum.level), "{maximum:?}");
    assert_eq!(document.limited_by[0].what, "failures<10%".parse::<Limit>().unwrap().to_string());
    // The knee: beyond it, more users get no more done, and each row says what it cost.
    let rows: Vec<_> = document.knee.iter().filter(|row| row.p50_ns.is_some()).collect();
    assert!(rows.len() > 3 && rows.is_sorted_by(|left, right| left.level < right.level), "{rows:?}");
    let past = rows.iter().rfind(|row| row.level > 200.0).unwrap();
    assert!(past.achieved_per_s < 360.0 && past.failed_share > 0.15 && past.verdict != "pass", "{past:?}");
    let before = rows.iter().rfind(|row| row.level < 120.0).unwrap();
    assert!(
        before.failed_share < 0.1 && before.p95_ns >= before.p50_ns && before.utilization["cpu"] > 0.0,
        "{before:?}"
    );
    let shown = text(&bench.run(&["report"]).stdout);
    for part in ["users", "Levels", "done/s", "p95", "CPU", "failures<10 %"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("% %"), "{shown}");
}

/// Every kind of limit is counted at a real server: percentiles and failures by operation, the mix, the delay of what an
/// answer reports, and the processor.
#[test]
fn every_kind_of_limit_is_read_in_a_search() {
    let bench = Bench::new();
    bench.write("two.toml", SCENARIO);
    let url = format!("http://{}", news());
    let search = |what: &str, last: Option<&str>| {
        // So many that the mix of a window is the scenario's, and that the clock's ticks see the processor at work.
        let between = match (what, last) {
            (_, Some(last)) if last.starts_with("utilization") => "4000..6000",
            ("--find-max=rate", _) => "400..600",
            _ => "40..60",
        };
        let mut arguments = vec!["load", &url, "--scenario", "two.toml", what, "--between", between, "--trials", "1"];
        let limits = ["look:p90<9s", "hear:failures<50%", "mix<80%", "hear:delay.p50<9s"];
        limits.into_iter().chain(last).for_each(|limit| arguments.extend(["--limit", limit]));
        arguments.extend(["--window", "1 s", "--settle", "300 ms", "--visits", "6", "--json"]);
        let output = bench.run(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Maximum>(&output.stdout).unwrap()
    };
    for what in ["--find-max=rate", "--find-max=users"] {
        let document = search(what, None);
        assert!((document.qos.mix["look"] - 0.75).abs() < 1e-6, "{:?}", document.qos.mix);
        assert_eq!((document.ended, document.qos.limits.len()), (Ended::PassesAll, 4), "{:?}", document.limited_by);
        let reading = &document.trials[0].windows.last().unwrap().reading;
        let counted = |at: usize| reading.broken[at].unwrap();
        assert!((0..2).chain([3]).all(|at| counted(at).all > 0), "{reading:?}");
        assert!(reading.broken[2].is_none(), "the mix has no count of its own");
        assert!(
            reading.ended["look"] > reading.ended["hear"] && reading.utilization.contains_key("cpu"),
            "{reading:?}"
        );
    }
    // News is 30 ms old: a limit below that is broken at every level, and named.
    let document = search("--find-max=rate", Some("hear:delay.p50<20ms"));
    let delayed = document.limited_by.iter().any(|limiting| limiting.what == "hear:delay.p50<20 ms");
    assert!(document.ended == Ended::FailsAll && delayed, "{:?} {:?}", document.ended, document.limited_by);
    // A processor that may do nothing limits too.
    let document = search("--find-max=rate", Some("utilization.cpu<0.01%"));
    let busy = document.limited_by.iter().any(|limiting| limiting.what == "utilization.cpu<0.01 %");
    assert!(document.ended == Ended::FailsAll && busy, "{:?} {:?}", document.ended, document.limited_by);
}

/// A generator that is asked for five requests a second sends each in time.
#[test]
fn a_slow_load_is_sent_in_time() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let told = text(&bench.run(&["load", &url, "--rate", "5", "--duration", "1s", "--limit", "p99<10s"]).stdout);
    assert!(told.contains("of one CPU: not the limit") && !told.contains("ms late"), "{told}");
}

/// A search whose level is known ends with one, in each of its windows.
#[test]
fn a_short_search_measures_several_windows() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let search = ["load", &url, "--find-max", "--limit", "failures<10%", "--between", "100..2000", "--trials", "1"];
    let brief = ["--window", "300 ms", "--settle", "200 ms", "--visits", "6", "--connections", "32"];
    let ran = bench.run(&[&search[..], &brief[..]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(text(&bench.run(&["report", "--csv"]).stdout).lines().count() > 5);
}

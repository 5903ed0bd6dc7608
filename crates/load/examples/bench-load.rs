//! The engine compared with its peers, on this machine's loopback with an nginx of its own: `bench-load [WHAT ...] [rounds=N]`.
//!
//! `http1`, `tls`: requests per second over those of wrk; `http2`, `http2-tls`: over those of h2load, all with the same cipher.
//! Paired rounds in alternating order, one thread each on the first CPU, the server on the second. `lag`: send lag at half of
//! the most as a constant rate. `users`: 50,000 users with a 5 s cycle on one core and a connection each, in as many processes
//! as the limit on open files makes necessary; `users-shared`: in one process, on few connections.
//! Each pairing has two lines: requests per second, and CPU time of the generator per request, user and system. A line has the name, ours,
//! the peer's, the ratio with its interval, the goal, the verdict, and how long it took. The goal is to be as good; a ratio is `ok` when the
//! interval ends at most 3 % short of it, `SHORT` when all of it is short of the goal, else `undecided`. The server is slower than
//! either generator and works off what is waiting at once, so that its rate says how requests arrive; how much each generator takes
//! for a request is said by the second line. Other work on the machine widens the interval.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_load::arrival::Arrival;
use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Pin, Pool, Protocol, Stop};
use baremark_load::profile::Profile;
use baremark_load::scenario::{Cycle, Scenario};
use baremark_load::transport::Trust;
use baremark_model::units::{Bytes, Nanos};
use baremark_stats::multiplicity::{Claim, Judged, judge_study};
use baremark_stats::outcome::Better;
use std::error::Error;
use std::fs;
use std::net::{IpAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Ports of the server: HTTP/1.1, its TLS, HTTP/2, its TLS.
const PORTS: [u16; 4] = [18_981, 18_982, 18_983, 18_984];
/// Seconds of each half of a round.
const HALF: u64 = 2;
const ROUNDS: usize = 15;
/// What an interval may end short of the goal.
const SLACK: f64 = 0.03;
const CONNECTIONS: usize = 64;
/// In HTTP/2: fewer connections, each with several requests at a time.
const MULTIPLEXED: (usize, usize) = (8, 16);
const ALL: [&str; 7] = ["http1", "tls", "http2", "http2-tls", "lag", "users", "users-shared"];

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.iter().find_map(|word| word.strip_prefix("rounds=")).map_or(Ok(ROUNDS), str::parse)?;
    match &words[..] {
        [flag, name, ..] if flag == "--alone" => return alone(name, rounds),
        [flag, port] if flag == "--half" => return half(port.parse()?),
        [flag, site, sites, begin_ns] if flag == "--part" => {
            return part_of_users((site.parse()?, sites.parse()?), begin_ns.parse()?);
        }
        _ => {}
    }
    let mut named: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('=')).collect();
    if let Some(unknown) = named.iter().find(|name| !ALL.contains(name)) {
        return Err(format!("'{unknown}' is not known; there are {}", ALL.join(", ")).into());
    }
    if named.is_empty() {
        named.extend(ALL);
    }
    println!("{:<13} {:>12} {:>12}  {:<24} {:>10}  {:<9} took", "what", "ours", "peer's", "ratio (95 %)", "goal", "");
    for name in named {
        // A fresh process for each: memory is a peak, and no pairing inherits another's connections.
        let status =
            Command::new(std::env::current_exe()?).args(["--alone", name, &format!("rounds={rounds}")]).status()?;
        if !status.success() {
            return Err(format!("{name} failed").into());
        }
    }
    Ok(())
}

fn alone(name: &str, rounds: usize) -> Outcome<()> {
    // Whoever holds 50,000 connections needs as many open files as who makes them.
    let processes = if name == "users" { processes()? } else { 1 };
    let _server = Nginx::start(processes)?;
    let begun = Instant::now();
    let lines = match name {
        "http1" => against(rounds, PORTS[0], &wrk)?,
        "tls" => against(rounds, PORTS[1], &wrk)?,
        "http2" => against(rounds, PORTS[2], &h2load)?,
        "http2-tls" => against(rounds, PORTS[3], &h2load)?,
        "lag" => vec![lag()?],
        "users" => vec![users(processes)?],
        _ => vec![shared_users()?],
    };
    for (line, what) in lines.into_iter().zip([name, "  CPU time"]) {
        println!("{what:<13} {line} {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// An nginx on the second CPU, serving a page of 612 bytes; it ends with this value.
struct Nginx {
    process: Child,
    folder: tempfile::TempDir,
}

impl Nginx {
    fn start(workers: u64) -> Outcome<Nginx> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().display();
        fs::write(folder.path().join("index.html"), "x".repeat(612))?;
        let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost");
        let [plain, tls, http2, http2_tls] = PORTS;
        // Workers that share a socket would leave most connections to one of them.
        let (processes, dealt) = if workers == 1 {
            ("master_process off".to_owned(), "")
        } else {
            (format!("worker_processes {workers}"), "reuseport")
        };
        let text = format!(
            "daemon off; {processes}; user root; pid {root}/pid; error_log {root}/errors crit;
             events {{ worker_connections 60000; }}
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {root}/b; proxy_temp_path {root}/p;
             fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
             ssl_certificate {keys}.pem; ssl_certificate_key {keys}.key; ssl_protocols TLSv1.3;
             ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
             server {{ listen 127.0.0.1:{plain} backlog=4096 {dealt}; listen 127.0.0.1:{tls} ssl; listen 127.0.0.1:{http2} http2;
             listen 127.0.0.1:{http2_tls} ssl http2; root {root}; }} }}"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, text)?;
        baremark_load::raise_descriptor_limit(60_500)?;
        let process =
            Command::new("taskset").args(["-c", "1", "nginx", "-c"]).arg(&file).stderr(Stdio::null()).spawn()?;
        let server = Nginx { process, folder };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", http2_tls)).is_err() {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("nginx does not listen; is it installed, with HTTP/2?".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master that is killed would leave its workers behind.
        let asked = Command::new("kill").arg(self.process.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = self.folder.path();
    }
}

fn page(port: u16) -> String {
    let scheme = if port == PORTS[1] || port == PORTS[3] { "https" } else { "http" };
    format!("{scheme}://127.0.0.1:{port}/index.html")
}

fn load(port: u16, drive: Drive, seconds: u64) -> Outcome<Load> {
    let mut load = Load::new(Scenario::of_url(&page(port))?, drive, Stop::After(Nanos(seconds * 1_000_000_000)));
    load.connections = CONNECTIONS;
    if port == PORTS[2] || port == PORTS[3] {
        load.connections = MULTIPLEXED.0;
        load.protocol = Protocol::Http2 { streams: MULTIPLEXED.1 };
    }
    load.trust = Trust::Anything;
    load.pin = Pin::On(vec![0]);
    Ok(load)
}

fn run(load: Load) -> Outcome<Document> {
    let engine = Engine::new(load, Arc::default())?;
    let part = engine.run(&mut |_| {})?;
    let document = Document::new(engine.load(), &part);
    if let Some((kind, count)) = document.failures.iter().next() {
        return Err(format!("{count} operations failed: {kind} ({:?})", document.failure_examples).into());
    }
    Ok(document)
}

/// What one half of a round gives.
#[derive(Clone, Copy)]
struct Half {
    per_s: f64,
    requests: f64,
}

/// What a peer does on this port.
type Peer<'p> = &'p dyn Fn(u16) -> Outcome<Half>;

/// Requests per second, and CPU time per request in us, of a half that is done by a child.
fn timed(run: impl Fn() -> Outcome<Half>) -> Outcome<[f64; 2]> {
    let before = children_cpu_us()?;
    let half = run()?;
    Ok([half.per_s, (children_cpu_us()? - before) / half.requests])
}

/// CPU time of children that were waited for, in us, from /proc/self/stat (ticks of 10 ms).
fn children_cpu_us() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(13).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks * 1e4)
}

fn wrk(port: u16) -> Outcome<Half> {
    let text = said(&["wrk", "-t1", &format!("-c{CONNECTIONS}"), &format!("-d{HALF}s"), "--latency", &page(port)])?;
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")).ok_or("wrk said no rate")?;
    let count = text.lines().find_map(|line| line.split_once(" requests in ")).ok_or("wrk said no count")?.0;
    Ok(Half { per_s: rate.trim().parse()?, requests: count.trim().parse()? })
}

fn h2load(port: u16) -> Outcome<Half> {
    let (connections, streams) = (format!("-c{}", MULTIPLEXED.0), format!("-m{}", MULTIPLEXED.1));
    let text = said(&["h2load", "-t1", &connections, &streams, "-D", &HALF.to_string(), &page(port)])?;
    let line = text.lines().find_map(|line| line.strip_prefix("finished in")).ok_or("h2load said no rate")?;
    let rate = line.split(',').find_map(|part| part.trim().strip_suffix("req/s")).ok_or("h2load said no rate")?;
    let line = text.lines().find_map(|line| line.strip_prefix("requests:")).ok_or("h2load said no count")?;
    let count = line.split(',').find_map(|part| part.trim().strip_suffix(" done")).ok_or("h2load said no count")?;
    Ok(Half { per_s: rate.trim().parse()?, requests: count.trim().parse()? })
}

/// What a program says, on the first CPU.
fn said(command: &[&str]) -> Outcome<String> {
    let output = Command::new("taskset").args(["-c", "0"]).args(command).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Ours once, in a process of its own as the peer is.
fn ours(port: u16) -> Outcome<Half> {
    let program = std::env::current_exe()?;
    let text = said(&[program.to_str().ok_or("a program with a name in UTF-8")?, "--half", &port.to_string()])?;
    let (per_s, requests) = text.trim().split_once(' ').ok_or("ours printed no figures")?;
    Ok(Half { per_s: per_s.parse()?, requests: requests.parse()? })
}

/// The other half of [`ours`]: prints requests per second and their number.
fn half(port: u16) -> Outcome<()> {
    let document = run(load(port, Drive::Closed, HALF)?)?;
    println!("{} {}", document.achieved.requests_per_s, document.counts.answered);
    Ok(())
}

/// Requests per second and CPU time per request compared with a peer's; the goal is to be as good in both.
fn against(rounds: usize, port: u16, peer: Peer<'_>) -> Outcome<Vec<String>> {
    let (mut rates, mut times, mut sums) = (Vec::new(), Vec::new(), [0.0; 4]);
    for round in 0..rounds {
        let own_first = round % 2 == 0;
        let first = timed(|| if own_first { ours(port) } else { peer(port) })?;
        let second = timed(|| if own_first { peer(port) } else { ours(port) })?;
        let (own, peers) = if own_first { (first, second) } else { (second, first) };
        rates.push((own[0] / peers[0]).ln());
        times.push((own[1] / peers[1]).ln());
        let all = [own[0], peers[0], own[1], peers[1]];
        sums.iter_mut().zip(all).for_each(|(sum, value)| *sum += value / rounds as f64);
    }
    let claims = [Claim::of(&rates, 4, SLACK, Better::Higher), Claim::of(&times, 4, SLACK, Better::Lower)];
    let judged = judge_study(&claims, 0.05);
    let [rate, peers_rate, time, peers_time] = sums;
    let us = |time: f64| format!("{time:.2} us");
    Ok(vec![
        compared(&per_s(rate), &per_s(peers_rate), &judged[0], Better::Higher)?,
        compared(&us(time), &us(peers_time), &judged[1], Better::Lower)?,
    ])
}

fn compared(ours: &str, peer: &str, judged: &Judged, better: Better) -> Outcome<String> {
    let interval = judged.interval.ok_or("too few rounds; at least 4 are needed")?.exp();
    let higher = better == Better::Higher;
    let (near, far) = if higher { (interval.lo, interval.hi) } else { (-interval.hi, -interval.lo) };
    let goal = if higher { 1.0 } else { -1.0 };
    let verdict = match (near >= goal - SLACK, far < goal) {
        (true, _) => "ok",
        (_, true) => "SHORT",
        _ => "undecided",
    };
    let ratio = format!("{:.3} [{:.3}, {:.3}]", interval.centre, interval.lo, interval.hi);
    Ok(line(ours, peer, &ratio, if higher { ">= 1.0" } else { "<= 1.0" }, verdict))
}

fn per_s(rate: f64) -> String {
    format!("{rate:.0}/s")
}

fn line(ours: &str, peer: &str, ratio: &str, goal: &str, verdict: &str) -> String {
    format!("{ours:>12} {peer:>12}  {ratio:<24} {goal:>10}  {verdict:<9}")
}

fn ms(ns: Option<u64>) -> f64 {
    ns.map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

fn lag() -> Outcome<String> {
    let most = run(load(PORTS[0], Drive::Closed, HALF)?)?.achieved.requests_per_s;
    let drive = Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(0.5 * most) };
    let document = run(load(PORTS[0], drive, 2 * HALF)?)?;
    let lag = document.generator.send_lag.ok_or("no lag")?;
    let p99 = ms(lag.p99_ns);
    let also = format!("p50 {:.3}, p99.9 {:.3} ms", ms(lag.p50_ns), ms(lag.p999_ns));
    let verdict = if p99 < 1.0 { "ok" } else { "SHORT" };
    Ok(line(&format!("p99 {p99:.3} ms"), &format!("at {:.0}/s", 0.5 * most), &also, "< 1 ms", verdict))
}

const USERS: u64 = 50_000;
const USERS_SECONDS: u64 = 15;
/// Open files of a process in addition to its connections.
const OTHER_FILES: u64 = 500;

/// Processes among which the limit on open files makes 50,000 connections be dealt.
fn processes() -> Outcome<u64> {
    let allowed = baremark_load::raise_descriptor_limit(USERS + OTHER_FILES)?;
    if allowed <= 2 * OTHER_FILES {
        return Err(format!("{allowed} open files are too few; raise the limit (ulimit -n)").into());
    }
    // Workers get their shares by chance: some room is left.
    let room = if allowed >= USERS + OTHER_FILES { USERS } else { (allowed - OTHER_FILES) * 9 / 10 };
    Ok(USERS.div_ceil(room))
}

fn load_of_users() -> Outcome<Load> {
    let mut load = load(PORTS[0], Drive::Users { profile: Profile::steady(USERS as f64) }, USERS_SECONDS)?;
    load.scenario.set_cycle(Some(Cycle { mean: Nanos(5_000_000_000), deviation: 0.25, most: 0.5 }));
    // From one address there are fewer ports than users.
    load.sources = (1..=4).map(|last| IpAddr::from([127, 0, 0, last])).collect();
    Ok(load)
}

/// What one process of users has come to.
struct Users {
    bytes: u64,
    per_s: f64,
    cpu_share: f64,
    connections: u64,
}

impl Users {
    fn of(document: &Document) -> Outcome<Users> {
        Ok(Users {
            bytes: baremark_sys::process::peak_rss_bytes()?,
            per_s: document.achieved.requests_per_s,
            cpu_share: document.generator.busiest_cpu_share,
            connections: document.counts.connections,
        })
    }

    fn line(&self, processes: u64) -> String {
        // 50,000 in 5 s each.
        let kept = self.per_s > 0.9 * USERS as f64 / 5.0;
        let verdict = if self.bytes < 2_000_000_000 && kept { "ok" } else { "SHORT" };
        let also = format!("CPU {:.0} %, {} conns, {processes} proc", 100.0 * self.cpu_share, self.connections);
        line(&format!("{:.0}", Bytes(self.bytes)), &per_s(self.per_s), &also, "< 2 GB", verdict)
    }
}

/// Users who keep a connection each, in so many processes on one core that begin together.
fn users(processes: u64) -> Outcome<String> {
    let begin_ns = (baremark_sys::clock::monotonic_ns() + 1_000_000_000).to_string();
    let mut parts = Vec::new();
    for site in 0..processes {
        let words = ["--part".to_owned(), site.to_string(), processes.to_string(), begin_ns.clone()];
        parts.push(Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()?);
    }
    let mut all = Users { bytes: 0, per_s: 0.0, cpu_share: 0.0, connections: 0 };
    for part in parts {
        let output = part.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let [bytes, per_s, cpu_share, connections] = words[..] else {
            return Err(format!("a process of users said '{text}'").into());
        };
        all.bytes += bytes.parse::<u64>()?;
        all.per_s += per_s.parse::<f64>()?;
        all.cpu_share += cpu_share.parse::<f64>()?;
        all.connections += connections.parse::<u64>()?;
    }
    Ok(all.line(processes))
}

fn part_of_users(site: (u64, u64), begin_ns: u64) -> Outcome<()> {
    let mut load = load_of_users()?;
    load.site = site;
    load.connections = usize::try_from(USERS.div_ceil(site.1))?;
    let engine = Engine::new(load, Arc::default())?;
    let part = engine.run_from(begin_ns, &mut |_| {})?;
    let document = Document::new(engine.load(), &part);
    if let Some((kind, count)) = document.failures.iter().next() {
        return Err(format!("{count} operations failed: {kind} ({:?})", document.failure_examples).into());
    }
    let Users { bytes, per_s, cpu_share, connections } = Users::of(&document)?;
    println!("{bytes} {per_s} {cpu_share} {connections}");
    Ok(())
}

fn shared_users() -> Outcome<String> {
    let mut load = load_of_users()?;
    load.pool = Pool::Shared;
    load.connections = 10_000;
    Ok(Users::of(&run(load)?)?.line(1))
}

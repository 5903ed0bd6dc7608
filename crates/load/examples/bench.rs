//! The engine beside its peers, on this machine's loopback with an nginx of its own: `bench wrk|lag|users [ROUNDS]`.
//!
//! `wrk`: requests per second of the engine over those of wrk, paired rounds in alternating order, 64 connections, one thread.
//! `lag`: send lag at half of that as a constant rate. `users`: 50,000 users with a 5 s cycle on one core, and their memory.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_load::arrival::Arrival;
use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Pin, Pool, Stop};
use baremark_load::profile::Profile;
use baremark_load::scenario::{Cycle, Scenario};
use baremark_model::units::{Bytes, Nanos};
use std::error::Error;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

const PORT: u16 = 18_981;
/// Seconds of each half of a round.
const HALF: u64 = 2;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.get(1).map_or(Ok(7), |text| text.parse())?;
    let _server = Nginx::start()?;
    match words.first().map(String::as_str) {
        Some("wrk") => against_wrk(rounds),
        Some("lag") => lag(),
        Some("users") => users(),
        _ => Err("usage: bench wrk|lag|users [ROUNDS]".into()),
    }
}

/// An nginx with one worker on the second CPU, serving a page of 612 bytes; it ends with this value.
struct Nginx {
    process: Child,
    folder: tempfile::TempDir,
}

impl Nginx {
    fn start() -> Outcome<Nginx> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().display();
        fs::write(folder.path().join("index.html"), "x".repeat(612))?;
        let text = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/errors; worker_rlimit_nofile 100000;
             events {{ worker_connections 60000; }}
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {root}/b; proxy_temp_path {root}/p;
             fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
             server {{ listen 127.0.0.1:{PORT} backlog=4096; root {root}; }} }}"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, text)?;
        baremark_load::raise_descriptor_limit(60_500)?;
        let process =
            Command::new("taskset").args(["-c", "1", "nginx", "-c"]).arg(&file).stderr(Stdio::null()).spawn()?;
        thread::sleep(Duration::from_millis(500));
        Ok(Nginx { process, folder })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.folder.path();
    }
}

fn page() -> String {
    format!("http://127.0.0.1:{PORT}/index.html")
}

fn load(drive: Drive, seconds: u64) -> Outcome<Load> {
    let mut load = Load::new(Scenario::of_url(&page())?, drive, Stop::After(Nanos(seconds * 1_000_000_000)));
    load.pin = Pin::On(vec![0]);
    Ok(load)
}

fn run(load: Load) -> Outcome<Document> {
    let engine = Engine::new(load, Arc::default())?;
    let part = engine.run(&mut |_| {})?;
    Ok(Document::new(engine.load(), &part))
}

fn wrk() -> Outcome<f64> {
    let seconds = format!("-d{HALF}s");
    let output =
        Command::new("taskset").args(["-c", "0", "wrk", "-t1", "-c64", &seconds, "--latency", &page()]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")).ok_or("wrk said no rate")?;
    Ok(line.trim().parse()?)
}

fn against_wrk(rounds: usize) -> Outcome<()> {
    let ours = || -> Outcome<f64> {
        let document = run(load(Drive::Closed, HALF)?)?;
        print!("  (generator on its CPU {:.0} %)", document.generator.busiest_cpu_share * 100.0);
        Ok(document.achieved.requests_per_s)
    };
    let mut logs = Vec::new();
    for round in 0..rounds {
        let (own, peer) = if round % 2 == 0 {
            let own = ours()?;
            (own, wrk()?)
        } else {
            let peer = wrk()?;
            (ours()?, peer)
        };
        println!("  baremark {own:.0}/s  wrk {peer:.0}/s  ratio {:.3}", own / peer);
        logs.push((own / peer).ln());
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let spread = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
    let half = T95.get(logs.len().saturating_sub(2)).copied().unwrap_or(2.0) * spread / n.sqrt();
    let (low, high) = ((mean - half).exp(), (mean + half).exp());
    println!("ratio to wrk {:.3} [{low:.3}, {high:.3}] (95 %, {rounds} pairs)", mean.exp());
    Ok(())
}

/// Student's t at 97.5 % for 1, 2, .. degrees of freedom.
const T95: [f64; 19] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093,
];

fn lag() -> Outcome<()> {
    let most = run(load(Drive::Closed, HALF)?)?.achieved.requests_per_s;
    let drive = Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(0.5 * most) };
    let document = run(load(drive, 2 * HALF)?)?;
    let lag = document.generator.send_lag.ok_or("no lag")?;
    let ms = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e6);
    println!("maximum {most:.0}/s, asked {:.0}/s, achieved {:.0}/s", 0.5 * most, document.achieved.requests_per_s);
    println!("send lag p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms", ms(lag.p50_ns), ms(lag.p99_ns), ms(lag.p999_ns));
    Ok(())
}

fn users() -> Outcome<()> {
    let mut load = load(Drive::Users { profile: Profile::steady(50_000.0) }, 15)?;
    load.scenario.set_cycle(Some(Cycle { mean: Nanos(5_000_000_000), deviation: 0.25, most: 0.5 }));
    // A connection for each where so many files may be open, else as many as there are requests on their way.
    let own = baremark_load::raise_descriptor_limit(50_500)? >= 50_500;
    load.pool = if own { Pool::Own } else { Pool::Shared };
    load.connections = if own { 50_000 } else { 10_000 };
    println!("each user has a connection of its own: {own}");
    load.sources = (1..=4).map(|last| std::net::IpAddr::from([127, 0, 0, last])).collect();
    let document = run(load)?;
    let corrected = document.latency.corrected.ok_or("no latencies")?;
    let ms = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e6);
    let memory = Bytes(baremark_sys::process::peak_rss_bytes()?);
    println!(
        "50,000 users, cycle 5 s: {:.0} requests/s, failures {:?}",
        document.achieved.requests_per_s, document.failures
    );
    println!("memory {memory:.1}, CPU {:.0} % of one core", document.generator.busiest_cpu_share * 100.0);
    println!("latency p50 {:.2} ms, p99 {:.2} ms", ms(corrected.p50_ns), ms(corrected.p99_ns));
    if let Some(lag) = document.generator.send_lag {
        println!("send lag p50 {:.3} ms, p99 {:.3} ms", ms(lag.p50_ns), ms(lag.p99_ns));
    }
    println!(
        "connections {}, verdict {:?} {:?}",
        document.counts.connections, document.generator.verdict, document.generator.reasons
    );
    Ok(())
}

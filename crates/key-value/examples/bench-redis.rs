//! The driver compared with redis-benchmark on one server of its own: `bench-redis [WHAT ...] [rounds=N]`.
//!
//! `get`, `set`: one command under way on each of 50 connections; `get16`, `set16`: sixteen. Equal on both sides: keys, values, connections,
//! pipelines, one thread, CPUs (the driver on the first, the server on the second). A round runs both twice, each in the middle of every other
//! round. What is not equal is to the driver's cost: it makes a value for each SET and compares each reply.
//!
//! One line each: ours, the peer's, the ratio with its interval, the goal. `ok` when the interval lies within the goal, `SHORT` when it lies
//! outside, else `undecided`. Commands per second must be at least 0.97 of the peer's; CPU time of the driver per command is shown.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_key_value::blocking::BlockingConnection;
use baremark_key_value::driver;
use baremark_key_value::traffic::{Drive, Traffic};
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;
use baremark_sys::network::HeldPort;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What is paired: the command, and how many are under way on a connection.
const ALL: [(&str, &str, usize); 4] =
    [("get", "get", 1), ("set", "set", 1), ("get16", "get", 16), ("set16", "set", 16)];
const ROUNDS: usize = 12;
const SECONDS: f64 = 1.5;
const CONNECTIONS: usize = 50;
const KEYS: u64 = 100_000;
const VALUE: usize = 100;
/// Commands per second at least.
const GOAL: f64 = 0.97;
const SECRET: &str = "s3cr3tOfTheBench";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, command, pipeline, address] = &words[..]
        && flag == "--ours"
    {
        return ours(command, pipeline.parse()?, address.parse()?);
    }
    let rounds = words.iter().find_map(|word| word.strip_prefix("rounds=")).map_or(Ok(ROUNDS), str::parse)?;
    let named: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('=')).collect();
    if let Some(unknown) = named.iter().find(|name| !ALL.iter().any(|(known, ..)| known == *name)) {
        return Err(format!("'{unknown}' is not known; there are {}", ALL.map(|(name, ..)| name).join(", ")).into());
    }
    println!("{:<8} {:>22} {:>22}  {:<24} {:>8}", "what", "ours", "redis-benchmark", "ratio (95 %)", "goal");
    for (name, command, pipeline) in ALL {
        if named.is_empty() || named.contains(&name) {
            println!("{}", pairing(name, (command, pipeline), rounds)?);
        }
    }
    Ok(())
}

/// A server on the second CPU, killed with this.
struct Server {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Result<Server> {
        let folder = tempfile::tempdir()?;
        let held = HeldPort::any()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, held.number()));
        let mut command = Command::new("taskset");
        command.args(["-c", "1", "redis-server", "--bind", "127.0.0.1", "--port", &held.number().to_string()]);
        command.args(["--requirepass", SECRET, "--save", "", "--appendonly", "no"]);
        let child = command.arg("--dir").arg(folder.path()).stdout(Stdio::null()).spawn()?;
        let server = Server { child, address, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err("redis-server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Commands per second, and CPU time of the driver per command, in us.
#[derive(Clone, Copy, Default)]
struct Figures {
    per_s: f64,
    cpu_us: f64,
}

const RATE: fn(&Figures) -> f64 = |figures| figures.per_s;
const CPU: fn(&Figures) -> f64 = |figures| figures.cpu_us;

fn pairing(name: &str, what: (&str, usize), rounds: usize) -> Result<String> {
    let server = Server::start()?;
    // It also fills the server with the keys and values that the peer reads.
    let first = run_ours(what, server.address)?;
    let (mut ratios, mut sums) = (Vec::new(), [0.0; 4]);
    for round in 0..rounds {
        let outer_is_own = round % 2 == 0;
        let (mut own, mut peer) = (Vec::new(), Vec::new());
        for is_own in [outer_is_own, !outer_is_own, !outer_is_own, outer_is_own] {
            if is_own {
                own.push(run_ours(what, server.address)?);
            } else {
                peer.push(run_peer(what, server.address, first.per_s)?);
            }
        }
        let mean = |runs: &[Figures], of: fn(&Figures) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let all = [mean(&own, RATE), mean(&peer, RATE), mean(&own, CPU), mean(&peer, CPU)];
        ratios.push((all[0] / all[1]).ln());
        sums.iter_mut().zip(all).for_each(|(sum, value)| *sum += value / rounds as f64);
    }
    let judged = judge_study(&[Claim::of(&ratios, 4, 0.03, Better::Higher)], 0.05);
    let interval = judged[0].interval.ok_or("too few rounds; at least 4 are needed")?.exp();
    let verdict = match () {
        () if interval.lo >= GOAL => "ok",
        () if interval.hi < GOAL => "SHORT",
        () => "undecided",
    };
    let shown = |rate: f64, cpu: f64| format!("{rate:.0}/s {cpu:.2} us");
    let ratio = format!("{:.3} [{:.3}, {:.3}]", interval.centre, interval.lo, interval.hi);
    let [own, peer] = [shown(sums[0], sums[2]), shown(sums[1], sums[3])];
    Ok(format!("{name:<8} {own:>22} {peer:>22}  {ratio:<24} {:>8}  {verdict}", ">= 0.97"))
}

/// CPU time of children that were waited for, in us, from /proc/self/stat (ticks of 10 ms).
fn children_cpu_us() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = [13, 14].map(|at| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0));
    Ok(ticks.iter().sum::<f64>() * 1e4)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned().into())
}

/// The peer once, for about as long as ours.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of commands")]
fn run_peer((name, pipeline): (&str, usize), address: SocketAddr, per_s: f64) -> Result<Figures> {
    let count = (per_s * SECONDS) as u64;
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "redis-benchmark", "-h", "127.0.0.1", "-p", &address.port().to_string(), "-a", SECRET]);
    command.args(["-c", &CONNECTIONS.to_string(), "-d", &VALUE.to_string(), "-r", &KEYS.to_string()]);
    command.args(["-P", &pipeline.to_string(), "-n", &count.to_string(), "-t", name, "--csv"]);
    let before = children_cpu_us()?;
    let text = output(&mut command)?;
    let cpu_us = (children_cpu_us()? - before) / count as f64;
    let line = text.lines().last().unwrap_or_default();
    let rate = line.split(',').nth(1).and_then(|field| field.trim_matches('"').parse().ok());
    Ok(Figures { per_s: rate.ok_or_else(|| format!("redis-benchmark printed '{text}'"))?, cpu_us })
}

/// Ours once, in a process of its own as the peer is.
fn run_ours((name, pipeline): (&str, usize), address: SocketAddr) -> Result<Figures> {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe()?);
    let text = output(command.args(["--ours", name, &pipeline.to_string(), &address.to_string()]))?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [per_s, cpu_us] = numbers[..] else { return Err(format!("ours printed '{text}'").into()) };
    Ok(Figures { per_s, cpu_us })
}

/// The other half of [`run_ours`].
fn ours(name: &str, pipeline: usize, address: SocketAddr) -> Result<()> {
    let traffic = Traffic {
        keys: KEYS,
        exponent: None,
        value_bytes: VALUE,
        read_share: if name == "get" { 1.0 } else { 0.0 },
        loaded_share: 1.0,
        connections: CONNECTIONS,
        pipeline,
        threads: 1,
        drive: Drive::Closed,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs_f64(SECONDS),
        seed: u64::from(std::process::id()),
        cpus: Vec::new(),
    };
    let connect = || BlockingConnection::log_in(TcpStream::connect(address)?, SECRET);
    let outcome = driver::run(&traffic, &connect, &mut || 0, &AtomicBool::new(false))?;
    if outcome.wrong > 0 {
        return Err(outcome.first_wrong.unwrap_or_default().into());
    }
    println!("{} {}", outcome.per_s(), outcome.driver_cpu_ns as f64 / 1e3 / outcome.answered().max(1) as f64);
    Ok(())
}

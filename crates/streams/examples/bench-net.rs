//! The engine compared with iperf3 and sockperf on this machine: `bench-net [rounds=N]`.
//!
//! Six cells of throughput, three message sizes over loopback and over a veth pair, each in Gbit/s and in Gbit/s per CPU that both ends
//! keep busy; and the median one-way latency of 64 B over both paths. Paired rounds in alternating order, one end on the first CPU and the
//! other on the second. All ratios are judged together (`baremark_stats::multiplicity`). One line each: name, ours, the peer's, the ratio
//! with its interval, the goal and the verdict: `ok` when the lower limit is at least the goal less 3 %, `SHORT` when the upper limit is below
//! the goal, else `undecided`.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_stats::location::centre;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;
use baremark_streams::ends::Path;
use baremark_streams::engine::{self, Direction, Order, Pattern};
use baremark_sys::affinity;
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 12;
const GOAL: f64 = 1.0;
/// What a lower limit may fall short of the goal.
const SLACK: f64 = 0.03;
const SIZES: [(&str, usize); 3] = [("256B", 256), ("16K", 16 << 10), ("64K", 64 << 10)];

/// Figures of one side of a round, each the better the higher.
struct Figures {
    values: Vec<f64>,
}

/// One cell: what is measured, and by whom.
struct Cell {
    name: String,
    path: usize,
    message: usize,
    is_latency: bool,
}

/// One printed line.
struct Line {
    name: String,
    unit: &'static str,
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

fn main() -> Outcome<()> {
    let rounds =
        std::env::args().find_map(|word| word.strip_prefix("rounds=").map(str::parse)).unwrap_or(Ok(ROUNDS))?;
    let cpus = affinity::allowed_cpus()?;
    let [first, second, ..] = cpus[..] else { return Err("two CPUs are needed".into()) };
    let cpus = [first, second];
    let paths = [("loopback", Path::Loopback), ("veth", Path::veth()?)];
    let mut lines = Vec::new();
    for cell in cells(&paths) {
        lines.extend(measure(&cell, &paths[cell.path].1, cpus, rounds)?);
    }
    let log_ratios = |line: &Line| -> Vec<f64> {
        line.ours.iter().zip(&line.theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect()
    };
    let claims: Vec<Claim> = lines.iter().map(|line| Claim::of(&log_ratios(line), 4, SLACK, Better::Higher)).collect();
    for (line, judged) in lines.iter().zip(judge_study(&claims, 0.05)) {
        let median = |values: &[f64]| centre(values).unwrap_or(f64::NAN);
        let head =
            format!("{:<28} {:>9.3} {:>9.3} {:<12}", line.name, median(&line.ours), median(&line.theirs), line.unit);
        let Some(interval) = judged.interval else {
            println!("{head} too few rounds");
            continue;
        };
        let [ratio, low, high] = [interval.centre, interval.lo, interval.hi].map(f64::exp);
        let verdict = match () {
            () if low >= GOAL - SLACK => "ok",
            () if high < GOAL => "SHORT",
            () => "undecided",
        };
        println!("{head} {ratio:.3} ({low:.3} to {high:.3})  goal {GOAL:.2}  {verdict}");
    }
    Ok(())
}

fn cells(paths: &[(&str, Path)]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (path, (name, _)) in paths.iter().enumerate() {
        for (size, message) in SIZES {
            cells.push(Cell { name: format!("{name} {size}"), path, message, is_latency: false });
        }
        cells.push(Cell { name: format!("{name} 64B round trips"), path, message: 64, is_latency: true });
    }
    cells
}

fn measure(cell: &Cell, path: &Path, cpus: [usize; 2], rounds: usize) -> Outcome<Vec<Line>> {
    let kinds: &[(&str, &'static str)] =
        if cell.is_latency { &[("", "trips/us")] } else { &[("", "Gbit/s"), (", efficiency", "Gbit/s/CPU")] };
    let mut lines: Vec<Line> = kinds
        .iter()
        .map(|(what, unit)| Line { name: format!("{}{what}", cell.name), unit, ours: Vec::new(), theirs: Vec::new() })
        .collect();
    for round in 0..rounds {
        let first = if round % 2 == 0 { Some(ours(cell, path, cpus)?) } else { None };
        let theirs = if cell.is_latency { sockperf(cell, path, cpus)? } else { iperf3(cell, path, cpus)? };
        let ours = match first {
            Some(first) => first,
            None => ours(cell, path, cpus)?,
        };
        for (line, (ours, theirs)) in lines.iter_mut().zip(ours.values.into_iter().zip(theirs.values)) {
            line.ours.push(ours);
            line.theirs.push(theirs);
        }
    }
    Ok(lines)
}

fn ours(cell: &Cell, path: &Path, cpus: [usize; 2]) -> Outcome<Figures> {
    let order = Order {
        pattern: if cell.is_latency { Pattern::RequestResponse } else { Pattern::Stream },
        message: cell.message,
        buffer: None,
        streams: 1,
        direction: Direction::Forward,
        zero_copy: false,
        cpus: Some(cpus),
        warm_up: Duration::from_millis(100),
        duration: Duration::from_secs(1),
    };
    let outcome = engine::run(&order, path)?;
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round trip")]
    let half_us = outcome.trips.value_at_quantile(0.5) as f64 / 2e3;
    let rate = outcome.gbit_per_s();
    Ok(Figures { values: if cell.is_latency { vec![1.0 / half_us] } else { vec![rate, rate / outcome.cpus()] } })
}

/// A program at an end, on a CPU of its own.
fn spawn(path: &Path, end: usize, cpu: usize, command: &mut Command) -> Outcome<Child> {
    let start = || -> Outcome<Child> {
        affinity::pin_current_thread(cpu)?;
        Ok(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
    };
    // On a thread of its own, whose CPU and namespace are the program's.
    std::thread::scope(|scope| {
        let at = || path.at(end, start).map_err(Into::into).and_then(|child| child);
        scope.spawn(at).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A port that is free at the receiving end.
fn free_port(path: &Path) -> Outcome<String> {
    let port =
        path.at(1, || TcpListener::bind((path.address(1), 0)).and_then(|listener| listener.local_addr()))??.port();
    Ok(port.to_string())
}

fn iperf3(cell: &Cell, path: &Path, cpus: [usize; 2]) -> Outcome<Figures> {
    let (address, port) = (path.address(1).to_string(), free_port(path)?);
    let mut server = Command::new("iperf3");
    server.args(["--server", "--one-off", "--bind", &address, "--port", &port, "--forceflush"]);
    let mut server = spawn(path, 1, cpus[1], &mut server)?;
    let mut said = BufReader::new(server.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    while !line.contains("Server listening") {
        line.clear();
        if said.read_line(&mut line)? == 0 {
            return Err("iperf3 did not listen".into());
        }
    }
    let mut client = Command::new("iperf3");
    client.args(["--client", &address, "--port", &port, "--time", "1", "--json"]);
    client.args(["--length", &cell.message.to_string()]);
    let output = spawn(path, 0, cpus[0], &mut client)?.wait_with_output()?;
    std::io::copy(&mut said, &mut std::io::sink())?;
    server.wait()?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number =
        |pointer: &str| document.pointer(pointer).and_then(serde_json::Value::as_f64).ok_or("no figure of iperf3");
    let rate = number("/end/sum_received/bits_per_second")? / 1e9;
    let cpus = (number("/end/cpu_utilization_percent/host_total")?
        + number("/end/cpu_utilization_percent/remote_total")?)
        / 100.0;
    Ok(Figures { values: vec![rate, rate / cpus] })
}

fn sockperf(cell: &Cell, path: &Path, cpus: [usize; 2]) -> Outcome<Figures> {
    let (address, port) = (path.address(1).to_string(), free_port(path)?);
    let mut server = Command::new("sockperf");
    server.args(["server", "--tcp", "-i", &address, "-p", &port]);
    let mut server = spawn(path, 1, cpus[1], &mut server)?;
    while path.at(0, || std::net::TcpStream::connect((path.address(1), port.parse().unwrap_or(0))).is_err())? {
        std::thread::yield_now();
    }
    let mut client = Command::new("sockperf");
    client.args(["ping-pong", "--tcp", "-i", &address, "-p", &port, "-t", "1", "-m", &cell.message.to_string()]);
    let mut client = spawn(path, 0, cpus[0], &mut client)?;
    let mut text = String::new();
    client.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
    client.wait()?;
    server.kill()?;
    server.wait()?;
    let median = text.lines().find(|line| line.contains("percentile 50.000")).and_then(|line| line.rsplit('=').next());
    let median: f64 = median.ok_or_else(|| format!("no median of sockperf: {text}"))?.trim().parse()?;
    Ok(Figures { values: vec![1.0 / median] })
}

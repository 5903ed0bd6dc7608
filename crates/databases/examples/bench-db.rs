//! The driver compared with its peers on one server of its own: `bench-db [WHAT ...] [rounds=N]`.
//!
//! `select`, `tpcb`: pgbench's single statement and its TPC-B-like transaction on PostgreSQL, both prepared. `read-write`:
//! sysbench's `oltp_read_write` on MariaDB, both prepared and uniform. Equal on both sides: tables, connections, threads,
//! isolation, durability (as the server is: durable), CPUs (the driver on the first, the server on the second). A round runs
//! both twice, each in the middle of every other round, so that what the server does at intervals of its own falls on both. `lag`: send lag of 2,000 single statements a second.
//!
//! One line each: ours, the peer's, the ratio with its interval, the goal. `ok` when the interval lies within the goal, `SHORT`
//! when it lies outside, else `undecided`. Transactions per second must be at least 0.97 of the peer's, CPU time of the
//! driver per transaction at most 1.10 of it.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_databases::database::{Access, Connection, Database, Dialect, Failure, Isolation, Param, Rows};
use baremark_databases::engine::{self, Client, Done, Drive, Load};
use baremark_databases::kind::Kind;
use baremark_databases::login::Login;
use baremark_databases::mariadb::Mariadb;
use baremark_databases::postgres::Postgres;
use baremark_databases::server::{Server, Setup};
use baremark_services::service;
use baremark_stats::Rng;
use baremark_stats::multiplicity::{Claim, Judged, judge_study};
use baremark_stats::outcome::Better;
use std::error::Error;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ALL: [&str; 4] = ["select", "tpcb", "read-write", "lag"];
const ROUNDS: usize = 36;
const SECONDS: u64 = 3;
const CONNECTIONS: usize = 4;
/// pgbench's scale: 100,000 accounts each.
const SCALE: i64 = 10;
/// sysbench's table.
const ROWS: i64 = 100_000;
/// Goals: transactions per second at least, CPU time at most.
const RATE_GOAL: f64 = 0.97;
const CPU_GOAL: f64 = 1.10;
static QUIET: AtomicBool = AtomicBool::new(false);
/// Password of the server.
const SECRET: &str = "s3cr3tOfTheBench";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, address, seconds, rate] = &words[..]
        && flag == "--ours"
    {
        return ours(name, address.parse()?, seconds.parse()?, rate.parse()?);
    }
    let rounds = words.iter().find_map(|word| word.strip_prefix("rounds=")).map_or(Ok(ROUNDS), str::parse)?;
    let mut named: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('=')).collect();
    if let Some(unknown) = named.iter().find(|name| !ALL.contains(name)) {
        return Err(format!("'{unknown}' is not known; there are {}", ALL.join(", ")).into());
    }
    if named.is_empty() {
        named.extend(ALL);
    }
    println!("{:<22} {:>12} {:>12}  {:<24} {:>8}  {:<9}", "what", "ours", "peer's", "ratio (95 %)", "goal", "");
    for name in named {
        let begun = Instant::now();
        let lines = if name == "lag" { vec![lag()?] } else { pairing(name, rounds)? };
        for line in lines {
            println!("{line} {:.0} s", begun.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// A server on the second CPU with the peer's tables.
fn server(name: &str) -> Result<(tempfile::TempDir, Server)> {
    let kind = if name == "read-write" { Kind::Mariadb } else { Kind::Postgres };
    let folder = tempfile::Builder::new().prefix("baremark-bench-").tempdir_in("/var/tmp")?;
    let isolation = if kind == Kind::Mariadb { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
    let setup = Setup { isolation, cpus: vec![1], ..Setup::durable(kind, 512 << 20, 2 * CONNECTIONS) };
    let server = Server::start(&setup, folder.path(), SECRET, &QUIET)?;
    let address = server.address().ok_or("the server has no address")?;
    if kind == Kind::Mariadb {
        checked(sysbench(address, &["prepare"]).output()?)?;
    } else {
        checked(pgbench(address, &["-i", "-q", "-s", &SCALE.to_string()])?.output()?)?;
    }
    Ok((folder, server))
}

/// The program itself: Debian's wrapper in the path is a script that costs CPU time.
fn pgbench(address: SocketAddr, more: &[&str]) -> Result<Command> {
    let program = service::program(&baremark_services::postgres::Postgres)?.with_file_name("pgbench");
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program).args(["-h", &address.ip().to_string()]);
    command
        .args(["-p", &address.port().to_string(), "-U", "auction"])
        .args(more)
        .arg("auction")
        .env("PGPASSWORD", SECRET);
    Ok(command)
}

fn sysbench(address: SocketAddr, more: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "sysbench", "oltp_read_write", "--db-driver=mysql", "--tables=1", "--rand-type=uniform"]);
    command.arg(format!("--table-size={ROWS}")).arg(format!("--mysql-host={}", address.ip()));
    command.arg(format!("--mysql-port={}", address.port())).arg(format!("--mysql-password={SECRET}"));
    command.args(["--mysql-user=auction", "--mysql-db=auction"]).args(more);
    command
}

fn checked(output: Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(String::from_utf8_lossy(&said).into_owned().into())
}

/// Transactions per second, and CPU time of the driver per transaction, in us.
#[derive(Clone, Copy, Default)]
struct Figures {
    per_s: f64,
    cpu_us: f64,
}

const RATE: fn(&Figures) -> f64 = |figures| figures.per_s;
const CPU: fn(&Figures) -> f64 = |figures| figures.cpu_us;

fn pairing(name: &str, rounds: usize) -> Result<Vec<String>> {
    let (_folder, server) = server(name)?;
    let address = server.address().ok_or("the server has no address")?;
    let ours = || -> Result<Figures> { run_ours(name, address, SECONDS, 0.0).map(|(figures, _)| figures) };
    let (mut rates, mut cpus, mut sums) = (Vec::new(), Vec::new(), [0.0; 4]);
    for round in 0..=rounds {
        let outer_is_own = round % 2 == 0;
        let (mut own, mut peer) = ([Figures::default(); 2], [Figures::default(); 2]);
        for (run, is_own) in [outer_is_own, !outer_is_own, !outer_is_own, outer_is_own].into_iter().enumerate() {
            let (of, figures) = if is_own { (&mut own, ours()?) } else { (&mut peer, peers(name, address)?) };
            of[run / 2] = figures;
        }
        // The first round finds the server cold.
        if round > 0 {
            let mean = |runs: [Figures; 2], of: fn(&Figures) -> f64| runs.iter().map(of).sum::<f64>() / 2.0;
            let all = [(own, RATE), (peer, RATE), (own, CPU), (peer, CPU)].map(|(runs, of)| mean(runs, of));
            rates.push((all[0] / all[1]).ln());
            cpus.push((all[2] / all[3]).ln());
            sums.iter_mut().zip(all).for_each(|(sum, value)| *sum += value / rounds as f64);
        }
    }
    let claims = [Claim::of(&rates, 4, 0.03, Better::Higher), Claim::of(&cpus, 4, 0.10, Better::Lower)];
    let judged = judge_study(&claims, 0.05);
    let [own_rate, peer_rate, own_cpu, peer_cpu] = sums;
    let rows = [
        (format!("{name} tx/s"), format!("{own_rate:.0}/s"), format!("{peer_rate:.0}/s"), true),
        (format!("{name} driver CPU"), format!("{own_cpu:.1} us"), format!("{peer_cpu:.1} us"), false),
    ];
    let line = |((what, own, peer, higher), judged): ((String, String, String, bool), &Judged)| -> Result<String> {
        let interval = judged.interval.ok_or("too few rounds; at least 4 are needed")?.exp();
        let (goal, words) = if higher { (RATE_GOAL, ">= 0.97") } else { (CPU_GOAL, "<= 1.10") };
        let (within, outside) =
            if higher { (interval.lo >= goal, interval.hi < goal) } else { (interval.hi <= goal, interval.lo > goal) };
        let verdict = if within {
            "ok"
        } else if outside {
            "SHORT"
        } else {
            "undecided"
        };
        let ratio = format!("{:.3} [{:.3}, {:.3}]", interval.centre, interval.lo, interval.hi);
        Ok(format!("{what:<22} {own:>12} {peer:>12}  {ratio:<24} {words:>8}  {verdict:<9}"))
    };
    rows.into_iter().zip(&judged).map(line).collect()
}

/// The peer once.
fn peers(name: &str, address: SocketAddr) -> Result<Figures> {
    let (seconds, connections) = (SECONDS.to_string(), CONNECTIONS.to_string());
    let mut command = if name == "read-write" {
        let (threads, time) = (format!("--threads={connections}"), format!("--time={seconds}"));
        sysbench(address, &[threads.as_str(), &time, "run"])
    } else {
        let script = if name == "select" { "select-only" } else { "tpcb-like" };
        let more = ["-n", "-M", "prepared", "-c", &connections, "-j", &connections, "-T", &seconds, "-b", script];
        pgbench(address, &more)?
    };
    let before = children_cpu_us()?;
    let text = checked(command.output()?)?;
    let cpu_us = children_cpu_us()? - before;
    let number = |line: &str| -> Option<f64> {
        line.split(|c: char| !(c.is_ascii_digit() || c == '.')).find_map(|word| word.parse().ok())
    };
    let after = |head: &str| text.lines().find_map(|line| number(line.trim().strip_prefix(head)?));
    let (rate, count) = if name == "read-write" {
        let line = text.lines().find_map(|line| line.trim().strip_prefix("transactions:")).unwrap_or_default();
        let count: f64 = line.split_whitespace().next().unwrap_or_default().parse()?;
        let rate = line.split('(').nth(1).and_then(number);
        (rate, Some(count))
    } else {
        (after("tps ="), after("number of transactions actually processed:"))
    };
    let per_s = rate.ok_or("the peer printed no rate")?;
    Ok(Figures { per_s, cpu_us: cpu_us / count.ok_or("the peer printed no count")? })
}

/// CPU time of children that were waited for, in us, from /proc/self/stat (ticks of 10 ms).
fn children_cpu_us() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 =
        fields.get(13).ok_or("short stat")?.parse::<f64>()? + fields.get(14).ok_or("short stat")?.parse::<f64>()?;
    Ok(ticks * 1e4)
}

/// Ours once, in a process of its own as the peer is, with the same measure of CPU time.
fn run_ours(name: &str, address: SocketAddr, seconds: u64, rate: f64) -> Result<(Figures, f64)> {
    let before = children_cpu_us()?;
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe()?);
    command.args(["--ours", name, &address.to_string(), &seconds.to_string(), &rate.to_string()]);
    let text = checked(command.output()?)?;
    let cpu_us = children_cpu_us()? - before;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let [per_s, count, lag_ms] = numbers[..] else { return Err(format!("ours printed '{text}'").into()) };
    Ok((Figures { per_s, cpu_us: cpu_us / count }, lag_ms))
}

/// The other half of [`run_ours`]: prints transactions per second, their number, and the 99th percentile of the lag in ms.
fn ours(name: &str, address: SocketAddr, seconds: u64, rate: f64) -> Result<()> {
    let (user, password, database) = ("auction".to_owned(), SECRET.to_owned(), "auction".to_owned());
    let database: Box<dyn Database> = if name == "read-write" {
        Box::new(Mariadb(Login { address, user, password, database, isolation: Isolation::RepeatableRead }))
    } else {
        Box::new(Postgres(Login { address, user, password, database, isolation: Isolation::ReadCommitted }))
    };
    let seed = u64::from(std::process::id());
    let client = |number: u64| -> Box<dyn Client> {
        let rng = Rng::stream(seed, number);
        match name {
            "read-write" => Box::new(ReadWrite { rng, rows: Rows::default() }),
            "tpcb" => Box::new(Tpcb { rng, rows: Rows::default(), drawn: [1; 4] }),
            _ => Box::new(Select { rng, rows: Rows::default() }),
        }
    };
    let mut clients: Vec<Box<dyn Client>> = (0..CONNECTIONS as u64).map(client).collect();
    let drive = if rate > 0.0 { Drive::Open { rate, poisson: false } } else { Drive::Closed };
    let duration = Duration::from_secs(seconds);
    let load = Load { drive, warm_up: Duration::ZERO, duration, ramp_down: Duration::ZERO, seed, cpus: Vec::new() };
    let outcome = engine::run(&*database, &mut clients, &["all"], &load, &mut || 0, &QUIET)?;
    let lag = outcome.lag.percentile(0.99).map_or(0.0, |ns| ns as f64 / 1e6);
    println!("{} {} {lag}", outcome.per_s(), outcome.ended());
    Ok(())
}

fn lag() -> Result<String> {
    let (_folder, server) = server("select")?;
    let address = server.address().ok_or("the server has no address")?;
    run_ours("select", address, 1, 0.0)?;
    let (_, p99) = run_ours("select", address, SECONDS, 2000.0)?;
    let verdict = if p99 <= 1.0 { "ok" } else { "SHORT" };
    let (own, at) = (format!("p99 {p99:.3} ms"), "at 2000/s");
    Ok(format!("{:<22} {own:>12} {at:>12}  {:<24} {:>8}  {verdict:<9}", "lag", "", "<= 1 ms"))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(0)
}

fn pg(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|sql| Dialect::Postgres.sql(sql)).collect()
}

/// pgbench's `select-only`.
struct Select {
    rng: Rng,
    rows: Rows,
}

impl Client for Select {
    fn statements(&self) -> Vec<String> {
        pg(&["SELECT abalance FROM pgbench_accounts WHERE aid = ?"])
    }

    fn draw(&mut self) -> usize {
        0
    }

    fn run(&mut self, connection: &mut dyn Connection) -> std::result::Result<Done, Failure> {
        let aid = 1 + signed(self.rng.below((100_000 * SCALE).unsigned_abs()));
        connection.execute(0, &[Param::Int(aid)], &mut self.rows)?;
        self.rows.int(0, 0)?;
        Ok(Done::Committed)
    }
}

/// pgbench's `tpcb-like`.
struct Tpcb {
    rng: Rng,
    rows: Rows,
    drawn: [i64; 4],
}

impl Client for Tpcb {
    fn statements(&self) -> Vec<String> {
        pg(&[
            "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?",
            "SELECT abalance FROM pgbench_accounts WHERE aid = ?",
            "UPDATE pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?",
            "UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?",
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)",
        ])
    }

    fn draw(&mut self) -> usize {
        let mut below = |n: i64| signed(self.rng.below(n.unsigned_abs()));
        self.drawn = [1 + below(100_000 * SCALE), 1 + below(SCALE), 1 + below(10 * SCALE), below(10_001) - 5000];
        0
    }

    fn run(&mut self, connection: &mut dyn Connection) -> std::result::Result<Done, Failure> {
        let [aid, bid, tid, delta] = self.drawn.map(Param::Int);
        connection.begin(Access::Write)?;
        connection.execute(0, &[delta, aid], &mut self.rows)?;
        connection.execute(1, &[aid], &mut self.rows)?;
        self.rows.int(0, 0)?;
        connection.execute(2, &[delta, tid], &mut self.rows)?;
        connection.execute(3, &[delta, bid], &mut self.rows)?;
        connection.execute(4, &[tid, bid, aid, delta], &mut self.rows)?;
        connection.commit()?;
        Ok(Done::Committed)
    }
}

/// sysbench's `oltp_read_write`: ten selects, four ranges of a hundred, two updates, a delete and an insert of the same row.
struct ReadWrite {
    rng: Rng,
    rows: Rows,
}

impl ReadWrite {
    fn id(&mut self) -> i64 {
        1 + signed(self.rng.below(ROWS.unsigned_abs()))
    }

    /// Groups of eleven digits, as sysbench makes them.
    fn text(&mut self, groups: usize) -> String {
        let group = |rng: &mut Rng| format!("{:011}", rng.below(100_000_000_000));
        (0..groups).map(|_| group(&mut self.rng)).collect::<Vec<_>>().join("-")
    }
}

impl Client for ReadWrite {
    fn statements(&self) -> Vec<String> {
        [
            "SELECT c FROM sbtest1 WHERE id=?",
            "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
            "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
            "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
            "UPDATE sbtest1 SET k=k+1 WHERE id=?",
            "UPDATE sbtest1 SET c=? WHERE id=?",
            "DELETE FROM sbtest1 WHERE id=?",
            "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn draw(&mut self) -> usize {
        0
    }

    fn run(&mut self, connection: &mut dyn Connection) -> std::result::Result<Done, Failure> {
        connection.begin(Access::Write)?;
        for _ in 0..10 {
            let id = self.id();
            connection.execute(0, &[Param::Int(id)], &mut self.rows)?;
        }
        for statement in 1..5 {
            let id = self.id();
            connection.execute(statement, &[Param::Int(id), Param::Int(id + 99)], &mut self.rows)?;
        }
        let id = self.id();
        connection.execute(5, &[Param::Int(id)], &mut self.rows)?;
        let (id, text) = (self.id(), self.text(10));
        connection.execute(6, &[Param::Text(&text), Param::Int(id)], &mut self.rows)?;
        let (id, k, text, pad) = (self.id(), self.id(), self.text(10), self.text(5));
        connection.execute(7, &[Param::Int(id)], &mut self.rows)?;
        let row = [Param::Int(id), Param::Int(k), Param::Text(&text), Param::Text(&pad)];
        connection.execute(8, &row, &mut self.rows)?;
        connection.commit()?;
        Ok(Done::Committed)
    }
}

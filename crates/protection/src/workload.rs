//! `protection`: what protection by checkpoints costs, by load.
//!
//! A load that is a program does the same work in each run: its run time is compared. A load that is a server is asked by a client
//! outside the protection, so that its answers are held back until their epoch is acknowledged.

use crate::writer;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{LINK_DELAY, LINK_RATE, PROTECT, PROTECTED, TIMEOUT};
use baremark_model::descriptor::{Descriptor, joined};
use baremark_model::hdr;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::protection::{Report, Settings};
use baremark_model::seam::Sample;
use baremark_model::units::Nanos;
use baremark_model::wire::Point;
use baremark_programs::command::missing;
use baremark_programs::keeper::Task;
use baremark_programs::protected::{self, Protected};
use baremark_programs::workshop::{self, Workshop, ended_well, search_path};
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips of a run at least.
const FEWEST_TRIPS: usize = 5;
/// Bytes of an answer of ping-pong.
const MESSAGE: u64 = 64;
/// How long a server may take to begin, and its last answer.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(2);
const OUTPUT_LIMIT: u64 = 1 << 16;
const MIB: u64 = 1 << 20;

static PARAMETERS: [Knob; 6] = [
    TIMEOUT,
    Knob::new(
        "load",
        Kind::Choice(&["compute", "memory", "compile", "oltp", "block", "ping-pong", "stream"]),
        Default::Typed("compute"),
    )
    .help(
        "protected program: few pages written, many pages written, a build by cc, transactions of sqlite3, \
         random writes of fio, a server that answers messages, or one that sends a stream",
    ),
    Knob::new("work", Kind::Count { min: 1, max: 1_000_000 }, Default::Typed("10")).help(
        "size of the work: about so many tenths of a second without protection; for ping-pong the phase \
         decides",
    ),
    PROTECT,
    LINK_RATE,
    LINK_DELAY,
];

const OWN: [Metric; 4] = [
    Metric::higher("work_per_s", "1/s", Aggregate::Mean).help(
        "work done each second: passes over memory, files compiled, transactions, blocks written, round \
         trips, or 10^6 bytes received",
    ),
    Metric::lower("run_s", "s", Aggregate::Mean).help("from the program's start to its end; not for servers"),
    Metric::lower("round_trip_p50_us", "us", Aggregate::Mean)
        .help("from a request until its whole answer, median; ping-pong alone"),
    Metric::lower("round_trip_max_us", "us", Aggregate::Mean).help("the longest round trip; ping-pong alone"),
];

static METRICS: [Metric; 15] = joined(&[&OWN, &PROTECTED]);

/// What the workload is.
pub static DESCRIPTOR: Descriptor = Descriptor {
    kind: "protection",
    help: "a native program under protection by checkpoints: run time or throughput, pauses, changed pages, and the delay of its output",
    source: "this program",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    quick: &[("work", "2")],
    check: |arm| Load::of(arm).and_then(|_| Settings::of(arm)).map(drop),
    ..Descriptor::JOB
};

/// The workload `protection`.
#[derive(Clone, Copy, Debug)]
pub struct Protection;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Compute,
    Memory,
    Compile,
    Oltp,
    Block,
    PingPong,
    Stream,
}

impl Load {
    fn of(arm: &ResolvedArm) -> Result<(Load, u64), InvalidValue> {
        let of = Parameters::of(arm, &PARAMETERS);
        let load = match of.get::<String>("load")?.as_str() {
            "memory" => Load::Memory,
            "compile" => Load::Compile,
            "oltp" => Load::Oltp,
            "block" => Load::Block,
            "ping-pong" => Load::PingPong,
            "stream" => Load::Stream,
            _ => Load::Compute,
        };
        Ok((load, of.get("work")?))
    }

    /// Whether it is asked by a client until a phase is over: it has no run time, and none is predicted.
    fn is_server(self) -> bool {
        matches!(self, Load::PingPong | Load::Stream)
    }

    /// Threads that it keeps busy on these CPUs.
    fn threads(self, cpus: &[usize]) -> usize {
        if self == Load::Compile { cpus.len().max(1) } else { 1 }
    }

    /// Programs that it needs, with their Debian packages.
    fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Load::Compile => &[("make", "make"), ("cc", "gcc")],
            Load::Oltp => &[("sqlite3", "sqlite3")],
            Load::Block => &[("fio", "fio")],
            _ => &[],
        }
    }
}

impl Job for Protection {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let (load, work) = Load::of(arm)?;
        let path = search_path();
        load.needs().iter().try_for_each(|(program, package)| missing(program, package, &path))?;
        let settings = Settings::of(arm)?;
        let protected = if load.is_server() {
            Protected::prepare_without_costs(settings, around.keeper, around.cpus)?
        } else {
            Protected::prepare(settings, around.keeper, around.cpus, load.threads(around.cpus), &[])?
        };
        let Nanos(timeout_ns) = TIMEOUT.get(arm)?;
        Ok(Box::new(PreparedProtection { load, work, protected, around, timeout_ns }))
    }
}

struct PreparedProtection<'s> {
    load: Load,
    work: u64,
    protected: Protected,
    around: JobContext<'s>,
    timeout_ns: u64,
}

/// A program of fixed work.
struct Program {
    argv: Vec<String>,
    /// How much it does, in the unit of `work_per_s`.
    done: u64,
    /// What is run before it.
    before: Option<Vec<String>>,
}

impl ReadyJob for PreparedProtection<'_> {
    fn run(&mut self) -> Result<JobRun, JobError> {
        if self.load.is_server() { self.served() } else { self.program() }
    }
}

impl PreparedProtection<'_> {
    fn program(&self) -> Result<JobRun, JobError> {
        let mut workshop = Workshop::open(self.around.keeper)?;
        let program = self.lay(&workshop)?;
        if let Some(before) = &program.before {
            let task = self.task(&workshop, before);
            self.carry_out(&mut workshop, task)?;
        }
        let task = self.protected.task(self.task(&workshop, &program.argv), workshop.folder());
        self.carry_out(&mut workshop, task)?;
        let report = self.protected.report(workshop.folder())?;
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds and counts of a run")]
        let (seconds, done) = (report.wall_ns as f64 * 1e-9, program.done as f64);
        let mut run = self.joined(&report, &[("work_per_s", done / seconds), ("run_s", seconds)], true);
        run.checked = self.check(&workshop, &program)?;
        Ok(run)
    }

    fn task(&self, workshop: &Workshop, argv: &[String]) -> Task {
        Task {
            argv: argv.to_vec(),
            environment: workshop::environment(workshop.folder(), &[], []),
            timeout_ns: self.timeout_ns,
            output_limit_bytes: OUTPUT_LIMIT,
            ..Task::default()
        }
    }

    fn carry_out(&self, workshop: &mut Workshop, task: Task) -> Result<(), JobError> {
        let name = task.argv.iter().skip_while(|word| *word != "--").nth(1).or(task.argv.first()).cloned();
        let outcome = workshop.run(task)?;
        ended_well(&name.unwrap_or_default(), self.timeout_ns, outcome).map(drop)
    }

    /// Puts what the program needs into its folder.
    fn lay(&self, workshop: &Workshop) -> Result<Program, JobError> {
        let own = self.around.keeper.to_string_lossy().into_owned();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let writing = |pages: &str, passes: u64| Program {
            argv: words(&[&own, "protect", "--write", pages, "--passes", &passes.to_string()]),
            done: passes,
            before: None,
        };
        Ok(match self.load {
            Load::Memory => writing("2048", self.work * 1500),
            Load::Compile => {
                let files = self.work.div_ceil(2).max(2);
                for file in 0..files {
                    workshop.put(&format!("f{file}.c"), source(file).as_bytes())?;
                }
                workshop.put("Makefile", makefile(files).as_bytes())?;
                let jobs = format!("-j{}", self.load.threads(self.around.cpus));
                Program { argv: words(&["make", "-s", &jobs]), done: files, before: None }
            }
            Load::Oltp => {
                let count = self.work * 600;
                workshop.put("create.sql", create().as_bytes())?;
                workshop.put("transactions.sql", transactions(count).as_bytes())?;
                Program {
                    argv: words(&["sqlite3", "-bail", "bank.db", ".read transactions.sql"]),
                    done: count,
                    before: Some(words(&["sqlite3", "-bail", "bank.db", ".read create.sql"])),
                }
            }
            Load::Block => {
                let blocks = self.work * 500;
                let total = format!("--io_size={}", blocks * 4096);
                let pattern =
                    ["fio", "--name=block", "--filename=block.dat", "--size=32m", "--rw=randwrite", "--bs=4k"];
                let how = ["--ioengine=psync", "--fsync=64", "--thread", "--output=fio.txt", "--randseed=1", &total];
                Program { argv: words(&[&pattern[..], &how[..]].concat()), done: blocks, before: None }
            }
            _ => writing("16", self.work * 1600),
        })
    }

    fn check(&self, workshop: &Workshop, program: &Program) -> Result<String, JobError> {
        let wrong = |what: String| Err(JobError::failed(what));
        match self.load {
            Load::Compile => {
                let objects = (0..program.done).filter(|file| workshop.folder().join(format!("f{file}.o")).is_file());
                match objects.count() as u64 {
                    made if made == program.done => Ok(format!("{made} object files were made")),
                    made => wrong(format!("{made} of {} object files were made", program.done)),
                }
            }
            Load::Oltp => {
                let sum = Command::new("sqlite3").arg(workshop.folder().join("bank.db")).arg(CHECK).output();
                let sum = sum.map_err(|why| JobError::failed(format!("sqlite3: {why}")))?;
                let said = String::from_utf8_lossy(&sum.stdout).trim().to_owned();
                match said == format!("{}|0", program.done) {
                    true => Ok(format!("{} transactions are in the database and the money adds up", program.done)),
                    false => wrong(format!("the database has '{said}' in place of '{}|0'", program.done)),
                }
            }
            _ => Ok("the program ended with exit code 0".to_owned()),
        }
    }

    /// A server and its client.
    fn served(&self) -> Result<JobRun, JobError> {
        let failed = |what: &str, why: &io::Error| JobError::failed(format!("{what}: {why}"));
        let workshop = Workshop::open(self.around.keeper)?;
        let stats = workshop.folder().join("stats.json");
        let server = Server::start(self, &stats).map_err(|why| failed("starting the server", &why))?;
        let asked = match self.load {
            Load::Stream => self.stream(&server).map(|values| (values, None)),
            _ => self.ping_pong(&server).map(|(values, trips)| (values, Some(trips))),
        };
        let (values, trips) = asked.map_err(|why| failed("asking the server", &why))?;
        server.end().map_err(|why| failed("ending the server", &why))?;
        let report = protected::read(&stats)?;
        let mut run = self.joined(&report, &values, false);
        run.points.extend(trips);
        run.checked = "every byte of every answer was that of its request".to_owned();
        Ok(run)
    }

    fn ping_pong(&self, server: &Server) -> io::Result<(Vec<(&'static str, f64)>, Point)> {
        let (mut client, mut buffer) = (server.connect()?, Vec::new());
        let (begun, mut trips) = (Instant::now(), Vec::new());
        // The first is that of the connection.
        writer::ask(&mut client, 0, MESSAGE, &mut buffer)?;
        let first = Instant::now();
        while trips.len() < FEWEST_TRIPS || begun.elapsed() < self.around.phase {
            let asked = Instant::now();
            writer::ask(&mut client, trips.len() as u64 + 1, MESSAGE, &mut buffer)?;
            trips.push(Nanos::from(asked.elapsed()).0);
        }
        Ok(round_trips(trips, first.elapsed()))
    }

    fn stream(&self, server: &Server) -> io::Result<Vec<(&'static str, f64)>> {
        let (mut client, mut buffer) = (server.connect()?, Vec::new());
        writer::ask(&mut client, 0, MESSAGE, &mut buffer)?;
        let bytes = self.work * 64 * MIB;
        let begun = Instant::now();
        writer::ask(&mut client, 1, bytes, &mut buffer)?;
        #[expect(clippy::cast_precision_loss, reason = "bytes of a run")]
        let rate = bytes as f64 * 1e-6 / begun.elapsed().as_secs_f64();
        Ok(vec![("work_per_s", rate)])
    }

    /// The run's own metrics, and those of protection; the prediction is that of a run time.
    fn joined(&self, report: &Report, own: &[(&str, f64)], has_run_time: bool) -> JobRun {
        let sample = |(metric, value): &(&str, f64)| Sample::new(*metric, *value);
        let mut samples: Vec<Sample> = own.iter().map(sample).collect();
        samples.extend(report.samples(&self.protected.costs()));
        if !has_run_time {
            samples.retain(|sample| sample.metric != "predicted_ratio");
        }
        let points = report.point().into_iter().collect();
        JobRun { samples, flags: report.flags(), points, ..JobRun::default() }
    }
}

/// Metrics of round trips, in ns, one after the other over a time; and their distribution.
fn round_trips(mut trips: Vec<u64>, took: Duration) -> (Vec<(&'static str, f64)>, Point) {
    trips.sort_unstable();
    let counts = trips.iter().map(|trip| (*trip, 1)).collect();
    let whole = (0, Nanos::from(took).0);
    let point = Point::new("round trips", whole, Vec::new(), hdr::encoded(&counts)).of(&["round_trip_us"]);
    let at = |index: usize| trips.get(index).copied().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "round trips of a run")]
    let [count, median, longest] =
        [trips.len() as u64, at(trips.len().saturating_sub(1) / 2), at(trips.len().saturating_sub(1))]
            .map(|of| of as f64);
    let values = vec![
        ("work_per_s", count / took.as_secs_f64()),
        ("round_trip_p50_us", median / 1e3),
        ("round_trip_max_us", longest / 1e3),
    ];
    (values, point)
}

/// A protected server, with the proxy before it.
struct Server {
    child: Option<Child>,
    proxy: SocketAddr,
}

impl Server {
    fn start(ready: &PreparedProtection<'_>, stats: &Path) -> io::Result<Server> {
        let [server, proxy] = [free_address()?, free_address()?];
        let (server, listen) = (server.to_string(), proxy.to_string());
        let further = ["--listen", &listen, "--server", &server];
        let mut command = Command::new(ready.around.keeper);
        command.args(ready.protected.words(&stats.to_string_lossy(), &further));
        command.arg(ready.around.keeper).args(["protect", "--answer", &server]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        Ok(Server { child: Some(child), proxy })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match TcpStream::connect(self.proxy) {
                Err(why) if why.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                    thread::sleep(GLANCE);
                }
                connected => break connected?,
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// The end of its input ends it, and with it what protects it, which then writes its report.
    fn end(mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        drop(child.stdin.take());
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}"))) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            drop(child.wait());
        }
    }
}

/// An address that is free now.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A file of C with functions that take a compiler a while; the same text for the same number.
fn source(file: u64) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for function in 0..60 {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "int work_{file}_{function}(int *values, int count, char *text) {{\n  int sum = {function};\n  for (int i = 0; i < count; i++) {{\n    \
             switch (values[i] % 7) {{ case 0: sum += i * {function}; break; case 1: sum ^= values[i] << 3; break;\n      \
             case 2: sum -= (int)strlen(text); break; case 3: sum *= 31; break; default: sum += values[count - i - 1]; }}\n    \
             if (sum > 1000000) sum = snprintf(text, 64, \"%d %d\", sum, i);\n  }}\n  return sum;\n}}\n"
        );
    }
    text
}

fn makefile(files: u64) -> String {
    let objects: Vec<String> = (0..files).map(|file| format!("f{file}.o")).collect();
    format!("all: {}\n%.o: %.c\n\t@cc -O2 -c $< -o $@\n", objects.join(" "))
}

const ACCOUNTS: u64 = 2000;
const CHECK: &str = "SELECT (SELECT count(*) FROM moves), (SELECT sum(balance) FROM accounts);";

fn create() -> String {
    format!(
        "PRAGMA journal_mode=WAL;\nCREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER);\n\
         CREATE TABLE moves(id INTEGER PRIMARY KEY, source INTEGER, target INTEGER, amount INTEGER);\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS})\n\
         INSERT INTO accounts SELECT i, 0 FROM n;\n"
    )
}

/// Transfers between accounts, one transaction each.
fn transactions(count: u64) -> String {
    let mut text = String::from("PRAGMA synchronous=NORMAL;\n");
    for number in 0..count {
        let [source, target] = [7919, 104_729].map(|prime| number * prime % ACCOUNTS + 1);
        let amount = number % 97 + 1;
        let _ = write!(
            text,
            "BEGIN; UPDATE accounts SET balance = balance - {amount} WHERE id = {source};\n\
             UPDATE accounts SET balance = balance + {amount} WHERE id = {target};\n\
             INSERT INTO moves(source, target, amount) VALUES({source}, {target}, {amount}); COMMIT;\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::percentile::Percentile;

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn every_percentile_of_round_trips_has_its_distribution() {
        let (values, point) = round_trips((1..=100).rev().map(|us| us * 1000).collect(), Duration::from_secs(2));
        assert_eq!(values, [("work_per_s", 50.0), ("round_trip_p50_us", 50.0), ("round_trip_max_us", 100.0)]);
        let percentiles: Vec<Percentile> = values.iter().filter_map(|(metric, _)| Percentile::of_key(metric)).collect();
        assert_eq!(percentiles.len(), 2);
        assert!(percentiles.iter().all(|percentile| point.distributions == [percentile.of.as_str()]));
        let read = hdr::decoded(&point.histogram.expect("round trips")).expect("as written");
        assert_eq!((read.count(), point.end_ns), (100, 2_000_000_000));
    }
}

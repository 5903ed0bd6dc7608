//! From what became of a load to what a trial records: samples, parts of the phase, flags, why it does not count, and the detail.

use crate::outcome::{Commands, LoadOutcome};
use crate::parameters::ServerSetup;
use crate::traffic::{Drive, Traffic};
use baremark_load::latency::Summary;
use baremark_load::parts::stretches;
use baremark_load::reached::missed;
use baremark_model::seam::Sample;
use baremark_model::shown::{Shown, ShownCell, ShownRow};
use baremark_model::units::Bytes;
use baremark_model::wire::{Detail, Point};
use serde::Serialize;

/// The detail's format.
const FORMAT: &str = "baremark-key-value/1";
/// Percentiles of a command's latencies, by the part of a metric's key that names them.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999)];
/// The share of commands with an error reply above which a trial does not count.
const MOST_ERRORS: f64 = 0.01;
/// The share of a thread's time above which the driver may be what limits.
const BUSY: f64 = 0.9;

/// What the server says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerReport {
    /// Its version.
    pub(crate) version: String,
    /// GET and SET that it has counted since before the load.
    pub(crate) counted: [u64; 2],
    /// Bytes that it has allocated, and that are resident, after the load.
    pub(crate) memory: [Option<u64>; 2],
}

/// Metrics.
pub(crate) fn samples(outcome: &LoadOutcome, server: &ServerReport) -> Vec<Sample> {
    let answered = outcome.answered().max(1) as f64;
    let cpus = |ns: u64| ns as f64 / outcome.elapsed_ns.max(1) as f64;
    let mut samples = vec![
        Sample::new("ops_per_s", outcome.per_s()),
        Sample::new("errors", 100.0 * outcome.error_share()),
        Sample::new("driver_cpu_us_per_op", outcome.driver_cpu_ns as f64 / answered / 1e3),
        Sample::new("driver_cpus", cpus(outcome.driver_cpu_ns)),
    ];
    if outcome.metered > 0 {
        samples.push(Sample::new("server_cpu_us_per_op", outcome.metered as f64 / answered / 1e3));
        samples.push(Sample::new("server_cpus", cpus(outcome.metered)));
    }
    let reads = outcome.hits + outcome.misses;
    if reads > 0 {
        samples.push(Sample::new("hit_rate", 100.0 * outcome.hits as f64 / reads as f64));
    }
    let memory = ["server_memory", "server_resident_memory"].into_iter().zip(server.memory);
    samples.extend(memory.filter_map(|(key, bytes)| Some(Sample::new(key, bytes? as f64 / f64::from(1 << 20)))));
    samples.extend(percentiles("get_", &outcome.get));
    samples.extend(percentiles("set_", &outcome.set));
    samples.extend(outcome.lag.percentile(0.99).map(|ns| Sample::new("lag_p99_us", ns as f64 / 1e3)));
    samples
}

fn percentiles(prefix: &str, commands: &Commands) -> Vec<Sample> {
    let key = |name: &str| format!("{prefix}latency_{name}_us");
    let latencies = &commands.latencies;
    let found = PERCENTILES.iter().map(|(name, share)| (*name, latencies.percentile(*share)));
    let found = found.chain([("max", latencies.largest())]);
    found.filter_map(|(name, ns)| Some(Sample::new(key(name), ns? as f64 / 1e3))).collect()
}

/// Each second, then both commands over the measured time; `before_ns` passed before the load was called.
pub(crate) fn points(outcome: &LoadOutcome, before_ns: u64) -> Vec<Point> {
    let begin = before_ns + outcome.begin_ns;
    let whole = (begin, begin + outcome.elapsed_ns);
    let times = stretches(&outcome.seconds, (begin, outcome.elapsed_ns), |counts, length_s| {
        let rate = counts.iter().sum::<u64>() as f64 / length_s.max(1e-9);
        Some((vec![Sample::new("ops_per_s", rate)], None))
    });
    let each = [("GET", "get_latency_us", &outcome.get), ("SET", "set_latency_us", &outcome.set)].into_iter();
    let each = each.filter(|(.., commands)| commands.latencies.count() > 0).map(|(name, distribution, commands)| {
        let mut samples = vec![Sample::new("done", commands.latencies.count() as f64)];
        samples.extend(percentiles("", commands));
        Point::new(name, whole, samples, commands.latencies.encoded()).of(&[distribution])
    });
    let lag = outcome.lag.encoded();
    let lag = lag.map(|histogram| Point::new("lag", whole, Vec::new(), Some(histogram)).of(&["lag_us"]));
    times.into_iter().chain(each).chain(lag).collect()
}

/// Reasons for which the trial does not count.
pub(crate) fn void(outcome: &LoadOutcome, server: &ServerReport) -> Vec<String> {
    let mut void = Vec::new();
    for (name, sent, counted) in
        [("GET", outcome.get.sent, server.counted[0]), ("SET", outcome.set.sent, server.counted[1])]
    {
        if sent != counted {
            void.push(format!("the driver has sent {sent} {name}, and the server has counted {counted}"));
        }
    }
    if outcome.wrong > 0 {
        let first = outcome.first_wrong.as_deref().unwrap_or_default();
        void.push(format!("impossible replies: {}; first: {first}", outcome.wrong));
    }
    if outcome.error_share() > MOST_ERRORS {
        let first = outcome.first_error.as_deref().unwrap_or_default();
        void.push(format!("{:.1} % of the commands failed, the first with: {first}", 100.0 * outcome.error_share()));
    }
    void
}

/// What a reader should know of a load that counts.
pub(crate) fn flags(outcome: &LoadOutcome, setup: &ServerSetup, traffic: &Traffic, in_memory: bool) -> Vec<String> {
    let mut flags = Vec::new();
    let network = if setup.lab_network { "a veth pair between two network namespaces" } else { "loopback" };
    let cpus = [&setup.cpus, &traffic.cpus];
    let shared = cpus.iter().any(|cpus| cpus.is_empty()) || cpus[0].iter().any(|cpu| cpus[1].contains(cpu));
    let cpus = if shared { "share CPUs" } else { "have CPUs of their own" };
    flags.push(format!("driver and server run on one machine, {cpus} and are connected by {network}"));
    if setup.persistence != "none" && in_memory {
        flags.push("the append-only file is on a file system in memory: its syncs wait for no disk".to_owned());
    }
    if let Drive::Open { rate, poisson } = traffic.drive {
        if outcome.unserved > 0 {
            flags.push(format!("{} open arrivals were not started: the connections were all busy", outcome.unserved));
        }
        flags.extend(missed("commands", (rate, poisson), outcome.answered(), outcome.elapsed_ns));
    }
    let busy = outcome.driver_cpu_ns as f64 / outcome.elapsed_ns.max(1) as f64 / traffic.threads as f64;
    if traffic.drive == Drive::Closed && busy > BUSY {
        flags.push(
            "driver threads at 90 % CPU or more: the driver may limit throughput; raise driver_threads".to_owned(),
        );
    }
    flags
}

/// What was checked, in words; whether it was right decides [`void`].
pub(crate) fn checked(outcome: &LoadOutcome, server: &ServerReport) -> String {
    let [get, set] = server.counted;
    format!(
        "{} GET and {} SET were sent, and the server has counted {get} and {set}; of their replies, and of {} keys that were read back, \
         impossible: {}",
        outcome.get.sent, outcome.set.sent, outcome.read_back, outcome.wrong
    )
}

/// What only this workload reports.
#[derive(Serialize)]
struct DetailDocument<'d> {
    server: &'static str,
    version: &'d str,
    io_threads: u64,
    persistence: &'d str,
    keys: u64,
    value_bytes: usize,
    connections: usize,
    pipeline: usize,
    driver_threads: usize,
    /// Commands per second that were requested; `null` of a closed loop.
    rate: Option<f64>,
    hits: u64,
    misses: u64,
    errors: u64,
    unserved: u64,
    keys_read_back: u64,
    commands: Vec<CommandRow>,
    cpu: CpusInUse,
    memory: ServerMemory,
    shown: Shown,
}

/// One command.
#[derive(Serialize)]
struct CommandRow {
    name: &'static str,
    /// All that were sent, loading, warm-up and reading back among them.
    sent: u64,
    /// All that the server counts.
    counted: u64,
    /// Of the measured time, from the intended start where arrivals are open; `null` where none ended.
    latency: Option<Summary>,
}

/// CPUs in use on average over the measured time.
#[derive(Serialize)]
struct CpusInUse {
    driver: f64,
    /// `null` where it is not known.
    server: Option<f64>,
}

/// Memory of the server after the load, by its own count.
#[derive(Serialize)]
struct ServerMemory {
    used_bytes: Option<u64>,
    resident_bytes: Option<u64>,
}

/// The detail of a run.
pub(crate) fn detail(outcome: &LoadOutcome, setup: &ServerSetup, traffic: &Traffic, server: &ServerReport) -> Detail {
    let cpus = |ns: u64| ns as f64 / outcome.elapsed_ns.max(1) as f64;
    let rows = [("GET", &outcome.get, server.counted[0]), ("SET", &outcome.set, server.counted[1])];
    let [used_bytes, resident_bytes] = server.memory;
    let mut document = DetailDocument {
        server: setup.name(),
        version: &server.version,
        io_threads: setup.io_threads,
        persistence: &setup.persistence,
        keys: traffic.keys,
        value_bytes: traffic.value_bytes,
        connections: traffic.connections,
        pipeline: traffic.pipeline,
        driver_threads: traffic.threads,
        rate: match traffic.drive {
            Drive::Closed => None,
            Drive::Open { rate, .. } => Some(rate),
        },
        hits: outcome.hits,
        misses: outcome.misses,
        errors: outcome.errors,
        unserved: outcome.unserved,
        keys_read_back: outcome.read_back,
        commands: rows
            .into_iter()
            .map(|(name, of, counted)| CommandRow { name, sent: of.sent, counted, latency: of.latencies.summary() })
            .collect(),
        cpu: CpusInUse {
            driver: cpus(outcome.driver_cpu_ns),
            server: (outcome.metered > 0).then(|| cpus(outcome.metered)),
        },
        memory: ServerMemory { used_bytes, resident_bytes },
        shown: Shown::default(),
    };
    document.shown = shown(&document);
    Detail { format: FORMAT.to_owned(), document: serde_json::to_value(document).unwrap_or_default() }
}

/// The section of reports.
fn shown(of: &DetailDocument<'_>) -> Shown {
    let loop_kind = of.rate.map_or("closed loop".to_owned(), |rate| format!("open loop of {rate:.0} commands/s"));
    let counted = |count: u64, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    let setting = format!(
        "{} {}, {}, persistence {}; {} of {:.0}; {loop_kind} over {}, {} under way on each at most, {}",
        of.server,
        of.version,
        counted(of.io_threads, "I/O thread"),
        of.persistence,
        counted(of.keys, "key"),
        Bytes(of.value_bytes as u64),
        counted(of.connections as u64, "connection"),
        of.pipeline,
        counted(of.driver_threads as u64, "driver thread")
    );
    let memory = of.memory.used_bytes.map(|bytes| format!("; memory of the server {:.1}", Bytes(bytes)));
    let server = of.cpu.server.map(|server| format!(", server {server:.2}")).unwrap_or_default();
    let used = format!("CPUs used: driver {:.2}{server}{}", of.cpu.driver, memory.unwrap_or_default());
    let counted_alike = of.commands.iter().all(|row| row.sent == row.counted);
    let sent: Vec<String> = of.commands.iter().map(|row| format!("{} {}", row.sent, row.name)).collect();
    let alike = if counted_alike { ", as many as the server has counted" } else { "" };
    let rest = [(of.misses, "misses"), (of.errors, "error replies"), (of.unserved, "arrivals not started")];
    let rest: String =
        rest.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("; {count} {what}")).collect();
    let checks = format!(
        "{} hits{rest}; {} were sent in all{alike}; {} keys were read back",
        of.hits,
        sent.join(" and "),
        of.keys_read_back
    );
    let row = |row: &CommandRow| {
        let latency = row.latency.as_ref()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of latencies")]
        let mean = ShownCell::Nanoseconds(latency.mean_ns as u64);
        let percentiles = [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, Some(latency.max_ns)];
        let cells = [ShownCell::Count(latency.samples), mean].into_iter().chain(percentiles.map(ShownCell::from));
        Some(ShownRow { what: row.name.to_owned(), cells: cells.collect() })
    };
    Shown {
        head: "Redis".to_owned(),
        facts: vec![setting, used, checks],
        caption: "Latency by command".to_owned(),
        columns: ["done", "mean", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned).to_vec(),
        rows: of.commands.iter().filter_map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::arm::ResolvedArm;
    use baremark_model::page_size::PageSize;
    use baremark_model::percentile::Percentile;

    /// A load of 1000 GET, 100 SET in the measured second.
    fn played() -> (LoadOutcome, ServerReport) {
        let mut outcome = LoadOutcome {
            seconds: vec![1100],
            hits: 990,
            misses: 10,
            elapsed_ns: 1_000_000_000,
            ..LoadOutcome::default()
        };
        (0..1000).for_each(|at| outcome.get.latencies.record(50_000 + at));
        (0..100).for_each(|at| outcome.set.latencies.record(70_000 + at));
        (outcome.get.sent, outcome.set.sent) = (1200, 300);
        (outcome.driver_cpu_ns, outcome.metered) = (550_000_000, 1_100_000_000);
        outcome.seconds = vec![1100];
        let memory = [Some(3 << 20), None];
        (outcome, ServerReport { version: "7.0.15".to_owned(), counted: [1200, 300], memory })
    }

    fn setup() -> (ServerSetup, Traffic) {
        crate::parameters::read(&ResolvedArm::native(1, PageSize::Small)).expect("the defaults")
    }

    #[test]
    fn a_count_that_differs_by_one_voids_the_trial() {
        let (outcome, server) = played();
        assert_eq!(void(&outcome, &server), [""; 0]);
        let server = ServerReport { counted: [1200, 299], ..server };
        assert_eq!(void(&outcome, &server), ["the driver has sent 300 SET, and the server has counted 299"]);
    }

    #[test]
    fn one_reply_that_cannot_be_voids_the_trial_and_so_do_errors_above_one_percent() {
        let (mut outcome, server) = played();
        outcome.found_wrong(|| "GET key:000000000001 finds nothing where version 3 is".to_owned());
        outcome.found_wrong(|| "another".to_owned());
        let expected = "impossible replies: 2; first: GET key:000000000001 finds nothing where version 3 is";
        assert_eq!(void(&outcome, &server), [expected]);
        let (mut outcome, server) = played();
        outcome.first_error = Some("error OOM".to_owned());
        outcome.errors = 11;
        assert_eq!(void(&outcome, &server), [""; 0], "11 of 1111 are 0.99 %");
        outcome.errors = 12;
        assert_eq!(void(&outcome, &server), ["1.1 % of the commands failed, the first with: error OOM"]);
    }

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn every_percentile_has_its_distribution_among_the_points() {
        let (mut outcome, server) = played();
        (0..1000).for_each(|at| outcome.lag.record(1000 + at));
        let points = points(&outcome, 0);
        let mut percentiles = 0;
        for sample in samples(&outcome, &server) {
            let Some(of) = Percentile::of_key(&sample.metric) else { continue };
            let is_of = |point: &Point| point.histogram.is_some() && point.distributions.contains(&of.of);
            assert!(points.iter().any(is_of), "{}", sample.metric);
            percentiles += 1;
        }
        assert!(percentiles > 5, "{percentiles}");
    }

    #[test]
    fn random_arrivals_that_are_few_by_chance_are_no_reason_for_a_flag() {
        let (mut outcome, _) = played();
        let (setup, mut traffic) = setup();
        let flagged = |outcome: &LoadOutcome, traffic: &Traffic| {
            flags(outcome, &setup, traffic, true).iter().any(|flag| flag.starts_with("throughput"))
        };
        outcome.seconds = vec![80];
        traffic.drive = Drive::Open { rate: 100.0, poisson: true };
        assert!(!flagged(&outcome, &traffic));
        traffic.drive = Drive::Open { rate: 100.0, poisson: false };
        assert!(flagged(&outcome, &traffic));
        outcome.seconds = vec![60];
        traffic.drive = Drive::Open { rate: 100.0, poisson: true };
        assert!(flagged(&outcome, &traffic));
    }

    #[test]
    fn rates_costs_and_percentiles_follow_from_the_counts_and_too_few_have_no_percentile() {
        let (outcome, server) = played();
        let samples = samples(&outcome, &server);
        let value = |metric: &str| samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
        assert_eq!(value("ops_per_s"), Some(1100.0));
        assert_eq!((value("hit_rate"), value("errors")), (Some(99.0), Some(0.0)));
        assert_eq!((value("driver_cpu_us_per_op"), value("server_cpu_us_per_op")), (Some(500.0), Some(1000.0)));
        assert_eq!((value("server_memory"), value("server_resident_memory")), (Some(3.0), None));
        assert!(value("get_latency_p99_us").is_some() && value("get_latency_p99_9_us").is_none(), "1000 of 3688");
        assert!(value("set_latency_p90_us").is_some() && value("set_latency_p99_us").is_none(), "100 of 368");
        assert_eq!(value("lag_p99_us"), None, "of a closed loop");
    }

    #[test]
    fn the_detail_brings_its_section_with_a_row_for_each_command_that_ended() {
        let (outcome, server) = played();
        let (setup, traffic) = setup();
        let detail = detail(&outcome, &setup, &traffic, &server);
        let shown: Shown = serde_json::from_value(detail.document["shown"].clone()).expect("it can be read");
        let setting = "redis 7.0.15, 1 I/O thread, persistence none; 100000 keys of 100 B; closed loop over 50 connections, 1 under way on each at \
                       most, 1 driver thread";
        let checks = "990 hits; 10 misses; 1200 GET and 300 SET were sent in all, as many as the server has counted; 0 keys were read back";
        assert_eq!(shown.facts, [setting, "CPUs used: driver 0.55, server 1.10; memory of the server 3.0 MiB", checks]);
        assert_eq!(shown.rows.len(), 2);
        assert!(shown.rows.iter().all(|row| row.cells.len() == shown.columns.len()));
        assert_eq!(shown.rows[0].cells[0], ShownCell::Count(1000));
        let none = LoadOutcome { get: Commands::default(), ..outcome };
        let detail = super::detail(&none, &setup, &traffic, &server);
        assert_eq!(detail.document["shown"]["rows"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_reader_hears_of_arrivals_that_were_not_served() {
        let (mut outcome, _) = played();
        let (setup, mut traffic) = setup();
        let of = |outcome: &LoadOutcome, traffic: &Traffic| flags(outcome, &setup, traffic, true).len();
        assert_eq!(of(&outcome, &traffic), 1, "where both are, alone");
        outcome.driver_cpu_ns = 950_000_000;
        assert_eq!(of(&outcome, &traffic), 2, "the driver was busy");
        traffic.drive = Drive::Open { rate: 2000.0, poisson: false };
        outcome.unserved = 900;
        let said = flags(&outcome, &setup, &traffic, true).join("; ");
        assert!(
            said.contains("900 open arrivals were not started")
                && said.contains("throughput 1100 of the requested 2000 commands/s"),
            "{said}"
        );
        let setup = ServerSetup { persistence: "always".to_owned(), ..setup };
        assert!(flags(&outcome, &setup, &traffic, true).join("; ").contains("its syncs wait for no disk"));
    }
}

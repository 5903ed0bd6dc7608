//! `baremark top --rows`: guests, containers and processes, sorted, on a screen or as CSV or JSON for programs.

use baremark_model::observer::ObserveSpec;
use baremark_model::units::Nanos;
use baremark_model::view;
use baremark_observe::Root;
use baremark_observe::activity::{Activity, Disk, Used, Who};
use baremark_observe::recorder::Recorder;
use baremark_report::{csv, one_line};
use baremark_sys::clock;
use baremark_trace::owner::Kind;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::time::Instant;

/// What rows are sorted by, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// CPU time
    Cpu,
    /// Time ready without a CPU
    Ready,
    /// Resident memory
    Memory,
    /// I/Os
    Disk,
    /// Mean latency of I/Os
    Latency,
    /// Bytes received and sent
    Network,
    /// Names, in order
    Name,
}

const SORTS: [Sort; 7] = [Sort::Cpu, Sort::Ready, Sort::Memory, Sort::Disk, Sort::Latency, Sort::Network, Sort::Name];

impl Sort {
    /// The one after it.
    pub fn next(self) -> Sort {
        let at = SORTS.iter().position(|sort| *sort == self).unwrap_or(0);
        SORTS[(at + 1) % SORTS.len()]
    }

    fn word(self) -> &'static str {
        match self {
            Sort::Cpu => "cpu",
            Sort::Ready => "ready",
            Sort::Memory => "memory",
            Sort::Disk => "disk",
            Sort::Latency => "latency",
            Sort::Network => "network",
            Sort::Name => "name",
        }
    }
}

/// The form of `--batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Batch {
    /// A line for each row, after a heading
    Csv,
    /// A document for each sample, one a line
    Json,
}

/// Who does what, sample by sample.
pub struct Rows {
    activity: Activity,
    machine: Recorder,
    began: Instant,
    spent_ns: u64,
    shown: Sample,
}

/// One sample: the machine's figures, then everybody's.
#[derive(Default)]
struct Sample {
    at_s: f64,
    seconds: f64,
    utilization: Option<f64>,
    steal: Option<f64>,
    memory_pressure: Option<f64>,
    rows: Vec<(Who, Used)>,
}

/// The format of a sample's document.
pub const FORMAT: &str = "baremark-top-rows/1";

/// The heading of `--batch csv`. A cell is empty where the value was not measured.
pub const HEADING: &str = "time_s,seconds,kind,id,name,processes,cpu_percent,ready_percent,steal_percent,memory_pressure_percent,\
                           rss_bytes,major_faults_per_s,reads_per_s,writes_per_s,read_bytes_per_s,write_bytes_per_s,\
                           disk_queue_ms,disk_device_ms,receive_bytes_per_s,send_bytes_per_s";

#[expect(clippy::cast_precision_loss, reason = "rounded for people")]
fn per_s(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

/// Per cent of one CPU.
fn percent(ns: u64, seconds: f64) -> f64 {
    per_s(ns, seconds) / 1e7
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Guest => "guest",
        Kind::Container => "container",
        Kind::Process => "process",
    }
}

impl Rows {
    /// Begins.
    pub fn start(interval: Nanos) -> Self {
        let which = ["cpu", "pressure"].map(str::to_owned).to_vec();
        let machine = Recorder::start(&ObserveSpec { interval, which, per_cpu: false }, &Root::default());
        Rows { activity: Activity::start(), machine, began: Instant::now(), spent_ns: 0, shown: Sample::default() }
    }

    /// Takes the next sample.
    pub fn take(&mut self) {
        let before = clock::thread_cpu_ns();
        let (lap, machine) = (self.activity.lap(), self.machine.lap());
        let seen = view::views(&machine.values, machine.seconds);
        let of =
            |key: &str| seen.iter().find(|seen| seen.key == key && seen.instance.is_empty()).map(|seen| seen.value);
        self.shown = Sample {
            at_s: self.began.elapsed().as_secs_f64(),
            seconds: lap.seconds,
            utilization: of("cpu.utilization"),
            steal: of("cpu.steal_share"),
            memory_pressure: of("pressure.memory"),
            rows: lap.used.into_iter().collect(),
        };
        self.spent_ns += clock::thread_cpu_ns().saturating_sub(before);
    }

    /// Sorts the rows.
    pub fn sort(&mut self, by: Sort) {
        let number = |used: &Used| -> f64 {
            let disk = used.disk.unwrap_or_default();
            match by {
                Sort::Cpu | Sort::Name => per_s(used.cpu_ns, 1.0),
                Sort::Ready => per_s(used.ready_ns, 1.0),
                Sort::Memory => per_s(used.rss_bytes, 1.0),
                Sort::Disk => per_s(disk.ios(), 1.0),
                Sort::Latency => disk.latency_ms().map_or(0.0, |(queue, device)| queue + device),
                Sort::Network => used.network.map_or(0.0, |(to, from)| per_s(to + from, 1.0)),
            }
        };
        baremark_model::order::by(&mut self.shown.rows, |(one, a), (other, b)| {
            let names = || (&a.name, one).cmp(&(&b.name, other));
            let cpu = || b.cpu_ns.cmp(&a.cpu_ns);
            match by {
                Sort::Name => names(),
                _ => number(b).partial_cmp(&number(a)).unwrap_or(Ordering::Equal).then_with(cpu).then_with(names),
            }
        });
    }

    /// The sample as text of at most `lines` lines.
    pub fn text(&self, by: Sort, lines: usize) -> String {
        let sample = &self.shown;
        let part = |label: &str, value: Option<f64>| value.map(|value| format!("{label} {value:.1} %"));
        let parts = [
            part("CPU", sample.utilization),
            part("steal", sample.steal),
            part("memory pressure", sample.memory_pressure),
            Some(format!("sorted by {}", by.word())),
            Some(format!("observing {:.2} % of one CPU", self.cost_percent())),
        ];
        let mut text = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ") + "\n";
        if let Some(why) = self.activity.no_disk() {
            let _ = writeln!(text, "disk columns are not available: {why}");
        }
        let _ = writeln!(
            text,
            "{:<10}{:<22}{:>7}{:>8}{:>9}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}{:>9}",
            "kind",
            "name",
            "CPU %",
            "ready %",
            "memory",
            "majflt",
            "read/s",
            "write/s",
            "queue ms",
            "dev ms",
            "rx MB/s",
            "tx MB/s"
        );
        let heading = text.lines().count();
        for (who, used) in sample.rows.iter().take(lines.saturating_sub(heading)) {
            row(&mut text, who, used, sample.seconds);
        }
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "rounded for people")]
    fn cost_percent(&self) -> f64 {
        self.spent_ns as f64 / 1e7 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// The sample as lines of CSV: the machine's, then everybody's.
    pub fn csv(&self) -> String {
        let sample = &self.shown;
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let line = |who: [&str; 4], cells: [String; 14]| {
            let time = [sample.at_s, sample.seconds].map(|seconds| format!("{seconds:.3}"));
            csv::line(time.into_iter().chain(who.map(str::to_owned)).chain(cells))
        };
        let mut machine = [const { String::new() }; 14];
        machine[0] = number(sample.utilization);
        (machine[2], machine[3]) = (number(sample.steal), number(sample.memory_pressure));
        let mut text = line(["machine", "", "", ""], machine);
        for (who, used) in &sample.rows {
            let rate = |count: u64| Some(per_s(count, sample.seconds));
            let disk = |of: fn(&Disk) -> u64| number(used.disk.as_ref().and_then(|disk| rate(of(disk))));
            let latency = used.disk.and_then(|disk| disk.latency_ms());
            let cells = [
                number(Some(percent(used.cpu_ns, sample.seconds))),
                number(Some(percent(used.ready_ns, sample.seconds))),
                String::new(),
                String::new(),
                used.rss_bytes.to_string(),
                number(rate(used.major_faults)),
                disk(|disk| disk.reads),
                disk(|disk| disk.writes),
                disk(|disk| disk.read_bytes),
                disk(|disk| disk.write_bytes),
                number(latency.map(|(queue, _)| queue)),
                number(latency.map(|(_, device)| device)),
                number(used.network.and_then(|(to, _)| rate(to))),
                number(used.network.and_then(|(_, from)| rate(from))),
            ];
            let name = used.name.replace(char::is_control, " ");
            text.push_str(&line([word(who.kind), &who.id, &name, &used.processes.to_string()], cells));
        }
        text
    }

    /// The sample as one line of JSON.
    pub fn json(&self) -> String {
        let sample = &self.shown;
        let row = |(who, used): &(Who, Used)| {
            json!({
                "kind": word(who.kind), "id": who.id, "name": used.name, "processes": used.processes,
                "cpu_ns": used.cpu_ns, "ready_ns": used.ready_ns, "rss_bytes": used.rss_bytes,
                "major_faults": used.major_faults, "disk": used.disk.map(disk), "network": used.network.map(network),
            })
        };
        let rows: Vec<Value> = sample.rows.iter().map(row).collect();
        json!({
            "format": FORMAT, "at_s": sample.at_s, "seconds": sample.seconds, "cpu_percent": sample.utilization,
            "steal_percent": sample.steal, "memory_pressure_percent": sample.memory_pressure,
            "disk_not_available": self.activity.no_disk(), "rows": rows,
        })
        .to_string()
    }
}

fn disk(disk: Disk) -> Value {
    json!({
        "reads": disk.reads, "writes": disk.writes, "read_bytes": disk.read_bytes, "write_bytes": disk.write_bytes,
        "queue_ns": disk.queue_ns, "device_ns": disk.device_ns,
    })
}

fn network((receive, send): (u64, u64)) -> Value {
    json!({ "receive_bytes": receive, "send_bytes": send })
}

fn row(text: &mut String, who: &Who, used: &Used, seconds: f64) {
    let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rate = |of: fn(&Disk) -> u64| dash(used.disk.map(|disk| format!("{:.0}", per_s(of(&disk), seconds))));
    let latency = used.disk.and_then(|disk| disk.latency_ms());
    let network =
        |of: fn((u64, u64)) -> u64| dash(used.network.map(|both| format!("{:.2}", per_s(of(both), seconds) / 1e6)));
    let name: String = format!("{} {}", one_line(&used.name), who.id).chars().take(21).collect();
    let _ = writeln!(
        text,
        "{:<10}{name:<22}{:>7.1}{:>8.1}{:>9}{:>8.0}{:>8}{:>8}{:>9}{:>9}{:>9}{:>9}",
        word(who.kind),
        percent(used.cpu_ns, seconds),
        percent(used.ready_ns, seconds),
        format!("{:.0}M", per_s(used.rss_bytes >> 20, 1.0)),
        per_s(used.major_faults, seconds),
        rate(|disk| disk.reads),
        rate(|disk| disk.writes),
        dash(latency.map(|(queue, _)| format!("{queue:.2}"))),
        dash(latency.map(|(_, device)| format!("{device:.2}"))),
        network(|(to, _)| to),
        network(|(_, from)| from),
    );
}

/// What the keys do.
pub const HELP: &str = "\
s  sort by the next column: cpu, ready, memory, disk, latency, network, name
p  pause; p again goes on
h  this help; any key leaves it
q  end

CPU %     of one CPU                     ready %  threads that could run and had no CPU, in % of one thread's time
queue ms  mean time of an I/O from its request to the driver      dev ms  from the driver to its completion
rx, tx    of containers with a network namespace of their own; `-` is not measured
co-stop   is not shown: KVM schedules each vCPU alone and never stops one for another, so that its waits are all in ready %
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_has_a_line_feed_has_one_line() {
        let who = Who { kind: Kind::Process, id: "7".to_owned() };
        let used = Used { name: "a\nprocess   b".to_owned(), ..Used::default() };
        let mut text = String::new();
        row(&mut text, &who, &used, 1.0);
        assert!(text.lines().count() == 1 && text.contains("a\\u{a}process"), "{text}");
    }

    #[test]
    fn a_line_of_csv_has_the_headings_columns_and_names_break_none() {
        let who = Who { kind: Kind::Process, id: "7".to_owned() };
        let used = Used { name: "a,\"b\"".to_owned(), disk: Some(Disk::default()), ..Used::default() };
        let mut rows = Rows::start(Nanos(1_000_000_000));
        rows.shown.rows = vec![(who, used)];
        rows.shown.seconds = 1.0;
        let text = rows.csv();
        let columns = HEADING.split(',').count();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split(',').count(), columns);
        assert!(lines[1].contains("process,7,\"a,\"\"b\"\"\",0,0.000,"), "{}", lines[1]);
        assert_eq!(lines[1].replace("\"a,\"\"b\"\"\"", "name").split(',').count(), columns);
    }

    #[test]
    fn rows_are_sorted_by_what_is_chosen_and_every_key_is_reached() {
        let of = |name: &str, cpu_ns: u64, rss_bytes: u64| {
            let used = Used { name: name.to_owned(), cpu_ns, rss_bytes, ..Used::default() };
            (Who { kind: Kind::Process, id: name.to_owned() }, used)
        };
        let mut rows = Rows::start(Nanos(1_000_000_000));
        rows.shown.rows = vec![of("b", 5, 1), of("a", 1, 9), of("c", 7, 3)];
        let mut order = |by: Sort| {
            rows.sort(by);
            rows.shown.rows.iter().map(|(_, used)| used.name.clone()).collect::<String>()
        };
        assert_eq!(
            (order(Sort::Cpu), order(Sort::Memory), order(Sort::Name)),
            ("cba".into(), "acb".into(), "abc".into())
        );
        let mut sort = Sort::Cpu;
        for _ in 0..SORTS.len() {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Cpu);
    }
}

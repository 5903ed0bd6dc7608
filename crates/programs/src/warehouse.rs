//! `jvm-warehouse`: in-memory warehouse transactions in Java, with page size, heap and collector as factors.
//!
//! The program is one file of our own, compiled at the site before it is measured. Throughput is its own count over its
//! own clock; pauses are those of the collector's log inside the measured time. Stock and money of every warehouse must
//! add up, and the pages must be those that were requested.

use crate::command::missing;
use crate::run_folder::{Stage, Written};
use crate::workshop::search_path;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::TIMEOUT;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy, size_of};
use baremark_model::hdr;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_model::units::{Bytes, Nanos};
use baremark_model::wire::Point;
use baremark_stats::percentile::sample_floor;
use regex_lite::Regex;
use serde::Deserialize;
use std::time::Duration;

const SOURCE: &str = include_str!("Warehouse.java");
/// Of the heap, in huge pages, from which on it counts as made of them; below the other end it counts as not.
const MOSTLY: f64 = 0.5;
const HARDLY: f64 = 0.05;

const WAREHOUSES: Knob =
    Knob::new("warehouses", Kind::Count { min: 1, max: 1024 }, Default::Derived("one for each CPU"))
        .help("warehouses, one thread each");
const HEAP: Knob = Knob::new("heap", Kind::Size { min: 64 << 20, max: 1 << 42 }, Default::Typed("1 GiB"))
    .help("the heap's size, least and most");
const PAGES: Knob = Knob::new("heap_pages", Kind::Choice(&["4k", "thp", "2m"]), Default::Typed("4k"))
    .help("page size of the heap: 4 KiB pages, transparent huge pages, or reserved 2 MiB pages");
const COLLECTOR: Knob =
    Knob::new("gc", Kind::Choice(&["parallel", "g1", "serial", "z"]), Default::Typed("parallel")).help("the collector");
const WARM: Knob = Knob::new("warm_up", Kind::Time { min: 0, max: 3_600_000_000_000 }, Default::Typed("5 s"))
    .help("how long it runs before it is measured, so that it is compiled");
const TIME: Knob =
    Knob::new("duration", Kind::Time { min: 100_000_000, max: 3_600_000_000_000 }, Default::Typed("10 s"))
        .help("how long it is measured");

static METRICS: [Metric; 7] = [
    Metric::higher("transactions_per_s", "transactions/s", Aggregate::Sum)
        .help("transactions of all warehouses / seconds, pauses included"),
    Metric::lower("pause_p50_ms", "ms", Aggregate::Mean)
        .help("stops of the collector inside the measured time, median"),
    Metric::lower("pause_p95_ms", "ms", Aggregate::Most).help("the same, 95th percentile; absent below 72 pauses"),
    Metric::lower("pause_p99_ms", "ms", Aggregate::Most).help("the same, 99th percentile; absent below 368 pauses"),
    Metric::lower("pause_longest_ms", "ms", Aggregate::Most).help("the longest of them"),
    Metric::lower("pause_share", "%", Aggregate::Mean)
        .help("share of the measured time that the collector stopped the program"),
    Metric::lower("pauses", "pauses", Aggregate::Sum).help("how often it did"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "jvm-warehouse",
    help: "in-memory warehouse transactions in Java",
    source: "this program, after the idea of SPECjbb2005 and not comparable to it",
    parameters: &[TIMEOUT, WAREHOUSES, HEAP, PAGES, COLLECTOR, WARM, TIME],
    metrics: &METRICS,
    footprint: Some(Footprint { key: "heap", bytes: |arm| size_of(arm, "heap"), held: HeldBy::Workload }),
    alternates: |_| true,
    quick: &[("heap", "256 MiB"), ("warm_up", "200 ms"), ("duration", "500 ms")],
    check: |arm| Settings::of(arm).map(drop),
    ..Descriptor::JOB
};

/// Warehouse transactions in Java.
#[derive(Clone, Copy, Debug)]
pub struct JvmWarehouse;

impl Job for JvmWarehouse {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        for program in ["java", "javac"] {
            missing(program, "default-jdk-headless", &search_path())?;
        }
        let settings = Settings::of(arm)?;
        if settings.pages == "2m" {
            reserved(settings.heap.0)?;
        }
        Ok(Box::new(PreparedWarehouse { arm, around, settings, written: Written::NOTHING }))
    }
}

/// What Java takes of reserved pages alongside a heap and its tables: room for code, 240 MiB unless told otherwise, and some more.
const BESIDE_HEAP: u64 = 272 << 20;

/// Refuses a heap for which the site has not reserved huge pages: Java would quietly take small ones.
fn reserved(heap_bytes: u64) -> Result<(), JobError> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse::<u64>().ok());
    let free = free.unwrap_or(0);
    let needed = (heap_bytes + heap_bytes / 16 + BESIDE_HEAP).div_ceil(2 << 20);
    if free >= needed {
        return Ok(());
    }
    let what = format!(
        "a heap of {heap_bytes} bytes in 2m pages, with Java's other memory, takes {needed} of them, and {free} are free \
         at the site"
    );
    let remedy = format!("reserve them: write {needed} into /proc/sys/vm/nr_hugepages");
    Err(JobError::Missing { what, remedy })
}

/// What an arm asks for.
struct Settings {
    /// `None` for one for each CPU.
    warehouses: Option<u64>,
    heap: Bytes,
    pages: String,
    collector: String,
    warm: Duration,
    time: Duration,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        Ok(Settings {
            warehouses: WAREHOUSES.find(arm)?,
            heap: HEAP.get(arm)?,
            pages: PAGES.get(arm)?,
            collector: COLLECTOR.get(arm)?,
            warm: WARM.get(arm)?,
            time: TIME.get(arm)?,
        })
    }
}

struct PreparedWarehouse<'s> {
    arm: &'s ResolvedArm,
    around: JobContext<'s>,
    settings: Settings,
    written: Written,
}

/// What the program says at its end.
#[derive(Deserialize)]
struct Said {
    transactions: u64,
    seconds: f64,
    from_ms: u64,
    to_ms: u64,
    huge_bytes: u64,
    heap_bytes: u64,
}

impl ReadyJob for PreparedWarehouse<'_> {
    fn rest(&mut self) -> Result<(), JobError> {
        self.written.sync()
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let mut stage = Stage::open(self.arm, self.around)?;
        self.written.note(&stage);
        stage.workshop.put("Warehouse.java", SOURCE.as_bytes())?;
        stage.run(&["javac", "-d", ".", "Warehouse.java"])?;
        let argv = self.argv(stage.cpus());
        let outcome = stage.run(&argv)?;
        let last = outcome.stdout.text.lines().last().unwrap_or_default();
        let said: Said = serde_json::from_str(last)
            .map_err(|why| JobError::failed(format!("the program's last line is not valid ({why}): {last}")))?;
        self.pages(&said, &outcome.stdout.text)?;
        let log = stage.read("gc.log")?;
        let pauses = pauses(&log, said.from_ms, said.to_ms);
        let checked = format!("{} transactions; stock and money of every warehouse add up", said.transactions);
        let points = vec![distribution(&said, &pauses)];
        Ok(JobRun { samples: samples(&said, &pauses), checked, points, ..JobRun::default() })
    }
}

impl PreparedWarehouse<'_> {
    fn argv(&self, cpus: usize) -> Vec<String> {
        let Settings { warehouses, heap, pages, collector, warm, time } = &self.settings;
        let heap_kib = heap.0 / 1024;
        let collector = match collector.as_str() {
            "g1" => "-XX:+UseG1GC",
            "serial" => "-XX:+UseSerialGC",
            "z" => "-XX:+UseZGC",
            _ => "-XX:+UseParallelGC",
        };
        let pages: &[&str] = match pages.as_str() {
            // Transparent ones are large ones to Java: it takes neither kind where the other is refused by name.
            "thp" => &["-XX:+UseLargePages", "-XX:+UseTransparentHugePages"],
            "2m" => &["-XX:+UseLargePages", "-XX:LargePageSizeInBytes=2m"],
            _ => &["-XX:-UseLargePages", "-XX:-UseTransparentHugePages"],
        };
        let mut argv = vec!["java".to_owned(), format!("-Xms{heap_kib}k"), format!("-Xmx{heap_kib}k")];
        argv.extend([collector, "-XX:+AlwaysPreTouch", "-Xlog:gc*=info:file=gc.log:uptimemillis"].map(str::to_owned));
        argv.extend(pages.iter().map(|&flag| flag.to_owned()));
        let warehouses = warehouses.unwrap_or(cpus as u64);
        let seed = self.around.seed % (1 << 31);
        argv.extend(["-cp", ".", "Warehouse", &warehouses.to_string(), &seed.to_string()].map(str::to_owned));
        argv.extend([warm, time].map(|time| time.as_secs_f64().to_string()));
        argv
    }

    /// Refuses a run whose heap is not made of the pages that were requested.
    fn pages(&self, said: &Said, output: &str) -> Result<(), JobError> {
        #[expect(clippy::cast_precision_loss, reason = "bytes of a heap")]
        let share = said.huge_bytes as f64 / (said.heap_bytes.max(1)) as f64;
        let asked = self.settings.pages.as_str();
        let wrong = |what: String, remedy: &str| Err(JobError::Missing { what, remedy: remedy.to_owned() });
        let found = format!("{:.0} % of the heap is in huge pages", 100.0 * share);
        match asked {
            "2m" if output.contains("large pages") || share < MOSTLY => {
                let remedy = "reserve huge pages for the heap and a little more in /proc/sys/vm/nr_hugepages";
                wrong(format!("2m pages were requested and {found}"), remedy)
            }
            "thp" if share < MOSTLY => {
                let remedy = "set /sys/kernel/mm/transparent_hugepage/enabled to madvise or always";
                wrong(format!("transparent huge pages were requested and {found}"), remedy)
            }
            "4k" if share > HARDLY => {
                let remedy = "set /sys/kernel/mm/transparent_hugepage/enabled to madvise or never";
                wrong(format!("4k pages were requested and {found}"), remedy)
            }
            _ => Ok(()),
        }
    }
}

/// Pauses in a collector's log between two moments of its own clock, in milliseconds.
fn pauses(log: &str, from_ms: u64, to_ms: u64) -> Vec<f64> {
    let Ok(pause) = Regex::new(r"^\[(\d+)ms\].*\bPause\b.* (\d+(?:\.\d+)?)ms$") else { return Vec::new() };
    let of_line = |line: &str| {
        let found = pause.captures(line)?;
        let at: u64 = found.get(1)?.as_str().parse().ok()?;
        let ms: f64 = found.get(2)?.as_str().parse().ok()?;
        (from_ms..=to_ms).contains(&at).then_some(ms)
    };
    log.lines().filter_map(of_line).collect()
}

/// The pauses over the measured time; without a histogram where there were none.
fn distribution(said: &Said, pauses: &[f64]) -> Point {
    let whole = (0, Nanos::from(Duration::from_secs_f64(said.seconds)).0);
    let counts = pauses.iter().map(|ms| (Nanos::from(Duration::from_secs_f64(ms / 1e3)).0, 1)).collect();
    Point::new("all", whole, Vec::new(), hdr::encoded(&counts)).of(&["pause_ms"])
}

fn samples(said: &Said, pauses: &[f64]) -> Vec<Sample> {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    let (transactions, count) = (said.transactions as f64, pauses.len() as f64);
    let mut sorted = pauses.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut samples = vec![
        Sample::new("transactions_per_s", transactions / said.seconds),
        Sample::new("pauses", count),
        Sample::new("pause_share", 100.0 * sorted.iter().sum::<f64>() / 1e3 / said.seconds),
    ];
    if let Some(longest) = sorted.last() {
        samples.push(Sample::new("pause_longest_ms", *longest));
        samples.push(Sample::new("pause_p50_ms", nearest_rank(&sorted, 50)));
    }
    for (metric, percent) in [("pause_p95_ms", 95_u8), ("pause_p99_ms", 99)] {
        if sample_floor(f64::from(percent) / 100.0, 0.95).is_some_and(|floor| sorted.len() as u64 >= floor) {
            samples.push(Sample::new(metric, nearest_rank(&sorted, percent)));
        }
    }
    samples
}

/// The least value that so many percent of all are at most; there must be one.
fn nearest_rank(sorted: &[f64], percent: u8) -> f64 {
    sorted[(sorted.len() * usize::from(percent)).div_ceil(100) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::percentile::Percentile;

    #[test]
    fn percentiles_are_told_where_there_are_pauses_enough() {
        let said = Said { transactions: 10, seconds: 2.0, from_ms: 0, to_ms: 0, huge_bytes: 0, heap_bytes: 1 };
        let told = |count: u32| {
            let pauses: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let of = |metric: &str| samples(&said, &pauses).into_iter().find(|sample| sample.metric == metric);
            ["pause_p50_ms", "pause_p95_ms", "pause_p99_ms"].map(|metric| of(metric).map(|sample| sample.value))
        };
        assert_eq!(told(0), [None; 3]);
        assert_eq!(told(71), [Some(36.0), None, None]);
        assert_eq!(told(100), [Some(50.0), Some(95.0), None]);
        assert_eq!(told(400), [Some(200.0), Some(380.0), Some(396.0)]);
    }

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn every_percentile_has_its_distribution() {
        let said = Said { transactions: 10, seconds: 2.0, from_ms: 0, to_ms: 0, huge_bytes: 0, heap_bytes: 1 };
        let point = distribution(&said, &[1.5, 12.25, 2.0]);
        let percentiles = || METRICS.iter().filter_map(|metric| Percentile::of_key(metric.key));
        assert_eq!(percentiles().count(), 3);
        assert!(percentiles().all(|percentile| point.distributions == [percentile.of.as_str()]));
        let read = hdr::decoded(&point.histogram.expect("three pauses")).expect("as written");
        assert_eq!((read.count(), read.value_at(1.0).map(|ns| ns / 100_000)), (3, Some(122)));
        let none = distribution(&said, &[]);
        assert!(none.histogram.is_none() && none.distributions.len() == 1);
    }

    #[test]
    fn pauses_are_those_of_the_measured_time() {
        let log = "[900ms] GC(0) Pause Young (Allocation Failure) 62M->1M(241M) 1.500ms\n\
                   [1000ms] GC(1) Pause Young (Allocation Failure) 63M->1M(241M) 2.000ms\n\
                   [1500ms] GC(1) User=0.00s Sys=0.00s Real=0.00s\n\
                   [1999ms] GC(2) Pause Full (Ergonomics) 63M->1M(241M) 12.250ms\n\
                   [2500ms] GC(3) Pause Young 63M->1M(241M) 9.000ms\n";
        assert_eq!(pauses(log, 1000, 2000), [2.0, 12.25]);
    }
}

//! Percentiles of several trials are those of their samples together; of trials that were stored without distributions, means of the
//! trials' own.

use crate::conduct::WORKLOAD;
use crate::played::{Memory, plan, result, run};
use baremark_lab::analysis::document;
use baremark_lab::comparison::{Chosen, Request, compare};
use baremark_lab::schedule;
use baremark_lab::trials::Finished;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::{Document, EstimateRow};
use baremark_model::event::TrialStatus;
use baremark_model::hdr;
use baremark_model::histogram::Histogram;
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::plan::{Cell, Plan};
use baremark_model::seam::Sample;
use baremark_model::wire::{MemberRecord, Point, TrialSpec};

static METRICS: [Metric; 3] = [
    metric("latency_p50_us"),
    metric("latency_p99_us"),
    Metric { key: "gups", unit: "GUP/s", better: Better::Higher, together: Aggregate::Sum, help: "played" },
];

const fn metric(key: &'static str) -> Metric {
    Metric { key, unit: "us", better: Better::Lower, together: Aggregate::Most, help: "played" }
}

static LATENCIES: Descriptor = Descriptor { metrics: &METRICS, ..WORKLOAD };

/// Latencies of a phase, evenly spread up to `longest_us`.
fn latencies(count: u64, longest_us: u64) -> Histogram {
    (1..=count).map(|at| (at * longest_us * 1000 / count, 1)).collect()
}

/// Trials of native alone, with so many phases of such latencies each; `stored` says whether they have distributions.
fn trials(plan: &Plan, phases: &[&[(u64, u64)]], stored: impl Fn(usize) -> bool) -> Vec<Finished> {
    let trial = |(at, phases): (usize, &&[(u64, u64)])| {
        let spec = TrialSpec { schedule: vec![0; phases.len()], ..schedule::trial(plan, at as u64, 0) };
        let mut result = result(&spec, &[1.0]);
        for (phase, (count, longest_us)) in result.series.iter_mut().zip(*phases) {
            let all = latencies(*count, *longest_us);
            for (metric, share) in [("latency_p50_us", 0.5), ("latency_p99_us", 0.99)] {
                phase.samples.push(Sample::new(metric, all.value_at(share).unwrap() as f64 / 1e3));
            }
            // In two parts, as operations are.
            let half = |from: usize| -> Histogram { all.counts().iter().copied().skip(from).step_by(2).collect() };
            let point = |from| Point::new("an operation", (0, 1), Vec::new(), hdr::encoded(&half(from)));
            let nothing = Point::new("another", (0, 1), Vec::new(), None).of(&["latency_us"]);
            phase.points =
                [point(0), point(1)].map(|point| if stored(at) { point.of(&["latency_us"]) } else { point }).to_vec();
            phase.points.push(nothing);
        }
        let (block, place) = (at as u64, at as u64);
        Finished {
            block,
            cell: 0,
            place,
            spec,
            status: TrialStatus::Ok,
            result: Some(result),
            elapsed_ns: 1,
            percentiles: Default::default(),
        }
    };
    phases.iter().enumerate().map(trial).collect()
}

fn alone() -> Plan {
    let mut plan = plan("container");
    plan.arms.truncate(1);
    (plan.pairs, plan.cells) = (Vec::new(), vec![Cell::Single(0)]);
    plan.metric = "latency_p99_us".to_owned();
    plan
}

fn found(trials: Vec<Finished>) -> Document {
    document(&run(&alone(), &Memory { trials, ..Memory::default() }), &[&LATENCIES])
}

fn row<'d>(document: &'d Document, metric: &str) -> &'d EstimateRow {
    document.estimates.iter().find(|row| row.metric == metric).unwrap()
}

/// Five quick trials of 1,000 requests and a slow one of 5,000: half of all requests are of the slow one.
const UNEQUAL: [&[(u64, u64)]; 6] =
    [&[(1000, 1000)], &[(1000, 1000)], &[(500, 1000), (500, 1000)], &[(1000, 1000)], &[(1000, 1000)], &[(5000, 9000)]];

#[test]
fn percentiles_are_of_the_requests_of_all_trials() {
    let document = found(trials(&alone(), &UNEQUAL, |_| true));
    let all: Histogram =
        Histogram::merged(&UNEQUAL.concat().iter().map(|(n, us)| latencies(*n, *us)).collect::<Vec<_>>());
    for (metric, share) in [("latency_p50_us", 0.5), ("latency_p99_us", 0.99)] {
        let (row, direct) = (row(&document, metric), all.value_at(share).unwrap() as f64 / 1e3);
        assert!((row.estimate / direct - 1.0).abs() < 0.002, "{metric}: {} for {direct}", row.estimate);
        assert_eq!((row.n, row.samples, row.over.as_deref()), (6, Some(10_000), None));
        assert!(row.lo.unwrap() < row.estimate && row.estimate < row.hi.unwrap(), "{row:?}");
    }
    assert!((row(&document, "latency_p99_us").median.unwrap() / 990.0 - 1.0).abs() < 0.002, "of the trials");
    let own = |trial: usize| {
        document.trials[trial].arms[0].medians.iter().find(|of| of.metric == "latency_p99_us").unwrap().value
    };
    assert!(
        (own(2) / 990.0 - 1.0).abs() < 0.002 && own(5) > 8000.0,
        "of two phases, and of one: {} {}",
        own(2),
        own(5)
    );
    let gups = row(&document, "gups");
    assert_eq!((gups.samples, gups.median), (None, None));
}

#[test]
fn without_every_distribution_percentiles_are_means_of_the_trials_own() {
    for document in [found(trials(&alone(), &UNEQUAL, |_| false)), found(trials(&alone(), &UNEQUAL, |at| at != 3))] {
        let row = row(&document, "latency_p99_us");
        assert_eq!((row.samples, row.median), (None, None));
        assert!(row.estimate > 900.0 && row.estimate < 2000.0, "about the quick trials: {row:?}");
    }
    // The percentile of an ensemble is that of a member, by the metric's rule.
    let mut ensembles = trials(&alone(), &UNEQUAL, |_| true);
    for phase in ensembles.iter_mut().flat_map(|trial| &mut trial.result.as_mut().unwrap().series) {
        phase.members = vec![MemberRecord { member: 0, samples: phase.samples.clone() }];
    }
    assert_eq!(row(&found(ensembles), "latency_p99_us").samples, None);
}

/// Runs are compared by the percentiles that their reports show.
#[test]
fn a_comparison_of_runs_has_the_percentiles_of_their_reports() {
    let side = |name: &str, longest_us: u64| {
        let documents = (0..3).map(|at| {
            let phases: Vec<Vec<(u64, u64)>> = UNEQUAL
                .iter()
                .map(|phases| phases.iter().map(|(n, us)| (*n, us * longest_us / 1000 + at)).collect())
                .collect();
            let phases: Vec<&[(u64, u64)]> = phases.iter().map(Vec::as_slice).collect();
            let mut document = found(trials(&alone(), &phases, |_| true));
            document.run.id = format!("{name}-{at}");
            document
        });
        Chosen { documents: documents.collect(), levels: Default::default() }
    };
    let (base, other) = (side("base", 1000), side("other", 1500));
    let compared = compare(&base, &other, &Request::default()).unwrap();
    let shown = |side: &Chosen| {
        let all: Vec<f64> = side.documents.iter().map(|of| row(of, "latency_p99_us").estimate.ln()).collect();
        (all.iter().sum::<f64>() / 3.0).exp()
    };
    let [found] = compared.rows.as_slice() else { panic!("{:?}", compared.rows) };
    assert!((found.base_value.unwrap() / shown(&base) - 1.0).abs() < 1e-9, "{found:?}");
    assert!((found.other_value.unwrap() / shown(&other) - 1.0).abs() < 1e-9, "{found:?}");
    assert!((found.ratio.unwrap() - 1.5).abs() < 0.02, "{found:?}");
}

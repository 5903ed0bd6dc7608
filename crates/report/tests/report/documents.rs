//! Documents to report on. The numbers are made up after the published small-page and large-page cells.

use baremark_model::codes::{Cause, Decision};
use baremark_model::command::EXIT_SHARE;
use baremark_model::document::*;
use baremark_model::event::TrialStatus;
use baremark_model::machine::MachineFacts;
use baremark_model::metric::Better;
use baremark_model::plan::{Absent, Contrast, Mode, PlannedWorkload, Treatment};
use baremark_model::seam::Sample;
use baremark_model::study::Design;
use baremark_model::units::{Nanos, Share};
use std::collections::BTreeMap;

pub fn treatment(levels: &[(&str, &str)]) -> Treatment {
    levels.iter().map(|(key, label)| ((*key).to_owned(), (*label).to_owned())).collect()
}

pub fn arm(environment: &str, page: &str) -> Treatment {
    treatment(&[("environment", environment), ("page", page)])
}

pub fn estimate(metric: &str, treatment: &Treatment, value: f64, half: f64) -> EstimateRow {
    let (unit, better) = match metric {
        "gups" => ("GUP/s", Better::Higher),
        "triad" => ("MB/s", Better::Higher),
        "gbit_per_s" => ("Gbit/s", Better::Higher),
        "gbit_per_cpu" => ("Gbit/s", Better::Higher),
        _ => ("ns", Better::Lower),
    };
    EstimateRow {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        better,
        treatment: treatment.clone(),
        n: 20,
        estimate: value,
        lo: Some(value - half),
        hi: Some(value + half),
        over: None,
        samples: None,
        median: None,
        mean: None,
        sd: None,
    }
}

pub fn ratio(above: &Treatment, below: &Treatment, [ratio, lo, hi]: [f64; 3]) -> RatioRow {
    let same_page = above.get("page") == below.get("page");
    let (small, large) =
        ((1.0 - lo).abs().min((hi - 1.0).abs()) * 100.0, (1.0 - lo).abs().max((hi - 1.0).abs()) * 100.0);
    let (slower, faster) = (hi < 1.0, lo > 1.0);
    let (outcome, words, size) = match () {
        () if lo >= 1.0 / 1.02 && hi <= 1.02 => {
            (Outcome::Equivalent, "equivalent within 2 %".to_owned(), Size::Equivalent)
        }
        () if hi < 1.0 / 1.02 => {
            (Outcome::SlowerByMore, format!("slower by {small:.1} to {large:.1} %"), Size::Percent)
        }
        () if lo > 1.02 => (Outcome::FasterByMore, format!("faster by {small:.1} to {large:.1} %"), Size::Percent),
        () if slower => (Outcome::Slower, format!("slower by {small:.1} to {large:.1} %"), Size::Percent),
        () if faster => (Outcome::Faster, format!("faster by {small:.1} to {large:.1} %"), Size::Percent),
        () => {
            let words =
                format!("inconclusive: from {:.1} % slower to {:.1} % faster", (1.0 - lo) * 100.0, (hi - 1.0) * 100.0);
            (Outcome::NoLarger, words, Size::Inconclusive)
        }
    };
    let short = match size {
        Size::Equivalent => "equivalent".to_owned(),
        Size::Inconclusive => "inconclusive".to_owned(),
        _ if slower => format!("{:.1} % slower", (1.0 - ratio) * 100.0),
        _ => format!("{:.1} % faster", (ratio - 1.0) * 100.0),
    };
    RatioRow {
        metric: "gups".to_owned(),
        treatment: above.clone(),
        relative_to: below.clone(),
        contrast: match (above == below, same_page) {
            (true, _) => Contrast::SelfCheck,
            (_, true) => Contrast::Environment,
            (_, false) => Contrast::PageSize,
        },
        blocks: 20,
        ratio: Some(ratio),
        lo: Some(lo),
        hi: Some(hi),
        confidence: 0.95,
        outcome,
        words,
        size,
        short,
        more_blocks: (outcome == Outcome::NoLarger).then_some(34),
        emulated: false,
        independence_assumed: true,
        correlated: false,
        sensitivity: Vec::new(),
    }
}

pub fn check(name: &str, blocks: usize, ratio: f64, flips: bool) -> SensitivityRow {
    SensitivityRow { name: name.to_owned(), blocks, ratio, flips }
}

pub fn trial(block: u64, cell: usize, arms: &[(&Treatment, f64)], status: TrialStatus) -> TrialRow {
    // Noise that is the same in every run, so that plots have something to show.
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let wobble = |k: u64| {
        let mut mixed = (block * 64 + k * 8 + cell as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1.0 + 0.03 * ((mixed >> 40) as f64 / (1_u64 << 24) as f64 - 0.5)
    };
    let arms = (0..)
        .zip(arms)
        .map(|(k, (treatment, value))| {
            let median = value * wobble(k);
            TrialArm {
                treatment: (*treatment).clone(),
                medians: vec![Sample::new("gups", median)],
                phases: (0..4).map(|phase| value * wobble(k + phase)).collect(),
                counters: BTreeMap::new(),
                mmu: None,
                translation: None,
                placed: None,
                members: Vec::new(),
            }
        })
        .collect();
    TrialRow {
        block,
        cell,
        status,
        arms,
        schedule: vec![0, 1, 1, 0],
        discarded: Vec::new(),
        verified: None,
        flags: Vec::new(),
        elapsed_ns: 2_100_000_000,
        observed_s: None,
    }
}

fn factors(list: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    list.iter().map(|(key, levels)| ((*key).to_owned(), levels.iter().map(|&l| l.to_owned()).collect())).collect()
}

pub fn head() -> RunHead {
    RunHead {
        id: "20251121-0335-3fa9".to_owned(),
        study: "StarRandomAccess: native against virtual, small and large pages".to_owned(),
        file: "studies/star-random-access.toml".to_owned(),
        workload: "random-access".to_owned(),
        workloads: Vec::new(),
        metric: "gups".to_owned(),
        published: Some("hpc-memory-2010/star-random-access".to_owned()),
        native_means: "this virtual machine".to_owned(),
        rows: Some("page".to_owned()),
        columns: "environment".to_owned(),
        factors: factors(&[
            ("environment", &["native", "microvm"]),
            ("page", &["4k", "2m"]),
            ("host_backing", &["2m"]),
        ]),
        parameters: BTreeMap::from([("table".to_owned(), "1 GiB".to_owned()), ("ranks".to_owned(), "2".to_owned())]),
        capabilities: BTreeMap::new(),
        environments: Vec::new(),
        machine: serde_json::from_value(serde_json::json!({
            "cpu": { "model_name": "AMD EPYC", "logical_cpus": 2, "sockets": 1 },
            "memory": { "total_bytes": 25_276_502_016_u64 },
            "kernel": { "release": "6.1.0-28-amd64" },
            "virtualization": { "hypervisor": true, "hypervisor_vendor": "KVMKVMKVM" },
        }))
        .expect("facts of a machine"),
        version: "0.1.0".to_owned(),
        design: Design {
            precision: Share(0.01),
            delta: Share(0.02),
            budget: Nanos(180_000_000_000),
            phase: Nanos(100_000_000),
            quads: 2,
            least_blocks: 10,
            most_blocks: 200,
            seed: 1,
        },
        mode: Mode::default(),
        duet: None,
        extensions: Vec::new(),
        started: "2025-11-21T03:35:57Z".to_owned(),
        ended: Some("2025-11-21T03:37:41Z".to_owned()),
        stop_reason: Some("every ratio is within ±1 %, and a confirmation batch of 5 blocks agreed".to_owned()),
        blocks: None,
    }
}

pub fn empty() -> Document {
    Document::new(head())
}

/// Two pages by two environments, everything decided.
pub fn typical() -> Document {
    let [n4, n2] = ["4k", "2m"].map(|page| arm("native", page));
    let [v4, v2] = [&n4, &n2].map(|native| {
        let mut virtual_one = native.clone();
        virtual_one.insert("environment".to_owned(), "microvm".to_owned());
        virtual_one.insert("host_backing".to_owned(), "2m".to_owned());
        virtual_one
    });
    let mut document = empty();
    document.estimates = vec![
        estimate("gups", &n4, 0.018_42, 0.000_12),
        estimate("gups", &v4, 0.015_61, 0.000_15),
        estimate("gups", &n2, 0.039_56, 0.000_31),
        estimate("gups", &v2, 0.039_31, 0.000_28),
    ];
    document.ratios = vec![ratio(&v4, &n4, [0.8475, 0.8401, 0.8550]), ratio(&v2, &n2, [0.9938, 0.9881, 0.9995])];
    for row in &mut document.ratios {
        row.sensitivity = vec![
            check("without flagged trials", 18, row.ratio.unwrap_or(1.0) + 0.0011, false),
            check("trials that began with the other arm", 9, row.ratio.unwrap_or(1.0) - 0.0022, false),
            check("trials that began with the reference", 11, row.ratio.unwrap_or(1.0) + 0.0004, false),
        ];
    }
    for block in 0..20 {
        document.trials.push(trial(block, 0, &[(&n4, 0.018_42), (&v4, 0.015_61)], TrialStatus::Ok));
        document.trials.push(trial(block, 1, &[(&n2, 0.039_56), (&v2, 0.039_31)], TrialStatus::Ok));
    }
    document.looks = vec![
        LookRow {
            blocks: 10,
            half_width: Some(0.0121),
            correlated: false,
            decision: "continue: ±1.2 % is wider than ±1 %".to_owned(),
            step: Some(Decision::Continue),
        },
        LookRow {
            blocks: 15,
            half_width: Some(0.0093),
            correlated: false,
            decision: "confirm: ±1 % is met".to_owned(),
            step: Some(Decision::Confirm),
        },
        LookRow {
            blocks: 20,
            half_width: Some(0.0088),
            correlated: false,
            decision: "stop: confirmed".to_owned(),
            step: Some(Decision::Stop),
        },
    ];
    let counted = |page: &str, value: f64, advice: &str| ExplanationRow {
        treatment: arm("microvm", page),
        cause: Some(Cause::Hypervisor),
        what: "VM exits in timed phases".to_owned(),
        unit: "/s per rank".to_owned(),
        value,
        lo: value - 16.3,
        hi: value + 16.3,
        advice: advice.to_owned(),
    };
    let once = "less than the 2 % that matter";
    document.explanations = vec![counted("4k", 517.3, once), counted("2m", 498.1, once)];
    document
}

/// As typical, but large pages have a bound alone and the machine is bare.
pub fn bounded() -> Document {
    let mut document = typical();
    document.run.native_means = "bare metal".to_owned();
    document.run.stop_reason = Some("the budget of 3 min is spent".to_owned());
    let row = &mut document.ratios[1];
    *row = RatioRow {
        sensitivity: row.sensitivity.clone(),
        ..ratio(&row.treatment, &row.relative_to, [0.987, 0.968, 1.007])
    };
    document
}

/// Every treatment against itself; the second finds a difference where there is none.
pub fn self_check() -> Document {
    let mut document = typical();
    document.run.mode = Mode { quick: true, self_check: true };
    let own: Vec<Treatment> = document.estimates.iter().map(|row| row.treatment.clone()).collect();
    let found =
        [[1.0004, 0.9968, 1.0041], [1.0011, 0.9949, 1.0073], [0.9989, 0.9957, 1.0021], [0.9871, 0.9812, 0.9930]];
    document.ratios = own.iter().zip(found).map(|(own, found)| ratio(own, own, found)).collect();
    document
}

/// A machine that cannot run the microVM.
pub fn absent() -> Document {
    let mut document = typical();
    document.ratios.clear();
    let gone = document.estimates.extract_if(.., |row| row.treatment["environment"] == "microvm");
    let reason =
        "/dev/kvm cannot be opened (Permission denied): add the user to the group kvm, or run as root".to_owned();
    document.absent = gone.map(|row| Absent { treatment: row.treatment, reason: reason.clone(), code: None }).collect();
    for trial in &mut document.trials {
        trial.arms.truncate(1);
    }
    document
}

/// A prediction of a treatment in the microVM, over native with the same page.
fn prediction(page: &str, [ratio, lo, hi]: [f64; 3], measured: bool, disagrees: bool) -> PredictionRow {
    let mut treatment = arm("microvm", page);
    treatment.insert("host_backing".to_owned(), "2m".to_owned());
    PredictionRow {
        metric: "gups".to_owned(),
        treatment,
        relative_to: arm("native", page),
        scheme: format!("nested, guest {page} on host 2m"),
        processor: "AMD EPYC 9004 (Zen 4)".to_owned(),
        ratio,
        lo,
        hi,
        measured,
        disagrees,
    }
}

/// As typical, alongside predictions: one agrees, one does not.
pub fn predicted() -> Document {
    let mut document = typical();
    document.predictions =
        vec![prediction("4k", [0.846, 0.778, 0.885], true, false), prediction("2m", [0.85, 0.82, 0.88], true, true)];
    document
}

/// A machine that cannot run the microVM, with predictions in its place.
pub fn filled() -> Document {
    let mut document = absent();
    document.predictions = vec![
        prediction("4k", [0.846, 0.778, 0.885], false, false),
        prediction("2m", [0.974, 0.953, 0.995], false, false),
    ];
    document
}

/// Ratios to native with small pages: contrasts of page sizes alongside a cost of virtualization.
pub fn page_sizes() -> Document {
    let mut document = typical();
    let base = arm("native", "4k");
    let others: Vec<Treatment> = document.estimates.iter().map(|row| row.treatment.clone()).collect();
    let found = [[0.8475, 0.8401, 0.8550], [2.1476, 2.1312, 2.1641], [2.1340, 2.1201, 2.1480]];
    document.ratios = others[1..].iter().zip(found).map(|(other, found)| ratio(other, &base, found)).collect();
    for row in &mut document.ratios {
        row.confidence = 0.983;
    }
    document
}

/// Flags, void and failed trials, and an outcome that a check contradicts.
pub fn flagged() -> Document {
    let mut document = typical();
    let (v4, n2) = (document.estimates[1].treatment.clone(), document.estimates[2].treatment.clone());
    document.ratios[1].sensitivity[1] = check("without flagged trials", 18, 0.9771, true);
    document.ratios[0].correlated = true;
    document.flags = vec![
        FlagRow {
            treatment: Treatment::new(),
            text: "the load average was 1.7 before the run".to_owned(),
            trials: 0,
            code: None,
        },
        FlagRow {
            treatment: v4,
            text: "lost time differs between the arms by 0.61 %".to_owned(),
            trials: 3,
            code: None,
        },
        FlagRow { treatment: n2, text: "first and second halves of a phase differ".to_owned(), trials: 1, code: None },
    ];
    let moved = || vec!["the arm's memory changed during a phase: 4 MiB less in huge pages".to_owned()];
    document.trials[5].status = TrialStatus::Void { reasons: moved() };
    document.trials[9].status = TrialStatus::Void { reasons: moved() };
    document.trials[30].status =
        TrialStatus::Failed { reason: "rank 1 did not finish within 10000 ms; the machine was stopped".to_owned() };
    document.trials[30].arms.clear();
    document
}

/// A cost, in nanoseconds, over more columns than fit, with host backing as a further factor.
pub fn wide() -> Document {
    let mut document = empty();
    document.run.study = "Page walks: 日本語 and a title that is long enough to be wrapped at every width".to_owned();
    document.run.metric = "update_ns".to_owned();
    document.run.columns = "ranks".to_owned();
    document.run.rows = Some("environment".to_owned());
    document.run.factors = factors(&[
        ("environment", &["native", "microvm"]),
        ("host_backing", &["4k", "2m"]),
        ("ranks", &["1", "2", "4", "8"]),
    ]);
    for (ranks, factor) in [("1", 1.0), ("2", 1.1), ("4", 1.35), ("8", 2.4)] {
        let native = treatment(&[("environment", "native"), ("ranks", ranks)]);
        document.estimates.push(estimate("update_ns", &native, 54.3 * factor, 0.6));
        for (backing, cost) in [("4k", 1.28), ("2m", 1.18)] {
            let levels = [("environment", "microvm"), ("host_backing", backing), ("ranks", ranks)];
            let machine = treatment(&levels);
            document.estimates.push(estimate("update_ns", &machine, 54.3 * factor * cost, 0.7));
            let mut row = ratio(&machine, &native, [cost, cost - 0.011, cost + 0.011]);
            row.metric = "update_ns".to_owned();
            row.contrast = Contrast::Environment;
            row.confidence = 0.991;
            document.ratios.push(row);
        }
    }
    document
}

/// A factor other than the environment, compared with its first level.
pub fn scaling() -> Document {
    let mut document = empty();
    document.run.study = "STREAM triad by ranks".to_owned();
    document.run.workload = "stream".to_owned();
    document.run.metric = "triad".to_owned();
    document.run.columns = "ranks".to_owned();
    document.run.rows = None;
    document.run.published = None;
    document.run.machine = MachineFacts::default();
    document.run.factors = factors(&[("ranks", &["1", "2"])]);
    let (one, two) = (treatment(&[("ranks", "1")]), treatment(&[("ranks", "2")]));
    document.estimates = vec![estimate("triad", &one, 6617.0, 31.0), estimate("triad", &two, 12_505.0, 88.0)];
    let mut row = ratio(&two, &one, [1.8898, 1.8741, 1.9057]);
    row.metric = "triad".to_owned();
    row.contrast = Contrast::Factor;
    document.ratios = vec![row];
    document
}

/// One machine divided: native is not, and three guests cannot be.
pub fn divided() -> Document {
    let mut document = scaling();
    document.run.study = "The same machine as one guest or as several".to_owned();
    document.run.columns = "count".to_owned();
    document.run.factors = factors(&[("environment", &["native", "microvm"]), ("count", &["1", "2", "3"])]);
    let native = treatment(&[("environment", "native")]);
    let guests = |count| treatment(&[("environment", "microvm"), ("count", count)]);
    document.estimates = vec![estimate("triad", &native, 21_300.0, 90.0)];
    document.ratios.clear();
    for (count, share) in [("1", 0.972), ("2", 1.013)] {
        document.estimates.push(estimate("triad", &guests(count), 21_300.0 * share, 110.0));
        let mut row = ratio(&guests(count), &native, [share, share - 0.006, share + 0.006]);
        row.metric = "triad".to_owned();
        row.contrast = Contrast::Environment;
        document.ratios.push(row);
    }
    let reason = "3 members cannot share 4 ranks evenly".to_owned();
    document.absent = vec![Absent { treatment: guests("3"), reason, code: None }];
    document
}

/// Nothing came of it.
pub fn nothing() -> Document {
    let mut document = empty();
    document.run.ended = None;
    document.run.stop_reason = None;
    let failed = TrialStatus::Failed { reason: "the agent died: signal 9".to_owned() };
    let native = arm("native", "4k");
    document.trials = vec![trial(0, 0, &[(&native, 1.0)], failed)];
    document
}

/// The typical run on a hypervisor with shadow page tables, which fills one of the two published columns.
pub fn shadow() -> Document {
    let mut document = typical();
    for arm in document.trials.iter_mut().flat_map(|trial| &mut trial.arms) {
        arm.mmu = (arm.treatment["environment"] == "microvm").then(|| "shadow (PVM)".to_owned());
    }
    document
}

/// Streams over a link: cut and whole, merged and not; 16 KiB was not measured, and 64 KiB could not be.
pub fn offloads() -> Document {
    let mut document = scaling();
    document.run.study = "Network offloads: cut, merged and whole".to_owned();
    (document.run.workload, document.run.metric) = ("stream-tcp".to_owned(), "gbit_per_s".to_owned());
    document.run.published = Some("network-offloads/throughput-vm-vm".to_owned());
    (document.run.rows, document.run.columns) = (Some("message".to_owned()), "tso".to_owned());
    document.run.factors =
        factors(&[("message", &["256 B", "64 KiB"]), ("tso", &["false", "true"]), ("gro", &["false", "true"])]);
    let arm = |message, tso, gro| treatment(&[("message", message), ("tso", tso), ("gro", gro)]);
    let base = arm("256 B", "false", "false");
    (document.estimates, document.ratios) = (Vec::new(), Vec::new());
    for (tso, gro, speed, efficiency) in
        [("false", "false", 0.80, 0.62), ("false", "true", 0.95, 0.70), ("true", "false", 1.02, 0.61)]
    {
        let of = arm("256 B", tso, gro);
        for (metric, value) in [("gbit_per_s", speed), ("gbit_per_cpu", efficiency)] {
            document.estimates.push(estimate(metric, &of, value, 0.01));
            if of != base {
                let ratio_to = if metric == "gbit_per_s" { value / 0.80 } else { value / 0.62 };
                let mut row = ratio(&of, &base, [ratio_to, ratio_to - 0.02, ratio_to + 0.02]);
                (row.metric, row.contrast) = (metric.to_owned(), Contrast::Factor);
                document.ratios.push(row);
            }
        }
    }
    let reason = "this machine has no such offload".to_owned();
    document.absent = vec![Absent { treatment: arm("64 KiB", "true", "false"), reason, code: None }];
    document
}

/// A build in a guest under nested and under shadow paging, whose published gain is one of rates.
pub fn modes_of_paging() -> Document {
    let mut document = scaling();
    (document.run.workload, document.run.metric) = ("compile".to_owned(), "wall_s".to_owned());
    document.run.published = Some("mmu-assist-2009/gains".to_owned());
    (document.run.rows, document.run.columns) = (Some("ranks".to_owned()), "host.mmu".to_owned());
    document.run.factors =
        factors(&[("environment", &["qemu"]), ("host.mmu", &["nested", "shadow"]), ("ranks", &["1", "4"])]);
    let arm = |mode, ranks| treatment(&[("environment", "qemu"), ("host.mmu", mode), ("ranks", ranks)]);
    (document.estimates, document.ratios) = (Vec::new(), Vec::new());
    for (ranks, nested, shadow) in [("1", 300.0, 360.0), ("4", 100.0, 142.0)] {
        document.estimates.push(estimate("wall_s", &arm("nested", ranks), nested, 1.0));
        document.estimates.push(estimate("wall_s", &arm("shadow", ranks), shadow, 1.0));
        let value = nested / shadow;
        let row = ratio(&arm("nested", ranks), &arm("shadow", ranks), [value, value - 0.01, value + 0.01]);
        let row = RatioRow { metric: "wall_s".to_owned(), contrast: Contrast::Factor, ..row };
        document.ratios.push(row);
    }
    document
}

/// A program that takes ten times as long in the microVM, of which exits explain so many percent, give or take 2.
pub fn left_often(explained: f64) -> Document {
    let mut document = scaling();
    (document.run.workload, document.run.metric) = ("command".to_owned(), "wall_s".to_owned());
    document.run.columns = "environment".to_owned();
    document.run.factors = factors(&[("environment", &["native", "microvm"])]);
    let [native, inside] = ["native", "microvm"].map(|place| treatment(&[("environment", place)]));
    document.estimates = vec![
        estimate("wall_s", &native, 0.1, 0.001),
        estimate("wall_s", &inside, 1.0, 0.01),
        estimate(EXIT_SHARE.key, &inside, explained, 2.0),
    ];
    let row = ratio(&inside, &native, [10.0, 9.8, 10.2]);
    let outcome = Outcome::SlowerByMore;
    document.ratios = vec![RatioRow { metric: "wall_s".to_owned(), contrast: Contrast::Environment, outcome, ..row }];
    document
}

/// One program that was imported with very many values, every thousandth of which does not count.
pub fn crowd(trials: u64) -> Document {
    let only = arm("native", "4k");
    let status = |block: u64| match block % 1000 {
        999 => TrialStatus::Void { reasons: vec!["played".to_owned()] },
        _ => TrialStatus::Ok,
    };
    let rows = (0..trials).map(|block| trial(block, 0, &[(&only, 0.1)], status(block))).collect();
    let estimates = vec![estimate("gups", &only, 0.1, 0.001)];
    let run = RunHead { factors: factors(&[("environment", &["native"])]), ..head() };
    Document { run, trials: rows, estimates, ..empty() }
}

/// Threads against nothing, alongside a published pair of tables.
pub fn stream() -> Document {
    let mut document = scaling();
    document.run.published = Some("hpc-memory-2010/stream-virtual".to_owned());
    document
}

/// Two machines that divide the arrays of STREAM, and one.
pub fn ensemble() -> Document {
    let mut document = stream();
    let native = |levels: &mut Treatment| drop(levels.insert("environment".to_owned(), "native".to_owned()));
    document.estimates.iter_mut().for_each(|row| native(&mut row.treatment));
    document.ratios.iter_mut().for_each(|row| [&mut row.treatment, &mut row.relative_to].into_iter().for_each(native));
    document.run.factors.push(("environment".to_owned(), ["native", "microvm"].map(str::to_owned).to_vec()));
    let both = treatment(&[("environment", "microvm"), ("count", "2"), ("ranks", "2")]);
    document.estimates.push(EstimateRow { unit: "MB/s".to_owned(), ..estimate("triad", &both, 40_110.0, 150.0) });
    document.estimates.push(EstimateRow { unit: "MB/s".to_owned(), ..estimate("window", &both, 37_050.0, 150.0) });
    for (metric, together, values) in
        [("triad", "sum", [20_010.0, 20_100.0]), ("window", "at the same time", [19_300.0, 19_400.0])]
    {
        document.members.extend((0..).zip(values).map(|(member, value)| MemberEstimate {
            metric: metric.to_owned(),
            unit: "MB/s".to_owned(),
            together: together.to_owned(),
            treatment: both.clone(),
            member,
            n: 20,
            estimate: value,
            lo: Some(value - 100.0),
            hi: Some(value + 100.0),
        }));
    }
    document.fairness.push(FairnessRow {
        metric: "triad".to_owned(),
        treatment: both,
        members: 2,
        n: 20,
        estimate: 0.982,
        lo: Some(0.975),
        hi: Some(0.989),
    });
    document
}

/// Random access with its control and with a workload that has no ratio, in the same blocks.
pub fn several() -> Document {
    let mut document = typical();
    let (kinds, metrics) = (["random-access", "fma", "page-table"], ["gups", "gflops", "fault_ns"]);
    document.run.study = "Three in the same blocks".to_owned();
    (document.run.workload, document.run.metric) = (kinds.join(", "), metrics.join(", "));
    document.run.workloads = kinds
        .iter()
        .zip(metrics)
        .map(|(kind, metric)| PlannedWorkload {
            kind: (*kind).to_owned(),
            metric: metric.to_owned(),
            published: (*kind == "random-access").then(|| "hpc-memory-2010/star-random-access".to_owned()),
        })
        .collect();
    document.run.published = None;
    document.run.factors.insert(0, ("workload".to_owned(), kinds.map(str::to_owned).to_vec()));
    let of = |kind: &str, treatment: &mut Treatment| drop(treatment.insert("workload".to_owned(), kind.to_owned()));
    document.estimates.iter_mut().for_each(|row| of(kinds[0], &mut row.treatment));
    for row in &mut document.ratios {
        of(kinds[0], &mut row.treatment);
        of(kinds[0], &mut row.relative_to);
    }
    document.trials.iter_mut().flat_map(|trial| &mut trial.arms).for_each(|arm| of(kinds[0], &mut arm.treatment));
    document.explanations.iter_mut().for_each(|row| of(kinds[0], &mut row.treatment));
    let [mut native, mut machine] = ["native", "microvm"].map(|place| arm(place, "2m"));
    of(kinds[1], &mut native);
    of(kinds[1], &mut machine);
    let mut computing = estimate("gflops", &native, 131.2, 0.2);
    (computing.unit, computing.better) = ("GFLOP/s".to_owned(), Better::Higher);
    document.estimates.push(EstimateRow {
        treatment: machine.clone(),
        estimate: 130.9,
        lo: Some(130.7),
        hi: Some(131.1),
        ..computing.clone()
    });
    document.estimates.push(computing);
    document.ratios.push(RatioRow { metric: "gflops".to_owned(), ..ratio(&machine, &native, [0.998, 0.997, 0.999]) });
    document.trials.push(trial(0, 2, &[(&native, 131.2), (&machine, 130.9)], TrialStatus::Ok));
    let mut kernel = arm("native", "4k");
    of(kinds[2], &mut kernel);
    document.estimates.push(estimate("fault_ns", &kernel, 812.0, 9.0));
    document.trials.push(trial(0, 3, &[(&kernel, 812.0)], TrialStatus::Ok));
    kernel.insert("environment".to_owned(), "microvm".to_owned());
    let reason = "workload 'page-table' needs an operating system of its own, which microvm is none".to_owned();
    document.absent.push(Absent { treatment: kernel, reason, code: None });
    document.flags = vec![FlagRow { treatment: machine, text: "the halves differ".to_owned(), trials: 2, code: None }];
    document
}

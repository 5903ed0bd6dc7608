//! Every rule of the checker with a document that breaks it alone.

use crate::documents::{arm, empty, estimate, ratio, typical};
use baremark_model::codes::Cause;
use baremark_model::document::{Document, EstimateRow, ExplanationRow, FairnessRow, Outcome, Size, TimeRow};
use baremark_model::observation::{Observed, ObservedRow};
use baremark_model::seam::Sample;
use baremark_report::check_document::{check, check_detail};
use serde_json::json;

/// Breaks a sound document, and gives what the only violation says.
fn only(change: impl FnOnce(&mut Document)) -> String {
    let mut document = typical();
    assert_eq!(check(&document), [], "before");
    change(&mut document);
    let found = check(&document);
    let [one] = found.as_slice() else { panic!("not one violation: {found:#?}") };
    one.to_string()
}

fn row(metric: &str, unit: &str, value: f64) -> EstimateRow {
    let row = estimate(metric, &arm("native", "4k"), value, 0.0);
    EstimateRow { unit: unit.to_owned(), ..row }
}

#[test]
fn intervals_are_finite_ordered_and_hold_their_estimate() {
    let of = |change: fn(&mut EstimateRow)| {
        only(|document| {
            document.estimates.push(row("peak", "MiB", 5.0));
            document.estimates.last_mut().into_iter().for_each(change);
        })
    };
    let at = "estimate of peak, native with 4k pages: ";
    assert_eq!(
        of(|row| row.lo = Some(5.5)),
        format!("{at}Some(5.0) in Some(5.5) to Some(5.0); the ends of an interval are in order")
    );
    assert!(of(|row| row.hi = Some(f64::INFINITY)).ends_with("; every number is finite"));
    assert!(of(|row| row.hi = None).ends_with("; an interval has two ends"));
    assert!(of(|row| (row.lo, row.hi) = (Some(6.0), Some(7.0))).ends_with("; an interval contains its estimate"));
    let explained = only(|document| document.explanations[0].lo = 1e9);
    assert!(explained.contains("VM exits in timed phases") && explained.ends_with("in order"), "{explained}");
    let fair = FairnessRow {
        metric: "gups".to_owned(),
        treatment: arm("native", "4k"),
        members: 2,
        n: 4,
        estimate: 0.9,
        lo: Some(0.95),
        hi: Some(1.0),
    };
    assert!(only(|document| document.fairness.push(fair)).ends_with("contains its estimate"));
}

#[test]
fn percentiles_of_one_distribution_are_in_order() {
    let of = |values: &[(&str, f64)]| {
        let rows: Vec<EstimateRow> = values.iter().map(|(metric, value)| row(metric, "us", *value)).collect();
        only(|document| document.estimates.extend(rows))
    };
    let found =
        of(&[("latency_p50_us", 20.0), ("latency_p99_us", 24.0), ("latency_p99_9_us", 18.0), ("other_p99_9_us", 1.0)]);
    assert_eq!(
        found,
        "estimate of latency_p99_us, native with 4k pages: 24 is above latency_p99_9_us, 18; percentiles of one distribution are in order"
    );
    let trial = only(|document| {
        document.trials[0].arms[0].medians.extend([Sample::new("read_p95_us", 13.1), Sample::new("read_p50_us", 13.4)]);
    });
    assert!(trial.starts_with("block 0, cell 0: value of read_p50_us"), "{trial}");
    let detail = json!({ "levels": [{ "p50_ns": 5, "p95_ns": 9, "p999_ns": 8 }] });
    let found = check_detail("details", &detail);
    assert_eq!(found.iter().map(|of| of.place.as_str()).collect::<Vec<_>>(), ["details: levels 1: p95_ns"]);
}

/// A percentile of all trials' samples is among those of the trials, has the samples that it needs, and the median of the trials next to it.
#[test]
fn a_percentile_of_all_samples_is_among_those_of_the_trials() {
    let of = |change: fn(&mut EstimateRow)| {
        only(|document| {
            let native = arm("native", "4k");
            let arms = document.trials.iter_mut().flat_map(|trial| &mut trial.arms);
            let (mut count, least) = (0_u32, 20.0);
            for own in arms.filter(|own| own.treatment == native) {
                own.medians.push(Sample::new("latency_p99_us", least + f64::from(count)));
                count += 1;
            }
            let median = least + f64::from(count - 1) / 2.0;
            let mut sound = row("latency_p99_us", "us", 23.5);
            (sound.n, sound.samples, sound.median) = (count as usize, Some(9000), Some(median));
            document.estimates.push(sound);
            assert_eq!(check(document), [], "sound");
            change(document.estimates.last_mut().expect("pushed"));
            let row = document.estimates.last_mut().expect("pushed");
            (row.lo, row.hi) = (Some(row.estimate), Some(row.estimate));
        })
    };
    let at = "estimate of latency_p99_us, native with 4k pages: ";
    let beyond = of(|row| row.estimate = 19.5);
    assert!(beyond.starts_with(&format!("{at}19.5, and the trials' own are 20 to ")), "{beyond}");
    assert_eq!(
        of(|row| row.samples = Some(367)),
        format!("{at}of 367 samples; a percentile has the samples that it needs")
    );
    assert!(of(|row| row.median = Some(20.5)).ends_with("; the median next to a percentile is that of the trials"));
    assert!(of(|row| row.metric = "latency_mean_us".to_owned()).ends_with("only percentiles are of samples together"));
    // A slow trial moves the percentile of all samples, not the ratio of the trials' own.
    let mut document = typical();
    document.ratios.truncate(1);
    document.ratios[0].metric = "latency_p99_us".to_owned();
    for row in &mut document.estimates {
        (row.metric, row.unit, row.samples) = ("latency_p99_us".to_owned(), "us".to_owned(), Some(9000));
    }
    let slow = document.ratios[0].treatment.clone();
    let slow = document.estimates.iter_mut().find(|row| row.treatment == slow).expect("its cell");
    (slow.estimate, slow.lo, slow.hi) = (1000.0, Some(900.0), Some(1100.0));
    assert_eq!(check(&document), []);
    document.estimates.iter_mut().for_each(|row| row.samples = None);
    let found = check(&document);
    assert!(found.len() == 1 && found[0].to_string().contains("a ratio's interval meets the quotients"), "{found:#?}");
}

#[test]
fn amounts_are_not_negative_and_shares_are_within_the_whole() {
    let of = |metric: &str, unit: &str, value: f64| only(|document| document.estimates.push(row(metric, unit, value)));
    assert_eq!(
        of("latency_p99_us", "us", -10.2),
        "estimate of latency_p99_us, native with 4k pages: -10.2; no time, rate or size is negative"
    );
    assert!(of("size", "MiB", -1.0).ends_with("negative") && of("pages_per_s", "1/s", -1.0).ends_with("negative"));
    assert!(of("failed", "%", 100.5).ends_with("100.5; a share is within 0 and the whole"));
    let low = only(|document| document.estimates.push(EstimateRow { lo: Some(-3.0), ..row("latency", "us", 5.0) }));
    assert!(low.contains("-3; no time"), "{low}");
    let seen = ObservedRow {
        treatment: arm("native", "4k"),
        place: String::new(),
        quantity: "cpu.utilization".to_owned(),
        instance: String::new(),
        unit: "%".to_owned(),
        n: 4,
        value: 140.0,
        lo: None,
        hi: None,
    };
    let observed = Observed { rows: vec![seen], ..Observed::default() };
    assert!(only(|document| document.observed = Some(observed)).contains("observation of cpu.utilization"));
}

fn time(workload: &str, part: &str, seconds: f64, share: f64) -> TimeRow {
    TimeRow { workload: workload.to_owned(), part: part.to_owned(), seconds, share }
}

#[test]
fn parts_add_up_and_a_rate_times_its_time_is_its_count() {
    let sum = only(|document| {
        let sample = |(metric, value): (&str, f64)| Sample::new(metric, value);
        document.trials[0].arms[0].phases.truncate(1);
        document.trials[0].arms[0].medians.extend([("cpu_s", 5.0), ("user_s", 3.0), ("system_s", 1.0)].map(sample));
    });
    assert_eq!(
        sum,
        "block 0, cell 0: value of cpu_s, native with 4k pages: 5, and user_s + system_s are 4; parts add up to the whole"
    );
    let sound = [time("a", "measured", 6.0, 0.6), time("a", "start", 1.0, 0.1)];
    let too_many = only(|document| document.time = [sound.to_vec(), vec![time("a", "memory", 4.0, 0.4)]].concat());
    assert!(too_many.contains("shares of 1.1"), "{too_many}");
    let product = only(|document| document.time = vec![time("a", "measured", 6.0, 0.6), time("a", "start", 1.0, 0.2)]);
    assert_eq!(product, "time of a: start is 1 s and a share of 0.2; a share times the time is its part");
    let whole = vec![time("a", "measured", 6.0, 0.6), time("b", "measured", 5.0, 0.5), time("", "measured", 9.0, 0.45)];
    assert!(only(|document| document.time = whole).contains("9 s, and 11 s in all workloads"));
    let detail = json!({ "pages": 500, "pages_per_s": 114.0, "seconds": 10.0 });
    let found = check_detail("details", &detail);
    let words: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["details: pages_per_s: 114/s in 10 s, and 500 counted; a rate times its time is its count"]);
    let load = json!({ "elapsed_s": 10.0, "counts": { "answered": 500 }, "achieved": { "requests_per_s": 60.0 } });
    assert_eq!(check_detail("load", &load).len(), 1);
    let load = json!({ "elapsed_s": 10.0, "counts": { "answered": 500 }, "achieved": { "requests_per_s": 50.0 } });
    assert_eq!(check_detail("load", &load), []);
}

#[test]
fn a_ratio_meets_the_quotients_of_its_cells() {
    let found = only(|document| {
        let row = &mut document.ratios[0];
        *row = ratio(&row.treatment, &row.relative_to, [0.7, 0.69, 0.71]);
    });
    assert!(
        found.starts_with("ratio of gups, microvm with 4k pages: 0.69 to 0.71, and the cells' quotients are 0.83"),
        "{found}"
    );
    let negative = only(|document| document.ratios[0].lo = Some(-0.1));
    assert!(negative.ends_with("a ratio is above 0"), "{negative}");
}

#[test]
fn units_are_known_and_those_of_the_key_and_of_the_published_table() {
    let of = |metric: &str, unit: &str| only(|document| document.estimates.push(row(metric, unit, 1.0)));
    assert_eq!(of("startup", "msec"), "estimate of startup, native with 4k pages: unknown unit 'msec'; write ms");
    assert!(of("packet_bytes", "KB").ends_with("its unit is KB; the key says B"));
    assert!(of("gups", "MUP/s").ends_with("its unit is MUP/s; a metric has one unit"));
    let published = only(|document| {
        document.estimates.truncate(1);
        document.estimates[0].unit = "GB".to_owned();
        document.ratios.clear();
    });
    assert!(
        published.contains("GB next to GUP/s in the published table 'StarRandomAccess, mean of the processes'"),
        "{published}"
    );
}

#[test]
fn a_verdict_is_what_its_interval_shows() {
    let found = only(|document| {
        let row = &mut document.ratios[0];
        (row.outcome, row.size, row.words) = (Outcome::NoLarger, Size::Inconclusive, "inconclusive".to_owned());
    });
    assert!(found.contains("NoLarger at Some(0.8401) to Some(0.855)"), "{found}");
    let none = only(|document| {
        let row = &mut document.ratios[1];
        (row.lo, row.hi) = (None, None);
    });
    assert!(none.ends_with("a verdict is what its interval shows"), "{none}");
    let emulated = only(|document| document.ratios[0].emulated = true);
    assert!(emulated.contains("SlowerByMore"), "{emulated}");
    let size = only(|document| document.ratios[0].size = Size::Equivalent);
    assert!(size.ends_with("words and size are those of the verdict"), "{size}");
    let words = only(|document| document.ratios[1].words = "slower by 1 to 2 %".to_owned());
    assert!(words.contains("Equivalent and Equivalent, 'slower by 1 to 2 %'"), "{words}");
}

#[test]
fn a_cause_is_one_that_the_environment_can_have() {
    let exits = |environment: &str| ExplanationRow {
        treatment: arm(environment, "4k"),
        cause: Some(Cause::Computing),
        what: "overhead of computing alone over native (extra time)".to_owned(),
        unit: "%".to_owned(),
        value: 1.0,
        lo: 0.5,
        hi: 1.5,
        advice: "VM exits cost at most 1.5 % (bound from fma)".to_owned(),
    };
    let found = only(|document| document.explanations.push(exits("container")));
    assert!(found.ends_with("names VM exit; a cause is one that the environment can have"), "{found}");
    let mut document = empty();
    document.explanations.push(exits("microvm"));
    assert_eq!(check(&document), []);
}

/// A search by levels, which ended at a level.
fn search(level: f64, ended: &str, knee: &[(f64, &str)]) -> serde_json::Value {
    let row = |(level, verdict): &(f64, &str)| {
        json!({ "level": level, "windows": 1, "verdict": verdict, "achieved_per_s": level, "failed_share": 0.0, "p50_ns": null,
                "p95_ns": null, "p99_ns": null, "utilization": {}, "generator_cpu_share": null })
    };
    json!({
        "format": "baremark-maximum/1", "title": "t", "factor": "users", "qos": { "limits": [] },
        "plan": { "lowest": 1.0, "highest": 500.0, "finest": 0.025, "window_s": 1.0, "settle_s": 0.0, "visits": 1, "windows_per_visit": 1,
                  "trials": 1, "confidence": 0.95 },
        "ended": ended, "maximum": { "level": level, "low": null, "high": null, "confidence": 0.95, "basis": "bracket", "isotonic_level": null },
        "shown_level": null, "limited_by": [], "generator_was_the_limit": false, "hysteresis": null,
        "knee": knee.iter().map(row).collect::<Vec<_>>(), "trials": [],
    })
}

#[test]
fn no_level_beyond_a_search_s_bracket_is_its_answer() {
    let knee = [(100.0, "pass"), (140.0, "pass"), (200.0, "fail"), (253.0, "fail")];
    assert_eq!(check_detail("search", &search(170.0, "found", &knee)), []);
    let of = |level: f64, ended: &str| -> Vec<String> {
        check_detail("search", &search(level, ended, &knee)).into_iter().map(|of| of.expected).collect()
    };
    assert_eq!(of(253.0, "time-over"), ["no level beyond the bracket is the answer"]);
    assert_eq!(of(140.0, "passes-all"), ["a search without a bracket has no answer"]);
    let beyond = check_detail("search", &search(300.0, "found", &knee[..2]));
    assert_eq!(beyond.len(), 1, "it was never measured: {beyond:?}");
}

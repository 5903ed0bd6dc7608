//! Every rule of the checker with a document that breaks it alone.

use crate::documents::{arm, empty, estimate, ratio, typical};
use baremark_model::codes::Cause;
use baremark_model::document::{Document, EstimateRow, ExplanationRow, FairnessRow, Outcome, Size, TimeRow};
use baremark_model::observation::{Observed, ObservedRow};
use baremark_model::seam::Sample;
use baremark_model::wire::Series;
use baremark_report::check_document::{check, check_detail, check_phase};
use serde_json::{Value, json};

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
    let faults = |detail: Value| check_detail("details", &detail).len();
    // Counters of many servers are read one after the other.
    assert_eq!(faults(json!({ "rows": [{ "failed_share": 1.0, "cpu_share": 1.4 }] })), 0);
    assert_eq!(faults(json!({ "rows": [{ "failed_share": 1.7 }, { "dense_share": -0.1 }, { "cpu_share": 45.0 }] })), 3);
    // A share of operations has their counts; a deviation from a mix has none, and no bound.
    assert_eq!(faults(json!({ "measured_share": 4.0, "broken": null })), 0);
    assert_eq!(faults(json!({ "measured_share": 4.0, "broken": { "bad": 4, "all": 1 } })), 1);
}

fn time(workload: &str, part: &str, seconds: f64, share: f64) -> TimeRow {
    TimeRow { workload: workload.to_owned(), part: part.to_owned(), seconds, share }
}

#[test]
fn parts_add_up_and_a_rate_times_its_time_is_its_count() {
    let sum = only(|document| {
        let sample = |(metric, value): (&str, f64)| Sample::new(metric, value);
        document.trials[0].schedule = vec![1, 0];
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
    let load = |requests_per_s: f64, bytes_per_s: f64, with_status: u64| {
        let load = json!({ "elapsed_s": 10.0, "counts": { "answered": 500, "received_bytes": 1000 },
            "achieved": { "requests_per_s": requests_per_s, "received_bytes_per_s": bytes_per_s }, "statuses": { "200": with_status, "404": 100 } });
        check_detail("load", &load).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(load(50.0, 100.0, 401), [""; 0], "one came after the time");
    assert_eq!(
        load(50.0, 90.0, 400),
        ["load: achieved: 90 bytes/s in 10 s, and 1000 received; a rate times its time is its count"]
    );
    assert_eq!(load(50.0, 100.0, 399), ["load: statuses: 500 answered, 499 with a status; every answer has a status"]);
}

#[test]
fn counts_of_operations_add_up() {
    let of = |detail: Value| check_detail("d", &detail).iter().map(ToString::to_string).collect::<Vec<_>>();
    let operation = |succeeded: u64, mix_share: f64| {
        json!({ "name": "a", "succeeded": succeeded, "failed": 2, "failures": { "timeout": 2 }, "mix_share": mix_share,
                "raw": { "samples": 30 } })
    };
    let load =
        |one: Value, two: Value, failed: u64| json!({ "operations": [one, two], "failures": { "timeout": failed } });
    assert_eq!(of(load(operation(30, 0.5), operation(30, 0.5), 4)), [""; 0]);
    assert_eq!(
        of(load(operation(31, 0.5), operation(30, 0.5), 4)),
        ["d: operations 1: succeeded: 31, and 30 in parts; parts add up to the whole"]
    );
    assert_eq!(
        of(load(operation(30, 0.5), operation(30, 0.5), 5)),
        ["d: failures: 5, and 4 in parts; parts add up to the whole"]
    );
    assert_eq!(
        of(load(operation(30, 0.5), operation(30, 0.25), 4)),
        ["d: mix_share: 0.75 in all; parts add up to the whole"]
    );
    let site = json!({ "name": "1", "succeeded": 9, "failed": 3, "failures": { "reset": 1 } });
    assert_eq!(of(site), ["d: failed: 3, and 1 in parts; parts add up to the whole"]);
    let transactions = |samples: Value| json!({ "committed": 5, "rolled_back": 1, "latency": samples });
    assert_eq!(of(transactions(json!({ "samples": 6 }))), [""; 0]);
    assert_eq!(of(transactions(Value::Null)), ["d: latency: 0, and 6 in parts; parts add up to the whole"]);
    let reads = |samples: u64| json!({ "hits": 7, "misses": 1, "commands": [{ "name": "SET", "latency": null }, { "name": "GET", "latency": { "samples": samples } }] });
    assert_eq!(of(reads(8)), [""; 0]);
    assert_eq!(of(reads(9)), ["d: GET: 9, and 8 in parts; parts add up to the whole"]);
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
    assert!(of("step_us", "ns/step").ends_with("its unit is ns/step; the key says us"));
    assert!(of("sent_bytes", "B/s").ends_with("its unit is B/s; the key says B"));
    let mut by_step = typical();
    by_step.estimates.push(row("step_us", "us/step", 1.0));
    assert_eq!(check(&by_step), [], "time by something else than time");
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
    // By its code, however it is worded.
    let worded = |environment: &str| ExplanationRow {
        cause: Some(Cause::VmExits),
        what: "cost of leaving it, at most".to_owned(),
        advice: String::new(),
        ..exits(environment)
    };
    let found = only(|document| document.explanations.push(worded("container")));
    assert!(found.ends_with(": is of VmExits; a cause is one that the environment can have"), "{found}");
    let mut document = empty();
    document.explanations.push(worded("microvm"));
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

/// What a phase of a workload of this kind breaks with these values, next to its detail.
fn of_phase(kind: &str, values: &[(&str, f64)], detail: &Value) -> Vec<String> {
    let samples: Vec<Value> =
        values.iter().map(|(metric, value)| json!({ "metric": metric, "value": value })).collect();
    let phase =
        json!({ "phase": 0, "arm": 0, "reps": 1, "samples": samples, "detail": { "format": "f", "document": detail } });
    let phase: Series = serde_json::from_value(phase).expect("a phase");
    check_phase("p", kind, &phase).iter().map(ToString::to_string).collect()
}

/// The levels of a search for copies: how many, their latency and whether they passed.
fn density(levels: &[(u64, u64, bool)]) -> Value {
    let level = |(copies, ns, passed): &(u64, u64, bool)| json!({ "copies": copies, "latency_p99_ns": ns, "cpus_used": 0.5, "passed": passed });
    json!({ "place": "process", "levels": levels.iter().map(level).collect::<Vec<_>>(), "result": "" })
}

#[test]
fn no_copies_beyond_some_that_fail_keep_the_limit() {
    let sound = density(&[(4, 3, true), (8, 5, true), (16, 20, false), (12, 11, false), (10, 9, true)]);
    assert_eq!(check_detail("d", &sound), []);
    let of = |levels: &[(u64, u64, bool)]| {
        check_detail("d", &density(levels)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        of(&[(12, 11, false), (16, 9, true)]),
        ["d: 16 copies passed, and 12 failed; no level beyond the bracket is the answer"]
    );
    assert_eq!(
        of(&[(4, 30, true), (8, 20, false)]),
        ["d: latency_p99_ns: 30 ns passed, and 20 ns failed; what fails is beyond what passes"]
    );
    assert_eq!(of_phase("density", &[("copies", 10.0), ("cpu", 5.0)], &sound), [""; 0]);
    assert_eq!(of_phase("density", &[("memory_mib", 3.0)], &sound), [""; 0], "a ceiling is not an answer");
    assert_eq!(
        of_phase("density", &[("copies", 12.0)], &sound),
        ["p: value of copies: 12, and Some(10.0) by its levels; an answer is the highest level that kept the limits"]
    );
}

/// A number of tiles of two members, the second with three times the weight of the first: the throughputs by tile, of which 1 and 16 count as 1,
/// and the score. The last member of the last tile breaks its limit where that is so.
#[expect(clippy::cast_precision_loss, reason = "a few tiles")]
fn level(throughputs: &[[f64; 2]], score: Option<f64>, breaks: bool) -> Value {
    let (last, names, references) = (throughputs.len() - 1, ["a", "b"], [1.0, 16.0]);
    let run = |tile: usize, at: usize| {
        let broken = (breaks && tile == last && at == 1).then_some("slow");
        let (member, throughput) = (names[at], throughputs[tile][at]);
        json!({ "tile": tile, "member": member, "throughput": throughput, "limited": 4.0, "broken": broken, "ended_s": 1.0, "flags": [] })
    };
    let runs: Vec<Value> = (0..=last).flat_map(|tile| [run(tile, 0), run(tile, 1)]).collect();
    let mean = |at: usize| {
        let mean = throughputs.iter().map(|of| of[at]).sum::<f64>() / throughputs.len() as f64;
        let (name, normalized) = (names[at], mean / references[at]);
        json!({ "name": name, "throughput": mean, "normalized_throughput": normalized, "limited": 4.0, "normalized_limited": null })
    };
    let broken: &[&str] = if breaks { &["b of the last tile: slow"] } else { &[] };
    json!({ "tiles": throughputs.len(), "score": score, "broken": broken, "members": [mean(0), mean(1)], "runs": runs })
}

fn tiles(levels: &[Value]) -> Value {
    let member = |name: &str, weight: f64, reference: f64| json!({ "name": name, "weight": weight, "infrastructure": false, "reference": reference });
    json!({ "members": [member("a", 1.0, 1.0), member("b", 3.0, 16.0)], "levels": levels })
}

#[test]
fn tiles_that_break_a_limit_have_no_score_and_a_score_is_of_its_members() {
    let one = level(&[[1.0, 16.0]], Some(1.0), false);
    // (2/1)^(1/4) (8/16)^(3/4), and 1.
    let two = |score: f64| level(&[[2.0, 8.0], [1.0, 16.0]], Some(score), false);
    let three = |score: Option<f64>| level(&[[1.0, 16.0], [1.0, 16.0], [1.0, 8.0]], score, true);
    let score = 1.0 + 0.5_f64.sqrt();
    let found =
        |levels: &[Value]| check_detail("d", &tiles(levels)).iter().map(ToString::to_string).collect::<Vec<_>>();
    let sound = [one.clone(), two(score), three(None), three(None)];
    assert_eq!(found(&sound), [""; 0]);
    let wrong = found(&[one.clone(), two(1.9)]);
    assert!(wrong.len() == 1 && wrong[0].starts_with("d: 2 tiles: a score of 1.9, and Some(1.707"), "{wrong:?}");
    assert_eq!(
        found(&[one.clone(), three(Some(2.0))]),
        ["d: 3 tiles: a score of 2; a level that exceeds a limit has no score"]
    );
    let mut fewer = two(score);
    fewer["tiles"] = json!(3);
    fewer["score"] = Value::Null;
    assert_eq!(found(&[fewer]), ["d: 3 tiles: 4 runs, and 6 members of all tiles; every tile has every member once"]);
    let mut mean = two(score);
    mean["members"][0]["throughput"] = json!(9.0);
    let mean = found(&[one.clone(), mean]);
    assert_eq!(
        mean,
        ["d: 2 tiles: throughput of a: Some(9.0), and Some(1.5) by its runs; a mean is that of its parts"]
    );
    let beyond = level(&[[1.0, 16.0]; 4], Some(4.0), false);
    assert_eq!(
        found(&[one.clone(), three(None), beyond]),
        ["d: 4 tiles kept every limit, and 3 did not; no level beyond the bracket is the answer"]
    );
    let detail = tiles(&sound);
    assert_eq!(of_phase("tile", &[("tiles", 2.0), ("score", score), ("score_of_one", 1.0)], &detail), [""; 0]);
    assert_eq!(
        of_phase("tile", &[("tiles", 3.0)], &detail),
        ["p: value of tiles: 3, and Some(2.0) by its levels; an answer is the highest level that kept the limits"]
    );
}

#[test]
fn users_who_are_an_answer_keep_the_limit() {
    let of = |kind: &str, users: f64, slow: f64| {
        of_phase(kind, &[("users_within_limit", users), ("slow", slow)], &Value::Null)
    };
    assert_eq!(
        of("sessions", 10.0, 5.1),
        ["p: value of users_within_limit: 10, of whose actions 5.1 % are slow; the users of an answer keep the limit"]
    );
    assert_eq!(of("sessions", 10.0, 5.0), [""; 0]);
    assert_eq!(of("sessions", 0.0, 50.0), [""; 0], "one user exceeds it");
    assert_eq!(of("other", 10.0, 50.0), [""; 0]);
    let whole = |schedule: Vec<usize>| {
        let mut document = typical();
        document.run.workload = "sessions".to_owned();
        let trial = &mut document.trials[0];
        trial.schedule = schedule;
        trial.arms[0].medians.extend([Sample::new("users_within_limit", 10.0), Sample::new("slow", 6.0)]);
        check(&document).len()
    };
    assert_eq!(whole(vec![0, 1]), 1, "its value is that of its phase");
    assert_eq!(whole(vec![0, 1, 1, 0]), 0, "of several phases, one may have had no answer");
}

#[test]
fn the_cpu_time_of_a_transaction_is_that_of_driver_and_server() {
    let of = |whole: f64| {
        let values = [("cpu_us_per_tx", whole), ("driver_cpu_us_per_tx", 2.0), ("server_cpu_us_per_tx", 3.0)];
        of_phase("order-entry", &values, &json!({ "database": "postgres" }))
    };
    assert_eq!(of(5.0), [""; 0]);
    assert_eq!(
        of(7.0),
        [
            "p: value of cpu_us_per_tx: 7, and driver_cpu_us_per_tx + server_cpu_us_per_tx are 5; parts add up to the whole"
        ]
    );
}

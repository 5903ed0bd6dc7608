use super::*;
use baremark_model::maximum::Trial;
use baremark_model::page_size::PageSize;
use baremark_model::qos::Broken;

#[test]
fn the_generator_has_the_last_cpu_where_there_are_several() {
    assert_eq!(divided(&[0, 1]), (vec![0], vec![1]));
    assert_eq!(divided(&[2, 3, 5]), (vec![2, 3], vec![5]));
    assert_eq!(divided(&[4]), (vec![4], vec![4]));
    assert_eq!(divided(&[]), (vec![], vec![]));
}

/// A search with windows: servers, whether the limits were kept, and the pages per second that were answered.
fn document(ended: Ended, level: Option<f64>, windows: &[(f64, bool, f64)]) -> Document {
    let window = |&(level, kept, achieved_per_s): &(f64, bool, f64)| Window {
        level,
        from_above: false,
        fitted: false,
        said: if kept { Said::Pass } else { Said::Fail },
        reading: Reading {
            achieved_per_s,
            elapsed_s: 2.0,
            broken: vec![Some(Broken { bad: if kept { 0 } else { 300 }, all: 1000 })],
            ..Reading::default()
        },
    };
    let trial =
        Trial { ended, maximum: None, limiting: None, hysteresis: None, windows: windows.iter().map(window).collect() };
    Document {
        format: String::new(),
        title: String::new(),
        factor: "servers".to_owned(),
        qos: Qos {
            limits: vec![Limit { operation: None, bound: Bound::Failures { most: FAILURES } }],
            ..Qos::default()
        },
        plan: Plan::between(1.0, 64.0),
        ended,
        maximum: level.map(|level| Maximum {
            level,
            low: Some(level - 2.0),
            high: Some(level + 3.0),
            confidence: 0.95,
            basis: Basis::WithinRun,
            isotonic_level: None,
        }),
        shown_level: None,
        at_answer: None,
        limited_by: Vec::new(),
        generator_was_the_limit: false,
        hysteresis: None,
        knee: Vec::new(),
        trials: vec![trial],
    }
}

fn told(document: &Document) -> (Option<usize>, bool, String) {
    let most = result(document);
    (most.passed.as_ref().map(|passed| passed.servers), most.least, most.words(25))
}

/// Where the limit is was reported as the answer, also where no such number was loaded and its neighbours failed.
#[test]
fn the_answer_is_a_number_of_servers_that_kept_the_limits() {
    let windows = [(8.0, true, 199.0), (38.2, true, 948.0), (42.0, false, 900.0), (46.0, false, 600.0)];
    let place = "the limit is at 40, 38 to 43 (95 % interval within this search)";
    let words = format!("38 servers with 948 of 950 requests/s answered; {place}");
    assert_eq!(told(&document(Ended::Found, Some(40.0), &windows)), (Some(38), false, words));
    let limited = Document { generator_was_the_limit: true, ..document(Ended::Found, Some(40.0), &windows) };
    let words =
        format!("at least 38 servers with 948 of 950 requests/s answered; {place} (the load generator was the limit)");
    assert_eq!(told(&limited), (Some(38), true, words));
}

/// 253 servers of which 17 % of the pages failed were reported when the time was over.
#[test]
fn a_search_whose_time_is_over_reports_no_level_that_failed() {
    let windows = [(64.0, true, 1590.0), (253.0, false, 5200.0)];
    let over = document(Ended::TimeOver, Some(158.5), &windows);
    assert_eq!(told(&over).0, Some(64));
    assert!(told(&over).1 && told(&over).2.starts_with("at least 64 servers"), "{:?}", told(&over));
    let failed = document(Ended::TimeOver, None, &windows[1..]);
    assert_eq!(told(&failed), (None, false, "nothing was found in the time of the search (search_time)".to_owned()));
    assert_eq!(told(&document(Ended::FailsAll, None, &[(1.0, false, 3.0)])).0, None);
    let all = told(&document(Ended::PassesAll, None, &[(64.0, true, 1600.0)]));
    assert_eq!((all.0, all.1), (Some(64), true));
}

/// 114 servers were reported where 140 had kept the limit, and no other number.
#[test]
fn a_number_that_failed_below_the_answer_is_a_doubt() {
    let windows = [(114.0, false, 4000.0), (140.0, true, 6990.0), (150.0, false, 5000.0)];
    let most = result(&document(Ended::Found, Some(139.0), &windows));
    assert_eq!(most.passed, Some(Passed { servers: 140, achieved_per_s: 6990.0 }));
    assert_eq!(most.doubt.as_deref(), Some("114 servers exceeded the limit, and 140 kept it; more blocks tell"));
}

/// The rate was the number of servers times the rate of each, whatever was answered.
#[test]
fn rates_are_those_that_were_measured_with_the_smaller_number() {
    let most = |servers: f64, per_s: f64| result(&document(Ended::Found, Some(servers), &[(servers, true, per_s)]));
    assert_eq!(rates(&[most(38.0, 948.0), most(20.0, 470.0)]), Some([("requests_per_s", 470.0), ("mb_per_s", 47.0)]));
    let ceiling = result(&document(Ended::PassesAll, None, &[(20.0, true, 470.0)]));
    assert_eq!(rates(&[most(38.0, 948.0), ceiling]), None);
    assert_eq!(rates(&[result(&document(Ended::FailsAll, None, &[(1.0, false, 3.0)]))]), None);
}

/// 93 servers passed in three windows of five, and a fifth of their pages failed.
#[test]
fn windows_of_a_number_of_servers_are_judged_together() {
    let windows = [(80.0, true, 1990.0), (93.0, true, 2320.0), (93.0, true, 2330.0), (93.0, false, 1200.0)];
    assert_eq!(told(&document(Ended::Found, Some(94.0), &windows)).0, Some(80));
}

/// Servers that answer nothing use no CPU.
#[test]
fn pages_that_fail_break_either_limit() {
    let settings = Settings::of(&ResolvedArm::native(1, PageSize::Small)).expect("defaults");
    for criterion in [Criterion::Cpu, Criterion::Latency] {
        let limits = criterion.qos(&settings).limits;
        assert!(limits.iter().any(|limit| matches!(limit.bound, Bound::Failures { .. })), "{criterion:?}");
    }
}

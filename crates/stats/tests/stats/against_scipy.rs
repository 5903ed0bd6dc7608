//! The oracle: scipy's answers, made by `tests/oracle/make.py` and checked in.

use baremark_stats::changes::changes;
use baremark_stats::estimate::{mean, median, sd};
use baremark_stats::location::centre;
use baremark_stats::long_run::long_run;
use baremark_stats::multiplicity::discoveries;
use baremark_stats::permutation::signed_rank;
use baremark_stats::quads::trimmed_mean;
use baremark_stats::runs::{Run, compare};
use baremark_stats::{Estimate, special};
use serde_json::Value;

fn table(text: &str, name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(text).unwrap();
    all[name].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn close(found: f64, expected: f64, relative: f64, what: &str) {
    let distance = (found - expected).abs();
    assert!(distance <= relative * expected.abs() + 1e-300, "{what}: found {found:e}, scipy {expected:e}");
}

fn check(name: &str, relative: f64, function: impl Fn(&[f64]) -> f64) {
    let rows = table(include_str!("../oracle/special.json"), name);
    assert!(rows.len() >= 8, "{name}: table is there");
    for row in rows {
        let row = numbers(&row);
        let (expected, arguments) = row.split_last().unwrap();
        let found = function(arguments);
        // scipy's own zero (quantile of 1/2, ln gamma of 1 and 2) is approached absolutely
        if expected.abs() < 1e-14 {
            assert!(found.abs() < 1e-13, "{name}{arguments:?}: found {found:e}, scipy {expected:e}");
        } else {
            close(found, *expected, relative, &format!("{name}{arguments:?}"));
        }
    }
}

#[test]
fn special_functions() {
    check("ln_gamma", 1e-13, |x| special::ln_gamma(x[0]));
    check("beta_inc", 1e-10, |x| special::beta_inc(x[0], x[1], x[2]));
    check("normal_sf", 1e-12, |x| special::normal_sf(x[0]));
    check("normal_quantile", 1e-13, |x| special::normal_quantile(x[0]));
    check("student_sf", 1e-10, |x| special::student_sf(x[0], x[1]));
    check("student_quantile", 1e-10, |x| special::student_quantile(x[0], x[1]));
    check("binomial_cdf", 1e-10, |x| special::binomial_cdf(x[0] as i64, x[1] as u64, x[2]));
}

fn statistics(name: &str) -> Vec<Value> {
    table(include_str!("../oracle/statistics.json"), name)
}

#[test]
fn estimates() {
    for row in statistics("samples") {
        let x = numbers(&row["x"]);
        let expect = |key: &str| row[key].as_f64().unwrap();
        close(mean(&x).unwrap(), expect("mean"), 1e-12, "mean");
        close(sd(&x).unwrap(), expect("sd"), 1e-12, "sd");
        close(median(&x).unwrap(), expect("median"), 1e-12, "median");
        close(centre(&x).unwrap(), expect("hodges_lehmann"), 1e-10, "Hodges-Lehmann");
    }
}

#[test]
fn welch() {
    for row in statistics("welch") {
        let side =
            |key: &str| numbers(&row[key]).into_iter().map(|centre| Run { centre, error: 0.0 }).collect::<Vec<_>>();
        let found = compare(&side("b"), &side("a")).unwrap();
        let interval = found.interval(0.95);
        close(interval.lo, row["lo"].as_f64().unwrap(), 1e-9, "lo");
        close(interval.hi, row["hi"].as_f64().unwrap(), 1e-9, "hi");
        close(found.freedom, row["freedom"].as_f64().unwrap(), 1e-9, "degrees of freedom");
    }
}

#[test]
fn benjamini_hochberg() {
    for row in statistics("discoveries") {
        let found = discoveries(&numbers(&row["p"]), 0.05);
        assert_eq!(found as u64, row["found"].as_u64().unwrap(), "{row}");
    }
}

fn comparison(name: &str) -> Vec<Value> {
    let rows = table(include_str!("../oracle/comparison.json"), name);
    assert!(rows.len() >= 3, "{name}: table is there");
    rows
}

#[test]
fn the_estimate_is_the_one_written_down() {
    for row in comparison("location") {
        let x = numbers(&row["x"]);
        let found = Estimate::of(&x).unwrap();
        let interval = found.interval(0.95);
        let expect = |key: &str| row[key].as_f64().unwrap();
        let what = format!("n = {}", x.len());
        close(found.centre, expect("centre"), 1e-12, &what);
        assert!((interval.lo - expect("lo")).abs() < 1e-10 && (interval.hi - expect("hi")).abs() < 1e-10, "{what}");
        close(found.freedom, expect("freedom"), 1e-12, &what);
        close(found.p_value(0.0), expect("p"), 1e-8, &what);
    }
}

#[test]
fn trimmed_means() {
    for row in comparison("trimmed") {
        close(trimmed_mean(&numbers(&row["x"])).unwrap(), row["mean"].as_f64().unwrap(), 1e-12, "trimmed mean");
    }
}

#[test]
fn long_run_variances() {
    for row in comparison("long_run") {
        let found = long_run(&numbers(&row["x"])).unwrap();
        close(found.variance, row["variance"].as_f64().unwrap(), 1e-10, "long-run variance");
        close(found.freedom, row["freedom"].as_f64().unwrap(), 0.0, "cosines");
    }
}

#[test]
fn signed_rank_test() {
    for row in comparison("signed_rank") {
        close(signed_rank(&numbers(&row["x"])).unwrap(), row["p"].as_f64().unwrap(), 1e-10, "signed-rank p");
    }
}

/// Hamilton's depression scale before and after a tranquillizer, Hollander & Wolfe (1999), example 3.1: estimate 0.46 and
/// one-sided exact p value 0.0195.
#[test]
#[allow(clippy::approx_constant, reason = "3.14 is one of the published values")]
fn hollander_and_wolfe_example() {
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| before - after).collect();
    assert!((Estimate::of(&differences).unwrap().centre - 0.46).abs() < 5e-4);
    assert!((signed_rank(&differences).unwrap() - 10.0 / 512.0).abs() < 1e-12);
}

#[test]
fn the_best_split_by_energy_distance() {
    for row in comparison("split") {
        let found = changes(&numbers(&row["x"]), 0.1, 1).unwrap();
        let at = row["at"].as_u64().unwrap() as usize;
        assert!(found.iter().any(|change| change.at == at), "{at}: {found:?}");
    }
}

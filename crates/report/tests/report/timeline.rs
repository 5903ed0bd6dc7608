//! Figures of what treatments measured over the time of their phases.

use crate::documents::{self, arm, trial};
use baremark_model::document::Document;
use baremark_model::event::TrialStatus;
use baremark_model::seam::Sample;
use baremark_model::timeline::{BinnedLatencies, Stretch, TimelineRow};
use baremark_report::figure::figures;
use baremark_report::html;

/// Three seconds: two of a trial that counts, one of a trial that does not.
fn document(of: impl Fn(f64) -> (Vec<Sample>, Vec<BinnedLatencies>)) -> Document {
    let native = arm("native", "4k");
    let mut document = documents::empty();
    let discarded = TrialStatus::Void { reasons: vec!["the clock was set".to_owned()] };
    document.trials = vec![trial(0, 0, &[(&native, 1.0)], TrialStatus::Ok), trial(1, 0, &[(&native, 1.0)], discarded)];
    let stretch = |(at_s, block): (f64, u64)| {
        let (samples, latencies) = of(at_s);
        Stretch {
            at_s,
            seconds: 1.0,
            blocks: [block; 2],
            discarded: block == 1,
            samples,
            latencies,
            ..Stretch::default()
        }
    };
    let stretches = [(0.0, 0), (1.0, 0), (2.0, 1)].map(stretch).to_vec();
    document.timelines = vec![TimelineRow { treatment: native, stretches }];
    document
}

fn latencies(name: &str, bins: &[[u64; 2]]) -> Vec<BinnedLatencies> {
    vec![BinnedLatencies { name: name.to_owned(), bins: bins.to_vec() }]
}

/// Of 3 s in 406 units and 21 half octaves in 150, with 6 % of each as a margin: a cell is 1 / 3.36 of the width, and 0.5 ln 2 / (10.5 ln 2 × 1.12)
/// of the height.
#[test]
fn a_heat_map_has_a_cell_for_each_bin_of_each_second() {
    let document = document(|at_s| {
        let bins: &[[u64; 2]] = match at_s {
            0.0 => &[[19, 7], [39, 1]],
            1.0 => &[[19, 20]],
            _ => &[[19, 2]],
        };
        (Vec::new(), latencies("read", bins))
    });
    let all = figures(&document);
    let [figure] = all.as_slice() else { panic!("{} figures", all.len()) };
    let svg = figure.file();
    let cell = "<g><title>1.00 to 2.00 s: 20 of 0.724 to 1.02 us</title>\n\
                <rect class=\"heat h4\" x=\"204.6\" y=\"159.6\" width=\"120.8\" height=\"6.4\"/>\n</g>";
    assert!(svg.contains(cell), "{svg}");
    assert!(svg.contains("<g><title>0.00 to 1.00 s: 8 of 0.724 to 1050 us</title>"), "a title for each column: {svg}");
    assert_eq!((svg.matches("class=\"heat h").count(), svg.matches("class=\"discarded\"").count()), (4, 1), "{svg}");
    assert!(figure.caption.contains("latency of read over time, us"), "{}", figure.caption);
    let scale = ": the stronger the colour, the more operations per second (logarithmic, scale of this figure)";
    assert!(figure.caption.ends_with(&format!("{scale}; shaded: trials that do not count")), "{}", figure.caption);
}

/// As many in four seconds as in one are a quarter as many per second.
#[test]
fn a_longer_stretch_has_no_stronger_colour_for_its_length() {
    let mut document = document(|_| (Vec::new(), latencies("read", &[[19, 400]])));
    let [first, second, third] = &mut document.timelines[0].stretches[..] else { panic!("three") };
    (second.seconds, second.latencies, third.at_s) = (4.0, latencies("read", &[[19, 1600]]), 5.0);
    (third.seconds, third.flagged) = (4.0, true);
    assert!(!first.discarded && third.discarded);
    let all = figures(&document);
    let svg = all[0].file();
    // Of the third stretch 100 per second: ln 101 is 77 % of ln 401, ln 401 itself 100 %.
    let strengths: Vec<&str> = svg.split("<rect class=\"heat ").skip(1).map(|rest| &rest[..2]).collect();
    assert_eq!(strengths, ["h4", "h4", "h3"], "{svg}");
}

/// Before, each of hundreds of treatments had its figures, with a title in each of their cells.
#[test]
fn a_document_has_few_figures_over_time_and_says_how_many_more_there_are() {
    let mut document = document(|_| (vec![Sample::new("requests_per_s", 5.0)], latencies("read", &[[19, 7]])));
    let row = document.timelines[0].clone();
    document.timelines =
        (1..=8).map(|n| TimelineRow { treatment: arm(&format!("vm-{n}"), "4k"), ..row.clone() }).collect();
    let drawn = figures(&document);
    let maps = drawn.iter().filter(|figure| figure.caption.contains("latency of read over time")).count();
    assert_eq!((drawn.len(), maps), (12, 8));
    let page = html::render(&document);
    let says = "4 more figures over time are not drawn; --json has their values as timelines.";
    assert_eq!(page.matches(says).count(), 1);
    assert!(!page.contains("Figures of blocks:"), "there is none");
}

#[test]
fn a_load_has_its_percentile_its_failures_and_its_rate() {
    let document = document(|at_s| {
        let failed = if (at_s - 1.0).abs() < 0.5 { 4.0 } else { 0.0 };
        let samples = [("requests_per_s", 100.0 + at_s), ("failed_operations", failed), ("latency_p99_ms", 2.0 + at_s)];
        (samples.map(|(key, value)| Sample::new(key, value)).to_vec(), latencies("all", &[[41, 5]]))
    });
    let all = figures(&document);
    let [map, rate] = all.as_slice() else { panic!("{} figures", all.len()) };
    let (svg, caption) = (map.file(), &map.caption);
    assert!(svg.contains("<title>1.00 s: 4 failed operations</title>"), "{svg}");
    assert_eq!(svg.matches("<polyline class=\"curve c1\"").count(), 1, "{svg}");
    assert!(
        caption.contains("dashed: the largest 99th percentile of a second; crosses: operations failed"),
        "{caption}"
    );
    let svg = rate.file();
    assert!(svg.contains("<title>0.00 s: 100 1/s</title>"), "{svg}");
    assert!(svg.contains("<title>2.00 s: 102 1/s, does not count</title>"), "{svg}");
}

#[test]
fn two_seconds_are_no_course() {
    let mut document = document(|_| (Vec::new(), latencies("read", &[[19, 7]])));
    document.timelines[0].stretches.truncate(2);
    assert!(figures(&document).is_empty());
    // A bin that does not exist is drawn without a panic.
    document.timelines[0].stretches =
        vec![Stretch { seconds: 1.0, latencies: latencies("read", &[[u64::MAX, 1]]), ..Stretch::default() }; 3];
    assert!(figures(&document).len() <= 1);
}

//! The answer of a run: nothing is cut, the worst and the widest are first where not all fit, and values have their figures.

use crate::documents::{self, estimate, ratio, treatment};
use baremark_model::command::RUN_TIMES;
use baremark_model::document::{Document, EstimateRow, Outcome, RatioRow};
use baremark_model::plan::Duet;
use baremark_model::seam::Sample;
use baremark_report::{Style, html, summary};

/// Comparisons of as many levels as there are ratios.
fn many(ratios: &[[f64; 3]]) -> Document {
    let mut document = documents::typical();
    let levels: Vec<String> = (0..ratios.len()).map(|level| format!("case {level}")).collect();
    document.run.factors = vec![
        ("environment".to_owned(), vec!["native".to_owned(), "microvm".to_owned()]),
        ("case".to_owned(), levels.clone()),
    ];
    let of = |place: &str, level: &str| treatment(&[("environment", place), ("case", level)]);
    document.estimates = levels
        .iter()
        .flat_map(|level| ["native", "microvm"].map(|place| estimate("gups", &of(place, level), 0.02, 0.001)))
        .collect();
    document.ratios = levels
        .iter()
        .zip(ratios)
        .map(|(level, found)| ratio(&of("microvm", level), &of("native", level), *found))
        .collect();
    document
}

#[test]
fn what_does_not_fit_is_counted_after_the_worst_and_the_widest() {
    let mut ratios = vec![[1.0, 0.99, 1.01]; 30];
    ratios[17] = [0.5, 0.49, 0.51];
    ratios[23] = [1.0, 0.2, 4.0];
    ratios[29] = [0.9, 0.89, 0.91];
    let text = summary::render(&many(&ratios), &Style::default());
    assert!(text.lines().count() <= 25 && !text.contains('…'), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  case case ")).collect();
    let names: Vec<&str> = rows.iter().take(4).map(|row| row.split_whitespace().nth(2).unwrap_or_default()).collect();
    assert_eq!(names, ["17", "29", "23", "0"], "losses by size, then what is open, then what is alike: {text}");
    let rest = 30 - rows.len();
    assert!(text.contains(&format!("{rest} more: {rest} equivalent; --details has each")), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("27 of 30 comparisons: equivalent within 2 %"), "{text}");
    assert!(flat.contains("case case 17: slower by 49.0 to 51.0 %. case case 29: slower by 9.0 to 11.0 %."), "{text}");
    let page = html::render(&many(&ratios));
    let (first, rest) = page.split_once("<summary>14 more: 14 equivalent</summary>").expect("rows that fold");
    assert_eq!(
        (first.matches("class=\"lane\"").count(), rest.matches("class=\"lane\"").count()),
        (17, 14),
        "16 and the axis"
    );
}

#[test]
fn both_values_are_shown_with_their_unit_and_number() {
    let document = documents::typical();
    let text = summary::render(&document, &Style::default());
    assert!(text.contains("    native 0.01842 ± 0.00012, microvm 0.01561 ± 0.00015 GUP/s; n=20\n"), "{text}");
    let page = html::render(&document);
    let values = page.matches("<small>GUP/s</small>").count();
    assert_eq!(values, 4, "two rows of two values");
    assert!(page.contains("<b class=\"outcome differs\">slower by 14.5 to 16.0\u{a0}%</b>"), "{page}");
}

/// What would decide an open comparison is said with its command; where blocks of an arm never counted, more of them decide nothing.
#[test]
fn the_next_step_is_what_decides() {
    let mut document = documents::bounded();
    document.looks.clear();
    let next = |document: &Document| {
        let text = summary::render(document, &Style { width: 200, ..Style::default() });
        text.lines().find_map(|line| Some(line.strip_prefix("Next")?.trim().to_owned()))
    };
    let said = next(&document).expect("34 blocks are known to decide");
    assert_eq!(
        said,
        "about 34 more blocks (2 min 23 s) would decide 1 of 2: baremark resume 20251121-0335-3fa9 --budget +3min"
    );
    let of_commands = baremark_report::commands::render(&document, &[], &Style::default());
    let next_of_commands = "\nNext    about 34 more blocks (2 min 23 s) would decide 1 of 2:\n        baremark resume 20251121-0335-3fa9 --budget +3min\n";
    assert!(of_commands.contains(next_of_commands), "{of_commands}");
    document.run.mode.quick = true;
    assert!(next(&document).is_some_and(|said| said.starts_with("run it without --quick")), "it is not extended");
    document.run.mode.quick = false;
    document.run.ended = None;
    assert!(next(&document).is_some_and(|said| said.ends_with(": baremark resume 20251121-0335-3fa9")));
    let row = &mut document.ratios[1];
    (row.outcome, row.blocks) = (Outcome::NotEnough, 0);
    assert_eq!(next(&document), None);
}

#[test]
fn first_screens_say_that_both_programs_ran_at_once() {
    let mut document = documents::bounded();
    let wide = Style { width: 200, ..Style::default() };
    let screens = |document: &Document| {
        let of_commands = baremark_report::commands::render(document, &[], &wide);
        let screens =
            [of_commands, summary::render(document, &wide), baremark_report::terminal::render(document, &wide)];
        screens.map(|screen| screen.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let says = "run at the same time on CPUs 0 and 1, which they swap";
    assert!(screens(&document).iter().all(|screen| !screen.contains(says)), "arms took turns");
    let table = |document: &Document| baremark_report::commands::markdown(document, &[]);
    assert!(!table(&document).contains(says), "arms took turns");
    document.run.duet = Some(Duet { cpus: [0, 1], one_core: false });
    for screen in screens(&document) {
        assert!(screen.contains(says), "{screen}");
    }
    assert!(table(&document).ends_with(&format!("\nPrograms {says}.\n")), "{}", table(&document));
    document.run.duet = Some(Duet { cpus: [0, 1], one_core: true });
    for screen in screens(&document) {
        assert!(
            screen.contains("run at the same time on CPUs 0 and 1 (two threads of one core), which they swap"),
            "{screen}"
        );
    }
}

#[test]
fn nothing_ran_at_once_where_nothing_was_compared() {
    let mut document = documents::absent();
    document.run.duet = Some(Duet { cpus: [0, 1], one_core: false });
    let wide = Style { width: 200, ..Style::default() };
    let of_commands = baremark_report::commands::render(&document, &[], &wide);
    let table = baremark_report::commands::markdown(&document, &[]);
    for screen in [of_commands, table, summary::render(&document, &wide)] {
        assert!(!screen.contains("at the same time on CPUs"), "{screen}");
    }
}

/// What is said of a comparison of two commands by a metric, after its ratio and interval.
fn said_of(metric: &str, unit: &str, found: [f64; 3]) -> String {
    let [below, above] = ["A", "B"].map(|command| treatment(&[("command", command)]));
    let mut document = documents::typical();
    let estimates = [(&below, 1.0), (&above, found[0])].map(|(arm, value)| estimate(metric, arm, value, 0.01));
    document.estimates = estimates.map(|row| EstimateRow { unit: unit.to_owned(), ..row }).to_vec();
    document.ratios = vec![RatioRow { metric: metric.to_owned(), ..ratio(&above, &below, found) }];
    document.run.metric = metric.to_owned();
    let text = baremark_report::commands::render(&document, &[], &Style { width: 200, ..Style::default() });
    let line = text.lines().find(|line| line.starts_with("B / A = ")).unwrap_or_else(|| panic!("{text}"));
    line.split_once("): ").expect("an outcome").1.to_owned()
}

/// "0 - 50 % longer" was said of an interval that excludes 1.
#[test]
fn the_nearer_end_of_an_interval_that_excludes_1_is_not_0() {
    let said = [[1.25, 1.002, 1.5], [1.3, 1.1, 1.5], [0.9, 0.8, 0.999_96]].map(|found| said_of("wall_s", "s", found));
    assert_eq!(
        said,
        ["B takes 0.2 - 50.0 % longer.", "B takes 10 - 50 % longer.", "B takes 0.004 - 20.000 % less time."]
    );
}

/// "B takes 6 % longer" was said of programs that ran at once and were compared by CPU time.
#[test]
fn a_comparison_of_commands_says_what_was_compared() {
    // The numbers are those of the interval, whatever was compared.
    let says = |metric: &str, unit: &str, found: [f64; 3]| {
        let outcome = said_of(metric, unit, found);
        let words = outcome.split_whitespace();
        words.filter(|word| !word.starts_with(|first: char| first.is_ascii_digit())).collect::<Vec<_>>().join(" ")
    };
    let (more, less) = ([1.1, 1.08, 1.12], [0.9, 0.88, 0.92]);
    let both = |metric: &str, unit: &str| [more, less].map(|found| says(metric, unit, found));
    assert_eq!(both("wall_s", "s"), ["B takes - % longer.", "B takes - % less time."]);
    assert_eq!(both("cpu_s", "s"), ["B uses - % more CPU time.", "B uses - % less CPU time."]);
    assert_eq!(both("user_s", "s")[0], "B uses - % more CPU time in user mode.");
    assert_eq!(both("system_s", "s")[1], "B uses - % less CPU time in the kernel.");
    assert_eq!(both("peak_memory_bytes", "B")[0], "B uses - % more memory at its peak.");
    assert_eq!(both("context_switches", "1")[1], "B has - % fewer context switches.");
    assert_eq!(both("page_faults", "1")[0], "B has - % more page faults.");
    assert_eq!(both("major_faults", "1")[1], "B has - % fewer page faults that read from a disk.");
    assert_eq!(both("time_of_a_frame", "s")[0], "B takes - % longer.", "what a program reports itself");
    assert_eq!(both("errors", "1"), ["B is worse by - %.", "B is better by - %."]);
}

/// How long a program took next to another shows how long it waited for its CPU.
#[test]
fn run_times_are_not_shown_of_programs_that_ran_at_once() {
    let mut document = documents::bounded();
    let arm = document.estimates[0].treatment.clone();
    for (metric, value) in RUN_TIMES.iter().zip([1.0, 2.0, 3.0, 4.0, 5.0]) {
        let row = estimate(metric.key, &arm, value, 0.1);
        document.estimates.push(EstimateRow { unit: "s".to_owned(), samples: Some(9), ..row });
    }
    let of_commands = |document: &Document| {
        baremark_report::commands::render(document, &[], &Style { width: 200, ..Style::default() })
    };
    let shown = of_commands(&document);
    assert!(shown.contains("9 runs: ") && shown.contains("max 5.00 s"), "{shown}");
    document.run.duet = Some(Duet { cpus: [0, 1], one_core: false });
    let shown = of_commands(&document);
    assert!(shown.contains("9 runs") && !shown.contains("max 5.00 s"), "{shown}");
}

#[test]
fn percentiles_are_a_table_and_a_figure_with_every_trial() {
    let mut document = documents::typical();
    let arms: Vec<_> = document.estimates.iter().take(2).map(|row| row.treatment.clone()).collect();
    for (arm, scale) in arms.iter().zip([1.0, 2.0]) {
        for (metric, value) in [("read_p50_us", 80.0), ("read_p99_us", 400.0), ("read_p99_9_us", 9_000.0)] {
            let row = estimate(metric, arm, value * scale, value * scale * 0.1);
            document.estimates.push(EstimateRow { unit: "us".to_owned(), ..row });
            for trial in document.trials.iter_mut().flat_map(|trial| &mut trial.arms).filter(|of| of.treatment == *arm)
            {
                trial.medians.push(Sample { metric: metric.to_owned(), value: value * scale });
            }
        }
    }
    let page = html::render(&document);
    let (_, figure) = page.split_once("aria-labelledby=\"latency-read_us-0-title").expect("a figure");
    let (figure, _) = figure.split_once("</svg>").expect("its end");
    let count = |what: &str| figure.matches(what).count();
    assert_eq!((count("<polyline"), count("class=\"trial\"")), (2, 2 * 3 * 20), "{figure}");
    assert!(
        [">p50<", ">p99<", ">p99.9<", ">ms<"].iter().all(|part| figure.contains(part)),
        "18 ms in us would be five digits: {figure}"
    );
    assert!(page.contains("read latency (us), microvm with 4k pages"), "a row of the table");
    assert!(!page.contains("read_p99_us"), "and none of the other metrics");
    let text = baremark_report::terminal::render(&document, &Style::default());
    assert!(text.contains("latency by percentile, means of the trials' own: no distributions are stored"), "{text}");
    assert!(!text.contains("median of the trials"), "{text}");
    let is_read = |row: &&mut EstimateRow| row.metric.starts_with("read_p") && row.treatment == arms[0];
    for row in document.estimates.iter_mut().filter(|row| row.metric.starts_with("read_p")) {
        (row.samples, row.median) = (Some(80_000), Some(row.estimate));
    }
    // One slow trial: its requests are in p99 and p99.9 of all, and leave the median of the trials where it was.
    for row in document.estimates.iter_mut().filter(is_read).skip(1) {
        row.median = Some(row.estimate / 5.0);
    }
    let text = baremark_report::terminal::render(&document, &Style { width: 120, ..Style::default() });
    assert!(text.contains("latency by percentile of all trials' samples (value ± 95 % interval)"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let rows: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains("median of the trials")).collect();
    let [row] = rows.as_slice() else { panic!("a row of one treatment: {text}") };
    // Its label takes two lines.
    let medians: Vec<&str> = lines[row - 1].split_whitespace().rev().take(3).collect();
    assert_eq!(medians, ["1800", "80.0", "80.0"], "{text}");
}

/// Percentiles of few samples are shown where others have more, and keys of a stranger's metrics stay within their attributes.
#[test]
fn a_single_percentile_is_shown_and_its_key_is_no_markup() {
    let mut document = documents::typical();
    let arms: Vec<_> = document.estimates.iter().take(2).map(|row| row.treatment.clone()).collect();
    let key = "x\"><b onclick=\"_us";
    for (arm, percentile, value) in [(0, "p50", 80.0), (0, "p99", 400.0), (1, "p50", 123.4), (0, "p95", 0.0)] {
        let metric = key.replace("_us", &format!("_{percentile}_us"));
        let row = estimate(&metric, &arms[arm], value, 0.1 * value);
        document.estimates.push(EstimateRow { unit: "us".to_owned(), ..row });
    }
    let text = baremark_report::terminal::render(&document, &Style { width: 200, ..Style::default() });
    assert!(text.contains("123") && text.contains("400"), "{text}");
    let page = html::render(&document);
    assert!(!page.contains("x\"><b") && !page.contains("inf"), "{page}");
}

/// The spread of a program's run times is next to their estimate, in a table and in a figure.
#[test]
fn run_times_have_their_quartiles_in_every_form() {
    let mut document = documents::typical();
    let treatment = document.estimates[0].treatment.clone();
    let seconds = [
        ("run_time_p00_s", 0.0176),
        ("run_time_p25_s", 0.0179),
        ("run_time_p50_s", 0.0181),
        ("run_time_p75_s", 0.0185),
        ("run_time_max_s", 0.0251),
        ("user_s", 0.0167),
        ("system_s", 0.00115),
    ];
    for (key, seconds) in seconds {
        let of_runs = key.starts_with("run_time");
        let (mean, sd) = of_runs.then_some((0.0182, 0.00071)).unzip();
        let row = documents::estimate(key, &treatment, seconds, 0.0);
        let row = EstimateRow { samples: of_runs.then_some(1392), mean, sd, ..row };
        document.estimates.push(EstimateRow { unit: "s".to_owned(), lo: None, hi: None, ..row });
    }
    let text = baremark_report::commands::render(&document, &[], &Style::default());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let spread = "1392 runs: mean 18.2, sd 0.710, min 17.6, p25 17.9, p75 18.5, max 25.1 ms; user 16.7, system 1.15 ms";
    assert!(words.contains(spread), "{text}");
    let screen = summary::render(&document, &Style::default());
    assert!(screen.contains("\nRuns    min 17.6, p25 17.9, p50 18.1, p75 18.5, max 25.1 ms.\n"), "{screen}");
    let page = baremark_report::html::render(&document);
    assert!(page.contains("run time by percentile"), "{page}");
    let details = baremark_report::terminal::render(&document, &Style::default());
    assert!(details.contains("run time by percentile") && details.contains("18.2"), "{details}");
    assert!(page.contains("run time (ms), "), "no value is a second: {page}");
}

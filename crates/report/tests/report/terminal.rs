//! The report as a terminal and a pipe show it.

use crate::documents;
use baremark_model::codes::{Cause, Flag, Hindrance, ReasonCode};
use baremark_model::document::{
    Document, EstimateRow, ExplanationRow, FlagRow, Grade, MemberEstimate, RatioRow, Reliability, UsedEnvironment,
};
use baremark_model::environments::Capabilities;
use baremark_model::plan::{Absent, PlannedWorkload, Treatment};
use baremark_model::units::UnixTime;
use baremark_report::history::{self, ChangeRow, HistoryRow, SeriesRow};
use baremark_report::{Color, Style, commands, json, summary, terminal};

const STYLE: Style = Style { width: 80, color: Color::Never, unicode: true };

macro_rules! golden {
    ($($name:ident: $document:expr, $style:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let text = terminal::render(&$document, &$style);
                let style: Style = $style;
                if style.color == Color::Never {
                    for line in text.lines() {
                        // A command is not broken, however narrow the terminal is.
                        let fits = columns(line) <= style.width || is_command(line);
                        assert!(fits, "{} columns: {line}", columns(line));
                        assert_eq!(line, line.trim_end(), "no blanks at the end");
                    }
                }
                insta::assert_snapshot!(text);
            }
        )*
    };
}

/// Whether a line is a command alone, after its label.
fn is_command(line: &str) -> bool {
    line.trim_start().trim_start_matches("reproduce").trim_start().starts_with("baremark ")
}

/// Columns of a line, as far as these documents go: their only wide characters are Japanese.
fn columns(line: &str) -> usize {
    line.chars().map(|c| if c >= '\u{2e80}' { 2 } else { 1 }).sum()
}

golden! {
    typical: documents::typical(), STYLE;
    bounded_on_bare_metal: documents::bounded(), STYLE;
    self_check_quick: documents::self_check(), STYLE;
    absent_microvm: documents::absent(), STYLE;
    page_size_contrasts: documents::page_sizes(), STYLE;
    flags_and_an_overturned_verdict: documents::flagged(), STYLE;
    narrow: documents::flagged(), Style { width: 44, ..STYLE };
    wide_table_of_a_cost: documents::wide(), STYLE;
    wide_table_at_120: documents::wide(), Style { width: 120, ..STYLE };
    another_factor_than_the_environment: documents::scaling(), STYLE;
    two_published_tables: documents::stream(), STYLE;
    agreement_with_a_published_table: documents::shadow(), Style { width: 120, ..STYLE };
    agreement_with_gains_and_other_tables: documents::offloads(), Style { width: 100, ..STYLE };
    several_workloads: documents::several(), STYLE;
    native_stands_beside_every_count: documents::divided(), STYLE;
    members_of_an_ensemble: documents::ensemble(), STYLE;
    nothing_was_measured: documents::nothing(), STYLE;
    ascii: documents::bounded(), Style { unicode: false, ..STYLE };
    colored: documents::flagged(), Style { color: Color::Always, ..STYLE };
}

#[test]
fn predictions_stand_beside_what_was_measured_and_in_the_place_of_what_was_not() {
    let beside = terminal::render(&documents::predicted(), &STYLE);
    let flat = beside.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Predicted from page walks"), "{beside}");
    assert!(flat.contains("(nested, guest 4k on host 2m)"), "{beside}");
    assert_eq!(flat.matches("beyond both intervals: not explained").count(), 1, "{beside}");
    let filled = terminal::render(&documents::filled(), &STYLE);
    assert_eq!(filled.matches("predicted, not measured").count(), 2, "each absent cell: {filled}");
    assert!(filled.contains("not available here [1]") && filled.contains("0.974 (0.953 to 0.995)"), "{filled}");
    let page = baremark_report::html::render(&documents::filled());
    assert!(page.contains("predicted, not measured") && page.contains("0.974 (0.953 to 0.995)"));
    assert!(!terminal::render(&documents::typical(), &STYLE).contains("Predicted"), "nothing to say");
}

#[test]
fn a_published_gain_of_rates_is_compared_with_a_ratio_of_times_turned_over() {
    let text = terminal::render(&documents::modes_of_paging(), &Style { width: 120, ..STYLE });
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("1.420; published 1.420 sign same; size the same"), "{text}");
    assert_eq!(text.matches("compile of Apache, 4 vCPUs").count(), 2, "as printed, and here: {text}");
    assert!(!text.contains("XenApp"), "a row of another workload: {text}");
}

#[test]
fn exits_are_the_cause_where_they_explain_most_of_what_a_program_takes_longer() {
    let text = |explained| {
        let shown = baremark_report::summary::render(&documents::left_often(explained), &STYLE);
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let named = "Exits from the microVM explain";
    assert!(text(90.0).contains(named), "{}", text(90.0));
    assert!(text(90.0).contains("(number x cost of one here)"), "{}", text(90.0));
    // Of 1 s, where 0.1 s are without: 0.43 to 0.47 s of 0.898 to 0.902 s more is not shown to be most, and 0.455 to 0.495 s is.
    assert!(!text(45.0).contains(named), "{}", text(45.0));
    assert!(
        text(47.5).contains("Exits from the microVM explain 52.8 ± 2.3 % of the time that it adds"),
        "{}",
        text(47.5)
    );
    assert!(text(95.0).contains("explain all of the time that it adds"), "{}", text(95.0));
}

/// "63 ± 2 %" was said of a time that a program takes longer of which no more was known than that it is 1 to 9 % of the other.
#[test]
fn exits_are_no_cause_of_a_time_that_may_be_twice_as_long_as_they_take() {
    let is_named = |[lo, hi]: [f64; 2]| {
        let mut document = documents::left_often(3.0);
        let [native, inside, exits] = &mut document.estimates[..] else { panic!("three estimates") };
        (native.estimate, inside.estimate) = (1.0, 1.05);
        (exits.lo, exits.hi) = (Some(2.9), Some(3.1));
        let row = &mut document.ratios[0];
        (row.ratio, row.lo, row.hi) = (Some(1.05), Some(lo), Some(hi));
        summary::render(&document, &STYLE).contains("Cause   Exits from the microVM")
    };
    assert!(is_named([1.045, 1.055]), "0.0305 s and more of 0.055 s");
    assert!(!is_named([1.01, 1.09]), "0.0305 s of 0.087 s is not most of it");
}

/// The exits of all CPUs were added and held against wall time: those of four CPUs "explain all" of what they explain a quarter of.
#[test]
fn exits_of_several_cpus_at_once_are_no_part_of_wall_time() {
    let shown = |user_s: f64| {
        let mut document = documents::left_often(90.0);
        let (inside, cost) = (document.ratios[0].treatment.clone(), "exit_cost_ns");
        document.estimates.push(documents::estimate("user_s", &inside, user_s, 0.01));
        document.estimates.push(documents::estimate(cost, &inside, 2000.0, 1.0));
        let whole = commands::render(&document, &[(String::new(), "work".to_owned())], &STYLE);
        [summary::render(&document, &STYLE), whole].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let named = "Cause Exits from the microVM explain";
    let [first, whole] = shown(0.9);
    assert!(first.contains(named), "{first}");
    assert!(whole.contains("exits explain 90.0 % (95 %: 88.0 - 92.0 %) of its time"), "{whole}");
    let [first, whole] = shown(4.0);
    assert!(!first.contains(named), "{first}");
    assert!(whole.contains("exits explain 22.5 % (95 %: 22.0 - 23.0 %) of its CPU time"), "{whole}");
}

/// A part was the cause by estimates alone, although its interval left room for next to nothing of the difference.
#[test]
fn cpu_time_is_a_cause_where_it_is_certainly_most_of_the_difference() {
    let is_named = |wall: [f64; 3], user: [f64; 3]| {
        let mut document = documents::left_often(0.0);
        document.estimates.pop();
        let [native, inside] = &mut document.estimates[..] else { panic!("two estimates") };
        (native.estimate, inside.estimate) = (1.0, wall[0]);
        let row = document.ratios[0].clone();
        for (treatment, estimate) in [(&row.relative_to, 0.9), (&row.treatment, 0.9 * user[0])] {
            document.estimates.push(documents::estimate("user_s", treatment, estimate, 0.001));
        }
        let ratio = |metric: &str, [ratio, lo, hi]: [f64; 3]| RatioRow {
            metric: metric.to_owned(),
            ratio: Some(ratio),
            lo: Some(lo),
            hi: Some(hi),
            ..row.clone()
        };
        document.ratios = vec![ratio("wall_s", wall), ratio("user_s", user)];
        summary::render(&document, &STYLE).contains("Cause   CPU time in user mode")
    };
    assert!(is_named([1.03, 1.029, 1.031], [1.033, 1.031, 1.035]), "0.028 s and more of 0.031 s");
    assert!(!is_named([1.03, 1.01, 1.05], [1.033, 1.005, 1.06]), "0.0045 s of 0.05 s");
}

#[test]
fn many_rows_beside_the_studys_own_are_left_to_other_formats() {
    let mut document = documents::ensemble();
    let (own, beside) = (documents::ensemble().estimates, 31);
    for number in 0..beside {
        let named = |row: &EstimateRow| EstimateRow { metric: format!("beside_{number}"), ..row.clone() };
        document.estimates.extend(own.iter().filter(|row| row.metric == "window").map(named));
        let of = |row: &MemberEstimate| MemberEstimate { metric: format!("beside_{number}"), ..row.clone() };
        document.members.extend(documents::ensemble().members.iter().filter(|row| row.metric == "window").map(of));
    }
    let text = terminal::render(&document, &STYLE);
    assert!(text.contains("--html and --csv have 66 more rows: Other metrics; Members of"), "{text}");
    assert!(!text.contains("beside_7") && text.contains("40110"), "{text}");
    let page = baremark_report::html::render(&document);
    assert!(page.contains("beside_7") && page.contains("member 2"), "the page has all of it");
    let csv = baremark_report::csv::results(&document);
    let lines = |kind: &str| csv.lines().filter(|line| line.starts_with(&format!("{kind},beside_7,"))).count();
    assert_eq!((lines("estimate") > 0, lines("member")), (true, 2), "and so have lines of values: {csv}");
}

#[test]
fn no_width_panics_or_loses_the_verdict() {
    for width in 0..200 {
        for document in [documents::wide(), documents::flagged(), documents::absent()] {
            let text = terminal::render(&document, &Style { width, ..STYLE });
            assert!(text.contains("Result"), "{text}");
        }
    }
}

#[test]
fn inside_a_virtual_machine_bare_metal_is_never_said() {
    for document in [documents::typical(), documents::page_sizes(), documents::self_check(), documents::wide()] {
        assert!(!terminal::render(&document, &STYLE).contains("bare metal"));
    }
}

#[test]
fn what_others_wrote_cannot_drive_the_terminal() {
    let mut document = documents::flagged();
    document.run.study = "a\x1b]0;owned\x07b".to_owned();
    document.flags[0].text = "c\x1b[2Jd".to_owned();
    document.run.stop_reason = Some("e\rf".to_owned());
    let text = terminal::render(&document, &STYLE);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn json_reads_back() {
    for document in [documents::typical(), documents::flagged(), documents::nothing()] {
        let text = json::render(&document);
        assert!(text.ends_with("}\n"));
        let read: baremark_model::document::Document = serde_json::from_str(&text).expect("a document");
        assert_eq!(read, document);
    }
}

#[test]
fn history_of_runs() {
    let row = |id: &str, minute: u64, state: &str, blocks, reason: Option<&str>| HistoryRow {
        id: id.to_owned(),
        title: "StarRandomAccess: native against virtual, small and large pages".to_owned(),
        started: UnixTime(1_763_696_157_000_000_000 + minute * 60_000_000_000),
        state: state.to_owned(),
        blocks,
        stop_reason: reason.map(str::to_owned),
    };
    let rows = [
        row("20251121-0420-77c1", 45, "live", 3, None),
        row("20251121-0351-0b5e", 16, "killed", 112, None),
        row("20251121-0335-3fa9", 0, "finished", 20, Some("precision reached")),
    ];
    insta::assert_snapshot!(history::render(&rows, &STYLE));
    assert_eq!(history::render(&[], &STYLE), "No run has been stored yet.\n");
}

macro_rules! first_screen {
    ($($name:ident: $document:expr, $width:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let text = summary::render(&$document, &Style { width: $width, ..STYLE });
                for line in text.lines() {
                    assert!(columns(line) <= $width, "{} columns: {line}", columns(line));
                    assert_eq!(line, line.trim_end(), "no blanks at the end");
                }
                // Rows with their values are worth five lines more.
                assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
                insta::assert_snapshot!(text);
            }
        )*
    };
}

first_screen! {
    answer_of_several_workloads: documents::several(), 80;
    answer_of_several_workloads_at_60: documents::several(), 60;
    answer_typical: documents::typical(), 80;
    answer_typical_at_60: documents::typical(), 60;
    answer_bounded: documents::bounded(), 80;
    answer_flagged: documents::flagged(), 80;
    answer_self_check: documents::self_check(), 80;
    answer_nothing: documents::nothing(), 80;
    answer_wide_at_60: documents::wide(), 60;
    answer_another_factor: documents::scaling(), 80;
    answer_absent: documents::absent(), 80;
}

/// Where no virtual machine could be measured the first screen has what a model predicts, labelled as such, and how to measure.
#[test]
fn the_first_screen_predicts_what_could_not_be_measured() {
    let document = documents::filled();
    let text = summary::render(&document, &STYLE);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let model = "Model Predicted for microvm / native, not measured (nested paging alone, 95 % interval of the model): \
                 4k pages 0.846 (0.778 to 0.885); 2m pages 0.974 (0.953 to 0.995).";
    assert!(flat.contains(model), "{text}");
    assert!(flat.contains("Measure microvm: /dev/kvm cannot be opened"), "{text}");
    assert!(text.lines().count() <= 25, "{text}");
    let mut alike = document.clone();
    let first = alike.predictions[0].clone();
    for row in &mut alike.predictions {
        (row.ratio, row.lo, row.hi) = (first.ratio, first.lo, first.hi);
    }
    let alike = summary::render(&alike, &Style { width: 200, ..STYLE });
    assert!(alike.contains("of the model): 4k pages, 2m pages 0.846 (0.778 to 0.885)."), "said once: {alike}");
    let measured = summary::render(&documents::predicted(), &STYLE);
    assert!(!measured.contains("Predicted for"), "a measured machine needs no prediction: {measured}");
    // Of a virtual machine that runs, what one workload lacks is in the details.
    let mut partly = document;
    partly.estimates[0].treatment = partly.predictions[0].treatment.clone();
    let partly = summary::render(&partly, &STYLE);
    assert!(!partly.contains("Predicted for"), "it runs: {partly}");
}

#[test]
fn the_first_screen_says_what_intervals_do_not_include() {
    let said = |fresh: &str, ended: Option<&str>| {
        let mut document = documents::typical();
        document.run.environments = vec![UsedEnvironment {
            name: "microvm".to_owned(),
            place: "container".to_owned(),
            settings: [("fresh".to_owned(), fresh.to_owned())].into(),
            lacks: Vec::new(),
        }];
        if ended.is_none() {
            (document.run.ended, document.run.stop_reason) = (None, Some("interrupted by the user".to_owned()));
        }
        let text = summary::render(&document, &Style { width: 200, ..STYLE });
        let once = text.contains("Started once for all trials: microvm; intervals do not include how starts differ.");
        let stopped = text.contains("Intervals hold where their result was no reason to stop.");
        (once, stopped)
    };
    let ended = Some("2025-11-21T03:37:41Z");
    assert_eq!(
        [said("run", ended), said("block", ended), said("trial", None)],
        [(true, false), (false, false), (false, true)]
    );
}

#[test]
fn the_first_screen_names_what_isolates_a_sandbox_and_what_it_lacks() {
    let mut document = documents::absent();
    let settings = [("layers", "mount pid seccomp"), ("lacks", "user (No space left on device)")];
    document.run.environments = vec![UsedEnvironment {
        name: "sandbox".to_owned(),
        place: "sandbox".to_owned(),
        settings: settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        lacks: vec!["user".to_owned()],
    }];
    let text = summary::render(&document, &Style { width: 200, ..STYLE });
    let note = "sandbox: namespaces and filters on this kernel, not a VM; lacks user.";
    assert!(text.contains(note), "what the kernel said is in the details: {text}");
}

/// A document of a later version, with an environment that this one has no row of, says itself what it is.
#[test]
fn an_environment_is_known_by_what_the_document_says_that_it_can() {
    let renamed = |can: Option<Capabilities>| {
        let mut document = documents::typical();
        let rename = |treatment: &mut Treatment| {
            if let Some(label) = treatment.get_mut("environment").filter(|label| *label == "microvm") {
                "unikernel".clone_into(label);
            }
        };
        document.ratios.iter_mut().for_each(|row| rename(&mut row.treatment));
        document.estimates.iter_mut().for_each(|row| rename(&mut row.treatment));
        document.run.capabilities.extend(can.map(|can| ("unikernel".to_owned(), can)));
        let first = summary::render(&document, &Style { width: 200, ..STYLE });
        (
            first.contains("a lower bound for a VM"),
            terminal::render(&document, &Style { width: 200, ..STYLE }).contains("unikernel: CPU and MMU part only"),
        )
    };
    let microvm = baremark_model::environments::can("microvm");
    assert_eq!(renamed(Some(microvm)), (true, true));
    assert_eq!(renamed(Some(Capabilities { devices: true, ..microvm })), (false, false));
    assert_eq!(renamed(None), (false, false), "of an earlier version's document nothing is known of it");
    let document = documents::typical();
    assert_eq!(document.run.can("microvm"), microvm, "by its name");
}

#[test]
fn a_container_is_named_as_the_machine() {
    let mut document = documents::typical();
    let virtualization = &mut document.run.machine.virtualization;
    virtualization.container_hints.push("/run/.containerenv exists".to_owned());
    assert!(!summary::render(&document, &STYLE).contains("container"), "a file alone makes no container");
    document.run.machine.virtualization.own_processes = Some(true);
    let text = summary::render(&document, &Style { width: 200, ..STYLE });
    assert!(text.contains("(a container in a virtual machine)"), "{text}");
}

/// The cause that the first screen names, of ratios with 4k and with 2m pages and more explanations of the former.
fn cause<'w>(ratios: [[f64; 3]; 2], explained: impl IntoIterator<Item = (Cause, &'w str, f64, &'w str)>) -> String {
    let mut document = documents::typical();
    for (row, found) in document.ratios.iter_mut().zip(ratios) {
        *row = documents::ratio(&row.treatment, &row.relative_to, found);
    }
    let treatment = document.ratios[0].treatment.clone();
    document.explanations = explained
        .into_iter()
        .map(|(cause, what, value, advice)| ExplanationRow {
            treatment: treatment.clone(),
            cause: Some(cause),
            what: what.to_owned(),
            unit: "%".to_owned(),
            value,
            lo: value - 2.0,
            hi: value + 2.0,
            advice: advice.to_owned(),
        })
        .collect();
    let text = summary::render(&document, &Style { width: 200, ..STYLE });
    text.lines().find_map(|line| line.strip_prefix("Cause   ")).unwrap_or_default().to_owned()
}

/// Strong injections, a control first: half of the speed is lost to page walks, to a neighbour, to nothing that was measured.
#[test]
fn the_cause_is_what_was_injected() {
    const EQUAL: [f64; 3] = [0.998, 0.993, 1.003];
    const HALF: [f64; 3] = [0.5, 0.49, 0.51];
    let neighbour = (
        Cause::OtherPrograms,
        "CPU use by other programs in timed phases beyond native",
        48.0,
        "other programs disturbed it more",
    );
    let hog = (
        Cause::Queued,
        "ready to run while others had the CPU, in timed phases",
        50.0,
        "other programs use these CPUs",
    );
    assert_eq!(cause([EQUAL; 2], None), "", "the control");
    assert_eq!(cause([EQUAL; 2], Some(neighbour)), "", "nothing was lost");
    assert_eq!(cause([HALF, EQUAL], None), "Page walks; with 2m pages: equivalent within 2 %.");
    assert_eq!(cause([HALF; 2], None), "No cause found in the measured quantities.", "2m pages lose as much");
    assert_eq!(
        cause([HALF; 2], Some(neighbour)),
        "Other programs: CPU use by other programs in timed phases beyond native 48.0 ± 2.0 %."
    );
    let communication = |percent: f64| (Cause::OwnTime, "extra communication, of native's step_us", percent, "");
    assert_eq!(
        cause([HALF; 2], [communication(40.0), neighbour]),
        "Extra communication, of native's step_us: 40.0 ± 2.0 % of 50 %.",
        "the run's own time comes first"
    );
    assert!(cause([HALF; 2], [communication(20.0), neighbour]).starts_with("Other programs"), "less than half");
    let calls =
        (Cause::SystemCalls, "extra time of system calls (9 a run), of native's wall_s", 30.0, "a call takes 2 ns");
    assert_eq!(
        cause([HALF; 2], [communication(40.0), calls]),
        "Extra time of system calls (9 a run), of native's wall_s: 30.0 ± 2.0 % of 50 %.",
        "what was examined says more than what the run's own metrics show"
    );
    let faults = (Cause::PageFaults, "extra time of page faults (9 a run), of native's wall_s", 30.0, "");
    let of_another = (Cause::SystemCalls, "extra time of system calls (9 a run), of container's wall_s", 30.0, "");
    assert_eq!(
        cause([HALF; 2], [faults, of_another, communication(40.0)]),
        "Extra communication, of native's step_us: 40.0 ± 2.0 % of 50 %.",
        "faults are timed where each clears a page, and the calls are of another ratio"
    );
    assert!(cause([HALF; 2], Some(hog)).starts_with("Other programs: ready to run while others had the CPU"));
    let by_memory = "Other programs, by memory or caches: CPU use by other programs";
    let [rest, control] = [
        (Cause::BeyondComputing, "overhead that computing alone does not explain"),
        (Cause::ComputingInTheSameBlocks, "overhead of computing alone in the same blocks"),
    ];
    let beside = |rest_by: f64, control_by: f64| {
        cause([HALF; 2], [neighbour, (rest.0, rest.1, rest_by, "most of it"), (control.0, control.1, control_by, "")])
    };
    assert!(beside(98.0, 0.5).starts_with(by_memory), "what only computes loses nothing");
    assert!(!beside(4.0, 90.0).starts_with(by_memory), "what only computes loses as much");
}

/// On a machine where ranks of both arms waited alike for their CPUs, that was the cause of a loss of which it makes nothing.
#[test]
fn waiting_for_cpus_is_a_cause_where_the_reference_waited_less() {
    let cause = |of_reference: f64| {
        let mut document = documents::typical();
        for row in &mut document.ratios {
            *row = documents::ratio(&row.treatment, &row.relative_to, [0.5, 0.49, 0.51]);
        }
        let row = &document.ratios[0];
        let waited =
            [(&row.treatment, 50.0), (&row.relative_to, of_reference)].map(|(treatment, value)| ExplanationRow {
                treatment: treatment.clone(),
                cause: Some(Cause::Queued),
                what: "ready to run while others had the CPU, in timed phases".to_owned(),
                unit: "%".to_owned(),
                value,
                lo: value - 2.0,
                hi: value + 2.0,
                advice: "other programs use these CPUs".to_owned(),
            });
        document.explanations = waited.to_vec();
        let text = summary::render(&document, &Style { width: 200, ..STYLE });
        text.lines().find_map(|line| line.strip_prefix("Cause   ")).unwrap_or_default().to_owned()
    };
    assert!(cause(10.0).starts_with("Other programs: ready to run while others had the CPU"), "{}", cause(10.0));
    assert_eq!(cause(49.0), "No cause found in the measured quantities.");
}

/// A virtual machine that is faster than native is no gain by virtualization: the first screen says what else differs.
#[test]
fn what_else_differs_where_a_virtual_machine_is_faster_is_a_note() {
    let noted = |found: [f64; 3], workload: &str| {
        let mut document = documents::several();
        let row = &document.ratios[0];
        let mut treatment = row.treatment.clone();
        document.ratios[0] = documents::ratio(&treatment, &row.relative_to, found);
        treatment.insert("workload".to_owned(), workload.to_owned());
        let why = "its memory is made of larger pages".to_owned();
        let text = format!("faster than native beyond the interval: {why}");
        document.flags.push(FlagRow { treatment, text, trials: 0, code: Some(Flag::FasterThanNative(why)) });
        let text = summary::render(&document, &Style { width: 200, ..STYLE });
        text.lines().find_map(|line| line.strip_prefix("Note    ")).unwrap_or_default().to_owned()
    };
    let note = noted([1.1, 1.05, 1.15], "random-access");
    assert!(note.ends_with(" is faster than native: its memory is made of larger pages."), "{note}");
    assert!(note.starts_with("random-access, "), "{note}");
    assert_eq!(noted([1.1, 1.05, 1.15], "fma"), "", "of another workload");
    assert_eq!(noted([0.998, 0.993, 1.003], "random-access"), "", "no faster");
}

/// Every first screen grades the conditions of its run, and names what lowers the grade.
#[test]
fn the_first_screen_says_how_good_the_conditions_were() {
    let said = |found: Option<Reliability>| {
        let document = Document { reliability: found, ..documents::typical() };
        let text = summary::render(&document, &Style { width: 200, ..STYLE });
        text.lines().find(|line| line.starts_with("Reliability")).map(str::to_owned)
    };
    let graded = |grade, reasons: &[&str]| {
        let reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
        Some(Reliability { grade, reasons, hindrances: Vec::new(), programs: Vec::new() })
    };
    assert_eq!(said(None), None, "of an import nothing is known");
    assert_eq!(said(graded(Grade::Good, &[])).as_deref(), Some("Reliability: good"));
    let reasons = ["other programs used 81 % of the CPUs (cc1 61 %, make 9 %)", "3 of 9 trials are invalid"];
    assert_eq!(
        said(graded(Grade::Poor, &reasons)).as_deref(),
        Some(
            "Reliability: poor: other programs used 81 % of the CPUs (cc1 61 %, make 9 %); 3 of 9 trials are invalid."
        )
    );
}

/// What helps was said of a program's wall time alone.
#[test]
fn whatever_lowers_the_reliability_is_shown_with_what_helps() {
    let said = |metric: &str, hindrances: &[Hindrance]| {
        let (reasons, hindrances) = (vec!["this".to_owned()], hindrances.to_vec());
        let found = Reliability { grade: Grade::Fair, reasons, hindrances, programs: Vec::new() };
        let mut document = Document { reliability: Some(found), ..documents::typical() };
        document.run.metric = metric.to_owned();
        let text = summary::render(&document, &Style { width: 300, ..STYLE });
        text.lines().find(|line| line.starts_with("Reliability")).map(str::to_owned).expect("a line")
    };
    let metric = documents::typical().run.metric;
    let quiet = "Reliability: fair: this. --wait-quiet begins when other programs are idle.";
    assert_eq!(said(&metric, &[Hindrance::OtherPrograms]), quiet);
    assert_eq!(said(&metric, &[Hindrance::OtherPrograms, Hindrance::Queued]), quiet, "they wait for these programs");
    assert_eq!(
        said(&metric, &[Hindrance::Queued]),
        "Reliability: fair: this. Fewer ranks than CPUs leave others a CPU."
    );
    let memory = "Reliability: fair: this. --set path=FOLDER measures the disk of another folder.";
    assert_eq!(said(&metric, &[Hindrance::InMemory]), memory);
    let quota = "Reliability: fair: this. Raise the CPU quota (cpu.max of the control group).";
    assert_eq!(said(&metric, &[Hindrance::Throttled]), quota);
    assert_eq!(said(&metric, &[Hindrance::Stolen]), "Reliability: fair: this.", "nothing here helps against that");
    let of_program = "Reliability: fair: this. --by cpu_s compares CPU time, which others change less. --wait-quiet begins when \
                      other programs are idle.";
    assert_eq!(said("wall_s", &[Hindrance::OtherPrograms]), of_program);
    assert_eq!(
        said("wall_s", &[Hindrance::InvalidTrials]),
        "Reliability: fair: this.",
        "a program that fails uses less CPU time, too"
    );
}

/// A study of page sizes alone: its ratios answer it, and the loss with small pages is that of page walks.
#[test]
fn page_sizes_that_are_compared_with_each_other_name_page_walks() {
    let mut document = documents::typical();
    let mut row = document.ratios[0].clone();
    row.treatment = documents::arm("native", "4k");
    row.relative_to = documents::arm("native", "2m");
    row = documents::ratio(&row.treatment, &row.relative_to, [0.45, 0.44, 0.46]);
    row.contrast = baremark_model::plan::Contrast::PageSize;
    let gain = |value: f64| ExplanationRow {
        treatment: row.treatment.clone(),
        cause: Some(Cause::LargerPages),
        what: "speedup by 2m pages".to_owned(),
        unit: "%".to_owned(),
        value,
        lo: value - 5.0,
        hi: value + 5.0,
        advice: "give the application 2m pages".to_owned(),
    };
    document.ratios = vec![row.clone()];
    let mut shown = |explanations: Vec<ExplanationRow>| {
        document.explanations = explanations;
        summary::render(&document, &Style { width: 200, ..STYLE })
    };
    let named = shown(vec![gain(122.0)]);
    assert!(named.contains("Cause   Page walks; 2m pages alone are faster by 122.0 ± 5.0 %."), "{named}");
    assert!(named.contains("Advice  use 2m pages: 117 to 127 % faster here."), "{named}");
    assert!(named.contains("0.450"), "the ratio is the answer: {named}");
    let unknown = shown(vec![gain(2.0)]);
    assert!(unknown.contains("Cause   No cause found"), "the gain could be none: {unknown}");
}

/// The first screen said "use 2m pages: 6 to 182 % faster" next to contrasts of -18 and -36 %.
#[test]
fn advice_follows_from_all_contrasts_of_an_environment() {
    let gain = |backing: &str, lo: f64, hi: f64| {
        let mut treatment = documents::arm("microvm", "4k");
        treatment.insert("host_backing".to_owned(), backing.to_owned());
        let advice = if lo > 2.0 { "give the application 2m pages" } else { "" };
        ExplanationRow {
            treatment,
            cause: Some(Cause::LargerPages),
            what: "speedup by 2m pages".to_owned(),
            unit: "%".to_owned(),
            value: 0.5 * (lo + hi),
            lo,
            hi,
            advice: advice.to_owned(),
        }
    };
    let advice = |explanations: Vec<ExplanationRow>| {
        let mut document = documents::typical();
        document.run.factors.retain(|(key, _)| key != "host_backing");
        document.run.factors.push(("host_backing".to_owned(), vec!["4k".to_owned(), "2m".to_owned()]));
        document.explanations = explanations;
        let text = summary::render(&document, &Style { width: 200, ..STYLE });
        text.lines().find_map(|line| Some(line.strip_prefix("Advice  ")?.to_owned()))
    };
    let both = advice(vec![gain("4k", 4.0, 9.0), gain("2m", 6.0, 12.0)]);
    assert_eq!(both.as_deref(), Some("use 2m pages in the guest: 4 to 12 % faster here."));
    assert_eq!(advice(vec![gain("4k", 6.0, 182.0), gain("2m", -45.0, -26.0)]), None, "they contradict each other");
    let one = advice(vec![gain("4k", 6.0, 12.0), gain("2m", -1.0, 3.0)]).expect("advice");
    assert!(one.contains("(microvm with 4k pages and host backing 4k)"), "{one}");
}

/// The bound is the control's noise where it is large.
#[test]
fn the_cost_of_vm_exits_is_bounded_below_2_percent_alone() {
    let shown = |document: &_| summary::render(document, &STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
    let bounds = |[ratio, lo, hi]: [f64; 3]| {
        let mut document = documents::several();
        let control =
            document.ratios.iter_mut().find(|row| row.treatment.get("workload").is_some_and(|of| of == "fma"));
        let control = control.expect("the control");
        (control.ratio, control.lo, control.hi) = (Some(ratio), Some(lo), Some(hi));
        shown(&document).contains("VM exits cost at most")
    };
    assert!(bounds([0.998, 0.993, 1.003]));
    assert!(!bounds([0.95, 0.9, 1.003]), "its noise");
    // "At most 0 %" was said.
    assert!(!bounds([1.008, 1.004, 1.012]), "what makes it faster may hide any cost");
}

#[test]
fn a_workload_that_this_machine_cannot_have_is_named_with_the_reason() {
    let mut document = documents::several();
    let shown = |document: &_| summary::render(document, &STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
    let absent = |place: &str, workload: &str, code, reason: &str| {
        let mut treatment = documents::arm(place, "2m");
        treatment.insert("workload".to_owned(), workload.to_owned());
        Absent { treatment, code: Some(code), reason: reason.to_owned() }
    };
    // One that has no value yet, and cannot run in one of the places.
    document.absent.push(absent("microvm", "hpl", ReasonCode::Executor, "no guest kernel"));
    assert!(!shown(&document).contains("Not run"), "{}", shown(&document));
    for place in ["native", "microvm"] {
        let reason = "array needs 11520 MiB of memory in one trial, and 9.1 GiB are available";
        document.absent.push(absent(place, "stream", ReasonCode::Memory, reason));
    }
    let said = "Not run stream: array needs 11520 MiB of memory in one trial, and 9.1 GiB are available.";
    assert!(shown(&document).contains(said), "{}", shown(&document));
    let of_stream = PlannedWorkload { kind: "stream".to_owned(), metric: "triad_mb_per_s".to_owned(), published: None };
    document.run.workloads.push(of_stream);
    let details = terminal::render(&document, &STYLE);
    assert!(details.contains("Nothing could be compared with native, microvm: array needs"), "{details}");
    assert!(!details.contains("No trial had ended"), "{details}");
}

/// Skewed values have both ends, and a percentile of fewer trials its number.
#[test]
fn skewed_intervals_and_smaller_numbers_of_trials_are_shown() {
    let mut document = documents::typical();
    let row = &mut document.estimates[0];
    (row.estimate, row.lo, row.hi) = (0.010, Some(0.008), Some(0.061));
    let row = &mut document.estimates[1];
    (row.over, row.n) = (Some("latency_p99_us".to_owned()), 3);
    let text = terminal::render(&document, &STYLE);
    assert!(text.contains("0.010 (0.008 - 0.061)") && text.contains("0.01561 ± 0.00015, n = 3"), "{text}");
}

/// A matrix of 1,000 was compared with one of 40,000.
#[test]
fn a_study_of_another_size_than_the_published_one_is_not_compared_in_size() {
    let mut document = documents::typical();
    (document.run.workload, document.run.metric) = ("hpl".to_owned(), "gflops".to_owned());
    document.run.published = Some("hpc-memory-2010/hpl".to_owned());
    for row in &mut document.estimates {
        (row.metric, row.unit) = ("gflops".to_owned(), "GFLOP/s".to_owned());
    }
    document.ratios.iter_mut().for_each(|row| row.metric = "gflops".to_owned());
    for arm in document.trials.iter_mut().flat_map(|trial| &mut trial.arms) {
        arm.mmu = Some("nested paging".to_owned());
    }
    let mut shown = |n: &str| {
        document.run.parameters.insert("n".to_owned(), n.to_owned());
        let text = terminal::render(&document, &Style { width: 200, ..STYLE });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let small = shown("1000");
    assert!(small.contains("size not compared: n = 1000, published 40000"), "{small}");
    let published = shown("40000");
    assert!(!published.contains("size not compared") && published.contains("size "), "{published}");
}

/// "2 blocks" stood above "3 of 6 blocks".
#[test]
fn blocks_of_which_a_cell_is_lacking_are_not_counted_without_a_word() {
    let mut document = documents::typical();
    document.run.blocks = Some(2);
    document.ratios[0].blocks = 3;
    let text = summary::render(&document, &Style { width: 200, ..STYLE });
    assert!(text.contains("; 2 complete blocks, 84 s of trials; run"), "{text}");
    document.ratios.iter_mut().for_each(|row| row.blocks = 2);
    assert!(summary::render(&document, &Style { width: 200, ..STYLE }).contains("; 2 blocks, "));
}

#[test]
fn inconclusive_rows_are_counted_with_the_widest() {
    let mut document = documents::bounded();
    for (row, limits) in document.ratios.iter_mut().zip([[1.2, 0.4, 3.0], [0.99, 0.96, 1.02]]) {
        *row = documents::ratio(&row.treatment, &row.relative_to, limits);
    }
    let text = summary::render(&document, &Style { width: 200, ..STYLE });
    let result =
        "Result  2 of 2 comparisons are inconclusive, the widest from 60.0 % slower to 200.0 % faster (4k pages).";
    assert!(text.contains(result), "{text}");
}

#[test]
fn changes_over_a_history_name_their_run() {
    let (native, machine) = (documents::arm("native", "4k"), documents::arm("microvm", "4k"));
    let series = |changes: Option<Vec<ChangeRow>>, relative_to| SeriesRow {
        study: "StarRandomAccess",
        quick: false,
        metric: "gups",
        treatment: &machine,
        relative_to,
        runs: if changes.is_some() { 14 } else { 5 },
        changes,
    };
    let change = ChangeRow {
        run: "20261108-0335-3fa9".to_owned(),
        started: "2026-11-08T03:35:00Z".to_owned(),
        ratio: [0.9512, 0.9448, 0.9575],
        p_value: 0.001,
    };
    let rows = [series(Some(vec![change]), None), series(Some(Vec::new()), Some(&native)), series(None, Some(&native))];
    insta::assert_snapshot!(history::changes(&rows, &STYLE));
}

#[test]
fn labels_that_are_too_long_become_levels_under_the_names_of_their_factors() {
    let mut document = documents::typical();
    let long = |level: &str| documents::treatment(&[("environment", "container"), ("access", level)]);
    let native = |level: &str| documents::treatment(&[("environment", "native"), ("access", level)]);
    let levels = ["random-read-of-4096-bytes", "random-read-of-8192-bytes"];
    document.run.factors = vec![
        ("environment".to_owned(), vec!["native".to_owned(), "container".to_owned()]),
        ("access".to_owned(), levels.map(str::to_owned).to_vec()),
    ];
    document.estimates =
        levels.iter().map(|level| documents::estimate(&document.run.metric, &long(level), 0.4312, 0.0123)).collect();
    document.ratios =
        levels.iter().map(|level| documents::ratio(&long(level), &native(level), [0.9, 0.88, 0.92])).collect();
    let text = summary::render(&document, &STYLE);
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.trim_start().starts_with("access ")).unwrap_or_else(|| panic!("{text}"));
    assert!(lines[at].contains("container / native"), "{text}");
    assert!(
        lines[at + 1].starts_with("  random-read-of-4096-bytes  ")
            && lines[at + 2].starts_with("    container 0.431 ± 0.012 GUP/s; n=20")
            && lines[at + 3].starts_with("  random-read-of-8192-bytes  ")
    );
    assert!(lines.iter().all(|line| columns(line) <= 80), "{text}");
}

/// A container has no exits: its control bounds none.
#[test]
fn the_cost_of_vm_exits_is_bounded_for_virtual_machines_alone() {
    let flat = |document| summary::render(document, &STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
    let (document, bound) = (documents::several(), "VM exits cost at most");
    assert!(flat(&document).contains(bound), "{}", flat(&document));
    let json = serde_json::to_string(&document).expect("a document").replace("\"microvm\"", "\"container\"");
    let of_a_container = flat(&serde_json::from_str(&json).expect("the same"));
    assert!(of_a_container.contains("container / native") && !of_a_container.contains(bound), "{of_a_container}");
}

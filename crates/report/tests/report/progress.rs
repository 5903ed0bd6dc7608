//! Progress as lines and as the live line.

use crate::documents;
use baremark_model::codes::Decision;
use baremark_model::document::LookRow;
use baremark_model::event::{Event, TrialStatus};
use baremark_model::loading::Loading;
use baremark_model::units::Nanos;
use baremark_report::progress::{Lines, Progress};
use baremark_report::{Color, Style};

const SECOND: u64 = 1_000_000_000;

fn started(run: &str, title: &str, trials_per_block: usize, blocks_done: u64) -> Event {
    let (run, title) = (run.to_owned(), title.to_owned());
    Event::Started { run, title, trials_per_block, blocks_done, spent_ns: 0, look: None }
}

fn events() -> Vec<Event> {
    let ended = |block, cell, status| Event::TrialEnded { block, cell, status, elapsed_ns: 2 * SECOND };
    let void = TrialStatus::Void { reasons: vec!["smaps changed".to_owned(), "a rank migrated".to_owned()] };
    let mut events = vec![
        started("a-1", "What?", 2, 3),
        Event::Warning { text: "the governor is powersave".to_owned() },
        Event::TrialStarted { block: 3, cell: 0, treatments: vec![documents::arm("native", "4k")] },
        Event::Phase { position: 4, of: 8 },
        ended(3, 0, TrialStatus::Ok),
        Event::TrialStarted {
            block: 3,
            cell: 1,
            treatments: vec![documents::arm("native", "4k"), documents::arm("microvm", "4k")],
        },
        ended(3, 1, void),
        ended(4, 0, TrialStatus::Failed { reason: "the agent died".to_owned() }),
    ];
    events
        .extend((0..11).map(|trial| ended(4 + u64::div_ceil(trial, 2), usize::from(trial % 2 == 0), TrialStatus::Ok)));
    events.push(Event::Looked(LookRow {
        blocks: 10,
        half_width: Some(0.0141),
        correlated: false,
        decision: "continue: too wide".to_owned(),
        step: Some(Decision::Continue),
    }));
    events.push(Event::Looked(LookRow {
        blocks: 15,
        half_width: Some(0.0099),
        correlated: false,
        decision: "confirm: met".to_owned(),
        step: Some(Decision::Confirm),
    }));
    events.push(Event::Stopped { reason: "confirmed".to_owned(), blocks: 20, elapsed_ns: 171 * SECOND });
    events
}

#[test]
fn plain_lines() {
    let mut lines = Lines::default();
    let said: Vec<String> = events().iter().flat_map(|event| lines.heard(event)).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn long_trials_give_a_sign_of_life_and_an_unfinished_block_is_told_at_the_end() {
    let mut lines = Lines::default();
    let ended =
        |block, cell, seconds| Event::TrialEnded { block, cell, status: TrialStatus::Ok, elapsed_ns: seconds * SECOND };
    lines.heard(&started("", "", 3, 0));
    let told: Vec<Vec<String>> = [(0, 0, 6), (0, 1, 6), (0, 2, 1), (1, 0, 1)]
        .into_iter()
        .map(|(block, cell, seconds)| lines.heard(&ended(block, cell, seconds)))
        .collect();
    let nothing: [&str; 0] = [];
    assert_eq!(told[0], nothing);
    assert_eq!(told[1], ["block 1: 2 of 3 trials are stored, 12 s"]);
    assert_eq!(told[2], ["block 1 is stored: 3 trials, 13 s"]);
    assert_eq!(told[3], nothing);
    let stopped = Event::Stopped { reason: "interrupted".to_owned(), blocks: 1, elapsed_ns: 14 * SECOND };
    assert_eq!(lines.heard(&stopped)[0], "block 2: 1 of 3 trials is stored, 1 s");
}

#[test]
fn rows_that_are_loaded_are_told_with_their_rate() {
    let at = |seconds: u64, rows: u64| Event::Loading(Loading { rows, of: 471_011, elapsed_ns: seconds * SECOND });
    let mut lines = Lines::default();
    let told: Vec<Vec<String>> = [at(1, 20_000), at(10, 200_000), at(11, 220_000), at(24, 471_011)]
        .iter()
        .map(|event| lines.heard(event))
        .collect();
    let nothing: [&str; 0] = [];
    assert_eq!(told[0], nothing);
    assert_eq!(told[1], ["loading data: 200K of 471K rows, 20.0K rows/s"]);
    assert_eq!(told[2], nothing);
    assert_eq!(told[3], ["loaded 471K rows in 24 s, 19.6K rows/s"]);
    let started = Event::TrialStarted { block: 0, cell: 1, treatments: Vec::new() };
    lines.heard(&started);
    assert_eq!(lines.heard(&at(10, 1000)), ["loading data: 1000 of 471K rows, 100 rows/s"], "of the next trial");

    let style = Style { width: 80, color: Color::Never, unicode: false };
    let mut progress = Progress::new(&documents::head().design);
    progress.heard(&started);
    progress.heard(&at(2, 40_000));
    let shown = progress.status(Nanos(3 * SECOND), &style);
    assert!(shown.contains("loading data: 40.0K of 471K rows, 20.0K rows/s") && shown.contains("3 s"), "{shown}");
    progress.heard(&Event::Phase { position: 0, of: 4 });
    let shown = progress.status(Nanos(4 * SECOND), &style);
    assert!(shown.contains("phase 1 of 4") && !shown.contains("rows"), "{shown}");
}

#[test]
fn the_live_line_over_a_run() {
    let style = Style { width: 100, color: Color::Never, unicode: true };
    let mut progress = Progress::new(&documents::head().design);
    let mut shown = vec![progress.status(Nanos(0), &style)];
    for (second, event) in (1..).zip(events()) {
        progress.heard(&event);
        shown.push(progress.status(Nanos(second * SECOND), &style));
    }
    for line in &shown {
        assert!(line.chars().count() < style.width, "{line}");
    }
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn time_to_go_follows_width_and_never_passes_the_budget() {
    let mut progress = Progress::new(&documents::head().design);
    assert_eq!(progress.to_go(Nanos(0)), None, "nothing is known before the first trial");
    progress.heard(&started("", "", 1, 0));
    for block in 0..10 {
        progress.heard(&Event::TrialEnded { block, cell: 0, status: TrialStatus::Ok, elapsed_ns: SECOND });
    }
    let at = |progress: &mut Progress, width: f64| {
        let look = LookRow {
            blocks: 10,
            half_width: Some(width),
            correlated: false,
            decision: "continue".to_owned(),
            step: Some(Decision::Continue),
        };
        progress.heard(&Event::Looked(look));
        progress.to_go(Nanos(10 * SECOND)).map(|left| left.0 / SECOND)
    };
    assert_eq!(at(&mut progress, 0.02), Some(44), "four times the blocks and the confirmation");
    assert_eq!(at(&mut progress, 0.01), Some(4));
    assert_eq!(at(&mut progress, 0.5), Some(170), "what the budget leaves");
    assert_eq!(at(&mut progress, f64::INFINITY), Some(170));
}

/// A run that was extended by 40 s of its three minutes said that 170 s were to go; one that was resumed, that it was about to end.
#[test]
fn time_to_go_of_a_run_that_goes_on_is_within_what_earlier_processes_have_left() {
    let look = LookRow {
        blocks: 10,
        half_width: Some(0.5),
        correlated: false,
        decision: "continue".to_owned(),
        step: Some(Decision::Continue),
    };
    let to_go = |look: Option<LookRow>| {
        let mut progress = Progress::new(&documents::head().design);
        progress.heard(&Event::Started {
            run: String::new(),
            title: String::new(),
            trials_per_block: 1,
            blocks_done: 10,
            spent_ns: 140 * SECOND,
            look,
        });
        progress.heard(&Event::TrialEnded { block: 10, cell: 0, status: TrialStatus::Ok, elapsed_ns: SECOND });
        progress.to_go(Nanos(SECOND)).map(|left| left.0 / SECOND)
    };
    assert_eq!(to_go(Some(look.clone())), Some(39), "what the budget leaves");
    assert_eq!(
        to_go(Some(LookRow { half_width: Some(0.012), ..look })),
        Some(9),
        "20 blocks by the width that was found"
    );
}

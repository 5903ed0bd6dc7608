//! The sections of a report below its answer and tables: one list for every format.
//!
//! A new section is a function of the form [`Making`] and a line of [`SECTIONS`].

use crate::activity;
use crate::application;
use crate::course;
use crate::crowd;
use crate::details;
use crate::figure::of_blocks;
use crate::grid::{Cell, Grid, GridRow};
use crate::guest_disks;
use crate::latency;
use crate::number::percent;
use crate::outline::Found;
use crate::per_workload::parts;
use crate::section::{Block, Making, Section, Subject};
use crate::slope;
use crate::text::clean;
use crate::tile;
use crate::timeline;
use crate::wake_up;
use crate::web_farm;
use crate::words;

/// The sections in the order of every report.
pub(crate) const SECTIONS: &[Making] = &[
    latencies,
    applications,
    reported,
    before_work,
    guests,
    slopes,
    contrasts,
    references,
    drawn,
    predicted,
    why,
    activity,
    flags,
    discarded,
    analyses,
];

/// A section of what each workload's part has of something.
fn of_parts<T: Clone>(
    of: Subject<'_>,
    own: fn(&Found) -> &[T],
    block: fn(Option<String>, Vec<T>) -> Block,
) -> Vec<Block> {
    of.outline.having(own).into_iter().map(|(part, items)| block(part.name.clone(), items.to_vec())).collect()
}

/// Paragraphs of the run as a whole.
fn lines(items: &[String]) -> Vec<Block> {
    if items.is_empty() { Vec::new() } else { vec![Block::Lines(None, items.to_vec())] }
}

/// Percentiles in a table; their figures are with the answer.
fn latencies(of: Subject<'_>) -> Section {
    let parts = parts(of.document);
    let tables = parts.iter().filter_map(latency::table).map(Block::Table).collect();
    let head =
        parts.iter().map(latency::label).reduce(|one, other| if one == other { one } else { latency::LATENCIES });
    let head = head.unwrap_or(latency::LATENCIES);
    Section { id: "latency", head, note: "", blocks: tables }
}

fn reported(of: Subject<'_>) -> Section {
    let blocks = details::groups(of.document).into_iter().map(Block::Group).collect();
    Section { id: "reported", head: "What the workload reports", note: "", blocks }
}

fn applications(of: Subject<'_>) -> Section {
    let groups = [application::groups(of.document), web_farm::groups(of.document), tile::groups(of.document)];
    Section {
        id: "applications",
        head: "Applications",
        note: "",
        blocks: groups.into_iter().flatten().map(Block::Group).collect(),
    }
}

fn before_work(of: Subject<'_>) -> Section {
    let mut blocks: Vec<Block> = wake_up::histogram(of.document).into_iter().map(Block::Table).collect();
    blocks.extend(lines(&wake_up::searches(of.document)));
    Section { id: "before-work", head: "Wake-up latency and number of copies", note: "", blocks }
}

fn guests(of: Subject<'_>) -> Section {
    Section {
        id: "guest-disks",
        head: "Disks of guests",
        note: "The difference of the means is the time that an I/O takes in the guest's kernel, its exits and the virtual queue.",
        blocks: guest_disks::latencies(of.document).into_iter().map(Block::Table).collect(),
    }
}

fn slopes(of: Subject<'_>) -> Section {
    let blocks = slope::groups(of.document).into_iter().map(Block::Group).collect();
    Section { id: "slopes", head: "Slopes", note: "", blocks }
}

fn contrasts(of: Subject<'_>) -> Section {
    Section {
        id: "contrasts",
        head: "Page-size contrasts",
        note: "The application's pages differ, so this is not the cost of a VM.",
        blocks: of_parts(of, |part| &part.contrasts, Block::Sentences),
    }
}

/// An A/A of the reference: what takes turns with several others next to each.
fn references(of: Subject<'_>) -> Section {
    let blocks = parts(of.document).into_iter().filter_map(|part| {
        let lines: Vec<String> =
            part.document.references.iter().map(|row| words::reference(&part.document, row)).collect();
        (!lines.is_empty()).then(|| Block::Lines(part.name.map(clean), lines))
    });
    Section {
        id: "references",
        head: "References next to each partner",
        note: "Both sides are one treatment in different trials, so that a difference is not one of the treatment.",
        blocks: blocks.collect(),
    }
}

/// The figures of every block, and those over time; those of the answer are with it.
fn drawn(of: Subject<'_>) -> Section {
    let mut blocks = Vec::new();
    let courses = of_blocks(of.document);
    if !courses.is_empty() {
        let mut legend = "Figures of blocks: the line is the estimate, the shade its interval. A dot counts; a hollow dot counts and is \
                          flagged; a cross does not count."
            .to_owned();
        if of.document.trials.len() > crowd::MANY {
            legend += &format!(
                " Above {} trials a column has the range of some blocks, wider in its middle half.",
                crowd::MANY
            );
        }
        blocks.extend([Block::Figures(courses), Block::Legend(legend)]);
    }
    let (over_time, more) = timeline::figures(&parts(of.document));
    if !over_time.is_empty() {
        blocks.push(Block::Figures(over_time));
    }
    if more > 0 {
        let figures = if more == 1 { "figure" } else { "figures" };
        blocks.push(Block::Legend(format!(
            "{more} more {figures} over time are not drawn; --json has their values as timelines."
        )));
    }
    Section { id: "figures", head: "Every trial", note: "", blocks }
}

fn predicted(of: Subject<'_>) -> Section {
    Section {
        id: "predicted",
        head: "Predicted from page walks",
        note: "Ratios with 95 % intervals; no prediction is fitted to the measured value next to it.",
        blocks: of_parts(of, |part| &part.predicted, Block::Lines),
    }
}

fn why(of: Subject<'_>) -> Section {
    Section { id: "why", head: "Why", note: "", blocks: of_parts(of, |part| &part.why, Block::Lines) }
}

/// System activity: the short table, figures over time, and everything by kind.
fn activity(of: Subject<'_>) -> Section {
    let document = of.document;
    let mut blocks = Vec::new();
    if let Some(observed) = &document.observed {
        blocks.extend(activity::short(document).map(Block::Table));
        let figures = course::figures(document);
        blocks.extend((!figures.is_empty()).then_some(Block::Figures(figures)));
        let (tables, remarks) = (activity::full(document), activity::remarks(observed));
        blocks.extend((!tables.is_empty()).then_some(Block::Wide(tables)));
        blocks.extend((!remarks.is_empty()).then_some(Block::Remarks(remarks)));
    }
    Section { id: "around", head: "System activity", note: "", blocks }
}

fn flags(of: Subject<'_>) -> Section {
    Section { id: "flags", head: "Flags", note: "", blocks: lines(&of.outline.flags) }
}

fn discarded(of: Subject<'_>) -> Section {
    let blocks = lines(&of.outline.discarded);
    Section { id: "trials-that-do-not-count", head: "Trials that do not count", note: "", blocks }
}

fn analyses(of: Subject<'_>) -> Section {
    let text = |text: String| Cell::Measured { estimate: text, ratio: None };
    let rows: Vec<GridRow> = of
        .document
        .looks
        .iter()
        .map(|look| {
            let width = look.half_width.map_or(Cell::Blank, |width| text(format!("±{}", percent(width))));
            GridRow { label: look.blocks.to_string(), cells: vec![width, text(clean(&look.decision))] }
        })
        .collect();
    let grid = Grid {
        caption: "The widest interval at each interim analysis, by blocks".to_owned(),
        columns: ["widest half-width", "decision"].map(str::to_owned).to_vec(),
        rows,
        reasons: Vec::new(),
    };
    let blocks = if grid.rows.is_empty() { Vec::new() } else { vec![Block::Wide(vec![("", grid)])] };
    Section { id: "analyses", head: "Interim analyses", note: "", blocks }
}

#[cfg(test)]
mod toy;

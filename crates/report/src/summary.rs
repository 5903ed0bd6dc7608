//! The answer of a run in a few lines: the machine, each ratio with its interval and outcome, and one sentence of cause. The rest
//! is in [`crate::terminal`].
//!
//! A cause is named only where intervals show it: that larger pages end a loss, or what differs between the arms. What the
//! control (`fma`) loses bounds the cost of VM exits.

use crate::answer::{
    self, counted, evidence, heading, headline, headline_of, levels, name, one_place, only_place, urgency,
};
use crate::application;
use crate::commands;
use crate::grid::{estimated, readable};
use crate::latency;
use crate::next_step::next_step;
use crate::number::{self, Digits, count, duration, fixed, ratio_decimals};
use crate::observed_at::is_a_vm;
use crate::outline::{cautions, confidence_of, extended, interval_head, nothing, reliability, sentence_case};
use crate::per_workload::{Part, parts};
use crate::provenance::blocks;
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, cut, left, right, width, wrap};
use crate::tile;
use crate::treatment::{ENVIRONMENT, Factors, list};
use crate::unmeasured;
use crate::wake_up;
use crate::web_farm;
use crate::words::{Quantity, Tone, at_once, caution, limits_of, outcome, ratio_of, short, tone};
use baremark_model::codes::{Cause, Flag, ReasonCode};
use baremark_model::command;
use baremark_model::distinct::grouped;
use baremark_model::document::{Document, ExplanationRow, Grade, Outcome, RatioRow};
use baremark_model::environments;
use baremark_model::metric::Better;
use baremark_model::order;
use baremark_model::plan::{Absent, Contrast, Treatment};
use baremark_model::tables::WORKLOAD;
use baremark_model::units::Bytes;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Lines of a first screen.
const LINES: usize = 25;
/// Lines of a first screen whose rows have their values, which are worth some more.
const LINES_WITH_VALUES: usize = 30;
/// Rows of the table where not even these leave all within a screen: its other lines are long.
const FEWEST_ROWS: usize = 5;
/// Searches whose findings are on the first screen.
const MOST_FOUND: usize = 3;
/// Comparisons of one outcome that are named one by one.
const MOST_NAMED: usize = 2;
/// Columns that an outcome needs in addition to its ratio.
const LEAST_ROOM: usize = 22;
/// The widest label of a row.
const LABEL: usize = 28;
/// The workload that only computes: it has no page walks and no system calls, so that its loss is that of VM exits.
const CONTROL: &str = "fma";
/// The factor of how small pages' frames lie.
const FRAMES: &str = "page_frames";

/// The report of one run: every row with its values where that fits on a screen, else without them, else the rows that matter most, with
/// how many there are of the others.
#[must_use]
pub fn render(document: &Document, style: &Style) -> String {
    let parts = parts(document);
    let all = fitting_rows(&parts, style.width).len();
    // More rows than lines do not fit, whatever else there is.
    let whole = [(all, true), (all, false)].into_iter().filter(|_| all <= LINES_WITH_VALUES);
    let forms = whole.chain((FEWEST_ROWS.min(all)..all.min(LINES)).rev().map(|rows| (rows, false)));
    let mut text = String::new();
    for (rows, with_values) in forms {
        text = page(document, &parts, style, rows, with_values);
        if text.lines().count() <= if with_values { LINES_WITH_VALUES } else { LINES } {
            break;
        }
    }
    text
}

fn page(document: &Document, parts: &[Part<'_>], style: &Style, most: usize, with_values: bool) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Faint, 0, INDENT, &machine(document));
    page.paragraph(Paint::Strong, 0, INDENT, &title(document));
    for caution in cautions(document) {
        page.paragraph(Paint::Caution, 0, INDENT, &caution);
    }
    let rows = fitting_rows(parts, style.width);
    page.text.push('\n');
    match rows.as_slice() {
        [] => page.paragraph(Paint::Caution, INDENT, INDENT, nothing(document)),
        rows => table(&mut page, parts, rows, most, with_values),
    }
    page.text.push('\n');
    let said = said(document);
    for (label, says) in &said {
        labelled(&mut page, label, says);
    }
    if !said.is_empty() {
        page.text.push('\n');
    }
    for note in notes(document, &rows) {
        page.paragraph(Paint::Faint, 0, INDENT, &note);
    }
    page.paragraph(Paint::Faint, 0, INDENT, &more(document));
    page.text
}

/// "AMD EPYC 9R14, 2 CPUs, 23.5 GiB, Linux 6.18 (a virtual machine)"
pub(crate) fn machine(document: &Document) -> String {
    let kernel = document.run.machine.kernel.release.as_ref().map(|release| format!("Linux {}", clean(release)));
    described(document, kernel)
}

/// The same without what an update changes.
pub(crate) fn hardware(document: &Document) -> String {
    described(document, None)
}

fn described(document: &Document, kernel: Option<String>) -> String {
    let facts = &document.run.machine;
    let parts = [
        facts.cpu.model_name.as_deref().map(clean),
        facts.cpu.logical_cpus.map(|cpus| count(cpus, "CPU")),
        facts.memory.total_bytes.map(|bytes| format!("{:.1}", Bytes(bytes))),
        kernel,
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    let known = if known.is_empty() { "machine not recorded".to_owned() } else { known.join(", ") };
    let inside = match (facts.virtualization.is_container(), facts.virtualization.hypervisor == Some(true)) {
        (true, true) => " (a container in a virtual machine)",
        (true, false) => " (a container)",
        (false, true) => " (itself a virtual machine)",
        (false, false) => "",
    };
    known + inside
}

/// "STREAM: native against virtual; 6 blocks, 58 s of trials; run 7f3a"
fn title(document: &Document) -> String {
    let spent: u64 = document.trials.iter().map(|trial| trial.elapsed_ns).sum();
    let complete = blocks(document);
    // A ratio may have a block of which another cell is still lacking.
    let more = document.ratios.iter().any(|row| row.blocks as u64 > complete);
    let blocks = count(complete, if more { "complete block" } else { "block" });
    // What another program measured has no time here.
    let measured = if spent == 0 { blocks } else { format!("{blocks}, {} of trials", duration(spent)) };
    format!("{}; {measured}; run {}", clean(&document.run.study), clean(&document.run.id))
}

/// A line of the table.
struct Row<'d> {
    label: String,
    value: String,
    ratio: Option<&'d RatioRow>,
    of: &'d Document,
    /// Whether the label has levels alone, and the heading their factors.
    tabulated: bool,
}

/// The rows with their values where there is room for them, else those that have a ratio.
fn fitting_rows<'d>(parts: &'d [Part<'d>], width_of_page: usize) -> Vec<Row<'d>> {
    let all = rows(parts, parts.len() == 1);
    if all.is_empty() {
        return rows(parts, true);
    }
    if all.iter().all(|row| row.ratio.is_none()) || Columns::of(&all, width_of_page).room >= LEAST_ROOM {
        return all;
    }
    let rows = rows(parts, false);
    if rows.iter().any(|row| width(&row.label) > LABEL) { tabulated(parts).unwrap_or(rows) } else { rows }
}

/// The ratios of a study of one workload, labelled by the levels of their factors without the factors' names, which the heading
/// has. `None` where treatments differ in which factors they have.
fn tabulated<'d>(parts: &'d [Part<'d>]) -> Option<Vec<Row<'d>>> {
    let [part] = parts else { return None };
    let names = factor_names(parts);
    let row = |ratio: &'d RatioRow| {
        let levels = levels(part, ratio, !one_place(parts));
        let known = levels.iter().map(|(key, _)| *key).eq(names.iter().map(String::as_str));
        let label = levels.iter().map(|(_, level)| clean(level)).collect::<Vec<_>>().join(", ");
        known.then(|| Row { label, value: String::new(), ratio: Some(ratio), of: &part.document, tabulated: true })
    };
    headline(&part.document).map(row).collect()
}

/// The factors of the first ratio, of which a label has the levels.
fn factor_names(parts: &[Part<'_>]) -> Vec<String> {
    let first = parts.first().and_then(|part| headline(&part.document).next().map(|ratio| (part, ratio)));
    let levels = first.map(|(part, ratio)| levels(part, ratio, !one_place(parts))).unwrap_or_default();
    levels.into_iter().map(|(key, _)| key.to_owned()).collect()
}

/// Ratios of the headline's metrics; with `values` each value with its ratio, also the values that have none.
fn rows<'d>(parts: &'d [Part<'d>], values: bool) -> Vec<Row<'d>> {
    let mut rows = Vec::new();
    for part in parts {
        let document: &Document = &part.document;
        let own = document.estimates.iter().filter(|row| row.metric == document.run.metric);
        let unit = own.clone().next().map(|row| clean(&row.unit)).unwrap_or_default();
        let (per, unit) = readable(&unit, own.map(|row| row.estimate));
        let (whole, ratios): (u64, Vec<&RatioRow>) = (blocks(document), headline(document).collect());
        if values && ratios.iter().all(|row| row.contrast != Contrast::SelfCheck) {
            for value in document.estimates.iter().filter(|row| row.metric == document.run.metric) {
                let ratio = ratios.iter().find(|row| row.treatment == value.treatment).copied();
                let label = answer::labelled(part, &value.treatment);
                let n = if value.n as u64 == whole || value.over.is_some() {
                    String::new()
                } else {
                    format!(", n = {}", value.n)
                };
                let value = format!("{} {unit}{n}", estimated(value, per));
                rows.push(Row { label, value, ratio, of: document, tabulated: false });
            }
            continue;
        }
        for ratio in ratios {
            let label = name(part, ratio, !one_place(parts));
            rows.push(Row { label, value: String::new(), ratio: Some(ratio), of: document, tabulated: false });
        }
    }
    rows
}

fn table(page: &mut Page, parts: &[Part<'_>], rows: &[Row<'_>], most: usize, with_values: bool) {
    let columns = Columns::of(rows, page.style.width);
    let mut shown: Vec<&Row<'_>> = rows.iter().collect();
    let most = answer::shown(&mut shown, most, |row| row.ratio);
    let rest = shown.split_off(most);
    if columns.widths[2] > 0 {
        let [value, ratio, limits] = columns.widths;
        let names = if shown.iter().any(|row| row.tabulated) { factor_names(parts) } else { Vec::new() };
        let names = names.iter().map(|name| clean(name).replace('_', " ")).collect::<Vec<_>>().join(", ");
        let room = columns.label + if value > 0 { value + 2 } else { 0 } + 2 + ratio;
        let heading = heading(parts, shown.iter().find_map(|row| row.ratio));
        let fits = !names.is_empty() && width(&names) + 2 + width(&heading) <= room;
        if !fits && !names.is_empty() {
            page.paragraph(Paint::Faint, INDENT, INDENT, &names);
        }
        let names = if fits { format!("{}{names}", " ".repeat(INDENT)) } else { String::new() };
        let heading = right(&heading, INDENT + room - width(&names));
        let intervals = interval_head(parts.iter().map(|part| &*part.document));
        let head = format!("{names}{heading}  {}  result", right(intervals, limits));
        page.line(Paint::Faint, &page.style.plain(&head));
    }
    // Labels are without the environment where it is one.
    let place =
        parts.iter().map(|part| only_place(&part.document)).reduce(|one, two| one.filter(|_| one == two)).flatten();
    let differs = |place: &&str| rows.iter().any(|row| row.label != *place);
    if let Some(place) = place.filter(differs).filter(|_| columns.widths[0] > 0 && columns.widths[1] == 0) {
        let head = right(&clean(place), INDENT + columns.label + 2 + columns.widths[0]);
        page.line(Paint::Faint, &page.style.plain(&head));
    }
    for row in shown {
        line(page, row, &columns);
        let evidence =
            row.ratio.filter(|_| with_values && row.value.is_empty()).and_then(|ratio| evidence(row.of, ratio));
        if let Some(evidence) = evidence {
            page.paragraph(Paint::Faint, 2 * INDENT, INDENT, &evidence.words());
        }
    }
    if !rest.is_empty() {
        let (counted, many) = (counted(rest.iter().map(|row| row.ratio)), rest.len());
        let says = match rest.iter().any(|row| row.ratio.is_some()) {
            true => format!("{many} more: {counted}; --details has each"),
            false => format!("{many} more: --details has each"),
        };
        page.paragraph(Paint::Faint, INDENT, INDENT, &says);
    }
}

/// A row: its outcome on the right where there is room, else below. What does not fit in a column goes on in the next line.
fn line(page: &mut Page, row: &Row<'_>, columns: &Columns) {
    let style = page.style;
    let labels = wrap(&style.plain(&row.label), columns.label);
    let says = row.ratio.map(|ratio| match (ratio.contrast, limits_of(ratio)) {
        (Contrast::SelfCheck, Some((lo, hi))) if (lo..=hi).contains(&1.0) => "no difference found".to_owned(),
        (Contrast::SelfCheck, Some(_)) => "differs from itself".to_owned(),
        // The interval is next to it: the size in a few words is enough where all of them would take several lines.
        (_, Some(_)) if (LEAST_ROOM..width(&outcome(row.of, ratio))).contains(&columns.room) => short(row.of, ratio),
        _ => outcome(row.of, ratio),
    });
    let paint = row.ratio.map_or(Paint::Plain, |ratio| match tone(ratio) {
        Tone::Plain => Paint::Plain,
        Tone::Differs => Paint::Strong,
        Tone::Alike => Paint::Good,
        Tone::Open => Paint::Caution,
    });
    let (beside, below) = if columns.room < LEAST_ROOM { (None, says) } else { (says, None) };
    let outcomes = beside.map(|says| wrap(&style.plain(&says), columns.room)).unwrap_or_default();
    let at = |lines: &[String], line: usize| lines.get(line).cloned().unwrap_or_default();
    for number in 0..labels.len().max(outcomes.len()).max(1) {
        let cells = if number == 0 { cells(row) } else { Default::default() };
        let text = columns.laid(&at(&labels, number), &cells);
        match at(&outcomes, number) {
            says if says.is_empty() => page.line(Paint::Plain, text.trim_end()),
            says => page.line(Paint::Plain, &format!("{text}  {}", style.paint(paint, &says))),
        }
    }
    if let Some(says) = below {
        page.paragraph(paint, 2 * INDENT, 0, &says);
    }
}

/// Value, ratio and interval.
fn cells(row: &Row<'_>) -> [String; 3] {
    let ratio = row.ratio.and_then(|ratio| {
        let value = ratio_of(ratio)?;
        let limits = limits_of(ratio);
        let places = ratio_decimals(value, limits, 1.0, Digits::Plain);
        let interval = limits.map(|(lo, hi)| format!("{} - {}", fixed(lo, places), fixed(hi, places)));
        Some((fixed(value, places), interval.unwrap_or_default()))
    });
    let (ratio, interval) = ratio.unwrap_or_default();
    [row.value.clone(), ratio, interval]
}

/// The widths of the table's columns: label, then value, ratio and interval, of which those without a cell are left out.
struct Columns {
    label: usize,
    widths: [usize; 3],
    /// What is left for the outcome.
    room: usize,
}

impl Columns {
    fn of(rows: &[Row<'_>], width_of_page: usize) -> Self {
        let label = rows.iter().map(|row| width(&row.label)).max().unwrap_or(0).min(LABEL.min(width_of_page / 2));
        let cells: Vec<[String; 3]> = rows.iter().map(cells).collect();
        let widths = [0, 1, 2].map(|at: usize| cells.iter().map(|row| width(&row[at])).max().unwrap_or(0));
        let used: usize = widths.iter().filter(|column| **column > 0).map(|column| column + 2).sum();
        Columns { label, widths, room: width_of_page.saturating_sub(INDENT + label + used + 2) }
    }

    fn laid(&self, label: &str, cells: &[String; 3]) -> String {
        let mut text = format!("{}{}", " ".repeat(INDENT), left(&cut(label, self.label), self.label));
        for (cell, column) in cells.iter().zip(self.widths).filter(|(_, column)| *column > 0) {
            text.push_str("  ");
            text.push_str(&right(cell, column));
        }
        text
    }
}

/// The label of the effect.
pub(crate) const RESULT: &str = "Result";

/// What is said of the table: a label, and a sentence or two.
pub(crate) fn said(document: &Document) -> Vec<(&'static str, String)> {
    let parts = parts(document);
    let mut lines = Vec::new();
    lines.extend(result(document, &parts).map(|text| (RESULT, text)));
    let found =
        [application::found(document), web_farm::found(document), tile::found(document), wake_up::searches(document)];
    let found = found.concat();
    if !found.is_empty() && found.len() <= MOST_FOUND {
        lines.push(("Search", found.join(" ")));
    }
    if let [part] = parts.as_slice() {
        lines.extend(latency::line(part).map(|text| (latency::short_label(part), text)));
    }
    match unmeasured::said(document) {
        Some(predicted) => lines.extend(predicted),
        None => lines.extend(not_run(document).map(|text| ("Not run", text))),
    }
    lines.extend(cause(&parts).map(|text| ("Cause", text)));
    lines.extend(advice(&parts).map(|text| ("Advice", text)));
    lines.extend(unlike(&parts).map(|text| ("Note", text)));
    lines.extend(frames(&parts).map(|text| ("Frames", text)));
    lines.extend(next_step(document, &parts).map(|text| ("Next", text)));
    lines
}

/// The environments and the workloads of which nothing was measured, and why.
fn not_run(document: &Document) -> Option<String> {
    let place = environments::of;
    // A workload that cannot run in one place may still have come to nothing in another.
    let lacked = |of: &Absent| matches!(of.code, Some(ReasonCode::Memory | ReasonCode::NotAvailable));
    let workload = |treatment: &Treatment| treatment.get(WORKLOAD).map_or_else(String::new, |label| clean(label));
    let ran: BTreeSet<&str> = document.estimates.iter().map(|row| place(&row.treatment)).collect();
    let worked: BTreeSet<String> = document.estimates.iter().map(|row| workload(&row.treatment)).collect();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for absent in &document.absent {
        let of = match (place(&absent.treatment), workload(&absent.treatment)) {
            (place, _) if !ran.contains(place) => clean(place),
            (_, workload) if lacked(absent) && !worked.contains(&workload) => workload,
            _ => continue,
        };
        let reason = clean(absent.reason.trim_end_matches('.'));
        if found.iter().any(|(_, names)| names.contains(&of)) {
            continue;
        }
        match found.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(of),
            None => found.push((reason, vec![of])),
        }
    }
    let each: Vec<String> = found.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect();
    (!each.is_empty()).then(|| format!("{}.", each.join(". ")))
}

/// What frames alone give natively, next to ratios whose reference has them: "random-access, 4k pages: natively 1.16 - 1.24 times as fast over
/// contiguous frames".
fn frames(parts: &[Part<'_>]) -> Option<String> {
    let of_part = |part: &Part<'_>| {
        let metric = &part.document.run.metric;
        let row = part.document.ratios.iter().find(|row| row.contrast == Contrast::Frames && row.metric == *metric)?;
        let (lo, hi) = limits_of(row)?;
        let is_less_better = Quantity::of(&part.document, metric).better == Some(Better::Lower);
        let (lo, hi) = if is_less_better { (1.0 / hi, 1.0 / lo) } else { (lo, hi) };
        let factors = Factors::of(&part.document.run);
        let frames = row.treatment.get(FRAMES).map_or_else(String::new, |label| clean(label));
        let work = list(&factors.levels(&row.treatment, &[ENVIRONMENT, FRAMES]));
        let named = [part.name.map(clean), Some(work).filter(|work| !work.is_empty())];
        let named = named.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let compared = headline_of(part).any(|ratio| ratio.relative_to == row.treatment);
        let rest = if compared { "; the reference of its ratio above has them" } else { "" };
        let places = ratio_decimals(0.5 * (lo + hi), Some((lo, hi)), 1.0, Digits::Plain);
        Some(format!(
            "{named}: natively {} - {} times as fast over {frames} frames{rest}.",
            fixed(lo, places),
            fixed(hi, places)
        ))
    };
    parts.iter().find_map(of_part)
}

/// What differs besides the place where a virtual machine is faster than native: the ratio is then not one of virtualization.
fn unlike(parts: &[Part<'_>]) -> Option<String> {
    let faster = |row: &&RatioRow| matches!(row.outcome, Outcome::Faster | Outcome::FasterByMore);
    let with_place = !one_place(parts);
    let of_part = |part| headline_of(part).filter(faster).map(move |row| (part, row));
    parts.iter().flat_map(of_part).find_map(|(part, row)| {
        let mut treatment = row.treatment.clone();
        if part.name.is_some() {
            treatment.insert(WORKLOAD.to_owned(), part.document.run.workload.clone());
        }
        let flags = part.document.flags.iter().filter(|flag| flag.treatment == treatment);
        let Flag::FasterThanNative(why) = flags.filter_map(|flag| flag.code.as_ref()).next()?;
        Some(format!("{} is faster than native: {}.", name(part, row, with_place), clean(why)))
    })
}

/// The headline: each comparison's effect, where they are few; else of each outcome how many there are, and the largest. Differences are
/// first, then what is alike, then bounds.
fn result(document: &Document, parts: &[Part<'_>]) -> Option<String> {
    let with_place = !one_place(parts);
    let of_part = |part| headline_of(part).map(move |row| (name(part, row, with_place), row));
    let all: Vec<(String, &RatioRow)> = parts.iter().flat_map(of_part).collect();
    if all.is_empty() {
        return None;
    }
    let of_class = |class: u8| -> Vec<&(String, &RatioRow)> {
        all.iter().filter(|(_, row)| urgency(Some(*row)).0 == class).collect()
    };
    let sentences = [0, 2, 3, 1, 4].into_iter().filter_map(|class| {
        let mut rows = of_class(class);
        order::by(&mut rows, |one, two| {
            urgency(Some(one.1)).partial_cmp(&urgency(Some(two.1))).unwrap_or(Ordering::Equal)
        });
        class_in_words(document, &rows, all.len())
    });
    Some(format!("{}.", sentences.collect::<Vec<_>>().join(". ")))
}

/// What is said of the rows of one class, the largest first: alike ones together.
fn class_in_words(document: &Document, rows: &[&(String, &RatioRow)], of: usize) -> Option<String> {
    let (first, row) = rows.first()?;
    let groups = grouped(rows.iter().map(|(name, row)| (outcome(document, row), name.as_str())));
    if groups.len() <= MOST_NAMED && rows.len() <= 2 * MOST_NAMED && row.outcome != Outcome::NoLarger || rows.len() == 1
    {
        let named = groups.iter().map(|(words, names)| format!("{}: {words}", names.join("; ")));
        return Some(named.collect::<Vec<_>>().join(". "));
    }
    let (many, words) = (rows.len(), outcome(document, row));
    Some(match row.outcome {
        Outcome::NotEnough => format!("{many} of {of} comparisons have not enough data"),
        Outcome::NoLarger => {
            let range = words.strip_prefix("inconclusive: ").unwrap_or(&words);
            format!("{many} of {of} comparisons are inconclusive, the widest {range} ({first})")
        }
        Outcome::Equivalent | Outcome::Emulated => format!("{many} of {of} comparisons: {words}"),
        Outcome::SlowerByMore | Outcome::Slower => {
            format!("{many} of {of} comparisons are worse, {first} most: {words}")
        }
        Outcome::FasterByMore | Outcome::Faster => {
            format!("{many} of {of} comparisons are better, {first} most: {words}")
        }
    })
}

/// One sentence: what ends a loss, and what bounds the cost of VM exits.
fn cause(parts: &[Part<'_>]) -> Option<String> {
    let slower = |row: &&RatioRow| matches!(row.outcome, Outcome::Slower | Outcome::SlowerByMore);
    let lost: Vec<(&Part<'_>, &RatioRow)> =
        parts.iter().flat_map(|part| headline_of(part).filter(slower).map(move |row| (part, row))).collect();
    let walks = lost.iter().find_map(|(part, row)| page_walks(part, row));
    let bound = parts.iter().find_map(exits);
    let cause = walks
        .or_else(|| lost.iter().find_map(|(part, row)| own_time(part, row, &EXAMINED)))
        .or_else(|| {
            lost.iter()
                .find_map(|(part, row)| Some(commands::cause(&part.document, row)?.trim_end_matches('.').to_owned()))
        })
        .or_else(|| lost.iter().find_map(|(part, row)| own_time(part, row, &[Cause::OwnTime])))
        .or_else(|| lost.iter().find_map(|(part, row)| disturbed(part, row)))
        .or_else(|| lost.iter().find_map(|(part, row)| differing(part, row)))
        .or_else(|| (!lost.is_empty()).then(|| "No cause found in the measured quantities".to_owned()));
    match (cause, bound) {
        (None, None) => None,
        (cause, bound) => Some(format!("{}.", [cause, bound].into_iter().flatten().collect::<Vec<_>>().join(". "))),
    }
}

/// That a loss with small pages is smaller with large ones: the intervals have nothing in common. Where the page size alone
/// differs, the loss is that of page walks: a kernel's memory is mapped and touched before its phases.
fn page_walks(part: &Part<'_>, row: &RatioRow) -> Option<String> {
    if row.contrast == Contrast::PageSize && part.document.run.workload != command::KIND {
        let contrasts = || explained(part, row, Cause::LargerPages);
        let gain = contrasts().find(|gain| gain.lo > 0.0).filter(|_| contrasts().all(|gain| gain.hi > 0.0))?;
        let gain = number::estimate(gain.value, Some(gain.lo), Some(gain.hi));
        return Some(format!("Page walks; 2m pages alone are faster by {gain} %"));
    }
    let mut large = row.treatment.clone();
    let page = large.get_mut("page").filter(|page| *page == "4k")?;
    "2m".clone_into(page);
    let other = headline_of(part).find(|other| other.treatment == large)?;
    let ((lo, hi), (least, most)) = (limits_of(row)?, limits_of(other)?);
    let smaller = if hi < 1.0 { least > hi } else { most < lo };
    let name = part.name.map(|name| format!("{} ", clean(name))).unwrap_or_default();
    smaller.then(|| format!("Page walks; {name}with 2m pages: {}", outcome(&part.document, other)))
}

/// What explains a ratio's numerator and is about this.
fn explained<'p>(part: &'p Part<'_>, row: &'p RatioRow, cause: Cause) -> impl Iterator<Item = &'p ExplanationRow> {
    let all = part.document.explanations.iter();
    all.filter(move |found| found.treatment == row.treatment && found.cause == Some(cause))
}

/// Parts of the time of a program in a container or sandbox. Page faults are not among them: each that is timed clears a page, and a program's may do
/// less.
const EXAMINED: [Cause; 2] = [Cause::SystemCalls, Cause::Throttling];

/// The part of a loss that is about one of these: the largest, where it is certainly more than half of it.
fn own_time(part: &Part<'_>, row: &RatioRow, causes: &[Cause]) -> Option<String> {
    let extra = |ratio: f64| 100.0 * (ratio - 1.0).abs();
    let (lo, hi) = limits_of(row)?;
    // The numerator may have several denominators, each with parts of its own.
    let base = format!(", of {}'s ", environments::of(&row.relative_to));
    let all = causes.iter().flat_map(|cause| explained(part, row, *cause)).filter(|found| found.what.contains(&base));
    let most = all.filter(|found| found.lo > 0.0).max_by(|one, two| one.lo.total_cmp(&two.lo))?;
    let value = number::estimate(most.value, Some(most.lo), Some(most.hi));
    let what = sentence_case(&clean(&most.what));
    let loss = extra(row.ratio?);
    (2.0 * most.lo >= extra(lo).max(extra(hi))).then(|| format!("{what}: {value} % of {} %", fixed(loss, 0)))
}

/// Other programs that took the CPUs of the slower arm's ranks for longer than the reference's, or more of all CPUs while its phases ran.
fn disturbed(part: &Part<'_>, row: &RatioRow) -> Option<String> {
    let is_of_reference =
        |found: &&ExplanationRow| found.treatment == row.relative_to && found.cause == Some(Cause::Queued);
    let of_reference = part.document.explanations.iter().filter(is_of_reference);
    // What both waited is in no ratio.
    let waited = of_reference.map(|found| found.hi).fold(0.0, f64::max);
    let queued = explained(part, row, Cause::Queued).filter(|found| found.lo > waited);
    let others = queued.chain(explained(part, row, Cause::OtherPrograms));
    let most = others.filter(|found| !found.advice.is_empty()).max_by(|one, two| one.lo.total_cmp(&two.lo))?;
    let value = number::estimate(most.value, Some(most.lo), Some(most.hi));
    let by = if shares_memory(part, row) { "Other programs, by memory or caches" } else { "Other programs" };
    Some(format!("{by}: {} {value} %", clean(&most.what)))
}

/// Whether it is not the CPU that others take from a ratio's numerator: what only computes loses less in the same blocks, by
/// intervals that have nothing in common.
fn shares_memory(part: &Part<'_>, row: &RatioRow) -> bool {
    let of = |cause| explained(part, row, cause).next();
    let more = of(Cause::BeyondComputing).zip(of(Cause::ComputingInTheSameBlocks));
    more.is_some_and(|(rest, control)| rest.lo > control.hi.max(0.0))
}

/// What observers saw that differs most between the arms, relative to its interval.
fn differing(part: &Part<'_>, row: &RatioRow) -> Option<String> {
    let distance = |found: &ExplanationRow| found.value.abs() / (found.hi - found.lo).max(f64::MIN_POSITIVE);
    let rows = [Cause::OtherPrograms, Cause::Observed].into_iter().flat_map(|cause| explained(part, row, cause));
    let rows = rows.filter(|found| found.lo > 0.0 || found.hi < 0.0);
    let most = rows.max_by(|one, two| distance(one).total_cmp(&distance(two)))?;
    let value = number::estimate(most.value, Some(most.lo), Some(most.hi));
    Some(
        format!(
            "No cause is shown. Largest difference in system activity: {} {value} {}",
            clean(&most.what),
            clean(&most.unit)
        )
        .trim_end()
        .to_owned(),
    )
}

/// From here on the bound on what VM exits cost says nothing: it is the control's noise.
const BOUND_MOST: f64 = 0.02;

/// The bound that the control sets on the cost of VM exits, where there are any and it is one: not where the control is faster there.
fn exits(part: &Part<'_>) -> Option<String> {
    let document = &part.document;
    let is_of_a_vm = |row: &&RatioRow| document.run.workload == CONTROL && is_a_vm(document, &row.treatment);
    let (_, hi) =
        headline_of(part).filter(is_of_a_vm).find_map(loss).filter(|(_, hi)| *hi >= 0.0 && *hi < BOUND_MOST)?;
    Some(format!("VM exits cost at most {} (bound from {CONTROL})", number::percent(hi)))
}

/// The extra time of a ratio's numerator, from its interval: least and most.
fn loss(row: &RatioRow) -> Option<(f64, f64)> {
    let (lo, hi) = limits_of(row)?;
    Some((1.0 / hi - 1.0, 1.0 / lo - 1.0))
}

/// What follows from what was measured, where the interval supports it, and no other contrast of page sizes in the same environment
/// contradicts it.
fn advice(parts: &[Part<'_>]) -> Option<String> {
    parts.iter().find_map(pages)
}

fn pages(part: &Part<'_>) -> Option<String> {
    let environment = |row: &ExplanationRow| environments::of(&row.treatment).to_owned();
    let asked = headline(&part.document).any(|ratio| ratio.contrast == Contrast::PageSize);
    let contrasts = || part.document.explanations.iter().filter(|row| row.cause == Some(Cause::LargerPages));
    let gains = |row: &&ExplanationRow| row.lo > 0.0 && !row.advice.is_empty();
    let first = contrasts().filter(gains).find(|row| asked || environment(row) != environments::NATIVE)?;
    let place = environment(first);
    let here: Vec<&ExplanationRow> = contrasts().filter(|row| environment(row) == place).collect();
    if here.iter().any(|row| row.hi < 0.0) {
        return None;
    }
    let supporting: Vec<&ExplanationRow> = here.iter().copied().filter(gains).collect();
    let least = supporting.iter().map(|row| row.lo).fold(f64::INFINITY, f64::min);
    let most = supporting.iter().map(|row| row.hi).fold(0.0, f64::max);
    let places = number::decimals(0.5 * (most - least), Digits::Plain).unwrap_or(1).clamp(0, 3);
    let name = part.name.map(|name| format!("{}: ", clean(name))).unwrap_or_default();
    let guest =
        if place != environments::NATIVE && is_a_vm(&part.document, &first.treatment) { " in the guest" } else { "" };
    // What only some treatments show is advice for these.
    let of = match supporting.len() == here.len() {
        true => String::new(),
        false => format!(" ({})", Factors::of(&part.document.run).name(&first.treatment)),
    };
    Some(format!("{name}use 2m pages{guest}{of}: {} to {} % faster here.", fixed(least, places), fixed(most, places)))
}

/// What a reader must know of the intervals and of the trials, and where there is more.
fn notes(document: &Document, rows: &[Row<'_>]) -> Vec<String> {
    // Where there is nothing to compare, none ran next to another.
    let duet = document.run.duet.filter(|_| !document.ratios.is_empty());
    let mut notes: Vec<String> = duet.map(|duet| format!("Programs {}.", at_once(duet))).into_iter().collect();
    let cautioned = rows.iter().filter_map(|row| Some(format!("{}: {}", row.label, caution(row.ratio?)?)));
    let cautioned: Vec<String> = cautioned.collect();
    match cautioned.as_slice() {
        [] => {}
        [only] => notes.push(only.clone()),
        [first, rest @ ..] => notes.push(format!("{first} {} more: --details", rest.len())),
    }
    notes.extend(document.reliability.iter().filter(|found| found.grade == Grade::Good).map(reliability));
    let ratios = || rows.iter().filter_map(|row| row.ratio);
    if ratios().any(|ratio| limits_of(ratio).is_some()) {
        let assumed = ratios().any(|ratio| ratio.independence_assumed);
        let assumed = if assumed { "; fewer than 30 blocks, assumed independent" } else { "" };
        let levels = confidence_of(ratios().filter(|ratio| limits_of(ratio).is_some()));
        notes.push(match document.run.extensions.len() {
            0 => format!("{levels} intervals{assumed}."),
            times => format!("{levels} intervals{assumed}; {}.", extended(times)),
        });
    }
    let is_compared = |name: &str| {
        let sides = ratios().filter(|row| limits_of(row).is_some()).flat_map(|row| [&row.treatment, &row.relative_to]);
        sides.into_iter().any(|side| environments::of(side) == name)
    };
    let once = document.run.environments.iter().filter(|used| used.starts_once() && is_compared(&used.name));
    let once: Vec<String> = once.map(|used| clean(&used.name)).collect();
    if !once.is_empty() {
        let names = once.join(", ");
        notes.push(format!("Started once for all trials: {names}; intervals do not include how starts differ."));
    }
    let is_a_bound = |row: &&RatioRow| {
        let can = document.run.can_of(&row.treatment);
        can.virtual_machine && !can.devices && environments::of(&row.relative_to) == environments::NATIVE
    };
    if rows.iter().filter_map(|row| row.ratio).any(|row| is_a_bound(&row)) {
        notes.push("The microVM has no devices: a lower bound for a VM.".to_owned());
    }
    notes.extend(isolated(document));
    notes
}

/// Where there is more, and what of it is only there.
fn more(document: &Document) -> String {
    let invalid = document.trials.iter().filter(|trial| trial.status != baremark_model::event::TrialStatus::Ok).count();
    let flags = document.flags.len();
    let absent = document.absent.len();
    let known = [
        (flags, count(flags as u64, "flag")),
        (invalid, count(invalid as u64, "invalid trial")),
        (absent, format!("{absent} absent")),
    ];
    let known = known.into_iter().filter(|(n, _)| *n > 0).map(|(_, words)| words).collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { String::new() } else { format!(" ({known})") };
    format!("More{known}: baremark report --details | --html FILE | --json")
}

/// What isolates the environments that are made of layers, and what they lack here.
fn isolated(document: &Document) -> impl Iterator<Item = String> {
    let layered = document.run.environments.iter().filter(|of| of.settings.contains_key(environments::LAYERS));
    layered.map(|of| {
        let name = clean(&of.name);
        // What the kernel said of each is in the details.
        let lacks =
            if of.lacks.is_empty() { String::new() } else { format!("; lacks {}", clean(&of.lacks.join("; "))) };
        format!("{name}: namespaces and filters on this kernel, not a VM{lacks}.")
    })
}

/// A label with what it says.
fn labelled(page: &mut Page, label: &str, says: &str) {
    const COLUMN: usize = 8;
    let style = page.style;
    let room = style.width.saturating_sub(COLUMN).max(20);
    for (index, line) in wrap(&style.plain(says), room).iter().enumerate() {
        let label = if index == 0 { style.paint(Paint::Strong, &left(label, COLUMN)) } else { " ".repeat(COLUMN) };
        page.line(Paint::Plain, &format!("{label}{line}"));
    }
}

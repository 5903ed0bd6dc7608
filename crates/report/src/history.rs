//! The list of stored runs.

use crate::number::{Digits, count, fixed, ratio_decimals};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, cut, left, right, width};
use crate::treatment::{ENVIRONMENT, phrase};
use baremark_model::order;
use baremark_model::plan::Treatment;
use baremark_model::tables::WORKLOAD;
use baremark_model::units::UnixTime;

/// A stored run in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Its name.
    pub id: String,
    /// Its question.
    pub title: String,
    /// When it began.
    pub started: UnixTime,
    /// `live`, `killed` or `finished`.
    pub state: String,
    /// Blocks that are complete.
    pub blocks: u64,
    /// Why it ended.
    pub stop_reason: Option<String>,
}

/// The runs as a table, in the order given.
#[must_use]
pub fn render(rows: &[HistoryRow], style: &Style) -> String {
    if rows.is_empty() {
        return "No run has been stored yet.\n".to_owned();
    }
    let cells: Vec<[String; 5]> = rows.iter().map(cells).collect();
    let heads = ["run", "began (UTC)", "state", "blocks", "study"].map(str::to_owned);
    let column = |at: usize| cells.iter().chain([&heads]).map(|row| width(&row[at])).max().unwrap_or(0);
    let widths = [column(0), column(1), column(2), column(3)];
    let line = |row: &[String; 5], paint: Paint| {
        let fixed: usize = widths.iter().map(|w| w + 2).sum();
        let line = format!(
            "{}  {}  {}  {}  {}",
            left(&row[0], widths[0]),
            left(&row[1], widths[1]),
            left(&row[2], widths[2]),
            right(&row[3], widths[3]),
            cut(&row[4], style.width.saturating_sub(fixed).max(16)),
        );
        format!("{}\n", style.paint(paint, style.plain(&line).trim_end()))
    };
    let body = cells.iter().map(|row| line(row, Paint::Plain));
    std::iter::once(line(&heads, Paint::Strong)).chain(body).collect()
}

/// One quantity over the runs of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesRow<'r> {
    /// The study's question.
    pub study: &'r str,
    /// Whether its runs are those of `--quick`.
    pub quick: bool,
    /// The metric's key.
    pub metric: &'r str,
    /// The treatment.
    pub treatment: &'r Treatment,
    /// Of a ratio: what is below the line.
    pub relative_to: Option<&'r Treatment>,
    /// Runs that have it.
    pub runs: usize,
    /// The changes; `None` where there are too few runs.
    pub changes: Option<Vec<ChangeRow>>,
}

/// A change of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRow {
    /// The first run after it.
    pub run: String,
    /// When that began, RFC 3339.
    pub started: String,
    /// Values after it over those before, with the limits of the interval.
    pub ratio: [f64; 3],
    /// By the permutation test.
    pub p_value: f64,
}

/// The changes of every series, the studies in the order given.
#[must_use]
pub fn changes(rows: &[SeriesRow<'_>], style: &Style) -> String {
    if rows.is_empty() {
        return "No finished run is in the store.\n".to_owned();
    }
    let mut page = Page { style: *style, text: String::new() };
    let mut study = None;
    for row in rows {
        if study != Some((row.study, row.quick)) {
            let quick = if row.quick { " (quick)" } else { "" };
            page.head(&format!("{}{quick}", clean(row.study)));
            study = Some((row.study, row.quick));
        }
        if row.changes.is_some() {
            page.paragraph(Paint::Plain, INDENT, INDENT, &line(row));
            continue;
        }
        let same = |other: &&SeriesRow<'_>| (other.study, other.quick) == (row.study, row.quick);
        let few: Vec<&SeriesRow<'_>> = rows.iter().filter(same).filter(|of| of.changes.is_none()).collect();
        if few.first().is_some_and(|first| std::ptr::eq(*first, row)) {
            let most = few.iter().map(|of| of.runs).max().unwrap_or(0);
            let series = if few.len() == 1 { "1 series has".to_owned() } else { format!("{} series have", few.len()) };
            let says = format!("{series} too few runs for changes: {most} at most, 8 are needed");
            page.paragraph(Paint::Faint, INDENT, INDENT, &says);
        }
    }
    let note = "Change points by E-divisive at a level of 1 %. Runs that resemble their neighbours raise the share of false ones.";
    page.text.push('\n');
    page.paragraph(Paint::Faint, 0, INDENT, note);
    page.text.trim_start_matches('\n').to_owned()
}

/// "microvm, 4k pages / native (gups), 14 runs: 1.05 times (1.03 to 1.07) from run 2026... of 2026-11-02 on"
fn line(row: &SeriesRow<'_>) -> String {
    let said = match &row.changes {
        Some(changes) if !changes.is_empty() => changes.iter().map(change).collect::<Vec<_>>().join("; "),
        _ => "no change".to_owned(),
    };
    format!("{}, {}: {said}", quantity(row), count(row.runs as u64, "run"))
}

/// "microvm, 4k pages / native (gups)"
#[must_use]
pub fn quantity(row: &SeriesRow<'_>) -> String {
    // What is below the line runs the same work: its workload is not repeated.
    let name = |treatment: &Treatment, without: &[&str]| {
        let mut levels: Vec<(&String, &String)> =
            treatment.iter().filter(|(key, _)| !without.contains(&key.as_str())).collect();
        order::by_key(&mut levels, |(key, _)| {
            [WORKLOAD, ENVIRONMENT].iter().position(|first| first == key).unwrap_or(2)
        });
        levels.into_iter().map(|(key, label)| named(key, label)).collect::<Vec<_>>().join(", ")
    };
    let below = row.relative_to.map(|below| format!(" / {}", name(below, &[WORKLOAD]))).unwrap_or_default();
    format!("{}{below} ({})", name(row.treatment, &[]), clean(row.metric))
}

fn named(key: &str, label: &str) -> String {
    if key == WORKLOAD { clean(label) } else { phrase(key, label) }
}

fn change(change: &ChangeRow) -> String {
    let day = change.started.get(..10).unwrap_or(&change.started);
    format!("{} from run {} of {day} on", size(change), clean(&change.run))
}

/// "1.05 times (1.03 to 1.07)"
#[must_use]
pub fn size(change: &ChangeRow) -> String {
    let [ratio, lo, hi] = change.ratio;
    let places = ratio_decimals(ratio, Some((lo, hi)), 1.0, Digits::Two);
    let [ratio, lo, hi] = [ratio, lo, hi].map(|of| fixed(of, places));
    format!("{ratio} times ({lo} to {hi})")
}

fn cells(row: &HistoryRow) -> [String; 5] {
    let [year, month, day, hour, minute, _] = row.started.civil();
    let began = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}");
    let reason = row.stop_reason.as_deref().map(|why| format!(" ({})", clean(why))).unwrap_or_default();
    [clean(&row.id), began, clean(&row.state), row.blocks.to_string(), format!("{}{reason}", clean(&row.title))]
}

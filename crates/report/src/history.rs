//! The list of stored runs.

use crate::text::{Paint, Style, clean, cut, left, right, width};
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

fn cells(row: &HistoryRow) -> [String; 5] {
    let [year, month, day, hour, minute, _] = row.started.civil();
    let began = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}");
    let reason = row.stop_reason.as_deref().map(|why| format!(" ({})", clean(why))).unwrap_or_default();
    [clean(&row.id), began, clean(&row.state), row.blocks.to_string(), format!("{}{reason}", clean(&row.title))]
}

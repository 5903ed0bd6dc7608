//! What was read from another program's file, by itself.

use crate::activity::label;
use crate::live::short;
use crate::number::count;
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, cut, left, right, width};
use baremark_model::imported::Imported;
use baremark_model::units::UnixTime;

/// Quantities that are shown; the rest is counted, and all are in JSON and CSV.
const MOST: usize = 60;
const COLUMN: usize = 11;

/// The file in a table: mean, least and largest of each quantity.
#[must_use]
pub fn render(imported: &Imported, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    let began = UnixTime(imported.began_unix_ns);
    let (program, host) = (clean(&imported.program), clean(&imported.host));
    let rows = count(imported.rows, "row");
    page.paragraph(Paint::Strong, 0, INDENT, &format!("{program} of {host}"));
    page.paragraph(Paint::Faint, 0, INDENT, &format!("{rows} over {:.0} s from {began}", imported.seconds));
    page.text.push('\n');
    let names: Vec<String> = imported
        .series
        .iter()
        .take(MOST)
        .map(|series| label(&series.quantity, &series.instance, &series.unit))
        .collect();
    let room = style.width.saturating_sub(INDENT + 3 * COLUMN).max(20);
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(room);
    let heads = ["mean", "least", "largest"].map(|head| right(head, COLUMN)).concat();
    page.line(Paint::Strong, &format!("{}{}{heads}", " ".repeat(INDENT), left("", widest)));
    for (name, series) in names.iter().zip(&imported.series) {
        let values = [series.mean, series.min, series.max].map(|value| right(&short(value), COLUMN)).concat();
        let name = left(&cut(&style.plain(name), widest), widest);
        page.line(Paint::Plain, &format!("{}{name}{values}", " ".repeat(INDENT)));
    }
    if imported.series.len() > MOST {
        let more = imported.series.len() - MOST;
        page.paragraph(Paint::Faint, INDENT, INDENT, &format!("{more} more; --json has them all"));
    }
    page.list("Notes", &imported.notes.iter().map(|note| clean(note)).collect::<Vec<_>>());
    page.text
}

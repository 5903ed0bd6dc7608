//! Changes of a study's values over the runs of a site.

use baremark_lab::history::series;
use baremark_report::site::Entry;
use baremark_report::{Color, Style, history};

/// From which run on a study's values are different, as text; empty where nothing is known of that.
pub fn text(entries: &[Entry]) -> String {
    let documents: Vec<_> = entries.iter().map(|entry| entry.document.clone()).collect();
    let found = series(&documents);
    let rows: Vec<_> = found.iter().map(crate::commands::history::changed).collect();
    let plain = Style { width: 100, color: Color::Never, unicode: true };
    if rows.is_empty() { String::new() } else { history::changes(&rows, &plain) }
}

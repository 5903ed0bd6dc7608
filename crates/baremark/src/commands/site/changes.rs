//! Changes of a study's values over the runs of a site.

use baremark_lab::history::{Recorded, series};
use baremark_report::{Color, Style, history};
use std::borrow::Borrow;

/// From which run on a study's values are different, as text; empty where nothing is known of that.
pub fn text(runs: &[impl Borrow<Recorded>]) -> String {
    let found = series(runs);
    let rows: Vec<_> = found.iter().map(crate::commands::history::changed).collect();
    let plain = Style { width: 100, color: Color::Never, unicode: true };
    if rows.is_empty() { String::new() } else { history::changes(&rows, &plain) }
}

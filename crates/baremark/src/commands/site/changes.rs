//! Changes of a study's values over the runs of a site.

use crate::commands::history::changed;
use baremark_bundle::digest;
use baremark_lab::history::{Recorded, series};
use baremark_model::order;
use baremark_report::history;
use baremark_report::site::feed::ChangePoint;
use serde_json::json;
use std::borrow::Borrow;

/// The runs from which on a study's values are different, the latest first; `page` is the file of a run's report.
pub fn points(runs: &[impl Borrow<Recorded>], page: impl Fn(&str) -> Option<String>) -> Vec<ChangePoint> {
    let mut found = Vec::new();
    for of in series(runs) {
        let row = changed(&of);
        let quantity = history::quantity(&row);
        let quick = if of.quick { " (quick)" } else { "" };
        for change in row.changes.iter().flatten() {
            found.push(ChangePoint {
                uuid: uuid(
                    &json!([of.study, of.quick, of.metric, of.treatment, of.relative_to, change.run]).to_string(),
                ),
                study: format!("{}{quick}", of.study),
                says: format!("{quantity}: {}", history::size(change)),
                page: page(&change.run),
                started: change.started.clone(),
            });
        }
    }
    order::by(&mut found, |one, two| two.started.cmp(&one.started));
    found
}

/// The UUID of a site of these runs: that of its first one, whose name is random in part, and stays as runs are added.
pub fn site<'i>(runs: impl Iterator<Item = &'i str>) -> String {
    uuid(&format!("site {}", runs.min().unwrap_or_default()))
}

/// A UUID that follows from a text (RFC 9562, version 8): the same text has the same one.
fn uuid(text: &str) -> String {
    let digits = digest(text.as_bytes());
    format!("{}-{}-8{}-a{}-{}", &digits[..8], &digits[8..12], &digits[13..16], &digits[17..20], &digits[20..32])
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        let made = uuid("x");
        let lengths: Vec<usize> = made.split('-').map(str::len).collect();
        assert_eq!((lengths, &made[14..15], &made[19..20]), (vec![8, 4, 4, 4, 12], "8", "a"), "{made}");
        assert!(made != uuid("y") && made == uuid("x"));
    }
}

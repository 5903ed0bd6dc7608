//! Changes of studies as an Atom feed (RFC 4287): an entry for each run from which on a value or ratio is different.

use std::fmt::Write as _;

/// Entries of a feed: the latest.
const MOST: usize = 100;

/// A run from which on a quantity of a study is different.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePoint {
    /// A UUID that is this change's and no other's.
    pub uuid: String,
    /// The study's question.
    pub study: String,
    /// What is different and by how much.
    pub says: String,
    /// The report of the first run after it, alongside the feed.
    pub page: Option<String>,
    /// When that began, RFC 3339.
    pub started: String,
}

impl ChangePoint {
    /// "2026-11-28"
    pub(super) fn day(&self) -> &str {
        self.started.get(..10).unwrap_or(&self.started)
    }
}

/// The feed of these changes, the latest first; `uuid` is this site's and `latest` is when its latest run began.
pub(super) fn feed(uuid: &str, changes: &[ChangePoint], latest: &str) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         <title>baremark: changes of studies</title>\n<id>urn:uuid:{}</id>\n\
         <author><name>baremark</name></author>\n<link rel=\"alternate\" type=\"text/html\" href=\"index.html\"/>\n\
         <link rel=\"self\" type=\"application/atom+xml\" href=\"changes.atom\"/>\n",
        xml(uuid),
    );
    // A `String` takes whatever is written to it.
    let _ = writeln!(text, "<updated>{}</updated>", xml(latest));
    for change in changes.iter().take(MOST) {
        let link = change
            .page
            .as_ref()
            .map(|page| format!("<link rel=\"alternate\" type=\"text/html\" href=\"{}\"/>", xml(page)));
        let _ = writeln!(
            text,
            "<entry><title>{}: {}</title><id>urn:uuid:{}</id><updated>{}</updated>{}<summary>{}</summary></entry>",
            xml(&change.study),
            xml(&change.says),
            xml(&change.uuid),
            xml(&change.started),
            link.unwrap_or_default(),
            xml(&change.says),
        );
    }
    text + "</feed>\n"
}

/// A text in XML, which has no control characters.
fn xml(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect();
    crate::svg::escape(&plain)
}

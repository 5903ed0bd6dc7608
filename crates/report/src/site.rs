//! A folder of reports: an index with a row for each study, and what it loads when it is needed.
//!
//! A row is a study on a machine: the value and the ratio that matter most in its latest run, the verdict, and how that ratio went over the runs.
//! Rows and runs are in files of their own ([`shards`]), so that the index is small however many runs there are, and a page that is opened from
//! a disk works as one that is served: a browser loads scripts there, and nothing else. The index's script filters, sorts and compares; every
//! text of a run reaches the page as text.

mod entry;
pub mod feed;
mod shards;

pub use entry::Entry;

use crate::number;
use crate::page::head_of_site;
use crate::svg::escape;
use feed::ChangePoint;
use shards::StudyRows;
use std::borrow::Borrow;
use std::fmt::Write;

const SCRIPT: &str = include_str!("site.js");
const STYLE: &str = include_str!("site.css");
/// Loads the index again, but not while a reader has selected, unfolded, sorted or scrolled.
const FOLLOW: &str = "setInterval(() => { if (!picked.length && !open.size && !order && shown === 60 && scrollY === 0 && \
                      !['INPUT', 'SELECT'].includes(document.activeElement.tagName)) location.reload(); }, 5000);\n";
/// Changes that the index lists; the feed has more.
const LISTED: usize = 12;
/// The file of the index, to which every report links.
pub const INDEX: &str = "index.html";
/// The file of the feed.
pub const FEED: &str = "changes.atom";

/// The files of a site but for its reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The index.
    pub index: String,
    /// What it loads: names and contents, scripts that hand over JSON.
    pub shards: Vec<(String, String)>,
    /// Changes as an Atom feed.
    pub feed: String,
}

/// What is said of a site in addition to its runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// A UUID that is this site's and no other's.
    pub uuid: String,
    /// The points from which on a study's values are different, the latest first.
    pub changes: Vec<ChangePoint>,
    /// Runs that are still to be read, after which there is another index.
    pub unread: usize,
    /// Whether the index loads itself again, since runs measure or are still to be read.
    pub follow: bool,
}

/// The site of these runs.
#[must_use]
pub fn render(entries: &[impl Borrow<Entry>], about: &About) -> Site {
    let entries: Vec<&Entry> = entries.iter().map(Borrow::borrow).collect();
    let rows = StudyRows::of(&entries);
    let mut index = String::new();
    // A `String` takes whatever is written to it.
    let _ = write(&mut index, &entries, &rows, about);
    let latest = entries.iter().map(|entry| entry.started.as_str()).max().unwrap_or("1970-01-01T00:00:00Z");
    Site { index, feed: feed::feed(&about.uuid, &about.changes, latest), shards: rows.shards }
}

/// Whether a file of this name is one that an index loads: `studies-0.js`.
#[must_use]
pub fn is_shard(name: &str) -> bool {
    let number = ["studies-", "runs-"].iter().find_map(|kind| name.strip_prefix(kind)?.strip_suffix(".js"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

fn write(page: &mut String, entries: &[&Entry], rows: &StudyRows, about: &About) -> std::fmt::Result {
    let About { changes, unread, follow, .. } = about;
    let count = counted(entries);
    page.push_str(&head_of_site(&format!("baremark: {count}"), STYLE, FEED));
    writeln!(page, "<header><h1>{}</h1>", escape(&count))?;
    let studies = if rows.studies == 1 { "1 study".to_owned() } else { format!("{} studies", rows.studies) };
    writeln!(
        page,
        "<p class=\"context\">{studies}; each row shows the most important result of the latest run. Select runs to compare them.</p>"
    )?;
    if *unread > 0 {
        writeln!(page, "<p class=\"caution\">{} still to be read.</p>", escape(&number::count(*unread as u64, "run")))?;
    }
    page.push_str(FORM);
    if !changes.is_empty() {
        writeln!(page, "<section aria-labelledby=\"changes\"><h2 id=\"changes\">Changes over time</h2>\n<ul>")?;
        for change in changes.iter().take(LISTED) {
            let what = format!("{}, {}: {}", change.day(), change.study, change.says);
            match &change.page {
                Some(to) => writeln!(page, "<li><a href=\"{}\">{}</a></li>", escape(to), escape(&what))?,
                None => writeln!(page, "<li>{}</li>", escape(&what))?,
            }
        }
        let more = match changes.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!("{more} earlier ones are not listed. "),
        };
        writeln!(
            page,
            "</ul>\n<p class=\"note\">{more}Change points by E-divisive at a level of 1 %; runs that resemble their neighbours raise the share of false ones. \
             <a href=\"{FEED}\">As an Atom feed</a>.</p></section>"
        )?;
    }
    writeln!(page, "<script type=\"application/json\" id=\"first\">{}</script>", rows.first)?;
    let follow = if *follow { FOLLOW } else { "" };
    writeln!(page, "<script>\n{SCRIPT}{follow}</script>\n</main>\n</body>\n</html>")
}

/// What the script fills.
const FORM: &str = "</header>\n\
<noscript><p class=\"caution\">This index needs JavaScript. Each run's report is a separate page without scripts.</p></noscript>\n\
<form class=\"filters\" role=\"search\" onsubmit=\"return false\">\n\
<label>Text <input type=\"search\" id=\"text\" placeholder=\"study, machine, verdict\" autocomplete=\"off\"></label>\n\
<label>Kind <select id=\"kind\"><option value=\"\">all</option></select></label>\n\
<label>Machine <select id=\"machine\"><option value=\"\">all</option></select></label>\n\
<output id=\"count\" aria-live=\"polite\"></output>\n\
</form>\n\
<section id=\"comparison\" aria-labelledby=\"compared\" hidden></section>\n\
<section class=\"list\" aria-label=\"studies\"><table class=\"studies\" id=\"studies\">\n<thead><tr></tr></thead>\n<tbody></tbody>\n</table>\n\
<p><button type=\"button\" id=\"more\" hidden>Show more</button></p></section>\n\
<div class=\"picked\" id=\"picked\" role=\"region\" aria-label=\"selected runs\" hidden></div>\n";

/// `3 runs, 1 live`.
fn counted(entries: &[&Entry]) -> String {
    let runs = number::count(entries.len() as u64, "run");
    match entries.iter().filter(|entry| entry.live).count() {
        0 => runs,
        live => format!("{runs}, {live} live"),
    }
}

/// The link from a report to the index.
pub(crate) fn back() -> String {
    format!("<nav><a href=\"{INDEX}\">\u{2190} All runs</a></nav>\n")
}

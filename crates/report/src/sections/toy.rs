//! A new section: this function and one line of a list, and every format shows it in its place.

use crate::section::{Block, Making, Section, Subject};
use crate::text::Style;
use crate::{html, terminal};

#[path = "../../tests/report/documents.rs"]
#[expect(dead_code, reason = "documents of other tests too")]
mod documents;

fn toy(of: Subject<'_>) -> Section {
    let count = format!("{} <trials>", of.document.trials.len());
    let remarks = vec!["A remark.".to_owned()];
    let blocks = vec![Block::Lines(Some("stream".to_owned()), vec![count]), Block::Remarks(remarks)];
    Section { id: "toys", head: "Toys", note: "All are wooden.", blocks }
}

fn empty(_: Subject<'_>) -> Section {
    Section { id: "none", head: "Nothing", note: "It is not shown.", blocks: Vec::new() }
}

/// The line of each.
const SECTIONS: &[Making] = &[toy, empty];

#[test]
fn every_format_shows_a_section_by_its_line_of_the_list() {
    let document = documents::empty();
    let text = terminal::with(&document, &Style::default(), SECTIONS);
    assert!(text.contains("\nToys: all are wooden\n  stream:\n  0 <trials>\n  A remark.\n\nRun\n"), "{text}");
    let page = html::with(&document, SECTIONS, "");
    let section = "<section aria-labelledby=\"toys\">\n<details class=\"fold\">\n<summary><h2 id=\"toys\">Toys</h2></summary>\n\
                   <p class=\"note\">All are wooden.</p>\n<h3>stream</h3>\n<ul>\n<li>0 &lt;trials&gt;</li>\n</ul>\n\
                   <p class=\"note\">A remark.</p>\n</details>\n</section>\n";
    assert!(page.contains(section), "{page}");
    assert!(!text.contains("Nothing\n") && !page.contains("It is not shown."));
}

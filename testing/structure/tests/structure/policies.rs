//! Every page that a report is has a Content-Security-Policy: whatever a stranger's name or text would have a browser do, it does not.

use crate::source;
use std::fs;

#[test]
fn every_page_has_a_content_security_policy() {
    let folder = source::root().join("crates/report/src");
    let sources = source::files(&folder).into_iter().map(|path| (fs::read_to_string(&path).unwrap(), path));
    let pages: Vec<_> = sources.filter(|(text, _)| text.contains("<!doctype html")).collect();
    let [(head, _)] = pages.as_slice() else { panic!("one head begins every page, not {}", pages.len()) };
    assert_eq!(head.matches("<!doctype html").count(), 1);
    assert!(head.contains("http-equiv=\\\"Content-Security-Policy\\\" content=\\\"default-src 'none';"));
}

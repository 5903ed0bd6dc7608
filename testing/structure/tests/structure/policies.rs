//! Every page that a report is has a Content-Security-Policy: whatever a stranger's name or text would have a browser do, it does not.

use crate::source;
use std::fs;

#[test]
fn every_page_has_a_content_security_policy() {
    let folder = source::root().join("crates/report/src");
    let sources = source::files(&folder).into_iter().map(|path| (fs::read_to_string(&path).unwrap(), path));
    let pages: Vec<_> = sources.filter(|(text, _)| text.contains("<!doctype html")).collect();
    assert!(pages.len() >= 4, "{} sources make pages", pages.len());
    for (text, path) in pages {
        let begun = text.matches("<!doctype html").count();
        let policies = text.matches("http-equiv=\\\"Content-Security-Policy\\\" content=\\\"{POLICY}").count();
        assert_eq!(begun, policies, "{}: pages, and policies", path.display());
        assert!(text.contains("const POLICY: &str = \"default-src 'none';"), "{}", path.display());
    }
}

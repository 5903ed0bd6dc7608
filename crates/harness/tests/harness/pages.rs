//! What is said of results, in words and as pages.

use baremark_harness::document::{Document, FORMAT, Users};
use baremark_harness::page::{render, render_study};
use baremark_harness::study::{self, ArmRow, Ratio, StudyDocument};
use baremark_harness::words;

fn document(users: Option<Users>) -> Document {
    Document {
        format: FORMAT.to_owned(),
        title: "a <site>".to_owned(),
        seed: 1,
        valid: true,
        void: Vec::new(),
        remarks: vec!["something to know".to_owned()],
        users,
        applications: Vec::new(),
        elapsed_s: 61.0,
        budget_s: Some(108.0),
        cpus: 2,
    }
}

fn users(basis: &str, verified: bool) -> Users {
    Users { most: 570.0, verified, low: Some(400.0), high: Some(800.0), confidence: 0.95, basis: basis.to_owned() }
}

#[test]
fn the_answer_says_what_its_interval_is_and_whether_it_was_seen() {
    for (basis, verified, phrases) in [
        ("within-run", true, &["at most 570 users", "(400 to 800 at 95 %)", "seen to keep every limit"][..]),
        ("bracket", true, &["(400 to 800)", "between what kept the limits and what broke them"]),
        ("fresh-trials", false, &["over fresh trials", "no level verified: no time was left"]),
    ] {
        let said = words::headline(&document(Some(users(basis, verified))));
        for phrase in phrases {
            assert!(said.contains(phrase), "{said}");
        }
        assert_eq!(said.contains("95 %"), basis != "bracket", "a bracket has no confidence: {said}");
    }
    let said = words::describe(&document(None));
    assert!(said.contains("61 s in all of 108 s allowed") && said.contains("something to know"), "{said}");
}

#[test]
fn a_page_needs_no_network_and_no_script_and_shows_markup_as_text() {
    let page = render(&document(Some(users("bracket", true))));
    assert!(page.contains("a &lt;site&gt;") && !page.contains("<site>"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http://") && page.contains("default-src 'none'"));
}

#[test]
fn a_study_shows_each_arm_with_its_interval_and_why_one_is_absent() {
    let arm = |name: &str, value: Option<f64>, ratio, absent: Option<&str>| ArmRow {
        name: name.to_owned(),
        values: vec![value; 3],
        ratio,
        absent: absent.map(str::to_owned),
        emulated: false,
    };
    let ratio = Ratio { ratio: 0.9, low: Some(0.85), high: Some(0.95), confidence: 0.95, blocks: 3 };
    let document = StudyDocument {
        format: study::FORMAT.to_owned(),
        title: "places".to_owned(),
        metric: "users".to_owned(),
        arms: vec![
            arm("native", Some(1000.0), None, None),
            arm("container", Some(900.0), Some(ratio), None),
            arm("a <place>", None, None, Some("nobody is there")),
        ],
        runs: Vec::new(),
    };
    let (page, text) = (render_study(&document), study::describe(&document));
    for phrase in ["0.900", "0.850 to 0.950", "not available here", "a &lt;place&gt;", "<circle"] {
        assert!(page.contains(phrase), "no {phrase} in {page}");
    }
    for phrase in ["0.900 (0.850 to 0.950)", "not available here: nobody is there"] {
        assert!(text.contains(phrase), "no {phrase} in {text}");
    }
}

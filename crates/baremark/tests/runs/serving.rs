//! `baremark site --serve`: pages of runs while they measure.

use crate::common::bench::{Bench, signal, text};
use crate::common::serving::{Endless, Serving};

fn refreshes(answer: &str) -> bool {
    answer.split("\r\n\r\n").next().is_some_and(|head| head.contains("refresh: 5"))
}

#[test]
fn a_run_is_followed_while_it_measures() {
    let bench = Bench::new();
    let mut run = Endless::start(&bench);

    let mut serving = Serving::start(&bench);
    let index = serving.get("/");
    assert!(
        index.starts_with("HTTP/1.1 200") && index.contains("location.reload") && index.contains("1 run, 1 live"),
        "{index}"
    );
    let page = index.split("\"p\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect(&index);
    let report = serving.get(&format!("/{page}"));
    assert!(refreshes(&report) && report.contains("This run has not ended"), "{report:.600}");

    for (file, media) in
        [("index.html", "text/html"), ("runs-0.js", "text/javascript"), ("changes.atom", "application/atom+xml")]
    {
        let answer = serving.get(&format!("/{file}"));
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(&format!("content-type: {media}; charset=utf-8")),
            "{answer:.300}"
        );
    }

    run.interrupt();
    let index = serving.get("/");
    assert!(!index.contains("location.reload") && index.contains("interrupted"), "{index}");

    for (path, host, status) in [
        ("/20000101-0000-0000.html", serving.address.as_str(), "404"),
        ("/../../etc/passwd", &serving.address, "404"),
        ("/", "attacker.example", "403"),
    ] {
        let answer = serving.asked(path, host);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} of {host}: {answer}");
    }

    signal(serving.child.id(), libc::SIGINT);
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn nothing_is_served_where_there_is_no_store() {
    let output = Bench::new().run(&["site", "--serve", "0"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let neither = Bench::new().run(&["site"]);
    assert_eq!(neither.status.code(), Some(2), "{}", text(&neither.stderr));
    assert!(text(&neither.stderr).contains("no folder is named; name one"), "{}", text(&neither.stderr));
}

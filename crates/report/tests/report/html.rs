//! The report as a page: by content, and by what it must not contain.

use crate::documents;
use baremark_model::document::Document;
use baremark_model::event::TrialStatus;
use baremark_report::{figure, html};

/// The page without its style, so that golden files show what changes for a reader.
fn body(document: &Document) -> String {
    let page = html::render(document);
    let (_, body) = page.split_once("</style>").expect("a style");
    body.to_owned()
}

/// The text of the page as it is read aloud: no tags, no figures' shapes.
fn text(page: &str) -> String {
    let mut text = String::new();
    for piece in page.split('<').skip(1) {
        let (_, words) = piece.split_once('>').expect("every tag is closed");
        text.push_str(words.trim_end_matches('\n'));
        text.push(' ');
    }
    let plain = text.replace('\u{a0}', " ").replace("&#39;", "'").replace("&gt;", ">");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn typical() {
    insta::assert_snapshot!(body(&documents::typical()));
}

#[test]
fn flags_and_an_overturned_verdict() {
    insta::assert_snapshot!(text(&body(&documents::flagged())));
}

/// Each of 100,000 imported values was two circles: a page of 17 MB, in which nothing was seen.
#[test]
fn very_many_trials_are_drawn_as_where_they_lie() {
    let page = body(&documents::crowd(20_000));
    assert!(page.len() < 200_000, "{} bytes", page.len());
    let (lane, rest) = page.split_once("lane-axis").expect("a row with its picture, and the axis below");
    let counts: u64 =
        lane.split("<g><title>").skip(1).filter_map(|says| says.split(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!(counts, 20_000 - 20, "each trial that counts is in one bar");
    assert!(rest.contains("Grey: how many trials lie where") && !page.contains("class=\"trial\""));
    // Columns of the course: all blocks, each once, and those that do not count.
    let columns: Vec<&str> =
        rest.split("<g><title>blocks ").skip(1).filter_map(|says| says.split('<').next()).collect();
    let ends: Vec<u64> =
        columns.iter().flat_map(|says| says.split([' ', ':']).filter_map(|word| word.parse().ok()).take(2)).collect();
    assert_eq!((ends.first(), ends.last()), (Some(&1), Some(&20_000)));
    assert!(ends[1..ends.len() - 1].chunks(2).all(|of| of[0] + 1 == of[1]), "{ends:?}");
    assert_eq!(columns.iter().filter(|says| says.ends_with("1 that do not count")).count(), 20);
    let few = body(&documents::crowd(500));
    assert_eq!(few.matches("class=\"trial\"").count(), 500);
    assert!(few.contains(": GUP/s in each block") && !few.contains("crowd"));
}

/// Since what an axis has no place for is drawn at its end, an interval that went on looked like one that ends there.
#[test]
fn an_interval_that_goes_on_beyond_the_axis_has_an_arrow() {
    let arrows = |document: &Document| -> Vec<String> {
        let page = body(document);
        let ends = page.split("<polyline class=\"end").skip(1);
        let points = ends.filter_map(|rest| rest.split("points=\"").nth(1)?.split('"').next());
        let is_arrow = |points: &&str| {
            let mut across = points.split(' ').filter_map(|point| point.split(',').next());
            across.next() != across.next()
        };
        points.filter(is_arrow).map(str::to_owned).collect()
    };
    let mut document = documents::typical();
    assert_eq!(arrows(&document), [""; 0]);
    let [below, above] = ["7.0,7.0 2.0,12.0 7.0,17.0", "253.0,7.0 258.0,12.0 253.0,17.0"];
    document.ratios[0].hi = Some(50.0);
    assert_eq!(arrows(&document), [above]);
    document.ratios[0].lo = Some(0.001);
    assert_eq!(arrows(&document), [below, above]);
}

#[test]
fn several_workloads() {
    let page = body(&documents::several());
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|piece| piece.split('"').next()).collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len(), "an id stands once: {ids:?}");
    insta::assert_snapshot!(text(&page));
}

#[test]
fn page_size_contrasts() {
    insta::assert_snapshot!(text(&body(&documents::page_sizes())));
}

#[test]
fn absent_microvm() {
    insta::assert_snapshot!(text(&body(&documents::absent())));
}

#[test]
fn members_of_an_ensemble_stand_beside_what_they_came_to_together() {
    let page = text(&body(&documents::ensemble()));
    let said = "Members of microvm with 2 ranks and count 2, each alone, and together member 1 member 2 together \
                triad (MB/s); together: sum 20010 ± 100 20100 ± 100 40110 ± 150 \
                window (MB/s); together: at the same time 19300 ± 100 19400 ± 100 37050 ± 150";
    assert!(page.contains(&said.split_whitespace().collect::<Vec<_>>().join(" ")), "{page}");
}

/// A count of 0, or a temperature below it, was drawn as a trial that has no value.
#[test]
fn a_value_of_nought_or_less_is_a_value() {
    let mut document = documents::crowd(8);
    document.trials[2].arms[0].medians[0].value = 0.0;
    document.trials[5].arms[0].medians[0].value = -0.1;
    let page = body(&document);
    for says in ["block 3: 0.000", "block 6: -0.1000", "8 trials; values from -0.100 to 0."] {
        assert!(page.contains(says), "{says}: {page}");
    }
    assert!(!page.contains(": no value"), "{page}");
}

#[test]
fn the_verdict_stands_before_everything_else() {
    let page = body(&documents::flagged());
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what} is missing"));
    assert!(at("<h2 id=\"result\">") < at("<table"));
    assert!(at("Not robust") < at("microvm keeps 99.38"), "what overturns a verdict is said first");
    assert!(
        at("<p class=\"effect\">") < at("<svg") && at("<svg") < at("microvm keeps 99.38"),
        "effect, intervals, then sentences"
    );
    assert!(at("<table") < at("<h2 id=\"flags\">"));
    assert!(at("<h2 id=\"flags\">") < at("baremark run studies/star-random-access.toml"));
}

#[test]
fn the_page_says_what_the_terminal_says() {
    let documents = [documents::typical(), documents::bounded(), documents::self_check(), documents::wide()];
    for document in documents {
        let style = baremark_report::Style { width: 10_000, ..Default::default() };
        let terminal = baremark_report::terminal::render(&document, &style);
        let page = text(&body(&document));
        for line in
            terminal.lines().filter(|line| line.contains("of this virtual machine") || line.contains("Intervals"))
        {
            assert!(page.contains(line.trim()), "{line}\n{page}");
        }
    }
}

/// Every tag that is opened is closed, in order; enough of a parser for what this crate writes.
fn assert_well_formed(page: &str) {
    const VOID: &[&str] = &["meta", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("every tag is closed");
        let name = tag.split_whitespace().next().unwrap_or_default().trim_end_matches('/');
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "near <{piece}"),
            None if VOID.contains(&name) || tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn pages_are_well_formed_and_ask_for_nothing() {
    let documents = [
        documents::typical(),
        documents::bounded(),
        documents::self_check(),
        documents::absent(),
        documents::page_sizes(),
        documents::flagged(),
        documents::wide(),
        documents::scaling(),
        documents::stream(),
        documents::nothing(),
        documents::empty(),
    ];
    for document in documents {
        let page = html::render(&document);
        assert_well_formed(&page);
        for outside in ["http:", "https:", "src=", "<script", "@import", "url(", "<link", "javascript:"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""), "no number that is none");
        for figure in figure::figures(&document) {
            let file = figure.file();
            assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{file}");
            assert_well_formed(&file);
        }
    }
}

#[test]
fn figures_are_told_to_those_who_cannot_see_them() {
    let page = body(&documents::typical());
    assert_eq!(page.matches("<svg").count(), 5, "two ratios with their axis, and two courses");
    assert_eq!(page.matches("role=\"img\"").count(), 5);
    assert!(page.contains("<desc id=\"lane-1-description\">0.848, 0.840 to 0.855</desc>"), "{page}");
    assert!(page.contains("<desc id=\"course-1-description\">20 trials; the largest value is"), "{page}");
    assert!(page.contains("<th scope=\"col\">microvm</th>") && page.contains("<th scope=\"row\">4k pages</th>"));
}

#[test]
fn a_factor_of_numbers_or_sizes_is_drawn_as_a_curve() {
    let mut document = documents::typical();
    let sizes = ["32 KiB", "1 MiB", "256 MiB"];
    document.run.factors = vec![
        ("environment".to_owned(), vec!["native".to_owned(), "microvm".to_owned()]),
        ("working_set".to_owned(), sizes.iter().map(|size| (*size).to_owned()).collect()),
    ];
    let row = |environment: &str, size: &str, value: f64| {
        let treatment = documents::treatment(&[("environment", environment), ("working_set", size)]);
        documents::estimate("gups", &treatment, value, 0.01 * value)
    };
    let native = sizes.iter().zip([1.2, 4.0, 90.0]).map(|(size, value)| row("native", size, value));
    let machine = sizes.iter().zip([1.2, 4.1, 120.0]).map(|(size, value)| row("microvm", size, value));
    document.estimates = native.chain(machine).collect();
    let page = body(&document);
    let (_, rest) = page.split_once("aria-labelledby=\"curve-working_set-title").expect("a curve over the sizes");
    let (curve, _) = rest.split_once("</svg>").expect("its end");
    assert!(curve.contains("native, 32 KiB 1.20, 1 MiB 4.00, 256 MiB 90.0; microvm, 32 KiB 1.20"), "{curve}");
    assert_eq!((curve.matches("<polyline").count(), curve.matches("<circle").count()), (2, 6), "{curve}");
    assert!(curve.contains(">working set</text>") && curve.contains(">32 KiB</text>"), "{curve}");
    assert!(page.contains("both axes are logarithmic"), "latencies of caches and memory lie far apart");
    document.estimates.retain(|row| row.treatment["working_set"] != "1 MiB");
    assert!(!body(&document).contains("curve-working_set"), "two levels are not curve");
    assert!(!body(&documents::typical()).contains("aria-labelledby=\"curve-"), "pages are words");
}

#[test]
fn every_trial_is_a_point_and_what_does_not_count_a_cross() {
    let mut document = documents::flagged();
    document.trials[7].flags = vec!["first and second halves differ".to_owned()];
    let page = body(&document);
    let course = |number: usize| {
        let (_, rest) = page.split_once(&format!("aria-labelledby=\"course-{number}-title")).expect("a course");
        rest.split_once("</svg>").expect("its end").0.to_owned()
    };
    let (first, second) = (course(1), course(2));
    let count = |course: &str, what: &str| course.matches(what).count();
    assert_eq!((count(&first, "<circle"), count(&first, "class=\"void\"")), (19, 1), "a failed trial has no arms");
    assert_eq!((count(&second, "<circle"), count(&second, "class=\"void\"")), (18, 2));
    assert_eq!(count(&second, "point flagged"), 1);
    assert!(first.contains("block 16: no value, does not count"), "{first}");
}

/// What an estimator gives when it has nothing to go by must not become a drawing, nor a panic.
#[test]
fn numbers_that_are_none_are_left_out() {
    for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0] {
        for spoilt in 0..4 {
            let mut document = documents::typical();
            let row = &mut document.ratios[0];
            match spoilt {
                0 => (row.ratio, row.lo, row.hi) = (Some(none), Some(none), Some(none)),
                1 => row.hi = Some(none),
                2 => document.estimates[0].estimate = none,
                _ => document.trials[3].arms[0].medians[0].value = none,
            }
            document.ratios[0].sensitivity.clear();
            let pages = [html::render(&document), baremark_report::terminal::render(&document, &Default::default())];
            for page in pages {
                assert!(!page.contains("NaN") && !page.contains("inf"), "{none} at {spoilt}: {page}");
            }
        }
    }
}

#[test]
fn nothing_that_others_wrote_becomes_markup() {
    let bad = "\"><script>alert('x')</script><img src=x onerror=y>&amp;\x1b";
    let mut document = documents::flagged();
    let run = &mut document.run;
    for text in [
        &mut run.study,
        &mut run.id,
        &mut run.file,
        &mut run.workload,
        &mut run.native_means,
        &mut run.version,
        &mut run.started,
    ] {
        *text = bad.to_owned();
    }
    run.published = Some(bad.to_owned());
    run.ended = Some(bad.to_owned());
    run.stop_reason = Some(bad.to_owned());
    run.machine.hostname = Some(bad.to_owned());
    run.machine.cpu.model_name = Some(bad.to_owned());
    run.machine.kernel.mitigations.insert(bad.to_owned(), bad.to_owned());
    run.factors[1].1[0] = bad.to_owned();
    document.flags[0].text = bad.to_owned();
    document.looks[0].decision = bad.to_owned();
    for row in &mut document.estimates {
        row.unit = bad.to_owned();
        row.treatment.insert("page".to_owned(), bad.to_owned());
    }
    for row in &mut document.ratios {
        row.words = bad.to_owned();
        row.treatment.insert("page".to_owned(), bad.to_owned());
        row.sensitivity[0].name = bad.to_owned();
    }
    document.trials[0].status = TrialStatus::Failed { reason: bad.to_owned() };
    document.trials[1].status = TrialStatus::Void { reasons: vec![bad.to_owned()] };
    document.absent = vec![baremark_model::plan::Absent {
        treatment: documents::arm("microvm", bad),
        reason: bad.to_owned(),
        code: None,
    }];
    let page = html::render(&document);
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
    assert_well_formed(&page);
    for figure in figure::figures(&document) {
        assert!(!figure.file().contains("<script"));
        assert_well_formed(&figure.file());
    }
}

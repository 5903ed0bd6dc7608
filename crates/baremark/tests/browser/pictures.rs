//! Pages as a browser lays them out: nothing is wider than the window, on a telephone and on a desk.

use crate::common::bench::{Bench, text};
use baremark_model::document::Document;
use baremark_report::html;
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// How wide a page is laid out in a window of so many pixels; `None` where no browser is installed.
fn laid_out(bench: &Bench, page: &str, width: u32) -> Option<u32> {
    // A frame has any width, where a window has 500 pixels at least, and its document is read from outside: its own policy forbids scripts.
    let inside = page.replace('&', "&amp;").replace('"', "&quot;");
    let file = bench.write(
        "page.html",
        format!(
            "<!doctype html><title>-</title><body><iframe id=\"page\" width=\"{width}\" height=\"2000\" style=\"border:0\" srcdoc=\"{inside}\">\
             </iframe><script>page.onload = () => {{ document.title = page.contentDocument.documentElement.scrollWidth; }}</script></body>"
        ),
    );
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    command.args(["--virtual-time-budget=10000", "--window-size=1400,2100"]);
    command.arg(format!("--user-data-dir={}", bench.path("profile").display()));
    command.arg(format!("file://{}", file.display())).env("TMPDIR", bench.folder.path());
    let Ok(output) = command.output() else {
        eprintln!("skipped: chromium is not installed");
        return None;
    };
    let dom = text(&output.stdout);
    let (_, rest) = dom.split_once("<title>").unwrap_or_else(|| panic!("{dom}{}", text(&output.stderr)));
    let found = rest.split('<').next().unwrap_or_default();
    Some(found.parse().unwrap_or_else(|why| panic!("{why}: {found}")))
}

#[test]
fn no_page_is_wider_than_its_window() {
    let bench = Bench::new();
    let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds");
    for path in fs::read_dir(kinds).unwrap().map(|entry| entry.unwrap().path()) {
        let document: Document = serde_json::from_reader(GzDecoder::new(File::open(&path).unwrap())).unwrap();
        let page = html::render(&document);
        for width in [1280, 390] {
            let Some(found) = laid_out(&bench, &page, width) else { return };
            assert!(found <= width, "{}: {found} pixels in a window of {width}", path.display());
        }
    }
}

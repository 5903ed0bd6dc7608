//! The site's table is sorted by the values of a column.

use crate::common::bench::{Bench, text};
use std::process::Command;

const SCRIPT: &str = include_str!("../../../report/src/site.js");

/// The first column of the table after the head at `column` was selected `times` times.
fn sorted(bench: &Bench, column: usize, times: usize) -> Option<String> {
    let rows = [("a", "0.95"), ("b", "0.8523"), ("c", ""), ("d", "12"), ("e", "9")];
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("<tr><td>{name}</td><td data-value=\"{value}\">{value} times</td></tr>"))
        .collect();
    let page = format!(
        "<!doctype html><table id=runs><thead><tr><th data-sort>run</th><th data-sort>ratio</th></tr></thead><tbody>{rows}</tbody></table>\
         <script>{SCRIPT}</script>\
         <script>for (let i = 0; i < {times}; i++) document.querySelectorAll('#runs th')[{column}].click();\
         document.title = [...document.querySelectorAll('#runs tbody tr')].map(row => row.cells[0].textContent).join('');</script>"
    );
    let page = bench.write("order.html", page);
    let profile = bench.path("profile");
    let temporary = bench.path("browser-files");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", page.display()));
    let Ok(output) = command.env("TMPDIR", &temporary).output() else {
        eprintln!("skipped: chromium is not installed");
        return None;
    };
    let dom = text(&output.stdout);
    let (_, rest) = dom.split_once("<title>").unwrap_or_else(|| panic!("{dom}{}", text(&output.stderr)));
    Some(rest.split('<').next().unwrap().to_owned())
}

/// 0.95 came before 0.8523 when numbers were compared as texts.
#[test]
fn numbers_are_sorted_by_value_and_rows_without_one_come_last() {
    let bench = Bench::new();
    for (column, times, expected) in [(1, 1, "baedc"), (1, 2, "deabc"), (0, 1, "abcde"), (0, 2, "edcba")] {
        let Some(order) = sorted(&bench, column, times) else { return };
        assert_eq!(order, expected, "column {column}, selected {times} times");
    }
}

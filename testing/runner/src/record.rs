//! What is kept of a run: target/code.json and target/systems.json, and the table in docs/testing.md.

use crate::cargo::{Tier, root, target_folder};
use crate::outcome::{Outcome, State};
use crate::run::Seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[derive(Serialize, Deserialize)]
struct Record {
    commit: String,
    date: String,
    cpu: String,
    tests: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    suite: String,
    test: String,
    /// How it ended at first, and where that was a failure how it ended when it ran again, alone.
    first: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alone: Option<String>,
    seconds: f64,
    #[serde(default)]
    cpu_s: f64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

fn word(state: State) -> String {
    match state {
        State::Passed => "passed",
        State::Failed => "failed",
        State::Skipped => "skipped",
    }
    .to_owned()
}

/// Seconds without what is below a millisecond.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn file(tier: Tier) -> PathBuf {
    target_folder().join(format!("{tier}.json"))
}

fn read(tier: Tier) -> Option<Record> {
    serde_json::from_str(&fs::read_to_string(file(tier)).ok()?).ok()
}

/// Writes the tier's record; a run of some of its tests leaves what is known of the others of the same commit.
pub fn write(tier: Tier, outcomes: &[Outcome], alone: &[Outcome]) -> Result<(), String> {
    let (commit, date, cpu) = (commit(), printed("date", &["-u", "+%Y-%m-%d %H:%M"]), cpu());
    let mut tests = read(tier).filter(|old| old.commit == commit).map(|old| old.tests).unwrap_or_default();
    let ran: BTreeSet<String> = outcomes.iter().map(|of| of.test.full()).collect();
    tests.retain(|line| !ran.contains(&format!("{}: {}", line.suite, line.test)));
    tests.extend(outcomes.iter().map(|of| {
        let again = alone.iter().find(|other| other.test.full() == of.test.full());
        Line {
            suite: of.test.suite(),
            test: of.test.name.clone(),
            first: word(of.state),
            alone: again.map(|again| word(again.state)),
            seconds: milliseconds(of.seconds),
            cpu_s: milliseconds(of.cpu_s),
            skipped: of.reasons(),
        }
    }));
    let text = serde_json::to_string_pretty(&Record { commit, date, cpu, tests }).map_err(|why| why.to_string())?;
    fs::write(file(tier), text + "\n").map_err(|why| format!("{}: {why}", file(tier).display()))
}

/// How long each test took when it ran last.
pub fn seconds_before() -> Seconds {
    let records = [Tier::Code, Tier::Systems, Tier::Measured].into_iter().filter_map(read);
    records
        .flat_map(|record| record.tests)
        .map(|line| (format!("{}: {}", line.suite, line.test), line.seconds))
        .collect()
}

/// Reasons of skips of the last run on a processor of the same kind.
pub fn skips_before() -> Vec<String> {
    let last = read(Tier::Systems).filter(|record| record.cpu == cpu());
    last.map(|record| record.tests.into_iter().flat_map(|line| line.skipped).collect()).unwrap_or_default()
}

/// A table of docs/testing.md, by the line that follows its rows.
#[derive(Clone, Copy)]
pub enum Table {
    /// Of `make test-systems RECORD=1`.
    Systems,
    /// Of `scripts/prove-gate --record`.
    Proof,
}

impl Table {
    fn end(self) -> &'static str {
        match self {
            Table::Systems => "<!-- records: end -->",
            Table::Proof => "<!-- proof: end -->",
        }
    }
}

/// How many rows of a table are kept.
const ROWS: usize = 10;

/// Appends a row on a run of `make test-systems`.
pub fn append(outcomes: &[Outcome], alone: &[Outcome]) -> Result<(), String> {
    let number = |of: &[Outcome], state| of.iter().filter(|one| one.state == state).count();
    let cells = [
        number(outcomes, State::Passed),
        alone.len() - number(alone, State::Failed),
        number(alone, State::Failed),
        number(outcomes, State::Skipped),
    ];
    add_row(Table::Systems, &cells)
}

/// Appends a row to a table of docs/testing.md: date, commit and processor, then these numbers.
pub fn add_row(table: Table, cells: &[usize]) -> Result<(), String> {
    let numbers: String = cells.iter().map(|number| format!(" {number} |")).collect();
    let row = format!("| {} | {} | {} |{numbers}\n", printed("date", &["-u", "+%Y-%m-%d"]), commit(), cpu());
    let page = root().join("docs/testing.md");
    let text = fs::read_to_string(&page).map_err(|why| format!("{}: {why}", page.display()))?;
    let text = with_row(&text, &row, table.end())
        .ok_or_else(|| format!("{}: no table before a line '{}'", page.display(), table.end()))?;
    fs::write(&page, text).map_err(|why| format!("{}: {why}", page.display()))
}

/// The page with this row as the last; the oldest goes where there are too many.
fn with_row(page: &str, row: &str, end: &str) -> Option<String> {
    let (before, after) = page.split_once(end)?;
    let mut lines: Vec<&str> = before.lines().collect();
    let first = lines.iter().rposition(|line| line.starts_with("|---"))? + 1;
    while lines.len() - first >= ROWS {
        lines.remove(first);
    }
    Some(format!("{}\n{row}{end}{after}", lines.join("\n")))
}

/// What a test of live measurements was found to be over rounds.
pub struct Measured {
    pub test: String,
    pub held: u32,
    pub tried: u32,
    pub bound: f64,
    /// Of each round, where it says some.
    pub figures: Vec<String>,
}

const MEASURED: &str = "<!-- measured: end -->";

/// Writes these into the table of docs/measured.md, in place of what the same tests gave on the same processor.
pub fn measured(rows: &[Measured]) -> Result<(), String> {
    let (date, commit, cpu) = (printed("date", &["-u", "+%Y-%m-%d"]), commit(), cpu());
    let row = |row: &Measured| {
        let word = row.test.rsplit("::").next().unwrap_or_default();
        let command = format!("`make test-measured ROUNDS={} WHAT={word}`", row.tried);
        let figures = over_rounds(&row.figures).replace('|', "/");
        let holds = format!("{} of {} ({} wanted)", row.held, row.tried, row.bound);
        format!("| {} | {holds} | {figures} | {command} | {date} | {commit} | {cpu} |", row.test)
    };
    let page = root().join("docs/measured.md");
    let text = fs::read_to_string(&page).map_err(|why| format!("{}: {why}", page.display()))?;
    let text = with_rows(&text, rows.iter().map(row).collect())
        .ok_or_else(|| format!("{}: no table before a line '{MEASURED}'", page.display()))?;
    fs::write(&page, text).map_err(|why| format!("{}: {why}", page.display()))
}

/// What rounds have measured, in one text: of figures that differ in their numbers alone, the median of each number (of an even count the lower one), and from what to what it went.
fn over_rounds(figures: &[String]) -> String {
    let split: Vec<(Vec<&str>, Vec<&str>)> = figures.iter().map(|figure| words_and_numbers(figure)).collect();
    let Some((words, numbers)) = split.first().filter(|(words, _)| split.iter().all(|other| other.0 == *words)) else {
        return figures.join("; ");
    };
    let of_number = |place: usize| {
        let value = |text: &&str| text.parse::<f64>().unwrap_or_default();
        let mut all: Vec<&str> = split.iter().map(|(_, numbers)| numbers[place]).collect();
        all.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let (lowest, median, highest) = (all[0], all[(all.len() - 1) / 2], all[all.len() - 1]);
        if lowest == highest { median.to_owned() } else { format!("{median} ({lowest} to {highest})") }
    };
    let (first, others) = words.split_at(1);
    let others = others.iter().zip(0..numbers.len()).map(|(word, place)| of_number(place) + word);
    first.concat() + &others.collect::<String>()
}

/// A text without its numbers, cut where they stood, and the numbers.
fn words_and_numbers(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut words, mut numbers, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some(digit) = rest.find(|c: char| c.is_ascii_digit()) {
        // A sign is one where no word ends before it, as in a date or a name.
        let sign = rest[..digit].strip_suffix('-').filter(|before| !before.ends_with(char::is_alphanumeric));
        let begin = sign.filter(|before| !before.is_empty() || words.is_empty()).map_or(digit, str::len);
        let end = rest[digit..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest.len(), |end| digit + end);
        let number = rest[begin..end].trim_end_matches('.');
        words.push(&rest[..begin]);
        numbers.push(number);
        rest = &rest[begin + number.len()..];
    }
    words.push(rest);
    (words, numbers)
}

/// The page with these rows, sorted; a row of the same test and processor, its first and its last cell, goes.
fn with_rows(page: &str, mut rows: Vec<String>) -> Option<String> {
    let (before, after) = page.split_once(MEASURED)?;
    let mut lines: Vec<&str> = before.lines().collect();
    let first = lines.iter().rposition(|line| line.starts_with("|---"))? + 1;
    let key = |row: &str| {
        let row = row.trim_matches('|');
        let (first, last) = (row.split(" | ").next(), row.rsplit(" | ").next());
        [first, last].map(|cell| cell.unwrap_or_default().trim().to_owned())
    };
    let new: BTreeSet<_> = rows.iter().map(|row| key(row)).collect();
    rows.extend(lines.split_off(first).into_iter().filter(|row| !new.contains(&key(row))).map(str::to_owned));
    rows.sort();
    Some(format!("{}\n{}\n{MEASURED}{after}", lines.join("\n"), rows.join("\n")))
}

pub fn commit() -> String {
    let hash = printed("git", &["rev-parse", "HEAD"]);
    let changed = !printed("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    let short: String = hash.chars().take(8).collect();
    if changed { format!("{short}+changes") } else { short }
}

/// The model of this machine's processor, by which records are told apart.
pub fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    format!("{}, family {} model {}", of("model name"), of("cpu family"), of("model"))
}

fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Table, over_rounds, with_row, with_rows};

    #[test]
    fn figures_of_rounds_are_medians_with_their_range() {
        let of = |figures: &[&str]| over_rounds(&figures.iter().map(|figure| (*figure).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["8 in 3.5 s.", "24 in 3.5 s.", "10 in 3.5 s."]), "10 (8 to 24) in 3.5 s.");
        assert_eq!(of(&["width 0.4 %", "width 0.12 %"]), "width 0.12 (0.12 to 0.4) %");
        assert_eq!(
            of(&["mean -0.2 % on 2026-11-28", "mean 0.1 % on 2026-11-29"]),
            "mean -0.2 (-0.2 to 0.1) % on 2026-11-28 (28 to 29)"
        );
        assert_eq!(of(&["one 1", "two 2"]), "one 1; two 2", "other words are other figures");
        assert_eq!(
            (of(&["p99 is 5"]), of(&["none", "none"]), of(&[])),
            ("p99 is 5".to_owned(), "none".to_owned(), String::new())
        );
    }

    #[test]
    fn the_last_ten_rows_are_kept() {
        let rows: String = (1..=10).map(|number| format!("| {number} |\n")).collect();
        let page = format!("# Tests\n\n| run |\n|---|\n{rows}<!-- records: end -->\n\nmore\n");
        let end = Table::Systems.end();
        let with = with_row(&page, "| 11 |\n", end).unwrap_or_default();
        assert!(with.starts_with("# Tests\n\n| run |\n|---|\n| 2 |\n"), "{with}");
        assert!(with.ends_with("| 10 |\n| 11 |\n<!-- records: end -->\n\nmore\n"), "{with}");
        let first = with_row("|---|\n<!-- records: end -->\n", "| 1 |\n", end);
        assert_eq!(first.as_deref(), Some("|---|\n| 1 |\n<!-- records: end -->\n"));
        assert_eq!(with_row("no table", "| 1 |\n", end), None);
        assert_eq!(with_row(&page, "| 1 |\n", Table::Proof.end()), None);
    }

    #[test]
    fn a_measurement_takes_the_place_of_that_of_the_same_test_and_processor() {
        let page = "|---|\n| b | 1 of 2 | cpu 1 |\n| b | 2 of 2 | cpu 2 |\n<!-- measured: end -->\nmore\n";
        let with = with_rows(page, vec!["| b | 3 of 3 | cpu 1 |".to_owned(), "| a | 1 of 1 | cpu 1 |".to_owned()]);
        let wanted = "|---|\n| a | 1 of 1 | cpu 1 |\n| b | 2 of 2 | cpu 2 |\n| b | 3 of 3 | cpu 1 |\n<!-- measured: end -->\nmore\n";
        assert_eq!(with.as_deref(), Some(wanted));
        let empty = with_rows("|---|\n<!-- measured: end -->\n", vec!["| a | cpu |".to_owned()]);
        assert_eq!(empty.as_deref(), Some("|---|\n| a | cpu |\n<!-- measured: end -->\n"));
        assert_eq!(with_rows("no table", Vec::new()), None);
    }
}

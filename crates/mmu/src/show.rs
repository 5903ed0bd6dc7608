//! Predictions and the validation as plain text, so that a command and an example say the same.

use crate::page::Page;
use crate::predict::{Cell, Effort, Interval, Prediction};
use crate::scheme::Scheme;
use crate::trace::Windows;
use crate::validate::{self, Cold, Compared, HplVerdict, RandomAccessVerdict, ShapeVerdict, ValidateError};
use std::fmt::Write;

/// The validation in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// What to print.
    pub text: String,
    /// Whether everything that is claimed holds.
    pub passes: bool,
    /// Every condition that is claimed.
    pub conditions: Vec<Condition>,
    /// Every predicted ratio with the published one.
    pub ratios: Vec<Ratio>,
}

/// A condition of the validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The part of the validation, such as `A2`.
    pub part: &'static str,
    /// What is claimed.
    pub condition: String,
    /// Whether it holds.
    pub holds: bool,
}

/// A ratio of the validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The part of the validation, such as `A2`.
    pub part: &'static str,
    /// What was predicted.
    pub case: String,
    /// The values.
    pub compared: Compared,
}

/// Runs the whole validation and puts it into words.
///
/// # Errors
/// When a file of this program is broken.
pub fn validation(effort: Effort) -> Result<Shown, ValidateError> {
    let mut said = Said { text: String::new(), part: "", passes: true, conditions: Vec::new(), ratios: Vec::new() };
    said.random_access(&validate::random_access(effort)?, effort.seed);
    said.hpl(&validate::hpl(effort)?);
    said.shape(&validate::shape(effort)?);
    said.cold_references(&validate::cold_references()?);
    Ok(Shown { text: said.text, passes: said.passes, conditions: said.conditions, ratios: said.ratios })
}

/// What was said so far, and whether every condition in it holds.
struct Said {
    text: String,
    part: &'static str,
    passes: bool,
    conditions: Vec<Condition>,
    ratios: Vec<Ratio>,
}

const PAGES: [&str; 2] = ["4k", "2m"];

impl Said {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn condition(&mut self, condition: &str, holds: bool) {
        self.passes &= holds;
        self.conditions.push(Condition { part: self.part, condition: condition.to_owned(), holds });
        self.line(&format!("    {}  {condition}", if holds { "holds" } else { "FAILS" }));
    }

    fn ratio(&mut self, case: &str, compared: &Compared) {
        self.ratios.push(Ratio { part: self.part, case: case.to_owned(), compared: *compared });
        let far = if compared.predicted.contains(compared.published) { "" } else { "  outside" };
        let predicted = interval(&compared.predicted, 1.0);
        self.line(&format!("    {case:58} predicted {predicted}  published {:6.3}{far}", compared.published));
    }

    fn random_access(&mut self, verdict: &RandomAccessVerdict, seed: u64) {
        self.part = "A2";
        self.line(&format!("A2  StarRandomAccess on Xeon X5570, virtual over native; 95 % intervals, seed {seed}"));
        let [small, large] = verdict.native_gups;
        self.line(&format!("    fitted: time of data per update      to native large pages ({large:.5} GUP/s)"));
        self.line(&format!("              {} ns", interval(&verdict.data_ns, 1.0)));
        self.line(&format!("    fitted: memory's latency for a walk  to native small pages ({small:.5} GUP/s)"));
        self.line(&format!("              {} ns beyond L3", interval(&verdict.memory_ns, 1.0)));
        self.line(
            "    fitted to virtual cells: nothing. But the published values were known when two assumptions were revised: how far\n    \
             walks pipeline (for the native cells' sake), and how memory lies (from documents). This is not a blind prediction",
        );
        let (kept, draws) = verdict.kept;
        self.line(&format!("    draws that the native cells left: {kept} of {draws}"));
        for (page, cell) in PAGES.iter().zip(&verdict.nested) {
            self.ratio(&format!("EPT on,  guest {page} on host 2m"), cell);
        }
        for (page, cell) in PAGES.iter().zip(&verdict.shadow) {
            self.ratio(&format!("EPT off, guest {page} (the tax's prior alone, no claim)"), cell);
        }
        self.ratio("EPT on,  small minus large", &verdict.difference);
        self.width(verdict);
        for (condition, holds) in verdict.conditions() {
            self.condition(&condition, holds);
        }
    }

    /// What makes the interval of small pages wide.
    fn width(&mut self, verdict: &RandomAccessVerdict) {
        let extra = verdict.extra_nested_references;
        self.line(&format!(
            "    a nested walk makes {:.1} to {:.1} references more than a native one, by which undocumented caches the part has",
            extra.low, extra.high
        ));
        self.line(
            "    Sources of its width: variance explained by each unknown alone, and the remaining half-width if it were known",
        );
        for part in verdict.spread.iter().filter(|part| part.share >= 0.01) {
            let (share, left) = (100.0 * part.share, 100.0 * part.half_width_left);
            self.line(&format!("      {:66} {share:4.0} %   ±{left:.1} points", part.name));
        }
        for (name, known) in ["lay in order", "lay in pieces in no order"].iter().zip(&verdict.by_order) {
            if let Some(known) = known {
                let half = 100.0 * known.half_width();
                let known = interval(known, 1.0);
                self.line(&format!("    if it were known that free memory {name}: {known}, ±{half:.1} points"));
            }
        }
    }

    fn hpl(&mut self, verdict: &HplVerdict) {
        self.part = "A3";
        self.line("A3  HPL on Xeon X5570: walking as a share of run time, nested; a bound");
        for (page, share) in PAGES.iter().zip(&verdict.share) {
            self.line(&format!("    guest {page} on host 2m   {} %", interval(share, 100.0)));
        }
        self.condition("under 3 % with 97.5 % of the draws; nothing fitted", verdict.passes());
        let above = verdict.published.iter().flatten().filter(|ratio| **ratio > 1.0);
        let above: Vec<String> = above.map(|ratio| format!("{ratio:.3}")).collect();
        self.line(&format!("    unexplained: published ratios above 1: {}", above.join(", ")));
    }

    fn shape(&mut self, verdict: &ShapeVerdict) {
        self.part = "B";
        self.line("B   Opteron 8384, the shape of nested against shadow paging; nothing fitted");
        self.line(&format!(
            "    a page table changes in every operation: shadow takes {} of nested's time (published: gains up to {:.0} %)",
            interval(&verdict.changes, 1.0),
            verdict.published_gain_percent
        ));
        let misses = interval(&verdict.misses, 1.0);
        self.line(&format!("    TLBs miss, small pages: nested takes {misses} of shadow's time"));
        let large = interval(&verdict.large_over_small, 1.0);
        self.line(&format!("    the same with large pages: nested takes {large} of its time with small ones"));
        self.condition("nested wins the first, loses the second", verdict.passes());
    }

    fn cold_references(&mut self, all: &[Cold]) {
        self.part = "references";
        self.line("    References of a walk without caches");
        for cold in all {
            let name = format!("{}, {} levels", cold.scheme, cold.levels);
            let told = format!("{name:44} {:3} (architecture {:3})", cold.counted, cold.expected);
            self.condition(&told, cold.expected == cold.counted);
        }
    }
}

/// A prediction as two tables of at most 80 columns, of times and of walks.
#[must_use]
pub fn prediction(prediction: &Prediction) -> String {
    let mut text = format!("{:27} {:>25} {:>26}\n", "", "run time over native", "ns an access");
    for cell in &prediction.cells {
        let relative = cell.relative.map_or_else(|| "-".to_owned(), |relative| interval(&relative, 1.0));
        let _ = writeln!(text, "{:27} {relative:>25} {:>26}", cell.scheme.to_string(), times(&cell.ns));
    }
    let _ = writeln!(text, "\n{:27} {:>8} {:>8} {:>8}", "", "walks", "refs", "memory");
    for cell in &prediction.cells {
        let _ = writeln!(
            text,
            "{:27} {:8.4} {:8.4} {:8.4}",
            cell.scheme.to_string(),
            cell.walks,
            cell.walk_references,
            cell.walk_references_to_memory
        );
    }
    text
}

/// What is said under the tables of a prediction, a paragraph each: how to read them, and what to change.
#[must_use]
pub fn remarks(prediction: &Prediction) -> Vec<String> {
    let mut remarks = vec![format!(
        "Predicted, not measured; in brackets 95 % intervals. Native of the same page size is 1. Walks, references of walks and those that go to memory are \
         for each access. {:.0} of {} draws count.",
        prediction.effective_draws, prediction.draws
    )];
    remarks.extend(prediction.sample.map(sampled));
    let contrast = prediction.page_contrast.as_ref();
    remarks
        .extend(contrast.map(|of| format!("Contrast of page sizes, native: small over large {}.", interval(of, 1.0))));
    remarks.extend(advice(prediction));
    remarks
}

/// Of which part of the program the prediction is, and what its intervals have of the rest.
fn sampled(sample: Windows) -> String {
    let Windows { count, length, share } = sample;
    let windows = format!("{count} windows of {length} accesses");
    let differ = "A part of each is counted; the intervals contain what the windows show of the other accesses.";
    match share > 0.0 {
        true if share >= 1.0 => format!("{windows} are the whole program. {differ}"),
        true => format!("{windows} are {:.1} % of the program. {differ}", 100.0 * share),
        false => format!(
            "{windows} of the beginning. The intervals contain how much the windows differ, and assume that the rest of the program is like them."
        ),
    }
}

/// What to change, where the prediction is clear about it.
#[must_use]
pub fn advice(prediction: &Prediction) -> Vec<String> {
    let find = |scheme: Scheme| prediction.cells.iter().find(|cell| cell.scheme == scheme);
    let nested = |guest_page, host_backing| find(Scheme::Nested { guest_page, host_backing });
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let clear = |cell: &&Cell| cell.relative.is_some_and(|relative| relative.low > 1.02);
    let mut sentences = Vec::new();
    if let Some(contrast) = prediction.page_contrast.filter(|contrast| contrast.low > 1.05) {
        let saved = percent(contrast.median);
        sentences.push(format!("Large pages pay even natively: small ones take about {saved:.0} % longer."));
    }
    let large = nested(Page::Large, Page::Large);
    if let Some(cell) = nested(Page::Small, Page::Large).filter(clear) {
        let cost = cell.relative.map_or(0.0, |relative| percent(relative.median));
        let repaired = large.is_some_and(|large| large.ns.median < cell.ns.median);
        let remedy = if repaired { ": give it large pages" } else { "" };
        sentences.push(format!("A guest with small pages loses about {cost:.0} % to nested walks{remedy}."));
    }
    let mixed = nested(Page::Large, Page::Small).zip(large);
    if mixed.is_some_and(|(splintered, whole)| splintered.ns.low > 1.02 * whole.ns.high) {
        sentences
            .push("Large pages in the guest need large memory beneath: back the guest's memory with them.".to_owned());
    }
    let shadowed = find(Scheme::Shadow { guest_page: Page::Small, host_backing: Page::Large });
    let both = nested(Page::Small, Page::Large).zip(shadowed);
    if both.is_some_and(|(nested, shadow)| nested.ns.low > shadow.ns.high) {
        sentences.push(
            "Shadow paging walks less, as long as the guest's page tables stay as they are; each change costs an exit."
                .to_owned(),
        );
    }
    if sentences.is_empty() {
        sentences.extend(undecided(prediction));
    }
    sentences
}

/// A difference below this is none, as a ratio.
const ALIKE: f64 = 1.02;

/// Where no advice is clear: by how much page sizes and nested paging may slow this program, from the intervals that are shown.
fn undecided(prediction: &Prediction) -> Option<String> {
    let nested = prediction.cells.iter().filter(|cell| matches!(cell.scheme, Scheme::Nested { .. }));
    let nested = nested.filter_map(|cell| cell.relative).reduce(|one, two| Interval {
        median: one.median.max(two.median),
        low: one.low.min(two.low),
        high: one.high.max(two.high),
    });
    let subject = if nested.is_some() { "Page sizes and MMU virtualization" } else { "Page sizes" };
    let natively = prediction.page_contrast.map(|found| ("4k pages cost", found, " natively"));
    let all: Vec<(&str, Interval, &str)> =
        natively.into_iter().chain(nested.map(|found| ("nested paging", found, ""))).collect();
    if all.is_empty() {
        return None;
    }
    if all.iter().all(|(_, found, _)| found.low > 1.0 / ALIKE && found.high < ALIKE) {
        return Some(format!("{subject} change this program by less than 2 %."));
    }
    // Adding 0 makes no -0.
    let percent = |ratio: f64| (100.0 * (ratio - 1.0)).round() + 0.0;
    let range = |(what, found, native): &(&str, Interval, &str)| {
        format!("{what} {} to {} %{native}", percent(found.low), percent(found.high))
    };
    let ranges: Vec<String> = all.iter().map(range).collect();
    Some(format!("The model leaves it open: {}.", ranges.join(", ")))
}

fn interval(value: &Interval, scale: f64) -> String {
    format!("{:.3} ({:.3} to {:.3})", value.median * scale, value.low * scale, value.high * scale)
}

/// Nanoseconds with as many decimals as their interval has room for.
fn times(ns: &Interval) -> String {
    let places = match ns.high {
        ..10.0 => 3,
        ..100.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    format!("{:.places$} ({:.places$} to {:.places$})", ns.median, ns.low, ns.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(median: f64, low: f64, high: f64) -> Interval {
        Interval { median, low, high }
    }

    fn nested(guest_page: Page, relative: Interval) -> Cell {
        Cell {
            scheme: Scheme::Nested { guest_page, host_backing: Page::Large },
            ns: range(10.0, 5.0, 20.0),
            relative: Some(relative),
            against: Vec::new(),
            walking_share: range(0.1, 0.0, 0.2),
            walks: 1.0,
            walk_references: 4.0,
            walk_references_to_memory: 1.0,
        }
    }

    fn predicted(contrast: Interval, relative: Interval) -> Prediction {
        Prediction {
            cells: vec![nested(Page::Small, relative), nested(Page::Large, relative)],
            page_contrast: Some(contrast),
            nested_over_shadow: None,
            effective_draws: 100.0,
            draws: 100,
            sample: None,
        }
    }

    /// A table of 118 columns was broken by a terminal of 80.
    #[test]
    fn the_tables_of_a_prediction_fit_80_columns_and_have_their_intervals() {
        let text = prediction(&predicted(range(1.635, 1.031, 2.573), range(1.25, 1.0, 12.345)));
        let widest = text.lines().map(str::len).max();
        assert!(widest <= Some(80), "{widest:?}\n{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let times = "nested, guest 4k on host 2m 1.250 (1.000 to 12.345) 10.00 (5.00 to 20.00)";
        assert!(words.contains(times) && words.contains("nested, guest 4k on host 2m 1.0000 4.0000 1.0000"), "{text}");
    }

    #[test]
    fn a_prediction_from_windows_says_what_they_are_of_the_program() {
        let of = |share: f64| sampled(Windows { count: 16, length: 262_144, share });
        assert!(of(1.0).contains("262144 accesses are the whole program. A part of each is counted;"), "{}", of(1.0));
        assert!(of(0.125).contains("are 12.5 % of the program."), "{}", of(0.125));
        assert!(of(0.0).contains("assume that the rest of the program is like them"), "{}", of(0.0));
    }

    /// "Small over large 1.635 (1.031 to 2.573)" stood above "no clear difference".
    #[test]
    fn an_open_prediction_gives_its_ranges_and_no_sentence_against_them() {
        let of = |contrast: Interval, relative: Interval| advice(&predicted(contrast, relative));
        let open = of(range(1.635, 1.031, 2.573), range(1.4, 1.0, 2.53));
        assert_eq!(open, ["The model leaves it open: 4k pages cost 3 to 157 % natively, nested paging 0 to 153 %."]);
        let alike = of(range(1.0, 0.99, 1.01), range(1.0, 0.995, 1.01));
        assert_eq!(alike, ["Page sizes and MMU virtualization change this program by less than 2 %."]);
        let mut native = predicted(range(1.0, 0.99, 1.01), range(1.0, 0.995, 1.01));
        native.cells.retain(|cell| !matches!(cell.scheme, Scheme::Nested { .. }));
        assert_eq!(advice(&native), ["Page sizes change this program by less than 2 %."]);
        let clear = of(range(1.6, 1.5, 1.7), range(1.0, 0.995, 1.01));
        assert!(clear[0].starts_with("Large pages pay even natively"), "{clear:?}");
    }
}

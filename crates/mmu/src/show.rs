//! Predictions and the validation as plain text, so that a command and an example say the same.

use crate::page::Page;
use crate::predict::{Cell, Effort, Interval, Prediction};
use crate::scheme::Scheme;
use crate::validate::{self, Compared, ValidateError};
use std::fmt::Write;

/// The validation in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What to print.
    pub text: String,
    /// Whether everything that is claimed holds.
    pub passes: bool,
}

/// Runs the whole validation and puts it into words.
///
/// # Errors
/// When a file of this program is broken.
pub fn validation(effort: Effort) -> Result<Shown, ValidateError> {
    let mut text = String::new();
    let mut passes = true;
    // A `String` takes whatever is written to it.
    let mut say = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    let verdict = validate::random_access(effort)?;
    say(format!("A2  StarRandomAccess on Xeon X5570, virtual over native; 95 % intervals, seed {}", effort.seed));
    say("    fitted: time of data per update      to native large pages (0.03956 GUP/s)".to_owned());
    say(format!("              {} ns", interval(&verdict.data_ns, 1.0)));
    say("    fitted: memory's latency for a walk  to native small pages (0.01842 GUP/s)".to_owned());
    say(format!("              {} ns beyond L3", interval(&verdict.memory_ns, 1.0)));
    say("    fitted to virtual cells: nothing. But the published values were known when two assumptions were revised: how far".to_owned());
    say("    walks pipeline (for the native cells' sake), and how memory lies (from documents). This is no blind prediction".to_owned());
    say(format!("    draws that the native cells left: {} of {}", verdict.kept.0, verdict.kept.1));
    for (page, cell) in ["4k", "2m"].iter().zip(&verdict.nested) {
        say(compared(&format!("EPT on,  guest {page} on host 2m"), cell));
    }
    for (page, cell) in ["4k", "2m"].iter().zip(&verdict.shadow) {
        say(compared(&format!("EPT off, guest {page} (the tax's prior alone, no claim)"), cell));
    }
    say(compared("EPT on,  small minus large", &verdict.difference));
    let extra = verdict.extra_nested_references;
    say(format!(
        "    a nested walk makes {:.1} to {:.1} references more than a native one, by which undocumented caches the part has",
        extra.low, extra.high
    ));
    say("    What makes it wide: variance explained by each unknown alone, and the half-width left if it were known"
        .to_owned());
    for part in verdict.spread.iter().filter(|part| part.share >= 0.01) {
        say(format!(
            "      {:66} {:4.0} %   +-{:.1} points",
            part.name,
            100.0 * part.share,
            100.0 * part.half_width_left
        ));
    }
    for (name, interval_known) in ["lay in order", "lay in pieces in no order"].iter().zip(&verdict.by_order) {
        if let Some(known) = interval_known {
            say(format!(
                "    if it were known that free memory {name}: {}, +-{:.1} points",
                interval(known, 1.0),
                100.0 * known.half_width()
            ));
        }
    }
    for (condition, holds) in verdict.conditions() {
        say(format!("    {}  {condition}", verdict_word(holds)));
    }
    passes &= verdict.passes();
    let hpl = validate::hpl(effort)?;
    say("A3  HPL on Xeon X5570: walking as a share of run time, nested; a bound".to_owned());
    for (page, share) in ["4k", "2m"].iter().zip(&hpl.share) {
        say(format!("    guest {page} on host 2m   {} %", interval(share, 100.0)));
    }
    say(format!("    {}  under 3 % with 97.5 % of the draws; nothing fitted", verdict_word(hpl.passes())));
    let above: Vec<String> =
        hpl.published.iter().flatten().filter(|ratio| **ratio > 1.0).map(|ratio| format!("{ratio:.3}")).collect();
    say(format!("    unexplained: published ratios above 1: {}", above.join(", ")));
    passes &= hpl.passes();
    let shape = validate::shape(effort)?;
    say("B   Opteron 8384, the shape of nested against shadow paging; nothing fitted".to_owned());
    say(format!(
        "    a page table changes in every operation: shadow takes {} of nested's time (published: gains up to {:.0} %)",
        interval(&shape.changes, 1.0),
        shape.published_gain_percent
    ));
    say(format!("    TLBs miss, small pages: nested takes {} of shadow's time", interval(&shape.misses, 1.0)));
    say(format!(
        "    the same with large pages: nested takes {} of its time with small ones",
        interval(&shape.large_over_small, 1.0)
    ));
    say(format!("    {}  nested wins the first, loses the second", verdict_word(shape.passes())));
    passes &= shape.passes();
    say("    References of a walk without caches".to_owned());
    for cold in validate::cold_references()? {
        let holds = cold.expected == cold.counted;
        passes &= holds;
        let name = format!("{}, {} levels", cold.scheme, cold.levels);
        say(format!("    {}  {name:44} {:3} (architecture {:3})", verdict_word(holds), cold.counted, cold.expected));
    }
    Ok(Shown { text, passes })
}

/// A prediction as a table, with advice under it.
#[must_use]
pub fn prediction(prediction: &Prediction) -> String {
    let mut text = format!(
        "{:34} {:>27} {:>28} {:>8} {:>8} {:>8}\n",
        "", "run time over native", "ns an access", "walks", "refs", "memory"
    );
    for cell in &prediction.cells {
        let relative = cell.relative.map_or_else(|| "-".to_owned(), |relative| interval(&relative, 1.0));
        let _ = writeln!(
            text,
            "{:34} {relative:>27} {:>28} {:8.4} {:8.4} {:8.4}",
            cell.scheme.to_string(),
            interval(&cell.ns, 1.0),
            cell.walks,
            cell.walk_references,
            cell.walk_references_to_memory
        );
    }
    let _ = writeln!(
        text,
        "\nPredicted, not measured; in brackets 95 % intervals. Native of the same page size is 1. Walks, references of walks and\n\
         those that go to memory are for each access. {:.0} of {} draws count.\n",
        prediction.effective_draws, prediction.draws
    );
    if let Some(contrast) = &prediction.page_contrast {
        let _ = writeln!(text, "Contrast of page sizes, native: small over large {}.", interval(contrast, 1.0));
    }
    for sentence in advice(prediction) {
        let _ = writeln!(text, "{sentence}");
    }
    text
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
    if let Some(cell) = nested(Page::Small, Page::Large).filter(clear) {
        let cost = cell.relative.map_or(0.0, |relative| percent(relative.median));
        sentences
            .push(format!("A guest with small pages loses about {cost:.0} % to nested walks: give it large pages."));
    }
    let mixed = nested(Page::Large, Page::Small).zip(nested(Page::Large, Page::Large));
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
        sentences.push("Page sizes and MMU virtualization make no clear difference to this program.".to_owned());
    }
    sentences
}

fn compared(name: &str, cell: &Compared) -> String {
    let far = if cell.predicted.contains(cell.published) { "" } else { "  outside" };
    format!("    {name:58} predicted {}  published {:6.3}{far}", interval(&cell.predicted, 1.0), cell.published)
}

fn interval(value: &Interval, scale: f64) -> String {
    format!("{:.3} ({:.3} to {:.3})", value.median * scale, value.low * scale, value.high * scale)
}

fn verdict_word(holds: bool) -> &'static str {
    if holds { "holds" } else { "FAILS" }
}

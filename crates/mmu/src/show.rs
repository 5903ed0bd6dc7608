//! Predictions and the validation as plain text, so that a command and an example say the same.

use crate::predict::{Effort, Interval};
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
    say("    fitted to virtual cells: nothing. One assumption (how far walks pipeline) was revised after a first comparison,".to_owned());
    say("    for the native cells' sake: these predictions were made with the published values known".to_owned());
    say(format!("    draws that the native cells left: {} of {}", verdict.kept.0, verdict.kept.1));
    for (page, cell) in ["4k", "2m"].iter().zip(&verdict.nested) {
        say(compared(&format!("EPT on,  guest {page} on host 2m"), cell));
    }
    for (page, cell) in ["4k", "2m"].iter().zip(&verdict.shadow) {
        say(compared(&format!("EPT off, guest {page} (the tax's prior alone, no claim)"), cell));
    }
    say(compared("EPT on,  small minus large", &verdict.difference));
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

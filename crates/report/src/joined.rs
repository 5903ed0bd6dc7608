//! Two joined runs as a terminal shows them: each ratio of ratios, what one run alone has, and what differs between the runs.

use crate::comparison::{common, differences, name, paint};
use crate::number::{Digits, count, fixed, ratio_decimals};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean};
use crate::treatment::{join, phrase};
use baremark_model::joined::{Joined, JoinedRow, JoinedSide, SideRatio, Spread, Unmatched, Which};
use baremark_model::plan::Treatment;
use std::collections::BTreeSet;

/// The joined runs as text.
#[must_use]
pub fn render(joined: &Joined, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &format!("Joined runs: {}", title(joined)));
    page.paragraph(Paint::Faint, 0, INDENT, &method(joined));
    page.head("Sides");
    page.hanging("base ", &side(&joined.base));
    page.hanging("other", &side(&joined.other));
    page.head("Ratio of ratios: other / base");
    let treatments = joined.rows.iter().flat_map(|row| [&row.treatment, &row.relative_to]);
    let common = common(treatments);
    for row in &joined.rows {
        page.paragraph(paint(row.outcome), INDENT, INDENT, &sentence(joined, row, &common));
    }
    if !common.is_empty() {
        let levels: Vec<(&str, &str)> = common.iter().map(|(key, label)| (key.as_str(), label.as_str())).collect();
        page.paragraph(Paint::Faint, INDENT, INDENT, &format!("All with {}.", join(&levels)));
    }
    let meaning = "Slower: the treatment is slower relative to its own base than it is in the base run.";
    page.paragraph(Paint::Faint, INDENT, INDENT, meaning);
    let lone: Vec<String> = joined.unmatched.iter().map(|row| unmatched(joined, row)).collect();
    page.list("Only in one run", &lone);
    match joined.factors.is_empty() {
        true => page.list("Possible causes", &["No recorded fact differs between the runs.".to_owned()]),
        false => differences(&mut page, "Possible causes: this differs between the runs", &joined.factors),
    }
    differences(&mut page, "Not the same among the runs of a side", &joined.mixed);
    page.text
}

fn title(joined: &Joined) -> String {
    let (base, other) = (clean(&joined.base.study), clean(&joined.other.study));
    if base == other { base } else { format!("{base} and {other}") }
}

fn method(joined: &Joined) -> String {
    let level = fixed(joined.confidence * 100.0, 1).trim_end_matches(".0").to_owned();
    let levels = if level == "95" { "95 %".to_owned() } else { format!("95 to {level} %") };
    let how = match joined.spread {
        Spread::WithinRuns => {
            "from the spread of blocks within each run; the spread between runs of one setup is not in them (name three runs a side: \
             RUN,RUN,RUN)"
        }
        Spread::BetweenRuns => "from the spread between the runs of each side",
    };
    format!("intervals of {levels} {how}; smallest difference of interest: {}", joined.delta)
}

fn side(side: &JoinedSide) -> String {
    let texts = |texts: &[String]| texts.iter().map(|text| clean(text)).collect::<Vec<_>>();
    let levels: Vec<String> = side.levels.iter().map(|(key, label)| phrase(key, label)).collect();
    let levels = if levels.is_empty() { String::new() } else { format!(" ({})", levels.join(", ")) };
    format!("{}{levels} on {}", texts(&side.runs).join(", "), texts(&side.machines).join("; "))
}

/// What a row is about: its metric and workload where the runs have several.
fn subject(
    joined: &Joined,
    workload: &str,
    metric: &str,
    (above, below): (&Treatment, &Treatment),
    common: &Treatment,
) -> String {
    let several = |of: fn(&JoinedRow) -> &str| joined.rows.iter().map(of).collect::<BTreeSet<_>>().len() > 1;
    let words =
        [several(|row| &row.workload).then(|| clean(workload)), several(|row| &row.metric).then(|| clean(metric))];
    let before: String = words.into_iter().flatten().map(|word| format!("{word}, ")).collect();
    let name = |treatment: &Treatment| name(treatment, common).unwrap_or_else(|| clean(workload));
    format!("{before}{} to {}", name(above), name(below))
}

/// "container to native: 0.912 (0.901 to 0.923) -> 0.951 (0.940 to 0.962), 1.043 times (1.02 to 1.06): faster by more than 2 %."
fn sentence(joined: &Joined, row: &JoinedRow, common: &Treatment) -> String {
    let what = subject(joined, &row.workload, &row.metric, (&row.treatment, &row.relative_to), common);
    let values = format!("{} -> {}", own(&row.base), own(&row.other));
    let limits = row.lo.zip(row.hi);
    let Some((ratio, (lo, hi))) = row.ratio.zip(limits) else {
        return format!("{what}: {values}: {}.", clean(&row.words));
    };
    let places = ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let times = format!("{} times ({} to {})", fixed(ratio, places), fixed(lo, places), fixed(hi, places));
    let units = match joined.spread {
        Spread::WithinRuns => (row.base.blocks, row.other.blocks, "block"),
        Spread::BetweenRuns => (row.base.runs, row.other.runs, "run"),
    };
    let (base, other, noun) = units;
    format!("{what}: {values}, {times}: {} [{base} and {}].", clean(&row.words), count(other as u64, noun))
}

/// One side's ratio with its interval.
fn own(of: &SideRatio) -> String {
    let Some(ratio) = of.ratio else { return "no value".to_owned() };
    let limits = of.lo.zip(of.hi);
    let places = ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let interval = limits.map(|(lo, hi)| format!(" ({} to {})", fixed(lo, places), fixed(hi, places)));
    format!("{}{}", fixed(ratio, places), interval.unwrap_or_default())
}

fn unmatched(joined: &Joined, row: &Unmatched) -> String {
    let (has, lacks) = match row.only_in {
        Which::Base => ("base", "other"),
        Which::Other => ("other", "base"),
    };
    let pair = (&row.treatment, &row.relative_to);
    let what = subject(joined, &row.workload, &row.metric, pair, &Treatment::new());
    format!("{has}: {} ({}), {what}; {lacks}: {}.", clean(&row.metric), clean(&row.workload), clean(&row.reason))
}

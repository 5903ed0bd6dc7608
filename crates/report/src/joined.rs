//! Joined runs as a terminal shows them: each ratio of ratios, what one run alone has, and what differs between the runs.

use crate::comparison::{common, facts, name, paint};
use crate::number::{Digits, count, fixed, ratio_decimals};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, left, width};
use crate::treatment::{join, phrase};
use baremark_model::distinct::distinct;
use baremark_model::joined::{Joined, JoinedRow, JoinedSide, SideRatio, Spread, Unmatched, Which};
use baremark_model::plan::Treatment;
use std::collections::BTreeSet;
use std::iter;

/// The joined runs as text.
#[must_use]
pub fn render(joined: &Joined, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &format!("Joined runs: {}", title(joined)));
    page.paragraph(Paint::Faint, 0, INDENT, &method(joined));
    page.head("Sides");
    let label = (0..joined.others.len()).map(|at| width(&other(joined, at))).max().unwrap_or(0);
    page.hanging(&left("base", label), &side(&joined.base));
    for (at, of) in joined.others.iter().enumerate() {
        page.hanging(&left(&other(joined, at), label), &side(of));
    }
    page.head("Ratio of ratios: other / base");
    let treatments = joined.rows.iter().flat_map(|row| [&row.treatment, &row.relative_to]);
    let common = common(treatments);
    for rows in joined.rows.chunk_by(same) {
        ratio(&mut page, joined, rows, &common);
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
        false => facts(&mut page, "Possible causes: this differs between the runs", &joined.factors),
    }
    facts(&mut page, "Not the same among the runs of a side", &joined.mixed);
    page.text
}

/// Whether two rows are of one ratio.
fn same(one: &JoinedRow, two: &JoinedRow) -> bool {
    let what = (&one.workload, &one.metric, &one.treatment, &one.relative_to);
    what == (&two.workload, &two.metric, &two.treatment, &two.relative_to)
}

/// One ratio: in one line for two sides; for more that of the base and a line for each other side.
fn ratio(page: &mut Page, joined: &Joined, rows: &[JoinedRow], common: &Treatment) {
    let Some(first) = rows.first() else { return };
    let pair = (&first.treatment, &first.relative_to);
    let what = subject(joined, &first.workload, &first.metric, pair, common);
    if joined.others.len() == 1 {
        let text = format!("{what}: {} -> {}", own(&first.base), sentence(joined, first));
        return page.paragraph(paint(first.outcome), INDENT, INDENT, &text);
    }
    page.paragraph(Paint::Plain, INDENT, INDENT, &format!("{what}: base {}", own(&first.base)));
    for row in rows {
        let text = format!("{}: {}", other(joined, row.side), sentence(joined, row));
        page.paragraph(paint(row.outcome), 2 * INDENT, INDENT, &text);
    }
}

/// The name of another side: "other", of several "other 1", "other 2" ...
fn other(joined: &Joined, side: usize) -> String {
    if joined.others.len() == 1 { "other".to_owned() } else { format!("other {}", side + 1) }
}

fn title(joined: &Joined) -> String {
    let studies = iter::once(&joined.base.study).chain(joined.others.iter().map(|other| &other.study));
    distinct(studies.map(|study| clean(study))).join(" and ")
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

/// "0.951 (0.940 to 0.962), 1.043 times (1.02 to 1.06): faster by more than 2 % [12 and 12 blocks]."
fn sentence(joined: &Joined, row: &JoinedRow) -> String {
    let value = own(&row.other);
    let limits = row.lo.zip(row.hi);
    let Some((ratio, (lo, hi))) = row.ratio.zip(limits) else {
        return format!("{value}: {}.", clean(&row.words));
    };
    let places = ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let times = format!("{} times ({} to {})", fixed(ratio, places), fixed(lo, places), fixed(hi, places));
    let units = match joined.spread {
        Spread::WithinRuns => (row.base.blocks, row.other.blocks, "block"),
        Spread::BetweenRuns => (row.base.runs, row.other.runs, "run"),
    };
    let (base, other, noun) = units;
    format!("{value}, {times}: {} [{base} and {}].", clean(&row.words), count(other as u64, noun))
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
    let (base, other) = ("base".to_owned(), other(joined, row.side));
    let (has, lacks) = match row.only_in {
        Which::Base => (base, other),
        Which::Other => (other, base),
    };
    let pair = (&row.treatment, &row.relative_to);
    let what = subject(joined, &row.workload, &row.metric, pair, &Treatment::new());
    format!("{has}: {} ({}), {what}; {lacks}: {}.", clean(&row.metric), clean(&row.workload), clean(&row.reason))
}

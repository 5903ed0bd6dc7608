//! Ratios in sentences.
//!
//! A sentence names what was compared, says the estimate with its interval, and ends with the outcome. Where native is
//! itself a virtual machine the sentence says "of this virtual machine". A contrast of page sizes is worded as a contrast
//! and never as what a virtual machine keeps.

use crate::number::{Digits, count, fixed, percent, ratio_decimals};
use crate::text::clean;
use crate::treatment::{ENVIRONMENT, Factors, join, list};
use baremark_model::document::{Document, Outcome, RatioRow, ReferenceRow, SensitivityRow};
use baremark_model::environments;
use baremark_model::metric::Better;
use baremark_model::plan::{Contrast, Duet, Treatment};

/// How both programs of a pair ran, after "programs".
#[must_use]
pub fn at_once(duet: Duet) -> String {
    let [first, second] = duet.cpus;
    let core = if duet.one_core { " (two threads of one core)" } else { "" };
    format!("run at the same time on CPUs {first} and {second}{core}, which they swap")
}

/// A ratio in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    /// Why the sentence is to be taken with care.
    pub caution: Option<String>,
    /// The sentence.
    pub sentence: String,
    /// The ratio from parts of the trials.
    pub sensitivity: Option<String>,
    /// How it is to be taken.
    pub tone: Tone,
}

/// How a reader is to take an outcome; layouts colour by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No outcome, only a statement.
    Plain,
    /// There is a difference that matters.
    Differs,
    /// There is none that matters.
    Alike,
    /// A bound or less, or a self-check that finds what is not there.
    Open,
}

/// How the outcome of a ratio is to be taken.
pub(crate) fn tone(row: &RatioRow) -> Tone {
    match (row.contrast, limits_of(row), row.outcome) {
        (Contrast::PageSize | Contrast::Frames, ..) => Tone::Plain,
        (Contrast::SelfCheck, Some((lo, hi)), _) if (lo..=hi).contains(&1.0) => Tone::Alike,
        (Contrast::SelfCheck, ..) | (.., Outcome::NoLarger | Outcome::NotEnough | Outcome::Emulated) => Tone::Open,
        (.., Outcome::SlowerByMore | Outcome::FasterByMore | Outcome::Slower | Outcome::Faster) => Tone::Differs,
        (.., Outcome::Equivalent) => Tone::Alike,
    }
}

/// What a metric measures, as far as sentences need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// Its unit.
    pub unit: String,
    /// Which way is better; `None` when the document has no estimate of it.
    pub better: Option<Better>,
    name: String,
    /// Whether another metric of the document has the same unit, which then does not say which is which.
    shares_unit: bool,
}

impl Quantity {
    /// The quantity that `metric` measures, looked up among the estimates.
    pub(crate) fn of(document: &Document, metric: &str) -> Self {
        let row = document.estimates.iter().find(|row| row.metric == metric);
        let alike = |unit: &str| document.estimates.iter().any(|row| row.metric != metric && row.unit == unit);
        Quantity {
            shares_unit: row.is_some_and(|row| alike(&row.unit)),
            unit: row.map(|row| clean(&row.unit)).unwrap_or_default(),
            better: row.map(|row| row.better),
            name: clean(metric),
        }
    }

    fn is_time(&self) -> bool {
        matches!(self.unit.as_str(), "ns" | "us" | "µs" | "ms" | "s" | "min" | "h")
    }

    /// The quantity as a noun: a rate's unit is one, other metrics are called by their key.
    pub(crate) fn noun(&self) -> &str {
        if self.unit.contains('/') { &self.unit } else { &self.name }
    }

    /// "1.04 times as long as X", "1.04 times the GUP/s of X".
    fn times(&self, value: &str, base: &str) -> String {
        if self.is_time() {
            format!("{value} times as long as {base}")
        } else {
            format!("{value} times the {} of {base}", self.noun())
        }
    }

    /// The unit and the direction, for a table's caption.
    pub(crate) fn caption(&self) -> String {
        let unit = match self.shares_unit {
            _ if self.unit.is_empty() => self.name.clone(),
            // `iops` in IOPS says nothing twice.
            true if !self.unit.eq_ignore_ascii_case(&self.name) => format!("{}, {}", self.name, self.unit),
            _ => self.unit.clone(),
        };
        match self.better {
            Some(Better::Higher) => format!("{unit}, higher is better"),
            Some(Better::Lower) => format!("{unit}, lower is better"),
            None => unit,
        }
    }
}

/// A ratio's estimate, where it is one: what is not finite counts as absent.
pub(crate) fn ratio_of(row: &RatioRow) -> Option<f64> {
    row.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

/// A ratio's interval, where it has both limits.
pub(crate) fn limits_of(row: &RatioRow) -> Option<(f64, f64)> {
    row.lo.zip(row.hi).filter(|(lo, hi)| *lo > 0.0 && hi.is_finite() && lo <= hi)
}

/// The outcome of a ratio in words: the document's own, else what its kind says.
pub(crate) fn outcome(document: &Document, row: &RatioRow) -> String {
    match clean(&row.words) {
        words if words.trim().is_empty() => short(document, row),
        words => words.trim_end_matches('.').to_owned(),
    }
}

/// The outcome in a few words, for narrow cells: the document's own, else what its kind says.
pub(crate) fn short(document: &Document, row: &RatioRow) -> String {
    let delta = document.run.design.delta;
    if !row.short.is_empty() {
        return clean(&row.short);
    }
    match row.outcome {
        Outcome::Equivalent => format!("within {delta}"),
        Outcome::SlowerByMore => format!("slower > {delta}"),
        Outcome::FasterByMore => format!("faster > {delta}"),
        Outcome::Slower => "slower".to_owned(),
        Outcome::Faster => "faster".to_owned(),
        Outcome::NoLarger => "inconclusive".to_owned(),
        Outcome::NotEnough => "not enough data".to_owned(),
        Outcome::Emulated => "emulated".to_owned(),
    }
}

/// Why an outcome is to be taken with care: correlated blocks that the interval does not allow for, or parts of the trials that
/// contradict it.
pub(crate) fn caution(row: &RatioRow) -> Option<String> {
    if row.correlated && row.independence_assumed {
        return Some(format!(
            "Correlated blocks: with {} the interval assumes independent ones and is too short; 30 blocks allow for it.",
            count(row.blocks as u64, "block")
        ));
    }
    let contradicting: Vec<String> =
        row.sensitivity.iter().filter(|check| check.flips).map(|check| clean(&check.name)).collect();
    (!contradicting.is_empty()).then(|| format!("Not robust: contradicted by {}.", contradicting.join("; ")))
}

/// The sentence of one ratio with what stands around it.
pub(crate) fn headline(document: &Document, row: &RatioRow) -> Headline {
    let scale = Scale::of(document, row);
    let checks: Vec<String> = row.sensitivity.iter().map(|check| scale.check(check, row.blocks)).collect();
    Headline {
        caution: caution(row),
        sentence: sentence(document, row, &scale),
        sensitivity: (!checks.is_empty()).then(|| format!("Sensitivity: {}.", checks.join("; "))),
        tone: tone(row),
    }
}

fn sentence(document: &Document, row: &RatioRow, scale: &Scale) -> String {
    let Some(ratio) = ratio_of(row) else {
        let factors = Factors::of(&document.run);
        let (above, below) = (factors.name(&row.treatment), factors.name(&row.relative_to));
        return format!("{above} against {below}: {}.", outcome(document, row));
    };
    match row.contrast {
        Contrast::SelfCheck => self_check(document, row, scale, ratio),
        Contrast::Environment => environment(document, row, scale, ratio),
        Contrast::Factor => format!("{}; {}.", contrast(document, row, scale, ratio), outcome(document, row)),
        Contrast::PageSize | Contrast::Frames => format!("{}.", contrast(document, row, scale, ratio)),
    }
}

/// "microvm keeps 96.2 % of the GUP/s of bare metal with 4k pages (95.4 to 97.1 %): slower by more than 2 %."
fn environment(document: &Document, row: &RatioRow, scale: &Scale, ratio: f64) -> String {
    let factors = Factors::of(&document.run);
    let label = |treatment: &Treatment| environments::of(treatment).to_owned();
    let (subject, base) = (clean(&label(&row.treatment)), native(document, &label(&row.relative_to)));
    let with = factors.levels(&row.treatment, &[ENVIRONMENT]);
    let with = if with.is_empty() { String::new() } else { format!(" with {}", join(&with)) };
    let (value, interval) = (scale.show(ratio), scale.interval(row));
    let quantity = &scale.quantity;
    let judged = outcome(document, row);
    if matches!(row.outcome, Outcome::NotEnough | Outcome::Emulated) {
        return format!(
            "{subject} against {base}{with}: {judged} (estimate: {value} of the {}{interval}).",
            quantity.noun()
        );
    }
    let said = match (scale.percent, quantity.better) {
        (true, _) if ratio < 1.0 => format!("keeps {value} of the {} of {base}", quantity.noun()),
        (true, _) => format!("reaches {value} of the {} of {base}", quantity.noun()),
        (false, Some(Better::Lower)) => format!("takes {}", quantity.times(&value, &base)),
        (false, _) => format!("gives {}", quantity.times(&value, &base)),
    };
    let interval = interval.strip_prefix(", ").map(|text| format!(" ({text})")).unwrap_or_default();
    format!("{subject} {said}{with}{interval}: {judged}.")
}

/// "2m pages against 4k pages (native): 2.15 times the GUP/s (2.13 to 2.17)"
fn contrast(document: &Document, row: &RatioRow, scale: &Scale, ratio: f64) -> String {
    let factors = Factors::of(&document.run);
    let shared = |key: &str| row.treatment.get(key) == row.relative_to.get(key);
    let common: Vec<&str> = row.treatment.keys().map(String::as_str).filter(|key| shared(key)).collect();
    let differing = |treatment: &Treatment| match factors.levels(treatment, &common) {
        levels if levels.is_empty() => factors.name(treatment),
        levels => match levels.split_first() {
            Some((first, rest)) if first.0 == ENVIRONMENT && !rest.is_empty() => {
                format!("{} with {}", clean(first.1), join(rest))
            }
            _ => join(&levels),
        },
    };
    let (above, below) = (differing(&row.treatment), differing(&row.relative_to));
    let unshared: Vec<&str> = row.treatment.keys().map(String::as_str).filter(|key| !shared(key)).collect();
    let place = match factors.levels(&row.treatment, &unshared) {
        levels if levels.is_empty() => String::new(),
        levels => format!(" ({})", list(&levels)),
    };
    let value = scale.show(ratio);
    let amount = if scale.quantity.is_time() {
        format!("{value} times as long")
    } else {
        format!("{value} times the {}", scale.quantity.noun())
    };
    let interval = scale.interval(row).strip_prefix(", ").map(|text| format!(" ({text})")).unwrap_or_default();
    format!("{above} against {below}{place}: {amount}{interval}")
}

/// "native with 4k pages against itself: no difference found: noise floor ±0.8 %."
fn self_check(document: &Document, row: &RatioRow, scale: &Scale, ratio: f64) -> String {
    let name = Factors::of(&document.run).name(&row.treatment);
    let Some((lo, hi)) = limits_of(row) else {
        return format!("{name} against itself: too few blocks for a noise floor.");
    };
    let floor = percent((hi - 1.0).abs().max((1.0 - lo).abs()));
    if (lo..=hi).contains(&1.0) {
        return format!("{name} against itself: no difference found: noise floor ±{floor}.");
    }
    let off = percent((ratio - 1.0).abs());
    let interval = scale.interval(row);
    format!(
        "{name} against itself: a difference of {off} was found ({}{interval}), although both arms are the same; differences below {floor} are not reliable here.",
        scale.show(ratio)
    )
}

/// "native with 4k pages next to microvm with 4k pages: 1.003 (0.991 to 1.015) of what it is next to microvm with 2m pages: no difference found."
pub(crate) fn reference(document: &Document, row: &ReferenceRow) -> String {
    let factors = Factors::of(&document.run);
    let [name, partner, first] = [&row.treatment, &row.partner, &row.first_partner].map(|of| factors.name(of));
    let limits = row.lo.zip(row.hi);
    let places = ratio_decimals(row.ratio, limits, 1.0, Digits::Plain);
    let shown = |ratio: f64| fixed(ratio, places);
    let beside = format!("{name} next to {partner}: {}", shown(row.ratio));
    let Some((lo, hi)) = limits else {
        return format!("{beside} of what it is next to {first}: too few blocks for an interval.");
    };
    let delta = document.run.design.delta;
    let found = if (lo..=hi).contains(&1.0) {
        "no difference found".to_owned()
    } else if row.ratio.ln().abs() <= delta.0.ln_1p() {
        format!("a difference below the {delta:.1} that matters")
    } else {
        format!("a difference above the {delta:.1} that matters")
    };
    format!("{beside} ({} to {}) of what it is next to {first}: {found}.", shown(lo), shown(hi))
}

/// Of what: native is called what it is.
fn native(document: &Document, label: &str) -> String {
    if label == environments::NATIVE { clean(&document.run.native_means) } else { clean(label) }
}

/// How one ratio's numbers are shown: as percent or as a factor, and to which decimal.
struct Scale {
    percent: bool,
    decimals: i32,
    quantity: Quantity,
}

impl Scale {
    fn of(document: &Document, row: &RatioRow) -> Self {
        let quantity = Quantity::of(document, &row.metric);
        let ratio = ratio_of(row).unwrap_or(1.0);
        let keeps = matches!(row.contrast, Contrast::Environment) && quantity.better != Some(Better::Lower);
        let percent = keeps && (0.1..2.0).contains(&ratio);
        let unit = if percent { 100.0 } else { 1.0 };
        Scale { percent, decimals: ratio_decimals(ratio, limits_of(row), unit, Digits::Plain), quantity }
    }

    fn bare(&self, ratio: f64) -> String {
        fixed(if self.percent { ratio * 100.0 } else { ratio }, self.decimals)
    }

    fn show(&self, ratio: f64) -> String {
        let unit = if self.percent { " %" } else { "" };
        format!("{}{unit}", self.bare(ratio))
    }

    /// ", 95.4 to 97.1 %", or nothing where there is no interval.
    fn interval(&self, row: &RatioRow) -> String {
        match limits_of(row) {
            Some((lo, hi)) => format!(", {} to {}", self.bare(lo), self.show(hi)),
            None => String::new(),
        }
    }

    fn check(&self, check: &SensitivityRow, of: usize) -> String {
        let fewer = if check.blocks == of { String::new() } else { format!(" ({} of {of} blocks)", check.blocks) };
        format!("{} {}{fewer}", clean(&check.name), self.show(check.ratio))
    }
}

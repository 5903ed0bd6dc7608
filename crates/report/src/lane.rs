//! The picture in a row of the answer: a ratio's interval in the band of equivalence, with the published ratio as a hollow mark; of a value that
//! stands alone its trials as dots, or as bars where they are very many, with its interval. All rows of a table have one axis, which is drawn below them.

use crate::answer::Compared;
use crate::axis::Axis;
use crate::crowd;
use crate::grid::readable;
use crate::number::rounded;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::words::{Tone, limits_of, ratio_of, tone};
use baremark_model::document::Document;
use baremark_model::event::TrialStatus;
use baremark_model::plan::Treatment;

const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 24.0;
const MARGIN: f64 = 9.0;
/// An interval that reaches further than so many times beyond every ratio is drawn up to there, with an arrow.
const FAR: f64 = 3.0;

/// The axis of a table's pictures.
pub(crate) struct Lanes {
    axis: Axis,
    /// Of ratios: the band of equivalence.
    band: Option<[f64; 2]>,
    /// Of values: how many of their own unit one of the axis is, and its name.
    unit: (f64, String),
    /// Of rows of values: whether some have more trials than there is room for, and some have not.
    crowded: [bool; 2],
}

impl Lanes {
    /// The common axis of ratios, or else of values in one unit; `None` where there is nothing to draw.
    pub(crate) fn of(rows: &[Compared<'_>]) -> Option<Self> {
        let ends = [MARGIN, WIDTH - MARGIN];
        let ratios: Vec<f64> = rows.iter().filter_map(|row| ratio_of(row.ratio?)).collect();
        if let Some(first) = rows.first().filter(|_| !ratios.is_empty()) {
            let delta = first.document.run.design.delta.0;
            let band = [1.0 / (1.0 + delta), 1.0 + delta];
            let published = rows.iter().filter_map(|row| Some(row.evidence.as_ref()?.published.as_ref()?.value.number));
            let shown: Vec<f64> =
                ratios.into_iter().chain(published).chain(band).filter(|value| *value > 0.0).collect();
            let (least, most) =
                shown.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
            let limits = rows.iter().filter_map(|row| limits_of(row.ratio?));
            let limits = limits.flat_map(|(lo, hi)| [lo.max(least / FAR), hi.min(most * FAR)]);
            let axis = Axis::over(limits.chain([least, most]), ends, true)?;
            return Some(Lanes { axis, band: Some(band), unit: (1.0, String::new()), crowded: [false, true] });
        }
        let evidence = || rows.iter().filter_map(|row| row.evidence.as_ref().map(|of| (row.document, of)));
        let (_, first) = evidence().next()?;
        let unit = &first.value.1.unit;
        if !evidence().all(|(_, of)| of.value.1.unit == *unit) {
            return None;
        }
        let (mut values, mut crowded) = (Vec::new(), [false; 2]);
        for (document, of) in evidence() {
            let (row, before) = (of.value.1, values.len());
            values.extend(trials(document, &row.treatment));
            crowded[usize::from(values.len() - before <= crowd::MANY)] = true;
            values.extend([row.estimate].into_iter().chain(row.lo).chain(row.hi));
        }
        // A single dot is no picture.
        (values.len() > 2).then_some(())?;
        let unit = readable(&clean(unit), evidence().map(|(_, of)| of.value.1.estimate));
        let axis = Axis::over(values.into_iter().map(|value| value / unit.0), ends, false)?;
        Some(Lanes { axis, band: None, unit, crowded })
    }

    /// The picture of a row, the table's `number`th.
    pub(crate) fn draw(&self, row: &Compared<'_>, number: usize) -> Option<Svg> {
        let says = |words: &str| Svg::new(&format!("lane-{number}"), [WIDTH, HEIGHT], &row.label, words);
        match (row.ratio, &self.band) {
            (Some(_), Some(band)) => self.ratio(row, *band, says),
            (None, None) => self.value(row, says),
            _ => None,
        }
    }

    fn ratio(&self, row: &Compared<'_>, band: [f64; 2], new: impl Fn(&str) -> Svg) -> Option<Svg> {
        let ratio = row.ratio?;
        let value = ratio_of(ratio)?;
        let limits = limits_of(ratio);
        let text = rounded;
        let interval = limits.map(|(lo, hi)| format!(", {} to {}", text(lo), text(hi))).unwrap_or_default();
        let published = row.evidence.as_ref().and_then(|of| of.published.as_ref());
        let there = published.map(|of| format!("; {}", of.words())).unwrap_or_default();
        let mut svg = new(&format!("{}{interval}{there}", text(value)));
        let at = |value: f64| self.axis.at(value);
        svg.rect("band", [at(band[0]), 0.0], [at(band[1]) - at(band[0]), HEIGHT]);
        svg.line("one", [at(1.0), 0.0], [at(1.0), HEIGHT]);
        let open = if tone(ratio) == Tone::Open { " open" } else { "" };
        let middle = HEIGHT / 2.0;
        if let Some((lo, hi)) = limits {
            // Beyond the axis an arrow, else the end.
            let ends = [(lo, 2.0, 5.0), (hi, WIDTH - 2.0, -5.0)];
            let ends = ends.map(|(limit, edge, inwards)| match self.axis.has(limit) {
                true => (at(limit), 0.0),
                false => (edge, inwards),
            });
            svg.line(&format!("interval{open}"), [ends[0].0, middle], [ends[1].0, middle]);
            for (x, inwards) in ends {
                let tip = x + inwards;
                svg.polyline(&format!("end{open}"), &[[tip, middle - 5.0], [x, middle], [tip, middle + 5.0]]);
            }
        }
        svg.dot(&format!("point{open}"), [at(value), middle], 4.5, &format!("{}{interval}", text(value)));
        if let Some(published) = published.filter(|of| of.value.number > 0.0) {
            let x = at(published.value.number);
            svg.mark("published", [x, middle], 6.0, &published.words());
        }
        Some(svg)
    }

    fn value(&self, row: &Compared<'_>, new: impl Fn(&str) -> Svg) -> Option<Svg> {
        let evidence = row.evidence.as_ref()?;
        let found = evidence.value.1;
        let mut svg = new(&format!("{} {}", evidence.value.0, evidence.unit));
        let (at, middle) = (|value: f64| self.axis.at(value / self.unit.0), 8.0);
        if let Some((lo, hi)) = found.lo.zip(found.hi).filter(|(lo, hi)| lo.is_finite() && hi.is_finite()) {
            svg.line("interval", [at(lo), middle], [at(hi), middle]);
            for end in [lo, hi] {
                svg.line("interval", [at(end), middle - 5.0], [at(end), middle + 5.0]);
            }
        }
        let says = |value: f64| rounded(value / self.unit.0);
        let values: Vec<f64> = trials(row.document, &found.treatment).collect();
        if values.len() > crowd::MANY {
            crowd::density(&mut svg, &values, at, [HEIGHT, HEIGHT - 14.0], says);
        } else {
            values.iter().for_each(|value| svg.dot("trial", [at(*value), HEIGHT - 4.0], 2.6, &says(*value)));
        }
        svg.dot("point", [at(found.estimate), middle], 4.5, &evidence.value.0);
        Some(svg)
    }

    /// What the marks of rows with values mean.
    pub(crate) fn marks(&self) -> &'static str {
        match self.crowded {
            [true, true] => "Grey: how many trials lie where; hollow: trials",
            [true, false] => "Grey: how many trials lie where",
            [false, _] => "Hollow: trials",
        }
    }

    /// The axis below the rows.
    pub(crate) fn scale(&self) -> Svg {
        let unit = &self.unit.1;
        let title = if self.band.is_some() { "ratio, logarithmic".to_owned() } else { format!("value, {unit}") };
        let mut svg = Svg::new("lane-axis", [WIDTH, 20.0], "Axis", &title);
        svg.line("rule", [0.0, 0.5], [WIDTH, 0.5]);
        let mut free = f64::NEG_INFINITY;
        for (value, text) in self.axis.ticks(4.0) {
            let x = self.axis.at(value);
            svg.line("rule", [x, 0.0], [x, 5.0]);
            #[expect(clippy::cast_precision_loss, reason = "a short label")]
            let half = 3.6 * text.chars().count() as f64;
            if x - half > free && x - half >= 0.0 && x + half <= WIDTH {
                svg.text("tick", [x, 17.0], Anchor::Middle, &text);
                free = x + half + 4.0;
            }
        }
        svg
    }
}

/// The value of a treatment in each trial that counts, in the headline's metric.
fn trials(document: &Document, treatment: &Treatment) -> impl Iterator<Item = f64> {
    let counting = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok);
    let arms = counting.flat_map(|trial| &trial.arms).filter(move |arm| arm.treatment == *treatment);
    let samples = arms.flat_map(|arm| &arm.medians).filter(|sample| sample.metric == document.run.metric);
    samples.map(|sample| sample.value).filter(|value| value.is_finite())
}

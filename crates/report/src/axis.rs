//! Figures and their axes.

use crate::number::{self, fixed};
use crate::svg::{Anchor, Svg};
use crate::text::cut;

/// The width of a figure, and the margin to its right, in its own units.
pub(crate) const WIDTH: f64 = 480.0;
pub(crate) const MARGIN: f64 = 12.0;
/// Where its axes begin, how high it is below a legend, and how high a line of that is.
pub(crate) const LEFT: f64 = 62.0;
pub(crate) const HEIGHT: f64 = 190.0;
pub(crate) const LINE: f64 = 17.0;

/// A figure with the name of its file.
pub struct Figure {
    /// What it shows, in one line.
    pub caption: String,
    /// A name for a file, without ending.
    pub name: String,
    pub(crate) svg: Svg,
}

impl Figure {
    /// The figure as a file of its own.
    #[must_use]
    pub fn file(&self) -> String {
        self.svg.file()
    }
}

/// A logarithmic axis of ratios, or a linear one of values.
pub(crate) struct Axis {
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) logarithmic: bool,
}

impl Axis {
    /// An axis that shows all of `values` with a margin, drawn between the coordinates `from` and `to`.
    pub(crate) fn over(values: impl Iterator<Item = f64>, [from, to]: [f64; 2], logarithmic: bool) -> Option<Self> {
        let wanted = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
        let ends = wanted.fold(None, |ends: Option<(f64, f64)>, value| match ends {
            None => Some((value, value)),
            Some((least, most)) => Some((least.min(value), most.max(value))),
        });
        let (least, most) = ends?;
        let (least, most) = if logarithmic { (least.ln(), most.ln()) } else { (least, most) };
        // One value, or several that are one but for rounding, have a tenth of it to each side.
        let alone = match logarithmic {
            _ if most - least > 1e-6 * most.abs().max(1e-12) => 0.0,
            true => 0.1,
            false if most == 0.0 => 1.0,
            false => 0.1 * most.abs(),
        };
        let room = ((most - least) * 0.06).max(alone).max(1e-12);
        Some(Axis { least: least - room, most: most + room, from, to, logarithmic })
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        // What the axis has no place for is at its end: zero on a logarithmic one, and what is not a number.
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = ((value - self.least) / (self.most - self.least)).clamp(0.0, 1.0);
        self.from + if share.is_nan() { 0.0 } else { share } * (self.to - self.from)
    }

    /// Whether the axis has a place for a value, or only its end.
    pub(crate) fn has(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&if self.logarithmic { value.ln() } else { value })
    }

    /// Round values on the axis, about `wanted` of them, as texts.
    pub(crate) fn ticks(&self, wanted: f64) -> Vec<(f64, String)> {
        let (low, high) = if self.logarithmic { (self.least.exp(), self.most.exp()) } else { (self.least, self.most) };
        if self.logarithmic && high / low > 4.0 {
            return doublings(low, high);
        }
        let raw = (high - low) / wanted;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power).into_iter().find(|step| *step >= raw).unwrap_or(raw);
        let places = (0..12).find(|&places| is_whole(step * 10_f64.powi(places))).unwrap_or(12);
        let first = (low / step).ceil();
        let ticks = (0..50).map(|n| (first + f64::from(n)) * step).take_while(|tick| *tick <= high);
        ticks.map(|tick| (tick, fixed(tick, places))).collect()
    }

    /// Draws it as the upright axis of a figure, with a rule across it at each tick.
    pub(crate) fn draw_upright(&self, svg: &mut Svg) {
        for (value, text) in self.ticks(4.0) {
            svg.line("rule", [LEFT, self.at(value)], [WIDTH - MARGIN, self.at(value)]);
            svg.text("tick", [LEFT - 6.0, self.at(value) + 4.0], Anchor::End, &text);
        }
    }

    /// Draws it as the lower axis of a figure with these levels, ascending; names that would run into their neighbour are left out.
    pub(crate) fn draw_levels<'l>(&self, svg: &mut Svg, bottom: f64, levels: impl Iterator<Item = (f64, &'l str)>) {
        svg.line("rule", [LEFT, bottom], [WIDTH - MARGIN, bottom]);
        let mut free = f64::NEG_INFINITY;
        for (at, level) in levels {
            let x = self.at(at);
            svg.line("rule", [x, bottom], [x, bottom + 4.0]);
            #[expect(clippy::cast_precision_loss, reason = "a short label")]
            let half = 3.6 * level.chars().count() as f64;
            if x - half > free {
                svg.text("tick", [x, bottom + 17.0], Anchor::Middle, level);
                free = x + half + 4.0;
            }
        }
    }

    /// Draws a value that is a limit across a figure, of which this is the upright axis.
    pub(crate) fn draw_bound(&self, svg: &mut Svg, at: f64, name: &str) {
        svg.line("bound", [LEFT, self.at(at)], [WIDTH - MARGIN, self.at(at)]);
        svg.text("bound", [LEFT + 4.0, self.at(at) - 4.0], Anchor::Start, name);
    }
}

/// The levels of points in any order, ascending, each name once.
pub(crate) fn ascending<'l>(points: impl Iterator<Item = (f64, &'l str)>) -> impl Iterator<Item = (f64, &'l str)> {
    let mut levels: Vec<(f64, &str)> = points.collect();
    baremark_model::order::by(&mut levels, |one, two| one.0.total_cmp(&two.0));
    levels.dedup_by(|one, two| one.1 == two.1);
    levels.into_iter()
}

/// Draws line `number` of the legend above a figure: what the curve of this number is.
pub(crate) fn legend(svg: &mut Svg, number: usize, name: &str) {
    #[expect(clippy::cast_precision_loss, reason = "a few lines")]
    let at = 12.0 + number as f64 * LINE;
    svg.line(&format!("curve c{number}"), [LEFT, at], [LEFT + 26.0, at]);
    svg.text("label", [LEFT + 32.0, at + 4.0], Anchor::Start, &cut(name, 56));
}

/// Powers of two for axes over which a ratio doubles several times; powers of ten where even these are too many.
fn doublings(low: f64, high: f64) -> Vec<(f64, String)> {
    let base: f64 = if high / low > 200.0 { 10.0 } else { 2.0 };
    let powers = (-40..=40).map(|n| base.powi(n)).filter(|tick| (low..=high).contains(tick));
    powers.map(|tick| (tick, if tick < 1.0 { number::trimmed(tick) } else { fixed(tick, 0) })).collect()
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of one dot were 1019.999 to 1020.001.
    #[test]
    fn an_axis_of_one_value_has_labels_that_differ_from_it() {
        let labels = |values: &[f64], logarithmic: bool| -> Vec<String> {
            let axis = Axis::over(values.iter().copied(), [0.0, 100.0], logarithmic).expect("values");
            axis.ticks(4.0).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(labels(&[1020.0], false), ["1000", "1100"]);
        assert_eq!(labels(&[1_020.0, 1_020.000_1], false), ["1000", "1100"]);
        assert_eq!(labels(&[1.0], true), ["1.0", "1.1"]);
        assert_eq!(labels(&[0.0], false), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        let spread = labels(&[1000.0, 1100.0], false);
        assert_eq!(spread.first().map(String::as_str), Some("1000"), "{spread:?}");
    }
}

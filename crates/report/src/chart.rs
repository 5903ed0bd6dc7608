//! A figure of lines over a number: what members, levels or copies came to, against a bound where there is one.

use crate::axis::{Axis, Figure, HEIGHT, LEFT, LINE, MARGIN, WIDTH, ascending, legend};
use crate::number::rounded;
use crate::svg::{Anchor, Svg};
use baremark_model::order;

/// Lines that can be distinguished.
const MOST: usize = 6;
/// From this quotient of the largest and the smallest value on the axis is logarithmic.
const LOGARITHMIC: f64 = 30.0;

/// A point of a line: its level as a text, the level, the value.
pub(crate) type Point = (String, f64, f64);

/// What is drawn.
pub(crate) struct Chart {
    /// Unique on the page.
    pub id: String,
    /// What it shows, in a line.
    pub title: String,
    /// What varies.
    pub factor: &'static str,
    /// Of the values.
    pub unit: &'static str,
    /// A value that is a limit, and what it is called.
    pub bound: Option<(f64, &'static str)>,
    /// Each line's name and points.
    pub lines: Vec<(String, Vec<Point>)>,
}

impl Chart {
    /// The figure; `None` where no line has two points.
    pub(crate) fn draw(&self) -> Option<Figure> {
        let lines: Vec<&(String, Vec<Point>)> =
            self.lines.iter().filter(|(_, points)| points.len() > 1).take(MOST).collect();
        let points = || lines.iter().flat_map(|(_, points)| points);
        let values = || points().map(|(_, _, value)| *value).chain(self.bound.map(|(at, _)| at));
        let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        let logarithmic = least > 0.0 && most / least > LOGARITHMIC;
        #[expect(clippy::cast_precision_loss, reason = "at most MOST")]
        let top = 14.0 + lines.len() as f64 * LINE;
        let bottom = top + HEIGHT;
        let across = Axis::over(points().map(|(_, at, _)| *at), [LEFT + 10.0, WIDTH - MARGIN - 10.0], false)?;
        let floor = (!logarithmic).then_some(0.0);
        let up = Axis::over(values().chain(floor), [bottom, top], logarithmic)?;
        let mut svg = Svg::new(&self.id, [WIDTH, bottom + 38.0], &self.title, &self.in_words(&lines));
        up.draw_upright(&mut svg);
        svg.text("axis", [LEFT - 6.0, top - 6.0], Anchor::End, self.unit);
        let levels = points().map(|(level, at, _)| (*at, level.as_str()));
        across.draw_levels(&mut svg, bottom, ascending(levels));
        svg.text("axis", [f64::midpoint(LEFT, WIDTH), bottom + 34.0], Anchor::Middle, self.factor);
        if let Some((at, name)) = self.bound {
            up.draw_bound(&mut svg, at, name);
        }
        for (number, (name, points)) in lines.iter().enumerate() {
            let class = format!("curve c{number}");
            let places: Vec<[f64; 2]> = points.iter().map(|(_, at, value)| [across.at(*at), up.at(*value)]).collect();
            svg.polyline(&class, &means(points).map(|(at, value)| [across.at(at), up.at(value)]).collect::<Vec<_>>());
            for ((level, _, value), place) in points.iter().zip(places) {
                svg.dot(&class, place, 3.0, &format!("{name}, {level}: {} {}", rounded(*value), self.unit));
            }
            legend(&mut svg, number, name);
        }
        let more = if self.lines.len() > lines.len() {
            format!(" ({} of {})", lines.len(), self.lines.len())
        } else {
            String::new()
        };
        let caption = format!("{} by {}{more}.", self.title, self.factor);
        Some(Figure { caption, name: self.id.clone(), svg })
    }

    /// The figure in words, for those who cannot see it.
    fn in_words(&self, lines: &[&(String, Vec<Point>)]) -> String {
        let point = |(level, _, value): &Point| format!("{level} {}: {} {}", self.factor, rounded(*value), self.unit);
        let line = |(name, points): &&(String, Vec<Point>)| {
            format!("{name}: {}", points.iter().map(point).collect::<Vec<_>>().join(", "))
        };
        lines.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

/// The mean at each level, ascending: a level may have been measured several times.
fn means(points: &[Point]) -> impl Iterator<Item = (f64, f64)> {
    let mut sorted: Vec<(f64, f64)> = points.iter().map(|(_, at, value)| (*at, *value)).collect();
    order::by(&mut sorted, |one, two| one.0.total_cmp(&two.0));
    let levels: Vec<Vec<(f64, f64)>> =
        sorted.chunk_by(|one, two| one.0.total_cmp(&two.0).is_eq()).map(<[_]>::to_vec).collect();
    #[expect(clippy::cast_precision_loss, reason = "few points")]
    let mean =
        |level: Vec<(f64, f64)>| (level[0].0, level.iter().map(|(_, value)| value).sum::<f64>() / level.len() as f64);
    levels.into_iter().map(mean)
}

//! One line through points as a drawing, with axes that people read: round numbers, units, a band where a value is uncertain.

use std::fmt::Write as _;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = HEIGHT - 38.0;
/// More points than this are a line alone.
const MOST_DOTS: usize = 30;

/// How points are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    /// What lies between two points is about between their values.
    Straight,
    /// A value holds until the next.
    Steps,
}

/// A place on the horizontal axis, and the band about it.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub at: f64,
    pub low: f64,
    pub high: f64,
}

/// What is drawn.
pub(crate) struct Chart<'c> {
    pub caption: &'c str,
    /// What the axes are in.
    pub across: &'c str,
    pub up: &'c str,
    pub points: &'c [(f64, f64)],
    pub join: Join,
    pub mark: Option<Mark>,
}

impl Chart<'_> {
    /// Draws it; nothing of fewer than two points.
    pub(crate) fn draw(&self, text: &mut String) {
        let most = |of: fn(&(f64, f64)) -> f64| self.points.iter().map(of).fold(0.0, f64::max);
        let marked = self.mark.map_or(0.0, |mark| mark.high.max(mark.at));
        let (right, top) = (most(|point| point.0).max(marked), most(|point| point.1));
        if self.points.len() < 2 || right <= 0.0 || top <= 0.0 || !right.is_finite() || !top.is_finite() {
            return;
        }
        // Servers and users are whole, also between the lines.
        let least = if self.points.iter().all(|point| point.1.fract() == 0.0) { 1.0 } else { 0.0 };
        let (step, up) = (round_step(right, 5.0), round_step(top, 4.0).max(least));
        let (right, top) = (right, (top / up).ceil() * up);
        let x = |value: f64| LEFT + (RIGHT - LEFT) * (value / right).clamp(0.0, 1.0);
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / top;
        let caption = self.caption;
        let _ = write!(
            text,
            "<figure><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{caption}\">"
        );
        for tick in ticks(top, up) {
            let _ = write!(
                text,
                "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{RIGHT}\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{tick}</text>",
                y(tick),
                LEFT - 6.0,
                y(tick) + 4.0
            );
        }
        for tick in ticks(right, step) {
            let _ = write!(
                text,
                "<path class=\"axis\" d=\"M{0:.1} {BOTTOM}v4\"/><text x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\">{tick}</text>",
                x(tick),
                BOTTOM + 16.0
            );
        }
        let _ = write!(
            text,
            "<text x=\"{LEFT}\" y=\"14\">{}</text><text x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>",
            self.up,
            HEIGHT - 6.0,
            self.across
        );
        if let Some(mark) = self.mark {
            let _ = write!(
                text,
                "<rect class=\"band\" x=\"{:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/><path class=\"mark\" d=\"M{3:.1} {TOP}V{BOTTOM}\"/>\
                 <text x=\"{3:.1}\" y=\"14\" text-anchor=\"middle\">{4:.0}</text>",
                x(mark.low),
                (x(mark.high) - x(mark.low)).max(0.0),
                BOTTOM - TOP,
                x(mark.at),
                mark.at,
            );
        }
        let _ = writeln!(
            text,
            "<polyline class=\"line\" points=\"{}\"/>{}</svg><figcaption>{caption}</figcaption></figure>",
            self.line(x, y),
            self.dots(x, y)
        );
    }

    fn line(&self, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
        let mut line = String::new();
        let mut before = None;
        for &(across, up) in self.points {
            if let Some(held) = before.filter(|_| self.join == Join::Steps) {
                let _ = write!(line, "{:.1},{:.1} ", x(across), y(held));
            }
            let _ = write!(line, "{:.1},{:.1} ", x(across), y(up));
            before = Some(up);
        }
        line
    }

    fn dots(&self, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
        if self.points.len() > MOST_DOTS || self.join == Join::Steps {
            return String::new();
        }
        self.points.iter().fold(String::new(), |mut dots, &(across, up)| {
            let _ = write!(dots, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>", x(across), y(up));
            dots
        })
    }
}

/// 1, 2 or 5 times a power of ten, so that about `wanted` of them reach `most`.
fn round_step(most: f64, wanted: f64) -> f64 {
    let rough = most / wanted;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|times| times * power).find(|step| *step >= rough);
    step.unwrap_or(10.0 * power)
}

/// The multiples of `step` from 0 to `most`, without what adding up leaves behind the point.
fn ticks(most: f64, step: f64) -> impl Iterator<Item = f64> {
    let digits = 10_f64.powf((-step.log10().floor()).max(0.0));
    (0_u32..50)
        .map(move |number| (f64::from(number) * step * digits).round() / digits)
        .take_while(move |tick| *tick <= most * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let axis = |most: f64, wanted: f64| ticks(most, round_step(most, wanted)).collect::<Vec<_>>();
        assert_eq!(axis(730.0, 6.0), [0.0, 200.0, 400.0, 600.0]);
        assert_eq!(axis(1.0, 4.0), [0.0, 0.5, 1.0]);
        assert_eq!(axis(0.9, 6.0), [0.0, 0.2, 0.4, 0.6, 0.8]);
        assert_eq!(axis(3.0, 4.0), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn points_and_band_lie_within_the_axes() {
        let points = [(10.0, 5.0), (20.0, 7.0)];
        let mark = Some(Mark { at: 15.0, low: 12.0, high: 40.0 });
        let chart = Chart { caption: "it", across: "users", up: "ms", points: &points, join: Join::Straight, mark };
        let mut text = String::new();
        chart.draw(&mut text);
        assert!(text.contains("points=\"160.0,79.5 262.0,42.5 \""), "{text}");
        assert!(text.contains("x=\"180.4\" y=\"24\" width=\"285.6\""), "{text}");
        let mut none = String::new();
        Chart { points: &points[..1], ..chart }.draw(&mut none);
        assert_eq!(none, "");
    }
}

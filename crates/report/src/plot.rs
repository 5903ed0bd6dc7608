//! A curve drawn with characters: braille dots where they can be shown, stars where not.

use crate::text::{Style, left, right, width};

/// A curve and what stands on its axes.
pub struct Curve<'c> {
    /// Ascending in x; nothing is drawn of fewer than two.
    pub points: &'c [(f64, f64)],
    /// A value of x as text.
    pub x: &'c dyn Fn(f64) -> String,
    /// A value of y as text.
    pub y: &'c dyn Fn(f64) -> String,
    /// What the axes show, in a line.
    pub title: &'c str,
    /// Whether y is drawn logarithmically; then values must be above 0.
    pub logarithmic: bool,
}

/// Dots of a braille character by column and row, as Unicode numbers them.
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// The curve in so many rows, as wide as the style allows; empty where there is too little to draw.
#[must_use]
pub fn draw(curve: &Curve<'_>, rows: usize, style: &Style) -> String {
    let points = sound(curve);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let (low, high) = points.iter().fold((f64::MAX, f64::MIN), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
    if points.len() < 2 || last.0 <= first.0 || rows < 2 {
        return String::new();
    }
    // From 0 where that costs little of the height: a rate that wavers by 1 % is not drawn as if it fell to nothing.
    let low = if curve.logarithmic || low < 0.0 { low } else { 0.0 };
    let high = if high > low { high } else { low + 1.0 };
    let value = |y: f64| (curve.y)(if curve.logarithmic { y.exp() } else { y });
    let labels = [value(high), value(0.5 * (low + high)), value(low)];
    let margin = labels.iter().map(|label| width(label)).max().unwrap_or(0).min(16);
    let columns = style.width.saturating_sub(margin + 4).clamp(8, 100);
    let cells = trace(&points, (low, high), [columns, rows], style.unicode);
    let mut text = format!("  {}\n", curve.title);
    for (row, line) in cells.iter().enumerate() {
        let label = match row {
            0 => &labels[0],
            row if row == rows / 2 => &labels[1],
            row if row + 1 == rows => &labels[2],
            _ => "",
        };
        let edge = if style.unicode { '│' } else { '|' };
        let line: String = line.iter().collect();
        text.push_str(format!("  {} {edge}{line}", right(label, margin)).trim_end());
        text.push('\n');
    }
    let ends = [(curve.x)(first.0), (curve.x)(last.0)];
    let between = columns.saturating_sub(width(&ends[0]) + width(&ends[1]));
    text.push_str(&format!("  {}  {}{}{}\n", left("", margin), ends[0], " ".repeat(between), ends[1]));
    text
}

fn sound(curve: &Curve<'_>) -> Vec<(f64, f64)> {
    let finite = curve.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let shown = finite.filter(|(_, y)| !curve.logarithmic || *y > 0.0);
    shown.map(|&(x, y)| (x, if curve.logarithmic { y.ln() } else { y })).collect()
}

/// The characters of the area, row by row. Between two points the curve is straight.
fn trace(points: &[(f64, f64)], (low, high): (f64, f64), [columns, rows]: [usize; 2], unicode: bool) -> Vec<Vec<char>> {
    let (across, down) = if unicode { (2, 4) } else { (1, 1) };
    let (wide, tall) = (columns * across, rows * down);
    let (begin, end) = (points[0].0, points[points.len() - 1].0);
    let mut dots = vec![vec![0_u8; columns]; rows];
    let mut before: Option<usize> = None;
    for column in 0..wide {
        let x = begin + (end - begin) * column as f64 / (wide - 1).max(1) as f64;
        let after = points.partition_point(|(at, _)| *at < x).clamp(1, points.len() - 1);
        let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
        let y = if x1 > x0 { y0 + (y1 - y0) * ((x - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { y1 };
        let share = ((y - low) / (high - low)).clamp(0.0, 1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the area")]
        let row = ((1.0 - share) * (tall - 1) as f64).round() as usize;
        // A steep piece is drawn without holes.
        let from = match before {
            Some(before) if before < row => before + 1,
            Some(before) if before > row => before - 1,
            _ => row,
        };
        for dot in from.min(row)..=from.max(row) {
            dots[dot / down][column / across] |= DOTS[column % across][dot % down];
        }
        before = Some(row);
    }
    let character = |bits: u8| match (bits, unicode) {
        (0, _) => ' ',
        (_, false) => '*',
        (bits, true) => char::from_u32(0x2800 + u32::from(bits)).unwrap_or('*'),
    };
    dots.into_iter().map(|row| row.into_iter().map(character).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Color;

    fn drawn(points: &[(f64, f64)], unicode: bool, logarithmic: bool) -> String {
        let number = |value: f64| format!("{value:.0}");
        let curve = Curve { points, x: &number, y: &number, title: "y by x", logarithmic };
        draw(&curve, 4, &Style { width: 24, color: Color::Never, unicode })
    }

    #[test]
    fn a_curve_is_where_its_values_are() {
        let text = drawn(&[(0.0, 0.0), (10.0, 100.0)], false, false);
        let expected = "  y by x\n  100 |              ***\n      |         *****\n   50 |   ******\n    0 |***\n       0              10\n";
        assert_eq!(text, expected);
        assert!(drawn(&[(0.0, 1.0), (1.0, 1000.0)], true, true).contains('\u{28c0}'), "braille");
    }

    #[test]
    fn too_little_draws_nothing_and_nothing_panics() {
        assert_eq!(drawn(&[], true, false), "");
        assert_eq!(drawn(&[(1.0, 5.0)], true, false), "");
        assert_eq!(drawn(&[(1.0, 0.0), (2.0, 0.0)], true, true), "", "no logarithm");
        assert!(!drawn(&[(1.0, 5.0), (2.0, 5.0)], true, false).is_empty(), "a flat line");
        assert!(!drawn(&[(1.0, f64::NAN), (2.0, 5.0), (3.0, 6.0)], true, true).is_empty());
    }
}

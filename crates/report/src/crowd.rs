//! More values than a figure has room for: their distribution, or their range along the way, in place of a mark for each.

use crate::number::{fixed, three_digits};
use crate::svg::Svg;
use std::collections::BTreeMap;

/// Values of one kind in a figure beyond which none has a mark of its own.
pub(crate) const MANY: usize = 500;
/// How wide a bin or a column is, in units of a drawing.
const ROOM: f64 = 4.0;
/// No bin with a value is lower.
const LEAST: f64 = 0.8;

/// How many of `values` lie where along a line: bars on `bottom`, of which the longest is `height` long. `at` is the place of a value, `says` its text.
pub(crate) fn density(
    svg: &mut Svg,
    values: &[f64],
    at: impl Fn(f64) -> f64,
    [bottom, height]: [f64; 2],
    says: impl Fn(f64) -> String,
) {
    let mut bins: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for value in values {
        #[expect(clippy::cast_possible_truncation, reason = "a place in a drawing")]
        bins.entry((at(*value) / ROOM).floor() as i64).or_default().push(*value);
    }
    let most = bins.values().map(Vec::len).max().unwrap_or(1);
    for (bin, values) in bins {
        let (least, largest) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(*one), high.max(*one)));
        #[expect(clippy::cast_precision_loss, reason = "counts and places of a drawing")]
        let (x, long) = (bin as f64 * ROOM, (height * values.len() as f64 / most as f64).max(LEAST));
        let text = match values.len() {
            1 => format!("1 value: {}", says(least)),
            count => format!("{count} values from {} to {}", says(least), says(largest)),
        };
        svg.group(&text, |svg| svg.rect("crowd", [x, bottom - long], [ROOM - 0.5, long]));
    }
}

/// One value of a course.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// Its block, from 0.
    pub block: u64,
    /// The value, if there is one.
    pub value: Option<f64>,
    /// Whether it counts.
    pub counts: bool,
}

/// The course of values over the blocks up to `last`, which lie between `ends`: of the blocks that share a column the range, and the middle half of it wider.
/// A cross on `bottom` says how many there do not count.
pub(crate) fn course(
    svg: &mut Svg,
    points: impl Iterator<Item = Passed>,
    (last, ends): (u64, [f64; 2]),
    up: impl Fn(f64) -> f64,
    bottom: f64,
) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred columns")]
    let columns = ((ends[1] - ends[0]) / ROOM).max(1.0) as u64;
    let wide = (last + 1).div_ceil(columns).max(1);
    let mut found: BTreeMap<u64, (Vec<f64>, usize)> = BTreeMap::new();
    for of in points {
        let column = found.entry(of.block / wide).or_default();
        column.0.extend(of.value.filter(|_| of.counts));
        column.1 += usize::from(!of.counts);
    }
    for (column, (mut values, invalid)) in found {
        #[expect(clippy::cast_precision_loss, reason = "counts of blocks are small")]
        let x = ends[0] + (ends[1] - ends[0]) * (column * wide) as f64 / (last + 1) as f64 + ROOM / 2.0;
        let (first, last) = (column * wide + 1, ((column + 1) * wide).min(last + 1));
        values.sort_by(f64::total_cmp);
        let says = |value: f64| fixed(value, three_digits(value) + 1);
        let mut text = if first == last { format!("block {first}: ") } else { format!("blocks {first} to {last}: ") };
        match values.as_slice() {
            [] => text += "no value",
            [only] => text += &says(*only),
            [least, .., most] => {
                text += &format!("median {}, {} to {}", says(values[values.len() / 2]), says(*least), says(*most));
            }
        }
        if invalid > 0 {
            text += &format!(", {invalid} that do not count");
        }
        svg.group(&text, |svg| {
            if let [least, .., most] = values.as_slice() {
                let quarter = values.len() / 4;
                svg.line("crowd", [x, up(*least)], [x, up(*most)]);
                let (low, high) = (up(values[quarter]), up(values[values.len() - 1 - quarter]));
                svg.rect("crowd", [x - ROOM / 2.0 + 0.25, high], [ROOM - 0.5, (low - high).max(LEAST)]);
            } else if let [only] = values.as_slice() {
                svg.rect("crowd", [x - ROOM / 2.0 + 0.25, up(*only) - LEAST / 2.0], [ROOM - 0.5, LEAST]);
            }
        });
        if invalid > 0 {
            svg.cross("void", [x, bottom], 3.0, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: impl FnOnce(&mut Svg)) -> Vec<String> {
        let mut svg = Svg::new("name", [100.0, 100.0], "title", "words");
        draw(&mut svg);
        svg.inline().lines().filter(|line| line.contains("crowd") || line.contains("<g>")).map(str::to_owned).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_values_are_many() {
        let values = [1.0, 1.5, 1.9, 2.0, 9.0];
        let lines = drawn(|svg| density(svg, &values, |value| 2.0 * value, [20.0, 9.0], |value| format!("{value}")));
        assert_eq!(
            lines,
            [
                "<g><title>3 values from 1 to 1.9</title>",
                "<rect class=\"crowd\" x=\"0.0\" y=\"11.0\" width=\"3.5\" height=\"9.0\"/>",
                "<g><title>1 value: 2</title>",
                "<rect class=\"crowd\" x=\"4.0\" y=\"17.0\" width=\"3.5\" height=\"3.0\"/>",
                "<g><title>1 value: 9</title>",
                "<rect class=\"crowd\" x=\"16.0\" y=\"17.0\" width=\"3.5\" height=\"3.0\"/>",
            ]
        );
    }

    #[test]
    fn a_column_has_the_range_of_its_blocks_and_their_middle_half() {
        // Ten blocks in two columns. The first has the values 1 to 5, of the second two count.
        let values = [3.0, 1.0, 5.0, 2.0, 4.0, 7.0, 100.0, 100.0, 100.0, 8.0];
        let point = |(block, value)| Passed { block, value: Some(value), counts: !(6..9).contains(&block) };
        let points = (0..).zip(values).map(point);
        let lines = drawn(|svg| course(svg, points, (9, [0.0, 8.0]), |value| 50.0 - value, 60.0));
        assert_eq!(
            lines,
            [
                "<g><title>blocks 1 to 5: median 3.000, 1.000 to 5.000</title>",
                "<line class=\"crowd\" x1=\"2.0\" y1=\"49.0\" x2=\"2.0\" y2=\"45.0\"/>",
                "<rect class=\"crowd\" x=\"0.2\" y=\"46.0\" width=\"3.5\" height=\"2.0\"/>",
                "<g><title>blocks 6 to 10: median 8.000, 7.000 to 8.000, 3 that do not count</title>",
                "<line class=\"crowd\" x1=\"6.0\" y1=\"43.0\" x2=\"6.0\" y2=\"42.0\"/>",
                "<rect class=\"crowd\" x=\"4.2\" y=\"42.0\" width=\"3.5\" height=\"1.0\"/>",
            ]
        );
    }
}

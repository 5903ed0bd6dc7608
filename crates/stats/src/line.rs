//! A straight line through points, by least squares.

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Change of y by unit of x.
    pub slope: f64,
    /// y where x is 0.
    pub intercept: f64,
}

impl Line {
    /// The line with the least sum of squared distances in y: slope = sum (x - mean x)(y - mean y) / sum (x - mean x)^2. x is taken to be known
    /// without error: noise of variance v in x makes the slope smaller by the factor var(x) / (var(x) + v). `None` below two different x
    /// or for a value that is not finite.
    #[must_use]
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        let n = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
        let (products, squares) = points
            .iter()
            .map(|point| (point.0 - x, point.1 - y))
            .fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x * y, sum.1 + x * x));
        let slope = products / squares;
        (squares > 0.0 && slope.is_finite()).then_some(Line { slope, intercept: y - slope * x })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anscombe's first set (1973), whose line is printed there as y = 3.00 + 0.500 x.
    #[test]
    fn the_line_of_a_published_set_is_found() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        let line = Line::through(&points).expect("a line");
        assert!((line.slope - 0.5001).abs() < 1e-4 && (line.intercept - 3.0001).abs() < 1e-4, "{line:?}");
    }

    #[test]
    fn points_without_a_line_have_none() {
        for points in [&[][..], &[(1.0, 2.0)], &[(1.0, 2.0), (1.0, 3.0)], &[(0.0, 1.0), (1.0, f64::NAN)]] {
            assert_eq!(Line::through(points), None, "{points:?}");
        }
        let line = Line::through(&[(1.0, 5.0), (3.0, 9.0)]).expect("a line");
        assert_eq!((line.slope, line.intercept), (2.0, 3.0));
    }
}

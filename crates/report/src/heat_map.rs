//! Heat maps of a distribution over time, as a self-contained page: time to the right, value upwards, darker where more.

use crate::page::head;
use crate::svg::escape;
use std::fmt::Write as _;

/// One bin of one column: from, to (in nanoseconds), count.
pub type Cell = (u64, u64, u64);

/// A distribution over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatMap {
    /// What it shows.
    pub title: String,
    /// Nanoseconds of a column.
    pub interval_ns: u64,
    /// The columns in the order of time, each with its bins that are not empty.
    pub columns: Vec<Vec<Cell>>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 10.0;

/// A page with these maps.
#[must_use]
pub fn page(title: &str, maps: &[HeatMap]) -> String {
    let mut page = format!("{}<h1>{}</h1>\n", head(title), escape(title));
    for map in maps {
        let _ = writeln!(page, "<h2>{}</h2>\n{}", escape(&map.title), drawn(map));
    }
    if maps.is_empty() {
        page.push_str("<p>No I/O ended.</p>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn drawn(map: &HeatMap) -> String {
    let cells = || map.columns.iter().flatten();
    let low = cells().map(|(from, ..)| (*from).max(1)).min().unwrap_or(1) as f64;
    let high = cells().map(|(_, to, _)| *to).max().unwrap_or(2) as f64;
    let most = cells().map(|(.., count)| *count).max().unwrap_or(1) as f64;
    let span = (high / low).ln().max(1e-9);
    let y =
        |value: u64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - ((value.max(1) as f64 / low).ln() / span).clamp(0.0, 1.0));
    let width = (WIDTH - LEFT) / map.columns.len().max(1) as f64;
    let seconds = |column: usize| column as f64 * map.interval_ns as f64 / 1e9;
    let mut svg = format!("<svg class=\"figure\" viewBox=\"0 0 {WIDTH:.0} {HEIGHT:.0}\" role=\"img\">\n");
    for (number, column) in map.columns.iter().enumerate() {
        for (from, to, count) in column {
            // By the logarithm, so that a single slow I/O is still seen.
            let shade = 0.15 + 0.85 * (1.0 + *count as f64).ln() / (1.0 + most).ln();
            let (x, upper) = (LEFT + number as f64 * width, y(*to));
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{upper:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"#b03a2e\" fill-opacity=\"{shade:.2}\">\
                 <title>{:.1} s: {count} of {} to {}</title></rect>",
                (y(*from) - upper).max(1.0),
                seconds(number),
                time(*from),
                time(*to)
            );
        }
    }
    let mut decade = 1_u64;
    while decade as f64 <= high {
        if decade as f64 >= low {
            let _ = writeln!(svg, "<text x=\"4\" y=\"{:.1}\">{}</text>", y(decade) + 4.0, time(decade));
        }
        decade = decade.saturating_mul(10);
    }
    let (end, base) = (seconds(map.columns.len()), HEIGHT - 8.0);
    let _ = write!(
        svg,
        "<text x=\"{LEFT:.0}\" y=\"{base:.0}\">0 s</text><text x=\"{WIDTH:.0}\" y=\"{base:.0}\" text-anchor=\"end\">{end:.1} s</text>\n</svg>"
    );
    svg
}

fn time(nanoseconds: u64) -> String {
    format!("{:.1}", baremark_model::units::Nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bin_has_a_cell_and_the_page_obeys_no_title() {
        let map = HeatMap {
            title: "vd<script>".to_owned(),
            interval_ns: 500_000_000,
            columns: vec![vec![(1000, 1250, 5), (1_000_000, 1_250_000, 1)], vec![], vec![(1000, 1250, 9)]],
        };
        let page = page("Latency", &[map]);
        assert_eq!(page.matches("<rect").count(), 3);
        assert!(page.contains("0.0 s: 1 of 1.0 ms to 1.2 ms") && page.contains("1.0 s: 9 of 1.0 us"), "{page}");
        assert!(page.contains("vd&lt;script&gt;") && !page.contains("<script>"));
        assert!(page.contains(
            "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\""
        ));
        assert!(page.contains(">1.5 s</text>"));
        assert!(super::page("Latency", &[]).contains("No I/O ended"));
    }
}

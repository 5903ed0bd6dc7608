//! A load as one HTML page: what came of it in words, the table, latency by percentile and the course of the run.
//!
//! The page is laid out from plain data, so that this crate knows neither engine nor HTTP; like every page it needs nothing
//! else and runs no script.

use crate::axis::Axis;
use crate::knee;
use crate::page::head;
use crate::svg::{Anchor, Svg, escape};
use baremark_model::maximum;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
/// Room for labels: left, right, top, bottom.
const ROOM: [f64; 4] = [64.0, 12.0, 28.0, 46.0];

/// What a page shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPage {
    /// What was loaded.
    pub title: String,
    /// When, by what, from where.
    pub context: String,
    /// What must be known first, such as an interruption.
    pub cautions: Vec<String>,
    /// What came of it.
    pub sentences: Vec<String>,
    /// The table's caption, heads and rows.
    pub table: Option<(String, Vec<String>, Vec<Vec<String>>)>,
    /// A search, of which the knee is drawn.
    pub search: Option<maximum::Document>,
    /// The curves.
    pub charts: Vec<Chart>,
    /// Words and what they say.
    pub provenance: Vec<(String, String)>,
}

/// Curves over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows, in a line.
    pub caption: String,
    /// What the axis below shows, with its unit.
    pub across: String,
    /// What stands under the axis, as value and text.
    pub ticks: Vec<(f64, String)>,
    /// The unit of the values.
    pub unit: String,
    /// Whether values are drawn logarithmically.
    pub logarithmic: bool,
    /// Each curve's name and points.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// The page.
#[must_use]
pub fn html(page: &LoadPage) -> String {
    let mut text = String::new();
    let title = escape(&page.title);
    let mut put = |part: std::fmt::Arguments<'_>| {
        let done = text.write_fmt(part);
        debug_assert!(done.is_ok(), "a string takes everything");
    };
    put(format_args!(
        "{}<header>\n<h1>{title}</h1>\n<p class=\"context\">{}</p>\n",
        head(&page.title),
        escape(&page.context)
    ));
    page.cautions.iter().for_each(|one| put(format_args!("<p class=\"caution\">{}</p>\n", escape(one))));
    put(format_args!("</header>\n<section aria-labelledby=\"result\">\n<h2 id=\"result\">Answer</h2>\n"));
    let (effect, rest) = page.sentences.split_at(page.sentences.len().min(1));
    effect.iter().for_each(|sentence| put(format_args!("<p class=\"effect\">{}</p>\n", escape(sentence))));
    put(format_args!("<ul class=\"verdicts\">\n"));
    for sentence in rest {
        put(format_args!("<li><p class=\"sentence\">{}</p></li>\n", escape(sentence)));
    }
    put(format_args!("</ul>\n</section>\n"));
    if let Some((caption, heads, rows)) = &page.table {
        put(format_args!(
            "<section aria-labelledby=\"table\">\n<h2 id=\"table\">Table</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"table\"><table>\n<caption>{}</caption>\n<thead><tr>",
            escape(caption)
        ));
        heads.iter().for_each(|head| put(format_args!("<th scope=\"col\">{}</th>", escape(head))));
        put(format_args!("</tr></thead>\n<tbody>\n"));
        for row in rows {
            let (name, values) = row.split_first().map_or(("", &[][..]), |(name, values)| (name.as_str(), values));
            put(format_args!("<tr><th scope=\"row\">{}</th>", escape(name)));
            values.iter().for_each(|value| put(format_args!("<td class=\"number\">{}</td>", escape(value))));
            put(format_args!("</tr>\n"));
        }
        put(format_args!("</tbody>\n</table></div>\n</section>\n"));
    }
    let knee = page.search.iter().filter_map(|search| knee::draw(&page.title, search, 1));
    let knee = knee.map(|figure| (figure.svg.inline(), figure.caption));
    let charts = (1..).zip(&page.charts);
    let charts = charts.filter_map(|(number, chart)| Some((draw(chart, number)?.inline(), chart.caption.clone())));
    let drawn: Vec<(String, String)> = knee.chain(charts).collect();
    if !drawn.is_empty() {
        put(format_args!(
            "<section aria-labelledby=\"figures\">\n<h2 id=\"figures\">Figures</h2>\n<div class=\"figures\">\n"
        ));
        for (figure, caption) in drawn {
            put(format_args!("<figure>\n<figcaption>{}</figcaption>\n{figure}\n</figure>\n", escape(&caption)));
        }
        put(format_args!("</div>\n</section>\n"));
    }
    put(format_args!("<section aria-labelledby=\"run\">\n<h2 id=\"run\">Run</h2>\n<dl>\n"));
    for (word, says) in &page.provenance {
        put(format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(word), escape(says)));
    }
    put(format_args!("</dl>\n</section>\n</main>\n</body>\n</html>\n"));
    text
}

/// A chart; `None` where no curve has two points.
fn draw(chart: &Chart, number: usize) -> Option<Svg> {
    let curves: Vec<&(String, Vec<(f64, f64)>)> = chart.curves.iter().filter(|(_, points)| points.len() > 1).collect();
    let points = || curves.iter().flat_map(|(_, points)| points);
    let [west, east, north, south] = ROOM;
    let x = Axis::over(points().map(|(x, _)| *x), [west, WIDTH - east], false)?;
    let base = (!chart.logarithmic).then_some(0.0);
    let y = Axis::over(points().map(|(_, y)| *y).chain(base), [HEIGHT - south, north], chart.logarithmic)?;
    let mut svg = Svg::new(&format!("chart-{number}"), [WIDTH, HEIGHT], &chart.caption, &chart.caption);
    for (value, label) in y.ticks(4.0) {
        let at = y.at(value);
        svg.line("rule", [west, at], [WIDTH - east, at]);
        svg.text("tick", [west - 6.0, at + 4.0], Anchor::End, &label);
    }
    let own = x.ticks(6.0);
    for (value, label) in if chart.ticks.is_empty() { &own } else { &chart.ticks } {
        svg.text("tick", [x.at(*value), HEIGHT - 28.0], Anchor::Middle, label);
    }
    svg.text("axis", [f64::midpoint(west, WIDTH), HEIGHT - 8.0], Anchor::Middle, &chart.across);
    svg.text("axis", [west - 6.0, 14.0], Anchor::End, &chart.unit);
    for (at, (name, points)) in curves.iter().enumerate() {
        let class = if at == 0 { "course" } else { "course other" };
        let places: Vec<[f64; 2]> = points.iter().map(|(px, py)| [x.at(*px), y.at(*py)]).collect();
        svg.polyline(class, &places);
        svg.text(
            if at == 0 { "name" } else { "name other" },
            [west + 8.0 + 130.0 * at as f64, 14.0],
            Anchor::Start,
            name,
        );
    }
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_it_is_given_and_escapes_it() {
        let page = LoadPage {
            title: "http://a/<script>".to_owned(),
            sentences: vec!["100 requests/s".to_owned()],
            table: Some((
                "latency".to_owned(),
                vec!["operation".to_owned(), "p99".to_owned()],
                vec![vec!["home".to_owned(), "5 ms".to_owned()]],
            )),
            charts: vec![
                Chart {
                    caption: "latency by percentile".to_owned(),
                    across: "percentile".to_owned(),
                    unit: "ms".to_owned(),
                    logarithmic: true,
                    ticks: vec![(0.0, "p50".to_owned()), (2.0, "p99".to_owned())],
                    curves: vec![
                        ("corrected".to_owned(), vec![(0.0, 1.0), (1.0, 2.0), (2.0, 50.0)]),
                        ("uncorrected".to_owned(), vec![(0.0, 1.0), (2.0, 5.0)]),
                    ],
                },
                Chart {
                    caption: "of one point".to_owned(),
                    curves: vec![(String::new(), vec![(0.0, 1.0)])],
                    ..Chart::default()
                },
            ],
            ..LoadPage::default()
        };
        let html = html(&page);
        assert!(html.contains("http://a/&lt;script&gt;") && !html.contains("<script"));
        assert_eq!(html.matches("<polyline").count(), 2, "each curve, and no curve of a single point");
        for part in
            ["p50", "p99", "uncorrected", "latency by percentile", "<td class=\"number\">5 ms</td>", "100 requests/s"]
        {
            assert!(html.contains(part), "{part}");
        }
    }
}

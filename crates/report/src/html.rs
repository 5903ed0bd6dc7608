//! The report as one HTML file: no network, no script, no font but the reader's own.
//!
//! The verdict stands first, in words; then the table, the figures, what a reader must know, and how to have the numbers
//! again. Everything that a study, a machine or an error said is escaped, and a content security policy forbids the rest.

use crate::around;
use crate::course;
use crate::figure::{Figure, RATIOS, figures};
use crate::grid::{Cell, Grid, RatioCell};
use crate::number::percent;
use crate::outline::{Found, Outline, outline};
use crate::provenance::reproduce;
use crate::svg::{STYLE, escape};
use crate::words::{Headline, Tone};
use baremark_model::document::Document;
use baremark_model::machine::MachineFacts;
use serde_json::Value;
use std::fmt::Write;

const PAGE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The report of one run.
#[must_use]
pub fn render(document: &Document) -> String {
    let outline = outline(document);
    let mut page = Page { text: String::new() };
    let figures = figures(document);
    let (ratios, figures): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(|figure| figure.name == RATIOS);
    page.top(&outline);
    page.verdict(&outline, &ratios);
    page.tables(&outline);
    page.contrasts(&outline);
    page.figures(&figures);
    page.predicted(&outline);
    page.why(&outline);
    page.around(document);
    page.list("Flags", &outline.flags);
    page.list("Trials that do not count", &outline.discarded);
    page.looks(document);
    page.provenance(document, &outline);
    page.add("</main>\n</body>\n</html>\n");
    page.text
}

/// Text that grows. Everything that is not ours goes through [`escape`].
struct Page {
    text: String,
}

impl Page {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let done = self.text.write_fmt(text);
        debug_assert!(done.is_ok(), "a string takes everything");
    }

    fn top(&mut self, outline: &Outline) {
        let title = escape(&outline.title);
        self.put(format_args!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <title>{title}</title>\n<style>\n{PAGE}{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p class=\"context\">{}</p>\n",
            escape(&outline.context)
        ));
        for caution in &outline.cautions {
            self.put(format_args!("<p class=\"caution\">{}</p>\n", escape(caution)));
        }
        self.add("</header>\n");
    }

    /// The verdicts in words and, beside them where the window is wide enough, the ratios with their intervals.
    fn verdict(&mut self, outline: &Outline, ratios: &[&Figure]) {
        self.add(
            "<section aria-labelledby=\"verdict\">\n<h2 id=\"verdict\">Verdict</h2>\n<div class=\"said\">\n<div>\n",
        );
        for part in &outline.parts {
            self.sentences(part.name.as_deref(), &part.headlines);
        }
        self.add("</div>\n");
        ratios.iter().for_each(|figure| self.figure(figure));
        self.add("</div>\n");
        for note in &outline.notes {
            self.put(format_args!("<p class=\"note\">{}</p>\n", escape(note)));
        }
        self.add("</section>\n");
    }

    /// Which workload what follows is of, where there are several.
    fn part_of(&mut self, part: &Found) {
        if let Some(name) = &part.name {
            self.put(format_args!("<h3>{}</h3>\n", escape(name)));
        }
    }

    fn sentences(&mut self, of: Option<&str>, headlines: &[Headline]) {
        let of = of.map(|name| format!("<span class=\"of\">{}:</span> ", escape(name))).unwrap_or_default();
        self.add("<ul class=\"verdicts\">\n");
        for headline in headlines {
            self.put(format_args!("<li class=\"{}\">", class(headline.tone)));
            if let Some(overturned) = &headline.overturned {
                self.put(format_args!("<p class=\"caution\">{}</p>", escape(overturned)));
            }
            self.put(format_args!("<p class=\"sentence\">{of}{}</p>", escape(&headline.sentence)));
            if let Some(sensitivity) = &headline.sensitivity {
                self.put(format_args!("<p class=\"sensitivity\">{}</p>", escape(sensitivity)));
            }
            self.add("</li>\n");
        }
        self.add("</ul>\n");
    }

    fn tables(&mut self, outline: &Outline) {
        let parts = outline.having(|part| &part.grids);
        if parts.is_empty() {
            return;
        }
        self.add("<section aria-labelledby=\"table\">\n<h2 id=\"table\">Table</h2>\n");
        for (part, grids) in parts {
            self.part_of(part);
            let (own, others) = grids.split_at(1);
            self.add("<div class=\"beside\">\n<div>\n");
            self.grid(&own[0]);
            self.add("</div>\n");
            self.beside(part);
            self.add("</div>\n");
            others.iter().chain(&part.more).for_each(|grid| self.grid(grid));
        }
        self.add("</section>\n");
    }

    /// The published values, beside those measured here where the window is wide enough.
    fn beside(&mut self, part: &Found) {
        let Some(beside) = &part.beside else { return };
        self.put(format_args!("<div class=\"published\">\n<p class=\"label\">{}</p>\n", escape(&beside.head)));
        for grid in &beside.grids {
            self.grid(grid);
        }
        for note in &beside.notes {
            self.put(format_args!("<p class=\"note\">{}</p>\n", escape(note)));
        }
        self.add("</div>\n");
    }

    fn grid(&mut self, grid: &Grid) {
        self.put(format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table class=\"grid\">\n<caption>{}</caption>\n<thead><tr><td></td>",
            escape(&grid.caption)
        ));
        for column in &grid.columns {
            self.put(format_args!("<th scope=\"col\">{}</th>", escape(column)));
        }
        self.add("</tr></thead>\n<tbody>\n");
        for row in &grid.rows {
            self.put(format_args!("<tr><th scope=\"row\">{}</th>", escape(&row.label)));
            for cell in &row.cells {
                self.cell(cell);
            }
            self.add("</tr>\n");
        }
        self.add("</tbody>\n</table></div>\n");
        for (number, reason) in (1..).zip(&grid.reasons) {
            self.put(format_args!("<p class=\"note\">[{number}] not available here: {}</p>\n", escape(reason)));
        }
    }

    fn cell(&mut self, cell: &Cell) {
        match cell {
            Cell::Blank => self.add("<td class=\"faint\">–</td>"),
            Cell::Nothing => self.add("<td class=\"faint\">no trial counts</td>"),
            Cell::Predicted { reason, ratio } => {
                self.put(format_args!(
                    "<td class=\"faint\">not available here&nbsp;[{reason}]<span class=\"ratio\"><b>{}</b></span>\
                     <span class=\"outcome\">predicted, not measured</span></td>",
                    escape(ratio)
                ));
            }
            Cell::Absent(reason) => {
                self.put(format_args!("<td class=\"faint\">not available here&nbsp;[{reason}]</td>"));
            }
            Cell::Measured { estimate, ratio } => {
                self.put(format_args!("<td><span class=\"value\">{}</span>", escape(estimate)));
                if let Some(ratio) = ratio {
                    self.ratio(ratio);
                }
                self.add("</td>");
            }
        }
    }

    fn ratio(&mut self, ratio: &RatioCell) {
        self.put(format_args!("<span class=\"ratio\"><b>{}</b>", escape(&ratio.value)));
        if !ratio.interval.is_empty() {
            self.put(format_args!(" <span class=\"limits\">({})</span>", escape(&ratio.interval)));
        }
        self.add("</span>");
        if !ratio.verdict.is_empty() {
            let class = class(ratio.tone);
            self.put(format_args!("<span class=\"outcome {class}\">{}</span>", escape(&ratio.verdict)));
        }
    }

    fn contrasts(&mut self, outline: &Outline) {
        let parts = outline.having(|part| &part.contrasts);
        if parts.is_empty() {
            return;
        }
        self.add(
            "<section aria-labelledby=\"contrasts\">\n<h2 id=\"contrasts\">Page-size contrasts</h2>\n\
             <p class=\"note\">The application's pages differ, so this is not what a VM costs.</p>\n",
        );
        for (part, headlines) in parts {
            self.part_of(part);
            self.items(headlines.iter().map(|headline| headline.sentence.as_str()));
        }
        self.add("</section>\n");
    }

    fn predicted(&mut self, outline: &Outline) {
        let parts = outline.having(|part| &part.predicted);
        if parts.is_empty() {
            return;
        }
        self.add(
            "<section aria-labelledby=\"predicted\">\n<h2 id=\"predicted\">Predicted from page walks</h2>\n\
             <p class=\"note\">Ratios with 95 % intervals; no prediction is fitted to what it stands beside.</p>\n",
        );
        for (part, lines) in parts {
            self.part_of(part);
            self.items(lines.iter().map(String::as_str));
        }
        self.add("</section>\n");
    }

    fn why(&mut self, outline: &Outline) {
        let parts = outline.having(|part| &part.why);
        if parts.is_empty() {
            return;
        }
        self.add("<section aria-labelledby=\"why\">\n<h2 id=\"why\">Why</h2>\n");
        for (part, lines) in parts {
            self.part_of(part);
            self.items(lines.iter().map(String::as_str));
        }
        self.add("</section>\n");
    }

    fn items<'i>(&mut self, items: impl Iterator<Item = &'i str>) {
        self.add("<ul>\n");
        for item in items {
            self.put(format_args!("<li>{}</li>\n", escape(item)));
        }
        self.add("</ul>\n");
    }

    fn figures(&mut self, figures: &[&Figure]) {
        if figures.is_empty() {
            return;
        }
        self.add("<section aria-labelledby=\"figures\">\n<h2 id=\"figures\">Figures</h2>\n<div class=\"figures\">\n");
        for figure in figures {
            self.figure(figure);
        }
        self.add("</div>\n");
        if figures.iter().any(|figure| figure.name.contains("course")) {
            self.add(
                "<p class=\"note\">Block by block: the line is the estimate, the shade its interval. A dot counts; a \
                 hollow dot counts and is flagged; a cross does not count.</p>\n",
            );
        }
        self.add("</section>\n");
    }

    /// What happened around the work: the short table, figures over time, and everything by kind.
    fn around(&mut self, document: &Document) {
        let Some(observed) = &document.observed else { return };
        self.add("<section aria-labelledby=\"around\">\n<h2 id=\"around\">Around the work</h2>\n");
        if let Some(grid) = around::short(document) {
            self.grid(&grid);
        }
        let figures = course::figures(document);
        if !figures.is_empty() {
            self.add("<div class=\"figures\">\n");
            for figure in &figures {
                self.figure(figure);
            }
            self.add("</div>\n");
        }
        for (head, grid) in around::full(document) {
            self.put(format_args!("<details><summary>{}</summary>\n", escape(head)));
            self.grid(&grid);
            self.add("</details>\n");
        }
        for remark in around::remarks(observed) {
            self.put(format_args!("<p class=\"note\">{}</p>\n", escape(&remark)));
        }
        self.add("</section>\n");
    }

    fn figure(&mut self, figure: &Figure) {
        self.put(format_args!(
            "<figure>\n<figcaption>{}</figcaption>\n{}\n</figure>\n",
            escape(&figure.caption),
            figure.svg.inline()
        ));
    }

    fn list(&mut self, head: &str, items: &[String]) {
        if items.is_empty() {
            return;
        }
        let id = head.to_lowercase().replace(' ', "-");
        self.put(format_args!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{head}</h2>\n"));
        self.items(items.iter().map(String::as_str));
        self.add("</section>\n");
    }

    fn looks(&mut self, document: &Document) {
        if document.looks.is_empty() {
            return;
        }
        self.add(
            "<section aria-labelledby=\"looks\">\n<h2 id=\"looks\">Looks</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n\
             <caption>Each time the estimates were looked at</caption>\n<thead><tr><th scope=\"col\">blocks</th>\
             <th scope=\"col\">widest half-width</th><th scope=\"col\">decision</th></tr></thead>\n<tbody>\n",
        );
        for look in &document.looks {
            let width = look.half_width.map_or_else(|| "–".to_owned(), |width| format!("±{}", percent(width)));
            let (width, decision) = (escape(&width), escape(&look.decision));
            self.put(format_args!(
                "<tr><td class=\"number\">{}</td><td class=\"number\">{width}</td><td>{decision}</td></tr>\n",
                look.blocks
            ));
        }
        self.add("</tbody>\n</table></div>\n</section>\n");
    }

    fn provenance(&mut self, document: &Document, outline: &Outline) {
        self.add("<section aria-labelledby=\"run\">\n<h2 id=\"run\">Run</h2>\n<dl>\n");
        for (word, says) in outline.provenance.iter().filter(|(word, _)| *word != "reproduce") {
            self.put(format_args!("<div><dt>{word}</dt><dd>{}</dd></div>\n", escape(says)));
        }
        self.put(format_args!(
            "</dl>\n<p class=\"note\">To have these numbers again:</p>\n<pre><code>{}</code></pre>\n",
            escape(&reproduce(&document.run))
        ));
        if document.run.machine != MachineFacts::default() {
            let facts = serde_json::to_value(&document.run.machine).ok().and_then(known).unwrap_or_default();
            let facts = serde_json::to_string_pretty(&facts).unwrap_or_default();
            self.add("<details><summary>All that is recorded of the machine</summary>\n<pre>");
            for line in facts.lines() {
                self.put(format_args!("{}\n", escape(line)));
            }
            self.add("</pre></details>\n");
        }
        self.add("</section>\n");
    }
}

/// What is known of `facts`: without what is null or empty.
fn known(facts: Value) -> Option<Value> {
    match facts {
        Value::Null => None,
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(key, value)| Some((key, known(value)?)));
            let fields: serde_json::Map<_, _> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(items) if items.is_empty() => None,
        value => Some(value),
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Differs => "differs",
        Tone::Alike => "alike",
        Tone::Open => "open",
    }
}

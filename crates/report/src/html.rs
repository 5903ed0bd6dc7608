//! The report as one HTML file: no network, no script, no font but the reader's own.
//!
//! The first screen answers: machine, result, cause and advice in a line each, and every ratio with its interval, in a plot and in
//! words. Tables, figures, what a reader must know, and how to reproduce it fold out below. Everything that a study, a machine or an error said is escaped, and a content security policy forbids the rest.

use crate::figure::{Figure, RATIOS, figures};
use crate::grid::{Cell, Grid, RatioCell};
use crate::outline::{Found, Outline, outline};
use crate::page;
use crate::provenance::reproduce;
use crate::section::{Block, Making, Section, Subject};
use crate::sections::SECTIONS;
use crate::summary;
use crate::svg::escape;
use crate::words::{Headline, Tone};
use baremark_model::document::Document;
use baremark_model::machine::MachineFacts;
use serde_json::Value;
use std::fmt::Write;

/// The report of one run.
#[must_use]
pub fn render(document: &Document) -> String {
    with(document, SECTIONS)
}

/// The report with these sections.
pub(crate) fn with(document: &Document, sections: &[Making]) -> String {
    let outline = outline(document);
    let mut page = Page { text: String::new() };
    let ratios: Vec<Figure> = figures(document).into_iter().filter(|figure| figure.name == RATIOS).collect();
    page.top(document, &outline);
    page.result(document, &outline, &ratios);
    page.tables(&outline);
    for section in sections {
        page.section(&section(Subject { document, outline: &outline }));
    }
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

    fn top(&mut self, document: &Document, outline: &Outline) {
        let title = escape(&outline.title);
        self.add(&page::head(&outline.title, false));
        self.put(format_args!(
            "<header>\n<h1>{title}</h1>\n<p class=\"context\">{}</p>\n<p class=\"context\">{}</p>\n",
            escape(&summary::machine(document)),
            escape(&outline.context)
        ));
        for caution in &outline.cautions {
            self.put(format_args!("<p class=\"caution\">{}</p>\n", escape(caution)));
        }
        self.add("</header>\n");
    }

    /// Result, cause and advice in a line each; then the ratios with their intervals as a plot and, alongside it where the window is
    /// wide enough, in words.
    fn result(&mut self, document: &Document, outline: &Outline, ratios: &[Figure]) {
        self.add("<section aria-labelledby=\"result\">\n<h2 id=\"result\">Answer</h2>\n");
        let said = summary::said(document);
        if !said.is_empty() {
            self.add("<dl class=\"answer\">\n");
            for (word, says) in said {
                self.put(format_args!("<div><dt>{word}</dt><dd>{}</dd></div>\n", escape(&says)));
            }
            self.add("</dl>\n");
        }
        self.add("<div class=\"said\">\n");
        ratios.iter().for_each(|figure| self.figure(figure));
        self.add("<div>\n");
        for part in &outline.parts {
            self.sentences(part.name.as_deref(), &part.headlines);
        }
        self.add("</div>\n</div>\n");
        outline.notes.iter().for_each(|note| self.note(note));
        self.add("</section>\n");
    }

    /// Begins a section that folds out; [`Page::folded`] ends it.
    fn fold(&mut self, id: &str, head: &str) {
        self.put(format_args!(
            "<section aria-labelledby=\"{id}\">\n<details class=\"fold\">\n<summary><h2 id=\"{id}\">{head}</h2></summary>\n"
        ));
    }

    fn folded(&mut self) {
        self.add("</details>\n</section>\n");
    }

    /// Which workload what follows is of, where there are several.
    fn part_of(&mut self, name: Option<&str>) {
        if let Some(name) = name {
            self.put(format_args!("<h3>{}</h3>\n", escape(name)));
        }
    }

    fn sentences(&mut self, of: Option<&str>, headlines: &[Headline]) {
        let of = of.map(|name| format!("<span class=\"of\">{}:</span> ", escape(name))).unwrap_or_default();
        self.add("<ul class=\"verdicts\">\n");
        for headline in headlines {
            self.put(format_args!("<li class=\"{}\">", class(headline.tone)));
            if let Some(caution) = &headline.caution {
                self.put(format_args!("<p class=\"caution\">{}</p>", escape(caution)));
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
        self.fold("table", "Tables");
        for (part, grids) in parts {
            self.part_of(part.name.as_deref());
            let (own, others) = grids.split_at(1);
            self.add("<div class=\"beside\">\n<div>\n");
            self.grid(&own[0]);
            self.add("</div>\n");
            self.beside(part);
            self.add("</div>\n");
            others.iter().chain(&part.more).for_each(|grid| self.grid(grid));
        }
        self.folded();
    }

    /// The published values, alongside those measured here where the window is wide enough.
    fn beside(&mut self, part: &Found) {
        let Some(beside) = &part.beside else { return };
        self.put(format_args!("<div class=\"published\">\n<p class=\"label\">{}</p>\n", escape(&beside.head)));
        for grid in &beside.grids {
            self.grid(grid);
        }
        beside.notes.iter().for_each(|note| self.note(note));
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

    fn section(&mut self, section: &Section) {
        if section.blocks.is_empty() {
            return;
        }
        self.fold(section.id, section.head);
        if !section.note.is_empty() {
            self.note(section.note);
        }
        section.blocks.iter().for_each(|block| self.block(block));
        self.folded();
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Lines(of, items) => {
                self.part_of(of.as_deref());
                self.items(items.iter().map(String::as_str));
            }
            Block::Sentences(of, headlines) => {
                self.part_of(of.as_deref());
                self.items(headlines.iter().map(|headline| headline.sentence.as_str()));
            }
            Block::Table(grid) => self.grid(grid),
            Block::Group(group) => {
                self.part_of(Some(&group.head));
                self.items(group.lines.iter().map(String::as_str));
                group.grids.iter().for_each(|grid| self.grid(grid));
            }
            Block::Remarks(remarks) => remarks.iter().for_each(|remark| self.note(remark)),
            Block::Legend(legend) => self.note(legend),
            Block::Figures(figures) => {
                self.add("<div class=\"figures\">\n");
                figures.iter().for_each(|figure| self.figure(figure));
                self.add("</div>\n");
            }
            Block::Wide(tables) => {
                for (head, grid) in tables {
                    self.folding_table(head, grid);
                }
            }
        }
    }

    /// A table that folds out under its head, or stands there where it has none.
    fn folding_table(&mut self, head: &str, grid: &Grid) {
        if head.is_empty() {
            return self.grid(grid);
        }
        self.put(format_args!("<details><summary>{}</summary>\n", escape(head)));
        self.grid(grid);
        self.add("</details>\n");
    }

    fn note(&mut self, text: &str) {
        self.put(format_args!("<p class=\"note\">{}</p>\n", escape(text)));
    }

    fn items<'i>(&mut self, items: impl Iterator<Item = &'i str>) {
        self.add("<ul>\n");
        for item in items {
            self.put(format_args!("<li>{}</li>\n", escape(item)));
        }
        self.add("</ul>\n");
    }

    fn figure(&mut self, figure: &Figure) {
        self.put(format_args!(
            "<figure>\n<figcaption>{}</figcaption>\n{}\n</figure>\n",
            escape(&figure.caption),
            figure.svg.inline()
        ));
    }

    fn provenance(&mut self, document: &Document, outline: &Outline) {
        self.fold("run", "Run and how to reproduce it");
        self.add("<dl>\n");
        for (word, says) in outline.provenance.iter().filter(|(word, _)| *word != "reproduce") {
            self.put(format_args!("<div><dt>{word}</dt><dd>{}</dd></div>\n", escape(says)));
        }
        self.put(format_args!(
            "</dl>\n<p class=\"note\">Reproduce:</p>\n<pre><code>{}</code></pre>\n",
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
        self.folded();
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

//! The report as one HTML file: no network, no script, no font but the reader's own.
//!
//! The first screen answers: the effect in a sentence, then cause, advice, reliability and next step in a line each, then a table in which a
//! row has the values with their unit, the interval as a picture, the ratio and the verdict, then the figures of such work. Everything else
//! folds out below. What a study, a machine or an error said is escaped, and a content security policy forbids the rest.

use crate::answer::{Compared, compared, counted, headline, only_place, shown, values};
use crate::figure::{Figure, answers};
use crate::grid::{Cell, Grid, RatioCell};
use crate::lane::Lanes;
use crate::number::{Digits, fixed, ratio_decimals};
use crate::outline::{Found, Outline, nothing, outline};
use crate::page;
use crate::per_workload::parts;
use crate::provenance::reproduce;
use crate::section::{Block, Making, Section, Subject};
use crate::sections::SECTIONS;
use crate::site;
use crate::summary;
use crate::svg::escape;
use crate::text::clean;
use crate::words::{Headline, Quantity, Tone, limits_of, outcome, ratio_of, tone};
use baremark_model::document::{Document, Grade};
use baremark_model::machine::MachineFacts;
use serde_json::Value;
use std::fmt::Write;

/// Rows of the answer that are not folded; beyond them the ones that matter most.
const MOST_ROWS: usize = 16;

/// The report of one run.
#[must_use]
pub fn render(document: &Document) -> String {
    with(document, SECTIONS, "")
}

/// The same as a page of a site, with a link to its index.
#[must_use]
pub fn render_in_site(document: &Document) -> String {
    with(document, SECTIONS, &site::back())
}

/// The report with these sections, below what leads elsewhere.
pub(crate) fn with(document: &Document, sections: &[Making], navigation: &str) -> String {
    let outline = outline(document);
    let mut page = Page { text: String::new() };
    page.top(document, &outline, navigation);
    page.result(document, &outline);
    page.outcomes(&outline);
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

    fn top(&mut self, document: &Document, outline: &Outline, navigation: &str) {
        let title = escape(&outline.title);
        self.add(&page::head(&outline.title));
        self.add(navigation);
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

    /// The effect, then cause, advice, reliability and next step in a line each; then the rows, then the figures of such work.
    fn result(&mut self, document: &Document, outline: &Outline) {
        self.add("<section aria-labelledby=\"result\">\n<h2 id=\"result\">Answer</h2>\n");
        let said = summary::said(document);
        let (first, rest): (Vec<_>, Vec<_>) = said.into_iter().partition(|(word, _)| *word == summary::RESULT);
        let parts = parts(document);
        // Where nothing is compared, the values are the answer.
        let compares = parts.iter().flat_map(|part| headline(&part.document)).any(|row| limits_of(row).is_some());
        let judged = parts.iter().any(|part| headline(&part.document).next().is_some());
        let values = if compares || judged && parts.len() > 1 { None } else { values(&parts) };
        let first: Vec<String> = values.into_iter().chain(first.into_iter().map(|(_, says)| says)).collect();
        let first = if first.is_empty() { without_result(document, outline) } else { first.join(" ") };
        self.put(format_args!("<p class=\"effect\">{}</p>\n", escape(&first)));
        let good = document.reliability.iter().filter(|found| found.grade == Grade::Good);
        let rest: Vec<(&str, String)> =
            rest.into_iter().chain(good.map(|found| ("Reliability", found.grade.to_string()))).collect();
        if !rest.is_empty() {
            self.add("<dl class=\"answer\">\n");
            for (word, says) in rest {
                self.put(format_args!("<div><dt>{word}</dt><dd>{}</dd></div>\n", escape(&says)));
            }
            self.add("</dl>\n");
        }
        self.compared(compared(&parts));
        outline.notes.iter().for_each(|note| self.note(note));
        self.add("</section>\n");
        let figures = answers(document);
        if !figures.is_empty() {
            self.add("<section aria-labelledby=\"drawn\">\n<h2 id=\"drawn\">Figures</h2>\n");
            self.figures(&figures);
            self.add("</section>\n");
        }
    }

    /// The rows in the study's order; of many the ones that matter most, and the others folded.
    fn compared(&mut self, mut rows: Vec<Compared<'_>>) {
        if rows.is_empty() {
            return;
        }
        let lanes = Lanes::of(&rows);
        let most = shown(&mut rows, MOST_ROWS, |row| row.ratio);
        let heads = Heads::of(&rows);
        let (shown, folded) = rows.split_at(most);
        self.rows(shown, 0, &heads, lanes.as_ref());
        if !folded.is_empty() {
            let words = counted(folded.iter().map(|row| row.ratio));
            self.put(format_args!("<details>\n<summary>{} more: {words}</summary>\n", folded.len()));
            self.rows(folded, shown.len(), &heads, lanes.as_ref());
            self.add("</details>\n");
        }
        let ratios = rows.iter().any(|row| row.ratio.is_some());
        let mut legend = vec!["Bars: intervals".to_owned()];
        if let Some(first) = rows.first().filter(|_| ratios) {
            legend.push(format!("shaded: equivalent within {}; dashed: inconclusive", first.document.run.design.delta));
        } else {
            let marks = lanes.as_ref().map_or("", Lanes::marks);
            legend = vec![format!("{marks}; bars: 95 % intervals of the estimate")];
        }
        if rows.iter().any(|row| row.evidence.as_ref().is_some_and(|of| of.published.is_some())) {
            legend.push("\u{25c7} published, other hardware".to_owned());
        }
        if lanes.is_some() {
            self.note(&format!("{}.", legend.join("; ")));
        }
    }

    fn rows(&mut self, rows: &[Compared<'_>], before: usize, heads: &Heads, lanes: Option<&Lanes>) {
        self.put(format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"comparisons\"><table class=\"compared\">\n<caption>{}</caption>\n<thead><tr><td></td>",
            escape(&heads.caption)
        ));
        for (head, class) in heads.columns(lanes.is_some()) {
            self.put(format_args!("<th scope=\"col\"{class}>{}</th>", escape(head)));
        }
        self.add("</tr></thead>\n<tbody>\n");
        for (number, row) in (before + 1..).zip(rows) {
            self.row(row, number, heads, lanes);
        }
        self.add("</tbody>\n");
        if let Some(lanes) = lanes.filter(|_| before == 0) {
            let blanks = "<td></td>".repeat(if heads.reference.is_some() { 3 } else { 2 });
            self.put(format_args!(
                "<tfoot><tr>{blanks}<td class=\"lane\">{}</td><td></td></tr></tfoot>\n",
                lanes.scale().inline()
            ));
        }
        self.add("</table></div>\n");
    }

    fn row(&mut self, row: &Compared<'_>, number: usize, heads: &Heads, lanes: Option<&Lanes>) {
        self.put(format_args!("<tr><th scope=\"row\">{}</th>", escape(&row.label)));
        let evidence = row.evidence.as_ref();
        let unit = evidence.map(|of| of.unit.as_str()).unwrap_or_default();
        let reference = evidence.and_then(|of| Some((of.reference.as_ref()?.0.as_str(), of.sides[0].as_str())));
        if let Some(head) = &heads.reference {
            self.value(head, reference, unit, heads.named);
        }
        let value = evidence.map(|of| (of.value.0.as_str(), of.sides[1].as_str()));
        self.value(&heads.value, value, unit, heads.named && row.ratio.is_some());
        if let Some(lanes) = lanes {
            let picture = lanes.draw(row, number).map(|svg| svg.inline()).unwrap_or_default();
            self.put(format_args!("<td class=\"lane\">{picture}</td>"));
        }
        self.add("<td class=\"says\">");
        if let Some(ratio) = row.ratio {
            let class = class(tone(ratio));
            self.put(format_args!("<b class=\"outcome {class}\">{}</b>", escape(&outcome(row.document, ratio))));
            if let Some(value) = ratio_of(ratio) {
                let limits = limits_of(ratio);
                let places = ratio_decimals(value, limits, 1.0, Digits::Plain);
                let interval =
                    limits.map(|(lo, hi)| format!(" ({} \u{2013} {})", fixed(lo, places), fixed(hi, places)));
                self.put(format_args!(
                    "<span class=\"limits\">ratio {}{}",
                    fixed(value, places),
                    interval.unwrap_or_default()
                ));
                let n = evidence.map(|of| format!(", n\u{a0}=\u{a0}{}", of.n)).unwrap_or_default();
                self.put(format_args!("{n}</span>"));
            }
        } else if let Some(evidence) = evidence {
            self.put(format_args!("<span class=\"limits\">n\u{a0}=\u{a0}{}</span>", evidence.n));
        }
        if let Some(published) = evidence.and_then(|of| of.published.as_ref()) {
            self.put(format_args!("<span class=\"limits\">{}</span>", escape(&published.words())));
        }
        self.add("</td></tr>\n");
    }

    /// A value with its unit, and where columns do not say it, of what it is.
    fn value(&mut self, head: &str, value: Option<(&str, &str)>, unit: &str, named: bool) {
        let Some((value, of)) = value else { return self.add("<td class=\"number\"></td>") };
        let unit = if unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(unit)) };
        let of = if named { format!("<small class=\"side\">{}</small>", escape(of)) } else { String::new() };
        self.put(format_args!(
            "<td class=\"number\" data-head=\"{}\"><span>{}</span>{unit}{of}</td>",
            escape(head),
            escape(value)
        ));
    }

    fn figures(&mut self, figures: &[Figure]) {
        self.add("<div class=\"figures\">\n");
        figures.iter().for_each(|figure| self.figure(figure));
        self.add("</div>\n");
    }

    /// Every outcome as a sentence, with what makes it less sure.
    fn outcomes(&mut self, outline: &Outline) {
        self.fold("outcomes", "Outcomes in words");
        for part in &outline.parts {
            self.sentences(part.name.as_deref(), &part.headlines);
        }
        self.folded();
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
            Block::Figures(figures) => self.figures(figures),
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

/// The heads of the answer's columns: what is the same of all its rows.
struct Heads {
    caption: String,
    /// `None` where no row has a reference.
    reference: Option<String>,
    value: String,
    /// Whether the rows' sides differ, so that each names its own.
    named: bool,
    compares: bool,
}

impl Heads {
    fn of(rows: &[Compared<'_>]) -> Self {
        let sides =
            || rows.iter().filter(|row| row.ratio.is_some()).filter_map(|row| Some(&row.evidence.as_ref()?.sides));
        let first = sides().next();
        let same = first.filter(|first| sides().all(|other| other == *first));
        let referred = rows.iter().any(|row| row.evidence.as_ref().is_some_and(|of| of.reference.is_some()));
        let place =
            || rows.iter().map(|row| only_place(row.document)).reduce(|one, two| one.filter(|_| one == two)).flatten();
        let value =
            if first.is_none() { place().map_or_else(|| "value".to_owned(), clean) } else { "value".to_owned() };
        let [below, above] = same.cloned().unwrap_or_else(|| ["reference".to_owned(), value]);
        let quantity = |row: &Compared<'_>| Quantity::of(row.document, &row.document.run.metric).caption();
        let mut captions: Vec<String> = rows.iter().map(quantity).collect();
        captions.dedup();
        let caption =
            if let [only] = captions.as_slice() { only.clone() } else { "value \u{b1} 95 % interval".to_owned() };
        Heads {
            caption,
            reference: referred.then_some(below),
            value: above,
            named: same.is_none(),
            compares: first.is_some(),
        }
    }

    /// The heads with their classes.
    fn columns(&self, with_lane: bool) -> Vec<(&str, &'static str)> {
        let lane = with_lane.then_some(if self.compares { "ratio" } else { "each trial" });
        let last = if self.compares { "verdict" } else { "" };
        let values = self.reference.as_deref().into_iter().chain([self.value.as_str()]);
        let values = values.map(|head| (head, " class=\"number\""));
        values.chain(lane.into_iter().chain([last]).map(|head| (head, ""))).collect()
    }
}

/// What a run without a headline says of itself.
fn without_result(document: &Document, outline: &Outline) -> String {
    let first = outline.parts.iter().flat_map(|part| &part.headlines).next();
    first.map_or_else(|| nothing(document).to_owned(), |headline| headline.sentence.clone())
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

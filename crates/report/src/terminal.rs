//! The report for a terminal or a pipe: verdicts in words first, then the table, then what a reader must know of them.

use crate::application;
use crate::grid::{Cell, Grid, RatioCell};
use crate::order_entry;
use crate::outline::{Found, Outline, outline};
use crate::published::Beside;
use crate::section::{Block, Group, Making, Section, Subject};
use crate::sections::SECTIONS;
use crate::text::{Paint, Style, clean, left, width, wrap};
use crate::words::{Headline, Tone};
use baremark_model::document::Document;

pub(crate) const INDENT: usize = 2;
const GAP: usize = 3;
/// More rows of what was measured alongside what the study asks for are left to the formats that have room for them.
const MOST_MORE: usize = 60;

/// The report of one run.
#[must_use]
pub fn render(document: &Document, style: &Style) -> String {
    with(document, style, SECTIONS)
}

/// The report with these sections.
pub(crate) fn with(document: &Document, style: &Style, sections: &[Making]) -> String {
    let outline = outline(document);
    let mut page = Page { style: *style, text: String::new() };
    page.top(&outline);
    page.headlines(&outline);
    for part in &outline.parts {
        page.tables(part);
    }
    for section in sections {
        page.section(&section(Subject { document, outline: &outline }));
    }
    page.head("Run");
    let label = outline.provenance.iter().map(|(word, _)| width(word)).max().unwrap_or(0);
    for (word, says) in &outline.provenance {
        page.hanging(&left(word, label), says);
    }
    page.text
}

/// The applications of a document; nothing where it has none.
#[must_use]
pub fn applications(document: &Document, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    application::groups(document).iter().for_each(|group| page.group(group));
    page.text
}

/// The two tables of the published OLTP study, of any run.
#[must_use]
pub fn order_entry(document: &Document, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &clean(&document.run.study));
    order_entry::tables(document).iter().for_each(|grid| page.table(&grid.caption, grid));
    page.list("Notes", &order_entry::remarks(document));
    if let Some(beside) = order_entry::published() {
        page.beside(None, &beside);
    }
    page.text
}

/// Text that grows line by line.
pub(crate) struct Page {
    pub style: Style,
    pub text: String,
}

impl Page {
    pub(crate) fn line(&mut self, paint: Paint, line: &str) {
        let line = self.style.paint(paint, line.trim_end());
        self.text.push_str(&line);
        self.text.push('\n');
    }

    /// A paragraph at `indent`, its further lines two columns deeper where it `hangs`.
    pub(crate) fn paragraph(&mut self, paint: Paint, indent: usize, hang: usize, text: &str) {
        let text = self.style.plain(text);
        let room = self.style.width.saturating_sub(indent + hang).max(12);
        for (index, line) in wrap(&text, room).into_iter().enumerate() {
            let depth = if index == 0 { indent } else { indent + hang };
            self.line(paint, &format!("{}{line}", " ".repeat(depth)));
        }
    }

    pub(crate) fn head(&mut self, text: &str) {
        self.text.push('\n');
        self.paragraph(Paint::Strong, 0, INDENT, text);
    }

    pub(crate) fn hanging(&mut self, label: &str, text: &str) {
        let text = self.style.plain(text);
        let indent = INDENT + width(label) + 2;
        let room = self.style.width.saturating_sub(indent).max(12);
        for (index, line) in wrap(&text, room).into_iter().enumerate() {
            let label = if index == 0 { self.style.paint(Paint::Faint, label) } else { " ".repeat(width(label)) };
            self.line(Paint::Plain, &format!("{}{label}  {line}", " ".repeat(INDENT)));
        }
    }

    pub(crate) fn list(&mut self, head: &str, items: &[String]) {
        if items.is_empty() {
            return;
        }
        self.head(head);
        for item in items {
            self.paragraph(Paint::Plain, INDENT, INDENT, item);
        }
    }

    /// Paragraphs and tables under a head of their own.
    fn group(&mut self, group: &Group) {
        self.list(&group.head, &group.lines);
        group.grids.iter().for_each(|grid| self.table(&grid.caption, grid));
    }

    /// A section, of whose blocks those for a page are left out. Tables and groups have heads of their own.
    fn section(&mut self, section: &Section) {
        let mut headed = false;
        for block in &section.blocks {
            let own_head = matches!(block, Block::Table(_) | Block::Group(_));
            let shown = own_head || matches!(block, Block::Lines(..) | Block::Sentences(..) | Block::Remarks(_));
            if shown && !own_head && !headed {
                self.head(&section_head(section));
            }
            headed |= shown;
            match block {
                Block::Lines(of, items) => {
                    self.part_of(of.as_deref());
                    items.iter().for_each(|line| self.paragraph(Paint::Plain, INDENT, INDENT, line));
                }
                Block::Sentences(of, headlines) => self.sentences(of.as_deref(), headlines),
                Block::Table(grid) => self.table(&grid.caption, grid),
                Block::Remarks(remarks) => {
                    remarks.iter().for_each(|remark| self.paragraph(Paint::Faint, INDENT, INDENT, remark));
                }
                Block::Group(group) => self.group(group),
                Block::Figures(_) | Block::Legend(_) | Block::Wide(_) => {}
            }
        }
    }

    fn top(&mut self, outline: &Outline) {
        self.paragraph(Paint::Strong, 0, INDENT, &outline.title);
        self.paragraph(Paint::Faint, 0, INDENT, &outline.context);
        if !outline.cautions.is_empty() {
            self.text.push('\n');
        }
        for caution in &outline.cautions {
            self.paragraph(Paint::Caution, 0, 0, caution);
        }
    }

    fn headlines(&mut self, outline: &Outline) {
        self.head("Result");
        outline.parts.iter().for_each(|part| self.sentences(part.name.as_deref(), &part.headlines));
        if !outline.notes.is_empty() {
            self.text.push('\n');
        }
        for note in &outline.notes {
            self.paragraph(Paint::Faint, INDENT, 0, note);
        }
    }

    /// Which workload what follows is of, where there are several.
    fn part_of(&mut self, name: Option<&str>) {
        if let Some(name) = name {
            self.paragraph(Paint::Faint, INDENT, 0, &format!("{name}:"));
        }
    }

    fn tables(&mut self, part: &Found) {
        let (own, others) = part.grids.split_at(part.grids.len().min(1));
        let name = part.name.as_deref();
        own.iter().for_each(|grid| self.grid(name, grid));
        if let Some(beside) = &part.beside {
            self.beside(name, beside);
        }
        others.iter().for_each(|grid| self.grid(name, grid));
        let rows: usize = part.more.iter().map(|grid| grid.rows.len()).sum();
        if rows <= MOST_MORE {
            part.more.iter().for_each(|grid| self.grid(name, grid));
            return;
        }
        let what = part.more.iter().map(|grid| grid.caption.split(" (").next().unwrap_or_default());
        let what = what.collect::<Vec<_>>().join("; ");
        self.text.push('\n');
        self.paragraph(Paint::Faint, 0, INDENT, &format!("--html and --csv have {rows} more rows: {what}."));
    }

    fn sentences(&mut self, of: Option<&str>, headlines: &[Headline]) {
        self.part_of(of);
        for headline in headlines {
            if let Some(caution) = &headline.caution {
                self.paragraph(Paint::Caution, INDENT, INDENT, caution);
            }
            self.paragraph(Paint::Strong, INDENT, INDENT, &headline.sentence);
        }
    }

    /// The published values, right below those measured here.
    fn beside(&mut self, name: Option<&str>, beside: &Beside) {
        self.head(&beside.head);
        for grid in &beside.grids {
            self.grid(name, grid);
        }
        self.text.push('\n');
        for note in &beside.notes {
            self.paragraph(Paint::Faint, INDENT, 0, note);
        }
    }

    fn grid(&mut self, name: Option<&str>, grid: &Grid) {
        let of = name.map(|name| format!("{name}: ")).unwrap_or_default();
        self.table(&format!("{of}{}", grid.caption), grid);
    }

    /// The table whole, else with shorter cells, else in as many parts as fit side by side.
    fn table(&mut self, caption: &str, grid: &Grid) {
        self.head(caption);
        let label = grid.rows.iter().map(|row| width(&row.label)).max().unwrap_or(0).min(self.style.width / 3);
        let room = self.style.width.saturating_sub(INDENT + label);
        let most = room.saturating_sub(GAP).max(12);
        let mut laid = Laid::of(grid, Detail::Full, &self.style, most);
        if laid.widths.iter().map(|w| w + GAP).sum::<usize>() > room {
            laid = Laid::of(grid, Detail::Short, &self.style, most);
        }
        let mut from = 0;
        while from < laid.widths.len() {
            let mut to = from + 1;
            while to < laid.widths.len() && laid.widths[from..=to].iter().map(|w| w + GAP).sum::<usize>() <= room {
                to += 1;
            }
            if from > 0 {
                self.text.push('\n');
            }
            self.part(grid, &laid, label, from..to);
            from = to;
        }
        for (number, reason) in (1..).zip(&grid.reasons) {
            self.hanging(&format!("[{number}]"), &format!("not available here: {reason}"));
        }
    }

    fn part(&mut self, grid: &Grid, laid: &Laid, label: usize, part: std::ops::Range<usize>) {
        let gap = " ".repeat(GAP);
        let mut head = " ".repeat(INDENT + label);
        for column in part.clone() {
            head.push_str(&gap);
            head.push_str(&left(&grid.columns[column], laid.widths[column]));
        }
        let head = self.style.plain(&head);
        self.line(Paint::Strong, &head);
        for (index, (row, cells)) in grid.rows.iter().zip(&laid.cells).enumerate() {
            let labels = wrap(&row.label, label);
            let cells: Vec<Lines> = part.clone().map(|column| folded(&cells[column], laid.widths[column])).collect();
            let height = cells.iter().map(Vec::len).chain([labels.len()]).max().unwrap_or(0);
            if index > 0 && height > 1 {
                self.text.push('\n');
            }
            for at in 0..height {
                let mut line = " ".repeat(INDENT);
                line.push_str(&left(labels.get(at).map_or("", String::as_str), label));
                for (cell, column) in cells.iter().zip(part.clone()) {
                    let (paint, text) = cell.get(at).cloned().unwrap_or((Paint::Plain, String::new()));
                    line.push_str(&gap);
                    line.push_str(&self.style.paint(paint, &text));
                    line.push_str(&" ".repeat(laid.widths[column].saturating_sub(width(&text))));
                }
                self.line(Paint::Plain, &line);
            }
        }
    }
}

/// A section's head with what holds for all of it, in one line.
fn section_head(section: &Section) -> String {
    let mut note = section.note.trim_end_matches('.').chars();
    match note.next() {
        Some(first) => format!("{}: {}{}", section.head, first.to_lowercase(), note.as_str()),
        None => section.head.to_owned(),
    }
}

/// The lines of one cell.
type Lines = Vec<(Paint, String)>;

/// How much a cell says of its ratio.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Interval and verdict in words.
    Full,
    /// Half-width and verdict in a word or two: the sentences above say the rest.
    Short,
}

/// A grid's cells as lines, with the widths of its columns.
struct Laid {
    cells: Vec<Vec<Lines>>,
    widths: Vec<usize>,
}

impl Laid {
    fn of(grid: &Grid, detail: Detail, style: &Style, most: usize) -> Self {
        let cells: Vec<Vec<Lines>> = grid
            .rows
            .iter()
            .map(|row| row.cells.iter().map(|cell| shown(lines(cell, detail), style)).collect())
            .collect();
        let widest = |column: usize| {
            let texts = cells.iter().flat_map(|row: &Vec<Lines>| row[column].iter().map(|(_, text)| width(text)));
            texts.chain([width(&grid.columns[column])]).max().unwrap_or(0).min(most)
        };
        let widths = (0..grid.columns.len()).map(widest).collect();
        Laid { cells, widths }
    }
}

fn lines(cell: &Cell, detail: Detail) -> Lines {
    match cell {
        Cell::Blank => vec![(Paint::Faint, "–".to_owned())],
        Cell::Nothing => vec![(Paint::Caution, "no trial counts".to_owned())],
        Cell::Predicted { reason, ratio } => vec![
            (Paint::Faint, format!("not available here [{reason}]")),
            (Paint::Plain, ratio.clone()),
            (Paint::Faint, "predicted, not measured".to_owned()),
        ],
        Cell::Absent(reason) => vec![(Paint::Faint, format!("not available here [{reason}]"))],
        Cell::Measured { estimate, ratio } => {
            let mut lines = vec![(Paint::Plain, estimate.clone())];
            lines.extend(ratio.iter().flat_map(|ratio| ratio_lines(ratio, detail)));
            lines
        }
    }
}

/// Lines as the place can show them; before widths are taken, because `±` is one column and `+-` is two.
fn shown(lines: Lines, style: &Style) -> Lines {
    lines.into_iter().map(|(paint, text)| (paint, style.plain(&text))).collect()
}

fn ratio_lines(ratio: &RatioCell, detail: Detail) -> Lines {
    let interval = if ratio.interval.is_empty() { String::new() } else { format!(" ({})", ratio.interval) };
    let (value, verdict) = match detail {
        Detail::Full => (format!("{}{interval}", ratio.value), ratio.verdict.clone()),
        Detail::Short => (format!("{}{}", ratio.value, ratio.half_width), ratio.short.clone()),
    };
    let mut lines = vec![(Paint::Strong, value)];
    if !verdict.is_empty() {
        lines.push((paint(ratio.tone), verdict));
    }
    lines
}

fn paint(tone: Tone) -> Paint {
    match tone {
        Tone::Plain => Paint::Plain,
        Tone::Differs => Paint::Strong,
        Tone::Alike => Paint::Good,
        Tone::Open => Paint::Caution,
    }
}

/// A cell's lines, wrapped to its column.
fn folded(lines: &Lines, columns: usize) -> Lines {
    lines.iter().flat_map(|(paint, text)| wrap(text, columns).into_iter().map(|line| (*paint, line))).collect()
}

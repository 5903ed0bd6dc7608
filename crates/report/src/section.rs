//! A section of a report, for every format.
//!
//! A section says what it has, in blocks; the terminal and the page lay blocks out, each as it has room.

use crate::axis::Figure;
use crate::grid::Grid;
use crate::outline::Outline;
use crate::words::Headline;
use baremark_model::document::Document;

/// What a section is of.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'d> {
    pub document: &'d Document,
    pub outline: &'d Outline,
}

/// What makes a section.
pub(crate) type Making = fn(Subject<'_>) -> Section;

/// A section of a report. One without blocks is not shown.
pub(crate) struct Section {
    /// Its name in links to it.
    pub id: &'static str,
    /// Its head.
    pub head: &'static str,
    /// What holds for all of it, a sentence; empty for nothing.
    pub note: &'static str,
    /// What it has, in order.
    pub blocks: Vec<Block>,
}

/// What a section can have.
pub(crate) enum Block {
    /// Paragraphs, of one workload where it is named.
    Lines(Option<String>, Vec<String>),
    /// Outcomes in words, of one workload where it is named.
    Sentences(Option<String>, Vec<Headline>),
    /// A table, which has its own caption.
    Table(Grid),
    /// Paragraphs and tables under a head of their own.
    Group(Group),
    /// Remarks, less than what they are about.
    Remarks(Vec<String>),
    /// Figures, where there is room for them.
    Figures(Vec<Figure>),
    /// What figures need to be read, where they are.
    Legend(String),
    /// Tables with their heads, where there is room for them.
    Wide(Vec<(&'static str, Grid)>),
}

/// Paragraphs and tables of one thing out of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Whose they are.
    pub head: String,
    /// In words.
    pub lines: Vec<String>,
    /// In tables.
    pub grids: Vec<Grid>,
}

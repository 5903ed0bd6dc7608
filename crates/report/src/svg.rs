//! A small writer of SVG: shapes with classes, text that is escaped, a title and a description for those who listen.
//!
//! Colours are the page's business: shapes carry classes, and `figure.css` gives them meaning in light and dark. Numbers
//! are written to a tenth of a unit, so that files stay small and golden files stable.

use crate::text::clean;
use std::fmt::Write;

/// The style of every figure.
pub(crate) const STYLE: &str = include_str!("figure.css");

/// A drawing that grows.
pub(crate) struct Svg {
    name: String,
    width: f64,
    height: f64,
    title: String,
    description: String,
    shapes: String,
}

/// Where a text is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty drawing. `name` must be unique on the page: the title and description are found by it.
    pub(crate) fn new(name: &str, [width, height]: [f64; 2], title: &str, description: &str) -> Self {
        // It is in attributes, and may be of a metric's key.
        let is_plain = |of: char| of.is_ascii_alphanumeric() || "-_".contains(of);
        Svg {
            name: name.chars().map(|of| if is_plain(of) { of } else { '-' }).collect(),
            width,
            height,
            title: title.to_owned(),
            description: description.to_owned(),
            shapes: String::new(),
        }
    }

    fn push(&mut self, shape: std::fmt::Arguments<'_>) {
        let done = self.shapes.write_fmt(shape);
        debug_assert!(done.is_ok(), "a string takes everything");
        self.shapes.push('\n');
    }

    pub(crate) fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.push(format_args!(r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#));
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[[f64; 2]]) {
        let places: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!(r#"<polyline class="{class}" points="{}"/>"#, places.join(" ")));
    }

    pub(crate) fn rect(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.push(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        ));
    }

    /// Shapes that say `says` where one of them is pointed at.
    pub(crate) fn group(&mut self, says: &str, draw: impl FnOnce(&mut Svg)) {
        let says = escape(says);
        self.push(format_args!("<g><title>{says}</title>"));
        draw(self);
        self.push(format_args!("</g>"));
    }

    /// A dot that says `says` when it is pointed at.
    pub(crate) fn dot(&mut self, class: &str, [x, y]: [f64; 2], radius: f64, says: &str) {
        let says = escape(says);
        self.push(format_args!(
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}"><title>{says}</title></circle>"#
        ));
    }

    /// A cross that says `says` when it is pointed at.
    pub(crate) fn cross(&mut self, class: &str, [x, y]: [f64; 2], radius: f64, says: &str) {
        let (west, east, north, south) = (x - radius, x + radius, y - radius, y + radius);
        let says = escape(says);
        self.push(format_args!(
            "<path class=\"{class}\" d=\"M{west:.1} {north:.1}L{east:.1} {south:.1}M{west:.1} {south:.1}L{east:.1} \
             {north:.1}\"><title>{says}</title></path>"
        ));
    }

    /// A hollow diamond that says `says` when it is pointed at.
    pub(crate) fn mark(&mut self, class: &str, [x, y]: [f64; 2], radius: f64, says: &str) {
        let (west, east, north, south) = (x - radius, x + radius, y - radius, y + radius);
        let says = escape(says);
        self.push(format_args!(
            "<path class=\"{class}\" d=\"M{x:.1} {north:.1}L{east:.1} {y:.1}L{x:.1} {south:.1}L{west:.1} {y:.1}Z\"><title>{says}</title></path>"
        ));
    }

    pub(crate) fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
    }

    /// The drawing as part of a page that has [`STYLE`].
    pub(crate) fn inline(&self) -> String {
        self.render("", "")
    }

    /// The drawing as a file of its own.
    pub(crate) fn file(&self) -> String {
        self.render(" xmlns=\"http://www.w3.org/2000/svg\"", &format!("<style>{STYLE}</style>\n"))
    }

    fn render(&self, attributes: &str, style: &str) -> String {
        let Svg { name, width, height, shapes, .. } = self;
        let (title, description) = (escape(&self.title), escape(&self.description));
        format!(
            "<svg{attributes} class=\"figure\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             aria-labelledby=\"{name}-title {name}-description\">\n<title id=\"{name}-title\">{title}</title>\n\
             <desc id=\"{name}-description\">{description}</desc>\n{style}{shapes}</svg>"
        )
    }
}

/// `text` as content or as a quoted attribute of HTML and SVG. Numbers keep their unit and their half-width.
pub(crate) fn escape(text: &str) -> String {
    let text = clean(text).replace(" %", "\u{a0}%").replace(" ± ", "\u{a0}±\u{a0}");
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
        out
    })
}

//! The head of every HTML page: as wide as the window, light or dark, without anything from elsewhere.

use crate::svg::{STYLE, escape};

const PAGE: &str = include_str!("page.css");

/// Up to the beginning of the main part, of a page without scripts.
pub(crate) fn head(title: &str) -> String {
    written(title, "", "", "")
}

/// The same of the index of a site: with a script on the page, others next to it, a style and a feed of its own.
pub(crate) fn head_of_site(title: &str, style: &str, feed: &str) -> String {
    let feed =
        format!("<link rel=\"alternate\" type=\"application/atom+xml\" title=\"Changes\" href=\"{}\">\n", escape(feed));
    // A page that is opened from a disk has no host that 'self' could be.
    written(title, "; script-src 'unsafe-inline' 'self' file:", style, &feed)
}

fn written(title: &str, scripts: &str, style: &str, links: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{scripts}\">\n\
         <title>{}</title>\n{links}<style>\n{PAGE}{STYLE}{style}</style>\n</head>\n<body>\n<main>\n",
        escape(title)
    )
}

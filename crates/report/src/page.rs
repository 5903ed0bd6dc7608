//! The head of every HTML page: as wide as the window, light or dark, without anything from elsewhere.

use crate::svg::{STYLE, escape};

const PAGE: &str = include_str!("page.css");

/// Up to the beginning of the main part. `script` permits a script on the page.
pub(crate) fn head(title: &str, script: bool) -> String {
    let script = if script { "; script-src 'unsafe-inline'" } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{script}\">\n\
         <title>{}</title>\n<style>\n{PAGE}{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(title)
    )
}

//! `baremark site`: a folder of static pages, from the store and from bundles.
//!
//! A bundle of a stranger is verified first, and its page is made from what was computed here, not from what it prints. Files are named by us:
//! nothing that a bundle says becomes a path.

use crate::commands::bundle;
use crate::commands::form::write_page;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use baremark_lab::history::series;
use baremark_report::history;
use baremark_report::site::{Entry, render};
use baremark_report::{Color, Style, html};
use std::path::PathBuf;

/// Where to and what of.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder to write, created if it does not exist
    folder: PathBuf,
    /// Bundles to show instead of the store's runs
    bundles: Vec<PathBuf>,
}

/// Writes an index and a page for each run. A run that cannot be shown and a bundle that cannot be verified are named on standard error and left out; the exit code says so.
pub fn run(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    let (mut entries, refused) = match arguments.bundles.as_slice() {
        [] => of_store(context)?,
        bundles => of_bundles(bundles),
    };
    if entries.is_empty() {
        return Err(Refusal::bad_input("there is no run to show; `baremark run STUDY` makes one"));
    }
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(|why| Refusal::failure(format!("making {}: {why}", folder.display())))?;
    for (number, entry) in (1..).zip(&mut entries) {
        entry.page = format!("run-{number}.html");
        write_page(&folder.join(&entry.page), &html::render(&entry.document))?;
    }
    let documents: Vec<_> = entries.iter().map(|entry| entry.document.clone()).collect();
    let found = series(&documents);
    let rows: Vec<_> = found.iter().map(crate::commands::history::changed).collect();
    let plain = Style { width: 100, color: Color::Never, unicode: true };
    let changes = if rows.is_empty() { String::new() } else { history::changes(&rows, &plain) };
    let index = folder.join("index.html");
    write_page(&index, &render(&entries, &changes))?;
    Ok((format!("{}\n", index.display()), if refused == 0 { Exit::Success } else { Exit::Regression }))
}

/// The store's runs, and how many of them cannot be shown.
fn of_store(context: &Context) -> Result<(Vec<Entry>, usize), Refusal> {
    let store = record::open_existing(context)?;
    let mut refused = 0;
    let mut entries = Vec::new();
    for run in store.runs().map_err(Refusal::failure)? {
        match sides::stored(&store, run.id.as_str()) {
            Ok(document) => {
                entries.push(Entry { document, page: String::new(), source: run.state.word().to_owned() });
            }
            Err(why) => {
                say(format_args!("error: {}", why.message));
                refused += 1;
            }
        }
    }
    Ok((entries, refused))
}

/// The bundles that verify, and how many do not.
fn of_bundles(bundles: &[PathBuf]) -> (Vec<Entry>, usize) {
    let mut refused = 0;
    let mut entries = Vec::new();
    for file in bundles {
        match bundle::verified(file) {
            Ok(verified) if verified.found.is_empty() => {
                let source = "bundle, verified".to_owned();
                entries.push(Entry { document: verified.document, page: String::new(), source });
            }
            Ok(_) => {
                say(format_args!(
                    "error: {}: a number does not follow from its trials; `baremark verify` names it",
                    file.display()
                ));
                refused += 1;
            }
            Err(why) => {
                say(format_args!("error: {}", why.message));
                refused += 1;
            }
        }
    }
    (entries, refused)
}

//! `baremark site`: static pages of the store's runs or of bundles, in a folder or served on loopback.
//!
//! A bundle of a stranger is verified first, and its page is made from what was computed here, not from what it prints. Files are named by us:
//! nothing that a bundle says becomes a path.

mod changes;
mod serve;

use crate::commands::bundle;
use crate::commands::form::write_page;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use baremark_report::html;
use baremark_report::site::{Entry, render};
use baremark_store::RunState;
use std::path::{Path, PathBuf};

/// Where to and what of.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder to write, created if it does not exist
    #[arg(required_unless_present = "serve")]
    folder: Option<PathBuf>,
    /// Bundles to show instead of the store's runs
    bundles: Vec<PathBuf>,
    /// Instead of a folder, serve the store's runs on this port of 127.0.0.1; pages follow runs that measure
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "8765", conflicts_with = "folder")]
    serve: Option<u16>,
}

/// Writes an index and a page for each run. A run that cannot be shown and a bundle that cannot be verified are named on standard error and left out; the exit code says so.
pub fn run(context: Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    match (&arguments.folder, arguments.serve) {
        (_, Some(port)) => serve::run(context, port),
        (Some(folder), None) => write(&context, folder, &arguments.bundles),
        (None, None) => Err(Refusal::bad_input("no folder is named; name one, or serve pages with --serve")),
    }
}

fn write(context: &Context, folder: &Path, bundles: &[PathBuf]) -> Result<(String, Exit), Refusal> {
    let (mut entries, refused) = match bundles {
        [] => of_store(context)?,
        bundles => of_bundles(bundles),
    };
    if entries.is_empty() {
        return Err(Refusal::bad_input("there is no run to show; `baremark run STUDY` makes one"));
    }
    std::fs::create_dir_all(folder).map_err(|why| Refusal::failure(format!("making {}: {why}", folder.display())))?;
    for (number, entry) in (1..).zip(&mut entries) {
        entry.page = format!("run-{number}.html");
        write_page(&folder.join(&entry.page), &html::render(&entry.document))?;
    }
    let index = folder.join("index.html");
    write_page(&index, &render(&entries, &changes::text(&entries)))?;
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
                let (source, live) = (run.state.word().to_owned(), run.state == RunState::Live);
                entries.push(Entry { document, page: String::new(), source, live });
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
                entries.push(Entry { document: verified.document, page: String::new(), source, live: false });
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

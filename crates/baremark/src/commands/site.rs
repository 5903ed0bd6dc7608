//! `baremark site`: static pages of the store's runs or of bundles, in a folder or served on loopback.
//!
//! A bundle of a stranger is verified first, and its page is made from what was computed here, not from what it prints. Files are named by us:
//! nothing that a bundle says becomes a path.

mod changes;
mod pages;
mod serve;

use crate::commands::form::write_page;
use crate::commands::verify;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use baremark_lab::history::Recorded;
use baremark_model::document::Document;
use baremark_report::html;
use baremark_report::site::{Entry, render};
use baremark_store::RunState;
use std::path::{Path, PathBuf};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark site --serve                 # in a browser, on 127.0.0.1
  baremark site public";

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

/// The folder of a site as it is written: of each document only its part of the index stays in memory.
struct Folder<'a> {
    path: &'a Path,
    entries: Vec<Entry>,
    recorded: Vec<Recorded>,
    /// Runs that cannot be shown and bundles that cannot be verified.
    refused: usize,
}

impl Folder<'_> {
    /// Writes the page of a run, or counts it as one that cannot be shown.
    fn add(&mut self, found: Result<Document, Refusal>, source: &str, live: bool) -> Result<(), Refusal> {
        let document = match found {
            Ok(document) => document,
            Err(why) => {
                say(format_args!("error: {}", why.message));
                self.refused += 1;
                return Ok(());
            }
        };
        if self.entries.is_empty() {
            let failed = |why| Refusal::failure(format!("making {}: {why}", self.path.display()));
            std::fs::create_dir_all(self.path).map_err(failed)?;
        }
        let page = format!("run-{}.html", self.entries.len() + 1);
        write_page(&self.path.join(&page), &html::render(&document))?;
        self.entries.push(Entry::of(&document, &page, source, live));
        self.recorded.push(Recorded::of(&document));
        Ok(())
    }
}

fn write(context: &Context, path: &Path, bundles: &[PathBuf]) -> Result<(String, Exit), Refusal> {
    let mut folder = Folder { path, entries: Vec::new(), recorded: Vec::new(), refused: 0 };
    if bundles.is_empty() {
        let store = record::open_existing(context)?;
        for run in store.runs().map_err(Refusal::failure)? {
            folder.add(sides::stored(&store, run.id.as_str()), run.state.word(), run.state == RunState::Live)?;
        }
    }
    for file in bundles {
        folder.add(verified(file), "bundle, verified", false)?;
    }
    if folder.entries.is_empty() {
        return Err(Refusal::bad_input("the store has no run to show; measure one with `baremark run STUDY`"));
    }
    let index = path.join("index.html");
    write_page(&index, &render(&folder.entries, &changes::text(&folder.recorded)))?;
    let exit = if folder.refused == 0 { Exit::Success } else { Exit::Regression };
    Ok((format!("{}\n", index.display()), exit))
}

/// The document of a bundle whose numbers follow from its trials.
fn verified(file: &Path) -> Result<Document, Refusal> {
    let verified = verify::verified(file)?;
    match verified.holds() {
        true => Ok(verified.document),
        false => Err(Refusal::failure(format!(
            "{}: a number does not follow from its trials; `baremark verify` names it",
            file.display()
        ))),
    }
}

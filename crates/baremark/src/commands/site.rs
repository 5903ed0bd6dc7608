//! `baremark site`: static pages of the store's runs or of bundles, in a folder or served on loopback; their latest results as metrics.
//!
//! A bundle of a stranger is verified first, and its page is made from what was computed here, not from what it prints. Files are named by us:
//! nothing that a bundle says becomes a path.

mod changes;
mod metrics;
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
use baremark_report::site::{About, Entry, FEED, INDEX, is_shard, render};
use baremark_store::RunState;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark site --serve                 # in a browser, on 127.0.0.1
  baremark site public
  baremark site --metrics > /var/lib/node_exporter/baremark.prom";

/// Where to and what of.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder to write, created if it does not exist
    folder: Option<PathBuf>,
    /// Bundles to show instead of the store's runs
    bundles: Vec<PathBuf>,
    /// Instead of a folder, serve the store's runs on this port of 127.0.0.1; pages follow runs that measure
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "8765", conflicts_with = "folder")]
    serve: Option<u16>,
    /// Instead of pages, print the latest finished result of each study as OpenMetrics text
    #[arg(long, conflicts_with_all = ["folder", "serve"])]
    metrics: bool,
}

/// Writes an index and a page for each run. A run that cannot be shown and a bundle that cannot be verified are named on standard error and left out; the exit code says so.
pub fn run(context: Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    match (&arguments.folder, arguments.serve) {
        _ if arguments.metrics => metrics::run(&context),
        (_, Some(port)) => serve::run(context, port),
        (Some(folder), None) => write(&context, folder, &arguments.bundles),
        (None, None) => {
            Err(Refusal::bad_input("no folder is named; name one to write pages to, or give --serve or --metrics"))
        }
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
    /// Counts a run or a bundle that cannot be shown, and says why it cannot.
    fn leave_out(&mut self, why: impl std::fmt::Display) {
        say(format_args!("error: {why}"));
        self.refused += 1;
    }

    /// Writes the report of a run into the file `page`, or counts it as one that cannot be shown.
    fn add(
        &mut self,
        found: Result<Document, Refusal>,
        page: &str,
        source: &str,
        state: RunState,
    ) -> Result<(), Refusal> {
        let document = match found {
            Ok(document) => document,
            Err(why) => {
                self.leave_out(why.message);
                return Ok(());
            }
        };
        if self.entries.is_empty() {
            let failed = |why| Refusal::failure(format!("making {}: {why}", self.path.display()));
            std::fs::create_dir_all(self.path).map_err(failed)?;
        }
        write_page(&self.path.join(page), &html::render_in_site(&document))?;
        self.entries.push(Entry::of(&document, page, source, state == RunState::Live));
        if state == RunState::Finished {
            self.recorded.push(Recorded::of(&document));
        }
        Ok(())
    }

    /// Writes the index and what it loads, and removes what an index before it loaded and this one does not.
    fn finish(&self) -> Result<PathBuf, Refusal> {
        let pages: HashMap<&str, &str> = self.entries.iter().map(|entry| (entry.id(), entry.page())).collect();
        let about = About {
            uuid: changes::site(self.entries.iter().map(Entry::id)),
            changes: changes::points(&self.recorded, |run| pages.get(run).map(|page| (*page).to_owned())),
            ..About::default()
        };
        let site = render(&self.entries, &about);
        for (name, text) in &site.shards {
            write_page(&self.path.join(name), text)?;
        }
        let old = std::fs::read_dir(self.path).into_iter().flatten().flatten().filter(|file| {
            let name = file.file_name();
            is_shard(&name.to_string_lossy()) && !site.shards.iter().any(|(of, _)| name == of.as_str())
        });
        for file in old {
            let failed = |why| Refusal::failure(format!("removing {}: {why}", file.path().display()));
            std::fs::remove_file(file.path()).map_err(failed)?;
        }
        write_page(&self.path.join(FEED), &site.feed)?;
        let index = self.path.join(INDEX);
        write_page(&index, &site.index)?;
        Ok(index)
    }
}

fn write(context: &Context, path: &Path, bundles: &[PathBuf]) -> Result<(String, Exit), Refusal> {
    let mut folder = Folder { path, entries: Vec::new(), recorded: Vec::new(), refused: 0 };
    if bundles.is_empty() {
        let store = record::open_existing(context)?;
        let list = store.list().map_err(Refusal::failure)?;
        list.damaged.iter().for_each(|why| folder.leave_out(why));
        for run in list.runs {
            let page = format!("{}.html", run.id);
            folder.add(sides::stored(&store, run.id.as_str()), &page, run.state.word(), run.state)?;
        }
    }
    for (number, file) in (1..).zip(bundles) {
        folder.add(verified(file), &format!("bundle-{number}.html"), "bundle, verified", RunState::Finished)?;
    }
    if folder.entries.is_empty() {
        return Err(match (folder.refused, bundles.is_empty()) {
            (0, _) => Refusal::bad_input("the store has no run to show; measure one with `baremark run STUDY`"),
            (_, true) => left_out("no run of the store can be shown; nothing is written"),
            (_, false) => left_out("no bundle could be verified; nothing is written"),
        });
    }
    let index = folder.finish()?;
    let exit = if folder.refused == 0 { Exit::Success } else { Exit::Regression };
    Ok((format!("{}\n", index.display()), exit))
}

/// All that a site was to show was left out.
fn left_out(what: &str) -> Refusal {
    Refusal { exit: Exit::Regression, message: what.to_owned() }
}

/// The document of a bundle whose numbers follow from its trials.
fn verified(file: &Path) -> Result<Document, Refusal> {
    let verified = verify::verified(file)?;
    match verified.holds() {
        true => Ok(verified.document),
        false => {
            Err(Refusal::failure(format!("{}: not verified; `baremark verify` says what differs", file.display())))
        }
    }
}

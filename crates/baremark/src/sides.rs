//! Sides of a comparison as users name them: runs of the store, or result documents in files, and levels picked from them.
//!
//! `RUN[,RUN ...][:FACTOR=LEVEL[+FACTOR=LEVEL ...]]`, where each RUN is a run's name or the unique beginning of one, the name under
//! which runs were imported, a file that `--json` or another program wrote, or a folder of such files.

use crate::commands::import;
use crate::context::{Context, descriptors_of};
use crate::exit::Refusal;
use crate::record;
use crate::watch::say;
use baremark_lab::analysis;
use baremark_lab::comparison::Chosen;
use baremark_model::codes::Origin;
use baremark_model::document::{Document, FORMAT, FORMER_FORMAT};
use baremark_model::plan::Treatment;
use baremark_store::{RunState, Store};
use std::path::{Path, PathBuf};

/// The side that `text` names.
pub fn find(context: &Context, text: &str) -> Result<Chosen, Refusal> {
    let (runs, levels) = match text.rsplit_once(':') {
        Some((runs, levels)) if levels.contains('=') => (runs, self::levels(levels)?),
        _ => (text, Treatment::new()),
    };
    let mut documents = Vec::new();
    let mut store = None;
    for name in runs.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let path = Path::new(name);
        let imported = imported(context, name)?;
        if !imported.is_empty() {
            documents.extend(imported);
        } else if path.is_dir() {
            for file in files_in(path)? {
                documents.push(read(context, &file)?);
            }
        } else if path.is_file() {
            documents.push(read(context, path)?);
        } else {
            let store = match &mut store {
                Some(store) => store,
                none => none.insert(record::open_existing(context)?),
            };
            documents.push(stored(store, name)?);
        }
    }
    if documents.is_empty() {
        return Err(Refusal::bad_input(format!(
            "'{text}' names no run; write RUN or RUN,RUN,RUN, or a file of --json"
        )));
    }
    Ok(Chosen { documents, levels })
}

/// The runs that `baremark import --as` gave this name; none where there is no store.
fn imported(context: &Context, name: &str) -> Result<Vec<Document>, Refusal> {
    if !context.store_path().is_ok_and(|path| path.exists()) {
        return Ok(Vec::new());
    }
    let store = record::open_existing(context)?;
    let runs = store.list().map_err(Refusal::failure)?.runs;
    let own = runs.iter().rev().filter(|run| Origin::of(&run.study_file).import() == Some(name));
    let (whole, partial) = own.partition::<Vec<_>, _>(|run| run.state == RunState::Finished);
    for run in partial {
        say(format_args!("warning: run {} of '{name}' is left out: {}", run.id, import::INCOMPLETE));
    }
    whole.into_iter().map(|run| stored(&store, run.id.as_str())).collect()
}

fn levels(text: &str) -> Result<Treatment, Refusal> {
    let pair = |part: &str| {
        let (key, label) = part.split_once('=').filter(|(key, label)| !key.is_empty() && !label.is_empty())?;
        Some((key.trim().to_owned(), label.trim().to_owned()))
    };
    let read = |part| pair(part).ok_or_else(|| Refusal::bad_input(format!("'{part}' is not a FACTOR=LEVEL")));
    text.split('+').map(read).collect()
}

/// The document of a stored run.
pub fn stored(store: &Store, name: &str) -> Result<Document, Refusal> {
    let run = record::load(store, &record::find(store, Some(name))?)?;
    if Origin::of(&run.file).import().is_some() && run.ended.is_none() {
        return Err(Refusal::bad_input(format!("run {}: {}", run.id, import::INCOMPLETE)));
    }
    Ok(analysis::document(&run, &descriptors_of(&run)?))
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let wrong = |why| Refusal::bad_input(format!("reading {}: {why}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Refusal::bad_input(format!("{} has no file that ends in .json", folder.display()))),
        false => Ok(files),
    }
}

/// A result document, or what another program has written of its own results.
fn read(context: &Context, file: &Path) -> Result<Document, Refusal> {
    let name = file.display();
    let bytes = std::fs::read(file).map_err(|why| Refusal::bad_input(format!("reading {name}: {why}")))?;
    let own = serde_json::from_slice::<Document>(&bytes).map_err(|why| why.to_string()).and_then(|document| {
        // Of a document of the former format the trials are read; its outcomes are worked out anew wherever they are used.
        match [FORMAT, FORMER_FORMAT].contains(&document.format.as_str()) {
            true => Ok(document),
            false => Err(format!("its format is '{}', not '{FORMAT}'", document.format)),
        }
    });
    own.or_else(|why| {
        let of_others = import::apart(context, file).and_then(|apart| stored(&apart.store, apart.id.as_str()));
        of_others.map_err(|of_others| Refusal {
            exit: of_others.exit,
            message: format!(
                "{name} is neither a result document ({why}) nor results of another program ({}); \
                 name a run, a file of `baremark run --json`, or a file that `baremark import` reads",
                of_others.message
            ),
        })
    })
}

//! Sides of a comparison as users name them: runs of the store, or result documents in files, and levels picked from them.
//!
//! `RUN[,RUN ...][:FACTOR=LEVEL[+FACTOR=LEVEL ...]]`, where each RUN is a run's name or the unique beginning of one, the name under
//! which runs were imported, a file that `--json` or another program wrote, or a folder of such files.

use crate::commands::import;
use crate::context::{Context, descriptors_of};
use crate::exit::Refusal;
use crate::record;
use crate::watch::say;
use baremark_import::Imported;
use baremark_lab::analysis;
use baremark_lab::comparison::Chosen;
use baremark_model::codes::Origin;
use baremark_model::document::{Document, FORMAT, FORMER_FORMAT};
use baremark_model::plan::Treatment;
use baremark_model::renamed;
use baremark_store::{RunState, Store};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// The side that `text` names.
pub fn find(context: &Context, text: &str) -> Result<Chosen, Refusal> {
    let (runs, levels) = match text.rsplit_once(':') {
        Some((runs, levels)) if levels.contains('=') => (runs, self::levels(levels)?),
        _ => (text, Treatment::new()),
    };
    let mut documents = Vec::new();
    let (mut store, mut files) = (None, Files { memory: SIDE_MEMORY, seen: BTreeMap::new() });
    for name in runs.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let path = Path::new(name);
        let imported = imported(context, name)?;
        if !imported.is_empty() {
            if path.exists() {
                say(format_args!(
                    "warning: {name}: {} imported under this name, and a file has it too; the runs are compared, \
                     ./{name} is the file",
                    import::counted(imported.len())
                ));
            }
            documents.extend(imported);
        } else if path.is_dir() {
            documents.extend(folder(context, path, &mut files)?);
        } else if path.is_file() {
            let found = read(path, &mut files).map_err(Unread::refusal)?;
            documents.push(document(context, path, found)?);
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
    Ok(Chosen { levels: todays(text, &documents, levels), documents })
}

/// Levels by the names that factors have today, with a warning where one was typed by a former name.
fn todays(text: &str, documents: &[Document], mut levels: Treatment) -> Treatment {
    for (typed, now) in documents.iter().flat_map(|document| renamed::levels(document, &mut levels)).collect::<Vec<_>>()
    {
        say(format_args!("warning: {text}: '{typed}' is called '{now}' now"));
    }
    levels
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
        // What is not a file may go on for ever, or never begin.
        if path.extension().is_some_and(|end| end == "json") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Refusal::bad_input(format!("{} has no file that ends in .json", folder.display()))),
        false => Ok(files),
    }
}

/// The longest result document.
const LONGEST_DOCUMENT: u64 = baremark_import::LONGEST_DOCUMENT;
/// What the files of a side may take in memory: both sides with what is made of them stay below 256 MiB.
const SIDE_MEMORY: u64 = 72 << 20;
/// What an imported value is counted as: a trial of the document.
const OF_VALUE: u64 = 800;

/// The files of a side.
struct Files {
    /// What they may still take in memory.
    memory: u64,
    /// Those that have results, by the digests of their contents.
    seen: BTreeMap<String, String>,
}

impl Files {
    /// Takes note of a file of this digest. A copy of another one is the same run, which counts once.
    fn once(&mut self, file: &Path, digest: String) -> Result<(), Unread> {
        let name = file.display();
        match self.seen.insert(digest, name.to_string()) {
            Some(same) => Err(Unread::Refused(Refusal::bad_input(format!(
                "{name}: the same as {same}; a run counts once, name each file once"
            )))),
            None => Ok(()),
        }
    }
}

/// What says of a result document that it is one.
#[derive(Deserialize)]
struct Head {
    format: String,
}

/// What was read of a file.
enum Found {
    /// A result document.
    Document(Box<Document>),
    /// Results of another program.
    Values(Box<Imported>),
}

/// Why a file is not part of a side.
enum Unread {
    /// It has no results that are recognised: in a folder it is another's.
    Neither(Refusal),
    /// It has, and they cannot be used.
    Refused(Refusal),
}

impl Unread {
    fn refusal(self) -> Refusal {
        let (Unread::Neither(refusal) | Unread::Refused(refusal)) = self;
        refusal
    }
}

/// The documents of a folder. What has no results is left out and named; what has results that cannot be read is not.
fn folder(context: &Context, path: &Path, files: &mut Files) -> Result<Vec<Document>, Refusal> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for file in files_in(path)? {
        match read(&file, files) {
            Ok(of) => found.push((file, of)),
            Err(Unread::Neither(_)) => left_out.push(file),
            Err(Unread::Refused(refusal)) => return Err(refusal),
        }
    }
    let names: Vec<String> = left_out.iter().map(|file| file.display().to_string()).collect();
    if found.is_empty() {
        let what = "no file in it is a result document or has results of a program that is recognised";
        return Err(Refusal::bad_input(format!("{}: {what}: {}; {REMEDY}", path.display(), shortened(&names))));
    }
    if !names.is_empty() {
        let what = "neither a result document nor results of a program that is recognised";
        say(format_args!("warning: left out, {what}: {}", shortened(&names)));
    }
    // All of them fit: values take longest to be stored.
    found.into_iter().map(|(file, of)| document(context, &file, of)).collect()
}

/// The first of some names, and how many more there are.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// What to name instead.
const REMEDY: &str = "name a run, a file of `baremark run --json`, or one that `baremark import` recognises; of others, name the runs that \
                      `baremark import FILE --format FORMAT --as NAME` stores";

/// How the format of a result document begins, and within how many bytes it stands in one.
const OWN: &[u8] = b"\"baremark-result/";
const FIRST_KEYS: usize = 4096;

/// The document of what was read of a file.
fn document(context: &Context, file: &Path, found: Found) -> Result<Document, Refusal> {
    match found {
        Found::Document(document) => Ok(*document),
        Found::Values(imported) => {
            let apart = import::apart(context, file, &imported)?;
            drop(imported);
            stored(&apart.store, apart.id.as_str())
        }
    }
}

/// A result document, or what another program has written of its own results. The file is read once. `files` are those of its side.
fn read(file: &Path, files: &mut Files) -> Result<Found, Unread> {
    let name = file.display();
    let refused = |why: String| Unread::Refused(Refusal::bad_input(why));
    let io = |why: std::io::Error| refused(format!("reading {name}: {why}"));
    let mut opened = File::open(file).map_err(io)?;
    let mut bytes = Vec::new();
    (&mut opened).take(LONGEST_DOCUMENT + 1).read_to_end(&mut bytes).map_err(io)?;
    let digest = baremark_bundle::digest(&bytes);
    let head = serde_json::from_slice::<Head>(&bytes).ok().filter(|_| bytes.len() as u64 <= LONGEST_DOCUMENT);
    if head.as_ref().is_some_and(|head| [FORMAT, FORMER_FORMAT].contains(&head.format.as_str())) {
        // Of a document of the former format the trials are read; its outcomes are worked out anew wherever they are used.
        let wrong = |why: serde_json::Error| refused(format!("{name}: {why}"));
        files.memory -= baremark_json::check(&bytes, files.memory).map_err(wrong)?;
        let mut document = serde_json::from_slice(&bytes).map_err(wrong)?;
        renamed::document(&mut document);
        files.once(file, digest)?;
        return Ok(Found::Document(Box::new(document)));
    }
    // The format is the first key of a result document.
    let own = bytes[..bytes.len().min(FIRST_KEYS)].windows(OWN.len()).any(|at| at == OWN);
    let from = Cursor::new(bytes).chain(opened);
    let most_values = usize::try_from(files.memory / OF_VALUE).unwrap_or(usize::MAX);
    match import::read_apart(from, most_values) {
        Ok(imported) => {
            files.memory = files.memory.saturating_sub(OF_VALUE * import::values_of(&imported) as u64);
            files.once(file, digest)?;
            Ok(Found::Values(Box::new(imported)))
        }
        Err(import::NotApart::Damaged(why)) => Err(refused(format!("{name}: {why}"))),
        Err(import::NotApart::Unknown) if own => Err(refused(format!(
            "{name} is a result document that is cut off, longer than {} MiB or of another version; name its run",
            LONGEST_DOCUMENT >> 20
        ))),
        Err(import::NotApart::Unknown) => {
            let what = match head {
                Some(Head { format }) => format!("its format is '{format}', not '{FORMAT}'"),
                None => "its format is not recognised".to_owned(),
            };
            Err(Unread::Neither(Refusal::bad_input(format!(
                "{name} is neither a result document nor results of another program: {what}; {REMEDY}"
            ))))
        }
    }
}

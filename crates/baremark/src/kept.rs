//! Predictions of programs, kept next to the store: what `baremark predict -- PROGRAM` found of a program, for reports of its runs.
//!
//! The name of a file is a digest of the program's bytes and its arguments. Files that the program reads are not part of it: where
//! they change, its accesses may. A prediction is of the machine on which it was made, and reports of other machines' runs leave it
//! alone; so do they where the program's file was changed after the run began, since another program may have been measured.

use crate::context::Context;
use crate::exit::Refusal;
use baremark_bundle::digest;
use baremark_mmu::page::Page;
use baremark_mmu::predict::{Cell, Interval, Prediction};
use baremark_mmu::scheme::Scheme;
use baremark_model::units::UnixTime;
use baremark_programs::executable::located;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FORMAT: &str = "baremark-program-prediction/1";
const FOLDER: &str = "predictions";
const SECOND_NS: u64 = 1_000_000_000;

/// What was predicted of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    format: String,
    /// The program and its arguments, for people.
    pub program: Vec<String>,
    /// The machine's fingerprint.
    pub machine: String,
    /// The processor, and whether it was calibrated.
    pub processor: String,
    /// Whether the program was traced to its end.
    pub whole: bool,
    /// Cores that were taken to do the same at once.
    pub cores: u32,
    times: Vec<Time>,
}

/// The run time under one scheme over that of native with one page size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Time {
    scheme: String,
    native: String,
    median: f64,
    low: f64,
    high: f64,
}

impl Kept {
    /// Of a prediction of a program that was traced to its end, alone; either may be set otherwise.
    pub fn of(prediction: &Prediction, program: Vec<String>, machine: String, processor: String) -> Self {
        let of_cell = |cell: &Cell| {
            let scheme = cell.scheme.to_string();
            let time = |(page, of): &(Page, Interval)| Time {
                scheme: scheme.clone(),
                native: page.to_string(),
                median: of.median,
                low: of.low,
                high: of.high,
            };
            cell.against.iter().map(time).collect::<Vec<_>>()
        };
        let times = prediction.cells.iter().flat_map(of_cell).collect();
        Kept { format: FORMAT.to_owned(), program, machine, processor, whole: true, cores: 1, times }
    }

    /// The run time under `scheme` over that of native with pages of `native`.
    pub fn time(&self, scheme: Scheme, native: Page) -> Option<Interval> {
        let (scheme, native) = (scheme.to_string(), native.to_string());
        let found = self.times.iter().find(|time| time.scheme == scheme && time.native == native)?;
        Some(Interval { median: found.median, low: found.low, high: found.high })
    }

    /// Keeps it under a key; where it is.
    pub fn save(&self, context: &Context, key: &str) -> Result<PathBuf, Refusal> {
        let folder = folder(context)?;
        let path = folder.join(key).with_extension("json");
        let new = folder.join(format!("{key}.{}.new", std::process::id()));
        let text = serde_json::to_string_pretty(self).map_err(Refusal::failure)? + "\n";
        // Written whole or not at all: another command may read it meanwhile.
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|why| Refusal::failure(format!("writing {}: {why}", path.display())))?;
        Ok(path)
    }
}

fn folder(context: &Context) -> Result<PathBuf, Refusal> {
    Ok(context.store_path()?.with_file_name(FOLDER))
}

/// The name under which a program's prediction is kept; `None` where there is no such program.
pub fn key(words: &[String], directory: &Path, path: &str) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    key_of(&located(name, directory, path).ok()?, arguments)
}

fn key_of(file: &Path, arguments: &[String]) -> Option<String> {
    let mut text = digest(&fs::read(file).ok()?);
    // No argument holds the byte 0.
    arguments.iter().for_each(|argument| text.extend(["\0", argument.as_str()]));
    Some(digest(text.as_bytes()))
}

/// What is kept of a program that was run at `started`; `None` where nothing is, or another program may have been run then. What cannot be
/// read is left alone: a report never fails for lack of a prediction.
pub fn find(context: &Context, words: &[String], directory: &Path, path: &str, started: UnixTime) -> Option<Kept> {
    let folder = folder(context).ok().filter(|folder| folder.is_dir())?;
    let (name, arguments) = words.split_first()?;
    let file = located(name, directory, path).ok()?;
    // The time of the last change of the file or its attributes, which nobody can set back.
    let changed = u64::try_from(fs::metadata(&file).ok()?.ctime()).ok()?;
    if changed > started.0 / SECOND_NS {
        return None;
    }
    let text = fs::read_to_string(folder.join(key_of(&file, arguments)?).with_extension("json")).ok()?;
    serde_json::from_str(&text).ok().filter(|kept: &Kept| kept.format == FORMAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_bytes_and_arguments() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |bytes: &str, words: &[&str]| {
            fs::write(folder.path().join("program"), bytes).expect("written");
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            key_of(&folder.path().join("program"), &words).expect("a key")
        };
        let first = key("one", &["a", "b"]);
        assert_eq!(first, key("one", &["a", "b"]));
        for (bytes, words) in [("two", &["a", "b"][..]), ("one", &["ab"]), ("one", &["a"]), ("one", &[])] {
            assert_ne!(first, key(bytes, words), "{bytes} {words:?}");
        }
        assert_eq!(super::key(&[], folder.path(), ""), None);
        assert_eq!(super::key(&["./none".to_owned()], folder.path(), ""), None);
    }

    #[test]
    fn the_time_of_a_scheme_is_found_for_the_native_pages_that_are_meant() {
        let time = |scheme: Scheme, native: Page, median: f64| Time {
            scheme: scheme.to_string(),
            native: native.to_string(),
            median,
            low: median - 0.1,
            high: median + 0.1,
        };
        let nested = Scheme::Nested { guest_page: Page::Large, host_backing: Page::Small };
        let kept = Kept {
            format: FORMAT.to_owned(),
            program: vec!["./a".to_owned()],
            machine: "m".to_owned(),
            processor: "p".to_owned(),
            whole: true,
            cores: 1,
            times: vec![time(nested, Page::Small, 1.2), time(nested, Page::Large, 1.5)],
        };
        let of = |native: Page| kept.time(nested, native).map(|of| (of.low, of.median, of.high));
        assert_eq!(of(Page::Small), Some((1.2 - 0.1, 1.2, 1.2 + 0.1)));
        assert_eq!(of(Page::Large), Some((1.5 - 0.1, 1.5, 1.5 + 0.1)));
        let shadow = Scheme::Shadow { guest_page: Page::Large, host_backing: Page::Small };
        assert_eq!(kept.time(shadow, Page::Small), None);
        let text = serde_json::to_string(&kept).expect("JSON");
        assert_eq!(serde_json::from_str::<Kept>(&text).expect("read"), kept);
    }
}

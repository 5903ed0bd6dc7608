//! Files of the lab's machine that a program needs at their own paths, at a site that is another.
//!
//! Where the site has no files but this program they are put at their paths. At any other site nothing is written outside of
//! private folders: files that are there and alike are used, the program and files among its arguments replace those
//! that are not, and a library is the site's own.

use baremark_model::job::JobError;
use baremark_model::site::OWN_ROOT;
use baremark_model::value::Program;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What takes the place of words of a program's arguments, and what a reader should know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Laid {
    stand_ins: BTreeMap<PathBuf, String>,
    /// What a reader should know.
    pub(crate) flags: Vec<String>,
}

/// Puts the files of `program` where it finds them.
pub(crate) fn lay(program: &Program, directory: &str) -> Result<Laid, JobError> {
    lay_at(program, directory, std::env::var_os(OWN_ROOT).is_some())
}

fn lay_at(program: &Program, directory: &str, own_root: bool) -> Result<Laid, JobError> {
    let mut laid = Laid::default();
    let brought: Vec<(&String, &String)> = program.carry.iter().filter(|(_, brought)| !brought.is_empty()).collect();
    if brought.is_empty() {
        return Ok(laid);
    }
    if own_root {
        for (path, brought) in brought {
            put(Path::new(brought), Path::new(path))
                .map_err(|why| JobError::failed(format!("putting {path} into the site: {why}")))?;
        }
        if !directory.is_empty() {
            fs::create_dir_all(directory).map_err(|why| JobError::failed(format!("making {directory}: {why}")))?;
        }
        return Ok(laid);
    }
    let named = named(program, directory);
    for (path, brought) in brought {
        let (there, known) =
            (Path::new(path), named.iter().any(|of| of == Path::new(path)) || is_program(program, path));
        match (alike(there, Path::new(brought)).unwrap_or(false), known, there.exists()) {
            (true, ..) => {}
            (_, true, _) => drop(laid.stand_ins.insert(there.to_owned(), brought.clone())),
            (_, false, true) => laid.flags.push(format!("{path} is the site's own, which differs from this machine's")),
            (_, false, false) => {
                let what = format!("file {path} not found at site");
                let remedy = "install it there, or link the program statically".to_owned();
                return Err(JobError::Missing { what, remedy });
            }
        }
    }
    Ok(laid)
}

/// The files that the words of a program name.
fn named(program: &Program, directory: &str) -> Vec<PathBuf> {
    program.argv.iter().map(|word| absolute(directory, word)).collect()
}

/// Whether `path` is the program that its name is looked up for.
fn is_program(program: &Program, path: &str) -> bool {
    let name = program.argv.first().map_or("", String::as_str);
    !name.contains('/') && Path::new(path).file_name().is_some_and(|of| of == name)
}

fn absolute(directory: &str, word: &str) -> PathBuf {
    // Components drop `.` and doubled slashes, so that `./a` and `a` are one.
    Path::new(directory).join(word).components().collect()
}

impl Laid {
    /// A word of the program's arguments, or the file that replaces the one that it names.
    pub(crate) fn word(&self, directory: &str, index: usize, word: String) -> String {
        let named = self.stand_ins.get(&absolute(directory, &word));
        let looked_up = || {
            let is =
                |path: &&PathBuf| index == 0 && !word.contains('/') && path.file_name().is_some_and(|of| of == &*word);
            self.stand_ins.keys().find(is).and_then(|path| self.stand_ins.get(path))
        };
        named.or_else(looked_up).cloned().unwrap_or(word)
    }
}

/// Puts a file at a path at which nothing is yet.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(from, to).map(drop),
    }
}

/// Whether two files hold the same.
fn alike(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    loop {
        const PIECE: u64 = 1 << 20;
        a.clear();
        b.clear();
        one.by_ref().take(PIECE).read_to_end(&mut a)?;
        other.by_ref().take(PIECE).read_to_end(&mut b)?;
        if a != b || a.is_empty() {
            return Ok(a == b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        folder: tempfile::TempDir,
    }

    impl Case {
        fn file(&self, name: &str, text: &str) -> String {
            let path = self.folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, text).expect("written");
            path.to_string_lossy().into_owned()
        }

        fn path(&self, name: &str) -> String {
            self.folder.path().join(name).to_string_lossy().into_owned()
        }
    }

    fn program(argv: &[&str], carry: &[(&str, &str)]) -> Program {
        Program {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            carry: carry.iter().map(|&(path, brought)| (path.to_owned(), brought.to_owned())).collect(),
            ..Program::default()
        }
    }

    #[test]
    fn files_are_put_at_their_paths_where_nothing_else_is() {
        let case = Case { folder: tempfile::tempdir().expect("a folder") };
        let (brought, path) = (case.file("brought-0", "text"), case.path("usr/lib/lib.so"));
        let directory = case.path("home/work");
        let laid = lay_at(&program(&["p"], &[(&path, &brought)]), &directory, true).expect("laid");
        assert_eq!((fs::read_to_string(&path).ok().as_deref(), laid), (Some("text"), Laid::default()));
        assert!(Path::new(&directory).is_dir());
    }

    #[test]
    fn elsewhere_program_and_arguments_are_stood_in_for_and_libraries_are_the_sites_own() {
        let case = Case { folder: tempfile::tempdir().expect("a folder") };
        let directory = case.path("");
        let (tool, data, same) = (case.file("b0", "tool"), case.file("b1", "data"), case.file("b2", "same"));
        let (other, library) = (case.file("b3", "ours"), case.file("lib.so", "theirs"));
        let there = case.file("there", "same");
        let carry =
            [(case.path("bin/tool"), &tool), (case.path("data"), &data), (there.clone(), &same), (library, &other)];
        let carry: Vec<(&str, &str)> = carry.iter().map(|(path, brought)| (path.as_str(), brought.as_str())).collect();
        let program = program(&["tool", "./data", "there", "-v"], &carry);
        let laid = lay_at(&program, &directory, false).expect("laid");
        let words: Vec<String> =
            (0..).zip(&program.argv).map(|(at, of)| laid.word(&directory, at, of.clone())).collect();
        assert_eq!(words, [tool, data, "there".to_owned(), "-v".to_owned()]);
        assert_eq!(laid.flags.len(), 1, "{:?}", laid.flags);
        assert!(!Path::new(&case.path("bin")).exists(), "nothing is written there");
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let case = Case { folder: tempfile::tempdir().expect("a folder") };
        let brought = case.file("b0", "library");
        let carry = [("/nonexistent/lib.so", brought.as_str())];
        let why = lay_at(&program(&["p"], &carry), "/", false).expect_err("not there").to_string();
        assert_eq!(why, "file /nonexistent/lib.so not found at site; install it there, or link the program statically");
    }
}

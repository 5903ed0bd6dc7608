//! The files that programs need in environments that are not this machine.

use crate::exit::Refusal;
use baremark_programs::executable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files that programs with these words need, and those that are named besides, by their absolute paths.
pub fn files(commands: &[Vec<String>], with: &[PathBuf], folder: &str) -> Result<Vec<String>, Refusal> {
    let folder = Path::new(folder);
    let path = baremark_programs::workshop::search_path();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for words in commands {
        if let Some(program) = words.first().filter(|name| !name.is_empty() && !name.contains('{')) {
            let found = executable::located(program, folder, &path).and_then(|file| executable::files(&file, &path));
            files.extend(found.map_err(Refusal::bad_input)?);
        }
        files.extend(executable::named(words.get(1..).unwrap_or_default(), folder));
    }
    for named in with {
        files.extend(
            executable::within(&folder.join(named)).map_err(|why| Refusal::bad_input(format!("--with {why}")))?,
        );
    }
    let text = |file: PathBuf| {
        let unnamed =
            |file: std::ffi::OsString| Refusal::bad_input(format!("{}: not UTF-8; rename it", file.to_string_lossy()));
        file.into_os_string().into_string().map_err(unnamed)
    };
    files.into_iter().map(text).collect()
}

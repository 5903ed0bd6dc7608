//! What a program's file says of it before it runs: what else it needs, and whether the microVM can run it.
//!
//! Files are found by reading the ELF header and by asking the program's own interpreter (`ld.so --list`), which maps
//! libraries and does not start the program.

use baremark_sys::process::find_program;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of a file, decides what it is.
const HEAD: usize = 4096;
/// The most scripts that interpret each other, as in the kernel.
const SCRIPTS: usize = 5;
/// The most files that are carried for one program.
const MOST_FILES: usize = 10_000;
const MACHINE_X86_64: u16 = 62;
const SEGMENT_INTERPRETER: u32 = 3;
/// What a program with LeakSanitizer has in its file: the names of its libraries or of its function.
const LEAK_SANITIZER: [&[u8]; 3] = [b"libasan.so", b"liblsan.so", b"__lsan_do_leak_check"];

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// An ELF file of 64-bit x86, with its interpreter if it has one.
    Program(Option<PathBuf>),
    /// An ELF file of another kind, in words.
    Foreign(&'static str),
    /// A script: its interpreter and that one's argument.
    Script(PathBuf, Option<String>),
    /// Nothing that the kernel executes.
    Other,
}

/// Why the files that a program needs are not known.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// There is no such program.
    #[error("program {0} not found; install it, or name its path")]
    Absent(String),
    /// A file or a folder cannot be read.
    #[error("{}: {source}", .path.display())]
    Unread {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A script's interpreter is a script, and so on.
    #[error("{}: scripts interpret each other without end", .0.display())]
    Endless(PathBuf),
    /// Its interpreter does not list its libraries.
    #[error("{} --list {}: {why}", .interpreter.display(), .program.display())]
    Unlisted {
        /// The interpreter.
        interpreter: PathBuf,
        /// The program.
        program: PathBuf,
        /// What the interpreter, or the system, says.
        why: String,
    },
    /// A library that it needs is not installed.
    #[error("library {library} of {} not found; install it", .program.display())]
    Library {
        /// Its name.
        library: String,
        /// The program.
        program: PathBuf,
    },
    /// A folder holds too much to be carried.
    #[error("{} holds more than {max} files; name those that are needed", .0.display(), max = MOST_FILES)]
    TooMany(PathBuf),
}

/// Where a program lies that is named as a command: along `path`, or from `directory` on.
///
/// # Errors
/// When there is none, with the remedy.
pub fn located(name: &str, directory: &Path, path: &str) -> Result<PathBuf, FilesError> {
    let named = if name.contains('/') { directory.join(name).to_string_lossy().into_owned() } else { name.to_owned() };
    let found = find_program(&named, path).ok_or_else(|| FilesError::Absent(name.to_owned()))?;
    Ok(directory.join(found).components().collect())
}

/// Every file that a program needs in addition to what it opens by itself: its own, its interpreters', their libraries.
///
/// # Errors
/// What cannot be read or found.
pub fn files(program: &Path, path: &str) -> Result<BTreeSet<PathBuf>, FilesError> {
    let mut files = BTreeSet::new();
    add(program, path, SCRIPTS, &mut files)?;
    Ok(files)
}

fn add(program: &Path, path: &str, depth: usize, files: &mut BTreeSet<PathBuf>) -> Result<(), FilesError> {
    files.insert(program.to_owned());
    match kind(program).map_err(|source| FilesError::Unread { path: program.to_owned(), source })? {
        Kind::Program(None) | Kind::Foreign(_) | Kind::Other => Ok(()),
        Kind::Program(Some(interpreter)) => {
            files.extend(libraries(program, &interpreter)?);
            files.insert(interpreter);
            Ok(())
        }
        Kind::Script(..) if depth == 0 => Err(FilesError::Endless(program.to_owned())),
        Kind::Script(interpreter, argument) => {
            add(&interpreter, path, depth - 1, files)?;
            // `#!/usr/bin/env NAME` looks NAME up.
            let by_env = interpreter.file_name().is_some_and(|name| name == "env");
            match argument.filter(|name| by_env && !name.contains([' ', '=', '/'])) {
                Some(name) => add(&located(&name, Path::new("/"), path)?, path, depth - 1, files),
                None => Ok(()),
            }
        }
    }
}

/// The files that a list of words names, from `directory` on: whole words, and what follows a `=`.
#[must_use]
pub fn named(words: &[String], directory: &Path) -> BTreeSet<PathBuf> {
    let values = words.iter().filter_map(|word| word.split_once('=').map(|(_, value)| value));
    let whole = words.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    let paths = whole.chain(values).filter(|text| !text.is_empty()).map(|text| directory.join(text));
    paths.filter(|path| path.is_file()).map(|path| path.components().collect()).collect()
}

/// A file, or all files in a folder.
///
/// # Errors
/// What cannot be read, or is too much.
pub fn within(path: &Path) -> Result<BTreeSet<PathBuf>, FilesError> {
    let mut found = BTreeSet::new();
    let mut open = vec![path.to_owned()];
    while let Some(next) = open.pop() {
        let unread = |source| FilesError::Unread { path: next.clone(), source };
        if !fs::metadata(&next).map_err(unread)?.is_dir() {
            found.insert(next);
        } else {
            for entry in fs::read_dir(&next).map_err(unread)? {
                let entry = entry.map_err(unread)?.path();
                // What a link leads to may be anywhere, and may lead back.
                if entry.is_file() || (entry.is_dir() && !entry.is_symlink()) {
                    open.push(entry);
                }
            }
        }
        if found.len() > MOST_FILES {
            return Err(FilesError::TooMany(path.to_owned()));
        }
    }
    Ok(found)
}

/// Why the microVM cannot run the program of this file, with the remedy; `None` where nothing in it says so.
#[must_use]
pub fn unfit_for_microvm(program: &Path, sanitizer_options: &str) -> Option<String> {
    let name = program.display();
    let metadata = fs::metadata(program).ok()?;
    let mode = metadata.permissions().mode();
    let owned = baremark_sys::confine::effective_user() == metadata.uid();
    if mode & 0o4000 != 0 && !owned {
        return Some(format!("{name} is set-user-ID, which the microVM cannot carry out; run it natively"));
    }
    match kind(program) {
        Err(why) => Some(format!("{name} cannot be read, which the microVM must: {why}")),
        Ok(Kind::Foreign(what)) => Some(format!("{name} is {what}; the microVM runs 64-bit x86 programs alone")),
        Ok(Kind::Script(interpreter, _)) => unfit_for_microvm(&interpreter, sanitizer_options),
        Ok(Kind::Program(_)) if !sanitizer_options.contains("detect_leaks=0") && checks_leaks(program) => {
            Some(format!(
                "{name} checks for leaks (LeakSanitizer) in a process that shares its memory, which the microVM refuses; set \
             ASAN_OPTIONS=detect_leaks=0"
            ))
        }
        Ok(_) => None,
    }
}

fn checks_leaks(program: &Path) -> bool {
    let Ok(bytes) = fs::read(program) else { return false };
    // A name that is only mentioned, as in this program, is followed by other text and not by its end.
    LEAK_SANITIZER.iter().any(|name| {
        let mut rest = bytes.as_slice();
        while let Some(at) = find(rest, name) {
            let after = &rest[at + name.len()..];
            let before = at.checked_sub(1).is_none_or(|before| rest[before] == 0);
            if before && after.first().is_some_and(|byte| matches!(byte, 0 | b'.')) {
                return true;
            }
            rest = after;
        }
        false
    })
}

fn find(bytes: &[u8], name: &[u8]) -> Option<usize> {
    let first = *name.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(name) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn kind(program: &Path) -> io::Result<Kind> {
    let mut head = Vec::new();
    File::open(program)?.take(HEAD as u64).read_to_end(&mut head)?;
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).trim().to_owned();
        let (interpreter, argument) = match line.split_once([' ', '\t']) {
            Some((interpreter, argument)) => (interpreter, Some(argument.trim().to_owned())),
            None => (line.as_str(), None),
        };
        return Ok(Kind::Script(PathBuf::from(interpreter), argument));
    }
    Ok(match head.strip_prefix(b"\x7fELF") {
        None => Kind::Other,
        Some([1, ..]) => Kind::Foreign("a 32-bit program"),
        Some(_) if number::<2>(&head, 18) != Some(u64::from(MACHINE_X86_64)) => Kind::Foreign("of another processor"),
        Some(_) => Kind::Program(interpreter(&head, program)?),
    })
}

/// A little-endian number of `N` bytes.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// The interpreter that an ELF file asks for. Source: System V ABI, program headers of ELF64.
fn interpreter(head: &[u8], program: &Path) -> io::Result<Option<PathBuf>> {
    let place = |at| number::<8>(head, at).and_then(|number| usize::try_from(number).ok());
    let (Some(table), Some(size), Some(count)) = (place(32), number::<2>(head, 54), number::<2>(head, 56)) else {
        return Ok(None);
    };
    for index in 0..count {
        let Some(at) = usize::try_from(index * size).ok().and_then(|offset| table.checked_add(offset)) else { break };
        if number::<4>(head, at) != Some(u64::from(SEGMENT_INTERPRETER)) {
            continue;
        }
        let (Some(offset), Some(length)) = (place(at + 8), number::<8>(head, at + 32)) else { break };
        let mut file = File::open(program)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(offset as u64))?;
        let mut text = Vec::new();
        file.take(length.min(HEAD as u64)).read_to_end(&mut text)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        return Ok(Some(PathBuf::from(String::from_utf8_lossy(text).into_owned())));
    }
    Ok(None)
}

/// The libraries of a dynamic program, by its own interpreter.
fn libraries(program: &Path, interpreter: &Path) -> Result<BTreeSet<PathBuf>, FilesError> {
    let unlisted = |why: String| {
        let (interpreter, program) = (interpreter.to_owned(), program.to_owned());
        FilesError::Unlisted { interpreter, program, why }
    };
    let mut list = Command::new(interpreter);
    list.arg("--list").arg(program).stdin(Stdio::null());
    let output = list.output().map_err(|why| unlisted(why.to_string()))?;
    if !output.status.success() {
        return Err(unlisted(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    listed(&text).map_err(|library| FilesError::Library { library: library.to_owned(), program: program.to_owned() })
}

/// The paths in `NAME => PATH (ADDRESS)` and `PATH (ADDRESS)`; else the library that is not found.
fn listed(text: &str) -> Result<BTreeSet<PathBuf>, &str> {
    let mut paths = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        let (name, path) = line.split_once(" => ").map_or((line, line), |(name, path)| (name, path));
        if path.starts_with("not found") {
            return Err(name);
        }
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
        if path.starts_with('/') {
            paths.insert(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

    #[test]
    fn a_dynamic_program_needs_its_interpreter_and_libraries_and_a_script_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let shell = located("sh", Path::new("/"), PATH).expect("a shell");
        let of_shell = files(&shell, PATH).expect("its files");
        let names = |files: &BTreeSet<PathBuf>| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let has = |files: &BTreeSet<PathBuf>, part: &str| names(files).iter().any(|name| name.contains(part));
        assert!(has(&of_shell, "ld-linux") && has(&of_shell, "libc.so"), "{of_shell:?}");
        let script = folder.path().join("script");
        fs::write(&script, "#!/usr/bin/env sh\necho").expect("written");
        let of_script = files(&script, PATH).expect("its files");
        assert!(
            of_script.is_superset(&of_shell) && has(&of_script, "bin/env") && of_script.contains(&script),
            "{of_script:?}"
        );
    }

    #[test]
    fn what_the_interpreter_lists_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x7f)\n\t/lib64/ld.so (0x1)\n";
        let found = listed(text).expect("all found");
        assert_eq!(found, BTreeSet::from(["/lib/x86_64-linux-gnu/libm.so.6".into(), "/lib64/ld.so".into()]));
        assert_eq!(listed("\tlibx.so.1 => not found\n"), Err("libx.so.1"));
    }

    #[test]
    fn words_that_name_files_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("data"), "").expect("written");
        let words = ["tool", "./data", "--in=data", "-x", "none", "--k="].map(str::to_owned);
        assert_eq!(named(&words, folder.path()), BTreeSet::from([folder.path().join("data")]));
    }

    #[test]
    fn what_the_microvm_cannot_run_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).expect("written");
            path
        };
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        (elf[18], elf[19]) = (62, 0);
        let why = |path: &Path| unfit_for_microvm(path, "").unwrap_or_default();
        assert_eq!(why(&write("plain", &elf)), "");
        let leaks = write("leaks", &[&elf[..], b"\0libasan.so.8\0"].concat());
        assert!(why(&leaks).contains("set ASAN_OPTIONS=detect_leaks=0"), "{}", why(&leaks));
        assert_eq!(unfit_for_microvm(&leaks, "detect_leaks=0"), None);
        let mentions = write("mentions", &[&elf[..], b"liblibasan.so and more\0"].concat());
        assert_eq!(why(&mentions), "");
        elf[4] = 1;
        assert!(why(&write("old", &elf)).contains("a 32-bit program"));
        (elf[4], elf[18]) = (2, 183);
        assert!(why(&write("arm", &elf)).contains("of another processor"));
    }

    #[test]
    fn a_folder_is_all_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("sub")).expect("made");
        fs::write(folder.path().join("sub/file"), "").expect("written");
        let found = within(folder.path()).expect("its files");
        assert_eq!(found, BTreeSet::from([folder.path().join("sub/file")]));
        within(Path::new("/nonexistent")).expect_err("not there");
    }
}

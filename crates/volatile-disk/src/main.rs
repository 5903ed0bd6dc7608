//! `baremark-volatile-disk STORED AT`: mounts a volatile disk, says `mounted`, and unmounts it when its input ends.
#![forbid(unsafe_code)]

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [stored, at] = folders.as_slice() else { return failed("two folders are needed; write STORED AT") };
    let mounted = match baremark_volatile_disk::mount(stored, at) {
        Ok(mounted) => mounted,
        Err(why) => return failed(&format!("{}: {why}; is /dev/fuse there, and may you mount?", at.display())),
    };
    let said = writeln!(io::stdout(), "mounted");
    // Whoever started it is gone, or wants it gone.
    let ended = io::stdin().read_to_end(&mut Vec::new());
    drop(mounted);
    if said.is_ok() && ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn failed(why: &str) -> ExitCode {
    drop(writeln!(io::stderr(), "{why}"));
    ExitCode::FAILURE
}

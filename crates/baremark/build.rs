//! The text of `baremark --version`: the version, and the commit of the source where git knows it.
//!
//! It runs again when HEAD moves, and only this crate is built again then. Without git, outside of a clone, and in a folder of another project's
//! clone there is no commit. BAREMARK_COMMIT is used instead where it is set.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BAREMARK_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("BAREMARK_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(of_the_clone);
    let text = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=BAREMARK_VERSION={text}");
}

/// The commit of the clone in which this is, if the project is all of it; what changes with it is watched.
fn of_the_clone() -> Option<String> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let git = |words: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(&root).args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    // The log of HEAD grows with every commit and checkout; without one, HEAD or its branch change. A file that is missing must not be watched:
    // it would be rebuilt each time.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]).unwrap_or_default();
    let watched = ["logs/HEAD", "HEAD", "packed-refs", &branch].map(|name| git(&["rev-parse", "--git-path", name]));
    let present = watched.into_iter().flatten().map(|path| root.join(path)).filter(|path| path.is_file());
    present.for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
    Some(commit)
}

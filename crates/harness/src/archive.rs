//! Logs and configurations of a trial, kept after its end.
//!
//! What instances were started with and what they wrote is copied; their data, keys and passwords are not.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Larger files are data.
const LARGEST: u64 = 16 << 20;
/// Folders below a trial's own that are gone through: those of applications, instances, and their configurations.
const DEPTH: usize = 3;
/// Endings of what is kept.
const KEPT: [&str; 6] = ["conf", "cnf", "cfg", "log", "toml", "ini"];
/// How lines of configurations begin that hold a secret of the trial.
const SECRETS: [&str; 1] = ["requirepass "];

/// Keeps what is below `run`, the folder of a trial, in a folder of the same name in `keep`, with the last lines of each
/// instance's log, by the path of its folder.
///
/// # Errors
/// What copying gave.
pub(crate) fn keep(run: &Path, logs: &[(PathBuf, Vec<String>)], keep: &Path) -> io::Result<()> {
    let Some(name) = run.file_name() else { return Ok(()) };
    let kept = keep.join(name);
    copy(run, &kept, DEPTH)?;
    for (folder, lines) in logs {
        let Ok(below) = folder.strip_prefix(run) else { continue };
        write(&kept.join(below).join("last-lines.log"), lines.join("\n").as_bytes())?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let target = to.join(entry.file_name());
        if kind.is_dir() && depth > 0 {
            copy(&path, &target, depth - 1)?;
        } else if kind.is_file() && is_kept(&path) && entry.metadata()?.len() <= LARGEST {
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            let open = |line: &&str| !SECRETS.iter().any(|secret| line.starts_with(secret));
            let text: String = text.split_inclusive('\n').filter(open).collect();
            write(&target, text.as_bytes())?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

fn is_kept(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| KEPT.contains(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_configurations_are_kept_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let (run, kept) = (folder.path().join("run-1"), folder.path().join("kept"));
        fs::create_dir_all(run.join("main/web-1/conf")).expect("folders");
        let files = ["main/web-1/nginx.conf", "main/web-1/error.log", "main/web-1/conf/site.conf"];
        for name in files.iter().chain(&["main/password", "main/web-1/key.pem", "main/auction.db"]) {
            fs::write(run.join(name), format!("requirepass secret\n{name}\n")).expect("a file");
        }
        let logs = [(run.join("main/app-1"), vec!["listening".to_owned(), "bye".to_owned()])];
        keep(&run, &logs, &kept).expect("copied");
        let found = |name: &str| fs::read_to_string(kept.join("run-1").join(name)).ok();
        for name in files {
            assert_eq!(found(name), Some(format!("{name}\n")), "without the secret");
        }
        assert_eq!(found("main/app-1/last-lines.log").as_deref(), Some("listening\nbye"));
        for name in ["main/password", "main/web-1/key.pem", "main/auction.db"] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}

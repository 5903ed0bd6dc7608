//! Scripts in a folder of their own that play programs of others.

use super::sites::{PLAYED, Program};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// QEMU as far as it says that it is here.
pub const QEMU: (&str, &str) = ("qemu-system-x86_64", "#!/bin/sh\necho QEMU emulator version 7.2.0\n");

/// The folder, with one for temporary files in it.
pub struct Scripts {
    pub folder: TempDir,
}

impl Scripts {
    /// With these scripts, each a name and its text.
    pub fn new(scripts: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        for (name, text) in scripts {
            fs::write(folder.path().join(name), text).unwrap();
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Scripts { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A PATH on which these come first.
    pub fn search_path(&self) -> String {
        format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap())
    }

    /// Runs one ignored test of this suite as a process that finds these scripts, and the program by [`PLAYED`].
    pub fn run(&self, test: &str, program: &Program) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", test]).env("PATH", self.search_path());
        command.env(PLAYED, program.path()).env("TMPDIR", self.path("temporary"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("test result: ok. 1 passed;"), "{said}");
    }
}

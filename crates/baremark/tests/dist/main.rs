//! What `make dist` hands out: it is built, installed into empty roots and run there by an ordinary user; another folder gives the same bytes.
//!
//! The first build takes a quarter of an hour and more, later ones what has changed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate that prints what it skips"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// An ordinary user, who owns nothing.
const USER: &str = "65534:65534";

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| source().join("target"), |folder| source().join(folder))
}

fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{said}{}", String::from_utf8_lossy(&stderr));
    said
}

/// Whether the tests can run here; where not, a line that is counted.
fn able() -> bool {
    let missing = ["dpkg", "dpkg-deb", "git", "python3", "strip", "chroot"];
    let has = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    if let Some(program) = missing.iter().find(|program| !has(program)) {
        println!("skipped: no {program}");
        return false;
    }
    let clone = Command::new("git").arg("-C").arg(source()).args(["rev-parse", "HEAD"]).output();
    if !clone.is_ok_and(|output| output.status.success()) {
        println!("skipped: not a clone of the project");
        return false;
    }
    let root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    if !root {
        println!("skipped: not root, for an empty root");
    }
    root
}

/// Runs `scripts/dist` of this clone and gives the folder of what it built.
fn built(clone: &Path, target: &Path) -> PathBuf {
    succeeded(Command::new(clone.join("scripts/dist")).current_dir(clone).env("CARGO_TARGET_DIR", target));
    target.join("dist")
}

/// The file in a folder whose name ends so.
fn file(folder: &Path, end: &str) -> PathBuf {
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = found.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "*{end} in {}: {found:?}", folder.display());
    found[0].clone()
}

/// A root with nothing but what was installed below `prefix`, and a folder of temporary files.
struct Root {
    folder: TempDir,
    prefix: &'static str,
}

impl Root {
    fn of_tarball(tarball: &Path) -> Root {
        let root = Root { folder: TempDir::new().unwrap(), prefix: "usr/local" };
        let prefix = root.folder.path().join(root.prefix);
        succeeded(Command::new(source().join("scripts/install")).arg(tarball.parent().unwrap()).arg(prefix));
        root
    }

    fn of_package(package: &Path) -> Root {
        let root = Root { folder: TempDir::new().unwrap(), prefix: "usr" };
        let database = root.folder.path().join("var/lib/dpkg");
        for below in ["info", "updates", "triggers"] {
            fs::create_dir_all(database.join(below)).unwrap();
        }
        fs::write(database.join("status"), "").unwrap();
        let dpkg = |words: &[&str]| {
            let mut command = Command::new("dpkg");
            command.arg(format!("--root={}", root.folder.path().display())).args(words);
            succeeded(&mut command)
        };
        dpkg(&["--install", package.to_str().unwrap()]);
        assert!(dpkg(&["--status", "baremark"]).contains("install ok installed"));
        root
    }

    fn has(&self, path: &str) -> bool {
        fs::metadata(self.folder.path().join(self.prefix).join(path)).is_ok_and(|meta| meta.len() > 0)
    }

    /// What the program prints in this root, run by an ordinary user with the machine's /proc, /sys and /dev.
    fn run(&self, arguments: &[&str]) -> String {
        let tmp = self.folder.path().join("tmp");
        fs::create_dir_all(&tmp).unwrap();
        fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let script = "root=$1 program=$2; shift 2
            for one in proc sys dev; do mkdir -p \"$root/$one\" && mount --rbind \"/$one\" \"$root/$one\" || exit 9; done
            exec chroot --userspec=USER \"$root\" \"$program\" \"$@\"";
        let script = script.replace("USER", USER);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]).arg(self.folder.path());
        command.arg(format!("/{}/bin/baremark", self.prefix)).args(arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/tmp").current_dir("/");
        succeeded(&mut command)
    }
}

#[test]
fn what_is_handed_out_installs_and_measures_for_an_ordinary_user() {
    if !able() {
        return;
    }
    let folder = built(&source(), &target());
    let commit = succeeded(Command::new("git").arg("-C").arg(source()).args(["rev-parse", "--short=8", "HEAD"]));
    for root in [Root::of_tarball(&file(&folder, ".tar.gz")), Root::of_package(&file(&folder, ".deb"))] {
        let files = [
            "share/man/man1/baremark.1",
            "share/man/man1/baremark-run.1",
            "share/bash-completion/completions/baremark",
            "share/zsh/vendor-completions/_baremark",
            "share/fish/vendor_completions.d/baremark.fish",
            "share/doc/baremark/README.md",
            "share/doc/baremark/docs/guide.md",
            "share/baremark/studies/standard.toml",
        ];
        let missing: Vec<&&str> = files.iter().filter(|path| !root.has(path)).collect();
        assert!(missing.is_empty(), "not below {}: {missing:?}", root.prefix);
        let version = root.run(&["--version"]);
        let wanted = format!("baremark {} ({}", env!("CARGO_PKG_VERSION"), commit.trim());
        assert!(version.starts_with(&wanted), "{version}");
        let report = root.run(&["run", "standard", "--quick", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(document["run"]["study"], "STREAM, random access and HPL: native against virtual", "{report}");
        assert_eq!(document["run"]["version"], env!("CARGO_PKG_VERSION"), "{report}");
        // Whether each counts depends on what else runs here; a block has five and more.
        assert!(document["trials"].as_array().is_some_and(|trials| trials.len() >= 5), "{report}");
    }
}

#[test]
fn the_wheel_holds_the_program_of_the_tarball() {
    if !able() {
        return;
    }
    let folder = built(&source(), &target());
    let root = Root::of_tarball(&file(&folder, ".tar.gz"));
    let script = "import sys, zipfile\nwheel = zipfile.ZipFile(sys.argv[1])\n\
                  name, = [name for name in wheel.namelist() if name.endswith('/scripts/baremark')]\n\
                  assert wheel.read(name) == open(sys.argv[2], 'rb').read() and wheel.getinfo(name).external_attr >> 16 & 0o111";
    let program = root.folder.path().join("usr/local/bin/baremark");
    succeeded(Command::new("python3").args(["-c", script]).arg(file(&folder, ".whl")).arg(program));
}

#[test]
fn the_same_commit_gives_the_same_bytes_in_another_folder() {
    if !able() {
        return;
    }
    let git = |folder: &Path, words: &[&str]| succeeded(Command::new("git").arg("-C").arg(folder).args(words));
    if !git(&source(), &["status", "--porcelain", "--untracked-files=no"]).trim().is_empty() {
        println!("skipped: files differ from the commit, of which another folder has a clone");
        return;
    }
    // Kept: the next time it builds what has changed.
    let again = target().join("dist-again");
    let clone = again.join("clone");
    if !clone.is_dir() {
        succeeded(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(source()).arg(&clone));
    }
    git(&clone, &["fetch", "--quiet", "origin"]);
    let commit = git(&source(), &["rev-parse", "HEAD"]);
    git(&clone, &["checkout", "--quiet", "--detach", commit.trim()]);
    let sums = |folder: PathBuf| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let (here, there) = (sums(built(&source(), &target())), sums(built(&clone, &again.join("target"))));
    assert_eq!(here, there, "the bytes depend on the folder");
    assert_eq!(here.lines().count(), 3, "{here}");
}

//! A place for one test: a folder of its own, a store in it, and the program.

use crate::common::outcome::keeps_rules;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A study that is over in seconds: small tables, short phases, few blocks.
pub const SMALL: &str = r#"
[study]
title = "a small study"
[workload]
kind = "random-access"
table = "8 MiB"
[factors]
environment = ["native", "null"]
page = "4k"
ranks = 1
[design]
phase = "20 ms"
quads = 1
least_blocks = 10
most_blocks = 12
precision = "0.1 %"
budget = "60 s"
[report]
ratio_to = { environment = "native" }
"#;

/// The same with four blocks, as many as an interval takes.
pub fn small_of_four_blocks() -> String {
    SMALL.replace("_blocks = 10", "_blocks = 4").replace("_blocks = 12", "_blocks = 4")
}

/// As many trials as fit until it is interrupted, in which a program rests.
pub const ENDLESS: &str = "[study]\ntitle = \"long\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"sleep\", \"0.1\"]\n\
                           [design]\nleast_blocks = 5000\nmost_blocks = 5000\nbudget = \"1 h\"\n";

pub struct Bench {
    pub folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Bench { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn store(&self) -> PathBuf {
        self.path("store/baremark.db")
    }

    /// The program with these arguments and this bench's store.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(program(), arguments)
    }

    /// The same of a copy of the program.
    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("--store").arg(self.store()).args(arguments).current_dir(self.folder.path());
        // Changes to this host that other tests left are not this one's to undo; as root all would have one journal.
        command.stdin(Stdio::null()).env("XDG_STATE_HOME", self.path("state"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs and gives standard output as JSON; the program must succeed. A result keeps every rule that holds of all.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", text(&output.stdout)));
        if document["format"] == baremark_model::document::FORMAT {
            keeps_rules(&document);
        }
        document
    }

    /// Runs the study of this text until its first block is stored, then interrupts it: the report's document, and what the
    /// run said.
    pub fn first_block(&self, study: &str) -> (Value, Vec<String>) {
        self.write("study.toml", study);
        let mut lab = self.spawn(&["run", "study.toml"]);
        let mut said = Vec::new();
        for line in BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok) {
            // Of a block of which a trial failed there is no such line; the next one is measured.
            // Once: a second interrupt would end the run at once.
            if tells_of_a_block(&line) && !said.iter().any(|earlier: &String| tells_of_a_block(earlier)) {
                signal(lab.id(), libc::SIGINT);
            }
            said.push(line);
        }
        assert_eq!(lab.wait().unwrap().code(), Some(130), "{said:#?}");
        (self.json(&["report", "--json"]), said)
    }

    /// Starts the program with both outputs piped.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Whether a line says that a block is stored; "block 1: 1 of 2 trials is stored" is no end of a block.
pub fn tells_of_a_block(line: &str) -> bool {
    let ended = |rest: &str| rest.trim_start_matches(|of: char| of.is_ascii_digit()).starts_with(" is stored");
    line.strip_prefix("block ").is_some_and(ended)
}

/// The program without what debuggers read, as it is shipped: it is brought to guests, pods and other machines.
pub fn program() -> &'static Path {
    static STRIPPED: OnceLock<PathBuf> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_baremark"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let stripped = folder.join("baremark");
        let written = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        // Tests in other processes wait for it: one that replaced it would take it from those that run it.
        let lock = fs::File::create(folder.join("baremark.lock")).unwrap();
        lock.lock().unwrap();
        if written(&stripped) < written(built) {
            let new = folder.join(format!("baremark-{}", std::process::id()));
            let made = Command::new("strip").arg("-o").arg(&new).arg(built).status();
            if !made.is_ok_and(|status| status.success()) {
                // It takes longer.
                return built.to_owned();
            }
            fs::rename(new, &stripped).unwrap();
        }
        stripped
    })
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The same in one line: lines that were broken are whole again.
pub fn unbroken(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The device number of KVM (Documentation/admin-guide/devices.txt of Linux).
const KVM: (u32, u32) = (10, 232);

/// Whether the tests that need /dev/kvm can run; where they cannot, a line that is counted, or a failure where the gate
/// demands them.
pub fn kvm() -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    // Something else may stand there, such as /dev/null in its place.
    let usable = opened.and_then(|file| file.metadata()).is_ok_and(|meta| {
        let device = std::os::unix::fs::MetadataExt::rdev(&meta);
        (libc::major(device), libc::minor(device)) == KVM
    });
    if !usable {
        assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "/dev/kvm is demanded and cannot be used");
        eprintln!("skipped: no /dev/kvm");
    }
    usable
}

/// Whether this process may mount; where not, a line that is counted.
pub fn root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !root {
        eprintln!("skipped: not root");
    }
    root
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let listed = fs::read_dir("/proc").unwrap().flatten();
    let pids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|child| parent_of(*child) == Some(pid)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process is there and no zombie.
pub fn lives(pid: u32) -> bool {
    // Of a process that is killed a thread which waits for a disk keeps files open, and with them their locks, after the first has ended.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| fs::read_to_string(thread.path().join("stat")).unwrap_or_default())
        .any(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X'])))
}

pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill takes two numbers and touches no memory of ours.
    unsafe { libc::kill(libc::pid_t::try_from(pid).unwrap(), signal) };
}

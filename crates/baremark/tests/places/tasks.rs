//! The commands of docs/tasks.md, run as a user types them: each ends with the exit code that stands there. With `UPDATE_TASKS=1` their outputs are written
//! into the document.

use crate::common::bench::{Bench, program, text};
use crate::common::http;
use crate::common::hyperfine;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PORT: &str = "127.0.0.1:8080";
/// Lines of an output that the document has.
const MOST_LINES: usize = 30;

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks.md")
}

/// A command of the document, and the exit code that stands below it; 0 where none does.
struct Step {
    command: String,
    code: i32,
}

/// The steps of a block between its fences.
fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), code: 0 });
        } else if let Some(code) = line.strip_prefix("[exit ").and_then(|rest| rest.strip_suffix(']')) {
            steps.last_mut().unwrap().code = code.parse().unwrap();
        }
    }
    steps
}

/// What the tasks work on: a file, two result files of hyperfine and a program that walks through memory.
fn prepared(bench: &Bench) {
    let words: String = (0..400_000_u32).map(|number| format!("{:x} ", number.wrapping_mul(2_654_435_761))).collect();
    bench.write("data", words.as_bytes());
    hyperfine::two_files(bench);
    let walk = "#include <stdlib.h>\nint main(void) { unsigned long n = 1 << 25, i, at = 1, *t = calloc(n / 8, 8);\n\
                for (i = 0; i < 400000; i++) { at = (at * 6364136223846793005ul + 1442695040888963407ul); t[at % (n / 8)]++; } return t[0] > 1000000; }\n";
    bench.write("walk.c", walk);
    assert!(
        Command::new("cc")
            .args(["-O1", "-o", "walk", "walk.c"])
            .current_dir(bench.folder.path())
            .status()
            .unwrap()
            .success()
    );
}

/// What the commands of the document come to: each block with its outputs, and the steps that ended otherwise.
fn played(document: &str, bench: &Bench) -> (String, Vec<String>) {
    let server = http::server().to_string();
    let folder = bench.folder.path();
    let path = format!("{}:{}", program().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let (mut made, mut wrong) = (String::new(), Vec::new());
    for (index, part) in document.split("```").enumerate() {
        let Some(block) = part.strip_prefix("console\n") else {
            let fence = if index > 0 { "```" } else { "" };
            write!(made, "{fence}{part}").unwrap();
            continue;
        };
        made.push_str("```console\n");
        for Step { command, code } in steps(block) {
            let mut shell = Command::new("sh");
            shell.args(["-c", &command.replace(PORT, &server)]).current_dir(folder).env("PATH", &path);
            shell.env("XDG_DATA_HOME", bench.path("data-home")).env("XDG_STATE_HOME", bench.path("state"));
            let output = shell.env("COLUMNS", "80").stdin(Stdio::null()).output().unwrap();
            let said = text(&output.stderr);
            println!("$ {command}\n{}{said}", text(&output.stdout));
            let found = output.status.code();
            if found == Some(3) && code != 3 {
                println!("skipped: {command}: {}", said.replace('\n', " "));
            } else if found != Some(code) {
                wrong.push(format!("{command}: {found:?} instead of {code}: {said}"));
            }
            writeln!(made, "$ {command}").unwrap();
            let shown = text(&output.stdout).replace(&server, PORT).replace(&folder.display().to_string(), "/home/me");
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
            // The version of the kernel, without what its builder calls it.
            let shown = shown.replace(release.trim(), release.split(['-', '\n']).next().unwrap());
            let lines: Vec<&str> = shown.trim_end().lines().collect();
            lines.iter().take(MOST_LINES).for_each(|line| writeln!(made, "{line}").unwrap());
            made.push_str(if lines.len() > MOST_LINES { "...\n" } else { "" });
            if code != 0 {
                writeln!(made, "[exit {code}]").unwrap();
            }
        }
    }
    (made, wrong)
}

#[test]
fn every_task_is_done_by_the_commands_that_stand_there() {
    let before = std::fs::read_to_string(document()).unwrap();
    let bench = Bench::new();
    prepared(&bench);
    let (made, wrong) = played(&before, &bench);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if std::env::var_os("UPDATE_TASKS").is_some() {
        std::fs::write(document(), made).unwrap();
    }
}

//! docs/guide.md does what it says: every command on the page is run, in its order, in one folder.

use crate::bench::{Bench, text};
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands of the page with the exit codes that a comment announces (`# exit 4`, `# exit 0 or 5`).
fn commands(page: &str) -> Vec<(String, Vec<i32>)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            let (command, comment) = command.split_once("  # ").unwrap_or((command, ""));
            let codes = comment.strip_prefix("exit ").unwrap_or("0").split(" or ");
            found.push((command.to_owned(), codes.map(|code| code.parse().expect("an exit code")).collect()));
        }
    }
    found
}

#[test]
fn every_command_of_the_guide_runs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let commands = commands(&std::fs::read_to_string(page).unwrap());
    assert!(commands.len() > 10, "{commands:?}");
    let bench = Bench::busy();
    let program = Path::new(env!("CARGO_BIN_EXE_baremark")).parent().unwrap().to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    for (command, codes) in commands {
        // A loss must be found: a busy machine gets more time for that.
        let command = if codes == [4] { command.replace("--budget 8s", "--budget 30s") } else { command };
        let ran = Command::new("sh")
            .args(["-c", &command])
            .current_dir(bench.path("."))
            .env("PATH", &path)
            .env("XDG_DATA_HOME", bench.path("."))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = ran.status.code().unwrap_or(-1);
        assert!(codes.contains(&code), "{command}: exit {code}\n{}{}", text(&ran.stdout), text(&ran.stderr));
    }
}

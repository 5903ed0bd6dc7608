//! docs/guide.md does what it says: every command on the page is run, in its order, in one folder.

use crate::common::bench::{Bench, text};
use crate::common::pages::guide;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn every_command_of_the_guide_runs() {
    let bench = Bench::new();
    let program = Path::new(env!("CARGO_BIN_EXE_baremark")).parent().unwrap().to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    for (command, codes) in guide() {
        // A loss must be found: a busy machine gets more time for that.
        let command = if codes == [4] { command.replace("--budget 8s", "--budget 30s") } else { command };
        let ran = Command::new("sh")
            .args(["-c", &command])
            .current_dir(bench.path("."))
            .env("PATH", &path)
            .env("XDG_DATA_HOME", bench.path("."))
            .env("XDG_STATE_HOME", bench.path("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = ran.status.code().unwrap_or(-1);
        assert!(codes.contains(&code), "{command}: exit {code}\n{}{}", text(&ran.stdout), text(&ran.stderr));
    }
}

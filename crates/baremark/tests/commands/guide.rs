//! docs/guide.md has commands that there are: each is run in a form that measures nothing, in one folder, on a stored run.

use crate::common::bench::text;
use crate::common::pages::guide;
use crate::common::stored;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The same command without a measurement; `None` where it is nothing else.
fn unmeasured(command: &str) -> Option<String> {
    if command.contains("--pilot") || command.contains("--now") {
        return None;
    }
    Some(command.replace("baremark ab ", "baremark ab --print-study ").replace("baremark run ", "baremark plan "))
}

#[test]
fn every_command_of_the_guide_is_one() {
    let bench = stored::bench("schema-4.db");
    fs::create_dir(bench.path("baremark")).unwrap();
    fs::rename(bench.store(), bench.path("baremark/baremark.db")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_baremark")).parent().unwrap().to_owned();
    // The study of `init` compares levels of it.
    let gzip = bench.write("gzip", "#!/bin/sh\n");
    fs::set_permissions(gzip, fs::Permissions::from_mode(0o755)).unwrap();
    let usual = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{}:{usual}", bench.folder.path().display(), program.display());
    let mut ran = 0;
    for command in guide().iter().filter_map(|(command, _)| unmeasured(command)) {
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(bench.path("."))
            .env("PATH", &path)
            .env("XDG_DATA_HOME", bench.path("."))
            .env("XDG_STATE_HOME", bench.path("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        // A plan may take what this machine has not, and says so.
        let lacks = command.contains(" plan ") && (said.contains("of memory in one trial") || said.contains("unknown"));
        assert!(output.status.success() || lacks, "{command}: {:?}\n{said}", output.status.code());
        ran += 1;
    }
    assert!(ran > 8, "{ran} commands");
}

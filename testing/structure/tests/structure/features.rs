//! The program is built once: with its crates alone, as `make run` does, it has just the features of the whole workspace, as `make test` does.

use std::collections::BTreeSet;
use std::process::Command;

/// Packages with version and features, of these and all that they need.
fn features(of: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--offline", "--locked", "--edges", "normal,build,dev", "--prefix", "none"]);
    let output = command.args(["--format", "{p} {f}"]).args(of).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn a_test_of_one_crate_builds_no_dependency_a_second_time() {
    let all = features(&["--workspace"]);
    let own = features(&["--package", "baremark"]);
    assert!(own.len() > 100, "{own:#?}");
    let others: Vec<&String> = own.difference(&all).collect();
    assert!(others.is_empty(), "the workspace has more features of these; name them in Cargo.toml: {others:#?}");
}

/// Workspaces of their own have lock files of their own, which a dependency that moves leaves stale.
#[test]
fn every_lock_file_is_up_to_date() {
    for folder in ["fuzz", "apps/gpu"] {
        let mut command = Command::new(env!("CARGO"));
        command.args(["metadata", "--offline", "--locked", "--format-version", "1"]);
        let output = command.current_dir(crate::source::root().join(folder)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // Where packages of other targets are not here, it fails for that.
        assert!(output.status.success() || !said.contains("lock file"), "{folder}: {said}");
    }
}

//! This machine itself as an environment, against the suite that all of them must pass.

use crate::sites::{Program, cpu, print_times};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::native::Native;
use baremark_model::site::Environment;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn native_conforms() {
    let program = Program::new();
    let files = TempDir::new().unwrap();
    let residue = || {
        let files = fs::read_dir(files.path()).unwrap().flatten();
        let files = files.map(|entry| entry.path().display().to_string());
        program.processes().into_iter().chain(files).collect()
    };
    let native = Native::new(program.path()).with("TMPDIR", files.path().display().to_string());
    assert_eq!(
        conformance(&native, &Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &residue }),
        Ok(())
    );
}

#[test]
fn a_program_that_is_not_there_is_missing_with_a_remedy() {
    let missing = Native::new(PathBuf::from("/nowhere/baremark")).probe().unwrap_err();
    assert!(missing.to_string().contains("/nowhere/baremark does not exist; install"), "{missing}");
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_native_takes() {
    let program = Program::new();
    print_times(&Native::new(program.path()), cpu());
}

//! Other people's programs, as far as they are installed.

use std::process::Command;

/// Whether all programs are there; what is missing is reported.
pub fn has(what: &str, programs: &[&str]) -> bool {
    let there = |program: &&str| Command::new("which").arg(program).output().is_ok_and(|ran| ran.status.success());
    match programs.iter().find(|program| !there(program)) {
        None => true,
        Some(missing) => {
            println!("skipped: {what}: {missing} is not installed");
            false
        }
    }
}

//! Programs of other people, which no test of `make test` starts: engines of containers and guests, launchers of clusters. Where they are installed,
//! `list`, `doctor` and plans ask them what they can do, and start a container to see. Where they are not, tests see that they are not.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Programs of the environments (a test of `testing/structure` compares them).
const NAMES: [&str; 11] = [
    "podman",
    "docker",
    "qemu-system-x86_64",
    "cloud-hypervisor",
    "sinfo",
    "srun",
    "sbatch",
    "squeue",
    "scancel",
    "mpirun",
    "kubectl",
];

/// Ends as a shell does that does not find a program.
const IN_PLACE: &str = "#!/bin/sh\nexit 127\n";

/// Makes a folder of programs with those of these names that are on `path`, each of which fails. Gives the search path on which they come before what is on `path`.
pub fn hidden(folder: &Path, path: &OsStr) -> io::Result<OsString> {
    fs::create_dir(folder)?;
    // Tests that become another user have the same path.
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let is_installed = |name: &&str| env::split_paths(path).any(|of| of.join(name).exists());
    for name in NAMES.into_iter().filter(is_installed) {
        let program = folder.join(name);
        fs::write(&program, IN_PLACE)?;
        fs::set_permissions(program, Permissions::from_mode(0o755))?;
    }
    let mut first = folder.as_os_str().to_owned();
    first.push(":");
    first.push(path);
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn installed_programs_fail_and_others_are_as_they_were() {
        let own = tempfile::tempdir().expect("a folder");
        let installed = own.path().join("installed");
        fs::create_dir(&installed).expect("made");
        for name in ["podman", "another"] {
            let program = installed.join(name);
            fs::write(&program, "#!/bin/sh\nexit 0\n").expect("written");
            fs::set_permissions(program, Permissions::from_mode(0o755)).expect("executable");
        }
        let path = hidden(&own.path().join("hidden"), installed.as_os_str()).expect("made");
        let code = |name: &str| Command::new(name).env("PATH", &path).status().map(|status| status.code());
        assert_eq!(code("podman").expect("started"), Some(127));
        assert_eq!(code("another").expect("started"), Some(0));
        for name in NAMES.iter().filter(|name| **name != "podman") {
            assert_eq!(code(name).expect_err(name).kind(), io::ErrorKind::NotFound, "it is not installed there");
        }
    }
}

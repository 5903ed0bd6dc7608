//! Programs of other people, which no test of `make test` starts: engines of containers and guests, launchers of clusters. Where they are installed,
//! `list`, `doctor` and plans ask them what they can do, and start a container to see.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const NAMES: [&str; 9] =
    ["podman", "docker", "qemu-system-x86_64", "cloud-hypervisor", "sinfo", "srun", "sbatch", "mpirun", "kubectl"];

/// Ends as a shell does that does not find a program.
const IN_PLACE: &str = "#!/bin/sh\nexit 127\n";

/// Makes a folder of programs with these names, each of which fails. Gives the search path on which they come before what is on `path`.
pub fn hidden(folder: &Path, path: &OsStr) -> io::Result<OsString> {
    fs::create_dir(folder)?;
    // Tests that become another user have the same path.
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for name in NAMES {
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
    fn hidden_programs_fail_and_others_are_found() {
        let own = tempfile::tempdir().expect("a folder");
        let path = hidden(&own.path().join("hidden"), OsStr::new("/usr/bin:/bin")).expect("made");
        let code = |name: &str| Command::new(name).env("PATH", &path).status().expect("started").code();
        assert!(NAMES.iter().all(|name| code(name) == Some(127)));
        assert_eq!(code("true"), Some(0));
    }
}

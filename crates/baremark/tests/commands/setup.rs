//! `baremark setup`, with Debian's tools played by the test's own: what is fetched is where guests look for it, and a failure
//! leaves nothing.

use crate::common::bench::{Bench, text};
use crate::common::schemas::assert_fits;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Stand-ins for apt-cache, apt-get and dpkg-deb; `download` is what `apt-get download` does.
fn tools(bench: &Bench, download: &str) {
    let program = |name: &str, text: &str| {
        let path = bench.write(name, format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("apt-cache", "echo '  Depends: linux-image-6.1.0-1-cloud-amd64'");
    program("apt-get", &format!("echo \"apt-get $*\"\n{download}"));
    let unpack = "mkdir -p \"$3/boot\" \"$3/lib/modules/6.1.0-1/kernel\"; echo kernel > \"$3/boot/vmlinuz-6.1.0-1\"";
    program("dpkg-deb", unpack);
}

fn setup(bench: &Bench, data: &Path, arguments: &[&str]) -> Output {
    let paths = format!("{}:{}", bench.folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_baremark"));
    command.args(["setup", "guest-kernel"]).args(arguments).env("PATH", paths).env("XDG_DATA_HOME", data);
    command.output().unwrap()
}

#[test]
fn the_guests_kernel_is_fetched_once() {
    let bench = Bench::new();
    tools(&bench, ": > linux-image.deb");
    let data = bench.path("data");
    let kernel = data.join("baremark/kernel/vmlinuz");

    let first = setup(&bench, &data, &[]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(text(&first.stdout), format!("Guest kernel: {}\n", kernel.display()));
    assert!(text(&first.stderr).contains("apt-get download"), "{}", text(&first.stderr));
    assert_eq!(fs::read_to_string(&kernel).unwrap(), "kernel\n");
    assert!(kernel.with_file_name("modules").join("kernel").is_dir());

    tools(&bench, "exit 1");
    let again = assert_fits(&setup(&bench, &data, &["--json"]).stdout, "baremark-setup/1");
    assert_eq!((again["downloaded"].as_bool(), again["kernel"].as_str()), (Some(false), kernel.to_str()));
}

#[test]
fn a_kernel_that_cannot_be_fetched_leaves_nothing() {
    let bench = Bench::new();
    tools(&bench, "echo 'E: Unable to fetch' >&2; exit 100");
    let to = bench.path("kernel");
    let output = setup(&bench, &bench.path("data"), &["--to", to.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Unable to fetch") && said.contains("set kernel = \"FILE\""), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0, "what was begun is removed");
}

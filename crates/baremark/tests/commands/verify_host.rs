//! `baremark verify-host`: what works, what is not available and what fails have rows of their own; nothing is left behind.

use crate::common::bench::{Bench, text};
use crate::common::schemas::assert_fits;
use crate::common::verify_host::rows_of;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn parts_that_work_say_so_with_a_figure() {
    let bench = Bench::new();
    let arguments = ["verify-host", "--quiet", "--json", "--only", "kernels", "--only", "disks", "--only", "ssh"];
    let mut command = bench.command(&arguments);
    let output = command.env("TMPDIR", bench.path("")).output().unwrap();
    let document = assert_fits(&output.stdout, "baremark-verify-host/1");
    let kernels = rows_of(&document, "kernels");
    assert_eq!(kernels.iter().map(|row| row["what"].as_str().unwrap()).collect::<Vec<_>>(), ["page 4k", "page 2m"]);
    // Huge pages may not be had: then the reason is said.
    let outcome = |row: &serde_json::Value| row["outcome"].as_str().unwrap().to_owned();
    assert_eq!(outcome(kernels[0]), "works", "{kernels:?}");
    let figure = kernels[1]["detail"].as_str().unwrap().contains(" of page 4k");
    assert_eq!(outcome(kernels[1]) == "works", figure, "{kernels:?}");
    // The quotient is that of the values that are printed: "1.81 of sqlite" was printed next to values of 1.50. Each is rounded.
    if figure {
        let number = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
        let [base, other] = [0, 1].map(|row| kernels[row]["detail"].as_str().unwrap());
        let quotient = number(other.split(", ").nth(1).unwrap());
        // Values have three digits, the quotient two decimals: the phases of one may have taken a hundred times as long.
        let (exact, rounding) = (number(other) / number(base), 0.005 + 0.01 * quotient);
        assert!((exact - quotient).abs() <= rounding, "{base}; {other}");
    }
    let failed = document["rows"].as_array().unwrap().iter().any(|row| row["outcome"] == "failed");
    let code = if failed { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(
        document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["detail"].as_str().is_some_and(|why| !why.is_empty())),
        "{document:#}"
    );
    assert_eq!(rows_of(&document, "disks").len(), 2);
    assert_eq!(rows_of(&document, "ssh")[0]["outcome"], "untried");
    let left: Vec<_> = fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("verify-host")), "{left:?}");
}

#[test]
fn a_part_that_this_machine_lacks_gives_its_reason_and_one_that_breaks_fails() {
    let bench = Bench::new();
    // No container engine anywhere, and an ssh that reaches nothing.
    let programs = bench.path("programs");
    fs::create_dir(&programs).unwrap();
    let ssh = programs.join("ssh");
    fs::write(&ssh, "#!/bin/sh\necho 'no route to host' >&2\nexit 255\n").unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["verify-host", "--quiet", "--json", "--only", "containers", "--only", "ssh", "--ssh", "nowhere"];
    let output = bench.command(&arguments).env("PATH", &programs).output().unwrap();
    let document = assert_fits(&output.stdout, "baremark-verify-host/1");
    assert_eq!(output.status.code(), Some(3), "nothing works: {document:#}\n{}", text(&output.stderr));
    let says = |part: &str, what: &str, reason: &str| {
        let row = rows_of(&document, part).into_iter().find(|row| row["what"] == what).expect(what);
        assert_eq!(row["outcome"], "not_available", "{row}");
        assert!(row["detail"].as_str().unwrap().contains(reason), "{row}");
    };
    says("containers", "podman", "install podman");
    says("containers", "crun", "install it");
    says("ssh", "ssh", "no route to host");

    // An ssh that says yes to everything and starts nothing: the part is there, and fails.
    fs::write(&ssh, "#!/bin/sh\necho Linux x86_64\n").unwrap();
    let arguments = ["verify-host", "--quiet", "--only", "ssh", "--ssh", "nowhere"];
    let output = bench.command(&arguments).env("PATH", &programs).env("COLUMNS", "500").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("FAILED"), "{}", text(&output.stdout));
}

/// What `make verify-kvm` does at its end.
#[test]
fn what_a_real_kvm_was_found_to_be_is_noted_and_forgotten() {
    let bench = Bench::new();
    let noted = bench.path("data").join("baremark/verified-kvm.json");
    for (result, is_there) in [("failed", false), ("passed", true), ("passed", true), ("failed", false)] {
        let mut command = bench.command(&["verify-host", "--kvm", result]);
        let output = command.env("XDG_DATA_HOME", bench.path("data")).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""), "{}", text(&output.stderr));
        assert_eq!(noted.exists(), is_there, "{result}");
    }
}

#[test]
fn names_that_are_no_parts_or_machines_are_refused() {
    let bench = Bench::new();
    let output = bench.run(&["verify-host", "--only", "discs"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("disks"), "{}", text(&output.stderr));
    let output = bench.run(&["verify-host", "--ssh", "a\"\n[x]"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

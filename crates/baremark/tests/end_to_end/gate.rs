//! The test command itself: what it makes of results, with a cargo of the test's own.

use crate::bench::{Bench, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What cargo prints of one test program in which `failed` failed.
fn printed(passed: &[&str], failed: &[&str]) -> String {
    let lines = |names: &[&str], how| names.iter().map(|name| format!("test {name} ... {how}\n")).collect::<String>();
    let outputs: String = failed.iter().map(|name| format!("---- {name} stdout ----\nit broke\n\n")).collect();
    format!(
        "{}{}\nsuccesses:\n\n---- a::fine stdout ----\nskipped: no docker\n\n\nsuccesses:\n    a::fine\n\nfailures:\n\n{outputs}\n\
         test result: so. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        lines(passed, "ok"),
        lines(failed, "FAILED"),
        passed.len(),
        failed.len()
    )
}

/// Exit code and output of scripts/test where cargo prints these, the second of them when it is asked for names.
fn judged(first: &str, again: Option<&str>) -> (i32, String) {
    let bench = Bench::new();
    bench.write("first", first);
    if let Some(again) = again {
        bench.write("again", again);
    }
    let cargo = "#!/bin/sh\nhere=$(dirname \"$0\")\ncase \"$*\" in *--exact*) of=$here/again ;; *) of=$here/first ;; esac\n\
                 [ -e \"$of\" ] || exit 0\ncat \"$of\"\n! grep -q ' \\.\\.\\. FAILED$' \"$of\"\n";
    let path = bench.write("cargo", cargo);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test");
    let paths = format!("{}:{}", bench.folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg(script).env("PATH", paths).env("CARGO_TARGET_DIR", bench.path("target"));
    let output = command.output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout))
}

#[test]
fn what_fails_beside_others_is_tried_alone_and_named() {
    let fine = printed(&["a::fine"], &[]);
    let one = printed(&["a::fine"], &["b::broken"]);
    let counts = |said: &str| said.lines().last().unwrap_or_default().to_owned();

    let (code, said) = judged(&fine, None);
    assert_eq!((code, counts(&said).as_str()), (0, "1 passed, 0 passed only alone, 0 failed, 1 skipped"), "{said}");
    assert!(!said.contains("once more") && !said.contains("    a::fine"), "{said}");

    let (code, said) = judged(&one, Some(&printed(&["b::broken"], &[])));
    assert_eq!((code, counts(&said).as_str()), (0, "1 passed, 1 passed only alone, 0 failed, 2 skipped"), "{said}");
    assert!(said.contains("it broke") && said.contains("passed only when they ran alone:\n  b::broken"), "{said}");

    let (code, said) = judged(&one, Some(&printed(&[], &["b::broken"])));
    assert_eq!((code, counts(&said).contains("1 failed")), (1, true), "twice: {said}");

    let (code, said) = judged(&one, None);
    assert_eq!((code, counts(&said).contains("1 failed")), (1, true), "nothing ran the second time: {said}");

    let many = printed(&["a::fine"], &["b::a", "b::b", "b::c", "b::d"]);
    let (code, said) = judged(&many, Some(&printed(&["b::a", "b::b", "b::c", "b::d"], &[])));
    assert_eq!((code, counts(&said).contains("4 failed")), (1, true), "too many: {said}");

    // A program that was killed has a result for none of its tests.
    let (code, said) = judged("test b::broken ... FAILED\n", Some(&printed(&["b::broken"], &[])));
    assert_eq!((code, said.contains("once more")), (1, false), "{said}");
}

//! Trials that do not get what they need.

use crate::common::bench::{Bench, small_of_four_blocks, text};
use crate::common::outcome::{counts, rows, sound};
use serde_json::Value;

#[test]
fn a_trial_that_does_not_get_its_pages_is_void() {
    let bench = Bench::new();
    bench.write(
        "small.toml",
        small_of_four_blocks()
            .replace("[\"native\", \"null\"]", "\"native\"")
            .replace("\"4k\"", "[\"4k\", \"2m\"]")
            .replace("60 s", "1 h"),
    );
    let mut command = bench.command(&["run", "small.toml", "--json"]);
    // Transparent huge pages are switched off for this process and its children: what a machine without them looks like.
    // SAFETY: prctl is async-signal-safe and touches no memory.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            match libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    sound(&document);
    let of = |page: &str| -> Vec<&Value> {
        rows(&document, "trials").iter().filter(|trial| trial["arms"][0]["treatment"]["page"] == page).collect()
    };
    assert_eq!(of("2m").len(), 3, "given up after three in a row");
    for trial in of("2m") {
        assert_ne!(trial["status"], "ok", "{trial:#}");
    }
    let measured = of("4k").into_iter().any(counts);
    assert_eq!(output.status.success(), measured, "{said}");
    let estimated: Vec<_> = rows(&document, "estimates").iter().map(|row| &row["treatment"]["page"]).collect();
    assert!(estimated.iter().all(|page| *page == "4k"), "what did not get its pages has no estimate: {estimated:?}");
    assert_eq!(!estimated.is_empty(), measured, "{document:#}");
}

//! A database in a container that has none.

use crate::common::bench::{Bench, unbroken};
use crate::common::databases::study;

/// A container without an image has no server: the plan says so, and leaves out what would need one.
#[test]
fn a_server_that_a_container_lacks_is_said_in_the_plan() {
    let bench = Bench::new();
    let factors =
        "[factors]\nenvironment = [\"native\", \"container\"]\ndatabase = [\"sqlite\", \"postgres\"]\nranks = 1\n";
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"") + factors);
    let output = bench.run(&["plan", "study.toml"]);
    let said = unbroken(&[output.stdout, output.stderr].concat());
    if said.contains("containers cannot be started") {
        eprintln!("skipped: containers cannot be started here");
        return;
    }
    assert!(output.status.success(), "{said}");
    let expected = "postgres is not installed in container, which has no files but this program; give it an image or a rootfs with postgresql (rootfs = \"host\" is this machine's), or write database = \"sqlite\"";
    assert_eq!(said.matches(expected).count(), 1, "{said}");
}

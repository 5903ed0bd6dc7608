//! The table of other people's programs counts and fails as it must.

use crate::table::{Done, FEWEST, Outcome, failures, table, verdict};

#[test]
fn a_table_counts_what_is_identical_and_names_what_differs_and_what_is_not_here() {
    let done = |name: &str, outcome: Outcome| Done { key: 0, name: name.to_owned(), outcome };
    let identical = |ratio| Outcome::Identical { native_ms: 1234.5, ratio, calls: 17, images: 1 };
    let text = table(&[
        done("C integers", identical([1.0, 0.99, 1.02])),
        done("awk loop", identical([1.1, 1.05, 1.2])),
        done("sh", identical([3.0, 2.0, 4.0])),
        done("go", Outcome::Missing { what: "go".to_owned() }),
        done("git", Outcome::Different { how: "another word".to_owned() }),
    ]);
    for part in [
        "| C integers | 1234 ms | 1.000 | [0.990, 1.020] | 17 | 1 | identical, 1.03: ok |\n",
        "| awk loop | 1234 ms | 1.100 | [1.050, 1.200] | 17 | 1 | identical, 1.03: SHORT |\n",
        "| sh | 1234 ms | 3.000 | [2.000, 4.000] | 17 | 1 | identical |\n",
        "| git | | | | | | differs |\n",
        "\n3 of 4 programs are identical.\n1 are not installed here: go (no go).\n",
        "\ngit: another word\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(verdict([1.0, 0.99, 1.04]), "undecided");
}

#[test]
fn the_table_fails_by_what_differs_by_slow_controls_and_by_too_few_programs() {
    let done = |name: &str, outcome: Outcome| Done { key: 0, name: name.to_owned(), outcome };
    let identical = |ratio| Outcome::Identical { native_ms: 1.0, ratio, calls: 1, images: 1 };
    let mut all: Vec<Done> = (0..FEWEST - 2).map(|_| done("sh", identical([3.0, 2.0, 4.0]))).collect();
    all.push(done("C integers", identical([1.02, 0.99, 1.05])));
    all.push(done("go", Outcome::Missing { what: "go".to_owned() }));
    let too_few = "35 programs are identical, fewer than 36; not installed: go (no go)";
    assert_eq!((failures(&all, true), failures(&all, false)), (vec![too_few.to_owned()], Vec::new()));
    all.push(done("awk loop", identical([1.1, 1.05, 1.2])));
    assert_eq!(failures(&all, true), ["awk loop: 1.100 [1.050, 1.200] of native, above 1.03"]);
    all.push(done("git", Outcome::Different { how: "another word".to_owned() }));
    assert_eq!(failures(&all, false)[1..], ["git differs; see the lines above"]);
}

//! Bundles: a run leaves this machine and is verified; what was changed is found.

use crate::common::bench::{Bench, text};
use crate::common::bundled::{bundled, written};
use baremark_bundle::{Bundle, pack, unpack};
use serde_json::Value;
use std::fs;

fn verified(bench: &Bench, bundle: &Bundle) -> (Option<i32>, String) {
    fs::write(bench.path("changed.tar.gz"), pack(bundle).unwrap()).unwrap();
    let output = bench.run(&["verify", "changed.tar.gz"]);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// `bytes` with the first `from` as `to`.
fn with(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = text(bytes);
    assert!(text.contains(from), "no {from} in {text:.2000}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn a_bundle_is_verified_and_names_nobody() {
    let bench = Bench::new();
    let packed = bundled(&bench);
    let good = bench.run(&["verify", "run.tar.gz"]);
    assert_eq!(good.status.code(), Some(0), "{}{}", text(&good.stdout), text(&good.stderr));
    assert!(text(&good.stdout).starts_with("verified: run "), "{}", text(&good.stdout));

    let bundle = unpack(&packed).unwrap();
    let result: Value = serde_json::from_slice(&bundle.result).unwrap();
    assert_eq!(result["ratios"].as_array().unwrap().len(), 1);

    let secrets = ["opensesame", "BAREMARK_TEST_TOKEN", "somebody", "192.0.2.7", bench.folder.path().to_str().unwrap()];
    let files = [&bundle.run, &bundle.trials, &bundle.result, &bundle.report].map(|bytes| text(bytes));
    for secret in secrets {
        assert!(files.iter().all(|file| !file.contains(secret)), "{secret} is in the bundle");
    }
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let hostname = format!("\"{}\"", hostname.trim());
    assert!(files.iter().all(|file| !file.contains(&hostname)), "{hostname} is in the bundle");

    let named = bench.run(&["bundle", "--identify", "-o", "named.tar.gz"]);
    assert!(named.status.success(), "{}", text(&named.stderr));
    let named = unpack(&fs::read(bench.path("named.tar.gz")).unwrap()).unwrap();
    assert!(
        text(&named.run).contains("opensesame") && text(&named.run).contains("192.0.2.7"),
        "--identify removes nothing"
    );
    assert_eq!(bench.run(&["verify", "named.tar.gz"]).status.code(), Some(0));
    assert_eq!(packed, written(&bench, "again.tar.gz"), "the same bytes each time");
}

/// Whoever changes a number can also write its checksum anew: then it does not follow from the trials.
#[test]
fn numbers_that_do_not_follow_from_the_trials_are_found() {
    let bench = Bench::new();
    let bundle = unpack(&bundled(&bench)).unwrap();
    let result: Value = serde_json::from_slice(&bundle.result).unwrap();
    let ratio = result["ratios"][0]["ratio"].to_string();
    let other = format!("{}", result["ratios"][0]["ratio"].as_f64().unwrap() + 1e-4);
    let (code, said) = verified(&bench, &Bundle { result: with(&bundle.result, &ratio, &other), ..bundle.clone() });
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("NOT verified") && said.contains("ratios[0].ratio: "), "{said}");

    // A trial's own value: everything that follows from it is other.
    let value =
        serde_json::from_slice::<Value>(&bundle.trials).unwrap()[0]["result"]["series"][0]["samples"][0]["value"]
            .to_string();
    let changed = Bundle { trials: with(&bundle.trials, &value, &format!("9{value}")), ..bundle.clone() };
    let (code, said) = verified(&bench, &changed);
    assert_eq!(code, Some(4), "{said}");

    let report = text(&bundle.report).replacen("loops of 200", "loops of 201", 1).into_bytes();
    let (code, said) = verified(&bench, &Bundle { report, ..bundle.clone() });
    assert!(code == Some(4) && said.contains("report.txt: "), "{said}");

    // References that lead nowhere, and texts that are no JSON: refused, with a sentence and without a panic.
    for changed in [
        Bundle { run: with(&bundle.run, "\"cells\":[{\"pair\":0}", "\"cells\":[{\"pair\":77}"), ..bundle.clone() },
        Bundle { trials: with(&bundle.trials, "\"cell\":0", "\"cell\":99999"), ..bundle.clone() },
        Bundle { trials: with(&bundle.trials, "\"arm\":1", "\"arm\":18446744073709551615"), ..bundle.clone() },
        Bundle { trials: b"[".repeat(100_000), ..bundle.clone() },
        Bundle { result: b"{\"a\":1e999}".to_vec(), ..bundle.clone() },
    ] {
        let (code, said) = verified(&bench, &changed);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("damaged") && !said.contains("panicked"), "{said}");
    }
    let missing = bench.run(&["verify", "nowhere.tar.gz"]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

#[test]
fn a_site_shows_runs_of_the_store_and_bundles_that_verify() {
    let bench = Bench::new();
    let bundle = unpack(&bundled(&bench)).unwrap();
    let made = bench.run(&["site", "pages"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let index = fs::read_to_string(bench.path("pages/index.html")).unwrap();
    assert!(index.contains("loops of 200 and 300") && index.contains("<a href=\"run-1.html\">"), "{index}");
    assert!(fs::read_to_string(bench.path("pages/run-1.html")).unwrap().contains("loops of 200 and 300"));

    // A stranger's names are text, and become no path.
    let title = "<script>alert(1)</script>";
    let run = text(&bundle.run).replace("loops of 200 and 300", title).into_bytes();
    let renamed = Bundle { run, ..bundle };
    fs::write(bench.path("bad.tar.gz"), pack(&renamed).unwrap()).unwrap();
    let mixed = bench.run(&["site", "others", "run.tar.gz", "bad.tar.gz"]);
    assert_eq!(mixed.status.code(), Some(4), "{}", text(&mixed.stderr));
    assert!(text(&mixed.stderr).contains("bad.tar.gz: a number does not follow"), "{}", text(&mixed.stderr));
    let index = fs::read_to_string(bench.path("others/index.html")).unwrap();
    assert!(index.contains("bundle, verified") && !index.contains(title), "{index}");
    let mut pages: Vec<_> = fs::read_dir(bench.path("others")).unwrap().map(|page| page.unwrap().file_name()).collect();
    pages.sort();
    assert_eq!(pages, ["index.html", "run-1.html"]);
}

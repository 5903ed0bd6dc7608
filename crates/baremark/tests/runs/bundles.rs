//! Bundles: a run leaves this machine and is verified; what was changed is found.

use crate::common::bench::{Bench, text};
use crate::common::bundled::{bounded, bundled, written};
use crate::common::schemas::{assert_fits, fits};
use baremark_bundle::{Bundle, MOST_BYTES, pack};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn unpack(packed: &[u8]) -> Result<Bundle, baremark_bundle::BundleError> {
    baremark_bundle::unpack(packed)
}

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

/// Words of a plan that are no names leave with it: how the frames of an arm lie was replaced, and no such run could be bundled.
#[test]
fn a_run_with_page_frames_is_bundled_and_verified() {
    let bench = Bench::new();
    bench.write(
        "frames.toml",
        "[study]\ntitle = \"frames\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n[factors]\npage_frames = [\"contiguous\", \"scattered\"]\nranks = 1\n\
         [design]\nphase = \"2 ms\"\nquads = 1\n",
    );
    let output = bench.run(&["run", "frames.toml", "--quick"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let output = bench.run(&["bundle", "-o", "frames.tar.gz"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = bench.run(&["verify", "frames.tar.gz"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// What is put in the place of an absolute path is one: without, no plan could be made of the text of a study that `ab` writes.
#[test]
fn the_plan_of_programs_that_have_a_folder_follows_from_the_text_that_leaves() {
    let bench = Bench::new();
    let output = bench.run(&["ab", "true", "sh -c true", "--budget", "1s"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let bundle = unpack(&written(&bench, "run.tar.gz")).unwrap();
    let (code, said) = verified(&bench, &bundle);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the plan from the study's text; rederive.py is"), "{said}");
    assert!(text(&bundle.run).contains("/removed-directory-1"), "{}", text(&bundle.run));
}

#[test]
fn a_bundle_is_verified_and_names_nobody() {
    let bench = Bench::new();
    let packed = bundled(&bench);
    let good = bench.run(&["verify", "run.tar.gz"]);
    assert_eq!(good.status.code(), Some(0), "{}{}", text(&good.stdout), text(&good.stderr));
    let said = text(&good.stdout);
    assert!(
        said.starts_with("verified: run ") && said.contains("the plan from the study's text; rederive.py is"),
        "{said}"
    );
    assert!(said.contains("Stated by the sender, not verified:\n  what was measured"), "{said}");
    let document = fits(&bench, &["verify", "run.tar.gz", "--json"], "baremark-verification/1");
    assert_eq!(
        (&document["verified"], document["stated"].as_array().unwrap().len(), &document["signature"]),
        (&true.into(), 6, &Value::Null),
        "{document:#}"
    );
    assert!(said.contains("who made the bundle: it is not signed"), "{said}");
    let file = bench.run(&["bundle", "-o", "other.tar.gz", "--json"]);
    assert_eq!(assert_fits(&file.stdout, "baremark-bundle-file/1")["redacted"], true);
    // A name that is not UTF-8 ended the program in a panic when the bundle was there.
    let odd = bench.command(&["bundle", "--json", "-o"]).arg(OsStr::from_bytes(b"\xff.tar.gz")).output().unwrap();
    assert!(odd.status.success(), "{}", text(&odd.stderr));
    assert_eq!(assert_fits(&odd.stdout, "baremark-bundle-file/1")["file"], "\u{fffd}.tar.gz");

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

/// Keys that ssh-keygen made for tests: `crates/bundle/tests/ssh/make`.
fn key(bench: &Bench, name: &str) -> String {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundle/tests/ssh").join(name);
    let copy = bench.path(name);
    fs::copy(from, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    copy.display().to_string()
}

#[test]
fn a_signed_bundle_is_verified_against_allowed_signers() {
    let bench = Bench::new();
    let unsigned = unpack(&bundled(&bench)).unwrap();
    let allowed = key(&bench, "allowed_signers");
    let verify = |file: &str, allowed: &str| {
        let output = bench.run(&["verify", file, "--allowed-signers", allowed]);
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let made = bench.run(&["bundle", "-o", "signed.tar.gz", "--sign", &key(&bench, kind)]);
        assert!(made.status.success() && text(&made.stdout).contains(": signed by "), "{}", text(&made.stderr));
        let (code, said) = verify("signed.tar.gz", &allowed);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains(&format!("\nsigned by {kind}@example.org with ")) && !said.contains("whose key"),
            "{said}"
        );
    }
    let document = bench.run(&["verify", "signed.tar.gz", "--allowed-signers", &allowed, "--json"]);
    let document = assert_fits(&document.stdout, "baremark-verification/1");
    assert_eq!(document["signature"]["allowed_for"], "rsa@example.org", "{document:#}");
    let file = bench.run(&["bundle", "-o", "other.tar.gz", "--json", "--sign", &key(&bench, "stranger")]);
    assert!(assert_fits(&file.stdout, "baremark-bundle-file/1")["signed_by"].as_str().unwrap().contains("SHA256:"));
    let (code, said) = verify("other.tar.gz", &allowed);
    assert!(code == Some(4) && said.contains("is not among the allowed signers"), "{said}");
    let said = text(&bench.run(&["verify", "other.tar.gz"]).stdout);
    assert!(said.contains("whose key ssh-ed25519 SHA256:") && said.contains("--allowed-signers FILE"), "{said}");

    let (code, said) = verify("run.tar.gz", &allowed);
    assert!(code == Some(4) && said.contains("not signed; sign with"), "{said}");
    let late = bench.write(
        "late",
        text(&fs::read(&allowed).unwrap()).replace("namespaces", "valid-before=\"20200101Z\",namespaces"),
    );
    let (code, said) = verify("signed.tar.gz", late.to_str().unwrap());
    assert!(code == Some(4) && said.contains("is not valid any more: valid-before 2020-01-01"), "{said}");
    let bad = bench.write("bad", "maria\n");
    let (code, said) = verify("signed.tar.gz", bad.to_str().unwrap());
    assert!(code == Some(2) && said.contains("line 1: it has no key"), "{said}");

    // The signature of one bundle on another: a file was changed, and everything that follows from it.
    let signed = unpack(&fs::read(bench.path("signed.tar.gz")).unwrap()).unwrap();
    assert_eq!(Bundle { signature: None, ..signed.clone() }, unsigned);
    let report = text(&signed.report).replacen("loops of 200", "loops of 201", 1).into_bytes();
    let (code, said) = verified(&bench, &Bundle { report, ..signed.clone() });
    assert!(code == Some(4) && said.contains("bundle.json.sig: the signature by ssh-rsa SHA256:"), "{said}");
    let (code, said) = verified(&bench, &Bundle { signature: Some(b"no signature".to_vec()), ..signed.clone() });
    assert!(code == Some(2) && said.contains("bundle.json.sig: ") && said.contains("damaged"), "{said}");
    let mut bad = bench.command(&["bundle", "-o", "none.tar.gz", "--sign", &key(&bench, "encrypted")]);
    let bad = bad.env_remove("SSH_AUTH_SOCK").output().unwrap();
    assert_eq!(bad.status.code(), Some(2), "{}", text(&bad.stderr));
    assert!(text(&bad.stderr).contains("passphrase") && !bench.path("none.tar.gz").exists());
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

    // What says which work was done: with the study, its programs and what each trial requested.
    for (changed, says) in [
        (Bundle { script: b"import os".to_vec(), ..bundle.clone() }, "rederive.py: not the script of baremark"),
        (
            Bundle { run: with(&bundle.run, "\"argv\":[\"sh\"", "\"argv\":[\"bash\""), ..bundle.clone() },
            "run.json: plan.arms[",
        ),
        (
            Bundle { run: with(&bundle.run, "loops of 200 and 300", "loops of 200 and 301"), ..bundle.clone() },
            "run.json: plan.title",
        ),
        (
            Bundle { run: with(&bundle.run, "most_blocks = 4", "most_blocks = 7"), ..bundle.clone() },
            "run.json: plan.design",
        ),
        (
            Bundle { run: with(&bundle.run, "\"machine\":{", "\"machine\":{\"proved\":true,"), ..bundle.clone() },
            "run.json: holds",
        ),
        (
            Bundle { trials: with(&bundle.trials, "\"spec\":{", "\"spec\":{\"proved\":true,"), ..bundle.clone() },
            "trials.json: holds",
        ),
        (
            Bundle { trials: with(&bundle.trials, "\"argv\":[\"sh\"", "\"argv\":[\"bash\""), ..bundle.clone() },
            "trials.json: trial 0: its request does not follow",
        ),
    ] {
        let (code, said) = verified(&bench, &changed);
        assert!(code == Some(4) && said.contains("NOT verified") && said.contains(says), "{says}: {said}");
    }
    let doubled = Bundle { result: with(&bundle.result, "{", "{\"format\":\"x\","), ..bundle.clone() };
    let (code, said) = verified(&bench, &doubled);
    assert!(code == Some(2) && said.contains("the key \"format\" is there twice"), "{said}");

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

/// Earlier versions wrote neither timelines nor when a trial was observed.
#[test]
fn a_bundle_of_a_version_that_wrote_fewer_keys_is_verified() {
    let bench = Bench::new();
    let bundle = unpack(&bundled(&bench)).unwrap();
    let mut result: Value = serde_json::from_slice(&bundle.result).unwrap();
    result.as_object_mut().unwrap().remove("timelines");
    for trial in result["trials"].as_array_mut().unwrap() {
        let observed = trial.as_object_mut().unwrap().remove("observed_s");
        assert!(observed.is_some(), "{trial:#}");
    }
    let earlier = Bundle { result: serde_json::to_vec(&result).unwrap(), ..bundle.clone() };
    let (code, said) = verified(&bench, &earlier);
    assert!(code == Some(0) && said.starts_with("verified: run "), "{said}");

    // Where they are written, they are compared.
    let mut result: Value = serde_json::from_slice(&bundle.result).unwrap();
    result["trials"][0]["observed_s"][0] = 77.0.into();
    let changed = Bundle { result: serde_json::to_vec(&result).unwrap(), ..bundle };
    let (code, said) = verified(&bench, &changed);
    assert!(code == Some(4) && said.contains("trials[0].observed_s[0]: "), "{said}");
}

/// Before, a bundle of 330 KB took 1.1 GiB.
#[test]
fn a_small_file_with_large_contents_is_refused_in_little_memory() {
    let bench = Bench::new();
    let bundle = unpack(&bundled(&bench)).unwrap();
    let trials: Value = serde_json::from_slice(&bundle.trials).unwrap();
    let most = usize::try_from(MOST_BYTES[3]).unwrap();
    let repeated = |one: &str| {
        let many = format!("{one},").repeat((most - one.len() - 2) / (one.len() + 1));
        format!("[{many}{one}]").into_bytes()
    };
    for one in [trials[0].to_string(), "{}".to_owned(), "[]".to_owned(), "0".to_owned()] {
        for changed in [
            Bundle { trials: repeated(&one), ..bundle.clone() },
            Bundle { result: repeated(&one)[..usize::try_from(MOST_BYTES[4]).unwrap()].to_vec(), ..bundle.clone() },
        ] {
            let packed = pack(&changed).unwrap();
            fs::write(bench.path("large.tar.gz"), &packed).unwrap();
            let output = bounded(&bench, 512, &["verify", "large.tar.gz"]);
            let said = text(&output.stdout) + &text(&output.stderr);
            let refused = matches!(output.status.code(), Some(2 | 4)) && !said.contains("memory allocation");
            assert!(refused, "{one:.60}, {} bytes: {:?} {said:.1000}", packed.len(), output.status);
        }
    }
    let good = bounded(&bench, 512, &["verify", "run.tar.gz"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
}

#[test]
fn a_site_shows_runs_of_the_store_and_bundles_that_verify() {
    let bench = Bench::new();
    let bundle = unpack(&bundled(&bench)).unwrap();
    let made = bench.run(&["site", "pages"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let index = fs::read_to_string(bench.path("pages/index.html")).unwrap();
    let run = serde_json::from_slice::<Value>(&bundle.result).unwrap()["run"]["id"].as_str().unwrap().to_owned();
    assert!(index.contains("loops of 200 and 300") && index.contains(&format!("\"p\":\"{run}.html\"")), "{index}");
    let page = fs::read_to_string(bench.path(&format!("pages/{run}.html"))).unwrap();
    assert!(page.contains("loops of 200 and 300") && page.contains("<a href=\"index.html\">"));
    let names = |folder: &str| {
        let mut names: Vec<String> = fs::read_dir(bench.path(folder))
            .unwrap()
            .map(|page| page.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("pages"), [&format!("{run}.html"), "changes.atom", "index.html", "runs-0.js"]);

    // A stranger's names are text, and become no path. What an earlier index loaded is gone; what is somebody else's stays.
    let title = "<script>alert(1)</script>";
    let run = text(&bundle.run).replace("loops of 200 and 300", title).into_bytes();
    let renamed = Bundle { run, ..bundle };
    fs::write(bench.path("bad.tar.gz"), pack(&renamed).unwrap()).unwrap();
    fs::create_dir(bench.path("others")).unwrap();
    for name in ["runs-7.js", "studies-0.js", "runs-mine.js"] {
        fs::write(bench.path("others").join(name), "").unwrap();
    }
    let mixed = bench.run(&["site", "others", "run.tar.gz", "bad.tar.gz"]);
    assert_eq!(mixed.status.code(), Some(4), "{}", text(&mixed.stderr));
    assert!(text(&mixed.stderr).contains("bad.tar.gz: not verified"), "{}", text(&mixed.stderr));
    let runs = fs::read_to_string(bench.path("others/runs-0.js")).unwrap();
    assert!(runs.contains("bundle, verified") && !runs.contains(title), "{runs}");
    assert_eq!(names("others"), ["bundle-1.html", "changes.atom", "index.html", "runs-0.js", "runs-mine.js"]);
    // Where none is left the code is the same: it was 2, and the store was said to have no run.
    let none = bench.run(&["site", "none", "bad.tar.gz"]);
    assert_eq!(none.status.code(), Some(4), "{}", text(&none.stderr));
    assert!(text(&none.stderr).contains("no bundle could be verified; nothing is written"), "{}", text(&none.stderr));
    assert!(!bench.path("none").exists());
}

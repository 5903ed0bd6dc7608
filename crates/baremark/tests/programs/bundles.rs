//! What readers of a bundle have without this program: the script that it carries, which derives its numbers again, and OpenSSH, which checks its
//! signature.

use crate::common::bench::{Bench, text};
use crate::common::bundled::bundled;
use crate::common::installed::has;
use crate::common::stored;
use baremark_bundle::{Bundle, NAMESPACE, pack, unpack};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Runs the script of this version over a bundle in the bench's folder.
fn derived(bench: &Bench, bundle: &str) -> (Option<i32>, String) {
    fs::write(bench.path("rederive.py"), baremark_bundle::REDERIVE).unwrap();
    let ran = Command::new("python3").args(["rederive.py", bundle]).current_dir(bench.folder.path()).output().unwrap();
    (ran.status.code(), text(&ran.stdout) + &text(&ran.stderr))
}

/// What a result has of it: rows of estimates, members, fairness, ratios and slopes, with means next to estimates, and how many rows have an interval.
fn rows(result: &[u8]) -> [usize; 2] {
    let result: Value = serde_json::from_slice(result).unwrap();
    let kinds = ["estimates", "members", "fairness", "ratios", "slopes"];
    let all: Vec<&Value> = kinds.iter().filter_map(|kind| result.get(kind)?.as_array()).flatten().collect();
    let with = |key: &str| all.iter().filter(|row| row[key].is_number()).count();
    [all.len() + with("mean"), with("lo")]
}

#[test]
fn a_bundle_is_derived_again_by_the_script_that_it_carries() {
    if !has("deriving a bundle again", &["python3"]) {
        return;
    }
    let bench = Bench::new();
    let bundle = unpack(bundled(&bench).as_slice()).unwrap();
    let (code, said) = derived(&bench, "run.tar.gz");
    assert_eq!(code, Some(0), "{said}");
    let [all, with_intervals] = rows(&bundle.result);
    assert!(said.ends_with(&format!("\n{all} of {all} agree\n")) && with_intervals > 2, "{said}");

    // It is no echo: another limit of one interval, which follows from nothing, is found.
    let mut result: Value = serde_json::from_slice(&bundle.result).unwrap();
    let hi = result["ratios"][0]["hi"].as_f64().unwrap();
    result["ratios"][0]["hi"] = (hi * (1.0 + 1e-8)).into();
    let changed = |result: &Value| {
        let changed = Bundle { result: serde_json::to_vec(result).unwrap(), ..bundle.clone() };
        fs::write(bench.path("changed.tar.gz"), pack(&changed).unwrap()).unwrap();
        derived(&bench, "changed.tar.gz")
    };
    let (code, said) = changed(&result);
    assert_eq!((code, said.matches("DIFFERS").count()), (Some(1), 1), "{said}");

    // Each number is as it was, and the ratio that of the one program to the other: with its sides exchanged it says the opposite.
    let mut result: Value = serde_json::from_slice(&bundle.result).unwrap();
    let row = &mut result["ratios"][0];
    let (above, below) = (row["treatment"].take(), row["relative_to"].take());
    (row["treatment"], row["relative_to"]) = (below, above);
    let (code, said) = changed(&result);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("DIFFERS rows of result.json: some are not of the arms or the pairs of the plan"), "{said}");

    // What a name holds moves no cursor: a line that differs could be written over.
    let mut result: Value = serde_json::from_slice(&bundle.result).unwrap();
    result["estimates"][0]["metric"] = "wall_s\u{1b}[1A\u{1b}[2K".into();
    let (_, said) = changed(&result);
    assert!(!said.contains('\u{1b}') && said.contains("\\x1b[1A"), "{said}");
}

/// Every stored run that tests have: of several versions, with single arms and pairs, percentiles, contrasts that explain and injected costs.
#[test]
fn every_interval_of_stored_runs_is_derived_again_with_the_same_digits() {
    if !has("deriving stored runs again", &["python3"]) {
        return;
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let packed = fs::read_dir(golden.join("samples")).unwrap().map(|entry| entry.unwrap().path());
    let mut stores: Vec<_> = packed.filter(|path| path.to_string_lossy().ends_with(".db.gz")).collect();
    stores.extend(["small.db", "schema-3.db", "schema-4.db"].map(|name| golden.join(name)));
    let (mut all, mut with_intervals) = (0, 0);
    for store in &stores {
        let bench = Bench::new();
        fs::create_dir(bench.path("store")).unwrap();
        let bytes = fs::read(store).unwrap();
        match store.extension().is_some_and(|end| end == "gz") {
            true => {
                let mut whole = Vec::new();
                GzDecoder::new(bytes.as_slice()).read_to_end(&mut whole).unwrap();
                fs::write(bench.store(), whole).unwrap();
            }
            false => fs::write(bench.store(), bytes).unwrap(),
        }
        let history = bench.json(&["history", "--json"]);
        for run in history["runs"].as_array().unwrap() {
            let made = bench.run(&["bundle", run["id"].as_str().unwrap(), "-o", "run.tar.gz"]);
            assert!(made.status.success(), "{}: {}", store.display(), text(&made.stderr));
            let bundle = unpack(fs::read(bench.path("run.tar.gz")).unwrap().as_slice()).unwrap();
            let (code, said) = derived(&bench, "run.tar.gz");
            let [rows, limits] = rows(&bundle.result);
            assert_eq!(code, Some(0), "{} {run}: {said}", store.display());
            assert!(said.ends_with(&format!("{rows} of {rows} agree\n")), "{} {run}: {said}", store.display());
            (all, with_intervals) = (all + rows, with_intervals + limits);
        }
    }
    assert!(stores.len() >= 8 && with_intervals > 100, "{} stores, {with_intervals} of {all} rows", stores.len());
    println!("{with_intervals} intervals of {all} rows of {} stores are derived again", stores.len());
}

/// Runs a program in the bench's folder with a file as its input.
fn ran(bench: &Bench, program: &str, arguments: &[&str], input: Option<&str>) -> Output {
    let input = input.map_or(Stdio::null(), |name| fs::File::open(bench.path(name)).unwrap().into());
    Command::new(program).args(arguments).stdin(input).current_dir(bench.folder.path()).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

/// A stored run with keys of each kind, made by ssh-keygen, and a file that allows them.
fn with_keys() -> Bench {
    let bench = stored::bench("small.db");
    let mut allowed = String::new();
    for (name, kind) in KEYS {
        let arguments: Vec<&str> = ["-q", "-N", "", "-f", name].into_iter().chain(kind.split(' ')).collect();
        // Of ECDSA keys one in 256 has a number that begins with zeros, whose file is not read (docs/bundles.md).
        loop {
            succeeded(&ran(&bench, "ssh-keygen", &arguments, None));
            let said = text(&bench.run(&["bundle", "-o", "tried.tar.gz", "--sign", name]).stderr);
            if !said.contains("(length invalid)") {
                break;
            }
            fs::remove_file(bench.path(name)).unwrap();
        }
        let public = fs::read_to_string(bench.path(&format!("{name}.pub"))).unwrap();
        allowed.push_str(&format!("{name}@example.org namespaces=\"{NAMESPACE}\" {public}"));
    }
    bench.write("allowed", &allowed);
    bench
}

const KEYS: [(&str, &str); 5] = [
    ("ed25519", "-t ed25519"),
    ("p256", "-t ecdsa -b 256"),
    ("p384", "-t ecdsa -b 384"),
    ("rsa2048", "-t rsa -b 2048"),
    ("rsa4096", "-t rsa -b 4096"),
];

/// The signed part of a bundle and its signature, as files, for OpenSSH.
fn taken_apart(bench: &Bench, name: &str) {
    let bundle = unpack(fs::read(bench.path(name)).unwrap().as_slice()).unwrap();
    fs::write(bench.path("bundle.json"), bundle.manifest().unwrap()).unwrap();
    fs::write(bench.path("bundle.json.sig"), bundle.signature.unwrap()).unwrap();
}

/// `ssh-keygen -Y verify` of what was taken apart.
fn by_openssh(bench: &Bench, principal: &str, allowed: &str) -> (bool, String) {
    let arguments = ["-Y", "verify", "-f", allowed, "-I", principal, "-n", NAMESPACE, "-s", "bundle.json.sig"];
    let output = ran(bench, "ssh-keygen", &arguments, Some("bundle.json"));
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn openssh_checks_our_signatures_and_we_check_its() {
    if !has("signatures of OpenSSH", &["ssh-keygen"]) {
        return;
    }
    let bench = with_keys();
    succeeded(&bench.run(&["bundle", "-o", "plain.tar.gz"]));
    let plain = unpack(fs::read(bench.path("plain.tar.gz")).unwrap().as_slice()).unwrap();
    for (name, _) in KEYS {
        let principal = format!("{name}@example.org");
        succeeded(&bench.run(&["bundle", "-o", "ours.tar.gz", "--sign", name]));
        taken_apart(&bench, "ours.tar.gz");
        let (good, said) = by_openssh(&bench, &principal, "allowed");
        assert!(good, "{name}: {said}");
        fs::write(bench.path("bundle.json"), plain.manifest().unwrap().to_ascii_uppercase()).unwrap();
        assert!(!by_openssh(&bench, &principal, "allowed").0, "{name}: another text");

        fs::write(bench.path("bundle.json"), plain.manifest().unwrap()).unwrap();
        let signed = ran(&bench, "ssh-keygen", &["-q", "-Y", "sign", "-n", NAMESPACE, "-f", name], Some("bundle.json"));
        assert!(signed.status.success(), "{}", text(&signed.stderr));
        let theirs = Bundle { signature: Some(signed.stdout), ..plain.clone() };
        fs::write(bench.path("theirs.tar.gz"), pack(&theirs).unwrap()).unwrap();
        let said = succeeded(&bench.run(&["verify", "theirs.tar.gz", "--allowed-signers", "allowed"]));
        assert!(said.contains(&format!("signed by {principal} with ")), "{name}: {said}");
    }
}

/// Both say the same of the same file of allowed signers, whether they allow a signature or not.
#[test]
fn files_of_allowed_signers_mean_the_same_to_both() {
    if !has("allowed signers of OpenSSH", &["ssh-keygen"]) {
        return;
    }
    let bench = with_keys();
    succeeded(&bench.run(&["bundle", "-o", "ours.tar.gz", "--sign", "ed25519"]));
    taken_apart(&bench, "ours.tar.gz");
    let key = fs::read_to_string(bench.path("ed25519.pub")).unwrap();
    let other = fs::read_to_string(bench.path("p256.pub")).unwrap();
    for (line, expected) in [
        (format!("maria {key}"), true),
        (format!("# a comment\n\nmaria,joan {key}"), true),
        (format!("joan,maria namespaces=\"file,baremark-*\" {key}"), true),
        (format!("\"maria\" {key}"), true),
        (format!("maria valid-after=\"20200101Z\",valid-before=\"20990101Z\" {key}"), true),
        (format!("maria valid-before=\"20200101Z\" {key}maria {key}"), true),
        (format!("maria valid-before=\"20200101\" {key}"), false),
        (format!("maria valid-after=\"209901011200\" {key}"), false),
        (format!("maria namespaces=\"file\" {key}"), false),
        (format!("maria namespaces=\"*,!baremark-bundle\" {key}"), false),
        (format!("maria cert-authority {key}"), false),
        (format!("maria {other}"), false),
        (format!("maria no-such-option {key}"), false),
        ("maria\n".to_owned(), false),
    ] {
        bench.write("signers", &line);
        let (theirs, why) = by_openssh(&bench, "maria", "signers");
        let output = bench.run(&["verify", "ours.tar.gz", "--allowed-signers", "signers"]);
        let ours = text(&output.stdout) + &text(&output.stderr);
        assert_eq!((theirs, output.status.success()), (expected, expected), "{line}: {why}{ours}");
    }
}

/// An agent of this test, ended with it.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn an_agent_signs_with_keys_that_have_a_passphrase() {
    if !has("an agent's signatures", &["ssh-keygen", "ssh-agent", "ssh-add"]) {
        return;
    }
    let bench = with_keys();
    for name in ["ed25519", "p256", "rsa2048"] {
        succeeded(&ran(&bench, "ssh-keygen", &["-q", "-p", "-P", "", "-N", "a passphrase", "-f", name], None));
    }
    let socket = bench.path("agent").display().to_string();
    let agent = Command::new("ssh-agent").args(["-D", "-a", &socket]).stdout(Stdio::null()).spawn().unwrap();
    let _agent = Agent(agent);
    while !Path::new(&socket).exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ask = bench.write("ask", "#!/bin/sh\necho a passphrase\n");
    fs::set_permissions(&ask, fs::Permissions::from_mode(0o700)).unwrap();
    let sign = |key: &str| -> io::Result<Output> {
        bench.command(&["bundle", "-o", "signed.tar.gz", "--sign", key]).env("SSH_AUTH_SOCK", &socket).output()
    };
    for name in ["ed25519", "p256", "rsa2048"] {
        let refused = sign(name).unwrap();
        assert!(!refused.status.success(), "{name}");
        assert!(text(&refused.stderr).contains("it does not have this key"), "{}", text(&refused.stderr));
        let mut add = Command::new("ssh-add");
        add.arg(name).env("SSH_AUTH_SOCK", &socket).env("SSH_ASKPASS", &ask).env("SSH_ASKPASS_REQUIRE", "force");
        succeeded(&add.current_dir(bench.folder.path()).stdin(Stdio::null()).output().unwrap());
        for file in [name.to_owned(), format!("{name}.pub")] {
            succeeded(&sign(&file).unwrap());
            taken_apart(&bench, "signed.tar.gz");
            let (good, said) = by_openssh(&bench, &format!("{name}@example.org"), "allowed");
            assert!(good, "{file}: {said}");
        }
    }
}

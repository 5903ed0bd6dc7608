//! Bad input: a clear error, the right exit code, and nothing run.

use crate::common::bench::{Bench, SMALL, text};
use crate::common::installed::has;
use crate::common::refused::refused;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

fn refused_study(study: impl AsRef<[u8]>) -> String {
    let bench = Bench::new();
    bench.write("odd.toml", study);
    let message = refused(&bench, &["run", "odd.toml"], 2);
    assert!(!bench.store().exists(), "a refused study must leave no run behind");
    message
}

#[test]
fn a_malformed_study_is_refused_with_line_and_remedy() {
    let message = refused_study(SMALL.replace("precision", "precison"));
    assert!(
        message.contains("odd.toml:16: unknown key 'precison' in [design]; did you mean 'precision'?"),
        "{message}"
    );
    let message = refused_study(SMALL.replace("\"8 MiB\"", "\"8 s\""));
    assert!(message.contains("odd.toml:6: table") && message.contains("unknown unit 's'"), "{message}");
    let message = refused_study(SMALL.replace("\"8 MiB\"", "8"));
    assert!(message.contains("such as \"512 MiB\""), "{message}");
    let message = refused_study(b"\xff\xfe[study]");
    assert!(message.contains("not UTF-8"), "{message}");
    let message = refused_study(SMALL.replace("page =", "page"));
    assert!(message.contains("odd.toml:9"), "{message}");
}

/// It ended with a panic.
#[test]
fn a_file_whose_name_is_no_text_is_refused() {
    let bench = Bench::new();
    for words in
        [&["ab", "true", "true", "--print-study", "--export-markdown"][..], &["run", "--in", "native", "--with"]]
    {
        let mut command = bench.command(words);
        command.arg(OsStr::from_bytes(b"\xff"));
        let output = if words[0] == "run" { command.args(["--", "true"]).output() } else { command.output() }.unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("not UTF-8; rename the file"), "{words:?}: {said}");
    }
}

#[test]
fn an_impossible_study_is_refused() {
    let message = refused_study(SMALL.replace("\"8 MiB\"", "\"64 TiB\""));
    assert!(message.contains("table needs 64 TiB of memory") && message.contains("available"), "{message}");
    let message = refused_study(SMALL.replace("ranks = 1", "ranks = 4096"));
    assert!(message.contains("4096 ranks need a CPU each"), "{message}");
    let message = refused_study(SMALL.replace("\"8 MiB\"", "\"9 MiB\""));
    assert!(message.contains("nearest is 8 MiB or 16 MiB"), "{message}");
    let container = "[environments.container]\nimage = \"--privileged\"\n";
    let message = refused_study(SMALL.replace("\"null\"", "\"container\"") + container);
    assert!(
        message.contains("[environments.container] image: '--privileged' is not an image reference; write"),
        "{message}"
    );
    let message = refused_study(SMALL.replace("page = \"4k\"", "page = \"4k\"\nhost_backing = \"2m\""));
    assert!(message.contains("'host_backing' applies to no environment of this study"), "{message}");
}

#[test]
fn a_study_that_is_not_there_names_what_is() {
    let bench = Bench::new();
    let message = refused(&bench, &["run", "standrad"], 2);
    assert!(message.contains("no file and no shipped study 'standrad'; did you mean 'standard'?"), "{message}");
    let message = refused(&bench, &["run", "nothing-of-the-kind"], 2);
    assert!(message.ends_with("; `baremark list studies` says what each shipped one answers\n"), "{message}");
    let message = refused(&bench, &["run", "."], 2);
    assert!(message.contains("is a folder"), "{message}");
    fs::create_dir(bench.path("standard")).unwrap();
    let printed = bench.run(&["run", "standard", "--print-study"]);
    assert_eq!(printed.status.code(), Some(0), "a folder of that name is not a study: {}", text(&printed.stderr));
    for nothing in [&["run"][..], &["run", "--in", "native"]] {
        let message = refused(&bench, nothing, 2);
        assert!(message.contains("neither a study nor a program is named; write run STUDY"), "{nothing:?}: {message}");
    }
    for reading in
        [&["report", "nothing"][..], &["report"], &["check", "--against", "a"], &["resume"], &["resume", "a"]]
    {
        let message = refused(&bench, reading, 2);
        assert!(
            message.contains("baremark.db does not exist: no run has been stored there yet"),
            "{reading:?}: {message}"
        );
        assert!(!bench.store().exists(), "{reading:?} made a store");
    }
    for form in ["--csv", "--tables=order-entry", "--tables=d1"] {
        let message = refused(&bench, &["report", form, "--json"], 2);
        assert!(message.contains("both print to standard output; write one of them"), "{form}: {message}");
    }
    fs::create_dir_all(bench.store().parent().unwrap()).unwrap();
    fs::write(bench.store(), "notes").unwrap();
    let message = refused(&bench, &["report"], 2);
    assert!(message.contains("is not a baremark store"), "{message}");
    let bench = Bench::new();
    refused(&bench, &["plan"], 2);
}

#[test]
fn lists_and_doctor_answer() {
    let bench = Bench::new();
    for what in ["workloads", "environments", "studies", "published", "keys"] {
        let output = bench.run(&["list", what]);
        assert!(output.status.success() && output.stdout.len() > 40, "{what}: {}", text(&output.stdout));
        let shown = text(&output.stdout);
        let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "list {what}: {wide:#?}");
    }
    let one = text(&bench.run(&["list", "workloads", "block"]).stdout);
    assert!(one.starts_with("block\n") && !one.contains("\nredis\n"), "{one}");
    let one = bench.json(&["list", "workloads", "block", "--json"]);
    assert_eq!((one["workloads"].as_array().unwrap().len(), &one["workloads"][0]["kind"]), (1, &"block".into()));
    let unknown = refused(&bench, &["list", "workloads", "blok"], 2);
    assert!(unknown.contains("unknown workload 'blok'; did you mean 'block'?"), "{unknown}");
    assert!(refused(&bench, &["list", "keys", "block"], 2).contains("write list workloads KIND"));
    let all = text(&bench.run(&["list"]).stdout);
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    let keys = bench.json(&["list", "keys", "--json"]);
    for (section, key) in
        [("factors", "page"), ("command", "argv"), ("environments.qemu", "vcpus"), ("environments.NAME", "like")]
    {
        let own = keys["sections"].as_array().unwrap().iter().find(|own| own["section"] == section);
        let has = own.is_some_and(|own| own["keys"].as_array().unwrap().iter().any(|row| row["key"] == key));
        assert!(has, "[{section}] {key}: {keys:#}");
        assert!(text(&bench.run(&["list", "keys"]).stdout).contains(&format!("[{section}]\n")), "{section}");
    }
    let findings = bench.json(&["doctor", "--json"]);
    assert!(findings["findings"].as_array().unwrap().len() >= 6, "{findings:#}");
    assert!(text(&bench.run(&["doctor"]).stdout).contains("virtualization "));
    assert!(text(&bench.run(&["history"]).stdout).contains("No run has been stored yet"));
}

#[test]
fn doctor_lists_every_feature_with_what_it_needs() {
    let bench = Bench::new();
    let features = bench.json(&["doctor", "--json"])["features"].as_array().unwrap().clone();
    let listed = |name: &str| features.iter().any(|feature| feature["name"] == name);
    let places = bench.json(&["list", "environments", "--json"]);
    let names = places["environments"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap());
    // Everybody has this machine as it is.
    let lacking: Vec<&str> = names.filter(|name| !["native", "null"].contains(name) && !listed(name)).collect();
    assert!(lacking.is_empty() && listed("hardware counters") && listed("network paths"), "{lacking:?} {features:#?}");
    // Of a second look at containers and sandboxes: who may count none reads what it takes.
    let calls = features.iter().find(|feature| feature["name"] == "counts of system calls").expect("it is listed");
    let needs = calls["needs"].as_str().unwrap();
    assert!(needs.contains("CAP_BPF and CAP_PERFMON") && needs.contains("unprivileged_bpf_disabled"), "{calls:#}");
    assert!(calls["here"].is_boolean() && calls["grant"].as_str().unwrap().starts_with("sudo "), "{calls:#}");
    for feature in &features {
        assert!(!feature["needs"].as_str().unwrap().is_empty(), "{feature:#}");
        assert_eq!(
            feature["here"] == false,
            feature["missing"].is_string() && !feature["here"].is_null(),
            "{feature:#}"
        );
    }
    let said = text(&bench.run(&["doctor"]).stdout);
    let (_, below) = said
        .split_once("\nFeatures, what each needs, and the command that grants that alone:\n")
        .unwrap_or_else(|| panic!("{said}"));
    assert_eq!(below.lines().filter(|line| !line.starts_with("   ")).count(), features.len(), "{said}");
}

#[test]
fn completions_and_manual_know_every_command() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = bench.run(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("compare"), "{shell}");
    }
    let page = text(&bench.run(&["man"]).stdout);
    assert!(page.starts_with(".ie") || page.contains(".TH baremark 1"), "{page}");
    std::fs::create_dir(bench.path("man")).unwrap();
    let written = text(&bench.run(&["man", "--to", "man"]).stdout);
    for command in ["baremark", "baremark-run", "baremark-compare", "baremark-check", "baremark-verify-scale"] {
        let page = std::fs::read_to_string(bench.path(&format!("man/{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {command} 1")), "{page}");
    }
    assert!(!written.contains("agent") && !written.contains("help"), "{written}");
    refused(&bench, &["man", "--to", "nowhere"], 1);
}

/// The commit of the clone in which the tests were built, from git's own files; `None` outside of a clone.
fn commit() -> Option<String> {
    let git = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git");
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(branch) = head.trim().strip_prefix("ref: ") else { return Some(head.trim().to_owned()) };
    let loose = fs::read_to_string(git.join(branch)).ok().map(|commit| commit.trim().to_owned());
    loose.or_else(|| {
        let packed = fs::read_to_string(git.join("packed-refs")).ok()?;
        packed.lines().find_map(|line| line.strip_suffix(branch)).map(|commit| commit.trim().to_owned())
    })
}

/// Where the build had no git, or was given a commit, there is nothing to compare with.
#[test]
fn the_version_names_the_commit_of_the_clone() {
    let printed = text(&Bench::new().run(&["--version"]).stdout);
    assert_eq!(printed, format!("baremark {}\n", env!("BAREMARK_VERSION")));
    let (version, named) = printed.trim().split_once(" (").unwrap_or((printed.trim(), ")"));
    assert_eq!(version, format!("baremark {}", env!("CARGO_PKG_VERSION")));
    if option_env!("BAREMARK_COMMIT").is_none()
        && let (Some(commit), Some(named)) = (commit(), named.strip_suffix(')').filter(|named| !named.is_empty()))
    {
        assert!(named.len() >= 8 && commit.starts_with(named), "{named} is not the beginning of {commit}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let bench = Bench::new();
    let mut child = bench.spawn(&["list", "workloads"]);
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_store_that_is_a_pipe_is_refused_at_once() {
    let bench = Bench::new();
    fs::create_dir(bench.path("store")).unwrap();
    assert!(Command::new("mkfifo").arg(bench.store()).status().unwrap().success());
    bench.write("small.toml", SMALL);
    for (arguments, code) in [(&["history"][..], 2), (&["report"], 2), (&["run", "small.toml"], 1)] {
        // Whoever opens it waits for somebody who writes.
        let program = env!("CARGO_BIN_EXE_baremark");
        let mut command = Command::new("timeout");
        command.args(["60", program, "--store"]).arg(bench.store()).args(arguments).current_dir(bench.folder.path());
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains("is not a baremark store (not a regular file)"), "{said}");
    }
}

#[test]
fn a_study_without_an_end_is_refused_at_the_size_limit() {
    let bench = Bench::new();
    // With room for little more than the program, so that whoever reads on is ended by that.
    let script = "ulimit -v 1500000; exec \"$@\"";
    for command in ["plan", "run"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_baremark"), "--store"]).arg(bench.store());
        let output = shell.args([command, "/dev/zero"]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("/dev/zero has more than 1 MiB; a study is a short TOML file"), "{said}");
    }
}

/// A file that the study brings to its sites is looked for before anything runs, by `plan` as well.
#[test]
fn plan_refuses_a_study_that_brings_a_missing_file() {
    let bench = Bench::new();
    let study = "[study]\ntitle = \"t\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"true\"]\n\
                 [command.bring]\n\"data.bin\" = \"/no/such/data.bin\"\n";
    bench.write("bring.toml", study);
    for command in ["plan", "run"] {
        let said = refused(&bench, &[command, "bring.toml"], 2);
        assert!(said.contains("[command.bring] data.bin: /no/such/data.bin cannot be read: "), "{command}: {said}");
    }
}

/// `run s<TAB>` in bash, with the script that the program prints.
#[test]
fn the_shell_completes_shipped_studies() {
    if !has("completions of bash", &["bash"]) {
        return;
    }
    let bench = Bench::new();
    let script = bench.write("completions.bash", bench.run(&["completions", "bash"]).stdout);
    let completed = |command: &str, word: &str| {
        let typed = format!(
            "source {}; COMP_WORDS=(baremark {command} {word}); COMP_CWORD=2; _baremark baremark {word} {command}; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let ran = std::process::Command::new("bash").args(["-c", &typed]).output().unwrap();
        text(&ran.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for command in ["run", "plan", "show"] {
        let found = completed(command, "st");
        let shipped = [
            "standard",
            "stream",
            "star-random-access",
            "stress-ng",
            "start-up",
            "stretched",
            "stretched-mechanisms",
            "stretched-nbd",
        ];
        assert_eq!(found, shipped, "{command}");
    }
    // A study of one's own is still taken.
    assert!(text(&bench.run(&["run", "nowhere.toml"]).stderr).contains("there is no file and no shipped study"));
}

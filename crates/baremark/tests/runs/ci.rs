//! docs/ci.md does what it says: what its jobs run of baremark gives the exit codes of the table.

use crate::common::bench::{Bench, text};
use crate::common::pages::{jobs, page};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands of baremark in the jobs, as typed.
fn commands() -> Vec<String> {
    let jobs = jobs().join("\n");
    let lines = jobs.lines().map(|line| line.trim().trim_start_matches("- "));
    let own = lines.filter(|line| line.starts_with("baremark "));
    own.map(|line| line.split(" ||").next().unwrap().to_owned()).collect()
}

#[test]
fn what_the_jobs_run_gives_the_exit_codes_of_the_table() {
    let bench = Bench::new();
    let times = |name: &str, factor: f64| {
        let times: Vec<String> = (0..8).map(|at| format!("{}", factor * (1.0 + 0.001 * f64::from(at % 3)))).collect();
        let row = format!(
            "{{\"command\":\"./program\",\"mean\":{factor},\"median\":{factor},\"times\":[{}]}}",
            times.join(",")
        );
        bench.write(name, format!("{{\"results\":[{row}]}}"));
    };
    for (name, factor) in
        [("old1", 0.1), ("old2", 0.1001), ("old3", 0.0999), ("new1", 0.12), ("new2", 0.1201), ("new3", 0.1199)]
    {
        times(&format!("{name}.json"), factor);
    }
    bench.write("rate", "sleep 0.05\necho rate $1\n");
    let program = Path::new(env!("CARGO_BIN_EXE_baremark")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let commands = commands();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        // The builds stand for programs of which one prints a larger figure, and which rest for most of a phase.
        let quicker = command
            .replace("60s", "24h")
            .replace("baremark ab ", "baremark ab --by rate -m 'rate=rate ([0-9]+)' ")
            .replace("old=./old", "'old=sh rate 100'")
            .replace("new=./new", "'new=sh rate 130'");
        let ran = Command::new("sh")
            .args(["-c", &quicker])
            .current_dir(bench.path("."))
            .env("PATH", &path)
            .env("XDG_DATA_HOME", bench.path("."))
            .env("XDG_STATE_HOME", bench.path("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let expected = if command.contains("import") { 0 } else { 4 };
        assert_eq!(ran.status.code(), Some(expected), "{quicker}: {}{}", text(&ran.stdout), text(&ran.stderr));
        let summary = bench.path("summary.md");
        if expected == 4 {
            let markdown = std::fs::read_to_string(&summary).unwrap_or_default();
            assert!(markdown.contains("|---"), "{quicker}: {markdown}");
            std::fs::remove_file(summary).unwrap();
        }
    }
    // The table has the codes that the program documents.
    for code in ["| 0 |", "| 4 |", "| 5 |", "| 1, 2, 3, 130 |"] {
        assert!(page("ci.md").contains(code), "{code}");
    }
}

/// A program that prints a figure has become slower, or did so for a while: its study is run again before the check fails.
#[test]
fn an_alarm_is_confirmed_by_runs_of_the_same_study() {
    let bench = Bench::new();
    let figure = |rate: u32| bench.write("figure", format!("rate {rate}\n"));
    let measured = || -> String {
        let rate = ["--by", "rate:higher", "-m", "rate=rate ([0-9]+)", "--budget", "24h", "--print-study"];
        let programs = ["-n", "one=cat figure", "-n", "two=echo rate 7"];
        let printed = bench.run(&[&["ab"][..], &rate[..], &programs[..]].concat());
        // Constant figures need no more blocks than an interval, of one quad each.
        let few = "phase = \"1 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4";
        let study = text(&printed.stdout).replace("phase = \"100 ms\"\nmost_blocks = 10000", few);
        assert!(study.contains(few), "{study}");
        bench.write("figures.toml", study);
        let document = bench.json(&["--json", "run", "figures.toml"]);
        document["run"]["id"].as_str().unwrap().to_owned()
    };
    let three = || [(); 3].map(|()| measured()).join(",");
    figure(100);
    let base = three();
    figure(90);
    let slower = three();
    let runs = || bench.json(&["--json", "history"])["runs"].as_array().unwrap().len();
    let check = |more: &[&str]| {
        let ran = bench.run(&[&["check", "--against", &base, &slower][..], more].concat());
        let said = text(&ran.stdout) + &text(&ran.stderr);
        (ran.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let before = runs();
    assert_eq!((check(&[]).0, runs()), (Some(4), before), "without --confirm nothing is run");
    let (code, said) = check(&["--confirm"]);
    assert!(code == Some(4) && said.contains("Further runs confirm the loss."), "{code:?} {said}");
    assert_eq!(runs(), before + 3);
    figure(100);
    let (code, said) = check(&["--confirm"]);
    assert!(code == Some(0) && said.contains("Further runs do not confirm the loss"), "{code:?} {said}");
    assert_eq!(runs(), before + 6);
    let same = three();
    let quiet = bench.run(&["check", "--against", &base, &same, "--confirm"]);
    assert_eq!((quiet.status.code(), runs()), (Some(0), before + 9), "without an alarm nothing is run again");
    // A job whose runs cannot be made again knows before there is an alarm.
    let mut elsewhere = bench.json(&["report", "--json", same.split(',').next().unwrap()]);
    elsewhere["run"]["id"] = "20200101-0000-ffffffff".into();
    let file = bench.write("elsewhere.json", elsewhere.to_string());
    let of_file = |more: &[&str]| {
        let words = ["check", "--against", &base, file.to_str().unwrap()];
        bench.run(&[&words[..], more].concat()).status.code()
    };
    assert_ne!(of_file(&[]), Some(2), "it is compared");
    assert_eq!(of_file(&["--confirm"]), Some(2));
}

/// A file is overwritten by whoever was asked for it, and at the alarm of a check nobody can be.
#[test]
fn a_study_that_overwrites_a_file_is_run_again_by_consent_alone() {
    let bench = Bench::new();
    let file = bench.path("disk");
    let study = format!(
        "[study]\ntitle = \"t\"\n[workload]\nkind = \"block\"\nfile = {file:?}\nsize = \"1 MiB\"\ncache = \"buffered\"\nwarm_up = \"0 s\"\nduration = \"50 ms\"\n\
         [factors]\nenvironment = \"native\"\nranks = 1\n[design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"24h\"\n"
    );
    bench.write("study.toml", study);
    let allowed = format!("--allow-destructive={}", file.display());
    let ran = |more: &[&str]| -> Value {
        let output = bench.run(&[&["run", "study.toml", "--json"][..], more].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    // Of a process that was stopped for all of the measured time no I/O ends, and there is nothing to compare: it is run again.
    let counted = |begin: &[&str]| {
        let mut document = ran(begin);
        for _ in 1..10 {
            if document["trials"][0]["status"] == "ok" {
                break;
            }
            document = ran(&[&allowed]);
        }
        document
    };
    let first = counted(&[]);
    let second = bench.run(&["run", "study.toml"]);
    let said = text(&second.stderr);
    assert!(second.status.code() == Some(2) && said.contains("holds 1 MiB and would be overwritten"), "{said}");
    let second = counted(&[&allowed]);
    let [first, second] = [&first, &second].map(|document| document["run"]["id"].as_str().unwrap());
    let refused = |why: &str| {
        let check = bench.run(&["check", "--against", first, second, "--confirm"]);
        let said = text(&check.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(check.status.code(), Some(2), "{said}");
        let begins = format!("--confirm: run {second} is of a study that may not be run unasked (");
        assert!(said.contains(&begins) && said.contains(why), "{said}");
    };
    refused("holds 1 MiB and would be overwritten");
    // Without the file the first of the runs began, and the second was refused for what that had left.
    std::fs::remove_file(&file).unwrap();
    refused("each run fills ");
}

//! docs/ci.md does what it says: its jobs are valid YAML where a library is at hand, and what they run of baremark gives the exit codes
//! of the table.

use crate::bench::{Bench, text};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ci.md")).unwrap()
}

/// The examples in YAML.
fn jobs() -> Vec<String> {
    let page = page();
    page.split("```yaml\n").skip(1).map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// The script of a job: the shell commands in the order in which they run.
const SCRIPT: &str = "import json, sys, yaml
job = yaml.safe_load(sys.stdin)
steps = next(iter(job['jobs'].values()))['steps'] if 'jobs' in job else [{'run': line} for line in job['performance']['script']]
print(json.dumps([step['run'] for step in steps if 'run' in step]))";

#[test]
fn the_jobs_are_yaml_and_their_scripts_are_shell() {
    assert_eq!(jobs().len(), 2);
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !has_yaml.is_ok_and(|status| status.success()) {
        println!("skipped: no YAML library (python3-yaml)");
        return;
    }
    for job in jobs() {
        let mut python = Command::new("python3");
        let mut python = python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        python.stdin.take().unwrap().write_all(job.as_bytes()).unwrap();
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success(), "{job}");
        let scripts: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
        assert!(scripts.iter().any(|script| script.contains("baremark ")), "{scripts:?}");
        for script in scripts {
            let checked = Command::new("sh").args(["-n", "-c", &script]).output().unwrap();
            assert!(checked.status.success(), "{script}: {}", text(&checked.stderr));
        }
    }
}

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
    let program = Path::new(env!("CARGO_BIN_EXE_baremark")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let commands = commands();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        // The builds stand for programs of which one takes longer; the comparison needs no minute for that.
        let quicker = command
            .replace("60s", "15s")
            .replace("5%", "50%")
            .replace("./old", "'sleep 0.01'")
            .replace("./new", "'sleep 0.2'");
        let quicker = quicker.replace("old='sleep", "'old=sleep").replace("new='sleep", "'new=sleep");
        let ran = Command::new("sh")
            .args(["-c", &quicker])
            .current_dir(bench.path("."))
            .env("PATH", &path)
            .env("XDG_DATA_HOME", bench.path("."))
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
        assert!(page().contains(code), "{code}");
    }
}

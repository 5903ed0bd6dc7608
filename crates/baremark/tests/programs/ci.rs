//! The jobs of docs/ci.md are valid YAML where a library is at hand.

use crate::common::bench::text;
use crate::common::pages::jobs;
use std::io::Write;
use std::process::{Command, Stdio};

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
        println!("skipped: docs/ci.md as YAML: no YAML library (python3-yaml)");
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

//! Each party of a run is killed in turn, and nothing is left of programs whose children leave the session and fork twice.

use crate::common::bench::{Bench, children, lives, signal};
use crate::common::sites::wait_for;
use std::fs;
use std::process::{Child, Command, Stdio};

/// Seconds that no other process sleeps: by them the processes of a test are known.
fn seconds(number: usize) -> String {
    format!("{}.{number}{}", 900 + number, std::process::id())
}

/// A shell whose children sleep: one in its group, one in a session of its own, and one in another whose parents are gone.
fn script(seconds: &str) -> String {
    format!("(setsid sh -c '(sleep {seconds} &)' &); setsid sleep {seconds} & sleep {seconds}")
}

const SLEEPERS: usize = 3;

fn command_line(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn sleepers(seconds: &str) -> Vec<u32> {
    let listed = fs::read_dir("/proc").unwrap().flatten();
    let pids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| command_line(pid).iter().take(2).eq(["sleep", seconds])).collect()
}

/// The only child of a process whose command line has this word.
fn child_with(parent: u32, word: &str) -> Option<u32> {
    children(parent).into_iter().find(|&pid| command_line(pid).iter().any(|own| own == word))
}

fn all_gone(pids: &[u32], why: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while let Some(pid) = pids.iter().find(|&&pid| lives(pid)) {
        let what = command_line(*pid);
        assert!(std::time::Instant::now() < deadline, "{why}: process {pid} is left: {what:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A run whose program sleeps; the processes from the lab to the program.
fn run(bench: &Bench, seconds: &str) -> (Child, Vec<u32>) {
    let study = format!(
        "[study]\ntitle = \"sleep\"\n[workload]\nkind = \"command\"\ntimeout = \"10 min\"\n[command]\n\
         argv = [\"sh\", \"-c\", {:?}]\n[design]\nleast_blocks = 4\nmost_blocks = 4\n",
        script(seconds)
    );
    bench.write("study.toml", study);
    fs::create_dir_all(bench.path("temporary")).unwrap();
    let mut command = bench.command(&["run", "study.toml"]);
    command.env("TMPDIR", bench.path("temporary")).stdout(Stdio::null()).stderr(Stdio::null());
    let lab = command.spawn().unwrap();
    let parties = wait_for(|| {
        let agent = child_with(lab.id(), "agent")?;
        let guard = child_with(agent, "keep")?;
        let worker = child_with(guard, "keep")?;
        let program = child_with(worker, "sh")?;
        (sleepers(seconds).len() == SLEEPERS).then(|| vec![lab.id(), agent, guard, worker, program])
    });
    (lab, parties)
}

#[test]
fn whoever_of_a_run_is_killed_nothing_of_its_program_is_left() {
    for (number, killed) in ["lab", "agent", "guard", "worker", "program"].into_iter().enumerate() {
        let (bench, seconds) = (Bench::new(), seconds(number));
        let (mut lab, parties) = run(&bench, &seconds);
        let below: Vec<u32> = parties[number..].iter().copied().chain(sleepers(&seconds)).collect();
        signal(parties[number], libc::SIGKILL);
        if killed == "lab" {
            lab.wait().unwrap();
        }
        all_gone(&below, killed);
        // The lab has gone on with the next trial.
        lab.kill().unwrap();
        lab.wait().unwrap();
        wait_for(|| sleepers(&seconds).is_empty().then_some(()));
        let temporary = || fs::read_dir(bench.path("temporary")).unwrap().count();
        wait_for(|| (temporary() == 0).then_some(()));
    }
}

/// What an agent spawns alongside trials is under a tender, which is two processes as well.
#[test]
fn whoever_of_a_tender_is_killed_nothing_of_its_program_is_left() {
    let bench = Bench::new();
    for (number, killed) in ["input", "guard", "worker", "program"].into_iter().enumerate() {
        let seconds = seconds(10 + number);
        let mut command = bench.command(&["tend", "--", "sh", "-c", &script(&seconds)]);
        let mut tender = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let parties = wait_for(|| {
            let worker = child_with(tender.id(), "tend")?;
            let program = child_with(worker, "sh").filter(|&pid| command_line(pid)[0] == "sh")?;
            (sleepers(&seconds).len() == SLEEPERS).then(|| vec![tender.id(), worker, program])
        });
        let all: Vec<u32> = parties.iter().copied().chain(sleepers(&seconds)).collect();
        match killed {
            "input" => drop(tender.stdin.take()),
            _ => signal(parties[number - 1], libc::SIGKILL),
        }
        tender.wait().unwrap();
        all_gone(&all, killed);
    }
}

/// An agent that is killed right after it has started who removes its folder has ended before that has looked who its parent is.
#[test]
fn the_folder_of_an_agent_that_has_ended_before_its_tender_began_is_removed() {
    let bench = Bench::new();
    let mut agent = Command::new("true").spawn().unwrap();
    agent.wait().unwrap();
    let (folder, owner) = (bench.path("files"), agent.id().to_string());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "x").unwrap();
    let arguments = ["tend", "--folder", folder.to_str().unwrap(), "--of", &owner];
    let mut tender = bench.command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    drop(tender.stdin.take());
    assert!(tender.wait().unwrap().success() && !folder.exists());
}

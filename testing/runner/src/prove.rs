//! How often the tests of the tier `code` fail, alone and beside load.

use crate::cargo::{self, Tier, target_folder};
use crate::outcome::{Outcome, State, counted, of_the_test};
use crate::record::{self, Table, commit, cpu};
use crate::run::{self, Manner};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// A busy loop for every CPU.
    Cpu,
    /// Random writes by this project's own disk engine, on the disk of the temporary folder.
    Disk,
    /// Several busy loops for every CPU, and such writes: a machine that is several times as slow.
    Slow,
}

/// Busy loops for every CPU of a machine made slow.
const LOOPS: usize = 6;

/// What runs beside each of twelve rounds.
const ROUNDS: [Beside; 12] = {
    use Beside::{Cpu, Disk, Nothing, Slow};
    [Nothing, Cpu, Slow, Disk, Nothing, Cpu, Nothing, Cpu, Nothing, Disk, Nothing, Cpu]
};

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "alone",
            Beside::Cpu => "a busy loop on each CPU",
            Beside::Disk => "random writes to the disk",
            Beside::Slow => "six busy loops on each CPU and random writes to the disk",
        }
    }

    /// How many busy loops for every CPU.
    fn loops(self) -> usize {
        match self {
            Beside::Nothing | Beside::Disk => 0,
            Beside::Cpu => 1,
            Beside::Slow => LOOPS,
        }
    }

    fn writes(self) -> bool {
        matches!(self, Beside::Disk | Beside::Slow)
    }
}

/// What makes the load, until it is dropped.
struct Load {
    children: Vec<Child>,
    folder: std::path::PathBuf,
}

const STUDY: &str = "\
[study]
title = \"load on the disk\"
[workload]
kind = \"block\"
size = \"256 MiB\"
duration = \"1 s\"
[factors]
environment = \"native\"
access = [\"random-write\", \"fsync\"]
[design]
quads = 1
precision = \"0.01 %\"
budget = \"60 min\"
least_blocks = 1000
most_blocks = 1000
";

impl Load {
    fn start(beside: Beside) -> Result<Self, String> {
        let folder = run::temporary_folder()?;
        let mut load = Load { children: Vec::new(), folder: folder.clone() };
        let mut commands = Vec::new();
        for _ in 0..beside.loops() * thread::available_parallelism().map_or(1, usize::from) {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            commands.push(command);
        }
        if beside.writes() {
            let study = folder.join("disk.toml");
            fs::write(&study, STUDY).map_err(|why| format!("{}: {why}", study.display()))?;
            let mut command = Command::new(target_folder().join("x86_64-unknown-linux-gnu/release/baremark"));
            command.arg("--store").arg(folder.join("store/baremark.db")).arg("run").arg(study);
            commands.push(command);
        }
        for mut command in commands {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            ends_with_this(&mut command);
            load.children.push(command.spawn().map_err(|why| format!("load: {why}"))?);
        }
        Ok(load)
    }

    /// Whether all of it still runs: a round beside load that ended early proves nothing.
    fn runs(&mut self) -> bool {
        self.children.iter_mut().all(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }
}

/// Has the command end with this process, however that ends.
fn ends_with_this(command: &mut Command) {
    // SAFETY: prctl takes two numbers, touches no memory of ours, and may be called between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It ends what it started.
            // SAFETY: kill takes two numbers and touches no memory of ours.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// `scripts/prove-gate N`.
pub fn prove(rounds: usize, recorded: bool) -> Result<ExitCode, String> {
    let tests = cargo::tests(Tier::Code, None)?;
    println!("\n| run | beside | passed, failed, skipped | seconds |\n|---|---|---|---|");
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    let mut good = [0; 4];
    for (round, beside) in ROUNDS.into_iter().cycle().take(rounds).enumerate() {
        let mut load = Load::start(beside)?;
        let begun = Instant::now();
        let outcomes = run::run(&tests, Manner::of(Tier::Code), |_, _, _| ())?;
        let seconds = begun.elapsed().as_secs_f64();
        let loaded = load.runs();
        drop(load);
        let ended = if loaded { "" } else { " (the load ended early)" };
        println!("| {} | {}{ended} | {} | {seconds:.0} |", round + 1, beside.name(), counted(&outcomes));
        let failed: Vec<&Outcome> = outcomes.iter().filter(|of| of.state == State::Failed).collect();
        for outcome in &failed {
            *failures.entry(outcome.test.full()).or_default() += 1;
            eprintln!(
                "\nFAILED {} ({:.1} s)\n{}\n",
                outcome.test.full(),
                outcome.seconds,
                of_the_test(&outcome.output)
            );
        }
        if failed.is_empty() && loaded {
            good[beside as usize] += 1;
        }
    }
    println!();
    for (test, times) in &failures {
        println!("failed in {times} of {rounds}: {test}");
    }
    let without = good.iter().sum::<usize>();
    println!(
        "{without} of {rounds} runs without a failure ({} alone, {} beside a busy loop on each CPU, {} beside random writes, {} on a machine made slow), {} tests, commit {}, {}",
        good[Beside::Nothing as usize],
        good[Beside::Cpu as usize],
        good[Beside::Disk as usize],
        good[Beside::Slow as usize],
        tests.len(),
        commit(),
        cpu(),
    );
    if recorded {
        record::add_row(Table::Proof, &[tests.len(), rounds, without, good[0], good[1], good[2], good[3]])?;
    }
    Ok(run::exit_code(without == rounds))
}

#[cfg(test)]
mod tests {
    use super::{Beside, ROUNDS};

    #[test]
    fn of_twelve_rounds_five_are_alone_four_beside_cpu_load_two_beside_disk_load_and_one_beside_much_of_both() {
        let number = |of| ROUNDS.iter().filter(|beside| **beside == of).count();
        assert_eq!([Beside::Nothing, Beside::Cpu, Beside::Disk, Beside::Slow].map(number), [5, 4, 2, 1]);
    }
}

//! How often the tests of the tier `code` fail, alone and beside load.

use crate::cargo::{self, Tier, target_folder};
use crate::outcome::{Outcome, State, counted, of_the_test};
use crate::record::{self, Table, commit, cpu};
use crate::run::{self, Manner};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
    /// Every few seconds all tests stand still at once, as on a machine that is suspended or whose hypervisor does not let it run.
    Pauses,
}

/// Busy loops for every CPU of a machine made slow.
const LOOPS: usize = 6;

/// What runs beside each of twelve rounds.
const ROUNDS: [Beside; 12] = {
    use Beside::{Cpu, Disk, Nothing, Pauses, Slow};
    [Nothing, Cpu, Slow, Disk, Pauses, Cpu, Nothing, Cpu, Nothing, Disk, Nothing, Cpu]
};

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "alone",
            Beside::Cpu => "a busy loop on each CPU",
            Beside::Disk => "random writes to the disk",
            Beside::Slow => "six busy loops on each CPU and random writes to the disk",
            Beside::Pauses => "pauses of all tests",
        }
    }

    /// How many busy loops for every CPU.
    fn loops(self) -> usize {
        match self {
            Beside::Nothing | Beside::Disk | Beside::Pauses => 0,
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
    folder: PathBuf,
    frozen: Option<Freezer>,
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
        let frozen = if beside == Beside::Pauses { Some(Freezer::new()?) } else { None };
        let folder = run::temporary_folder()?;
        let mut load = Load { children: Vec::new(), folder: folder.clone(), frozen };
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
        commands.extend(load.frozen.as_ref().map(Freezer::pauses));
        for mut command in commands {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            ends_with_this(&mut command);
            load.children.push(command.spawn().map_err(|why| format!("load: {why}"))?);
        }
        // What pauses the tests is not paused itself: it was started before.
        if let Some(frozen) = &load.frozen {
            frozen.enter()?;
        }
        Ok(load)
    }

    /// Whether all of it still runs: a round beside load that ended early proves nothing.
    fn runs(&mut self) -> bool {
        self.children.iter_mut().all(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }
}

/// A control group of this process and the tests that it starts, which the kernel stops and lets go on as a whole.
struct Freezer {
    /// Where this process was before.
    outside: PathBuf,
    group: PathBuf,
    /// The file that says whether the group is stopped, and what stands in it then and otherwise.
    state: PathBuf,
    stopped: &'static str,
    going: &'static str,
}

/// What the names of such groups begin with.
const GROUP: &str = "baremark-prove-";

/// Stops the group again and again, after so many seconds for as many as stand with them. Some gaps are longer than the 5 s that tests wait for peers that say nothing: a read
/// that a stop interrupts waits that long again. A request to end is heard between two of its commands, with the group going on.
const PAUSES: &str = "trap 'echo \"$3\" >\"$1\"' EXIT; trap exit TERM
while :; do for both in '1.1 0.2' '6 3' '2.3 0.7' '0.6 1.6' '6 0.1' '3 2.3' '1.7 1.1'; do
sleep \"${both% *}\"; echo \"$2\" >\"$1\"; sleep \"${both#* }\"; echo \"$3\" >\"$1\"
done; done";

impl Freezer {
    /// A group below that of this process, in a hierarchy that can stop it.
    fn new() -> Result<Freezer, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|why| format!("/proc/self/cgroup: {why}"))?;
        let of = |controllers: &str| {
            let fields = groups.lines().map(|line| line.splitn(3, ':').skip(1));
            let path =
                fields.filter_map(|mut of| Some((of.next()?, of.next()?))).find(|(name, _)| *name == controllers)?.1;
            Some(path.trim_start_matches('/').to_owned())
        };
        let (outside, state, stopped, going) = match of("freezer") {
            Some(path) => (Path::new("/sys/fs/cgroup/freezer").join(path), "freezer.state", "FROZEN", "THAWED"),
            None => (Path::new("/sys/fs/cgroup").join(of("").unwrap_or_default()), "cgroup.freeze", "1", "0"),
        };
        // Those of runs that were killed.
        for left in fs::read_dir(&outside).into_iter().flatten().flatten() {
            if left.file_name().to_string_lossy().starts_with(GROUP) {
                let _ = fs::remove_dir(left.path());
            }
        }
        let group = outside.join(format!("{GROUP}{}", std::process::id()));
        fs::create_dir(&group).map_err(|why| {
            format!("{}: {why}; the round with pauses needs root and a group that can be stopped", group.display())
        })?;
        Ok(Freezer { outside, state: group.join(state), group, stopped, going })
    }

    fn pauses(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", PAUSES, "pauses"]).arg(&self.state).args([self.stopped, self.going]);
        command
    }

    fn enter(&self) -> Result<(), String> {
        let file = self.group.join("cgroup.procs");
        fs::write(&file, "0").map_err(|why| format!("{}: {why}", file.display()))
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.outside.join("cgroup.procs"), "0");
        let _ = fs::remove_dir(&self.group);
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
    // Known before rounds are spent.
    if ROUNDS.into_iter().cycle().take(rounds).any(|beside| beside == Beside::Pauses) {
        drop(Freezer::new()?);
    }
    let tests = cargo::tests(Tier::Code, None)?;
    println!("\n| run | beside | passed, failed, skipped | seconds |\n|---|---|---|---|");
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    let mut good = [0; 5];
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
        "{without} of {rounds} runs without a failure ({} alone, {} beside a busy loop on each CPU, {} beside random writes, {} on a machine made slow, {} with pauses), {} tests, commit {}, {}",
        good[Beside::Nothing as usize],
        good[Beside::Cpu as usize],
        good[Beside::Disk as usize],
        good[Beside::Slow as usize],
        good[Beside::Pauses as usize],
        tests.len(),
        commit(),
        cpu(),
    );
    if recorded {
        record::add_row(Table::Proof, &[tests.len(), rounds, without, good[0], good[1], good[2], good[3], good[4]])?;
    }
    Ok(run::exit_code(without == rounds))
}

#[cfg(test)]
mod tests {
    use super::{Beside, ROUNDS};

    #[test]
    fn of_twelve_rounds_four_are_alone_four_beside_cpu_load_two_beside_disk_load_one_beside_much_of_both_and_one_with_pauses()
     {
        let number = |of| ROUNDS.iter().filter(|beside| **beside == of).count();
        assert_eq!(
            [Beside::Nothing, Beside::Cpu, Beside::Disk, Beside::Slow, Beside::Pauses].map(number),
            [4, 4, 2, 1, 1]
        );
    }
}

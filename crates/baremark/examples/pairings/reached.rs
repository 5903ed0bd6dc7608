//! What the program itself reaches against a limit: starting, deciding, reporting.

use crate::verdict::within;
use crate::{Bench, Outcome, ours};
use baremark_stats::Estimate;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Starts of a machine.
const STARTS: usize = 30;
/// The limit of a start, in milliseconds.
const START_MS: f64 = 10.0;

/// From the request to the end of a microVM's first, empty region.
pub fn start(_: &Bench) -> Outcome<String> {
    let times = (0..STARTS).map(|_| Ok(1e3 * ours::first_instruction()?)).collect::<Outcome<Vec<f64>>>()?;
    let found = Estimate::of(&times).ok_or("too few starts")?.interval(0.95);
    let judged = within(found.lo, found.hi, START_MS);
    Ok(format!("{:.2} ms [{:.2}, {:.2}]  limit {START_MS} ms  {judged}", found.centre, found.lo, found.hi))
}

/// The precision that random access in large pages reaches in a minute.
pub fn random_access(_: &Bench) -> Outcome<String> {
    precision("kind = \"random-access\"\ntable = \"256 MiB\"", "2m", "60 s", 0.02)
}

/// The precision that the control reaches in a third of a minute.
pub fn fma(_: &Bench) -> Outcome<String> {
    precision("kind = \"fma\"", "2m", "20 s", 0.005)
}

fn precision(workload: &str, page: &str, budget: &str, goal: f64) -> Outcome<String> {
    let folder = tempfile::tempdir()?;
    let study = folder.path().join("bench.toml");
    let percent = 100.0 * goal;
    fs::write(
        &study,
        format!(
            "[study]\ntitle = \"bench\"\n[workload]\n{workload}\n[factors]\nenvironment = [\"native\", \"microvm\"]\npage = \
             \"{page}\"\nhost_backing = \"{page}\"\n[design]\nprecision = \"{percent} %\"\nbudget = \"{budget}\"\n[report]\n\
             ratio_to = {{ environment = \"native\" }}\n"
        ),
    )?;
    let done = Command::new(program()?)
        .args(["--store".as_ref(), folder.path().join("bench.db").as_os_str(), "--json".as_ref(), "run".as_ref()])
        .arg(&study)
        .stdin(Stdio::null())
        .output()?;
    let document: serde_json::Value = serde_json::from_slice(&done.stdout)
        .map_err(|why| format!("{why}: {}", String::from_utf8_lossy(&done.stderr).trim()))?;
    let row = document["ratios"].as_array().and_then(|rows| rows.first()).ok_or("the run gave no ratio")?;
    let number = |key: &str| row[key].as_f64().ok_or_else(|| format!("the ratio has no {key}: {}", row["words"]));
    let (ratio, lo, hi) = (number("ratio")?, number("lo")?, number("hi")?);
    let half = ((hi / lo).ln() / 2.0).exp_m1();
    let judged = if half <= goal { "ok" } else { "SHORT" };
    Ok(format!(
        "ratio {ratio:.4} +-{:.2} % from {} blocks within {budget}  goal +-{percent} %  {judged}",
        100.0 * half,
        row["blocks"]
    ))
}

/// Samples of the run that is reported.
const SAMPLES: u64 = 1_000_000;

/// Analysis and page of a run of a million samples, made by repeating the trials of a short one in its store.
pub fn report(_: &Bench) -> Outcome<String> {
    let folder = tempfile::tempdir()?;
    let (study, store) = (folder.path().join("bench.toml"), folder.path().join("bench.db"));
    fs::write(
        &study,
        "[study]\ntitle = \"bench\"\n[workload]\nkind = \"stream\"\narray = \"8 MiB\"\nsmall = true\n[factors]\nenvironment = \
         [\"native\", \"microvm\"]\n[design]\nphase = \"50 ms\"\nleast_blocks = 10\nmost_blocks = 10\n[report]\nratio_to = { \
         environment = \"native\" }\n",
    )?;
    let store_argument = ["--store".as_ref(), store.as_os_str()];
    let made = Command::new(program()?).args(store_argument).arg("run").arg(&study).output()?;
    if !store.exists() {
        return Err(format!("no run was made: {}", String::from_utf8_lossy(&made.stderr).trim()).into());
    }
    let repeated = Command::new("python3").arg("-c").arg(REPEAT).arg(&store).arg(SAMPLES.to_string()).output()?;
    let samples = String::from_utf8_lossy(&repeated.stdout).trim().to_owned();
    if !repeated.status.success() {
        return Err(format!("repeating trials: {}", String::from_utf8_lossy(&repeated.stderr).trim()).into());
    }
    let begun = Instant::now();
    let mut child = Command::new(program()?);
    child.args(store_argument).args(["report", "--html"]).arg(folder.path().join("bench.html"));
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut said = String::new();
    child.stderr.take().ok_or("no standard error")?.read_to_string(&mut said)?;
    let (ended_well, megabytes) = wait(&child)?;
    let seconds = begun.elapsed().as_secs_f64();
    if !ended_well {
        return Err(said.trim().to_owned().into());
    }
    let judged = if seconds <= 2.0 && megabytes <= 500.0 { "ok" } else { "SHORT" };
    Ok(format!("{samples} samples in {seconds:.2} s and {megabytes:.0} MB  limits 2 s, 500 MB  {judged}"))
}

/// Waits for a child: whether it ended well, and the most memory that it has had, in 10^6 bytes.
fn wait(child: &Child) -> Outcome<(bool, f64)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers; wait4 fills it and the status, which both outlive the call, and reaps a child of ours
    // that nothing else waits for.
    #[expect(unsafe_code, reason = "the kernel tells the peak of one child by this call alone")]
    let (reaped, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage), usage)
    };
    if reaped < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    #[expect(clippy::cast_precision_loss, reason = "kibibytes of memory")]
    let kib = usage.ru_maxrss as f64;
    Ok((status == 0, 1.024e-3 * kib))
}

/// Repeats the trials of the only run in new blocks until it holds as many samples as asked.
const REPEAT: &str = r#"
import json, sqlite3, sys
store, wanted = sqlite3.connect(sys.argv[1]), int(sys.argv[2])
columns = [row[1] for row in store.execute("PRAGMA table_info(trial)")]
rows = [dict(zip(columns, row)) for row in store.execute("SELECT * FROM trial ORDER BY seq")]
def samples(result):
    phases = json.loads(result)["phases"]
    return sum(len(phase["samples"]) + sum(len(half["samples"]) for half in phase["halves"]) for phase in phases)
each = sum(samples(row["result"]) for row in rows if row["result"])
blocks, turns = max(row["block"] for row in rows) + 1, -(-wanted // each)
for turn in range(1, turns):
    for row in rows:
        new = dict(row, seq=row["seq"] + turn * len(rows), block=row["block"] + turn * blocks)
        store.execute(f"INSERT INTO trial ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})", [new[c] for c in columns])
store.commit()
print(turns * each)
"#;

/// The program that belongs to this bench: it lies one folder up.
fn program() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().and_then(|examples| examples.parent()).map(|folder| folder.join("baremark"));
    Ok(program.filter(|path| path.is_file()).ok_or("baremark is not built; run `make build`")?)
}

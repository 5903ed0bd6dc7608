//! Random sequences of system calls, natively and in the guest, each as an unprivileged user in namespaces of its own.
//!
//! A sequence that differs is made smaller and printed with its seed and both traces: `guest-probe sequence SEED [LEFT,OUT,STEPS]` runs it alone, and
//! `BAREMARK_SEQUENCE=SEED` has a test compare it alone.
#![expect(clippy::print_stdout, reason = "how far a long run has come")]

use crate::confined::{confine, is_possible, program, result_file};
use crate::support::{Ended, command, has_kvm, inside, skip};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Sequences of one process.
const BATCH: u64 = 2500;
/// Batches at once.
const AT_ONCE: u64 = 2;
/// Sequences that differ of which all is shown.
const SHOWN: usize = 3;
/// A sequence that differs runs again so often at most, to become smaller.
const MOST_STEPS: u64 = 31;
/// No batch of sequences takes longer.
const LIMIT: Duration = Duration::from_secs(240);

/// How a run ended, and the traces that it gave.
type Traces = (ExitStatus, Vec<u64>);

fn traces(file: &File, count: u64) -> Vec<u64> {
    let mut bytes = vec![0; 8 * usize::try_from(count).unwrap()];
    // A file that was not made long enough has no trace at its end.
    let read = file.read_at(&mut bytes, 0).unwrap();
    bytes[read..].fill(0);
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn batch_natively(first: u64, count: u64) -> Traces {
    let folder = tempfile::tempdir().unwrap();
    let (file, stdout) = result_file();
    let mut command = Command::new(program());
    command.args(["sequences", &first.to_string(), &count.to_string()]).stdin(Stdio::null()).stdout(stdout);
    confine(&mut command, folder.path());
    let status = command.status().unwrap();
    (status, traces(&file, count))
}

fn batch_inside(first: u64, count: u64) -> Traces {
    let folder = tempfile::tempdir().unwrap();
    let (file, stdout) = result_file();
    let mut inside = baremark_guest_program::Command::new(program());
    inside.args(["sequences", &first.to_string(), &count.to_string()]).stdin(Stdio::null()).stdout(stdout);
    inside.time_limit(LIMIT);
    confine(inside.process(), folder.path());
    let report = inside.status().unwrap();
    (report.status, traces(&file, count))
}

/// The traces of one sequence without some of its steps: natively and in the guest.
fn one(seed: u64, left_out: &[u64]) -> [Ended; 2] {
    let left_out = left_out.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let arguments = ["sequence", &seed.to_string(), &left_out];
    let folder = tempfile::tempdir().unwrap();
    let mut native = Command::new(program());
    native.args(arguments).stdin(Stdio::null());
    confine(&mut native, folder.path());
    let output = native.output().unwrap();
    let mut guest = command(program(), &arguments);
    confine(guest.process(), folder.path());
    [Ended::new(output.status, &output.stdout, &output.stderr), inside(guest).0]
}

/// A sequence that differs, with as few steps as differ still.
fn smaller(seed: u64) -> String {
    let differs = |left_out: &[u64]| {
        let [natively, inside] = one(seed, left_out);
        (natively != inside).then_some((natively, inside))
    };
    let Some(mut shown) = differs(&[]) else {
        return format!("sequence {seed} differs after those before it, and not alone");
    };
    let mut left_out = Vec::new();
    for step in 0..MOST_STEPS {
        left_out.push(step);
        match differs(&left_out) {
            Some(still) => shown = still,
            None => drop(left_out.pop()),
        }
    }
    let (natively, inside) = shown;
    let steps = left_out.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    format!("guest-probe sequence {seed} {steps}\nnatively {natively:?}\nin the guest {inside:?}")
}

/// Seeds of a batch whose traces differ. A process that ended early has no trace for what came after.
fn different(first: u64, count: u64) -> Vec<u64> {
    let (natively, inside) = (batch_natively(first, count), batch_inside(first, count));
    let early = natively.1.iter().position(|trace| *trace == 0);
    assert!(
        natively.0.success() && early.is_none(),
        "sequences from {first} end natively: {:?}, {early:?}",
        natively.0
    );
    let pairs = (first..).zip(natively.1.iter().zip(&inside.1));
    let seeds: Vec<u64> = pairs.filter(|(_, (native, guest))| native != guest).map(|(seed, _)| seed).collect();
    assert!(inside.0.success() || !seeds.is_empty(), "sequences from {first} end in the guest: {:?}", inside.0);
    // After the end of the process everything differs; the first tells why.
    let lost = inside.1.iter().filter(|trace| **trace == 0).count().saturating_sub(1);
    seeds[..seeds.len() - lost].to_vec()
}

fn compare(first: u64, count: u64) {
    if !has_kvm() {
        return;
    }
    if let Err(why) = is_possible() {
        return skip(&why);
    }
    let began = Instant::now();
    let batches: Vec<u64> = (first..first + count).step_by(usize::try_from(BATCH).unwrap()).collect();
    let mut seeds = Vec::new();
    for at_once in batches.chunks(usize::try_from(AT_ONCE).unwrap()) {
        let run = |from: &u64| {
            let from = *from;
            thread::spawn(move || different(from, BATCH.min(first + count - from)))
        };
        let threads: Vec<_> = at_once.iter().map(run).collect();
        threads.into_iter().for_each(|thread| seeds.extend(thread.join().unwrap()));
        let done = (at_once[0] + AT_ONCE * BATCH - first).min(count);
        println!("{done} sequences: {} differ, {:.0} s", seeds.len(), began.elapsed().as_secs_f64());
    }
    let shown: Vec<String> = seeds.iter().take(SHOWN).map(|seed| smaller(*seed)).collect();
    assert!(seeds.is_empty(), "{} of {count} sequences differ: {seeds:?}\n{}", seeds.len(), shown.join("\n\n"));
}

#[test]
fn random_sequences_of_calls_give_the_same_trace() {
    match std::env::var("BAREMARK_SEQUENCE").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => compare(seed, 1),
        None => compare(1, 10_000),
    }
}

#[test]
#[ignore = "a million sequences: `make soak`"]
fn soak_random_sequences() {
    let count = std::env::var("BAREMARK_SEQUENCES").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    compare(1_000_000, count);
}

//! The soak: a bounded, repeatable run of one target on stable Rust. `soak TARGET [CASES [SEED]]`
#![forbid(unsafe_code)]

use baremark_fuzz::{bodies, files, mutate, traces};
use baremark_load::strangers;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, absent: u64| arguments.get(at).map_or(Ok(absent), |text| text.parse::<u64>());
    let target = arguments.first().map_or("", String::as_str);
    let body: fn(&[u8]) = match target {
        "study" => bodies::study,
        "bundle" => files::bundle,
        "import" => files::import,
        "frame" => bodies::frame,
        "http1" => strangers::http1,
        "http2" => strangers::http2,
        "trace" => traces::trace,
        "machine" => traces::machine,
        "scenario" => strangers::scenario,
        _ => return usage(),
    };
    let (Ok(cases), Ok(seed)) = (number(1, 1_000_000), number(2, 1)) else { return usage() };
    soak(target, body, cases, seed)
}

fn usage() -> ExitCode {
    eprintln!("usage: soak study|bundle|import|frame|http1|http2|scenario|trace|machine [CASES [SEED]]");
    ExitCode::from(2)
}

fn soak(target: &str, body: fn(&[u8]), cases: u64, seed: u64) -> ExitCode {
    let corpus = corpus(target);
    println!("soak {target}: {cases} cases from {} seeds, seed {seed}", corpus.len());
    let begun = Instant::now();
    for case in 0..cases {
        let mut data = mutate::case(&corpus, seed, case);
        if target == "frame" && case % 2 == 0 {
            mutate::mend_length(&mut data);
        }
        if catch_unwind(AssertUnwindSafe(|| body(&data))).is_err() {
            return failed(target, seed, case, &data);
        }
        if case > 0 && case.is_multiple_of(1_000_000) {
            println!("soak {target}: {case} cases, {:.0} s", begun.elapsed().as_secs_f64());
        }
    }
    println!("soak {target}: {cases} cases passed in {:.1} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// The seeds of a target, in the order of their names so that a case is the same everywhere.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

fn failed(target: &str, seed: u64, case: u64, data: &[u8]) -> ExitCode {
    eprintln!("soak {target}: seed {seed}, case {case} failed on: {}", data.escape_ascii());
    let folder = format!("{}/artifacts/{target}", env!("CARGO_MANIFEST_DIR"));
    let path = format!("{folder}/soak-{seed}-{case}");
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&path, data)) {
        Ok(()) => eprintln!("the input is in {path}"),
        Err(why) => eprintln!("the input could not be kept in {path}: {why}"),
    }
    ExitCode::FAILURE
}
